"""The scale of wait ticks is made anew once a window, also after the clock was set back."""

import numpy as np

from fabricmon.fleet.tick_scale import EVERY, MEMORY, RANK, TickScale

MAKE = np.array([1, 1, 1, 1, 2], np.int32)
WAITS = np.array([0.9, 0.5, 0.4, 0.1, 0.7], np.float32)


def test_it_is_due_at_first_then_once_a_window_and_when_the_clock_goes_back() -> None:
    scale = TickScale(0.01)
    assert scale.due(1000.0) is True
    scale.update(MAKE, WAITS, 1000.0)
    assert [scale.due(1000.0 + after) for after in (0.0, EVERY - 0.1, EVERY, -1.0)] == [False, False, True, True]


def test_the_third_greatest_counts_falls_with_time_and_is_never_below_the_least() -> None:
    scale = TickScale(0.01)
    scale.update(MAKE, WAITS, 1000.0)
    assert RANK == 3
    assert scale.by_make == {1: np.float32(0.4), 2: np.float32(0.7)}
    scale.update(MAKE, np.zeros(5, np.float32), 1000.0 + MEMORY)
    assert np.allclose([scale.by_make[1], scale.by_make[2]], np.array([0.4, 0.7]) / np.e)
    scale.update(MAKE, np.zeros(5, np.float32), 1000.0 + 20 * MEMORY)
    assert scale.by_make == {1: 0.01, 2: 0.01}
    scale.update(MAKE, WAITS, 500.0)
    assert scale.by_make == {1: np.float32(0.4), 2: np.float32(0.7)}
