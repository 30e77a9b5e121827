"""The simulated counters obey the laws that real ones obey, for any fabric, load and length of a step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.model import Kind
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import SHAPES, Layout
from fabricmon.sim.registers import Registers
from fabricmon.sim.script import Script
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.traffic import PATTERNS, Traffic, TrafficJob, place
from fabricmon.sim.world import World

SMALL = Layout.named("rail-optimised", units=2, hosts=2, rails=2, spines=2)
KINDS = (Kind.PORT, Kind.FLOW, Kind.GPU, Kind.NVLINK, Kind.PCIE, Kind.NODE)
SIZES = {"fat-tree": {"k": 4}, "torus": {"x": 2, "y": 2, "z": 2}, "cloud": {"hosts": 2}, "nvl72": {}}


def test_the_default_fabric_is_that_of_the_catalogue() -> None:
    layout = Layout.named("r1")
    assert (len(layout.hosts), int((~layout.storage).sum()), len(layout.leaves)) == (64, 512, 16)
    spines = [s for s in layout.graph.switches.values() if s.labels.get("plane") == "5"]
    assert len(spines) == 16
    assert {labels["power"] for labels in layout.graph.hosts.values()} == {f"power-{n}" for n in range(4)}
    assert layout.port_name(layout.port("host-007/mlx5_3")) == "host-007/mlx5_3/1"
    assert layout.leaf_name(layout.switch("su0/rail2")) == "su0/rail2"
    assert layout.link_name(layout.port("host-007/mlx5_3")) == "host-007/mlx5_3/1, su0-rail3-leaf/8"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("link_layer", ["InfiniBand", "Ethernet"])
def test_every_shape_is_a_world_whose_columns_are_those_of_the_catalogue(shape: str, link_layer: str) -> None:
    layout = Layout.named(shape, link_layer=link_layer, **SIZES.get(shape, {}))
    world = World(layout, 1, flows=True)
    world.advance(5)
    for kind in KINDS:
        for name in world.columns(kind):
            assert CATALOGUE[name].kind is kind
            values = world.column(kind, name)
            assert np.isfinite(values).all() or name in ("gpu_nvlink_worst", "pcie_path_speed"), name
            counter = CATALOGUE[name]
            if counter.growth.counts and counter.bits < 64:
                assert (values <= (2.0**counter.bits - 1) * counter.scale).all()
    rate = (world.column(Kind.PORT, "xmit") - World(layout, 1, flows=True).column(Kind.PORT, "xmit")) / 5
    assert ((rate > 0) & (rate <= layout.rate)).all()


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 7), st.integers(1, 3))
@settings(max_examples=20)
def test_every_port_of_a_host_is_below_one_leaf(nodes: int, rails: int, unit: int, spines: int) -> None:
    layout = Layout.from_graph(rail_fabric(nodes=nodes, rails=rails, unit=unit, spines=spines), storage=0)
    rows = [row for leaf in layout.leaves for row in layout.leaf_rows(leaf).tolist()]
    assert sorted(rows) == list(range(layout.ports))
    switches = [end for cable in layout.graph.cables for end in (cable.a, cable.b)]
    assert len(switches) == len(set(switches)), "a port carries one cable"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Layout.named("cube"), "unknown shape 'cube'"),
        (lambda: Layout.named("fat-tree", k=5), "even number"),
        (lambda: Layout.named("fat-tree", wings=2), "wings"),
        (lambda: Layout.named("r1", link_layer="Omni-Path"), "link layer"),
        (lambda: SMALL.port("host-000/mlx5_99"), "mlx5_99"),
        (lambda: SMALL.switch("spine-x"), "spine-x"),
        (lambda: SMALL.host("host-x"), "host-x"),
        (lambda: World(SMALL, poll=0.0), "more than 0 s"),
        (lambda: TrafficJob("a", ("host-000",), "waltz"), "waltz"),
        (lambda: rail_fabric(nodes=0), "at least one of nodes"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


def bytes_of(world: World) -> bytes:
    return b"".join(world.column(kind, name).tobytes() for kind in KINDS for name in world.columns(kind))


def test_one_seed_is_one_run_to_the_last_bit() -> None:
    def run(seed: int) -> bytes:
        layout = Layout.named("rail-optimised", units=2, hosts=4, rails=2, spines=2)
        world = World(layout, seed, jobs=[TrafficJob("a", layout.hosts[:6], "all_to_all")], flows=True, background=True)
        faults = [
            FAULTS["switch_gray"](layout, "spine-001", start=20),
            FAULTS["link_flap"](layout, "host-001/mlx5_0", start=15),
            FAULTS["host_crash"](layout, "host-004", start=30, lasts=60),
        ]
        Script(faults).play(world, 120)
        return bytes_of(world)

    assert run(3) == run(3)
    assert run(3) != run(4)


@given(st.lists(st.floats(0.05, 40.0), min_size=1, max_size=12), st.sampled_from(sorted(PATTERNS)))
@settings(max_examples=40)
def test_what_a_port_carries_does_not_depend_on_the_length_of_a_step(steps: list[float], pattern: str) -> None:
    traffic = Traffic(SMALL, 1, 0.4, (TrafficJob("a", SMALL.hosts[:2], pattern),))
    at = np.concatenate([[0.0], np.cumsum(steps)])
    parts = [traffic.carried(float(a), float(b)) for a, b in pairwise(at)]
    whole = traffic.carried(0.0, float(at[-1]))
    assert sum(sent for sent, _ in parts) == pytest.approx(whole[0], abs=1e-6)
    assert sum(waits for _, waits in parts) == pytest.approx(whole[1], abs=1e-6)
    for (sent, waits), dt in zip(parts, steps, strict=True):
        assert ((sent >= -1e-9) & (sent <= dt + 1e-9)).all()
        assert ((waits >= -1e-9) & (waits <= dt + 1e-9)).all()


def test_a_burst_each_step_waits_as_the_catalogue_says() -> None:
    world = World(SMALL, jobs=[TrafficJob("a", SMALL.hosts, "bursts")])
    before = world.column(Kind.PORT, "xmit_wait_ticks")
    world.advance(80)
    waited = (world.column(Kind.PORT, "xmit_wait_ticks") - before)[~SMALL.storage] * 1e-6 / 80
    assert waited == pytest.approx(0.12, abs=0.01)


def test_a_checkpoint_fills_the_storage_network_and_empties_the_other() -> None:
    job = TrafficJob("a", SMALL.hosts, "ring", checkpoint_every=600.0, checkpoint_lasts=90.0)
    world = World(SMALL, jobs=[job])
    world.advance(600)
    before = world.column(Kind.PORT, "xmit")
    world.advance(690)
    share = (world.column(Kind.PORT, "xmit") - before) / 90 / SMALL.rate
    assert (share[SMALL.storage] > 0.9).all()
    assert (share[~SMALL.storage] < 0.01).all()
    before = world.column(Kind.PORT, "xmit")
    world.advance(770)
    share = (world.column(Kind.PORT, "xmit") - before) / 80 / SMALL.rate
    assert (share[SMALL.storage] < 0.05).all()
    assert (share[~SMALL.storage] > 0.3).all()


def test_a_job_that_starts_brings_some_retransmits_and_no_loss_later() -> None:
    world = World(SMALL, steady=0.0, jobs=[TrafficJob("a", SMALL.hosts, "all_to_all", starts=15.0, ends=55.0)])
    world.advance(15.5)
    first = world.column(Kind.PORT, "seq_nak_rx") + world.column(Kind.PORT, "ack_timeout")
    first = (first + world.column(Kind.PORT, "implied_nak"))[~SMALL.storage]
    assert ((first >= 10) & (first <= 50)).all()
    sent = world.column(Kind.PORT, "xmit")
    world.advance(80)
    again = world.column(Kind.PORT, "seq_nak_rx") + world.column(Kind.PORT, "ack_timeout")
    assert (again + world.column(Kind.PORT, "implied_nak"))[~SMALL.storage] == pytest.approx(first)
    assert (world.column(Kind.PORT, "xmit") > sent)[~SMALL.storage].all()
    sent = world.column(Kind.PORT, "xmit")
    world.advance(100)
    assert (world.column(Kind.PORT, "xmit") == sent).all(), "the job has ended"


def test_a_job_that_goes_on_together_stalls_with_a_dead_host_and_then_ends() -> None:
    def bytes_in(start: float, end: float, together: bool) -> np.ndarray:
        world = World(SMALL, steady=0.0, jobs=[TrafficJob("a", SMALL.hosts, "all_to_all", peers=3, together=together)])
        script = Script([FAULTS["host_crash"](SMALL, "host-003", start=20, lasts=80)])
        script.play(world, start)
        before = world.column(Kind.PORT, "xmit")
        script.play(world, end)
        mine = ~SMALL.storage & (SMALL.host_of != 3)
        return (world.column(Kind.PORT, "xmit") - before)[mine]

    assert (bytes_in(0, 20, True) > 0).all()
    assert not bytes_in(21, 45, True).any()
    assert not bytes_in(120, 160, True).any(), "it has ended, the host's return does not bring it back"
    assert (bytes_in(21, 45, False) > 0).all()


def test_jobs_are_placed_without_overlap_and_by_the_seed() -> None:
    layout = Layout.named("r1")
    one = place(layout, [20, 30, 10], 5)
    assert one == place(layout, [20, 30, 10], 5) != place(layout, [20, 30, 10], 6)
    assert [len(hosts) for hosts in one] == [20, 30, 10]
    assert len({host for hosts in one for host in hosts}) == 60
    with pytest.raises(ValueError, match="do not fit"):
        place(layout, [65], 1)


COLUMNS = ("symbol_errors", "local_link_integrity_errors", "ack_timeout", "xmit", "link_downed", "xmit_wait_ticks")


@given(
    st.lists(st.tuples(st.sampled_from(COLUMNS), st.lists(st.floats(0, 2e10), min_size=3, max_size=3)), max_size=30),
    st.booleans(),
)
def test_registers_wrap_saturate_and_never_fall_otherwise(
    growths: list[tuple[str, list[float]]], narrow: bool
) -> None:
    registers = Registers(3, COLUMNS)
    registers.narrow[1] = narrow
    total = {column: np.zeros(3) for column in COLUMNS}
    for column, amounts in growths:
        before = registers.raw[column].copy()
        registers.grow(column, np.array(amounts))
        total[column] += np.array(amounts) / CATALOGUE[column].scale
        counter, after = CATALOGUE[column], registers.raw[column]
        if counter.growth is not Growth.WRAPS:
            assert (after >= before).all()
            assert (after <= 2**counter.bits - 1).all()
    for column in COLUMNS:
        counter = CATALOGUE[column]
        for row in range(3):
            bits = 32 if narrow and row == 1 and counter.growth is Growth.WRAPS else counter.bits
            counted, exact = int(registers.raw[column][row]), total[column][row]
            if counter.growth is Growth.WRAPS:
                assert any((counted - int(exact) + slack) % 2**bits == 0 for slack in (-1, 0, 1))
            else:
                assert counted == min(int(exact), 2**bits - 1) or abs(counted - exact) <= 1


def test_frozen_counters_show_what_they_showed() -> None:
    world = World(SMALL)
    world.advance(10)
    world.ports.frozen[2] = True
    before = {name: raw[2] for name, raw in world.ports.raw.items()}
    world.advance(30)
    assert {name: raw[2] for name, raw in world.ports.raw.items()} == before
    assert world.ports.raw["xmit"][3] > 0


def test_a_sound_fabric_has_the_noise_of_the_catalogue() -> None:
    layout = Layout.named("r1", storage=0)
    world = World(layout, 5, background=True)
    waited, before = np.zeros(layout.ports, np.bool_), world.column(Kind.PORT, "xmit_wait_ticks")
    for tick in range(1, 361):
        world.advance(tick * 10.0)
        after = world.column(Kind.PORT, "xmit_wait_ticks")
        waited |= (after - before) * 1e-6 / 10 > 0.1
        before = after
    assert 2 <= int(waited.sum()) <= 25, "about 2 % of 512 ports have a congested window in an hour"
    assert world.column(Kind.PORT, "symbol_errors").sum() <= 3
    assert not world.column(Kind.PORT, "link_downed").sum() - World(layout, 5).column(Kind.PORT, "link_downed").sum()


def test_the_next_checkpoint_of_a_job_is_always_ahead() -> None:
    random = np.random.default_rng(5)
    for every, lasts, starts in random.uniform((200, 5, -5000), (900, 60, 300), (300, 3)).tolist():
        job = TrafficJob("job", ("host-000",), checkpoint_every=every, checkpoint_lasts=lasts, starts=starts)
        now = 0.0
        for _ in range(40):
            later = job.next(now)
            assert now < later < now + 2 * every + abs(starts)
            now = later
