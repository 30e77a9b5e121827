"""What is recorded of faults of all kinds, field by field: symptoms, evidence, incidents and their course, against
recorded files: who changes one reads the difference. Of texts only the numbers count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from fabricmon.engine.engine import Engine
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Incident, Symptom
from fabricmon.rules import RULES
from fabricmon.rules.rule import Scope
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault, Script
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.world import World
from tests.recorded.golden import compare, lines, numbers

NOW = 1_790_000_000.0
HEALTHY, FAULTY = 18, 66  # polls
ALIKE = 2
Faults = Callable[[Layout], Sequence[InjectedFault]]


def port(host: int, rail: int) -> str:
    return f"host-{host:03}/mlx5_{rail}/1"


def links(layout: Layout) -> list[InjectedFault]:
    made = [
        FAULTS["link_flap"](layout, port(0, 0), 0.0, (0.0, 12.0, 24.0), 3.0),
        FAULTS["link_errors"](layout, port(1, 1)),
        FAULTS["slow_link"](layout, port(2, 2)),
        FAULTS["narrow_link"](layout, port(3, 3)),
        FAULTS["pcie_retrain"](layout, port(4, 4)),
        FAULTS["nvlink_errors"](layout, "host-005/gpu5"),
        FAULTS["nvlink_down"](layout, "host-006/gpu6"),
        FAULTS["counters_frozen"](layout, port(7, 7)),
        FAULTS["nic_lost"](layout, port(8, 0)),
        FAULTS["bad_nic"](layout, port(9, 1), 0.0, True),
        FAULTS["lossy_nic"](layout, port(10, 2)),
        FAULTS["straggler"](layout, port(11, 3)),
        FAULTS["retransmits"](layout, ["host-012"]),
        FAULTS["link_down"](layout, port(14, 6), 30.0, 300.0),
        FAULTS["clock_step"](layout, "host-015"),
    ]
    if layout.link_layer == "InfiniBand":
        made.append(FAULTS["counter_saturated"](layout, port(13, 5)))
    return made


def places(layout: Layout) -> list[InjectedFault]:
    return [
        FAULTS["leaf_down"](layout, layout.leaf_name(layout.leaves[2])),
        FAULTS["leaf_reboot"](layout, layout.leaf_name(layout.leaves[12])),
        FAULTS["host_crash"](layout, "host-003"),
        FAULTS["agents_silent"](layout, 60.0, hosts=["host-010", "host-011"]),
        FAULTS["nvlink_domain"](layout, "host-014"),
        FAULTS["node_reboot"](layout, "host-009"),
        FAULTS["driver_reload"](layout, "host-008"),
        FAULTS["counter_reset"](layout, port(7, 1)),
    ]


def congestion(layout: Layout) -> list[InjectedFault]:
    made = [
        FAULTS["incast"](layout, port(14, 2), 0.0, 10, 1200.0),
        FAULTS["rail_congestion"](layout, layout.leaf_name(layout.leaves[6])),
        FAULTS["storage_slow"](layout),
        FAULTS["straggler"](layout, port(5, 1)),
    ]
    if layout.link_layer == "Ethernet":
        made.append(FAULTS["pause_storm"](layout, port(3, 4)))
    return made


def losses(layout: Layout) -> list[InjectedFault]:
    leaf = layout.leaf_name(layout.leaves[9])
    return [
        FAULTS["uplink_gray"](layout, leaf, "spine-01", 0.0, 0.2),
        FAULTS["lossy_nic"](layout, port(3, 4), 0.0, 0.05),
        FAULTS["leaf_down"](layout, layout.leaf_name(layout.leaves[6]), 200.0),
    ]


def evidence(found: Sequence[Evidence]) -> list[dict[str, Any]]:
    kept = [{**msgspec.to_builtins(one), "text": numbers(one.text)} for one in found]
    return [{name: one[name] for name in one if name != "formula"} for one in kept]


def symptom(found: Symptom) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "evidence": evidence(found.evidence)}


def incident(found: Incident) -> dict[str, Any]:
    texts = {name: numbers(getattr(found, name)) for name in ("title", "why", "action")}
    history = [(one.at - NOW, one.change, numbers(one.reason)) for one in found.history]
    ruled_out = [(one.component, numbers(one.reason), one.behind) for one in found.ruled_out]
    own = {"evidence": evidence(found.evidence), "history": history, "ruled_out": ruled_out, **texts}
    return {**msgspec.to_builtins(found), **own}


CASES = [(links, "InfiniBand"), (links, "Ethernet"), (places, "InfiniBand"), (congestion, "InfiniBand"),
         (congestion, "Ethernet"), (losses, "Ethernet")]  # fmt: skip


@pytest.mark.parametrize(("faults", "layer"), CASES)
def test_the_record_is_as_recorded(faults: Faults, layer: str) -> None:
    layout = Layout.from_graph(rail_fabric(nodes=16, unit=8, spines=4), storage=1, link_layer=layer)
    world, engine = World(layout, 1, 10.0, steady=0.45, flows=faults is losses), Engine(Scope.FLEET, layout.graph)
    inlet, script, opened = BulkInlet(world), Script(faults(layout), HEALTHY * 10.0), list[list[Any]]()
    for at in range(1, HEALTHY + FAULTY + 1):
        if at > HEALTHY:
            script.play(world, at * 10.0)
        world.advance(at * 10.0)
        inlet.poll(engine, NOW + at * 10.0)
        opened += [
            [at, change.opened, change.witnessed, symptom(change.symptom)]
            for change in engine.tick(NOW + at * 10.0).symptoms
            if change.opened or not change.witnessed
        ]
        _no_row_begins_and_ends(engine, NOW + at * 10.0)
    assert not engine.failures()
    found = sorted(engine.incidents(), key=lambda one: one.id)
    compare(f"{faults.__name__}-{layer}.jsonl", lines([*map(incident, found), *_few(opened)]))


def _no_row_begins_and_ends(engine: Engine, now: float) -> None:
    """No rule calls a row bad and good at once."""
    for rule in RULES:
        if rule.table in engine.fleet.tables:
            found = rule.test(View(engine.fleet.tables[rule.table], now), rule.params())
            assert not (found.known & found.fire & found.clear).any(), rule.name


def _few(opened: list[list[Any]]) -> list[list[Any]]:
    """The first ALIKE symptoms of each rule and poll."""
    opened.sort(key=lambda one: (one[0], str(one[3]["rule"]), str(one[3]["component"])))
    alike = itertools.groupby(opened, key=lambda one: (one[:3], one[3]["rule"]))
    return [one for _, group in alike for one in itertools.islice(group, ALIKE)]
