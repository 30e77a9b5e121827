"""Collectors run at their own pace: never twice at once, never held up by another, at once after an event."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.agent.readings import pace
from fabricmon.agent.readings.status import SEARCH
from fabricmon.host.protocol import HostError
from fabricmon.model import Event
from tests.agent.fakes import Config, FakeCollector, FakeSession, Running, until


@given(st.floats(0, 1e7), st.floats(0.05, 3600), st.floats(0, 1, exclude_max=True))
def test_the_next_start_is_on_the_grid_and_within_one_interval(now: float, interval: float, part: float) -> None:
    shift = part * interval
    start = pace.next_start(now, interval, shift)
    assert now < start <= now + interval * (1 + 1e-6) + 1e-6
    turns = (start - shift) / interval
    assert abs(turns - round(turns)) < 1e-3


def test_offsets_are_stable_and_spread_nodes() -> None:
    one = pace.offset("host-1", "infiniband", 10.0)
    assert one == pace.offset("host-1", "infiniband", 10.0)
    many = sorted(pace.offset(f"host-{n}", "infiniband", 10.0) for n in range(1000))
    assert many[0] >= 0
    assert many[-1] < 10.0
    assert max(b - a for a, b in pairwise(many)) < 0.2  # 20 times the even spacing


async def test_readings_reach_the_snapshot() -> None:
    a, b = FakeSession("mlx5_0"), FakeSession("mlx5_1")
    a.values, b.values = [1.0, 2.0], [3.0, math.nan]
    async with Running(FakeCollector(mlx5_0=a, mlx5_1=b)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        s = running.agent.node.state.snapshot
        assert [c.name for p in s.inventory.parts for c in p.components] == ["mlx5_0/1", "mlx5_1/1"]
        assert s.values[:3].tolist() == [1.0, 2.0, 3.0]
        assert math.isnan(s.values[3])
        a.values = [5.0, 2.0]
        await until(lambda: running.agent.node.state.snapshot.values[0] == 5.0)


async def test_a_hanging_device_delays_only_itself_and_is_never_read_twice_at_once() -> None:
    good, bad = FakeSession("mlx5_0"), FakeSession("mlx5_1")
    async with Running(FakeCollector(mlx5_0=good, mlx5_1=bad), config=Config(deadline=0.1)) as running:
        await until(lambda: bad.reads > 0)
        bad.gate.clear()
        status = running.agent.node.schedule.board.status
        await until(lambda: status["fake", "mlx5_1"].skipped > 3)
        reads = good.reads
        await until(lambda: good.reads > reads + 3)
        assert status["fake", "mlx5_1"].success is False
        assert status["fake", "mlx5_1"].stuck_since is not None
        assert status["fake", "mlx5_0"].success is True
        assert bad.most_at_once == 1
        bad.values = [9.0, 9.0]
        bad.gate.set()  # it comes back by itself
        await until(lambda: running.agent.node.state.snapshot.values[2] == 9.0)
        assert status["fake", "mlx5_1"].stuck_since is None


async def test_an_event_is_read_after_at_once_even_when_it_comes_during_a_read() -> None:
    session = FakeSession("eth0")
    collector = FakeCollector(eth0=session)
    async with Running(collector, config=Config(interval=3600.0, deadline=60.0)) as running:
        await until(lambda: session.reads == 1)
        collector.notify(Event(0, 1.0, "link", "eth0", "eth0 lost carrier"))
        await until(lambda: session.reads == 2)
        session.gate.clear()
        collector.notify(None)
        await until(lambda: session.reading_now == 1)
        collector.notify(None)  # during the read: what it saw may be older than the event
        session.gate.set()
        await until(lambda: session.reads == 4)
        assert [e.text for e in running.agent.node.state.events_after(0)] == ["eth0 lost carrier"]


class Watched(FakeCollector):
    """Notes how often its device was read when it began to listen, and hangs there until `gate` is set."""

    def __init__(self, session: FakeSession) -> None:
        super().__init__(eth0=session)
        self.session = session
        self.gate = threading.Event()
        self.gate.set()
        self.reads: list[int] = []

    def watch(self, notify: Callable[[Event | None], None]) -> Callable[[], None]:
        self.reads.append(self.session.reads)
        self.gate.wait()
        return super().watch(notify)


async def test_events_are_listened_for_before_the_first_read() -> None:
    collector = Watched(session := FakeSession("eth0"))
    async with Running(collector, config=Config(interval=3600.0)):
        await until(lambda: session.reads == 1)
    assert collector.reads == [0]


async def test_a_device_is_read_although_listening_for_its_events_hangs() -> None:
    collector = Watched(session := FakeSession("eth0"))
    collector.gate.clear()
    async with Running(collector, config=Config(interval=0.05, deadline=0.2)) as running:
        await until(lambda: session.reads > 2)
        assert running.agent.node.schedule.board.status["fake", SEARCH].error
        collector.gate.set()


async def test_a_storm_of_events_is_spaced() -> None:
    session = FakeSession("eth0")
    collector = FakeCollector(eth0=session)
    async with Running(collector, config=Config(interval=3600.0)):
        await until(lambda: session.reads == 1)
        loop = asyncio.get_running_loop()
        start = loop.time()
        while loop.time() < start + 0.5:
            collector.notify(None)
            await asyncio.sleep(0.001)
        assert 2 <= session.reads <= 0.5 / pace.MIN_GAP + 2


async def test_a_device_that_cannot_be_read_is_unknown_and_looked_for_again() -> None:
    good, bad = FakeSession("mlx5_0"), FakeSession("mlx5_1")
    collector = FakeCollector(mlx5_0=good, mlx5_1=bad)
    async with Running(collector) as running:
        await until(lambda: len(running.agent.node.state.snapshot.values) == 4)
        bad.error = HostError("/sys/class/infiniband/mlx5_1", 19, "No such device")
        await until(lambda: math.isnan(running.agent.node.state.snapshot.values[2]))
        assert running.agent.node.state.snapshot.values[0] == 0.0
        assert "mlx5_1" in running.agent.node.schedule.board.status["fake", "mlx5_1"].error
        before = collector.searches
        await until(lambda: collector.searches > before)
        del collector.found["mlx5_1"]
        await until(lambda: ("fake", "mlx5_1") not in running.agent.node.schedule.board.status)
        assert [c.name for p in running.agent.node.state.inventory.parts for c in p.components] == ["mlx5_0/1"]
        await until(lambda: bad.closed_during_read is False)


async def test_closing_waits_for_the_read_that_still_runs() -> None:
    bad = FakeSession("mlx5_1")
    bad.gate.clear()
    collector = FakeCollector(mlx5_1=bad)
    async with Running(collector, config=Config(deadline=0.05)) as running:
        await until(lambda: running.agent.node.schedule.board.first_round.is_set())
    await until(lambda: collector.stopped and collector.closed)
    assert bad.closed_during_read is None
    bad.gate.set()
    await until(lambda: bad.closed_during_read is not None)
    assert bad.closed_during_read is False


async def test_a_failed_search_is_tried_again_and_reported() -> None:
    collector = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    collector.error = HostError("/sys/class/infiniband", 13, "Permission denied")
    async with Running(collector, config=Config(rediscover=0.05)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        assert "Permission denied" in running.agent.node.schedule.board.status["fake", SEARCH].error
        assert running.agent.node.not_ready() == "no collector could read anything"
        collector.error = None
        await until(lambda: running.agent.node.not_ready() is None and running.agent.node.state.inventory.size == 2)


async def test_one_broken_collector_does_not_stop_another() -> None:
    class Broken(FakeCollector):
        def open(self, host: object, config: object) -> FakeCollector:
            raise ZeroDivisionError("a defect")

    works = FakeSession("mlx5_0")
    async with Running(Broken("broken"), FakeCollector("fake", mlx5_0=works)) as running:
        await until(lambda: works.reads > 2)
        assert running.agent.node.schedule.board.status["broken", SEARCH].error == "a defect"


async def test_a_reading_that_does_not_fill_its_parts_is_refused() -> None:
    bad = FakeSession("mlx5_0")
    bad.values = [1.0]
    async with Running(FakeCollector(mlx5_0=bad)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        assert "1 values for parts of 2" in running.agent.node.schedule.board.status["fake", "mlx5_0"].error
        assert running.agent.node.state.inventory.size == 0


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_disabled_collector_is_not_opened(enabled: bool) -> None:
    collector = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    async with Running(collector, config=Config(enabled=enabled)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        assert (collector.searches > 0) is enabled


def devices(running: Running) -> list[list[str]]:
    """Which devices share a thread, by the names of the reader threads that read them last."""
    groups: dict[int, list[str]] = {}
    for name, session in running.sessions.items():
        groups.setdefault(session.thread, []).append(name)
    return sorted(groups.values())


async def test_devices_share_a_thread_until_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabricmon.agent.devices.SLOW", 0.5)  # far from what a busy test machine does to a quick read
    sessions = {f"mlx5_{n}": FakeSession(f"mlx5_{n}") for n in range(4)}
    async with Running(FakeCollector(**sessions)) as running:
        running.sessions = sessions
        await until(lambda: all(s.reads >= 2 for s in sessions.values()))
        assert devices(running) == [["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]]
        sessions["mlx5_2"].seconds = 0.6
        await until(lambda: len(devices(running)) == 4)
        reads = sessions["mlx5_0"].reads
        await until(lambda: sessions["mlx5_0"].reads > reads + 5)
        assert max(s.most_at_once for s in sessions.values()) == 1


async def test_the_first_read_of_a_device_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabricmon.agent.devices.SLOW", 0.5)
    sessions = {f"mlx5_{n}": FakeSession(f"mlx5_{n}") for n in range(2)}
    sessions["mlx5_0"].seconds = 0.6
    async with Running(FakeCollector(**sessions)) as running:
        running.sessions = sessions
        await until(lambda: sessions["mlx5_0"].reads == 1)
        sessions["mlx5_0"].seconds = 0.0
        await until(lambda: all(s.reads >= 3 for s in sessions.values()))
        assert devices(running) == [["mlx5_0", "mlx5_1"]]


async def test_when_all_hang_at_once_they_are_found_out_together() -> None:
    """A driver that hangs must not cost one deadline after the other."""
    sessions = {f"mlx5_{n}": FakeSession(f"mlx5_{n}") for n in range(6)}
    for session in sessions.values():
        session.gate.clear()
    async with Running(FakeCollector(**sessions), config=Config(deadline=0.2)) as running:
        status = running.agent.node.schedule.board.status
        await running.agent.node.schedule.board.first_round.wait()
        assert all(status["fake", d].stuck_since is not None for d in sessions)
        # the first is overdue alone, all others in the deadline after it
        assert {s.reading_now for s in sessions.values()} == {1}
        for session in sessions.values():
            session.gate.set()
        await until(lambda: all(s.success for s in status.values()))


async def test_a_hanging_device_that_vanishes_leaves_its_thread_and_nothing_else() -> None:
    good, bad = FakeSession("mlx5_0"), FakeSession("mlx5_1")
    collector = FakeCollector(mlx5_1=bad, mlx5_0=good)
    async with Running(collector, config=Config(deadline=0.3, rediscover=0.05)) as running:
        await until(lambda: good.reads > 0)
        bad.gate.clear()
        await until(lambda: bad.reading_now)
        del collector.found["mlx5_1"]
        await until(lambda: ("fake", "mlx5_1") not in running.agent.node.schedule.board.status)
        reads = good.reads
        await until(lambda: good.reads > reads + 3)
        bad.gate.set()
        await until(lambda: bad.closed_during_read is False)


async def test_a_device_that_comes_later_is_read_at_once() -> None:
    collector = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    late = FakeSession("mlx5_1")
    async with Running(collector, config=Config(interval=3600.0, rediscover=0.05)):
        collector.found["mlx5_1"] = late
        await until(lambda: late.reads == 1)


async def test_a_device_replaced_under_its_name_is_read_anew_and_the_old_closed() -> None:
    old, new = FakeSession("mlx5_0"), FakeSession("mlx5_0")
    new.values = [7.0, 7.0]
    collector = FakeCollector(mlx5_0=old)
    async with Running(collector, config=Config(rediscover=0.05)) as running:
        await until(lambda: old.reads > 0)
        collector.found["mlx5_0"] = new
        await until(lambda: running.agent.node.state.snapshot.values[:1].tolist() == [7.0])
        await until(lambda: old.closed_during_read is False)


async def test_without_live_events_a_collector_still_reads_and_says_so() -> None:
    class Deaf(FakeCollector):
        def watch(self, notify: object) -> object:
            raise HostError("rtnetlink", 1, "Operation not permitted")

    session = FakeSession("eth0")
    async with Running(Deaf(eth0=session)) as running:
        await until(lambda: session.reads > 1)
        status = running.agent.node.schedule.board.status["fake", SEARCH]
        assert status.success is True
        assert [f.error for f in status.faults] == ["rtnetlink: Operation not permitted"]


async def test_the_watchdog_hears_of_runs_and_a_node_without_devices_is_not_stuck() -> None:
    session = FakeSession("eth0")
    slow, empty = FakeCollector("slow", eth0=session), FakeCollector("empty")
    async with Running(slow, empty, config=Config(interval=60.0, deadline=5.0)) as running:
        schedule = running.agent.node.schedule
        await until(lambda: schedule.board.status.get(("slow", "eth0")) and session.reads)
        last = schedule.board.last_end
        assert schedule.moved(last + 194.0)  # three times its own interval and deadline
        assert not schedule.moved(last + 196.0)
    async with Running(FakeCollector("empty")) as running:
        await running.agent.node.schedule.board.first_round.wait()
        assert running.agent.node.schedule.moved(running.agent.node.schedule.board.last_end + 1e6)
