"""Differences of counters, against a scalar telling of the same rules (docs/methods.md#counter-hygiene)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.fleet.arithmetic import GAP_FACTOR, NO_RATE, WRAP_MARGIN, Mark, step
from fabricmon.model import Kind


def counter(growth: Growth, bits: int, category: Category = Category.ERROR, scale: float = 1.0) -> Counter:
    return Counter("c", Kind.PORT, "", bits, growth, category, "counters", ("c",), "A counter", scale, True, True, 1)


NAN = math.nan
COUNTERS = [
    counter(Growth.WRAPS, 32, Category.TRAFFIC),
    counter(Growth.WRAPS, 32),
    counter(Growth.WRAPS, 64, Category.TRAFFIC, 4.0),
    counter(Growth.SATURATES, 4),
    counter(Growth.SATURATES, 16),
    counter(Growth.TICKS, 32, Category.CONGESTION),
]
FASTEST = 1e9


def one(
    c: Counter,
    before: float,
    after: float,
    dt: float = 10.0,
    late: bool = False,
    former: tuple[float, float] | None = None,
) -> tuple[float, int]:
    a = np.array
    irregular = a([not 0 < dt <= GAP_FACTOR * 10])
    pace = None if former is None else (a([former[0]]), a([former[1]]))
    found = step(c, a([before]), a([after]), a([dt]), irregular, FASTEST, a([late]), pace)
    return float(found.rise[0]), int(found.mark[0])


def reference(c: Counter, before: float, after: float, dt: float, late: bool) -> tuple[float, int]:
    """The rules again, one cell at a time, without a former pace."""
    had, has = math.isfinite(before), math.isfinite(after)
    if not had and not has:
        return NAN, 0
    full = Mark.FULL if c.growth in (Growth.SATURATES, Growth.TICKS) and after == c.top else 0
    if not had:
        return NAN, Mark.FIRST | full
    if not has:
        return NAN, Mark.LOST
    mark = full | (Mark.LATE if late else 0)
    regular = 0 < dt <= 30
    rise = after - before
    if not regular:
        mark |= Mark.GAP
    if rise < 0:
        size = 2.0**c.bits * c.scale
        limit = WRAP_MARGIN * FASTEST * dt
        if c.growth is Growth.WRAPS and regular and before < size and 0 <= rise + size <= limit:
            mark |= Mark.WRAPPED
            rise += size
        else:
            mark |= Mark.RESET
            rise = NAN if c.category is Category.TRAFFIC else after
    if full and before == c.top:
        rise = NAN
    if not dt > 0:
        rise = NAN
    return rise, mark


values = st.one_of(
    st.just(NAN),
    st.just(math.inf),
    st.integers(0, 20).map(float),
    st.integers(0, 2**33).map(float),
    st.sampled_from([15.0, 65535.0, 2.0**32 - 1, 2.0**32, 2.0**32 - 1e6, 2.0**62]),
)
intervals = st.one_of(st.just(10.0), st.just(NAN), st.floats(-5, 60))


@given(
    st.sampled_from(COUNTERS), st.lists(st.tuples(values, values, intervals, st.booleans()), min_size=1, max_size=20)
)
def test_vectors_agree_with_the_scalar_rules(c: Counter, cells: list[tuple[float, float, float, bool]]) -> None:
    before, after, dt, late = (np.array(column) for column in zip(*cells, strict=True))
    irregular = ~((dt > 0) & (dt <= 30))
    found = step(c, before, after, dt, irregular, FASTEST, late.astype(bool))
    for i, (b, a, t, was_late) in enumerate(cells):
        rise, mark = reference(c, b, a, t, was_late)
        assert int(found.mark[i]) == mark, (b, a, t)
        assert found.rise[i] == pytest.approx(rise, nan_ok=True), (b, a, t)
        assert math.isnan(found.rise[i]) or 0 <= found.rise[i] < math.inf


@given(st.sampled_from(COUNTERS), st.lists(st.tuples(values, values), min_size=1, max_size=20))
def test_no_mark_means_an_exact_difference(c: Counter, cells: list[tuple[float, float]]) -> None:
    before, after = (np.array(column) for column in zip(*cells, strict=True))
    found = step(c, before, after, np.full(len(before), 10.0), None, FASTEST)
    plain = found.mark == 0
    known = plain & np.isfinite(before) & np.isfinite(after)
    assert np.array_equal(found.rise[known], after[known] - before[known])
    assert np.all(np.isnan(found.rise[plain & ~known]))


@given(st.lists(st.integers(0, 5 * 10**9), min_size=2, max_size=30))
def test_a_32_bit_counter_is_followed_through_its_wraps(moves: list[int]) -> None:
    """Rises below a full turn add up to what went through, whatever the register shows."""
    c = counter(Growth.WRAPS, 32, Category.TRAFFIC)
    moves = [m % (2**32) for m in moves]
    total, shown, counted = 0, [0], 0.0
    for move in moves:
        total += move
        shown.append(total % 2**32)
    for before, after in itertools.pairwise(shown):
        rise, mark = one(c, float(before), float(after))
        assert not mark & NO_RATE
        counted += rise
    assert counted == total


def test_reset_of_an_error_counter_is_a_lower_bound_that_forms_no_rate() -> None:
    rise, mark = one(counter(Growth.SATURATES, 16), 40.0, 3.0)
    assert rise == 3.0
    assert mark & Mark.RESET
    assert mark & NO_RATE


def test_reset_of_a_traffic_counter_gives_nothing() -> None:
    rise, mark = one(counter(Growth.WRAPS, 64, Category.TRAFFIC), 2.0**40, 5.0)
    assert math.isnan(rise)
    assert mark == Mark.RESET


def test_a_full_counter_is_unobserved_and_not_zero() -> None:
    c = counter(Growth.SATURATES, 4)
    rise, mark = one(c, 15.0, 15.0)
    assert math.isnan(rise)
    assert mark == Mark.FULL
    rise, mark = one(c, 12.0, 15.0)
    assert (rise, mark) == (3.0, Mark.FULL)
    assert one(c, 15.0, 16.0) == (1.0, 0)  # a driver that shows more bits than the table says


def test_a_64_bit_counter_that_is_narrow_indeed_wraps_at_its_former_pace() -> None:
    c = counter(Growth.WRAPS, 64, Category.TRAFFIC)
    per_second = 2.0**32 / 9.0
    before, after = 2.0**32 - per_second, 4 * per_second
    rise, mark = one(c, before, after, 5.0, former=(5 * per_second, 5.0))
    assert rise == pytest.approx(5 * per_second)
    assert mark == Mark.WRAPPED
    # the same fall of a counter that hardly moved before is a reset
    rise, mark = one(c, before, after, 5.0, former=(1000.0, 5.0))
    assert math.isnan(rise)
    assert mark == Mark.RESET


def test_a_gap_forms_no_rate_but_keeps_the_count() -> None:
    rise, mark = one(counter(Growth.SATURATES, 8), 1.0, 4.0, dt=31.0)
    assert (rise, mark) == (3.0, Mark.GAP)
    rise, mark = one(counter(Growth.SATURATES, 8), 1.0, 4.0, dt=-1.0)
    assert math.isnan(rise)
