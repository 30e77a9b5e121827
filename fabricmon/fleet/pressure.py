"""Back-pressure of each port over time: waiting to transmit, PFC pause sent, ECN-marked packets, utilisation. Pure,
NumPy (docs/methods.md#stall-share).

A tick has five steps, each for the ports that were read since the tick before:

  1. traffic   bytes as a share of the line rate: which ports are at work
  2. ticks     InfiniBand: ticks in which a port had data and no credits, as a share of the time. An estimate, because
               the length of a tick is not published
  3. pauses    Ethernet: seconds in which a port was paused, and in which it paused its switch. An estimate where the
               adapter counts pause frames only
  4. arrivals  ECN-marked packets, CNPs, packets that found no receive buffer
  5. storms    the adapter's own count of pause storms

A step forms amounts of the interval between two reads and puts them into `Slots` of 10 s.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.traffic import SOURCES
from fabricmon.fleet.arithmetic import FASTEST_BYTES
from fabricmon.fleet.facts import Facts
from fabricmon.fleet.row_state import Bools, Floats, Numbers, Rows, RowState, Singles, numbers, per_row
from fabricmon.fleet.slots import WINDOW, HourMean, Slots
from fabricmon.fleet.table import Table
from fabricmon.fleet.tick_scale import TickScale

RECEIVE, TRANSMIT = range(2)
"""Quantities of `Pressure.traffic`."""
MARKS, PACKETS, NOTICES = range(3)
"""Quantities of `Pressure.arrivals`."""

LONG = 60
"""Slots of waiting that are kept: ten minutes, the window of congestion (docs/methods.md#congestion)."""
FALLS = 4 * WINDOW
"""Slots of traffic that are kept: the 90 s over which a receiver is compared, and one window before, so that the moment
at which it fell is seen (docs/methods.md#waits-that-begin)."""
PRESSED = 0.05
"""Share of time from which on a port is under pressure: the band "none" ends here (docs/methods.md#stall-share)."""


class Interval(NamedTuple):
    """Some ports that were read since the last tick, and the seconds since the read before, NaN where irregular."""

    rows: Rows
    seconds: Floats


def _interval(table: Table, column: str, among: Bools | None = None) -> Interval | None:
    """The ports of `among` (None: all) of which a counter was read since the last tick; None where none was."""
    times = table.read_times(column)
    if times is None or times.rows is None or table.counted(column) is None:
        return None
    rows, seconds = times.rows, times.dt[times.rows]
    if times.irregular is not None:
        seconds = np.where(times.irregular, np.nan, seconds)
    if among is None or (here := among[rows]).all():
        return Interval(rows, seconds)
    return Interval(numbers(rows, np.flatnonzero(here)), seconds[here])


# --- 1. traffic

SLOWEST = 1.0
"""Bytes per second: a line rate below is no rate, and shares of it could leave the range of a float32."""
FALLEN = 0.5
"""Share of its usual traffic below which a port carries so little that it does not become usual in minutes: what one of
two senders leaves (docs/methods.md#credits-withheld)."""
BUSY = 1e-3
"""Share of the line rate from which on a port is at work (design choice): management and keep-alives are below."""


# --- 2. ticks

TICKS = "xmit_wait_ticks"
SLOWEST_TICK = 1e-6
"""Seconds that a tick stands for at most (design choice; docs/methods.md#wait-ticks): the architecture's longest, 256
symbol times of the slowest lane (2.5 Gb/s, ten bits a symbol), is 1.02 microseconds."""


# --- 3. pauses

LONGEST_PAUSE = 65_535 * 512 / 8
"""Bytes of line time that one pause frame can stop at most: 65,535 quanta of 512 bit times
(docs/methods.md#stall-share)."""


class PauseColumns(NamedTuple):
    """Columns of pauses in one direction, by priority and of the whole port.

    seconds  in which the far end might not send
    frames   that demanded it
    """

    seconds: tuple[str, ...]
    frames: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.seconds + self.frames


def _pause_columns(way: str) -> PauseColumns:
    seconds = (*(f"pfc_{way}_pause_prio{n}" for n in range(8)), f"pause_{way}_pause")
    return PauseColumns(seconds, tuple(f"pfc_{way}_frames_prio{n}" for n in range(8)))


PAUSES_RECEIVED, PAUSES_SENT = _pause_columns("rx"), _pause_columns("tx")


def _paused_seconds(table: Table, columns: PauseColumns, read: Interval, line: Floats) -> tuple[Floats, Bools]:
    """Seconds in which each port was paused, of the priority that was paused most (mlx5 counts lossless ones only), NaN
    unknown; and whether they are an upper estimate from pause frames, where no time is counted."""
    paused = reduce(np.fmax, (table.delta(name, read.rows) for name in columns.seconds))
    estimated = np.isnan(paused)
    if estimated.any():
        frames = reduce(np.fmax, (table.delta(name, read.rows) for name in columns.frames))
        paused = np.fmax(paused, frames * LONGEST_PAUSE / line)
    return np.minimum(paused, read.seconds), estimated


# --- 4. arrivals

MARKED, RECEIVED, SLOWED = "ecn_marked_rx", "rdma_rx_packets", "cnp_handled"
STARVED = ("rnr_nak_tx", "out_of_buffer")
"""Packets that arrived while nothing was ready to take them."""
LARGEST_PACKET = 4096.0
"""Bytes of the largest RoCE packet: where packets are not counted, as by mlx5, bytes give a lower bound
(docs/methods.md#incast)."""


# --- 5. storms

STORMS = ("pfc_storm_warning", "pfc_storm_error")
"""Events in which the adapter detected that it had been pausing its switch for too long."""


class Pressure(RowState):
    """Per row.

    stalled    share of time in which the port waited with data to send; of ticks, the most that it can have been
    scale      what `stalled` is where a port of this make waits all the time: 1 where time is measured
    estimated  `stalled` is an estimate: of ticks, or of pause frames
    usual      mean of `stalled` over the last hour of work
    pressed    `now` of the newest slot with at least PRESSED waiting, NaN never
    closed     rows of which a slot of `stalled` was closed at this tick
    pausing    share of time in which it paused its switch
    storm      `now` at which the adapter's own count of pause storms last rose, NaN never
    traffic    RECEIVE, TRANSMIT: share of the line rate
    unrated    of ports whose line rate is not known: the greater of both, as a share of the fastest link's
    received   mean of RECEIVE over the last hour of work; a slot of less than FALLEN of it is one of a whole hour
    sent       mean of TRANSMIT over the last hour of work, likewise
    busy       the port carried traffic in its newest slot
    worked     `now` of the newest slot in which it did, NaN never
    begun      `now` of the first slot of its present or last work, NaN never
    line       line rate in bytes per second as of this tick, NaN unknown
    arrivals   MARKS, PACKETS, NOTICES: ECN-marked packets, packets received, CNPs handled; each per second
    notified   mean of NOTICES over the last hour
    missed     packets per second that found nothing ready to take them
    """

    busy = per_row(np.bool_, False)
    worked = per_row(np.float64, np.nan)
    begun = per_row(np.float64, np.nan)
    scale = per_row(np.float32, 1.0)
    estimated = per_row(np.bool_, False)
    pressed = per_row(np.float64, np.nan)
    storm = per_row(np.float64, np.nan)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.stalled = Slots(1, capacity, LONG)
        self.pausing = Slots(1, capacity)
        self.traffic = Slots(2, capacity, FALLS)
        self.unrated = Slots(1, capacity)
        self.arrivals = Slots(3, capacity)
        self.missed = Slots(1, capacity, 3 * WINDOW)
        self.received = HourMean(capacity)
        self.sent = HourMean(capacity)
        self.usual = HourMean(capacity)
        self.notified = HourMean(capacity)
        self.closed: Numbers = np.zeros(0, np.intp)
        self.line: Floats = np.zeros(0)
        self._tick_scale = TickScale(PRESSED)

    def advance(self, table: Table, facts: Facts, now: float) -> None:
        rate = table.line_rate()
        self.line = np.where(rate >= SLOWEST, rate, np.nan)
        self.closed = np.zeros(0, np.intp)
        infiniband = facts.infiniband[: table.n]
        self._measure_traffic(table, now)
        self._measure_ticks(table, facts, infiniband, now)
        self._measure_pauses(table, ~infiniband, now)
        self._count_arrivals(table, now)
        self._note_storms(table, now)

    # --- what a rule asks

    def waits(self, n: int) -> Singles:
        """Share of the last window in which each row had to wait; measured or estimated, NaN unknown. A port that waits
        longer than `scale` of its make (the third greatest) waits all the time: 1."""
        return np.minimum(self.stalled.recent[0, :n] / self.scale[:n], np.float32(1))

    def usual_before(self, rows: Numbers, slots: int) -> Floats:
        """`usual` without the newest slots, NaN where there was no work before them."""
        return self.usual.before(rows, self.stalled.history(0, rows, slots))

    def marked(self, rows: Numbers) -> Floats:
        """Share of the received packets of the last window that came with a congestion mark; NaN unknown."""
        marks, packets = self.arrivals.recent[MARKS, rows], self.arrivals.recent[PACKETS, rows]
        least = self.traffic.recent[RECEIVE, rows] * self.line[rows] / LARGEST_PACKET
        packets = np.where(np.isnan(packets), least, packets)
        share = np.divide(marks, packets, out=np.full(len(marks), np.nan), where=packets > 0)
        return np.asarray(np.minimum(share, 1.0))

    # --- 1. traffic

    def _measure_traffic(self, table: Table, now: float) -> None:
        """Each port by the first of SOURCES that it has; the last one that any port has takes all that are left."""
        pairs = [(rx, tx) for _, rx, tx in SOURCES if table.counted(rx) is not None and table.counted(tx) is not None]
        left = np.ones(table.n, np.bool_)
        for received, sent in pairs:
            mine = left
            if (received, sent) != pairs[-1]:
                mine = left & np.isfinite(table.value(received)) & np.isfinite(table.value(sent))
            left = left & ~mine
            if (read := _interval(table, received, mine)) is not None:
                line = self.line[read.rows]
                moved = tuple(table.delta(name, read.rows) for name in (received, sent))
                closed, fills = self.traffic.add(read.rows, read.seconds, tuple(bytes_ / line for bytes_ in moved), now)
                share = np.fmax(*self.traffic.latest[:, closed])
                rated = np.isfinite(share)
                self._note_work(closed[rated], share[rated] >= BUSY, now)
                working = self.busy[closed] & rated
                for mean, way in ((self.received, RECEIVE), (self.sent, TRANSMIT)):
                    mean.add(closed[working], fills[working], self.traffic.latest[way, closed[working]], least=FALLEN)
                if len(at := np.flatnonzero(np.isnan(line))):
                    rows, most = numbers(read.rows, at), np.fmax(*moved)[at] / FASTEST_BYTES
                    self.unrated.add(rows, read.seconds[at], (most,), now)
                    self._note_work(rows, most >= BUSY * read.seconds[at], now)

    def _note_work(self, rows: Numbers, busy: Bools, now: float) -> None:
        self.begun[rows[busy & ~self.busy[rows]]] = now
        self.busy[rows] = busy
        self.worked[rows[busy]] = now

    # --- 2. ticks

    def _measure_ticks(self, table: Table, facts: Facts, infiniband: Bools, now: float) -> None:
        read = _interval(table, TICKS, infiniband)
        if read is None:
            return
        self.estimated[read.rows] = True
        self._add_waiting(read, table.delta(TICKS, read.rows) * SLOWEST_TICK, now)
        if self._tick_scale.due(now):
            n, waits = table.n, self.stalled.recent[0, : table.n]
            working = np.flatnonzero(infiniband & (waits > 0) & self.busy[:n])
            self._tick_scale.update(facts.make[working], waits[working], now)
            for make, most in self._tick_scale.by_make.items():
                self.scale[:n][infiniband & (facts.make[:n] == make)] = most

    # --- 3. pauses

    def _measure_pauses(self, table: Table, ethernet: Bools, now: float) -> None:
        for columns in (PAUSES_RECEIVED, PAUSES_SENT):
            counted = [name for name in columns.all if table.counted(name) is not None]
            read = _interval(table, counted[0], ethernet) if counted else None
            if read is None:
                continue
            paused, estimated = _paused_seconds(table, columns, read, self.line[read.rows])
            if columns is PAUSES_SENT:
                self.pausing.add(read.rows, read.seconds, (paused,), now)
            else:
                self.estimated[read.rows] = estimated
                self._add_waiting(read, paused, now)

    def _add_waiting(self, read: Interval, waited: Floats, now: float) -> None:
        """Seconds in which ports waited, by ticks or by pauses."""
        closed, fills = self.stalled.add(read.rows, read.seconds, (waited,), now)
        self.closed = np.concatenate([self.closed, closed])
        share = self.stalled.latest[0, closed]
        self.pressed[closed[share >= PRESSED * self.scale[closed]]] = now
        working = self.busy[closed]
        self.usual.add(closed[working], fills[working], share[working])

    # --- 4. arrivals

    def _count_arrivals(self, table: Table, now: float) -> None:
        counted = [name for name in (RECEIVED, MARKED, SLOWED, *STARVED) if table.counted(name) is not None]
        read = _interval(table, counted[0]) if counted else None
        if read is None:
            return
        rows, seconds = read
        marks, packets, notices, *missed = (table.delta(name, rows) for name in (MARKED, RECEIVED, SLOWED, *STARVED))
        self.missed.add(rows, seconds, (np.fmax(*missed),), now)
        closed, fills = self.arrivals.add(rows, seconds, (marks, packets, notices), now)
        self.notified.add(closed, fills, self.arrivals.latest[NOTICES, closed])

    # --- 5. storms

    def _note_storms(self, table: Table, now: float) -> None:
        for name in STORMS:
            if (step := table.last_step(name)) is not None:
                rows, rise, _ = step
                self.storm[numbers(rows, np.flatnonzero(rise > 0))] = now
