"""The simulated counters behave as real ones, and each fault leaves the traces its scenario describes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.sim import faults
from fabricmon.sim.fabric import Fabric, Shape
from fabricmon.sim.plant import ACTIVE, COUNTER_COLUMNS, COUNTING, DOWN, INIT, STATE_COLUMNS, Plant

FABRIC = Fabric(Shape(nodes=8, rails=4, unit=4, spines=2, power=4))


Seen = list[dict[str, np.ndarray]]


def play(fault: faults.Fault, until: float, step: float = 1.0, seed: int = 7) -> tuple[Plant, Seen]:
    """The plant after `until` seconds and a copy of the raw counters after every step."""
    plant, script = Plant(FABRIC, seed), faults.Script([fault])
    seen = []
    for tick in range(int(until / step)):
        script.play(plant, (tick + 1) * step)
        seen.append({name: raw.copy() for name, raw in plant.raw.items()} | {"state": plant.state.copy()})
    return plant, seen


def test_default_fabric_is_that_of_the_catalogue() -> None:
    fabric = Fabric(Shape())
    graph = fabric.graph
    assert (len(fabric.hosts), fabric.shape.ports, fabric.shape.leaves) == (64, 512, 16)
    assert [s.level for s in graph.switches.values()].count(0) == 16
    assert len(graph.adapters) == 512
    assert {labels["power"] for labels in graph.hosts.values()} == {f"power-{n}" for n in range(4)}
    assert fabric.port_name(fabric.row(7, 3)) == "host-007/mlx5_3/1"


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 7), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_every_port_is_below_one_leaf(nodes: int, rails: int, unit: int, spines: int) -> None:
    shape = Shape(nodes=nodes, rails=rails, unit=unit, spines=spines)
    fabric = Fabric(shape)
    rows = [row for leaf in range(shape.leaves) for row in fabric.leaf_rows(leaf)]
    assert sorted(rows) == list(range(shape.ports))
    assert all(fabric.leaf_of(row) == leaf for leaf in range(shape.leaves) for row in fabric.leaf_rows(leaf))
    switches = [e for c in fabric.graph.cables for e in (c.a, c.b)]
    assert len(switches) == len(set(switches)), "a port carries one cable"


def test_a_shape_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one of nodes"):
        Shape(nodes=0)


def test_columns_are_those_of_the_catalogue_and_are_known_on_a_quiet_fabric() -> None:
    plant = Plant(FABRIC)
    plant.advance(5)
    for name in (*STATE_COLUMNS, *COUNTER_COLUMNS):
        assert name in CATALOGUE
        assert np.isfinite(plant.column(name)).all(), name


def test_one_seed_is_one_run() -> None:
    def run(seed: int) -> dict[str, np.ndarray]:
        plant = Plant(FABRIC, seed)
        plant.advance(30)
        return plant.raw

    assert all((run(3)[name] == run(3)[name]).all() for name in COUNTING)
    assert (run(3)["xmit"] != run(4)["xmit"]).any()


def test_quiet_traffic_is_below_line_rate_and_counts_words() -> None:
    plant = Plant(FABRIC)
    before = plant.column("xmit")
    plant.advance(10)
    rate = (plant.column("xmit") - before) / 10
    assert ((rate > 0) & (rate < FABRIC.shape.rate)).all()
    assert (plant.column("xmit") == plant.raw["xmit"].astype(float) * 4).all()
    assert not plant.raw["symbol_errors"].any()


@given(st.lists(st.integers(0, 70000), min_size=1, max_size=5))
def test_counters_stop_at_their_width(amounts: list[int]) -> None:
    plant = Plant(FABRIC)
    for amount in amounts:
        plant.add(3, "symbol_errors", amount)
        plant.add(3, "local_link_integrity_errors", amount)
    assert plant.raw["symbol_errors"][3] == min(sum(amounts), 65535)
    assert plant.raw["local_link_integrity_errors"][3] == min(sum(amounts), 15)


def test_a_flapping_cable_counts_each_down_and_is_down_in_between() -> None:
    row = FABRIC.row(2, 1)
    fault = faults.flapping_cable(FABRIC, row, 5, (0, 10, 20), 3)
    before = int(Plant(FABRIC, 7).raw["link_downed"][row])
    _, seen = play(fault, 40)
    states = [snap["state"][row] for snap in seen]
    down = [t for t, state in enumerate(states, 1) if state != ACTIVE]
    assert down == [5, 6, 7, 8, 15, 16, 17, 18, 25, 26, 27, 28]
    assert int(seen[-1]["link_downed"][row]) == before + 3
    assert int(seen[-1]["symbol_errors"][row]) == 3 * 37
    others = [r for r in range(FABRIC.shape.ports) if r != row]
    assert all((snap["state"][others] == ACTIVE).all() for snap in seen)
    assert fault.expected == (faults.Expected("link_flapping", "link(host-002/mlx5_1/1)"),)


def test_a_dead_leaf_takes_its_links_and_no_other() -> None:
    plant, _ = play(faults.leaf_down(FABRIC, 6, 2), 6)
    below = set(FABRIC.leaf_rows(6))
    assert {row for row in range(FABRIC.shape.ports) if plant.state[row] == DOWN} == below
    assert len(below) == 4
    assert np.isnan(plant.column("rate")[list(below)]).all()
    assert FABRIC.leaf_name(6) == "su1/rail2"


def test_a_link_with_two_reasons_to_be_down_needs_both_to_end() -> None:
    plant = Plant(FABRIC)
    count = plant.raw["link_downed"][0]
    plant.hold_down((0,))
    plant.hold_down((0,))
    plant.let_up((0,))
    assert plant.state[0] == DOWN
    plant.let_up((0,))
    assert plant.state[0] == INIT
    plant.advance(1)
    assert plant.state[0] == ACTIVE
    assert plant.raw["link_downed"][0] == count + 1


def test_a_degrading_link_has_the_errors_its_ratio_says() -> None:
    row = FABRIC.row(1, 0)
    plant, seen = play(faults.degrading_link(FABRIC, row, 0, 60, 1e-13, 1e-10), 180)
    late = int(seen[-1]["symbol_errors"][row]) - int(seen[79]["symbol_errors"][row])
    mean = 400e9 * 1e-10 * 100
    assert abs(late - mean) < 6 * math.sqrt(mean)
    assert plant.ber()[row] == pytest.approx(1e-10)
    early = int(seen[9]["symbol_errors"][row])
    assert early < 20, "the first tenth of the ramp is still near 1e-13"
    assert seen[-1]["symbol_errors"].sum() == seen[-1]["symbol_errors"][row]


def test_a_replaced_cable_is_clean() -> None:
    row = FABRIC.row(1, 0)
    plant, _ = play(faults.degrading_link(FABRIC, row, 0, 10, repaired=30), 60)
    assert plant.raw["symbol_errors"][row] == 0
    assert plant.state[row] == ACTIVE
    assert plant.ber()[row] < 1e-15


def test_a_reboot_is_silence_then_zeros_and_another_boot() -> None:
    plant, script = Plant(FABRIC), faults.Script([fault := faults.node_reboot(FABRIC, 3, 2, 6)])
    rows = list(FABRIC.host_rows(3))
    script.play(plant, 4)
    assert plant.silent[3]
    assert (plant.state[rows] == DOWN).all()
    script.play(plant, 10)
    assert not plant.silent.any()
    assert plant.boots[3] == 1
    assert plant.monotonic(3) == pytest.approx(2)
    assert (plant.state[rows] == ACTIVE).all()
    assert not plant.raw["link_downed"][rows].any()
    assert fault.expected == ()


def test_a_slow_link_comes_back_slower() -> None:
    plant, _ = play(faults.slow_link(FABRIC, 5, 1, 25e9), 8)
    assert plant.column("rate")[5] == 25e9
    assert plant.state[5] == ACTIVE


def test_power_takes_whole_hosts() -> None:
    plant, _ = play(faults.power_loss(FABRIC, 1, 1), 3)
    assert plant.silent.tolist() == [False] * 4 + [True] * 4


def test_a_script_takes_its_steps_in_time_order_once() -> None:
    one, two = faults.leaf_down(FABRIC, 0, 3, 4), faults.node_reboot(FABRIC, 7, 5, 1)
    script, plant = faults.Script([one, two]), Plant(FABRIC)
    taken = [step.at for until in (2.0, 4.0, 4.0, 20.0) for step in script.play(plant, until)]
    assert taken == [3, 5, 6, 7]
    assert script.ends == 7
    assert script.expected == one.expected


def test_an_expectation_knows_a_link_by_its_first_end() -> None:
    expected = faults.Expected("link_flapping", "link(host-002/mlx5_1/1)")
    assert expected.matches("link_flapping", "link(host-002/mlx5_1/1)")
    assert expected.matches("link_flapping", "link(host-002/mlx5_1/1, leaf/3)")
    assert not expected.matches("link_down", "link(host-002/mlx5_1/1)")
    assert not expected.matches("link_flapping", "link(host-002/mlx5_1/11)")
