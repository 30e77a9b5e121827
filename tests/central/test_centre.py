"""The tick: nothing is told before it is durable, nothing that was judged is lost while the disk fails."""

import pytest

from fabricmon.central.centre import PLAN_PERIOD, RETRY, Centre
from fabricmon.central.store import State, StoreError
from fabricmon.model import Change, Severity
from fabricmon.notify.route import Receiver
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

    def maintenance(self, windows):
        self.windows = windows

    def counters(self):
        return {}

    def open_by_rule(self):
        return {}


class Store:
    """Commits into lists, or fails while `broken`."""

    def __init__(self):
        self.broken, self.commits, self.kept = False, [], {}

    async def commit(self, incidents=(), notifications=(), **other):
        if self.broken:
            raise StoreError("disk full")
        self.commits.append((list(incidents), list(notifications)))
        self.kept.update((i.id, i) for i in incidents)

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
        state = state or State([], [], [], [], [], {})
        self.centre = Centre("lab", self.engine, self.store, state, self.outbox, lambda: self.now)
        self.centre.receivers = [Receiver("ops")]

    async def tick(self, *changed, after=0.25):
        self.now += after
        self.engine.changes = [list(changed)]
        return await self.centre.tick()

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
    assert "disk full" in world.centre.store_error
    world.store.broken = False
    await world.tick(after=RETRY)
    assert {i.id: i.severity for i in world.store.commits[0][0]} == {"a": "critical", "b": "warning"}
    assert sorted(i for i, _, _ in world.told()) == ["a", "b"]
    assert world.centre.store_error == ""


async def test_what_a_restart_finds_told_is_not_told_again(world):
    await world.tick(firing())
    kept = list(world.store.kept.values())
    told = list(world.centre.told)
    again = World(State(kept, told, [], [], [], {}))
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


async def test_a_storm_is_told_to_its_last_incident(world):
    await world.tick(*(firing(f"i{n:05d}") for n in range(4500)))
    assert len({i for i, _, _ in world.told()}) == 4500


async def test_silences_are_planned_at_the_next_tick(world):
    made = await world.centre.silences.add(["id=a"], world.now, world.now + 60, "m", "c", world.now)
    world.store.commits.clear()
    world.centre.silences_changed()
    await world.tick(firing())
    assert world.told() == []
    await world.centre.silences.expire(made.id, world.now)
    world.centre.silences_changed()
    await world.tick()
    assert world.told() == [("a", "firing", "silence ended")]


async def test_the_pace_follows_the_work(world):
    least = await world.tick()
    assert least == pytest.approx(5 * world.centre.ticks.last)
