"""The composer: the same composite for the same seed, all classes and shapes drawn, faults that change readings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.adversary.classes import CLASSES, MOST_ROUTED
from fabricmon.adversary.composite import STRESSES, Composite, compose
from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import SHAPES, draw_fabric
from fabricmon.adversary.places import PLACES, Places
from fabricmon.adversary.scene import Transit
from fabricmon.model import Kind
from tests.adversary.watcher import Played, play

pytestmark = pytest.mark.timeout(600)  # whole composites are played

SEED = 1  # the seed of development, never scored
SMALL = 60  # hosts at most


def _brief(composite: Composite) -> object:
    """What a composite is, in values that can be compared."""
    return (
        composite.fabric.shape, composite.fabric.layout.hosts, composite.fabric.site, composite.fabric.layout.marks,
        composite.jobs, composite.steady, composite.offsets, composite.unsteady, composite.sweeper, composite.end,
        [(fault.of.name, fault.place, fault.course.rows, [act.at for act in fault.course.acts])
         for fault in composite.faults],
        [act.at for act in composite.noise.acts], composite.noise.missing, composite.noise.silent,
        composite.map.stated, composite.map.wrong,
    )  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, 10**6), stress=st.sampled_from(["", *STRESSES]))
def test_the_same_seed_and_number_make_the_same_composite(number: int, stress: str) -> None:
    assert _brief(compose(SEED, number, stress, SMALL)) == _brief(compose(SEED, number, stress, SMALL))


def test_a_stress_changes_its_own_part_only() -> None:
    for number in range(6):
        base = compose(SEED, number, "", SMALL)
        for stress in STRESSES:
            other = compose(SEED, number, stress, SMALL)
            assert other.fabric.layout.hosts == base.fabric.layout.hosts
            assert [fault.of.name for fault in other.faults if not fault.of.swept] == [
                fault.of.name for fault in base.faults if not fault.of.swept
            ] or base.sweeper >= 0  # without a sweep other faults are possible


def test_stresses_do_what_they_say() -> None:
    hosts = [compose(SEED, number, "silent 20", SMALL) for number in range(12)]
    share = [len(c.noise.silent) / len(c.fabric.layout.hosts) for c in hosts]
    assert np.mean(share) == pytest.approx(0.2, abs=0.03)
    assert all(compose(SEED, number, "no topology", SMALL).map.graph is None for number in range(5))
    calm = sum(len(compose(SEED, number, "", SMALL).noise.fallen) for number in range(15))
    assert sum(len(compose(SEED, number, "stray", SMALL).noise.fallen) for number in range(15)) > 5 * max(1, calm)
    for number in range(12):
        filed = compose(SEED, number, "filed", SMALL)
        cables = [c for c in filed.fabric.layout.graph.cables if filed.fabric.layout.cable.max() >= 0]
        if len(cables) >= 100:
            assert filed.map.wrong


def test_an_unknown_stress_is_an_error() -> None:
    with pytest.raises(ValueError, match="stress is one of"):
        compose(SEED, 0, "darkness")


def test_every_shape_is_drawn_and_sizes_are_within_their_bounds() -> None:
    fabrics = [draw_fabric(Draw(SEED, number), 60) for number in range(120)]
    assert {fabric.shape for fabric in fabrics} == set(SHAPES)
    for fabric in fabrics:
        assert len(fabric.layout.hosts) >= 8
        assert len(set(fabric.layout.hosts)) == len(fabric.layout.hosts)
        assert {fabric.layout.link_layer} <= {"InfiniBand", "Ethernet", "EFA"}


def test_every_class_of_fault_has_a_course_on_some_fabric() -> None:
    drawn: set[str] = set()
    for number in range(70):
        fabric = draw_fabric(Draw(SEED, number), 150)
        for at, one in enumerate(CLASSES):
            if one.name in drawn or fabric.layout.link_layer not in one.layers:
                continue
            draw = Draw(number, at)
            place = Places(fabric, Transit(fabric)).draw(one.place, draw)
            if place is not None:
                course = one.how(draw, fabric.layout, place, 300.0)
                assert course.acts
                assert min(act.at for act in course.acts) >= 300.0
                assert course.ready >= 300.0
                assert course.rows or course.hosts or course.gpus or course.cables
                drawn.add(one.name)
    assert drawn == {one.name for one in CLASSES}


def test_parts_of_places_belong_together() -> None:
    for number in range(25):
        fabric = draw_fabric(Draw(SEED, number), 120)
        layout, draw = fabric.layout, Draw(number, "places")
        for sort in PLACES:
            place = Places(fabric, Transit(fabric)).draw(sort, draw)
            if place is None:
                continue
            leaves = {int(layout.leaf[row]) for row in place.rows}
            hosts = {int(layout.host_of[row]) for row in place.rows}
            if sort in ("leaf", "module", "quadrant", "line_card"):
                assert len(leaves) == 1
            if sort in ("link", "nic", "cage", "pcie_switch", "host"):
                assert len(hosts) == 1
            if sort == "module":
                assert len(place.rows) == 2
            assert place.rows or place.gpus or place.cables


def test_no_two_faults_of_a_composite_share_a_part() -> None:
    for number in range(40):
        rows = Counter(row for fault in compose(SEED, number, "", SMALL).faults for row in fault.place.rows)
        assert not [row for row, times in rows.items() if times > 1]


@pytest.fixture(scope="module")
def played() -> list[Played]:
    return [play(compose(SEED, number, "", 40)) for number in range(7)]


def test_nothing_differs_without_the_faults() -> None:
    for number in (0, 2, 4):
        found = play(compose(SEED, number, "", 40), faults=False)
        assert not found.truth.touched
        assert not any(cause.visible for cause in found.truth.causes)


def test_faults_change_readings_after_they_begin_and_not_before(played: list[Played]) -> None:
    pairs = [zip(one.truth.causes, one.composite.faults, strict=True) for one in played]
    causes = [pair for of_one in pairs for pair in of_one]
    assert len(causes) >= 5
    assert sum(cause.visible for cause, _ in causes) >= 0.8 * len(causes)
    for cause, fault in causes:
        assert all(at >= fault.start for at in cause.shown.values())
        assert not cause.visible or cause.due > cause.seen >= fault.start


def test_agents_of_one_poll_are_read_at_moments_of_their_own(played: list[Played]) -> None:
    for one in played:
        hosts = len(one.composite.fabric.layout.hosts)
        assert len(set(one.delivery.quarter.tolist())) == min(len(one.composite.offsets), hosts)


def test_delivered_values_are_those_of_the_fabric_and_missing_ones_are_unknown(played: list[Played]) -> None:
    unknown = 0
    for one in played:
        table = one.watcher.fleet.tables[Kind.PORT]
        layout, delivery = one.composite.fabric.layout, one.delivery
        for (kind, column), hosts in delivery.missing.items():
            if kind is not Kind.PORT:
                continue
            for host in np.flatnonzero(hosts & delivery.live)[:3].tolist():
                mine = [at for at, id in enumerate(table.ids) if id.node == layout.hosts[host]]
                own = [at for at in mine if not table.labels[at].get("swept")]
                assert np.isnan(table.cells[table.columns[column], own]).all()
                unknown += 1
        state = table.columns["state"]
        for row in range(0, layout.ports, 7):
            host = int(layout.host_of[row])
            node = one.watcher.fleet.nodes[layout.hosts[host]]
            if delivery.live[host] and one.delivery.scene.world.present[row] and node.rows.get(Kind.PORT):
                at = node.rows[Kind.PORT].get(layout.row_name(row))
                assert at is not None
                assert table.cells[state, at] in (1.0, 2.0, 4.0)
    assert unknown


def test_no_pcie_link_of_a_host_at_work_saves_power() -> None:
    """A device that stays slow under load is at fault, so that it would be no look-alike."""
    saved = 0
    for number in range(60):
        composite = compose(SEED, number, "", SMALL)
        if "idle PCIe" not in composite.noise.lookalikes or not any(job.starts > 0 for job in composite.jobs):
            continue
        scene = composite.scene()
        for act in sorted(composite.noise.acts, key=lambda act: act.at):
            scene.advance(act.at)
            act.do(scene)
        scene.advance(composite.end)
        inside, layout = scene.world.inside, composite.fabric.layout
        saving = [bool(inside.saving[inside.pcie_rows(host)].any()) for host in range(len(layout.hosts))]
        saved += sum(saving)
        assert not (np.array(saving) & ~scene.world.idle_hosts()).any()
    assert saved


def test_large_fabrics_have_no_faults_whose_flows_would_be_routed() -> None:
    composite = next(c for n in range(60) if (c := compose(SEED, n, "", 1500)).fabric.layout.ports > MOST_ROUTED)
    assert not any(fault.of.small for fault in composite.faults)
