"""Errors of each link over time: bits and errors in two windows, the onset statistic, hard errors. Pure.

Methods: docs/methods.md#ber-bounds, docs/methods.md#cusum. Only intervals count in which the link was up and settled:
training after a down makes errors of its own.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet import link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.link_states import LinkStates
from fabricmon.fleet.row_state import Bools, Floats, Numbers, Rows, RowState, numbers, per_row
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.table import Table
from fabricmon.fleet.trend import ErrorTrend
from fabricmon.fleet.window import BITS, CAPPED, ERRORS, UNRATED, Window

SOURCES: tuple[tuple[str, ...], ...] = (
    ("symbol_errors", "rcv_errors"),
    ("phy_uncorrected_symbols", "fec_uncorrectable_blocks"),
    ("eth_symbol_errors", "eth_fcs_errors"),
    ("netdev_rx_crc_errors",),
)
"""Counters of damage after error correction (docs/methods.md#ber-bounds): of InfiniBand ports, then of Ethernet ports
by the PHY, by the NIC, by the interface. A row uses the first group of which it has a counter, and within the group,
whose counters one collector reads, the greatest: they count the same damage, so a sum would count it twice."""

HARD = ("link_error_recoveries", "local_link_integrity_errors")
"""Counters that rise only when errors came through error correction or the link had to be trained again."""

HARD_POLLS = 5  # polls remembered (docs/methods.md#link-errors)
CLASS_LEAST = 16  # ports of one rate before their common background is learned
LEARN_EVERY = 600.0  # seconds


class Errors(RowState):
    """Per row.

    short, long  windows of bits and errors
    onset        the CUSUM statistic, nats
    hard         bits of the last HARD_POLLS polls: 1 = a hard error in it, the newest lowest
    background   errors per poll that are usual for links of this rate
    usual        the row's own errors per poll, as a mean over `memory` seconds
    blind        an error counter of the row stands at its top: its health is unknown
    filled       errors of the interval in which it came there, 0 while none is at its top
    rate         bits per second the row's bits were counted at, NaN before the first
    trend        the error ratio over hours
    """

    onset = per_row(np.float64)
    hard = per_row(np.uint8)
    background = per_row(np.float64, "_floor")
    usual = per_row(np.float64)
    blind = per_row(np.bool_, False)
    filled = per_row(np.float64)
    rate = per_row(np.float64, np.nan)

    def __init__(self, capacity: int, settings: TrackSettings) -> None:
        self._floor = settings.background
        super().__init__(capacity)
        self.short = Window(settings.short, capacity)
        self.long = Window(settings.long, capacity)
        self.trend = ErrorTrend(capacity)
        self._learned = float("nan")

    def advance(self, table: Table, links: LinkStates, now: float, settings: TrackSettings) -> None:
        self._floor = settings.background
        self.short.horizon, self.long.horizon = settings.short, settings.long
        self.short.turn(now)
        self.long.turn(now)
        self.trend.bins.turn(now)
        covered = np.zeros(table.n, np.bool_)
        for group in SOURCES:
            names = [name for name in group if table.counted(name) is not None]
            if names:
                self._count(table, links, names, ~covered, now, settings)
                covered |= np.isfinite(table.cells[[table.columns[name] for name in names], : table.n]).any(axis=0)
        self._hard(table, links)
        self.trend.fit(self.short, self.blind, table.n, now)
        if not 0 <= now - self._learned < LEARN_EVERY:
            self._learn(table.n, settings)
            self._learned = now

    def _count(
        self, table: Table, links: LinkStates, names: list[str], own: Bools, now: float, settings: TrackSettings
    ) -> None:
        """Take over the interval that ended. `own`: rows that these counters are the source of."""
        times = table.read_times(names[0])
        if times is None or times.rows is None:
            return
        rows = times.rows
        errors, full = _greatest(table, names, rows)
        own = own[rows]
        blind = full & own
        stuck = blind & self.blind[rows]
        self.blind[rows] = np.where(own, full, self.blind[rows])
        dt, rate = times.dt[rows], 8.0 * table.line_rate()[rows]
        usable = own & links.settled(table, now, settings.settle)[rows] & (dt > 0) & (errors >= 0)
        rated = rate > 0
        errors, dt = np.where(usable, errors, 0.0), np.where(usable, dt, 0.0)
        bits, unrated = np.where(rated, rate, 0.0) * dt, np.flatnonzero(usable & ~rated)
        capped = np.minimum(errors, settings.cap)
        self.filled[rows] = np.where(own, np.where(full, np.where(stuck, self.filled[rows], errors), 0.0),
                                     self.filled[rows])  # fmt: skip
        some = np.flatnonzero(errors)
        some_rows = numbers(rows, some)
        for window in (self.short, self.long):
            window.add(rows, BITS, bits)
            window.add(numbers(rows, unrated), UNRATED, dt[unrated])
            window.add(some_rows, ERRORS, errors[some])
            window.add(some_rows, CAPPED, capped[some])
        if stuck.any():  # a counter that cannot rise is no evidence of the bits that pass
            bits = np.where(stuck, 0.0, bits)
        self.trend.add(rows, bits, numbers(rows, some[rated[some]]), errors[some[rated[some]]])
        self.rate[rows] = np.where(usable & rated, rate, self.rate[rows])
        self._onset(rows, some, capped, dt, settings)

    def _onset(self, rows: Rows, some: Numbers, capped: Floats, dt: Floats, settings: TrackSettings) -> None:
        """S <- max(0, S + x ln(l1/l0) - (l1 - l0)), with l per poll scaled to the length of this interval."""
        usual = self.background[rows]
        elevated = np.maximum(settings.elevated, settings.ratio * usual)
        polls = dt / settings.poll
        onset = self.onset[rows] - (elevated - usual) * polls
        onset[some] += capped[some] * np.log(elevated[some] / usual[some])
        self.onset[rows] = np.clip(onset, 0.0, settings.ceiling)
        share = np.minimum(1.0, dt / settings.memory)
        per_poll = np.divide(capped, polls, out=np.zeros_like(capped), where=polls > 0)
        self.usual[rows] += share * (per_poll - self.usual[rows])

    def _hard(self, table: Table, links: LinkStates) -> None:
        names = [name for name in HARD if table.counted(name) is not None]
        times = table.read_times(names[0]) if names else None
        if times is None or times.rows is None:
            return
        rows = times.rows
        rises = np.stack([table.at_least(name, rows) for name in names])
        risen, known = (rises > 0).any(axis=0), (rises >= 0).any(axis=0)
        known &= links.link[rows] == link.UP
        before = self.hard[rows]
        after = ((before << 1) | risen.astype(np.uint8)) & np.uint8(2**HARD_POLLS - 1)
        self.hard[rows] = np.where(known, after, before)

    def _learn(self, n: int, settings: TrackSettings) -> None:
        """The background of a class is a robust quantile of its members, floored: a first error is no onset."""
        rate = self.rate[:n]
        background = np.full(n, settings.background)
        for speed in np.unique(rate[np.isfinite(rate)]).tolist():
            members = rate == speed
            if int(np.count_nonzero(members)) >= CLASS_LEAST:
                background[members] = max(settings.background, float(np.quantile(self.usual[:n][members], 0.75)))
        self.background[:n] = background


def _greatest(table: Table, names: list[str], rows: Rows) -> tuple[Floats, Bools]:
    """Of some rows: the greatest rise of several counters, NaN unknown; whether one of them is at its top.

    The rise to the top is a lower bound and counts: a link that errs much fills 16 bits within two polls.
    """
    marks = np.bitwise_or.reduce([table.marks[table.counted(name), : table.n][rows] for name in names])
    return np.fmax.reduce([table.at_least(name, rows) for name in names]), (marks & np.uint8(Mark.FULL)) != 0
