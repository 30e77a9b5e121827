"""The page of hardware metrics is what prometheus-client writes of the same families, except how numbers are spelt.

prometheus-client writes 3.0 and 1.25e+09 where this program writes 3 and 1250000000: both read back as the same value.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_latest

from fabricmon.agent.app import Agent
from fabricmon.agent.metrics.hardware import HardwareMetrics
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig
from fabricmon.catalogue import CATALOGUE
from fabricmon.host.live import LiveHost
from fabricmon.model import Kind, Snapshot
from fabricmon.runtime.exposition import END, Format
from fabricmon.runtime.logs import LogConfig
from fabricmon.sim.layout import Layout
from fabricmon.sim.machine import SimulatedNode, columns
from fabricmon.sim.world import World
from tests.agent.fakes import FakeCollector, FakeSession, Running, until
from tests.conftest import shared


def simulated() -> Snapshot:
    world = World(Layout.named("rail-optimised", units=1, hosts=2, rails=8, spines=4, storage=0), 1)
    world.advance(60.0)
    return SimulatedNode(world, 0).take_snapshot(columns(world), 1_000_000.0)


def captured() -> Snapshot:
    async def read() -> Snapshot:
        host = LiveHost(str(shared() / "captures/ib-connectx3-dual-port/sys"))
        agent = Agent(NodeSettings(AgentConfig(listen=("127.0.0.1:0",), evaluate=False), {}, {}), host)
        task = asyncio.create_task(agent.run())
        await agent.listening.wait()
        await until(agent.node.schedule.board.first_round.is_set, 60)
        snapshot = agent.node.state.snapshot
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return snapshot

    return asyncio.run(read())


def saturate(snapshot: Snapshot, counter: str) -> None:
    """Put the counter of the first row that has it to its top."""
    base = 0
    for part in snapshot.inventory.parts:
        if counter in part.columns:
            snapshot.values[base + part.columns.index(counter)] = CATALOGUE[counter].top
            return
        base += part.size


def spelt_alike(page: str) -> list[str]:
    """Lines, with each number as Python spells it."""
    return [line if line.startswith("#") else re.sub(r" (\S+)$", lambda m: f" {float(m[1])!r}", line)
            for line in page.split("\n")]


@pytest.mark.parametrize("node", [simulated, captured])
def test_the_page_is_prometheus_clients_in_both_formats(
    node: Callable[[], Snapshot], require: Callable[[str], object]
) -> None:
    if node is captured:
        require("captures")
    snapshot = node()
    saturate(snapshot, "symbol_errors")
    now = max(taken for taken in snapshot.taken if not math.isnan(taken))
    metrics, registry = HardwareMetrics(lambda: snapshot, lambda: now), CollectorRegistry()
    registry.register(metrics)
    text, openmetrics = generate_latest(registry).decode(), openmetrics_latest(registry).decode()
    assert "\nfabricmon_port_saturated{" in text
    assert len(text.splitlines()) > 100
    assert spelt_alike(b"".join(metrics.pieces(Format.TEXT)).decode()) == spelt_alike(text)
    page = b"".join([*metrics.pieces(Format.OPENMETRICS), END[Format.OPENMETRICS]]).decode()
    assert spelt_alike(page) == spelt_alike(openmetrics)


def test_the_simulated_node_has_eight_adapters_and_eight_gpus() -> None:
    parts = simulated().inventory.parts
    rows = {(part.kind, component.name) for part in parts for component in part.components}
    assert [sum(kind is wanted for kind, _ in rows) for wanted in (Kind.PORT, Kind.GPU)] == [8, 8]


@pytest.mark.parametrize("format", Format)
async def test_the_agents_own_families_follow_and_the_page_ends_once(format: Format) -> None:
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0"))) as running:
        await running.agent.node.schedule.board.first_round.wait()
        lines = b"".join(running.agent.api.metrics(format)).decode().splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(families) == len(set(families)) > 20
    assert {"process_threads", "python_info", "fabricmon_build_info", "fabricmon_streams"} < set(families)
    assert lines.count("# EOF") == (lines[-1] == "# EOF") == (format is Format.OPENMETRICS)
    assert not any("_created" in line for line in lines)


async def test_two_agents_in_a_process_count_each_for_itself() -> None:
    async with Running(FakeCollector()) as one, Running(FakeCollector()) as other:
        one.agent._reread = lambda: SimpleNamespace(
            agent=one.agent._config.agent, collect={}, rules={}, log=LogConfig()
        )
        await one.agent.reload()
        counts = [r.agent.registry.get_sample_value("fabricmon_agent_config_reloads_total") for r in (one, other)]
    assert counts == [1, 0]
