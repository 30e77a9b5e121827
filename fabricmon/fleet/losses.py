"""Packets lost on the way, per row and window: of ports all peers together, of flows each by itself. Pure.

Methods: detection-methods 3.5 (loss ratio), 2.4 (many rows at once: exact tail, Benjamini-Hochberg, 2 of 3 windows).
A window ends for a row when its loss counters and its packet counter were both read in it, so slow collectors have long
windows. Only rows that lost something cost more than one vector operation a window.

out_of_sequence counts reordering, which adaptive routing makes, and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import Mark

if TYPE_CHECKING:
    from fabricmon.fleet.table import Table
    from fabricmon.fleet.tracks import Settings

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]

WINDOW = 10.0
"""Seconds of a window [D]; longer for rows that are read more seldom."""
WINDOWS = 3
STARTING = 0.1
"""A window of more than ten times the packets of the one before is one in which traffic began: what is retransmitted
while connections are set up tells nothing of the path [D]."""
IDLE = 300.0
"""Seconds without a window with traffic after which old losses are no evidence any more [D]."""
MTU = 4096.0
"""Bytes of the largest RDMA packet: where only bytes are counted, packets are at least bytes / MTU."""
SLOWEST = 6 * WINDOW
"""Longest period of a packet counter that is of use for a window."""
CLASS_LEAST = 16  # rows of a class before its usual loss is learned
MEMORY = 21_600.0  # s; time constant of what is learned of a row, as for errors
QUANTILE = 0.75  # of the rows of a class: one in four must lose before it counts as usual
CEILING = 1e-5  # share of packets above which a loss teaches nothing: it is a fault, however long it lasts
LEARN_EVERY = 6  # windows
USUAL_TIMEOUTS = 0.1
"""Timers that fire in a window of a healthy port, at most: one port in ten has one [D]."""
_TERMS = 200


class Source(NamedTuple):
    """lost  groups of counters; a row is judged by the sum of the first group of which it has a counter
    sent  counters of packets, best first, each with the packets that one count stands for
    timer  the one of `lost` that counts timers that fired, "" none"""

    lost: tuple[tuple[str, ...], ...]
    sent: tuple[tuple[str, float], ...]
    timer: str = ""


PORTS = Source(
    (("seq_nak_rx", "ack_timeout", "implied_nak"), ("retrans_packets",)),
    (
        ("rdma_tx_packets", 1.0),
        ("xmit_packets", 1.0),
        ("rdma_tx_bytes", 1.0 / MTU),
        ("xmit", 1.0 / MTU),
        ("phy_tx", 1.0 / MTU),
    ),
    "ack_timeout",
)
FLOWS = Source((("flow_lost",),), (("flow_packets", 1.0),))


@dataclass(frozen=True, slots=True)
class Limits:
    """When a window is bad: by the share of its packets that was lost (all of `weak`, `elevated`, `least` must hold),
    or by timers that fired. Either is tested against what is usual.

    usual     share of packets that is lost in a healthy fabric, at least; a class learns its own above it
    weak      least share that counts
    elevated  times what is usual for the class
    least     lost packets
    timeouts  timers that fired: a queue pair that waits for one stands still for seconds, whatever share of the port's
              packets that is; 0.1 a window are usual [D]
    rate      false discovery rate of Benjamini-Hochberg over all rows of a window
    """

    usual: float = 1e-7
    weak: float = 1e-5
    elevated: float = 10.0
    least: float = 3.0
    timeouts: float = 5.0
    rate: float = 0.01


class Losses:
    """Per row; the newest of the WINDOWS windows first.

    lost, sent  packets of each window, NaN before there was one
    timeouts    timers that fired in each window
    ended       `now` at which the newest window ended, NaN never
    lapsed      `now` at which losses were set aside because no traffic followed, NaN while they count
    usual       share of packets that is lost in the row's class
    """

    def __init__(self, capacity: int, source: Source) -> None:
        self.source = source
        self.lost = np.full((WINDOWS, capacity), np.nan, np.float32)
        self.sent = np.full((WINDOWS, capacity), np.nan, np.float32)
        self.timeouts = np.zeros((WINDOWS, capacity), np.float32)
        self.ended = np.full(capacity, np.nan)
        self.lapsed = np.full(capacity, np.nan)
        self.usual = np.zeros(capacity, np.float32)
        self._mean = np.zeros(capacity, np.float32)
        self._class = np.zeros(capacity, np.int32)
        self._open = np.zeros(capacity, np.float32)  # lost in the window that is open
        self._fired = np.zeros(capacity, np.float32)  # timers in the window that is open
        self._before = np.full(capacity, np.nan, np.float32)  # sent in the newest window, counted or not
        self._sent_at = np.full((len(source.sent), capacity), np.nan)
        self._seen = np.full((len(source.sent), capacity), np.nan)
        self._lost_seen = np.full((len(source.lost), capacity), np.nan)
        self._began = float("nan")
        self._turns = 0
        self._judged: tuple[int, Limits, NDArray[np.uint8]] | None = None

    # --- what a rule asks

    def bad(self, limits: Limits, n: int) -> NDArray[np.uint8]:
        """Bits of the last windows that were bad, the newest lowest. Worked out once a window."""
        known = self._judged
        if known is not None and known[:2] == (self._turns, limits) and len(known[2]) >= n:
            return known[2][:n]
        found = np.zeros(n, np.uint8)
        for window in range(WINDOWS):
            rows = np.flatnonzero(self.lost[window, :n] >= limits.least)
            lost, sent = self.lost[window, rows].astype(float), self.sent[window, rows].astype(float)
            usual = np.maximum(limits.usual, self.usual[rows])
            enough = lost >= np.maximum(limits.weak, limits.elevated * usual) * sent
            rows, lost, mean = rows[enough], lost[enough], (usual * sent)[enough]
            judged = int(np.count_nonzero(np.isfinite(self.lost[window, :n])))
            found[rows[discoveries(log_tail(lost, mean), judged, limits.rate)]] |= np.uint8(1 << window)
            rows = np.flatnonzero(self.timeouts[window, :n] >= limits.timeouts)
            fired = self.timeouts[window, rows].astype(float)
            tail = log_tail(fired, np.full(len(rows), USUAL_TIMEOUTS))
            found[rows[discoveries(tail, judged, limits.rate)]] |= np.uint8(1 << window)
        self._judged = self._turns, limits, found
        return found

    def ratio(self, rows: Rows) -> Floats:
        """Share of packets lost in the windows that are kept of some rows, NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nansum(self.lost[:, rows], axis=0) / np.nansum(self.sent[:, rows], axis=0)
        return np.asarray(share, np.float64)

    # --- the tick

    def advance(self, table: Table, now: float, classes: NDArray[np.int32] | None = None) -> None:
        """classes  int per row: rows of one class share what is usual; None: all are of one"""
        for at, group in enumerate(self.source.lost):
            for name in group:
                self._add(table, name, at)
        if 0 <= now - self._began < WINDOW:
            return
        self._began = now
        self._turns += 1
        if classes is not None:
            self._class[: table.n] = classes[: table.n]
        self._turn(table, now)
        self._learn(table.n)

    def _add(self, table: Table, name: str, at: int) -> None:
        step, lane = table.counted(name), table.lane(name)
        if step is None or lane is None or lane.rows is None:
            return
        rise = table.rise[step, : table.n][lane.rows]
        some = np.flatnonzero(rise > 0)
        if not len(some):
            return
        rows = some if isinstance(lane.rows, slice) else lane.rows[some]
        sure = (table.marks[step, rows] & np.uint8(Mark.RESET | Mark.EPOCH | Mark.FIRST)) == 0
        if at:
            for better in self.source.lost[0]:
                values = table.values(better)
                if values is not None:
                    sure &= np.isnan(values[rows])
        counts = rise[some][sure].astype(np.float32)
        self._open[rows[sure]] += counts
        if name == self.source.timer:
            self._fired[rows[sure]] += counts

    def _turn(self, table: Table, now: float) -> None:
        """End the windows of the rows of which both losses and packets were read since theirs began."""
        n = table.n
        read = np.zeros(n, np.bool_)
        losses = [next((lane for name in g if (lane := table.lane(name))), None) for g in self.source.lost]
        for at, lane in enumerate(losses):
            if lane is not None:
                read |= _read(lane.seen[:n], self._lost_seen[at, :n])
        sent = np.full(n, np.nan)
        anew = np.zeros(n, np.bool_)
        for at, (name, packets) in enumerate(self.source.sent):
            lane, values = table.lane(name), table.values(name)
            if lane is None or values is None:
                continue
            first = np.isnan(self._sent_at[at, :n])
            np.copyto(self._sent_at[at, :n], values, where=first)
            np.copyto(self._seen[at, :n], lane.seen[:n], where=first)
            with np.errstate(invalid="ignore"):
                count = (values - self._sent_at[at, :n]) * packets
                fit = read & np.isnan(sent) & _read(lane.seen[:n], self._seen[at, :n])
                fit &= lane.period(table.clocks, table.part_of, n) <= SLOWEST
                np.copyto(sent, count, where=fit & (count >= 0))
                anew |= fit & (count < 0)
        rows = np.flatnonzero((np.isfinite(sent) | anew) & table.present[:n])
        for at, (name, _) in enumerate(self.source.sent):
            lane, values = table.lane(name), table.values(name)
            if lane is not None and values is not None:
                self._sent_at[at, rows], self._seen[at, rows] = values[rows], lane.seen[rows]
        for at, lane in enumerate(losses):
            if lane is not None:
                self._lost_seen[at, rows] = lane.seen[rows]
        if len(rows):
            self._count(rows, sent[rows], now)
        with np.errstate(invalid="ignore"):
            old = np.flatnonzero((now - self.ended[:n] > IDLE) & np.isfinite(self.lost[0, :n]))
        if len(old):
            self.lost[:, old] = self.sent[:, old] = np.nan
            self.timeouts[:, old] = 0.0
            self.lapsed[old] = now

    def _count(self, rows: Rows, sent: Floats, now: float) -> None:
        """New windows of some rows; `sent` is NaN where the counting began anew."""
        lost = self._open[rows].astype(float)
        fired = self._fired[rows].astype(float)
        self._open[rows] = self._fired[rows] = 0.0
        sent = np.maximum(sent, lost)  # what was sent to a dead peer may never have left the adapter
        before = self._before[rows]
        self._before[rows] = sent
        with np.errstate(invalid="ignore"):
            fit = (sent > 0) & (before >= STARTING * sent)
            # a port that only waits for a peer sends next to nothing: its timeouts are no beginning of traffic
            fit |= (sent > 0) & (lost >= sent) & np.isfinite(before)
        rows, lost, sent = rows[fit], lost[fit], sent[fit]
        for ring, newest in ((self.lost, lost), (self.sent, sent), (self.timeouts, fired[fit])):
            ring[1:, rows] = ring[:-1, rows]
            ring[0, rows] = newest
        weight = np.minimum(1.0, np.fmin(now - self.ended[rows], 6 * WINDOW) / MEMORY)
        weight[np.isnan(weight)] = WINDOW / MEMORY
        self._mean[rows] += weight * (np.minimum(lost / sent, CEILING) - self._mean[rows])
        self.ended[rows] = now
        self.lapsed[rows] = np.nan

    def _learn(self, n: int) -> None:
        """What is usual for a class is a robust quantile of its members."""
        if self._turns % LEARN_EVERY:
            return
        seen = np.isfinite(self.lost[0, :n])
        for number in np.unique(self._class[:n]).tolist():
            members = seen & (self._class[:n] == number)
            if int(np.count_nonzero(members)) >= CLASS_LEAST:
                self.usual[:n][self._class[:n] == number] = np.quantile(self._mean[:n][members], QUANTILE)

    def resize(self, capacity: int) -> None:
        for name in ("lost", "sent", "_sent_at", "_seen", "_lost_seen", "ended", "lapsed", "_before"):
            setattr(self, name, _wider(getattr(self, name), capacity, np.nan))
        for name in ("usual", "_mean", "_class", "_open", "_fired", "timeouts"):
            setattr(self, name, _wider(getattr(self, name), capacity, 0))

    def forget(self, rows: Rows) -> None:
        for ring in (self.lost, self.sent, self._sent_at, self._seen, self._lost_seen):
            ring[:, rows] = np.nan
        for times in (self.ended, self.lapsed, self._before):
            times[rows] = np.nan
        self.timeouts[:, rows] = 0.0
        for sums in (self.usual, self._mean, self._open, self._fired):
            sums[rows] = 0.0


class FlowTracks:
    """State of flows carried from tick to tick."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.losses = Losses(table.capacity, FLOWS)

    def advance(self, now: float, settings: Settings) -> None:
        del settings  # the windows of losses have none
        self.table.relabelled.clear()
        if self.table.n:
            self.losses.advance(self.table, now)

    def resize(self, capacity: int) -> None:
        self.losses.resize(capacity)

    def forget(self, rows: Rows) -> None:
        self.losses.forget(rows)


def log_tail(count: Floats, mean: Floats) -> Floats:
    """ln P(X >= count) of a Poisson X, exact where count > mean; 0 elsewhere. count >= 1.

    e^-m m^k / k! (1 + m/(k+1) + m^2/((k+1)(k+2)) + ...); ln k! by Stirling's series, better than 1e-6 from k = 3 on.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factorial = count * np.log(count) - count + 0.5 * np.log(2 * np.pi * count)
        factorial += 1 / (12 * count) - 1 / (360 * count**3) + 1 / (1260 * count**5)
        series, term = np.ones_like(count), np.ones_like(count)
        for step in range(1, _TERMS):
            term = term * mean / (count + step)
            series += term
            if not (term > 1e-12 * series).any():
                break
        found = count * np.log(mean) - mean - factorial + np.log(series)
    return np.where(count > mean, np.minimum(found, 0.0), 0.0)


def discoveries(log_p: Floats, tests: int, rate: float) -> Bools:
    """Benjamini-Hochberg: which of the smallest p-values (as ln p) of so many tests are discoveries."""
    found = np.zeros(len(log_p), np.bool_)
    order = np.argsort(log_p, kind="stable")
    rank = np.arange(1, len(log_p) + 1)
    passed = np.flatnonzero(log_p[order] <= np.log(rank * rate / max(tests, 1)))
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found


def _read(seen: Floats, before: Floats) -> Bools:
    """Rows read since `before`; a row whose time is new counts as read."""
    with np.errstate(invalid="ignore"):
        return np.asarray((seen != before) & np.isfinite(seen))


def _wider(array: NDArray[np.generic], capacity: int, fill: float) -> NDArray[np.generic]:
    more = np.full((*array.shape[:-1], capacity - array.shape[-1]), fill, array.dtype)
    return np.concatenate([array, more], axis=-1)
