"""Evaluation on the node: changes count at once, unchanged readings cost nothing, and nothing is lost between."""

from __future__ import annotations

import itertools
import math
import random
from array import array
from typing import Any

import pytest

from fabricmon.agent.readings.evaluation import PACE, TICK, NodeEvaluator, pace
from fabricmon.engine import Engine
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot

STATES = ("state", "phys_state", "rate", "link_downed")
COUNTS = ("symbol_errors", "rcv_errors", "xmit", "rcv")
PORTS = 8
ACTIVE, LINK_UP, RATE = 4.0, 5.0, 5e10
START = 1_000_000.0


class Machine:
    """Eight InfiniBand ports: states every second, counters every ten; a snapshot of each second."""

    def __init__(self, counters: float = 10.0) -> None:
        labels = {"link_layer": "InfiniBand", "role": "compute", "board": "MT_0000000838"}
        ports = tuple(Component(f"mlx5_{n}/1", {**labels, "device": f"mlx5_{n}"}) for n in range(PORTS))
        parts = (
            Part("infiniband", Kind.PORT, COUNTS, ports, counters),
            Part("infiniband_state", Kind.PORT, STATES, ports, 1.0),
        )
        self.inventory = Inventory(2, Identity("host-007", "boot", "agent", "1", START), parts)
        self.every = counters
        self.counts = [[0.0, 0.0, 1e6, 1e6] for _ in range(PORTS)]
        self.states = [[ACTIVE, LINK_UP, RATE, 0.0] for _ in range(PORTS)]
        self.read = [list(row) for row in self.counts]
        self.taken = [math.nan, math.nan]
        self.seq = 0

    def at(self, second: float) -> Snapshot:
        for row in self.counts:
            row[2] += 1e9
            row[3] += 1e9
        if second % self.every == 0:
            self.read, self.taken[0] = [list(row) for row in self.counts], second
        self.taken[1] = second
        self.seq += 1
        values = array("d", [v for row in (*self.read, *self.states) for v in row])
        return Snapshot(self.inventory, self.seq, START + second, list(self.taken), values)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times of the evaluations."""
    times: list[float] = []
    evaluator = Engine.evaluate

    def recorded(self: Engine, now: float) -> Any:
        times.append(now - START)
        return evaluator(self, now)

    monkeypatch.setattr(Engine, "evaluate", recorded)
    return times


def run(evaluator: NodeEvaluator, machine: Machine, first: int, last: int) -> None:
    for second in range(first, last):
        evaluator.tick(machine.at(second), START + second)


def test_a_healthy_node_at_work_is_evaluated_at_the_pace(evaluated: list[float]) -> None:
    machine, evaluator = Machine(), NodeEvaluator("host-007", {})
    run(evaluator, machine, 0, 300)
    assert evaluator.symptoms() == []
    assert len(evaluated) <= 300 / PACE + 3
    assert max(b - a for a, b in itertools.pairwise(evaluated)) <= PACE + TICK


def test_a_link_that_goes_down_is_evaluated_in_the_second_of_its_reading_and_opens_after_its_hold(
    evaluated: list[float],
) -> None:
    machine, evaluator = Machine(), NodeEvaluator("host-007", {})
    run(evaluator, machine, 0, 203)
    machine.states[3][:2] = [1.0, 2.0]
    run(evaluator, machine, 203, 204)
    assert evaluated[-1] == 203
    run(evaluator, machine, 204, 209)
    (symptom,) = evaluator.symptoms()
    assert (symptom.rule, symptom.component.name, symptom.since) == ("link_down", "mlx5_3/1", START + 203)
    machine.states[3][:2] = [ACTIVE, LINK_UP]
    run(evaluator, machine, 209, 221)
    assert "link_down" not in {s.rule for s in evaluator.symptoms()}


def test_downs_between_two_evaluations_are_counted_when_they_are_read() -> None:
    machine, evaluator = Machine(), NodeEvaluator("host-007", {})
    run(evaluator, machine, 0, 207)
    for second in (207, 300, 420, 500):
        machine.states[2][3] += 1
        run(evaluator, machine, second, second + 1)
        run(evaluator, machine, second + 1, second + 60)
    flaps = [s for s in evaluator.symptoms() if s.rule == "link_flapping"]
    assert [s.component.name for s in flaps] == ["mlx5_2/1"]


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_symptoms_of_an_engine_that_evaluates_every_second(seed: int) -> None:
    """Errors, flaps and downs by a seed: the same rules open on the same ports in the same second."""
    chance = random.Random(seed)
    quick, slow = NodeEvaluator("host-007", {}), NodeEvaluator("host-007", {})
    machine = Machine()
    found: list[tuple[Any, Any]] = []
    for second in range(600):
        if second > 150 and chance.random() < 0.02:
            row = chance.randrange(PORTS)
            what = chance.choice(("down", "up", "flap", "errors"))
            if what in ("down", "up"):
                machine.states[row][:2] = [1.0, 2.0] if what == "down" else [ACTIVE, LINK_UP]
            elif what == "flap":
                machine.states[row][3] += 1
            else:
                machine.counts[row][0] += chance.choice((1, 40, 4000))
        snapshot = machine.at(second)
        slow._wait = 0.0  # evaluates at every tick
        for evaluator in (quick, slow):
            evaluator.tick(snapshot, START + second)
        hard = [
            sorted((s.rule, s.component.name) for s in j.symptoms() if s.rule in ("link_down", "link_errors"))
            for j in (quick, slow)
        ]
        found.append((hard[0], hard[1]))
    assert any(b for _, b in found), "nothing happened"
    # what opens does so in the same second; what time alone ends may end an evaluation later
    assert all(set(b) <= set(a) for a, b in found)
    longest = max((len(list(g)) for same, g in itertools.groupby(found, lambda t: t[0] == t[1]) if not same), default=0)
    assert longest <= PACE + TICK


def test_counters_that_are_read_every_second_are_evaluated_every_second() -> None:
    assert pace(Machine(counters=1.0).inventory) == 2 * 1.0 - TICK
    assert pace(Machine(counters=10.0).inventory) == PACE
    assert pace(Machine(counters=0.1).inventory) == 0.0
