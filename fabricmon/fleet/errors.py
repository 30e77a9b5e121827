"""Errors of each link over time: bits and errors in two windows, the onset statistic, hard errors. Pure.

Methods: detection-methods 2.1 (bounds over bits that passed), 2.3 (Poisson CUSUM on capped counts), 3.4. Only
intervals count in which the link was up and settled: training after a down makes errors that tell nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.arithmetic import NO_RATE, Mark
from fabricmon.fleet.lane import Rows
from fabricmon.fleet.trend import ErrorTrend
from fabricmon.fleet.window import BITS, CAPPED, ERRORS, Window

if TYPE_CHECKING:
    from fabricmon.fleet.table import Table
    from fabricmon.fleet.tracks import Settings, Tracks

SOURCES: tuple[tuple[str, ...], ...] = (("symbol_errors", "rcv_errors"), ("netdev_rx_crc_errors",))
"""Counters of damaged symbols and packets. A row is judged by the first group of which it has a counter, and
within the group by the greatest: both see the same damage, so a sum would count it twice."""

HARD = ("link_error_recoveries", "local_link_integrity_errors")
"""Counters that rise only when errors came through error correction or the link had to be trained again."""

HARD_POLLS = 5  # polls remembered (3 of 5: detection-methods 3.4)
CLASS_LEAST = 16  # ports of one rate before their common background is learned
LEARN_EVERY = 600.0  # seconds


class Errors:
    """Per row.

    short, long  windows of bits and errors
    onset        the CUSUM statistic, nats
    hard         bits of the last HARD_POLLS polls: 1 = a hard error in it, the newest lowest
    background   errors per poll that are usual for links of this rate
    blind        an error counter of the row stands at its top: health cannot be told
    rate         bits per second the row's bits were counted at, NaN before the first
    trend        the error ratio over hours
    """

    def __init__(self, capacity: int, settings: Settings) -> None:
        self.short = Window(settings.short, capacity)
        self.long = Window(settings.long, capacity)
        self.trend = ErrorTrend(capacity)
        self.onset = np.zeros(capacity)
        self.hard = np.zeros(capacity, np.uint8)
        self.background = np.full(capacity, settings.background)
        self.usual = np.zeros(capacity)
        self.blind = np.zeros(capacity, np.bool_)
        self.rate = np.full(capacity, np.nan)
        self._learned = float("nan")

    def advance(self, table: Table, tracks: Tracks, now: float, settings: Settings) -> None:
        self.short.horizon, self.long.horizon = settings.short, settings.long
        self.short.turn(now)
        self.long.turn(now)
        self.trend.bins.turn(now)
        judged: NDArray[np.bool_] | None = None
        for group in SOURCES:
            names = [name for name in group if table.counted(name) is not None]
            if names:
                self._count(table, tracks, names, judged, now, settings)
                has = np.isfinite(table.cells[[table.columns[name] for name in names], : table.n]).any(axis=0)
                judged = has if judged is None else judged | has
        self._hard(table, tracks)
        self.trend.fit(self, table.n, now)
        if not 0 <= now - self._learned < LEARN_EVERY:
            self._learn(table.n, settings)
            self._learned = now

    def _count(
        self,
        table: Table,
        tracks: Tracks,
        names: list[str],
        judged: NDArray[np.bool_] | None,
        now: float,
        settings: Settings,
    ) -> None:
        lane = table.lane(names[0])
        if lane is None or lane.rows is None:
            return
        rows, n = lane.rows, table.n
        errors: NDArray[np.float64] | None = None
        blind: NDArray[np.bool_] | None = None
        for name in names:
            at = table.counted(name)
            mark = table.marks[at, :n][rows]
            count = np.where(mark & NO_RATE, np.nan, table.rise[at, :n][rows])
            full = (mark & np.uint8(Mark.FULL)) != 0
            errors = count if errors is None else np.fmax(errors, count)
            blind = full if blind is None else blind | full
        assert errors is not None
        assert blind is not None
        dt = lane.dt[:n][rows]
        rate = 8.0 * line_rate(table)[rows]
        with np.errstate(invalid="ignore"):
            usable = tracks.settled(now, settings.settle)[rows] & (dt > 0) & (rate > 0) & (errors >= 0)
        if judged is not None:
            usable &= ~judged[rows]
            blind &= ~judged[rows]
            own = ~judged[rows]
            self.blind[:n][rows] = np.where(own, blind, self.blind[:n][rows])
        else:
            self.blind[:n][rows] = blind
        errors = np.where(usable, errors, 0.0)
        dt = np.where(usable, dt, 0.0)
        bits = np.where(usable, rate, 0.0) * dt
        capped = np.minimum(errors, settings.cap)
        some = np.flatnonzero(errors)
        some_rows = np.arange(n, dtype=np.intp)[some] if isinstance(rows, slice) else rows[some]
        for window in (self.short, self.long):
            window.add(rows if isinstance(rows, np.ndarray) else slice(0, n), BITS, bits)
            window.add(some_rows, ERRORS, errors[some])
            window.add(some_rows, CAPPED, capped[some])
        if blind.any():  # a counter that cannot rise says nothing of the bits that pass
            bits = np.where(blind, 0.0, bits)
        self.trend.add(rows if isinstance(rows, np.ndarray) else slice(0, n), bits, some_rows, errors[some])
        self.rate[:n][rows] = np.where(usable, rate, self.rate[:n][rows])
        self._onset(rows, n, some, capped, dt, settings)

    def _onset(
        self,
        rows: Rows,
        n: int,
        some: NDArray[np.intp],
        capped: NDArray[np.float64],
        dt: NDArray[np.float64],
        settings: Settings,
    ) -> None:
        """S <- max(0, S + x ln(l1/l0) - (l1 - l0)), with l per poll scaled to the length of this interval."""
        usual = self.background[:n][rows]
        elevated = np.maximum(settings.elevated, settings.ratio * usual)
        polls = dt / settings.poll
        onset = self.onset[:n][rows] - (elevated - usual) * polls
        onset[some] += capped[some] * np.log(elevated[some] / usual[some])
        self.onset[:n][rows] = np.clip(onset, 0.0, settings.ceiling)
        share = np.minimum(1.0, dt / settings.memory)
        per_poll = np.divide(capped, polls, out=np.zeros_like(capped), where=polls > 0)
        self.usual[:n][rows] += share * (per_poll - self.usual[:n][rows])

    def _hard(self, table: Table, tracks: Tracks) -> None:
        names = [name for name in HARD if table.counted(name) is not None]
        lane = table.lane(names[0]) if names else None
        if lane is None or lane.rows is None:
            return
        rows, n = lane.rows, table.n
        risen: NDArray[np.bool_] | None = None
        known: NDArray[np.bool_] | None = None
        for name in names:
            at = table.counted(name)
            sure = (table.marks[at, :n][rows] & NO_RATE) == 0
            rise = table.rise[at, :n][rows]
            more, told = sure & (rise > 0), sure & (rise >= 0)
            risen = more if risen is None else risen | more
            known = told if known is None else known | told
        assert risen is not None
        assert known is not None
        known &= tracks.link[:n][rows] == link.UP
        before = self.hard[:n][rows]
        after = ((before << 1) | risen.astype(np.uint8)) & np.uint8(2**HARD_POLLS - 1)
        self.hard[:n][rows] = np.where(known, after, before)

    def _learn(self, n: int, settings: Settings) -> None:
        """The background of a class is a robust quantile of its members, floored: a first error is no onset."""
        rate = self.rate[:n]
        background = np.full(n, settings.background)
        for speed in np.unique(rate[np.isfinite(rate)]).tolist():
            members = rate == speed
            if int(np.count_nonzero(members)) >= CLASS_LEAST:
                background[members] = max(settings.background, float(np.quantile(self.usual[:n][members], 0.75)))
        self.background[:n] = background

    def resize(self, capacity: int, settings: Settings) -> None:
        more = capacity - len(self.onset)
        self.short.resize(capacity)
        self.long.resize(capacity)
        self.trend.resize(capacity)
        self.onset = np.concatenate([self.onset, np.zeros(more)])
        self.hard = np.concatenate([self.hard, np.zeros(more, np.uint8)])
        self.background = np.concatenate([self.background, np.full(more, settings.background)])
        self.usual = np.concatenate([self.usual, np.zeros(more)])
        self.blind = np.concatenate([self.blind, np.zeros(more, np.bool_)])
        self.rate = np.concatenate([self.rate, np.full(more, np.nan)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        self.short.forget(rows)
        self.long.forget(rows)
        self.trend.forget(rows)
        self.onset[rows] = 0.0
        self.hard[rows] = 0
        self.usual[rows] = 0.0
        self.blind[rows] = False
        self.rate[rows] = np.nan


def line_rate(table: Table) -> NDArray[np.float64]:
    """Line rate in bytes per second: of the RDMA port, else of the interface; NaN unknown."""
    port, netdev = table.values("rate"), table.values("netdev_rate")
    if port is None:
        return np.full(table.n, np.nan) if netdev is None else netdev
    return port if netdev is None else np.where(np.isnan(port), netdev, port)
