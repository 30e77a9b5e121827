"""Windows of slots: means of what was added, at any rate that a port can have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.slots import SLOT, WINDOW, Slots

DEEP = 3 * WINDOW


@given(st.lists(st.floats(0.0, 1e21), min_size=DEEP, max_size=3 * DEEP))
def test_windows_are_the_means_of_what_was_added_at_any_rate(rates: list[float]) -> None:
    slots = Slots(1, 1, DEEP)
    for n, rate in enumerate(rates):
        slots.add(slice(0, 1), np.full(1, SLOT), (np.full(1, rate * SLOT),), n * SLOT)
    newest = np.array(rates[::-1][:DEEP]).reshape(DEEP // WINDOW, WINDOW).mean(axis=1)
    assert slots.windows(0, np.arange(1), DEEP // WINDOW)[:, 0] == pytest.approx(newest, rel=1e-5)
