"""Age from which a reading is stale: the one definition for agent, fleet and rules. Pure, without NumPy.

A stale reading is unknown, not unchanged (docs/methods.md#freshness). Three readings may be lost on the way, and parts
that are read every second or two still have half a minute.
"""

from __future__ import annotations

PERIODS = 3.0
"""Periods of its part after which a reading is stale ..."""

LEAST = 30.0
"""... but never before so many seconds. A node without a frame for as long does not report."""


def age_limit(period: float) -> float:
    """Seconds after which a reading of a part that is read every `period` seconds is stale."""
    return max(PERIODS * period, LEAST)
