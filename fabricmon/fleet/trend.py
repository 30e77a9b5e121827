"""Trends of each link over hours: its error ratio, Rx power and module temperature. Pure.

Method: docs/methods.md#trend-and-forecast. Half-hour sums are kept per row and fitted once a minute.

Error ratio: counts k of a bin are Poisson with mean bits x exp(a + b t). The slope b has a likelihood of one dimension
(a follows from b), is found by Newton, and its variance is widened by the dispersion that the bins show, because
errors come in bursts. Margins of a module: a straight line by least squares over the means of the bins.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.row_state import Bools, Floats, Numbers, Rows, RowState, per_row
from fabricmon.fleet.table import Table
from fabricmon.fleet.window import BITS, ERRORS, Window

SPAN = 1800.0  # seconds of one bin
BINS = 13  # 6 h and the bin that is being filled
HOUR = 3600.0
FIT_EVERY = 60.0  # seconds
FEWEST_ERRORS = 20  # in the whole window: of fewer no slope is known, and one error an hour makes none in years
FEWEST_BINS = 4  # with errors, or with readings: one burst is no trend
FEWEST_MEANS = 6  # bins with readings of a module: half the window
Z95 = 1.96
NOISE = 0.1  # dB or degrees: modules report in such steps, a line through equal readings is not exact (design choice)
LANES = tuple(f"module_rx_power_lane{n}" for n in range(8))
POWER_LIMIT, TEMPERATURE, TEMPERATURE_LIMIT = (
    "module_rx_power_limit_low_alarm", "module_temperature", "module_temperature_limit_high_alarm",
)  # fmt: skip
_STEPS = 30
_STEEPEST = 12.0  # e-folds per hour


class Bins(RowState):
    """Sums per row of some quantities in bins of SPAN seconds, the newest BINS of them."""

    sums = per_row(np.float32, 0, "quantities", BINS)

    def __init__(self, quantities: int, capacity: int) -> None:
        self.quantities = quantities
        super().__init__(capacity)
        self.began = float("nan")
        self.newest = 0

    def turn(self, now: float) -> None:
        """Begin a new bin where it is time. A clock that stepped back or stood still for long begins all anew."""
        age = now - self.began
        if 0 <= age < SPAN:
            return
        if not 0 <= age < BINS * SPAN:
            self.sums[:] = 0.0
            self.began = now
            return
        for _ in range(int(age // SPAN)):
            self.newest = (self.newest + 1) % BINS
            self.sums[:, self.newest] = 0.0
            self.began += SPAN

    def add(self, rows: Rows, quantity: int, amount: Floats) -> None:
        self.sums[quantity, self.newest, rows] += amount.astype(np.float32)

    def sums_of(self, rows: Numbers, now: float) -> tuple[Floats, Floats]:
        """Hours before now of each bin's middle (float[BINS], oldest first), and its sums (quantities, rows, BINS)."""
        order = (self.newest + 1 + np.arange(BINS)) % BINS
        filled = max(now - self.began, 1.0)
        middle = -(filled + SPAN * (np.arange(BINS - 1, 0, -1) - 0.5))
        hours = np.append(middle, -filled / 2) / HOUR
        return hours, np.moveaxis(self.sums[:, order][:, :, rows].astype(np.float64), 1, 2)


class FittedLine(NamedTuple):
    """A fitted line per row: its value now, its slope per hour and the standard error of the slope; NaN no fit."""

    level: Floats
    slope: Floats
    error: Floats


def fit_counts(hours: Floats, counts: Floats, exposure: Floats) -> FittedLine:
    """Log-linear Poisson rates: level and slope in e-folds of counts / exposure.

    hours     float[b]
    counts    float[m, b]
    exposure  float[m, b], 0 where nothing was observed
    """
    total = counts.sum(axis=1)
    slope = np.zeros(len(counts))
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = (counts * hours).sum(axis=1) / total
        for _ in range(_STEPS):
            _, mean, variance = _weighted(hours, exposure, slope)
            step = np.clip(np.nan_to_num((seen - mean) / variance), -1.0, 1.0)
            slope = np.clip(slope + step, -_STEEPEST, _STEEPEST)
            if np.all(np.abs(step) < 1e-6):
                break
        weight, _, variance = _weighted(hours, exposure, slope)
        level = np.log(total / weight.sum(axis=1))
        expected = np.exp(level)[:, None] * weight
        observed = exposure > 0
        excess = np.where(observed & (expected > 1e-9), (counts - expected) ** 2 / np.maximum(expected, 0.2), 0.0)
        dispersion = np.maximum(1.0, excess.sum(axis=1) / np.maximum(observed.sum(axis=1) - 2, 1))
        error = np.sqrt(dispersion / (total * variance))
    return FittedLine(level, slope, error)


def _weighted(hours: Floats, exposure: Floats, slope: Floats) -> tuple[Floats, Floats, Floats]:
    weight = exposure * np.exp(slope[:, None] * hours)
    share = weight / weight.sum(axis=1, keepdims=True)
    mean = (share * hours).sum(axis=1)
    return weight, mean, (share * (hours - mean[:, None]) ** 2).sum(axis=1)


def fit_means(hours: Floats, means: Floats) -> FittedLine:
    """Straight lines by least squares; `means` float[m, b], NaN where nothing was read."""
    seen = np.isfinite(means)
    count = seen.sum(axis=1)
    value = np.where(seen, means, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(seen, hours, 0.0).sum(axis=1) / count
        mean = value.sum(axis=1) / count
        off = np.where(seen, hours - middle[:, None], 0.0)
        spread = (off**2).sum(axis=1)
        slope = (off * value).sum(axis=1) / spread
        rest = np.where(seen, value - mean[:, None] - slope[:, None] * off, 0.0)
        noise = np.maximum((rest**2).sum(axis=1) / (count - 2), NOISE**2)
        level = mean - slope * middle
        error = np.sqrt(noise / spread)
    few = count < 3
    return FittedLine(*(np.where(few, np.nan, column) for column in (level, slope, error)))


class ErrorTrend(RowState):
    """Trend of each link's bit error ratio.

    level, slope, error  log10 of the ratio now, decades per hour, standard error of the slope; NaN where errors are too
                         few for a fit, or where the newest errors no longer follow it
    """

    BITS, COUNT = 0, 1

    level = per_row(np.float64, np.nan)
    slope = per_row(np.float64, np.nan)
    error = per_row(np.float64, np.nan)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.bins = Bins(2, capacity)
        self.fitted: Numbers = np.empty(0, np.intp)
        self._fitted_at = float("nan")

    def add(self, rows: Rows, bits: Floats, some: Numbers, errors: Floats) -> None:
        """Bits of the rows that were read, errors of those that had some."""
        self.bins.add(rows, self.BITS, bits)
        self.bins.add(some, self.COUNT, errors)

    def fit(self, short: Window, blind: Bools, n: int, now: float) -> None:
        """Fit the rows that have enough errors.

        short  bits and errors of the newest minutes
        blind  an error counter of the row stands at its top
        """
        if 0 <= now - self._fitted_at < FIT_EVERY:
            return
        self._fitted_at = now
        counts = self.bins.sums[self.COUNT, :, :n]
        for kept in (self.level, self.slope, self.error):
            kept[self.fitted] = np.nan
        rows = np.flatnonzero(counts.sum(axis=0) >= FEWEST_ERRORS)
        rows = rows[(counts[:, rows] > 0).sum(axis=0) >= FEWEST_BINS]
        self.fitted = rows
        if not len(rows):
            return
        hours, (bits, count) = self.bins.sums_of(rows, now)
        line = fit_counts(hours, count, bits)
        # a module that was changed or cleaned makes no errors any more
        expected = np.exp(line.level) * short.some(BITS, rows)
        over = (expected >= 10.0) & (short.some(ERRORS, rows) < expected / 10.0) & ~blind[rows]
        decade = np.log(10.0)
        for mine, found in ((self.level, line.level), (self.slope, line.slope), (self.error, line.error)):
            mine[rows] = np.where(over, np.nan, found / decade)


class ModuleTrend(RowState):
    """Trend of the margin that each pluggable module has to its own alarm limits.

    margin  float[2, n]: dB of Rx power (the weakest lane) above the low alarm, degrees below the high alarm, of the
            newest reading; NaN where the module has no such reading or limit, or its link is not up
    level, slope, error  float[2, n]: the line through them now, per hour; the temperature's slope is relative to the
            median of all modules, which get warm together with the room or under a job
    steady  bool[2, n]: both halves of the window fall: what fell in one step is no trend
    """

    LIGHT, HEAT = 0, 1
    _COUNT = 2

    margin = per_row(np.float64, np.nan, 2)
    level = per_row(np.float64, np.nan, 2)
    slope = per_row(np.float64, np.nan, 2)
    error = per_row(np.float64, np.nan, 2)
    steady = per_row(np.bool_, False, 2)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.bins = Bins(4, capacity)
        self._fitted_at = float("nan")

    def advance(self, table: Table, state: NDArray[np.int8], now: float) -> None:
        times = table.read_times(TEMPERATURE)
        if times is None:
            return
        self.bins.turn(now)
        if times.rows is not None:
            rows = np.arange(table.n, dtype=np.intp)[times.rows]
            margin = _margins(table, rows)
            margin[:, state[rows] != link.UP] = np.nan
            self.margin[:, rows] = margin
            for which in (self.LIGHT, self.HEAT):
                known = np.isfinite(margin[which])
                self.bins.add(rows[known], which, margin[which][known])
                self.bins.add(rows[known], self._COUNT + which, np.ones(int(known.sum())))
        if not 0 <= now - self._fitted_at < FIT_EVERY:
            self._fitted_at = now
            self._fit(table.n, now)

    def _fit(self, n: int, now: float) -> None:
        for which in (self.LIGHT, self.HEAT):
            count = self.bins.sums[self._COUNT + which, :, :n]
            rows = np.flatnonzero((count > 0).sum(axis=0) >= FEWEST_MEANS)
            for kept in (self.level, self.slope, self.error):
                kept[which] = np.nan
            if not len(rows):
                continue
            hours, sums = self.bins.sums_of(rows, now)
            with np.errstate(divide="ignore", invalid="ignore"):
                means = sums[which] / sums[self._COUNT + which]
            line = fit_means(hours, means)
            half = BINS // 2
            early, late = fit_means(hours[:half], means[:, :half]), fit_means(hours[half:], means[:, half:])
            self.steady[which, rows] = (early.slope < line.slope / 3) & (late.slope < line.slope / 3)
            common = float(np.nanmedian(line.slope)) if which == self.HEAT and len(rows) > 2 else 0.0
            self.level[which, rows], self.error[which, rows] = line.level, line.error
            self.slope[which, rows] = line.slope - common


def _margins(table: Table, rows: Numbers) -> Floats:
    """dB of Rx power above the module's low alarm, degrees below its high alarm."""
    weakest = reduce(np.fmin, (table.value(lane)[rows] for lane in LANES))
    limit, hottest = table.value(POWER_LIMIT)[rows], table.value(TEMPERATURE_LIMIT)[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        light = np.where((limit > 0) & (weakest >= 0), 10.0 * np.log10(np.maximum(weakest, 1e-9) / limit), np.nan)
    heat = np.where(hottest > 0, hottest - table.value(TEMPERATURE)[rows], np.nan)
    return np.stack([light, heat])
