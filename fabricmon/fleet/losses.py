"""Packet loss per row and window: of a port over all its peers, of a flow to one peer. Pure.

Methods: docs/methods.md#packet-loss, docs/methods.md#many-ports-at-once. A window ends for a row when its loss counters
and its packet counter were both read in it, so slow collectors have long windows. Packets out of sequence are also
made by adaptive routing, on many ports alike: a port that received more of them than most is at the end of a loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.ber import log_tail
from fabricmon.fleet.clocks import ReadTimes
from fabricmon.fleet.row_state import Bools, Floats, Numbers, RowState, Singles, numbers, per_row
from fabricmon.fleet.table import Table

WINDOW = 10.0
"""Seconds of a window (design choice); longer for rows that are read more seldom."""
WINDOWS = 3
STARTING = 0.1
"""A window of more than ten times the packets of the one before is one in which traffic began: what is retransmitted
while connections are set up is no evidence about the path (design choice)."""
IDLE = 300.0
"""Seconds without a window with traffic after which old losses are no evidence any more (design choice)."""
MTU = 4096.0
"""Bytes of the largest RDMA packet: where only bytes are counted, packets are at least bytes / MTU."""
SLOWEST = 6 * WINDOW
"""Longest period of a packet counter that is of use for a window."""
CLASS_LEAST = 16  # rows of a class before its usual loss is learned
MEMORY = 21_600.0  # s; time constant of what is learned of a row, as for errors
QUANTILE = 0.75  # of the rows of a class: one in four must lose before it counts as usual
CEILING = 1e-5  # share of packets above which a loss teaches nothing: it is a fault, however long it lasts
LEARN_EVERY = 6  # windows
LEAST_SIGNS = 3.0
"""Requests that arrived twice, or packets out of sequence, from which packets to a port count as lost: as
`Limits.least`."""
SHARE_SIGNS = 1e-6
"""The same, as a share of the packets that the port sends: `Limits.elevated` times `Limits.usual`."""
SIGNS = 2
TWICE, GAPS = range(SIGNS)
"""Signs at a port that packets to it were lost: requests that arrived twice, packets out of sequence."""
SIGN_WINDOWS = 2
"""Windows with such a sign from which packets to a port count as lost, as `windows` of the losses that a port counts
itself: connections that are set up send again at many ports, once."""
SIGN_MEMORY = 2 * IDLE
"""Seconds after which what a port counted of signs is halved, with the packets that it is a share of, where enough is
left to count (design choice)."""
USUAL_TIMEOUTS = 0.1
"""Timers that fire in a window of a healthy port, at most: one port in ten has one (design choice)."""


class LossColumns(NamedTuple):
    """lost  groups of counters of packets; a row uses the sum of the first group of which it has a counter
    sent  counters of packets, best first, each with the packets that one count stands for
    timer  counts timers that fired, "" none. Each is a lost packet of the first group, and of a row without any; what a
           later group counts has the packets that were sent again because of it
    twice  counts requests that arrived twice, "" none: what a peer sent was lost and sent again
    gaps   counts packets that arrived out of sequence, "" none: one before was lost, or went another way"""

    lost: tuple[tuple[str, ...], ...]
    sent: tuple[tuple[str, float], ...]
    timer: str = ""
    twice: str = ""
    gaps: str = ""


PORTS = LossColumns(
    (("seq_nak_rx", "implied_nak"), ("retrans_packets",)),
    (
        ("rdma_tx_packets", 1.0),
        ("xmit_packets", 1.0),
        ("rdma_tx_bytes", 1.0 / MTU),
        ("xmit", 1.0 / MTU),
        ("phy_tx", 1.0 / MTU),
    ),
    "ack_timeout",
    "duplicate_request",
    "out_of_sequence_rx",
)
FLOWS = LossColumns((("flow_lost",),), (("flow_packets", 1.0),))


@dataclass(frozen=True, slots=True)
class Limits:
    """When a window is bad: by the share of its packets that was lost (all of `weak`, `elevated`, `least` must hold),
    or by timers that fired. Either is tested against what is usual.

    usual     share of packets that is lost in a healthy fabric, at least; a class learns its own above it
    weak      least share that counts
    elevated  times what is usual for the class
    least     lost packets
    timeouts  timers that fired: a queue pair that waits for one is stalled for seconds, however few of the port's
              packets that are; 0.1 a window are usual (design choice)
    rate      false discovery rate of Benjamini-Hochberg over all rows of a window
    """

    usual: float = 1e-7
    weak: float = 1e-5
    elevated: float = 10.0
    least: float = 3.0
    timeouts: float = 5.0
    rate: float = 0.01


class Losses(RowState):
    """Per row; the newest of the WINDOWS windows first.

    lost, sent  packets of each window, NaN before there was one
    timeouts    timers that fired in each window
    ended       `now` at which the newest window ended, NaN never
    length      seconds of the newest window, longer than its row's period where it was not read for a while
    lapsed      `now` at which losses were set aside because no traffic followed, NaN while they count or if there were
                none: what has not been read since shows nothing
    usual       share of packets that is lost in the row's class
    signs       requests that arrived twice and packets that arrived out of sequence, each since IDLE seconds passed
                without one; not where traffic began; halved each SIGN_MEMORY
    sign_sent   packets sent since then; the same
    sign_windows  windows with such signs since then
    signs_at    `now` at which the last such window ended, NaN never
    turns       times at which windows ended
    """

    lost = per_row(np.float32, np.nan, WINDOWS)
    sent = per_row(np.float32, np.nan, WINDOWS)
    timeouts = per_row(np.float32, 0, WINDOWS)
    ended = per_row(np.float64, np.nan)
    length = per_row(np.float32, np.nan)
    lapsed = per_row(np.float64, np.nan)
    usual = per_row(np.float32)
    signs = per_row(np.float32, 0, SIGNS)
    sign_windows = per_row(np.float32, 0, SIGNS)
    sign_sent = per_row(np.float32, 0, SIGNS)
    signs_at = per_row(np.float64, np.nan, SIGNS)
    _mean = per_row(np.float32)
    _class = per_row(np.int32)
    _signs_since = per_row(np.float64, np.nan, SIGNS)  # `now` at which those of `signs` began, or were halved
    _open = per_row(np.float32)  # lost in the window that is open
    _fired = per_row(np.float32)  # timers in the window that is open
    _signs = per_row(np.float32, 0, SIGNS)  # the same in the window that is open
    _before = per_row(np.float32, np.nan)  # sent in the newest window, counted or not
    _turned = per_row(np.float64, np.nan)  # when the newest window ended, counted or not, or the first began
    _sent_at = per_row(np.float64, np.nan, "_senders")
    _seen = per_row(np.float64, np.nan, "_senders")
    _lost_seen = per_row(np.float64, np.nan, "_groups")

    def __init__(self, capacity: int, columns: LossColumns) -> None:
        self.columns = columns
        self._senders, self._groups = len(columns.sent), len(columns.lost)
        super().__init__(capacity)
        self._began = float("nan")
        self.turns = 0
        self._evaluated: tuple[int, Limits, NDArray[np.uint8]] | None = None

    # --- what a rule asks

    def bad(self, limits: Limits, n: int) -> NDArray[np.uint8]:
        """Bits of the last windows that were bad, the newest lowest. Computed once a window."""
        known = self._evaluated
        if known is not None and known[:2] == (self.turns, limits) and len(known[2]) >= n:
            return known[2][:n]
        found = np.zeros(n, np.uint8)
        for window in range(WINDOWS):
            rows = np.flatnonzero(self.lost[window, :n] >= limits.least)
            lost, sent = self.lost[window, rows].astype(float), self.sent[window, rows].astype(float)
            usual = np.maximum(limits.usual, self.usual[rows])
            enough = lost >= np.maximum(limits.weak, limits.elevated * usual) * sent
            rows, lost, mean = rows[enough], lost[enough], (usual * sent)[enough]
            tests = int(np.count_nonzero(np.isfinite(self.lost[window, :n])))
            found[rows[discoveries(log_tail(lost, mean), tests, limits.rate)]] |= np.uint8(1 << window)
            rows = np.flatnonzero(self.timeouts[window, :n] >= limits.timeouts)
            fired = self.timeouts[window, rows].astype(float)
            tail = log_tail(fired, np.full(len(rows), USUAL_TIMEOUTS))
            found[rows[discoveries(tail, tests, limits.rate)]] |= np.uint8(1 << window)
        self._evaluated = self.turns, limits, found
        return found

    def ratio(self, rows: Numbers) -> Floats:
        """Share of packets lost in the windows that are kept of some rows, NaN where there is none."""
        return self._share(self.lost, rows)

    def timed_out(self, rows: Numbers) -> Floats:
        """The part of `ratio` that timers found: they did for the loss of a message's end, or a peer that is gone."""
        return self._share(self.timeouts, rows)

    def lost_a_second(self, n: int) -> Floats:
        """Packets lost a second in the windows that are kept, NaN where there is none."""
        windows = np.count_nonzero(np.isfinite(self.lost[:, :n]), axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nansum(self.lost[:, :n], axis=0) / (windows * WINDOW), np.float64)

    def _share(self, packets: Singles, rows: Numbers) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nansum(packets[:, rows], axis=0) / np.nansum(self.sent[:, rows], axis=0)
        return np.asarray(share, np.float64)

    # --- the tick

    def advance(self, table: Table, now: float, classes: NDArray[np.int32] | None = None) -> None:
        """classes  int per row: rows of one class share what is usual; None: all are of one"""
        for at, group in enumerate(self.columns.lost):
            for name in group:
                self._add(table, name, at)
        if self.columns.timer:
            self._add(table, self.columns.timer, 0)
        for at, name in enumerate((self.columns.twice, self.columns.gaps)):
            if name:
                rows, counts = _risen(table, name)
                self._signs[at, rows] += counts
        if 0 <= now - self._began < WINDOW:
            return
        self._began = now
        self.turns += 1
        if classes is not None:
            self._class[: table.n] = classes[: table.n]
        self._turn(table, now)
        self._learn(table.n)

    def lost_towards(self, n: int, now: float) -> Bools:
        """Rows to which packets were lost of late, in two windows at least: more requests than usual arrived a second
        time, or more packets out of sequence than at most ports (a port sends about as many packets as it receives)."""
        signs, windows, sent = self.signs[:, :n], self.sign_windows[:, :n], self.sign_sent[:, :n]
        with np.errstate(invalid="ignore"):
            recent = (signs >= LEAST_SIGNS) & (windows >= SIGN_WINDOWS) & (now - self.signs_at[:, :n] <= IDLE)
        found = recent[TWICE] & (signs[TWICE] >= SHARE_SIGNS * sent[TWICE])
        if recent[GAPS].any() and (working := np.nansum(self.sent[:, :n], axis=0) > 0).any():
            share = signs[GAPS, working] / np.maximum(sent[GAPS, working], 1.0)
            least = max(SHARE_SIGNS, Limits().elevated * float(np.quantile(share, QUANTILE)))
            found |= recent[GAPS] & (signs[GAPS] >= least * sent[GAPS])
        return np.asarray(found)

    def _add(self, table: Table, name: str, at: int) -> None:
        rows, counts = _risen(table, name)
        if not len(rows):
            return
        if name == self.columns.timer:
            self._fired[rows] += counts
        mine = self._group(table, rows) == at if name != self.columns.timer else self._group(table, rows) <= 0
        self._open[rows[mine]] += counts[mine]

    def _group(self, table: Table, rows: Numbers) -> NDArray[np.int8]:
        """The group of `lost` that each row uses, -1 where it has none."""
        found = np.full(len(rows), -1, np.int8)
        for at, group in reversed(list(enumerate(self.columns.lost))):
            for name in group:
                found[np.isfinite(table.value(name)[rows])] = at
        return found

    def _turn(self, table: Table, now: float) -> None:
        """End the windows of the rows of which both losses and packets were read since theirs began."""
        n = table.n
        read, anew, sent = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.full(n, np.nan)
        losses, senders = self._lost_times(table), self._senders_of(table)
        for at, times in losses:
            read |= _read_since(times.seen[:n], self._lost_seen[at, :n])
        for at, times, values, packets in senders:
            first = np.isnan(self._sent_at[at, :n])
            np.copyto(self._sent_at[at, :n], values, where=first)
            np.copyto(self._seen[at, :n], times.seen[:n], where=first)
            np.copyto(self._turned[:n], now, where=first & np.isfinite(values))
            with np.errstate(invalid="ignore"):
                count = (values - self._sent_at[at, :n]) * packets
            fit = read & np.isnan(sent) & _read_since(times.seen[:n], self._seen[at, :n])
            fit &= table.period(times) <= SLOWEST
            np.copyto(sent, count, where=fit & (count >= 0))
            anew |= fit & (count < 0)
        rows = np.flatnonzero((np.isfinite(sent) | anew) & table.present[:n])
        for at, times, values, _ in senders:
            self._sent_at[at, rows], self._seen[at, rows] = values[rows], times.seen[rows]
        for at, times in losses:
            self._lost_seen[at, rows] = times.seen[rows]
        if len(rows):
            naks = self._group(table, rows) == 0 if self.columns.timer else np.zeros(len(rows), np.bool_)
            self._count(rows, sent[rows], now, naks)
        old = np.flatnonzero((now - self.ended[:n] > IDLE) & np.isfinite(self.lost[0, :n]))
        if len(old):
            self.lapsed[old] = np.where((self.lost[:, old] > 0).any(axis=0), now, np.nan)
            self.lost[:, old] = self.sent[:, old] = np.nan
            self.timeouts[:, old] = 0.0

    def _lost_times(self, table: Table) -> list[tuple[int, ReadTimes]]:
        """Groups of loss counters that are there: number, times of the first counter of it that is."""
        timer = (self.columns.timer,) if self.columns.timer else ()
        groups = (group if at else (*group, *timer) for at, group in enumerate(self.columns.lost))
        found = ((at, map(table.read_times, group)) for at, group in enumerate(groups))
        return [(at, times) for at, group in found if (times := next(filter(None, group), None)) is not None]

    def _senders_of(self, table: Table) -> list[tuple[int, ReadTimes, Floats, float]]:
        """Counters of packets that are there: number, times, values, packets that one count stands for."""
        return [
            (at, times, table.value(name), packets)
            for at, (name, packets) in enumerate(self.columns.sent)
            if (times := table.read_times(name)) is not None
        ]

    def _count(self, rows: Numbers, sent: Floats, now: float, naks: Bools) -> None:
        """New windows of some rows; `sent` is NaN where the counting began anew. `naks`: the row counts NAKs."""
        lost = self._open[rows].astype(float)
        fired = self._fired[rows].astype(float)
        self._open[rows] = self._fired[rows] = 0.0
        before, length = self._before[rows], now - self._turned[rows]
        self._before[rows], self._turned[rows] = sent, now
        sent = np.maximum(sent, lost)  # what was sent to a dead peer may never have left the adapter
        went_on = before >= STARTING * sent
        self._keep_signs(rows[went_on], sent[went_on], now)
        self._signs[:, rows] = 0.0
        fit = (sent > 0) & went_on
        # a port that only waits for a peer sends next to nothing: its timeouts are no beginning of traffic. A peer that
        # sends NAKs answers: it got more packets than were counted as sent, as while connections are set up.
        fit |= (sent > 0) & (lost >= sent) & np.isfinite(before) & ~(naks & (lost > fired))
        rows, lost, sent = rows[fit], lost[fit], sent[fit]
        self.length[rows] = length[fit]
        for ring, newest in ((self.lost, lost), (self.sent, sent), (self.timeouts, fired[fit])):
            ring[1:, rows] = ring[:-1, rows]
            ring[0, rows] = newest
        weight = np.nan_to_num(np.clip(now - self.ended[rows], 0.0, 6 * WINDOW), nan=WINDOW) / MEMORY
        self._mean[rows] += weight * (np.minimum(lost / sent, CEILING) - self._mean[rows])
        self.ended[rows] = now
        self.lapsed[rows] = np.nan

    def _keep_signs(self, rows: Numbers, sent: Floats, now: float) -> None:
        """Count the signs of new windows of some rows, in which so many packets were sent."""
        for at in range(SIGNS):
            here = self._signs[at, rows] > 0
            new = rows[here & ~(now - self.signs_at[at, rows] <= IDLE)]
            self.signs[at, new] = self.sign_sent[at, new] = self.sign_windows[at, new] = 0.0
            since = self._signs_since[at, rows]
            old = rows[(now - since >= SIGN_MEMORY) & (self.signs[at, rows] >= 2 * LEAST_SIGNS)]
            self.signs[at, old] /= 2.0
            self.sign_sent[at, old] /= 2.0
            self._signs_since[at, new] = self._signs_since[at, old] = now
            more = here | (self.sign_windows[at, rows] > 0)
            self.sign_sent[at, rows[more]] += sent[more]
            found = rows[here]
            self.signs[at, found] += self._signs[at, found]
            self.sign_windows[at, found] += 1.0
            self.signs_at[at, found] = now

    def _learn(self, n: int) -> None:
        """Set the usual loss of each class: a robust quantile of its members."""
        if self.turns % LEARN_EVERY:
            return
        seen = np.isfinite(self.lost[0, :n])
        for number in np.unique(self._class[:n]).tolist():
            members = seen & (self._class[:n] == number)
            if int(np.count_nonzero(members)) >= CLASS_LEAST:
                self.usual[:n][self._class[:n] == number] = np.quantile(self._mean[:n][members], QUANTILE)


def _risen(table: Table, name: str) -> tuple[Numbers, NDArray[np.float32]]:
    """Rows on which a counter rose at its newest reading, and by how much; without resets."""
    step = table.last_step(name)
    if step is None:
        return np.empty(0, np.intp), np.empty(0, np.float32)
    read, rise, marks = step
    some = np.flatnonzero(rise > 0)
    sure = some[(marks[some] & np.uint8(Mark.RESET | Mark.EPOCH | Mark.FIRST)) == 0]
    return numbers(read, sure), rise[sure].astype(np.float32)


def discoveries(log_p: Floats, tests: int, rate: float) -> Bools:
    """Benjamini-Hochberg: which of the smallest p-values (as ln p) of so many tests are discoveries."""
    found = np.zeros(len(log_p), np.bool_)
    order = np.argsort(log_p, kind="stable")
    rank = np.arange(1, len(log_p) + 1)
    passed = np.flatnonzero(log_p[order] <= np.log(rank * rate / max(tests, 1)))
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found


def _read_since(seen: Floats, before: Floats) -> Bools:
    """Rows read since `before`; a row whose time is new counts as read."""
    return np.asarray((seen != before) & np.isfinite(seen))
