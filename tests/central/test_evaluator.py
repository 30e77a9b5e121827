"""The tick: nothing is told before it is durable, nothing that was judged is lost while the disk fails."""

import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from fabricmon.central.evaluation.evaluator import MAX_WARNINGS, PLAN_PERIOD, RETRY, Evaluator
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import StoredState
from fabricmon.model import Change, Members, Severity
from fabricmon.notify.pacing import PERIOD
from fabricmon.notify.route import Receiver
from fabricmon.runtime import logs
from tests.page.scenes import incident


class Engine:
    """Says what a test puts into `changes`, one entry a tick."""

    def __init__(self):
        self.changes, self.open, self.restored, self.windows = [], {}, [], []

    def tick(self, now):
        changed = self.changes.pop(0) if self.changes else []
        self.open.update((i.id, i) for i in changed)
        return Change(incidents=changed)

    def incidents(self):
        return list(self.open.values())

    def symptoms(self):
        return []

    def nodes(self):
        return []

    def topology(self):
        return None

    def restore(self, incidents, now):
        self.restored = list(incidents)

    def time_steps(self, diagnosis, placing):
        pass

    def maintenance(self, windows):
        self.windows = windows

    def counters(self):
        return {}

    def open_by_rule(self):
        return {}


class Store:
    """Commits into lists, or fails while `broken`."""

    def __init__(self):
        self.broken, self.commits, self.kept, self.trouble, self.waits = False, [], {}, "", []
        self.answers = asyncio.Event()  # cleared: the disk hangs
        self.answers.set()

    async def commit(self, incidents=(), notifications=(), **other):
        if self.broken:
            raise StoreError("disk full")
        await self.answers.wait()
        self.commits.append((list(incidents), list(notifications)))
        self.waits.append(list(other.get("withheld", ())))
        self.kept.update((i.id, i) for i in incidents)
        return frozenset(n.key for n in notifications)

    async def incidents(self, ids):
        return [self.kept[i] for i in ids if i in self.kept]


class Outbox:
    full = frozenset()

    def __init__(self, store):
        self.store, self.accepted = store, []

    def accept(self, notes):
        durable = [n for _, notes_of in self.store.commits for n in notes_of]
        assert all(n in durable for n in notes)
        self.accepted += notes


class World:
    def __init__(self, state=None):
        self.now = 1.8e9
        self.engine, self.store = Engine(), Store()
        self.outbox = Outbox(self.store)
        state = state or StoredState([], [], [], [], [], {})
        self.server = Evaluator("lab", self.engine, self.store, state, self.outbox, lambda: self.now)
        self.server.receivers = [Receiver("ops")]

    async def tick(self, *changed, after=0.25):
        self.now += after
        self.engine.changes = [list(changed)]
        return await self.server.tick()

    def told(self):
        return [(i.id, i.status, n.reason) for n in self.outbox.accepted for i in n.incidents]


@pytest.fixture
def world():
    return World()


def firing(id="a", **more):
    return incident(id=id, since=1.8e9, **more)


async def test_a_change_and_its_notification_are_one_commit(world):
    await world.tick(firing())
    ((incidents, notes),) = world.store.commits
    assert [i.id for i in incidents] == ["a"]
    assert [i.id for i in notes[0].incidents] == ["a"]
    assert world.told() == [("a", "firing", "new incident")]


async def test_what_waits_for_a_free_message_is_committed_once_and_sent_when_it_is_free(world):
    world.server.receivers = [Receiver("ops", budget=1, repeat=0.0)]
    await world.tick(firing("a"))
    await world.tick(firing("b"))
    await world.tick(firing("c"))
    for _ in range(3):
        await world.tick(after=PLAN_PERIOD)
    assert [[w.incident for w in waits] for waits in world.store.waits if waits] == [["b"], ["c"]]
    assert [id for id, _, _ in world.told()] == ["a"]
    world.server.pacing.answered(world.outbox.accepted[0], world.now)
    await world.tick(after=PERIOD)
    assert [id for id, _, _ in world.told()] == ["a", "b", "c"]
    assert len(world.outbox.accepted) == 2


async def test_ticks_without_a_change_write_nothing(world):
    for _ in range(3):
        await world.tick(after=PLAN_PERIOD)
    assert world.store.commits == []


async def test_while_the_disk_fails_nothing_is_told_and_then_everything(world):
    world.store.broken = True
    await world.tick(firing("a"))
    await world.tick(firing("b"))
    await world.tick(firing("a", severity=Severity.CRITICAL, revision=2))
    assert world.told() == []
    assert "disk full" in world.server.store_error
    world.store.broken = False
    await world.tick(after=RETRY)
    assert {i.id: i.severity for i in world.store.commits[0][0]} == {"a": "critical", "b": "warning"}
    assert sorted(i for i, _, _ in world.told()) == ["a", "b"]
    assert world.server.store_error == ""


async def test_a_hung_disk_stops_no_tick_and_its_commit_is_not_planned_twice(world, monkeypatch):
    monkeypatch.setattr("fabricmon.central.evaluation.evaluator.COMMIT_WAIT", 0.05)
    world.store.answers.clear()
    await world.tick(firing("a"))
    world.store.trouble = "hung"
    for n in range(3):
        await world.tick(firing(f"b{n}"), after=PLAN_PERIOD)
    assert world.server.ticks.count == 4
    assert world.told() == []
    assert world.server.store_error == "hung"
    world.store.trouble = ""
    world.store.answers.set()
    await asyncio.sleep(0.01)
    await world.tick()
    await world.tick()
    assert [[i.id for i in incidents] for incidents, _ in world.store.commits] == [["a"], ["b0", "b1", "b2"]]
    assert sorted(i for i, _, _ in world.told()) == ["a", "b0", "b1", "b2"]
    assert world.server.store_error == ""


async def test_what_a_restart_finds_told_is_not_told_again(world):
    await world.tick(firing())
    kept = list(world.store.kept.values())
    told = list(world.server.notified)
    again = World(StoredState(kept, told, [], [], [], {}))
    again.engine.open = {i.id: i for i in kept}
    assert again.engine.restored == kept
    await again.tick(after=PLAN_PERIOD)
    assert again.told() == []


async def test_a_receiver_hears_the_end_of_what_the_engine_has_dropped(world):
    world.outbox.full = frozenset({"ops"})
    await world.tick(firing())
    world.outbox.full = frozenset()
    await world.tick(after=PLAN_PERIOD)
    world.outbox.full = frozenset({"ops"})
    await world.tick(firing(status="resolved", resolved=world.now))
    world.engine.open.clear()
    world.outbox.full = frozenset()
    await world.tick(after=PLAN_PERIOD)
    assert world.told() == [("a", "firing", "new incident"), ("a", "resolved", "resolved")]


async def test_what_ended_long_ago_while_the_disk_failed_is_resolved_and_not_repeated(world):
    await world.tick(firing())
    world.store.broken = True
    await world.tick(firing(status="resolved", resolved=world.now, revision=2))
    world.engine.open.clear()  # resolved an hour ago
    await world.tick(after=86400.0)
    world.store.broken = False
    await world.tick(after=RETRY)
    assert world.told() == [("a", "firing", "new incident"), ("a", "resolved", "resolved")]


async def test_a_storm_is_told_to_its_last_incident(world):
    await world.tick(*(firing(f"i{n:05d}") for n in range(4500)))
    assert len({i for i, _, _ in world.told()}) == 4500


async def test_silences_are_planned_at_the_next_tick(world):
    made = await world.server.silences.add(["id=a"], world.now, world.now + 60, "m", "c", world.now)
    world.store.commits.clear()
    world.server.silences_changed()
    await world.tick(firing())
    assert world.told() == []
    await world.server.silences.expire(made.id, world.now)
    world.server.silences_changed()
    await world.tick()
    assert world.told() == [("a", "firing", "silence ended")]


async def test_the_pace_follows_the_work(world):
    work = await world.tick()
    assert 0 < work <= world.server.ticks.last


async def test_a_plan_without_a_change_comes_every_few_seconds_and_not_before(world):
    world.server.receivers = []
    await world.tick(firing())
    world.server.receivers = [Receiver("ops")]
    await world.tick(after=PLAN_PERIOD - 0.1)
    assert world.told() == []
    await world.tick(after=0.1)
    assert world.told() == [("a", "firing", "new incident")]


async def test_a_failed_commit_is_tried_again_after_its_pause_and_not_before(world):
    world.store.broken = True
    await world.tick(firing())
    world.store.broken = False
    await world.tick(after=RETRY - 0.1)
    assert world.store.commits == []
    await world.tick(after=0.1)
    assert world.told() == [("a", "firing", "new incident")]


async def test_what_page_and_api_show_is_a_second_old_at_most(world):
    seen = world.server.current()
    world.now += 0.9
    assert world.server.current() is seen
    world.now += 0.1
    again = world.server.current()
    assert (again is seen, again.at) == (False, world.now)
    await world.tick(firing(), after=0.0)
    assert [i.id for i in world.server.current().incidents] == ["a"], "a change shows at once"
    kept = world.server.current()
    await world.tick(after=0.0)
    assert world.server.current() is kept, "a tick without a change keeps it"
    world.server.replan()
    assert world.server.current() is not kept


async def test_an_incident_is_found_while_it_is_open_and_from_the_store_after_that(world):
    await world.tick(firing("a"), firing("b"))
    assert world.server.present_incident("b").id == "b"
    world.engine.open.clear()
    world.server.replan()
    assert world.server.present_incident("b") is None
    assert (await world.server.incident("b")).id == "b"
    assert await world.server.incident("c") is None


async def test_ticks_are_counted_and_measured(world):
    assert world.server.ticks.count == 0
    assert world.server.standing() is None, "nothing is known before the first tick"
    for n in range(3):
        await world.tick(after=1.0)
        ticks = world.server.ticks
        assert (ticks.count, ticks.at) == (n + 1, world.now)
        assert 0 < ticks.last <= ticks.longest <= ticks.seconds
    assert world.server.ticks.seconds > world.server.ticks.longest


async def test_the_senders_that_act_see_what_is_open_and_what_is_silenced(world):
    await world.server.silences.add(["id=a"], world.now, world.now + 60, "m", "c", world.now)
    await world.server.silences.add(["id=b"], world.now + 30, world.now + 60, "m", "c", world.now)
    await world.tick(firing("a"), firing("b"))
    standing = world.server.standing()
    assert standing.silenced == {"a"}
    assert [i.id for i in standing.incidents] == ["a", "b"]
    assert standing.at == world.now


async def test_warnings_name_a_few_of_each_sort(world):
    world.engine.failures = lambda: {f"step {n}": "no such row" for n in range(MAX_WARNINGS + 1)}
    found = world.server.warnings()
    assert len(found) == MAX_WARNINGS
    assert found[0] == "Step step 0 of the evaluation failed and was skipped: no such row"
    world.engine.failures = dict
    assert world.server.warnings() == []


async def test_the_log_has_each_change_of_an_incident_and_of_the_store(world):
    before = structlog.get_config()
    logs.configure(level="info")
    try:
        with capture_logs() as lines:
            await world.tick(firing(members=Members(2, 7)))
            world.store.trouble = "hung"
            await world.tick()
            await world.tick()
            world.store.trouble = ""
            await world.tick()
    finally:
        structlog.configure(**before)
    first, failing, working = lines
    assert (first["event"], first["log_level"], first["id"], first["status"]) == ("incident", "info", "a", "firing")
    assert (first["members"], first["severity"]) == ("2/7", "warning")
    assert (failing["log_level"], failing["error"]) == ("warning", "hung")
    assert failing["event"] == "state cannot be saved; no new notifications until it can"
    assert (working["log_level"], working["event"]) == ("info", "state is saved again")
    assert "error" not in working
