"""The step of a counter between two readings: rise, wrap, reset, full, gap. Pure, NumPy.

The rules are those of docs/methods.md#counter-hygiene, for each cell:

  rise   counts since the last known reading; NaN unknown
  mark   bits of `Mark`. A rate (rise / dt) may be formed only where no bit of NO_RATE is set; elsewhere the rise is a
         lower bound, or covers an interval of another length.

Invariants, for any input:
  * rise is NaN or 0 <= rise < inf;
  * no mark at all: both readings were known, dt is regular and rise = after - before (mod the counter's width);
  * a reset traffic counter has no rise; a reset event counter has risen by at least what it shows now;
  * a counter that stood at its top and stands there still has no rise: unobserved, not zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.counter import Category, Counter, Growth

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Marks = NDArray[np.uint8]


class Mark:
    """Bits of a mark."""

    FIRST = 1  # no earlier reading to compare with
    GAP = 2  # too long since the earlier reading, or the clock went back: no rate
    RESET = 4  # fell without a wrap: the rise is a lower bound, no rule may page on it alone
    FULL = 8  # stands at its top: a lower bound
    LOST = 16  # was known, cannot be read now
    EPOCH = 32  # the counting began anew (boot, other device, all counters fell): new baseline
    WRAPPED = 64  # fell because it wrapped; the rise is exact
    LATE = 128  # readings in between were lost: the rise is exact, its interval is not dt


NO_RATE = np.uint8(Mark.FIRST | Mark.GAP | Mark.RESET | Mark.FULL | Mark.LOST | Mark.EPOCH | Mark.LATE)

GAP_FACTOR = 3.0  # intervals; a pair further apart gives no rate (docs/methods.md#counter-hygiene)
WRAP_MARGIN = 1.1  # of the physically possible rate (docs/methods.md#resets-and-wraps)
FASTEST_BYTES = 1e11  # bytes per second of the fastest link known, XDR 800 Gb/s
SMALLEST_PACKET = 20.0  # bytes; below any packet with its headers, so packets/s <= bytes/s / 20
FASTEST_EVENTS = 1e3  # per second; the debounce of a carrier takes milliseconds
NARROW = 2.0**32  # raw values; the plain counter set has 32 bits (docs/methods.md#infiniband-port-counters)
NARROW_PACE = 2.0  # a fall is a 32-bit wrap only if it keeps the former pace within this factor


class CounterStep(NamedTuple):
    rise: Floats
    mark: Marks


def fastest(counter: Counter, line_rate: Floats) -> Floats | float:
    """The most counts a second this counter can make on a link of `line_rate` bytes/s (NaN: unknown)."""
    if counter.category is not Category.TRAFFIC:
        return FASTEST_EVENTS
    bytes_per_second = np.where(np.isnan(line_rate), FASTEST_BYTES, line_rate)
    if counter.unit == "bytes" or counter.name.endswith("bytes"):
        return bytes_per_second
    return bytes_per_second / SMALLEST_PACKET


def step(
    counter: Counter, before: Floats, after: Floats, dt: Floats, irregular: Bools | None, fastest: Floats | float,
    late: Bools | None = None, former: tuple[Floats, Floats] | None = None,
) -> CounterStep:
    """One step of one counter for n rows.

    before     last known value, NaN where there never was one (or a new epoch began)
    after      value just read, NaN unknown
    dt         seconds between the two reads, by the node's own clock
    irregular  where dt is no regular interval (dt <= 0 or > GAP_FACTOR intervals); None: nowhere
    fastest    counts per second that are physically possible
    late       where the reading before this one was lost; None: nowhere
    former     (rise, dt) of the step before: its pace shows a 32-bit wrap of a counter that is listed as 64-bit
    """
    with np.errstate(invalid="ignore", over="ignore"):
        rise = after - before
    odd = ~((rise >= 0) & (rise < np.inf))
    if counter.growth in (Growth.SATURATES, Growth.TICKS):
        odd |= after == counter.top
    for where in (irregular, late):
        if where is not None:
            odd |= where
    mark = np.zeros(len(after), np.uint8)
    if odd.any():
        at = np.flatnonzero(odd & ~(np.isnan(before) & np.isnan(after)))
        nowhere = np.zeros(len(at), np.bool_)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rise[at], mark[at] = _odd(
                counter, before[at], after[at], dt[at],
                nowhere if irregular is None else irregular[at],
                fastest if isinstance(fastest, float) else fastest[at],
                nowhere if late is None else late[at],
                np.full(len(at), np.nan) if former is None else former[0][at] / former[1][at],
            )  # fmt: skip
    return CounterStep(rise, mark)


def _odd(
    counter: Counter, before: Floats, after: Floats, dt: Floats, irregular: Bools, fastest: Floats | float, late: Bools,
    pace: Floats,
) -> CounterStep:
    """The cells that are not a plain difference of two known values over a regular interval."""
    had, has = np.isfinite(before), np.isfinite(after)
    mark = np.zeros(len(after), np.uint8)
    mark[had & ~has] = Mark.LOST
    mark[~had & has] = Mark.FIRST
    both = had & has
    rise = np.where(both, after - before, np.nan)
    mark[both & irregular] |= np.uint8(Mark.GAP)
    mark[both & late] |= np.uint8(Mark.LATE)

    fell = both & (rise < 0)
    if counter.growth is Growth.WRAPS and counter.bits and fell.any():
        wrapped, by = _wrap(counter, before, after, dt, fastest, pace)
        wrapped &= fell & ~irregular
        rise = np.where(wrapped, by, rise)
        mark[wrapped] |= np.uint8(Mark.WRAPPED)
        fell &= ~wrapped
    mark[fell] |= np.uint8(Mark.RESET)
    lower = np.nan if counter.category is Category.TRAFFIC else np.maximum(after, 0.0)
    rise = np.where(fell, lower, rise)

    if counter.growth in (Growth.SATURATES, Growth.TICKS):
        full = has & (after == counter.top)
        mark[full] |= np.uint8(Mark.FULL)
        rise[full & had & (before == counter.top)] = np.nan
    rise[irregular & ~(dt > 0)] = np.nan
    return CounterStep(rise, mark)


def _wrap(
    counter: Counter, before: Floats, after: Floats, dt: Floats, fastest: Floats | float, pace: Floats
) -> tuple[Bools, Floats]:
    """Where a fall is a wrap, and by how much the counter rose through it."""
    limit = WRAP_MARGIN * fastest * dt
    by = after - before + 2.0**counter.bits * counter.scale
    wrapped = (before < 2.0**counter.bits * counter.scale) & (by >= 0) & (by <= limit)
    if counter.bits > 32:
        narrow = NARROW * counter.scale
        short = after - before + narrow
        expected = pace * dt
        fits = (before < narrow) & (short >= 0) & (short <= limit)
        fits &= (short >= expected / NARROW_PACE) & (short <= expected * NARROW_PACE)
        fits &= ~wrapped
        by = np.where(fits, short, by)
        wrapped |= fits
    return wrapped, by
