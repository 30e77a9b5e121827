"""Ports of which no map, or a wrong one, shows what they share: in maintenance windows, and at one moment."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import FLOW_MODES, Mode
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, TOGETHER_MODES
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.unmapped_maintenance import UnmappedMaintenance, unknown_components
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints
from fabricmon.model import Kind, Maintenance
from fabricmon.topology.graph import End, Graph, cable
from tests.engine.conftest import RATE, World
from tests.engine.test_many_at_once import broken, of_hosts

DOWN, FLAPPING, FELL = SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_FELL
LOSS = SymptomType.FLOW_LOSS
LEAF = "leaf(su9/rail1)"


# --- maintenance of what the topology does not have


def test_what_fails_in_the_window_of_an_unknown_leaf_is_probably_that_leaf(world: Any) -> None:
    w = world(hosts=16, topology=False)
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 600, components=(LEAF,))])
    w.run(5)
    w.break_links(w.ports(w.hosts[:8], 1))
    w.run(60)
    assert w.firing("warning") == []
    (found,) = [incident for incident in w.firing("info") if incident.kind == "fault_domain"]
    assert found.confidence < 0.5
    assert found.candidates[0] == LEAF
    assert LEAF in found.why
    assert found.members.bad == 8

    w.break_links(w.ports(w.hosts[8:], 2))
    w.run(60)
    assert [incident.severity for incident in w.firing("warning")] == ["critical"], "one leaf is one group"

    w.run(600, step=5.0)
    assert len(w.firing("critical")) == 2, "after the window it is a fault like any other"


def test_what_failed_before_the_window_is_not_its_work(world: Any) -> None:
    w = world(hosts=16, topology=False)
    w.break_links(w.ports(w.hosts[:8], 1))
    w.run(3)
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 600, components=(LEAF,))])
    w.run(60)
    assert [incident.severity for incident in w.firing("warning")] == ["critical"]


@pytest.mark.parametrize("links", [4, 8])
def test_links_of_one_host_may_be_on_the_unknown_leaf(world: Any, links: int) -> None:
    """All of a host are on one leaf in some fabrics; what some of them share has no name without a map."""
    w = world(hosts=16, topology=False)
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 600, components=(LEAF,))])
    w.run(5)
    w.break_links(sorted(w.ports(["host-003"]))[:links])
    w.run(90)
    assert w.told("warning") == set()


def test_a_second_host_is_not_on_the_unknown_leaf(world: Any) -> None:
    w = world(hosts=16, topology=False)
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 600, components=(LEAF,))])
    w.run(5)
    w.break_links(w.ports(["host-003"]))
    w.run(90)
    w.break_links(w.ports(["host-007"]))
    w.run(90)
    assert [incident.component for incident in w.firing("warning")] == ["host(host-007)"]


def test_a_second_window_of_a_name_has_a_first_group_of_its_own(world: Any) -> None:
    w = world(hosts=16, topology=False)
    for rail in (1, 2):
        w.engine.maintenance([Maintenance(f"m-{rail}", w.now, w.now + 200, components=(LEAF,))])
        w.run(5)
        w.break_links(w.ports(w.hosts[:8], rail))
        w.run(60)
        w.mend(w.ports(w.hosts[:8], rail))
        w.run(300, step=2.0)
    assert w.told("warning") == set()


def verdict(name: str, rows: list[int], onset: float) -> FaultVerdict:
    mode = next(mode for mode in (*TOGETHER_MODES, *HARD_MODES) if mode.name == name)
    return FaultVerdict((mode,), 0, 0.99, 0.99, 50.0, {DOWN: np.array(rows)}, onset, {}, (), None)


def test_the_first_group_of_a_window_stays_its_work_while_any_of_its_ports_fails() -> None:
    work, domains = UnmappedMaintenance(), of_hosts(8, 2)
    first, second = verdict("links down", [0, 2, 4, 6], 100.0), verdict("links down", [1, 3, 5, 7], 110.0)
    found = [v.maintained for v in work.applied([second, first], {LEAF: 90.0}, domains)]
    assert found == ["", LEAF]
    assert [v.maintained for v in work.applied([second], {LEAF: 90.0}, domains)] == [""]
    fewer = verdict("links down", [4, 6, 9], 100.0)
    assert [v.maintained for v in work.applied([second, fewer], {LEAF: 90.0}, domains)] == ["", LEAF]
    other = verdict("links down", [1, 6, 11, 13], 130.0)
    assert [v.maintained for v in work.applied([second, other], {LEAF: 90.0}, domains)] == ["", ""]
    assert [v.maintained for v in work.applied([second], {}, domains)] == [""], "the window is over"
    assert [v.maintained for v in work.applied([second], {LEAF: 90.0}, domains)] == [LEAF], "another window"


def test_a_group_of_which_a_leaf_is_known_is_no_unknown_leaf() -> None:
    domains = of_hosts(8, 2)
    domains.port.ids["leaf"][0] = 3
    (found,) = UnmappedMaintenance().applied([verdict("links down", [0, 2, 4, 6], 100.0)], {LEAF: 90.0}, domains)
    assert (found.maintained, found.confidence) == ("", 0.99)


@pytest.mark.parametrize(("name", "unknown"), [
    ("leaf(su0/rail1)", False), ("leaf(su9/rail1)", True), ("leaf(su*/rail1)", False), ("link(a/mlx5_0/1)", False),
    ("host-007", False),
])  # fmt: skip
def test_only_whole_names_that_the_topology_does_not_have_are_unknown(name: str, unknown: bool) -> None:
    domains = of_hosts(2, 2)
    domains.names["leaf"].append("su0/rail1")
    assert unknown_components([(name, 5.0)], domains, ("leaf",)) == ({name: 5.0} if unknown else {})


# --- filed at the wrong place


class Swapped(World):
    """host-000 and host-008 are each filed with the other's cable of rail 1."""

    swapped = True

    def _graph(self, units: int, rack: int) -> Graph:
        graph = super()._graph(units, rack)
        if not self.swapped:
            return graph
        mine, other = (f"0x{0xBB0000 + n * 64 + 1:016x}" for n in (0, 8))
        ends = {near.node: far for c in graph.cables for near, far in ((c.a, c.b), (c.b, c.a))}
        cables = tuple(c for c in graph.cables if not {c.a.node, c.b.node} & {mine, other})
        crossed = tuple(cable(End(near, 1), ends[far], RATE, 4) for near, far in ((mine, other), (other, mine)))
        return type(graph)(graph.switches, graph.adapters, (*cables, *crossed), graph.hosts, "test")


@pytest.mark.parametrize("swapped", [True, False])
def test_a_port_that_fell_with_a_maintained_leaf_is_its_own_if_one_filed_there_stayed_up(swapped: bool) -> None:
    """Without a wrong record all ports of the leaf fall, and one more cable that falls at that moment is broken."""
    made = type("Made", (Swapped,), {"swapped": swapped})(units=2)
    leaf = made.ports(made.hosts[:8], 1)
    extra = set() if swapped else {("host-008", 1)}
    made.engine.maintenance([Maintenance("m-1", made.now, made.now + 600, components=("leaf(su0/rail1)",))])
    made.run(5)
    made.break_links(leaf | extra)
    made.run(60)
    assert [incident.parts for incident in made.firing("warning")] == [("host-008/mlx5_1/1",)] * len(extra)


def windows(w: World, *leaves: str) -> None:
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 600, components=leaves)])
    w.run(5)


def test_a_leaf_that_fails_beside_a_maintained_one_is_no_wrong_record_of_it(world: Any) -> None:
    """Healthy ports of a third leaf in the same window are no other halves of wrong records."""
    w = world(units=3)
    windows(w, "leaf(su0/rail1)", "leaf(su2/rail1)")
    w.break_links(w.ports(w.hosts[:16], 1))
    w.run(60)
    assert w.kinds() == [("fault_domain", "leaf(su1/rail1)")]


def test_half_of_a_leaf_that_fails_with_half_of_a_maintained_one_is_no_wrong_record(world: Any) -> None:
    w = world(units=2)
    windows(w, "leaf(su0/rail1)")
    w.break_links(w.ports([*w.hosts[:4], *w.hosts[8:12]], 1))
    w.run(60)
    assert {part for incident in w.firing() for part in incident.parts} == {f"{h}/mlx5_1/1" for h in w.hosts[8:12]}


def test_what_fell_before_the_window_is_no_port_of_what_is_maintained(world: Any) -> None:
    w = world(units=2)
    once = w.ports([*w.hosts[:3], "host-008"], 1)
    w.break_links(once)
    w.run(3)
    w.mend(once)
    w.run(1200, step=5.0)
    windows(w, "leaf(su0/rail1)")
    for _ in range(60):
        w.errors["host-008", 1] = w.errors.get(("host-008", 1), 0.0) + 5e3
        w.run(5)
    assert ("link_errors", "link(host-008/mlx5_1/1, leaf-1-1/9)") in w.kinds()


# --- at one moment


@pytest.mark.parametrize(("topology", "apart", "other", "words"), [
    (False, 0.0, "host-005", ["common"]), (False, 60.0, "host-005", ["link", "link"]),
    (False, 0.0, "host-006 of another name", ["link", "link"]), (False, 0.0, "host-002 of another name", ["common"]),
    (True, 0.0, "host-005", ["link", "link"]), (False, 0.0, "host-001", ["host"]),
])  # fmt: skip
def test_two_links_of_one_moment_are_one_fault_where_nothing_says_what_they_share(
    world: Any, topology: bool, apart: float, other: str, words: list[str]
) -> None:
    w = world(hosts=16, topology=topology)
    w.break_links([("host-001", 1)])
    w.run(apart)
    other, _, name = other.partition(" ")
    w.break_links([(other, 2 if other == "host-001" or name else 1)])
    w.run(60)
    assert [incident.component.partition("(")[0] for incident in w.firing("warning")] == words


def flapping(rows: list[int], onsets: list[float]) -> list[FaultVerdict]:
    mode = next(mode for mode in HARD_MODES if mode.name == "cable or optic flapping")
    return [
        FaultVerdict((mode,), row, 0.99, 0.99, 12.0, {FLAPPING: np.array([row])}, onset, {}, (), None)
        for row, onset in zip(rows, onsets, strict=True)
    ]


def seen(*_: object) -> bool:
    return True


def test_two_links_that_flap_are_two_as_those_of_one_part_flap_in_turn() -> None:
    found = CommonCauses().joined(flapping([0, 4], [100.0, 104.0]), {}, of_hosts(8, 2), seen, 160.0)
    assert [v.mode.word for v in found] == ["link", "link"]


@pytest.mark.parametrize(("alike", "mapped", "words"), [
    ([0, 0], False, ["common"]), ([0, -1], False, ["link", "link"]), ([0, 0], True, ["common"]),
])  # fmt: skip
def test_two_links_that_fell_together_again_and_again_are_one_fault_wherever_a_map_has_them(
    alike: list[int], mapped: bool, words: list[str]
) -> None:
    domains = of_hosts(8, 2)
    if mapped:
        domains.port.ids["leaf"][[0, 4]] = 0, 1
    flaps = Observation(domains.port, np.array([0, 4]), np.full(2, 100.0), np.ones(16, np.bool_), alike=np.array(alike))
    found = CommonCauses().joined(flapping([0, 4], [100.0, 104.0]), {FLAPPING: flaps}, domains, seen, 160.0)
    assert [v.mode.word for v in found] == words


FAILING = [FLAPPING, DOWN, SymptomType.LINK_ERRORS]


def failing(kind: SymptomType, rows: list[int], onsets: list[float]) -> list[FaultVerdict]:
    return [replace(v, explained={kind: np.array([v.group])}) for v in flapping(rows, onsets)]


def members(found: list[FaultVerdict], kind: SymptomType) -> list[list[int]]:
    return sorted(v.explained[kind].tolist() for v in found)


@pytest.mark.parametrize(("rows", "apart", "mapped", "words"), [
    ([4, 6], 300.0, False, ["common"]),
    ([4, 6], 4.0, False, ["common"]),
    ([4, 6], 700.0, False, ["link", "link"]),  # too long apart
    ([4, 7], 300.0, False, ["link", "link"]),  # another port
    ([4, 8], 300.0, False, ["link", "link"]),  # not next to each other
    ([4, 6], 300.0, True, ["link", "link"]),
])  # fmt: skip
@pytest.mark.parametrize("kind", FAILING)
def test_links_on_the_same_port_of_hosts_next_to_each_other_are_one_fault_whenever_they_begin(
    kind: SymptomType, rows: list[int], apart: float, mapped: bool, words: list[str]
) -> None:
    """Ports 2k - 1 and 2k of a switch are one module: it may fail port by port, minutes apart."""
    domains, causes = of_hosts(64, 2), CommonCauses()
    if mapped:
        domains.port.ids["leaf"][rows] = 0
    onsets = [100.0 + apart * number for number in range(len(rows))]
    for number, onset in enumerate(onsets):
        found = causes.joined(failing(kind, rows[: number + 1], onsets[: number + 1]), {}, domains, seen, onset + 30.0)
        if number == 1:
            assert [v.mode.word for v in found] == words, "also at the first look"
    found = causes.joined(failing(kind, rows, onsets), {}, domains, seen, onsets[-1] + 31.0)
    assert [v.mode.word for v in found] == words
    assert members(found, kind) == ([rows] if words == ["common"] else [[row] for row in rows])
    if words == ["common"]:
        assert found[0].confidence >= 0.9
        (left,) = causes.joined(failing(kind, rows[:1], onsets[:1]), {}, domains, seen, onsets[-1] + 60.0)
        assert left.mode.word == "common", "it stays until both are well"
        assert causes.joined([], {}, domains, seen, onsets[-1] + 90.0) == []


@pytest.mark.parametrize("kind", FAILING)
@pytest.mark.parametrize("third", [8, 200, 201])
def test_a_module_has_no_third_link(kind: SymptomType, third: int) -> None:
    """Neither the next one in a row nor one far away, though it begins within the minutes in which others join."""
    domains, causes = of_hosts(256, 2), CommonCauses()
    causes.joined(failing(kind, [4, 6], [100.0, 200.0]), {}, domains, seen, 230.0)
    for now in (330.0, 331.0):
        found = causes.joined(failing(kind, [4, 6, third], [100.0, 200.0, 300.0]), {}, domains, seen, now)
        assert members(found, kind) == [[4, 6], [third]]


def of_host(name: str, host: int, ports: int, onset: float) -> FaultVerdict:
    """A verdict on all ports of a host."""
    mode, silent = next(mode for mode in HARD_MODES if mode.name == name), SymptomType.AGENT_SILENT
    shown = {DOWN: np.arange(ports * host, ports * (host + 1))}
    shown |= {silent: np.array([host])} if silent in mode.q else {}
    return FaultVerdict((mode,), host, 0.99, 0.99, 90.0, shown, onset, {}, (), None)


@pytest.mark.parametrize("name", ["host down", "all links of a host down"])
@pytest.mark.parametrize("ports", [1, 8])
def test_hosts_next_to_each_other_that_go_down_minutes_apart_are_no_module(name: str, ports: int) -> None:
    """As in a rolling restart."""
    hosts = [of_host(name, host, ports, onset) for host, onset in ((3, 100.0), (4, 400.0))]
    found = CommonCauses().joined(hosts, {}, of_hosts(64, ports), seen, 430.0)
    assert [v.group for v in found] == [3, 4]


@pytest.mark.parametrize("name", ["host down", "all links of a host down"])
def test_a_module_ends_when_the_host_of_one_of_its_links_dies(name: str) -> None:
    domains, causes = of_hosts(64, 8), CommonCauses()
    pairs = failing(DOWN, [16, 24, 17, 25], [100.0, 300.0] * 2)
    assert members(causes.joined(pairs, {}, domains, seen, 330.0), DOWN) == [[16, 24], [17, 25]]
    left = failing(DOWN, [24, 25], [300.0, 300.0])
    for now in (5_000.0, 5_001.0):
        found = causes.joined([*left, of_host(name, 2, 8, 5_000.0)], {}, domains, seen, now)
        assert members(found, DOWN) == [list(range(16, 24)), [24], [25]]


def test_a_module_ends_when_a_known_group_has_one_of_its_links() -> None:
    domains, causes = of_hosts(64, 2), CommonCauses()
    pairs = failing(DOWN, [4, 6, 5, 7], [100.0, 300.0] * 2)
    assert len(causes.joined(pairs, {}, domains, seen, 330.0)) == 2
    batch = next(mode for mode in HARD_MODES if mode.name == "firmware down")
    rows = np.array([4, 5, *range(60, 90)])
    group = FaultVerdict((batch,), 0, 0.99, 0.99, 90.0, {DOWN: rows}, 400.0, {DOWN: 0}, (), None)
    found = causes.joined([group, *failing(DOWN, [6, 7], [300.0] * 2)], {}, domains, seen, 430.0)
    assert members(found, DOWN) == [rows.tolist(), [6], [7]]


@pytest.mark.parametrize("kind", [DOWN, SymptomType.LINK_ERRORS])
@pytest.mark.parametrize("others", [[200], [200, 202]])
def test_a_module_whose_links_began_together_has_no_other_links_either(kind: SymptomType, others: list[int]) -> None:
    domains, causes = of_hosts(256, 2), CommonCauses()
    rows, onsets = [4, 6, *others], [100.0, 104.0, *(200.0 for _ in others)]
    causes.joined(failing(kind, rows[:2], onsets[:2]), {}, domains, seen, 130.0)
    for now in (230.0, 231.0):
        found = causes.joined(failing(kind, rows, onsets), {}, domains, seen, now)
        assert members(found, kind) == [[4, 6], others]


def test_a_module_without_a_map_is_told_as_one(world: Any) -> None:
    w = world(hosts=16, topology=False)
    w.run(5)
    w.break_links([("host-004", 2)])
    w.run(90)
    w.break_links([("host-005", 2)])
    w.run(90)
    (found,) = w.firing("warning")
    assert found.title == "Most likely one switch module: 2 of 2 links down"
    assert found.why.startswith("These are the same port of two hosts next to each other")
    assert [part.partition("/")[0] for part in map(str, found.parts)] == ["host-004", "host-005"]


def test_modules_of_one_second_have_two_names() -> None:
    domains = of_hosts(256, 2)
    verdicts = flapping([4, 6, 200, 202], [100.0, 300.0, 100.4, 500.0])
    found = CommonCauses().joined(verdicts, {}, domains, seen, 530.0)
    assert members(found, FLAPPING) == [[4, 6], [200, 202]]
    names = sorted(domains.names[v.domain][v.group] for v in found)
    assert names == [f"links flapping since 00:01:40 at host-{host}/mlx5_0/1" for host in (100, 2)]


def test_where_links_often_begin_to_flap_two_beside_each_other_are_two() -> None:
    """Of 16 hosts, every few minutes another link did."""
    domains, causes = of_hosts(16, 2), CommonCauses()
    for turn in range(20):
        causes.joined(flapping([(turn * 10 + 1) % 32], [200.0 * turn]), {}, domains, seen, 200.0 * turn + 30.0)
    found = causes.joined(flapping([4, 6], [4_000.0, 4_300.0]), {}, domains, seen, 4_330.0)
    assert [v.mode.word for v in found] == ["link", "link"]


@pytest.mark.parametrize(("hosts", "without"), [(3, 0), (8, 0), (100, 0), (100, 80)])
def test_the_confidence_of_a_module_by_names_is_that_of_its_odds(hosts: int, without: int) -> None:
    """One beginning was seen, and one a day is expected: two a day. The other link begins within 10 minutes by a chance
    of 0.0138, beside it with 4 / N of N links of no known leaf; a module fails 0.2 times as often as a link. Half of
    those `without` are on a leaf, and half of no host, as what a sweep reads once more."""
    domains = of_hosts(hosts, 1)
    domains.port.ids["leaf"][hosts - without : hosts - without // 2] = 0
    domains.port.ids["host"][hosts - without // 2 :] = -1
    found = CommonCauses().joined(flapping([0, 1], [100.0, 300.0]), {}, domains, seen, 330.0)
    by_chance = (1 - exp(-2 * 600 / 86400)) * min(1.0, 4 / (hosts - without))
    assert found[0].mode.word == "common"
    assert found[0].confidence == pytest.approx(1 / (1 + by_chance / 0.2), abs=1e-4)


@pytest.mark.parametrize(("name", "other", "beside"), [
    ("node-9", "node-10", True), ("r02n24-56", "r02n25-57", True), ("dgx-e042", "dgx-f042", True),
    ("node-5", "node-7", False), ("gpu-190", "login-1", False), ("gpu-64", "gpu-190", False), ("a1", "a1b", False),
])  # fmt: skip
def test_names_follow_each_other(name: str, other: str, beside: bool) -> None:
    domains = of_hosts(2, 1)
    domains.names["host"][:] = [name, other]
    found = CommonCauses().joined(flapping([0, 1], [100.0, 300.0]), {}, domains, seen, 330.0)
    assert [v.mode.word for v in found] == (["common"] if beside else ["link", "link"])


@pytest.mark.parametrize(
    ("chance", "fallen", "words"), [(1e-4, [2, 4], ["common"]), (1e-2, [2, 4], ["link"]), (1e-4, [], ["link"])]
)
def test_a_link_that_flaps_with_which_others_fell_is_one_of_a_fault_of_all(
    chance: float, fallen: list[int], words: list[str]
) -> None:
    """Unless another cause has all of these."""
    domains = of_hosts(8, 2)
    every = np.ones(16, np.bool_)
    flaps = Observation(domains.port, np.array([0]), np.full(1, 100.0), every, beside=np.array([chance]))
    fell = Observation(domains.port, np.array(fallen, np.int64), np.full(len(fallen), 150.0), every)
    seen_of = {FLAPPING: flaps, FELL: fell}
    (found,) = CommonCauses().joined(flapping([0], [100.0]), seen_of, domains, seen, 160.0)
    assert [found.mode.word] == words
    assert found.explained.get(FELL, np.zeros(0)).tolist() == ([2, 4] if words == ["common"] else [])


def test_a_cage_has_no_link_of_another_host() -> None:
    domains = of_hosts(8, 4)
    domains.port.ids["leaf"][:] = -1
    parts = [verdict("module of a host down", [0, 1], 100.0), verdict("cable or optic down", [4], 100.0)]
    found = CommonCauses().joined(parts, {}, domains, seen, 130.0)
    assert [v.mode.word for v in found] == ["common"]


@pytest.mark.parametrize(("second", "mapped", "groups"), [
    ([4, 5], False, 1),
    ([2, 3], False, 2),
    ([16, 17], True, 2),
])  # fmt: skip
def test_cages_of_two_hosts_that_go_down_at_one_moment_are_one_fault_where_no_map_shows_their_leaf(
    second: list[int], mapped: bool, groups: int
) -> None:
    """Rows of the first host: 0 to 3. What cages of one host share is known."""
    domains = of_hosts(8, 4)
    domains.port.ids["leaf"][:] = 0 if mapped else -1
    cages = [verdict("module of a host down", rows, 100.0) for rows in ([0, 1], second)]
    found = CommonCauses().joined(cages, {}, domains, seen, 130.0)
    assert len(found) == groups
    assert [v.mode.word for v in found] == (["common"] if groups == 1 else ["cage"] * 2)


def test_a_link_that_flaps_later_or_fell_with_others_is_part_of_a_flapping_group() -> None:
    causes, domains = CommonCauses(), of_hosts(8, 2)
    first = flapping([0, 2, 4, 6], [100.0] * 4)
    known = np.ones(16, np.bool_)
    fell = {FELL: Observation(domains.port, np.array([8, 10]), np.array([103.0, 130.0]), known)}
    (found,) = causes.joined(first, fell, domains, seen, 160.0)
    assert (found.explained[FLAPPING].tolist(), found.explained[FELL].tolist()) == ([0, 2, 4, 6], [8, 10])
    domains.port.ids["leaf"][14] = 5
    later = [*first, *flapping([12, 14], [400.0, 401.0]), *broken([13], [400.0])]
    located, down, found = causes.joined(later, fell, domains, seen, 420.0)
    assert found.explained[FLAPPING].tolist() == [0, 2, 4, 6, 12]
    assert located.explained[FLAPPING].tolist() == [14], "its leaf is known: it has another cause"
    assert down.explained[DOWN].tolist() == [13], "a link that stays down does not flap"


@pytest.mark.parametrize(("before", "mapped", "words"), [
    (90.0, False, ["common"]), (150.0, False, ["common", "link"]), (90.0, True, ["common", "link"]),
])  # fmt: skip
def test_a_link_that_may_have_gone_down_with_others_while_its_agent_was_silent_is_one_of_them(
    before: float, mapped: bool, words: list[str]
) -> None:
    """Its agent reports again, of a port whose leaf no map shows or of another one."""
    domains, causes = of_hosts(8, 2), CommonCauses()
    domains.port.ids["leaf"][8] = 0 if mapped else -1
    first = broken([0, 2, 4, 6], [100.0] * 4)
    assert [v.mode.word for v in causes.joined(first, {}, domains, seen, 120.0)] == ["common"]
    down = Observation(domains.port, np.array([0, 2, 4, 6, 8]), np.array([100.0] * 4 + [160.0]),
                       np.ones(16, np.bool_), np.array([95.0] * 4 + [before]))  # fmt: skip
    found = causes.joined([*first, *broken([8], [160.0])], {DOWN: down}, domains, seen, 165.0)
    assert sorted(v.mode.word for v in found) == words


def test_a_group_joins_a_cause_that_is_larger_with_the_links_that_join_it_at_the_same_look() -> None:
    """Air that is too warm: two links first, then further ones and both links of a host as one module."""
    domains, causes = of_hosts(8, 2), CommonCauses()
    link, cage = (next(m for m in HARD_MODES if m.domain == domain and SymptomType.LINK_ERRORS in m.q)
                  for domain in ("link", "cage"))  # fmt: skip

    def shows(mode: Mode, rows: list[int], onset: float) -> FaultVerdict:
        errors = {SymptomType.LINK_ERRORS: np.array(rows)}
        return FaultVerdict((mode,), rows[0], 0.99, 0.99, 12.0, errors, onset, {SymptomType.LINK_ERRORS: 0}, (), None)

    first = [shows(link, [row], 100.0) for row in (0, 2)]
    assert [v.mode.word for v in causes.joined(first, {}, domains, seen, 120.0)] == ["common"]
    later = [*first, *(shows(link, [row], 107.0) for row in (4, 6)), shows(cage, [8, 9], 107.0)]
    (found,) = causes.joined(later, {}, domains, seen, 127.0)
    assert found.explained[SymptomType.LINK_ERRORS].tolist() == [0, 2, 4, 6, 8, 9]


def test_a_cause_keeps_members_that_another_group_explained_meanwhile() -> None:
    """Two links of a host are the host or its cage, as probable; the verdict changes between them."""
    causes, domains = CommonCauses(), of_hosts(8, 2)
    names = "all links of a host down", "module of a host down"
    host, cage = (next(mode for mode in HARD_MODES if mode.name == name) for name in names)

    def of(mode: Mode, at: int) -> FaultVerdict:
        return FaultVerdict((mode,), at, 0.99, 0.99, 20.0, {DOWN: np.array([2 * at, 2 * at + 1])}, 100.0, {}, (), None)

    others = [of(host, at) for at in range(1, 6)]
    for first, now in ((host, 106.0), (cage, 107.0), (host, 108.0)):
        (found,) = causes.joined([of(first, 0), *others], {}, domains, seen, now)
        assert found.explained[DOWN].tolist() == list(range(12))


def test_a_row_that_stands_for_something_else_now_is_in_no_cause() -> None:
    causes, domains = CommonCauses(), of_hosts(8, 2)
    (found,) = causes.joined(broken([0, 2, 4, 6], [100.0] * 4), {}, domains, seen, 106.0)
    assert found.mode.word == "common"
    causes.displace({Kind.PORT: [6]})
    found = causes.joined(broken([0, 2, 4, 6], [100.0] * 3 + [900.0]), {}, domains, seen, 906.0)
    assert [v.mode.word for v in found] == ["link", "common"]


@pytest.mark.parametrize(("name", "kind"), [
    ("NIC pausing its senders", SymptomType.PAUSING), ("link trained below its rate", SymptomType.LINK_DEGRADED),
])  # fmt: skip
def test_two_ports_that_show_something_else_together_stay_two(name: str, kind: SymptomType) -> None:
    mode = next(mode for mode in HARD_MODES if mode.name == name)
    both = [FaultVerdict((mode,), at, 0.9, 0.9, 9.0, {kind: np.array([at])}, 100.0 + at, {}, (), None) for at in (0, 4)]
    found = CommonCauses().joined(both, {}, of_hosts(8, 2), seen, 130.0)
    assert [v.mode.name for v in found] == [name, name]


def test_a_link_that_fell_with_two_causes_is_a_member_of_one() -> None:
    causes, domains = CommonCauses(), of_hosts(16, 2)
    first, second = flapping([0, 2, 4, 6], [100.0] * 4), flapping([8, 10, 12, 14], [130.0] * 4)
    fell = {FELL: Observation(domains.port, np.array([20]), np.array([140.0]), np.ones(32, np.bool_))}
    causes.joined(first, fell, domains, seen, 120.0)
    for row in range(16):
        domains.port.ids["leaf"][row] = row // 8  # known since: what flaps later is a cause of its own
    found = causes.joined([*first, *second], fell, domains, seen, 150.0)
    assert [v.mode.word for v in found] == ["common", "common"]
    assert [v.explained.get(FELL, np.empty(0)).tolist() for v in found].count([20]) == 1


def test_links_that_fell_with_others_are_no_evidence_of_a_common_cause_and_keep_none() -> None:
    causes, domains = CommonCauses(), of_hosts(8, 2)
    known = np.ones(16, np.bool_)
    fell = {FELL: Observation(domains.port, np.arange(6, 14), np.full(8, 101.0), known)}
    found = causes.joined(flapping([0, 4], [100.0] * 2), fell, domains, seen, 160.0)
    assert [v.mode.word for v in found] == ["link", "link"]
    (found,) = causes.joined(flapping([0, 1, 2, 3], [100.0] * 4), fell, domains, seen, 165.0)
    assert len(found.explained[FELL]) == 8
    assert causes.joined([], fell, domains, seen, 170.0) == []


@pytest.mark.parametrize(
    ("links", "apart", "words"), [(4, 0.0, ["common"]), (3, 0.0, ["link"] * 3), (4, 90.0, ["link"] * 4)]
)
def test_links_that_begin_to_lose_packets_together_are_one_fault(links: int, apart: float, words: list[str]) -> None:
    """A gray switch without a map: the connections through each of its links lose packets."""
    mode = next(mode for mode in FLOW_MODES if mode.name == "cable or optic losing packets")
    lost = [({LOSS: np.array([2 * at, 2 * at + 1])}, 100.0 + at * apart) for at in range(links)]
    found = [
        FaultVerdict((mode,), at, 0.99, 0.99, 12.0, explained, onset, {}, (), None)
        for at, (explained, onset) in enumerate(lost)
    ]
    mapped = of_hosts(8, 2)
    mapped.port.ids["leaf"][:] = 0
    assert CommonCauses().joined(found, {}, mapped, seen, 160.0 + links * apart) == found, "a map locates them"
    joined = CommonCauses().joined(found, {}, of_hosts(8, 2), seen, 160.0 + links * apart)
    assert [v.mode.word for v in joined] == words
    assert sorted(row for v in joined for row in v.explained[LOSS].tolist()) == list(range(2 * links))


def test_cables_that_go_down_with_a_leaf_are_no_part_of_it_if_their_adapters_have_other_names() -> None:
    """A cut bundle of hosts next to each other, at the moment in which half of the leaf of rail 1 fails."""
    domains, leaf = of_hosts(40, 2), next(mode for mode in HARD_MODES if mode.name == "leaf down")
    n = len(domains.port.ids["leaf"])
    domains.assigned.ids["nic"] = np.arange(n, dtype=np.int32)
    domains.assigned.names["nic"] = [f"host-{row // 2}/mlx5_{row % 2}" for row in range(n)]
    domains.port.ids["leaf"][:] = np.arange(n) % 2
    rail = FaultVerdict((leaf,), 1, 0.99, 0.99, 90.0, {DOWN: np.arange(1, n, 2)}, 100.0, {}, (), None)
    found = CommonCauses().joined([rail, *broken([0, 2, 4, 6], [101.0] * 4)], {}, domains, seen, 110.0)
    assert sorted((v.mode.word, len(v.explained[DOWN])) for v in found) == [("common", 4), ("leaf", 40)]
    strays = broken([0, 2], [101.0] * 2)
    domains.assigned.names["nic"] = [f"host-{row // 2}/mlx5_1" for row in range(n)]
    (found_alone,) = CommonCauses().joined([rail, *strays], {}, domains, seen, 110.0)
    assert found_alone.effects[DOWN].tolist() == [0, 2], "they may be filed at the wrong place"


def test_hosts_all_of_whose_ports_are_down_with_their_leaf_count_by_those_that_no_map_shows() -> None:
    """Four hosts on one leaf, of two of which the map lacks a port: 14 of 16 ports are the leaf's."""
    domains = of_hosts(40, 4)
    leaf, host = (next(m for m in HARD_MODES if m.name == name) for name in ("leaf down", "all links of a host down"))
    domains.assigned.ids["nic"] = np.arange(160, dtype=np.int32)
    domains.assigned.names["nic"] = [f"host-{row // 4}/mlx5_{row % 4}" for row in range(160)]
    mapped = np.array([row for row in range(16) if row not in (2, 9)])
    domains.port.ids["leaf"][mapped] = 0
    whole = FaultVerdict((leaf,), 0, 0.99, 0.99, 90.0, {DOWN: mapped}, 100.0, {}, (), None)
    hosts = [FaultVerdict((host,), at, 0.95, 0.95, 3.0, {DOWN: np.arange(4 * at, 4 * at + 4)}, 100.0, {}, (), None)
             for at in (0, 2)]  # fmt: skip
    (found,) = CommonCauses().joined([whole, *hosts], {}, domains, seen, 110.0)
    assert found.mode.word == "leaf"
    assert found.effects[DOWN].tolist() == [2, 9]


@pytest.mark.parametrize(
    ("singles", "name", "effects"),
    [(3, "mlx5_1", [0, 2, 4, 40, 42]), (2, "mlx5_1", [0, 2]), (3, "mlx5_0", [0, 2, 4])],
)
def test_two_ports_filed_at_one_module_by_mistake_are_of_the_leaf_as_single_ones_are(
    singles: int, name: str, effects: list[int]
) -> None:
    """Where fewer ports are filed elsewhere, or the module has other names, it is broken, too."""
    domains, n = of_hosts(40, 2), 80
    domains.assigned.ids["nic"] = np.arange(n, dtype=np.int32)
    domains.assigned.names["nic"] = [f"host-{row // 2}/mlx5_1" for row in range(n)]
    for row in (40, 42):
        domains.assigned.names["nic"][row] = f"host-{row // 2}/{name}"
    domains.port.ids["leaf"][:] = np.arange(n) % 2
    leaf, module = (next(m for m in HARD_MODES if m.name == mode) for mode in ("leaf down", "module down"))
    rail = FaultVerdict((leaf,), 1, 0.99, 0.99, 90.0, {DOWN: np.arange(1, n, 2)}, 100.0, {}, (), None)
    pair = FaultVerdict((module,), 0, 0.99, 0.99, 16.0, {DOWN: np.array([40, 42])}, 100.0, {}, (), None)
    strays = broken([0, 2, 4][:singles], [101.0] * singles)
    found = CommonCauses().joined([rail, pair, *strays], {}, domains, seen, 110.0)
    assert {v.mode.word for v in found} == ({"leaf"} if 40 in effects else {"leaf", "module"})
    assert [v.effects[DOWN].tolist() for v in found if v.mode.word == "leaf"] == [effects]


def of_losses(word: str, group: int, rows: list[int], onset: float) -> FaultVerdict:
    mode = next(mode for mode in FLOW_MODES if mode.domain == word)
    return FaultVerdict((mode,), group, 0.99, 0.99, 12.0, {LOSS: np.array(rows)}, onset, {}, (), None)


def test_hosts_that_get_lossy_connections_together_are_one_fault_where_no_map_shows_more() -> None:
    """What a gray switch loses goes to many hosts; of one without an agent no port is known."""
    domains = of_hosts(8, 2)
    domains.port.ids["host"][14:] = -1
    hosts = [of_losses("host", host, [2 * host, 2 * host + 1], 100.0) for host in range(8)]
    (found,) = CommonCauses().joined(hosts, {}, domains, seen, 110.0)
    assert (found.mode.word, found.explained[LOSS].tolist()) == ("common", list(range(16)))
    mapped = of_hosts(8, 2)
    mapped.port.ids["leaf"][:] = np.arange(16) // 4
    assert CommonCauses().joined(hosts, {}, mapped, seen, 110.0) == hosts, "a map tells switches from hosts"


def test_connections_that_lose_packets_from_their_first_reading_on_make_no_cause_and_join_one() -> None:
    first = [of_losses("link", at, [at], 100.0) for at in range(4)]
    later = [of_losses("host", 4, [8, 9], 110.0), of_losses("link", 12, [12], 110.0)]

    def began(_kind: SymptomType, rows: Ints) -> bool:
        return bool((rows < 8).any())

    def unseen(_kind: SymptomType, _rows: Ints) -> bool:
        return False

    (found,) = CommonCauses().joined([*first, *later], {}, of_hosts(8, 2), began, 110.0)
    assert found.explained[LOSS].tolist() == [0, 1, 2, 3, 8, 9, 12]
    assert CommonCauses().joined([*first, *later], {}, of_hosts(8, 2), unseen, 110.0) == [*first, *later]


# --- a leaf that flaps, seen first by the ports that stay down


@pytest.mark.parametrize(("mates", "first", "topology", "waits"), [
    (3, 1, True, 60.0), (1, 1, True, 12.0), (3, 1, False, 60.0), (1, 1, False, 12.0), (3, 40, False, 12.0),
])  # fmt: skip
def test_a_link_that_fell_with_others_of_its_leaf_waits_for_what_those_do(
    world: Any, mates: int, first: int, topology: bool, waits: float
) -> None:
    """Where no map shows its leaf, with those of the hosts near it."""
    w = world(hosts=64 if first > 1 else 16, topology=topology)
    others = [(host, 1) for host in w.hosts[first : first + mates]]
    w.break_links([("host-000", 1), *others])
    w.run(2)
    w.mend(others)
    took = w.run(90, check=lambda: bool(w.firing()))
    assert took == pytest.approx(waits, abs=8)
    assert [incident.kind for incident in w.firing()] == ["link_down"]
