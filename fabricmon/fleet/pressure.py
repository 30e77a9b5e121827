"""Back-pressure of each port over time: how long it was kept from sending, how long it kept others from it, what came
with congestion marks, how busy it is. Pure.

Methods: detection-methods 3.1 and 3.2. By the kind of link:
  * InfiniBand tells in ticks how long it had data and no credits. How long an adapter's tick is nobody publishes
    (link-health 6), so its ticks are compared with the most that ports of its make have waited: an estimate.
  * Ethernet tells how long it was paused by priority; the worst priority counts: mlx5 shows only lossless ones, and of
    others the time stays 0. Adapters that count pause frames only get the most that these can have paused: an
    estimate, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import NO_RATE
from fabricmon.fleet.errors import line_rate
from fabricmon.fleet.lane import Lane, Rows
from fabricmon.fleet.slots import SLOT, WINDOW, Slots
from fabricmon.fleet.traffic import SOURCES as TRAFFIC

if TYPE_CHECKING:
    from fabricmon.fleet.table import Table
    from fabricmon.fleet.tracks import Tracks

Floats = NDArray[np.float64]

PRIORITIES = range(8)
TICKS = "xmit_wait_ticks"
PAUSED = (*(f"pfc_rx_pause_prio{n}" for n in PRIORITIES), "pause_rx_pause")
"""Seconds in which a port was not allowed to send, by priority and by global pause."""
PAUSING = (*(f"pfc_tx_pause_prio{n}" for n in PRIORITIES), "pause_tx_pause")
"""Seconds in which a port kept its switch from sending."""
PAUSED_FRAMES = (*(f"pfc_rx_frames_prio{n}" for n in PRIORITIES),)
PAUSING_FRAMES = (*(f"pfc_tx_frames_prio{n}" for n in PRIORITIES),)
STORMS = ("pfc_storm_warning", "pfc_storm_error")
"""Events in which the adapter itself noticed that it had been pausing its switch for too long."""
MARKED, RECEIVED = "ecn_marked_rx", "rdma_rx_packets"
SLOWED = "cnp_handled"
STARVED = ("rnr_nak_tx", "out_of_buffer")
"""Packets that arrived while nothing was ready to take them."""

COLUMNS = (TICKS, *PAUSED, *PAUSING, *PAUSED_FRAMES, *PAUSING_FRAMES, *STORMS, MARKED, RECEIVED, SLOWED, *STARVED)
"""Columns of which differences are taken here, besides those of TRAFFIC."""

SLOWEST_TICK = 1e-6
"""Seconds that a tick stands for at most [D]: the architecture's longest, 256 symbol times of the slowest lane (2.5
Gb/s, ten bits a symbol), is 1.02 microseconds."""
SCALE_EVERY = 30.0  # seconds between two looks at the most that ports of one make wait
SCALE_MEMORY = 86_400.0
"""Seconds in which what was the most counts less and less [D]: a day has jobs that start, so some port waits fully."""
SCALE_RANK = 3
"""The third greatest is taken for the most [D]: one port whose counter jumps must not hide the others."""
LONGEST_PAUSE = 65_535 * 512 / 8
"""Bytes of line time that one pause frame can stop at most: 65,535 quanta of 512 bit times (link-health 7)."""
BUSY = 1e-3
"""Share of the line rate below which a port counts as idle [D]: management and keep-alives, no job."""
MEMORY = 3600.0
"""Seconds of a port's own reference: one hour under the same job (detection-methods 3.1)."""
HOUR = np.int16(MEMORY / SLOT - 1)  # slots before the newest one
PRESSED = 0.05
"""Share of time from which on a port counts as under pressure: "none" ends here (detection-methods 3.1)."""
LARGEST_PACKET = 4096.0
"""Bytes that a RoCE packet carries at most (its largest MTU): where packets are not counted, as of mlx5, bytes tell how
many came at least."""
LONG = 60
"""Slots of waiting that are kept: ten minutes (detection-methods 3.1)."""

RECEIVE, TRANSMIT = range(2)
MARKS, PACKETS, NOTICES = range(3)


class Pressure:
    """Per row.

    stalled    share of time in which the port had to wait with data to send; of ticks, the most that it can have been
    scale      what `stalled` is where a port of this make waits all the time: 1 where time is measured
    pausing    share of time in which it kept its switch from sending
    traffic    RECEIVE, TRANSMIT: share of the line rate
    arrivals   MARKS, PACKETS, NOTICES: packets that came with a mark, packets that came, congestion notifications
               acted on; each per second
    missed     packets per second that found nothing ready to take them
    busy       the port carried traffic in its newest slot
    worked     `now` of the newest slot in which it did, NaN never
    usual      mean of `stalled` over the last hour of work, NaN before the first
    notified   the same of NOTICES
    estimated  `stalled` is an estimate: of ticks, or of pause frames
    closed     rows of which a slot of `stalled` was closed at this tick
    pressed    `now` of the newest slot with at least PRESSED waiting, NaN never
    line       line rate in bytes per second as of this tick, NaN unknown
    storm      `now` at which the adapter's own count of pause storms last rose, NaN never
    """

    def __init__(self, capacity: int) -> None:
        self.stalled = Slots(1, capacity, LONG)
        self.pausing = Slots(1, capacity)
        self.traffic = Slots(2, capacity)
        self.arrivals = Slots(3, capacity)
        self.missed = Slots(1, capacity, 3 * WINDOW)
        self.busy = np.zeros(capacity, np.bool_)
        self.estimated = np.zeros(capacity, np.bool_)
        self.scale = np.ones(capacity, np.float32)
        self.usual = np.full(capacity, np.nan, np.float32)
        self.notified = np.full(capacity, np.nan, np.float32)
        self._slots = np.zeros((2, capacity), np.int16)
        self.worked = np.full(capacity, np.nan)
        self.pressed = np.full(capacity, np.nan)
        self.storm = np.full(capacity, np.nan)
        self.closed = np.zeros(0, np.intp)
        self.line = np.zeros(0)
        self._most: dict[int, float] = {}
        self._scaled = float("nan")

    def advance(self, table: Table, tracks: Tracks, now: float) -> None:
        rate = line_rate(table)
        with np.errstate(invalid="ignore"):
            self.line = rate = np.where(rate > 0, rate, np.nan)
        self.closed = np.zeros(0, np.intp)
        self._note_traffic(table, rate, now)
        self._note_ticks(table, tracks, now)
        self._note_pauses(table, tracks, rate, now)
        self._note_arrivals(table, now)
        for name in STORMS:
            lane, at = table.lane(name), table.counted(name)
            if lane is not None and at is not None and lane.rows is not None:
                rise = table.rise[at, : table.n][lane.rows]
                self.storm[_some(lane.rows, rise > 0)] = now

    def _note_traffic(self, table: Table, rate: Floats, now: float) -> None:
        known = [(rx, tx) for _, rx, tx in TRAFFIC if table.counted(rx) is not None and table.counted(tx) is not None]
        left: NDArray[np.bool_] | None = None
        for number, (received, sent) in enumerate(known):
            told: NDArray[np.bool_] | None = None
            if number + 1 < len(known):
                rx, tx = table.values(received), table.values(sent)
                assert rx is not None
                assert tx is not None
                told = np.isfinite(rx) & np.isfinite(tx)
            lane = table.lane(received)
            if lane is not None and lane.rows is not None:
                rows, seconds = _within(lane, _both(left, told), table.n)
                line = rate[rows]
                amounts = tuple(_rise(table, name, rows) / line for name in (received, sent))
                closed, _ = self.traffic.add(rows, seconds, amounts, now)
                share = self.traffic.latest[:, closed]
                with np.errstate(invalid="ignore"):
                    busy = np.fmax(share[RECEIVE], share[TRANSMIT]) >= BUSY
                self.busy[closed] = busy
                self.worked[closed[busy]] = now
            if told is not None:
                left = ~told if left is None else left & ~told

    def _note_ticks(self, table: Table, tracks: Tracks, now: float) -> None:
        lane = table.lane(TICKS)
        if lane is None or lane.rows is None or table.counted(TICKS) is None:
            return
        rows, seconds = _within(lane, tracks.facts.infiniband[: table.n], table.n)
        self.estimated[rows] = True
        self._stalled(rows, seconds, _rise(table, TICKS, rows) * SLOWEST_TICK, now)
        if not 0 <= now - self._scaled < SCALE_EVERY:
            self._rescale(tracks, table.n, now)

    def _rescale(self, tracks: Tracks, n: int, now: float) -> None:
        """The most that ports of each make have waited in a window, for those that count ticks."""
        gone = now - self._scaled
        kept = float(np.exp(-gone / SCALE_MEMORY)) if gone >= 0 else 1.0
        self._scaled = now
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(tracks.facts.infiniband[:n] & (self.stalled.recent[0, :n] > 0) & self.busy[:n])
        make, waits = tracks.facts.make[rows], self.stalled.recent[0, rows]
        for code in np.unique(make).tolist():
            mine = waits[make == code]
            rank = min(SCALE_RANK, len(mine))
            most = float(np.partition(mine, len(mine) - rank)[len(mine) - rank])
            self._most[code] = max(kept * self._most.get(code, 0.0), most, PRESSED)
        ticking = tracks.facts.infiniband[:n]
        for code, most in self._most.items():
            self.scale[:n][ticking & (tracks.facts.make[:n] == code)] = most

    def waits(self, n: int) -> NDArray[np.float32]:
        """Share of the last window in which each row had to wait; measured or estimated, NaN unknown."""
        return self.stalled.recent[0, :n] / self.scale[:n]

    def _note_pauses(self, table: Table, tracks: Tracks, rate: Floats, now: float) -> None:
        ethernet = ~tracks.facts.infiniband[: table.n]
        for times, frames, mine in ((PAUSED, PAUSED_FRAMES, False), (PAUSING, PAUSING_FRAMES, True)):
            names = [name for name in (*times, *frames) if table.counted(name) is not None]
            lane = table.lane(names[0]) if names else None
            if lane is None or lane.rows is None:
                continue
            rows, seconds = _within(lane, ethernet, table.n)
            time = _most(table, [name for name in times if name in names], rows)
            guessed = np.isnan(time)
            if guessed.any():
                time = np.fmax(time, _most(table, [n for n in frames if n in names], rows) * LONGEST_PAUSE / rate[rows])
            with np.errstate(invalid="ignore"):
                time = np.minimum(time, seconds)
            if mine:
                self.pausing.add(rows, seconds, (time,), now)
            else:
                self.estimated[rows] = guessed
                self._stalled(rows, seconds, time, now)

    def _stalled(self, rows: Rows, seconds: Floats, waited: Floats, now: float) -> None:
        closed, fills = self.stalled.add(rows, seconds, (waited,), now)
        self.closed = np.concatenate([self.closed, closed])
        share = self.stalled.latest[0, closed]
        with np.errstate(invalid="ignore"):
            self.pressed[closed[share >= PRESSED * self.scale[closed]]] = now
        worked = self.busy[closed]
        self._remember(self.usual, self._slots[0], closed[worked], fills[worked], share[worked])

    def _note_arrivals(self, table: Table, now: float) -> None:
        names = [name for name in (RECEIVED, MARKED, SLOWED, *STARVED) if table.counted(name) is not None]
        lane = table.lane(names[0]) if names else None
        if lane is None or lane.rows is None:
            return
        rows, seconds = _within(lane, None, table.n)
        unknown = np.full(len(seconds), np.nan)
        one = {name: _rise(table, name, rows) for name in names}
        self.missed.add(rows, seconds, (np.fmax(one.get(STARVED[0], unknown), one.get(STARVED[1], unknown)),), now)
        amounts = (one.get(MARKED, unknown), one.get(RECEIVED, unknown), one.get(SLOWED, unknown))
        closed, fills = self.arrivals.add(rows, seconds, amounts, now)
        self._remember(self.notified, self._slots[1], closed, fills, self.arrivals.latest[NOTICES, closed])

    def _remember(
        self,
        mean: NDArray[np.float32],
        slots: NDArray[np.int16],
        rows: NDArray[np.intp],
        fills: NDArray[np.int16],
        value: NDArray[np.float32],
    ) -> None:
        """Take slots into a mean over MEMORY seconds; the plain mean of all slots before there are so many."""
        told = ~np.isnan(value)
        if not told.all():
            rows, fills, value = rows[told], fills[told], value[told]
        before, former = slots[rows], mean[rows]
        number = before + fills
        mean[rows] = np.where(before == 0, value, former + (value - former) * (fills / number).astype(np.float32))
        slots[rows] = np.minimum(number, HOUR)

    def usual_before(self, rows: NDArray[np.intp], slots: int) -> Floats:
        """`usual` without the newest slots, NaN where there was no work before them."""
        newest = self.stalled.history(0, rows, slots)
        known = np.isfinite(newest).sum(axis=0)
        earlier = self._slots[0, rows] - known
        before = np.full(len(rows), np.nan)
        total = self.usual[rows] * self._slots[0, rows] - np.nan_to_num(newest).sum(axis=0)
        np.divide(np.maximum(total, 0.0), earlier, out=before, where=earlier > 0)
        return before

    def worked_an_hour(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether `usual` is of as much work as it can be of."""
        return np.asarray(self._slots[0, rows] >= HOUR)

    def marked(self, rows: NDArray[np.intp]) -> Floats:
        """Share of the received packets of the last window that came with a congestion mark; NaN unknown."""
        marks, packets = self.arrivals.recent[MARKS, rows], self.arrivals.recent[PACKETS, rows]
        least = self.traffic.recent[RECEIVE, rows] * self.line[rows] / LARGEST_PACKET
        packets = np.where(np.isnan(packets), least, packets)
        share = np.full(len(marks), np.nan)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.minimum(np.divide(marks, packets, out=share, where=packets > 0), 1.0))

    def resize(self, capacity: int) -> None:
        more = capacity - len(self.busy)
        for slots in (self.stalled, self.pausing, self.traffic, self.arrivals, self.missed):
            slots.resize(capacity)
        self.busy = np.concatenate([self.busy, np.zeros(more, np.bool_)])
        self.estimated = np.concatenate([self.estimated, np.zeros(more, np.bool_)])
        self.scale = np.concatenate([self.scale, np.ones(more, np.float32)])
        self._slots = np.concatenate([self._slots, np.zeros((2, more), np.int16)], axis=1)
        self.worked = np.concatenate([self.worked, np.full(more, np.nan)])
        self.usual = np.concatenate([self.usual, np.full(more, np.nan, np.float32)])
        self.notified = np.concatenate([self.notified, np.full(more, np.nan, np.float32)])
        self.pressed = np.concatenate([self.pressed, np.full(more, np.nan)])
        self.storm = np.concatenate([self.storm, np.full(more, np.nan)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        for slots in (self.stalled, self.pausing, self.traffic, self.arrivals, self.missed):
            slots.forget(rows)
        self.busy[rows] = False
        self.estimated[rows] = False
        self.scale[rows] = 1.0
        self._slots[:, rows] = 0
        for array in (self.usual, self.notified, self.worked, self.pressed, self.storm):
            array[rows] = np.nan


def _both(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _within(lane: Lane, mine: NDArray[np.bool_] | None, n: int) -> tuple[Rows, Floats]:
    """Rows of `mine` that were read since the last tick, and the regular interval of each, NaN where it is none."""
    rows = lane.rows
    assert rows is not None
    seconds = lane.dt[:n][rows]
    if lane.irregular is not None:
        seconds = np.where(lane.irregular, np.nan, seconds)
    if mine is None:
        return (slice(0, n) if isinstance(rows, slice) else rows), seconds
    here = mine[rows]
    if here.all():
        return (slice(0, n) if isinstance(rows, slice) else rows), seconds
    return _some(rows, here), seconds[here]


def _some(rows: Rows, here: NDArray[np.bool_]) -> NDArray[np.intp]:
    at = np.flatnonzero(here)
    return at if isinstance(rows, slice) else rows[at]


def _rise(table: Table, column: str, rows: Rows) -> Floats:
    """Counts of the last interval, NaN where no rate may be formed of them."""
    at = table.counted(column)
    assert at is not None
    rise, odd = table.rise[at][rows], table.marks[at][rows] & NO_RATE
    return np.where(odd, np.nan, rise) if odd.any() else rise


def _most(table: Table, columns: list[str], rows: Rows) -> Floats:
    """The greatest rise of several columns, NaN where none is known."""
    most: Floats | None = None
    for column in columns:
        rise = _rise(table, column, rows)
        most = rise if most is None else np.fmax(most, rise)
    if most is None:
        count = rows.stop if isinstance(rows, slice) else len(rows)
        return np.full(count, np.nan)
    return most
