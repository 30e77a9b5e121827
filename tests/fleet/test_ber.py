"""Exact Poisson bounds, against the figures of docs/methods.md#ber-bounds and against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet import ber


def test_upper_bounds_at_95_percent() -> None:
    found = ber.upper_count(np.arange(6.0))
    assert found == pytest.approx([3.00, 4.74, 6.30, 7.75, 9.15, 10.51], abs=0.005)


def test_upper_bounds_without_an_error() -> None:
    none = np.zeros(1)
    assert ber.upper_count(none, 0.99)[0] == pytest.approx(4.61, abs=0.005)
    assert ber.upper_count(none, 1 - 1e-8)[0] == pytest.approx(18.42, abs=0.005)
    assert ber.upper_count(none, 0.95)[0] == pytest.approx(-math.log(0.05), rel=1e-12)


def _at_most(k: int, mean: float) -> float:
    return math.fsum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(k + 1))


@given(st.integers(0, 300), st.sampled_from([0.5, 0.9, 0.95, 0.99, 1 - 1e-6, 1 - 1e-8]))
def test_the_upper_bound_solves_its_equation(k: int, confidence: float) -> None:
    bound = float(ber.upper_count(np.array([float(k)]), confidence)[0])
    assert _at_most(k, bound) == pytest.approx(1 - confidence, rel=1e-6)


@given(st.integers(1, 300), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_lower_bound_solves_its_equation(k: int, confidence: float) -> None:
    bound = float(ber.lower_count(np.array([float(k)]), confidence)[0])
    assert 1 - _at_most(k - 1, bound) == pytest.approx(1 - confidence, rel=1e-6)


def test_small_tails() -> None:
    """For a mean x near 0, P(X >= k) is x**k / k! within a factor of e^-x."""
    found = ber.lower_count(np.array([0.0, 1.0, 2.0, 3.0]))
    assert found[0] == 0.0
    assert found[1] == pytest.approx(1e-8, rel=1e-6)
    assert found[2] == pytest.approx(math.sqrt(2e-8), rel=1e-3)
    assert found[3] == pytest.approx((6e-8) ** (1 / 3), rel=5e-3)


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=8))
def test_bounds_are_ordered_and_rise_with_the_count(counts: list[int]) -> None:
    k = np.array(sorted(counts), float)
    low, high = ber.lower_count(k), ber.upper_count(k)
    assert np.all(low <= k)
    assert np.all(high > k)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)


def test_unknown_stays_unknown() -> None:
    assert math.isnan(ber.lower_count(np.array([math.nan]))[0])
    assert math.isnan(ber.lower(np.array([3.0]), np.array([0.0]))[0])


def claim(errors: float, bits: float) -> ber.Claim:
    return ber.claim(errors, (bits, bits), 1e-15, 1e-14)


def test_how_long_a_clean_link_must_run() -> None:
    """1e-15 at 400 Gb/s needs the 125 minutes that vendors ask for."""
    assert ber.needed_bits(0, 1e-15) / 4e11 == pytest.approx(7500, rel=0.002)
    assert claim(0, 4e11 * 7400).word == "not enough bits yet"
    assert claim(0, 4e11 * 7500).word == "healthy"
    assert claim(300, 1e13).word == "bad"
    assert "3e+15 needed" in str(claim(0, 1e13))


def test_bits_that_are_not_known_make_a_link_neither_bad_nor_healthy() -> None:
    """Bad only by the most bits that may have passed, healthy only by the least."""
    assert ber.claim(0, (4e11 * 7400, 8e11 * 7400), 1e-15, 1e-14).word == "not enough bits yet"
    assert ber.claim(300, (1e13, 1e18), 1e-15, 1e-14).word == "not enough bits yet"
    assert ber.claim(300, (1e13, 1e15), 1e-15, 1e-14).word == "bad"


def test_a_storm_of_errors_is_bounded_as_quickly_as_a_few() -> None:
    """A million errors: the Poisson distribution is normal there, five and a half deviations for 1e-8."""
    k = np.array([1e6, 1e9])
    assert ber.lower_count(k) == pytest.approx(k - 5.612 * np.sqrt(k), rel=2e-5)
    assert ber.upper_count(k) == pytest.approx(k + 1.645 * np.sqrt(k), rel=2e-5)


def test_solved_and_approximated_bounds_meet() -> None:
    k = np.array([999.0, 1000.0, 1001.0, 1002.0])
    for bound in (ber.lower_count(k), ber.upper_count(k)):
        assert np.all(np.diff(bound) > 0.7)
        assert np.all(np.diff(bound) < 1.3)
