"""Frames and the bulk inlet bring an engine the same: values, differences, presences, incidents."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.model import Kind
from fabricmon.rules.rule import Scope
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import Script
from fabricmon.sim.traffic import TrafficJob
from fabricmon.sim.world import World
from tests.sim.frames import FrameInlet

WALL = 1_800_000_000.0


def play(inlet: type[FrameInlet] | type[BulkInlet], link_layer: str, flows: bool) -> Engine:
    """Everything that changes what nodes have and whether they answer, in three minutes."""
    layout = Layout.named("rail-optimised", units=2, hosts=4, rails=4, spines=2, parallel=2, link_layer=link_layer)
    job = TrafficJob("a", layout.hosts[:6], "all_to_all", peers=3)
    world = World(layout, 3, jobs=[job], flows=flows, background=True)
    script = Script(
        [
            FAULTS["agents_silent"](layout, start=0.0, hosts=["host-006"], lasts=45.0),  # silent from the beginning
            FAULTS["node_reboot"](layout, "host-001", start=31, lasts=50),
            FAULTS["nic_lost"](layout, "host-002/mlx5_1", start=52),
            FAULTS["driver_reload"](layout, ["host-003"], start=72),
            FAULTS["agent_restart"](layout, ["host-004"], start=83, lasts=12),
            FAULTS["clock_skew"](layout, 3, start=60),
            FAULTS["switch_down"](layout, "spine-001", start=95, lasts=30),
            FAULTS["link_flap"](layout, "host-005/mlx5_2", start=25, downs=(0, 40, 80)),
        ]
    )
    engine, way = Engine(Scope.FLEET, layout.graph), inlet(world)
    for tick in range(18):
        script.play(world, tick * 10.0)
        way.poll(engine, WALL + world.now)
        engine.tick(WALL + world.now)
    return engine


@pytest.mark.parametrize(("link_layer", "flows"), [("InfiniBand", True), ("Ethernet", False)])
def test_both_inlets_bring_the_same(link_layer: str, flows: bool) -> None:
    frames, bulk = play(FrameInlet, link_layer, flows), play(BulkInlet, link_layer, flows)
    for kind in Kind:
        one, other = frames.fleet.tables[kind], bulk.fleet.tables[kind]
        n = one.n
        assert (one.ids, one.labels, one.columns) == (other.ids, other.labels, other.columns)
        # column 0 is where cells land that no row owns
        assert np.array_equal(one.cells[1:, :n], other.cells[1:, :n], equal_nan=True), kind
        for name in ("present", "quiet", "node", "gone", "begun", "reset", "generation"):
            a, b = getattr(one, name)[:n], getattr(other, name)[:n]
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (kind, name)
        for name in ("rise", "marks", "base"):
            a, b = getattr(one, name)[:, :n], getattr(other, name)[:, :n]
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (kind, name)
    assert [(s.rule, s.component, s.since) for s in frames.symptoms()] == [
        (s.rule, s.component, s.since) for s in bulk.symptoms()
    ]
    assert frames.incidents() == bulk.incidents()
    assert frames.nodes() == bulk.nodes()
    assert any(node.last_frame == WALL + 170 for node in bulk.nodes())


def test_a_bulk_inlet_leaves_what_nobody_reads_alone() -> None:
    layout = Layout.named("rail-optimised", units=1, hosts=4, rails=2, spines=1)
    world, engine = World(layout, 1), Engine(Scope.FLEET, layout.graph)
    bulk = BulkInlet(world)
    bulk.poll(engine, WALL)
    engine.tick(WALL)
    world.hosts.stop_agents(np.array([1]))
    world.advance(10)
    before = {kind: table.cells.copy() for kind, table in engine.fleet.tables.items()}
    bulk.poll(engine, WALL + 10)
    ports = engine.fleet.tables[Kind.PORT]
    mine = np.flatnonzero(ports.node[: ports.n] == ports.node[layout.first[1]])
    at = ports.columns["xmit"]
    assert (ports.cells[at, mine] == before[Kind.PORT][at, mine]).all()
    others = np.setdiff1d(np.arange(ports.n), mine)
    assert (ports.cells[at, others] > before[Kind.PORT][at, others]).all()
