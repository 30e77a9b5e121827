"""Slots of ten seconds: the same values as lists of them would give, at any polling interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet.slots import MEMORY, SLOT, WINDOW, HourMean, Slots

ROWS, DEPTH = 4, 18
intervals = st.sampled_from([math.nan, -1.0, 0.0, 1.0, 2.0, 5.0, 6.0, 10.0, 14.0, 15.0, 30.0, 45.0, 500.0])
shares = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, math.nan])
steps = st.lists(
    st.tuples(st.booleans(), *[st.tuples(intervals, shares, shares)] * ROWS), min_size=1, max_size=40
)


class Listed:
    """One row as lists, the newest slot first."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.clear()

    def clear(self) -> None:
        self.slots: list[tuple[float, ...]] = []
        self.begun: list[tuple[float, float, float]] = []
        self.until = math.nan

    def add(self, seconds: float, one: float, two: float, now: float) -> int:
        """How many slots it closed."""
        if not seconds > 0:
            self.clear()
            return 0
        self.until = now + max(3 * seconds, 30.0)
        self.begun.append((seconds, one * seconds, two * seconds))
        total = sum(seconds for seconds, *_ in self.begun)
        if total + seconds / 2 < SLOT:
            return 0
        fills = min(max(round(total / SLOT), 1), self.depth)
        value = tuple(sum(part[which] for part in self.begun) / total for which in (1, 2))
        self.slots = ([value] * fills + self.slots)[: self.depth]
        self.begun = []
        return fills

    def slot(self, back: int, which: int) -> float:
        return self.slots[back][which] if back < len(self.slots) else math.nan

    def recent(self, which: int) -> float:
        known = [v for v in (self.slot(back, which) for back in range(WINDOW)) if not math.isnan(v)]
        return sum(known) / len(known) if known else math.nan


@settings(max_examples=150)
@given(steps, st.sampled_from([WINDOW, DEPTH]))
def test_slots_are_what_lists_of_the_readings_would_hold(events: list[tuple], depth: int) -> None:
    slots, rows, now = Slots(2, ROWS + 3, depth), [Listed(depth) for _ in range(ROWS)], 1e9
    for whole, *readings in events:
        now += 7.0
        at = list(range(ROWS)) if whole else [3, 1]
        seconds, one, two = (np.array([readings[row][part] for row in at]) for part in range(3))
        numbers = slice(0, ROWS) if whole else np.array(at)
        closed = slots.add(numbers, seconds, (one * seconds, two * seconds), now)
        fills = {row: rows[row].add(*readings[row], now) for row in at}
        filled = dict(zip(closed.rows.tolist(), closed.fills.tolist(), strict=True))
        assert filled == {row: count for row, count in fills.items() if count}
        for which in (0, 1):
            wanted = [[row.slot(back, which) for row in rows] for back in range(depth)]
            assert slots.latest[which, :ROWS] == pytest.approx(wanted[0], rel=1e-6, nan_ok=True)
            recent = [row.recent(which) for row in rows]
            assert slots.recent[which, :ROWS] == pytest.approx(recent, rel=1e-5, nan_ok=True)
            every = np.arange(ROWS)
            assert slots.history(which, every, depth) == pytest.approx(np.array(wanted), rel=1e-3, nan_ok=True)
            means = np.array(wanted).reshape(depth // WINDOW, WINDOW, ROWS).mean(axis=1)
            found = slots.windows(which, every, depth // WINDOW)
            assert found == pytest.approx(means, rel=1e-3, nan_ok=True)
        for later in (0.0, 30.0, 31.0, 200.0):
            assert slots.known(ROWS, now + later).tolist() == [row.until >= now + later for row in rows]


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0, math.nan])), min_size=1, max_size=60))
def test_an_hour_mean_is_the_plain_mean_until_the_hour_is_full(added: list[tuple[int, float]]) -> None:
    hour, values = HourMean(3), []
    row = np.array([1])
    for fills, value in added:
        hour.add(row, np.array([fills], np.int16), np.array([value], np.float32))
        values += [value] * fills
        known = [v for v in values if not math.isnan(v)]
        mean = sum(known) / len(known) if known else math.nan
        assert hour.mean[row[0]] == pytest.approx(mean, rel=1e-4, nan_ok=True)
        newest = values[-3:]
        others = [v for v in values[:-3] if not math.isnan(v)]
        before = sum(others) / len(others) if others else math.nan
        found = hour.before(row, np.array(newest, np.float32)[:, None])[0]
        assert found == pytest.approx(before, rel=1e-2, abs=1e-4, nan_ok=True)
    assert math.isnan(hour.mean[0])


def test_an_unknown_value_of_one_row_costs_no_other_its_own() -> None:
    hour, rows = HourMean(3), np.array([0, 1, 2])
    hour.add(rows, np.array([1, 2, 1], np.int16), np.array([0.5, math.nan, 0.25], np.float32))
    hour.add(rows, np.array([1, 2, 1], np.int16), np.array([1.0, 0.75, math.nan], np.float32))
    assert hour.mean[rows].tolist() == [0.75, 0.75, 0.25]


def test_an_hour_mean_is_whole_after_an_hour_and_forgets_what_is_older() -> None:
    hour, row = HourMean(1), np.array([0])
    slots = int(MEMORY / SLOT)

    def add(value: float) -> None:
        hour.add(row, np.array([1], np.int16), np.array([value], np.float32))

    for number in range(slots - 1):
        assert not hour.whole(row)[0], number
        add(0.0)
    assert hour.whole(row)[0]
    for _ in range(slots):
        add(1.0)
    assert hour.mean[0] == pytest.approx(1 - math.exp(-1), abs=0.01)
    for _ in range(4 * slots):
        add(1.0)
    assert hour.mean[0] == pytest.approx(1.0, abs=0.01)
