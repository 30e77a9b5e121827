"""Fits of a trend against what they are by definition, and the bins they stand on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet.trend import BINS, HOUR, SPAN, Bins, fit_counts, fit_means

HOURS = -np.arange(BINS, 0, -1) / 2.0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0.0, 1.0, 3.0])), min_size=BINS, max_size=BINS),
    st.lists(st.integers(0, 3), min_size=BINS, max_size=BINS),
)
def test_counts_are_fitted_by_the_most_likely_line(bins: list[tuple[int, float]], few: list[int]) -> None:
    """At the maximum of the Poisson likelihood the fit predicts the number of errors and their mean time exactly."""
    exposure = np.array([1e12 * seen for _, seen in bins])
    counts = np.array([float(count) if seen else 0.0 for count, seen in bins])
    if (counts > 0).sum() < 4:
        return
    line = fit_counts(HOURS, np.stack([counts, counts]), np.stack([exposure, exposure * 2]))
    expected = exposure * np.exp(line.level[0] + line.slope[0] * HOURS)
    assert expected.sum() == pytest.approx(counts.sum(), rel=1e-6)
    if abs(line.slope[0]) < 11:
        assert (expected * HOURS).sum() == pytest.approx((counts * HOURS).sum(), rel=1e-3)
    # twice the bits: half the ratio, the same slope
    assert line.level[1] == pytest.approx(line.level[0] - math.log(2), abs=1e-6)
    assert line.slope[1] == pytest.approx(line.slope[0], abs=1e-6)


def errors_of(counts: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:
    """Slope's standard error of the fit, and what Fisher's information gives where counts are Poisson."""
    line = fit_counts(HOURS, counts[None, :], exposure[None, :])
    expected = exposure * np.exp(line.level[0] + line.slope[0] * HOURS)
    share = expected / expected.sum()
    mean = (share * HOURS).sum()
    return float(line.error[0]), 1 / math.sqrt((expected * (HOURS - mean) ** 2).sum())


def test_the_error_of_a_slope_is_that_of_poisson_counts_and_wider_where_they_come_in_bursts() -> None:
    exposure = np.full(BINS, 1e12)
    steady = np.full(BINS, 12.0)
    found, poisson = errors_of(steady, exposure)
    assert found == pytest.approx(poisson, rel=1e-6)
    bursts = np.array([0, 36, 0, 0, 36, 0, 0, 36, 0, 0, 36, 0, 12], float)
    found, poisson = errors_of(bursts, exposure)
    dispersion = ((bursts - 12.0) ** 2 / 12.0).sum() / (BINS - 2)
    assert found == pytest.approx(poisson * math.sqrt(dispersion), rel=0.02)
    # a bin in which nothing was observed is no observation of 0 errors, and takes part in nothing
    exposure[3], bursts[3] = 0.0, 0.0
    found, poisson = errors_of(bursts, exposure)
    rest = np.delete(bursts, 3)
    dispersion = ((rest - rest.mean()) ** 2 / rest.mean()).sum() / (BINS - 3)
    assert found == pytest.approx(poisson * math.sqrt(dispersion), rel=0.05)


@given(
    st.lists(st.one_of(st.just(math.nan), st.floats(-40, 60, width=16)), min_size=BINS, max_size=BINS),
)
def test_means_are_fitted_by_least_squares(means: list[float]) -> None:
    value = np.array(means)
    line = fit_means(HOURS, np.stack([value, value + 5.0]))
    seen = np.isfinite(value)
    if seen.sum() < 3:
        assert all(math.isnan(column[0]) for column in line)
        return
    slope, level = np.polyfit(HOURS[seen], value[seen], 1)
    assert line.slope == pytest.approx([slope, slope], abs=1e-6)
    assert line.level == pytest.approx([level, level + 5.0], abs=1e-6)
    rest = value[seen] - level - slope * HOURS[seen]
    noise = max((rest**2).sum() / (seen.sum() - 2), 0.1**2)
    spread = ((HOURS[seen] - HOURS[seen].mean()) ** 2).sum()
    assert line.error == pytest.approx([math.sqrt(noise / spread)] * 2, rel=1e-6)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 60.0, 900.0, 1800.0, 4000.0, -5.0, 30_000.0]), st.integers(0, 9)), max_size=30
    )
)
def test_bins_hold_what_was_added_in_each_half_hour(added: list[tuple[float, int]]) -> None:
    bins, rows = Bins(2, 4), np.array([2, 0])
    now, began = 1e6, math.nan
    kept: list[float] = [0.0] * BINS  # the newest last
    for wait, amount in added:
        now += wait
        bins.turn(now)
        if math.isnan(began) or not 0 <= now - began < BINS * SPAN:
            kept, began = [0.0] * BINS, now
        while now - began >= SPAN:
            kept, began = [*kept[1:], 0.0], began + SPAN
        bins.add(rows, 1, np.array([amount, 10.0 * amount]))
        kept[-1] += amount
        hours, sums = bins.sums_of(np.array([0, 2, 3]), now)
        assert sums[1].tolist() == [[10.0 * k for k in kept], kept, [0.0] * BINS]
        assert not sums[0].any()
        filled = max(now - began, 1.0)
        middles = [-(filled + (back - 0.5) * SPAN) / HOUR for back in range(BINS - 1, 0, -1)] + [-filled / 2 / HOUR]
        assert hours == pytest.approx(middles)
