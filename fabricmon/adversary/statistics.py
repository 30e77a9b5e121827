"""Intervals and calibration. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z = 1.959964
"""Standard deviations of a two-sided interval of 95 %."""
BINS = 10


def wilson(found: int, of: int) -> tuple[float, float]:
    """Interval of 95 % of a share, by Wilson (1927); (0, 1) of nothing."""
    if of == 0:
        return 0.0, 1.0
    share = found / of
    middle = share + Z * Z / (2 * of)
    spread = Z * math.sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    below = 1 + Z * Z / of
    return max(0.0, (middle - spread) / below), min(1.0, (middle + spread) / below)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value with at least this share of all at or below it; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def reliability(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, float, int, int]]:
    """Rows of a reliability table: from, to, number, right, of BINS equal bins of confidence."""
    rows = []
    for at in range(BINS):
        low, high = at / BINS, (at + 1) / BINS
        mine = [right for confidence, right in pairs if _bin(confidence) == at]
        rows.append((low, high, len(mine), sum(mine)))
    return rows


def calibration_error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error: mean distance of confidence and share right, weighted by bin; NaN of none."""
    if not pairs:
        return math.nan
    total = 0.0
    for at in range(BINS):
        mine = [(c, right) for c, right in pairs if _bin(c) == at]
        if mine:
            total += abs(sum(c for c, _ in mine) - sum(right for _, right in mine))
    return total / len(pairs)


def _bin(confidence: float) -> int:
    return min(BINS - 1, int(confidence * BINS))
