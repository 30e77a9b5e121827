"""The agent reads its configuration again: what changed starts anew, the rest goes on, a bad one changes nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from fabricmon.agent.settings import AgentConfig
from fabricmon.config import ConfigError, ConfigProblem
from fabricmon.runtime import logs
from tests.agent.fakes import Config, FakeCollector, FakeSession, Running, until


def rows(running: Running) -> dict[str, list[float]]:
    """Component -> its values, as they are known now."""
    snapshot, found, base = running.agent.node.state.snapshot, {}, 0
    for part in snapshot.inventory.parts:
        for component in part.components:
            found[f"{part.collector} {component.name}"] = snapshot.values[base : base + len(part.columns)].tolist()
            base += len(part.columns)
    return found


def settings(**collect: Config) -> SimpleNamespace:
    agent = AgentConfig(listen=("127.0.0.1:0",), evaluate=False)
    return SimpleNamespace(agent=agent, collect=collect, rules={}, log=logs.LogConfig())


async def reload(running: Running, **collect: Config) -> None:
    running.agent._reread = lambda: settings(**collect)
    await running.agent.reload()


async def test_a_collector_whose_settings_changed_starts_anew_and_the_others_go_on() -> None:
    changed = FakeCollector("changed", mlx5_0=FakeSession("mlx5_0"))
    kept = FakeCollector("kept", mlx5_1=FakeSession("mlx5_1"))
    async with Running(changed, kept) as running:
        await running.agent.node.schedule.board.first_round.wait()
        before, searches = rows(running), kept.searches
        await reload(running, changed=Config(interval=0.02), kept=Config())
        assert rows(running) == before  # what was read stays until it is read again
        await until(lambda: changed.closed and changed.searches > 1)
        reads = changed.found["mlx5_0"].reads
        await until(lambda: changed.found["mlx5_0"].reads > reads + 2)
        assert kept.searches == searches
        assert not kept.closed
        assert running.agent.node.health().status == "unknown"  # without evaluation, as before


async def test_a_disabled_collector_takes_its_rows_along_and_an_enabled_one_brings_them_back() -> None:
    one, two = FakeCollector("one", mlx5_0=FakeSession("mlx5_0")), FakeCollector("two", mlx5_1=FakeSession("mlx5_1"))
    async with Running(one, two) as running:
        await running.agent.node.schedule.board.first_round.wait()
        await reload(running, one=Config(), two=Config(enabled=False))
        assert [name.split()[1] for name in rows(running)] == ["mlx5_0/1"]
        assert {collector for collector, _ in running.agent.node.schedule.board.status} == {"one"}
        await until(lambda: two.closed)
        await reload(running, one=Config(), two=Config())
        await until(lambda: len(rows(running)) == 2)


async def test_a_device_that_went_while_its_collector_started_anew_is_gone() -> None:
    fake = FakeCollector(mlx5_0=FakeSession("mlx5_0"), mlx5_1=FakeSession("mlx5_1"))
    async with Running(fake) as running:
        await running.agent.node.schedule.board.first_round.wait()
        del fake.found["mlx5_1"]
        await reload(running, fake=Config(interval=0.02))
        await until(lambda: [name.split()[1] for name in rows(running)] == ["mlx5_0/1"])
        assert ("fake", "mlx5_1") not in running.agent.node.schedule.board.status


async def test_a_bad_configuration_changes_nothing_and_is_reported() -> None:
    fake = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    async with Running(fake) as running:
        await running.agent.node.schedule.board.first_round.wait()

        def bad() -> SimpleNamespace:
            raise ConfigError(ConfigProblem("fabricmon.yaml", 3, "collect.fake.interval", "expected a length of time"))

        running.agent._reread = bad
        await running.agent.reload()
        (warning,) = running.agent._health().warnings
        assert "fabricmon.yaml:3" in warning
        assert "the previous one stays in use" in warning
        reads = fake.found["mlx5_0"].reads
        await until(lambda: fake.found["mlx5_0"].reads > reads)
        assert fake.searches == 1
        value = running.agent.registry.get_sample_value
        assert value("fabricmon_agent_config_last_reload_success") == 0
        await reload(running, fake=Config())
        assert running.agent._health().warnings == ()
        assert value("fabricmon_agent_config_last_reload_success") == 1
        assert value("fabricmon_agent_config_reloads_total") == 2
        assert value("fabricmon_agent_config_reload_failures_total") == 1


async def test_what_is_read_at_the_start_only_is_named() -> None:
    fake = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    async with Running(fake) as running:
        other = settings(fake=Config())
        other.agent = AgentConfig(listen=("127.0.0.1:0",), evaluate=False, node="another")
        running.agent._reread = lambda: other
        await running.agent.reload()
        assert running.agent._health().warnings == ("agent.node takes effect at the next start",)


async def test_a_hanging_configuration_file_does_not_stop_the_readings(monkeypatch) -> None:
    monkeypatch.setattr("fabricmon.agent.app.RELOAD_LIMIT", 0.05)
    fake = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    gate = fake.found["mlx5_0"].gate.__class__()
    async with Running(fake) as running:
        running.agent._reread = lambda: gate.wait(30) and None
        async with asyncio.timeout(60):
            await running.agent.reload()
        assert len(running.agent._health().warnings) == 1
        assert running.agent.registry.get_sample_value("fabricmon_agent_config_last_reload_success") == 0
        gate.set()
