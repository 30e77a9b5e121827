"""How the senders that act are run: what each is called with, what is kept of its reports, and what of its failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from fabricmon.central.delivery import acting
from fabricmon.central.delivery.acting import Actors, StoredActionLog, configured_actors
from fabricmon.central.store.database import StoreError
from fabricmon.notify.acting import HOUR, Deed
from fabricmon.runtime import supervise
from fabricmon.senders.acting import ActionReport, Standing

NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def every_line_is_logged() -> None:
    """Other tests of this process may have asked for errors only."""
    structlog.reset_defaults()


def deed(node: str = "host-007", verb: str = "drain") -> Deed:
    return Deed("slurm", node, verb, "inc-1", NOW)


class Store:
    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.written: list[Deed] = []

    async def deeds(self, name: str, since: float) -> list[Deed]:
        self.asked.append((name, since))
        return [deed("earlier")]

    async def commit(self, deeds: list[Deed]) -> None:
        self.written += deeds

    async def incidents(self, ids: Any) -> list[str]:
        return [f"incident {id}" for id in ids]


@dataclass
class Drainer:
    """An actor that reports as it is told to; it is its own configuration."""

    name: str = "slurm"
    reports: list[ActionReport | Exception] = field(default_factory=list)
    period: float = 0.0
    seen: list[Standing] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    hangs: bool = False

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def open(self) -> Drainer:
        self.opened += 1
        return self

    async def act(self, standing: Standing, diary: StoredActionLog) -> ActionReport:
        self.seen.append(standing)
        if self.hangs:
            await asyncio.sleep(3600)
        report = self.reports.pop(0) if self.reports else ActionReport()
        if isinstance(report, Exception):
            raise report
        for done in report.done:
            await diary.write(done)
        if not self.reports:
            self.period = 3600.0
        return report

    async def close(self) -> None:
        self.closed += 1


async def ran(actor: Drainer, store: Store | None = None, standing: Standing | None = None) -> Actors:
    """The actors after all reports of this one."""
    actors = Actors(store or Store(), lambda: standing or Standing(NOW, (), (), ()), [actor])  # type: ignore[arg-type,list-item]
    task = asyncio.create_task(actors.run())
    async with asyncio.timeout(10):
        while actor.reports or not actor.seen or (not actor.hangs and actor.period < 3600):
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return actors


async def test_it_is_called_with_what_stands_and_with_its_own_actions_of_the_last_hour() -> None:
    store, actor = Store(), Drainer(reports=[ActionReport(done=[deed()])])
    standing = Standing(NOW, ("i",), ("s",), ("n",))  # type: ignore[arg-type]
    await ran(actor, store, standing)
    assert store.asked == [("slurm", NOW - HOUR)]
    assert actor.seen == [Standing(NOW, ("i",), ("s",), ("n",), [deed("earlier")])]  # type: ignore[arg-type]
    assert store.written == [deed()]
    assert (actor.opened, actor.closed) == (1, 1)


async def test_actions_are_counted_by_verb_and_those_of_a_dry_run_are_not() -> None:
    reports: list[ActionReport | Exception] = [
        ActionReport(done=[deed(), deed("host-008"), deed("host-007", "undrain")], failed={"host-009": "timed out"}),
        ActionReport(failed={"host-009": "timed out"}, withheld={"host-010": "silenced"}, held=2),
        ActionReport(done=[deed("host-011")], dry=True),
    ]
    last = reports[-1]
    actors = await ran(Drainer(reports=reports))
    state = actors.states["slurm"]
    assert (state.done, state.failed, state.error) == (Counter(drain=2, undrain=1), 2, "")
    assert state.report is last
    assert actors.warnings() == []


async def test_each_state_of_a_node_is_logged_once() -> None:
    failing = ActionReport(failed={"host-009": "timed out"}, withheld={"host-010": "silenced"})
    dry = ActionReport(done=[deed("host-011")], dry=True)
    with structlog.testing.capture_logs() as logged:
        actors = await ran(Drainer(reports=[failing, failing, dry, dry, ActionReport(done=[deed()])]))
    found = [(line["event"], line["node"], line.get("incident", "")) for line in logged if "node" in line]
    assert found == [
        ("failed", "host-009", ""), ("no action", "host-010", ""), ("would drain", "host-011", "inc-1"),
        ("action done", "host-007", "inc-1"),
    ]  # fmt: skip
    assert actors.states["slurm"].failed == 2


async def test_warnings_name_what_cannot_be_done() -> None:
    failed = {f"host-{n}": "timed out" for n in range(5)}
    actors = await ran(Drainer(reports=[ActionReport(failed=failed, error="no scontrol")]))
    assert actors.warnings() == [
        "slurm cannot act: no scontrol", *(f"slurm could not act on host-{n}: timed out" for n in range(3)),
    ]  # fmt: skip


async def test_a_call_that_hangs_ends_and_an_action_that_cannot_be_recorded_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acting, "CALL_LIMIT", 0.01)
    actors = await ran(hanging := Drainer(hangs=True))
    assert actors.states["slurm"].error == "not finished within 0.01 s"
    assert hanging.closed == 1
    actors = await ran(Drainer(reports=[StoreError("disk full"), ActionReport(error="x")]))
    assert actors.states["slurm"].error == "x"
    (unrecorded,) = (await ran(Drainer(reports=[StoreError("disk full")], period=3600.0))).warnings()
    assert unrecorded == "slurm cannot act: no action without a record in the store: disk full"


async def test_one_that_breaks_is_closed_reported_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise.keep, "__defaults__", (0.0,))
    actor = Drainer(reports=[ValueError("odd"), ActionReport(held=1)])
    actors = await ran(actor)
    assert (actor.opened, actor.closed, actors.states["slurm"].report.held) == (2, 2, 1)
    actors = Actors(Store(), lambda: None, [])  # type: ignore[arg-type]
    assert actors.states == {}


async def test_nothing_is_called_before_the_first_evaluation() -> None:
    actor = Drainer()
    actors = Actors(Store(), lambda: None, [actor])  # type: ignore[arg-type,list-item]
    task = asyncio.create_task(actors.run())
    await asyncio.sleep(0.02)
    assert (actor.opened, actor.seen) == (1, [])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_removed_actor_is_closed_a_new_one_started_and_one_that_stays_keeps_its_counts() -> None:
    stays, goes, comes = (Drainer(name, [ActionReport(done=[deed()])]) for name in ("stays", "goes", "comes"))
    actors = Actors(Store(), lambda: Standing(NOW, (), (), ()), [stays, goes])  # type: ignore[arg-type,list-item]
    task = asyncio.create_task(actors.run())
    async with asyncio.timeout(10):
        while not (stays.seen and goes.seen):
            await asyncio.sleep(0.001)
    actors.configure([stays, comes])  # type: ignore[list-item]
    async with asyncio.timeout(10):
        while not (comes.seen and goes.closed):
            await asyncio.sleep(0.001)
    assert {name: state.done["drain"] for name, state in actors.states.items()} == {"stays": 1, "comes": 1}
    assert [(one.opened, one.closed) for one in (stays, goes, comes)] == [(1, 0), (1, 1), (1, 0)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [one.closed for one in (stays, goes, comes)] == [1, 1, 1]


def test_of_all_senders_those_act_that_have_an_actor() -> None:
    senders = {"drain": SimpleNamespace(kind="slurm", config=1), "ops": SimpleNamespace(kind="webhook", config=2)}
    config = SimpleNamespace(senders=senders, central=SimpleNamespace(as_links=lambda: "links"))
    (found,) = configured_actors(config)  # type: ignore[arg-type]
    assert (found.name, found.kind, found.config, found.links) == ("drain", "slurm", 1, "links")
    with pytest.raises(KeyError):
        replace(found, kind="webhook").open()


async def test_the_log_of_actions_asks_the_store_only_for_what_is_asked_for() -> None:
    log = StoredActionLog(Store())  # type: ignore[arg-type]
    assert list(map(str, await log.incidents(["a", "b"]))) == ["incident a", "incident b"]
    assert await log.incidents([]) == []
