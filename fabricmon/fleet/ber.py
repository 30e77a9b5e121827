"""Exact Poisson bounds of a bit error ratio from k errors in n bits (docs/methods.md#ber-bounds). Pure, NumPy.

With k errors seen, the bounds of the expected count are quantiles of the gamma distribution,
  lower: chi2inv(1 - CL, 2k) / 2      upper: chi2inv(CL, 2k + 2) / 2,
that is, the solutions of P(X >= k | mean) = 1 - CL and P(X <= k | mean) = 1 - CL for a Poisson X. They are
found by Newton steps on the logarithm of the tail from the Wilson-Hilferty start; the tail itself is a short series.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fabricmon.fleet.row_state import Floats

_LogTail = Callable[[Floats], tuple[Floats, Floats]]

ALARM_CONFIDENCE = 1.0 - 1e-8  # a lower bound above the limit raises an alarm (docs/methods.md#ber-bounds)
HEALTH_CONFIDENCE = 0.95  # an upper bound below the target calls a link healthy (docs/methods.md#ber-bounds)

_STEPS = 60  # Newton steps at most; 4 to 10 are usual
_TERMS = 10_000  # series terms at most; about 8 x sqrt(k) are usual
_EXACT = 1_000.0  # counts up to here are solved; above, the start is within 5e-5 of the solution for all tails used
_DENSE = 65_536  # counts below this are looked up by number, which is quicker than sorting them
_SORTED = 16  # times as many numbers up to the greatest count as counts, from which on sorting is quicker
_FEW = 8  # distinct counts up to which each is solved on its own and remembered
_SMALL = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, 256.0)))))  # ln k!


def lower_count(errors: Floats, confidence: float = ALARM_CONFIDENCE) -> Floats:
    """The smallest expected count that is compatible with so many errors; 0 for none, NaN for unknown."""
    return _each(errors, confidence, _lower)


def upper_count(errors: Floats, confidence: float = HEALTH_CONFIDENCE) -> Floats:
    """The largest expected count that is compatible with so many errors: 3.00, 4.74, 6.30, ... at 95 %."""
    return _each(errors, confidence, _upper)


def lower(errors: Floats, bits: Floats) -> Floats:
    """Lower bound of the bit error ratio; NaN where no bits were seen."""
    return _ratio(lower_count(errors), bits)


def upper(errors: Floats, bits: Floats, confidence: float = HEALTH_CONFIDENCE) -> Floats:
    """Upper bound of the bit error ratio; NaN where no bits were seen."""
    return _ratio(upper_count(errors, confidence), bits)


def needed_bits(errors: float, target: float) -> float:
    """Bits that must have passed before so few errors show a ratio of at most `target`."""
    return float(upper_count(np.array([errors]))[0]) / target


@dataclass(frozen=True, slots=True)
class Claim:
    """Health of a link as far as its bits show it: "healthy", "bad" or "not enough bits yet".

    bits, most  that passed at least and at most: they differ where the line rate is not known
    low, high   bounds of the ratio, by `most` and by `bits`
    """

    word: str
    errors: float
    bits: float
    most: float
    needed: float
    low: float
    high: float

    def __str__(self) -> str:
        seen = f"{self.errors:.0f} errors in {self.bits:.3g} bits"
        if self.word == "not enough bits yet":
            return f"not enough bits yet: {seen}, {self.needed:.3g} needed"
        return f"{self.word}: {seen}, bit error ratio {self.low:.2g} to {self.high:.2g}"


def claim(errors: float, bits: tuple[float, float], target: float, alarm: float) -> Claim:
    """Evaluate one link: bad above `alarm` for certain, healthy at `target` or below, else not enough bits yet.

    bits  that passed at least and at most
    """
    k, (least, most) = np.array([errors]), bits
    low, high = float(lower(k, np.array([most]))[0]), float(upper(k, np.array([least]))[0])
    word = "bad" if low > alarm else "healthy" if high <= target else "not enough bits yet"
    return Claim(word, errors, least, most, needed_bits(errors, target), low, high)


def _ratio(count: Floats, bits: Floats) -> Floats:
    return np.divide(count, bits, out=np.full(len(count), np.nan), where=bits > 0)


def _each(errors: Floats, confidence: float, solve: Callable[[Floats, float], Floats]) -> Floats:
    """Solve once per distinct count: a fleet has few."""
    known = np.isfinite(errors)
    out = np.full(len(errors), np.nan)
    counts = np.floor(np.maximum(errors[known], 0.0))
    most = counts.max(initial=0.0)
    if most < _DENSE:
        numbers = counts.astype(np.intp)
        seen = np.unique(numbers) if len(numbers) * _SORTED < most else np.flatnonzero(np.bincount(numbers))
        by_count = np.empty(int(most) + 1)
        if len(seen) <= _FEW:
            by_count[seen] = [_one(count, confidence, solve) for count in seen.tolist()]
        else:
            by_count[seen] = solve(seen.astype(np.float64), confidence)
        out[known] = by_count[numbers]
    else:
        distinct, back = np.unique(counts, return_inverse=True)
        out[known] = solve(distinct, confidence)[back]
    return out


@functools.lru_cache(maxsize=1024)
def _one(count: int, confidence: float, solve: Callable[[Floats, float], Floats]) -> float:
    """Remembered: a healthy node asks for the bounds of 0 errors at every tick."""
    return float(solve(np.array([float(count)]), confidence)[0])


def _start(shape: Floats, p: float) -> Floats:
    """Wilson and Hilferty: the cube root of a gamma variable is nearly normal; kept away from 0."""
    c = 1.0 / (9.0 * shape)
    cube = 1.0 - c + NormalDist().inv_cdf(p) * np.sqrt(c)
    small = np.exp((math.log(p) + _log_factorial(shape)) / shape)  # x**a / a! = p for small x
    return np.where(cube > 0.2, shape * np.maximum(cube, 0.2) ** 3, small)


def _lower(k: Floats, confidence: float) -> Floats:
    out = np.zeros(len(k))
    some = k > 0
    out[some] = _start(k[some], 1.0 - confidence)
    exact = some & (k <= _EXACT)
    if exact.any():
        shape = k[exact]
        out[exact] = _newton(out[exact], math.log(1.0 - confidence), lambda x: _log_at_least(shape, x))
    return out


def _upper(k: Floats, confidence: float) -> Floats:
    out = _start(k + 1.0, confidence)
    exact = k <= _EXACT
    if exact.any():
        shape = k[exact]
        out[exact] = _newton(out[exact], math.log(1.0 - confidence), lambda x: _log_at_most(shape, x))
    return out


def _newton(x: Floats, tail: float, log_tail: _LogTail) -> Floats:
    """Solve log tail(x) = tail in log x; `log_tail` gives the value and the slope against log x."""
    for _ in range(_STEPS):
        value, slope = log_tail(x)
        step = (tail - value) / slope
        x = x * np.exp(np.clip(step, -1.0, 1.0))
        if np.all(np.abs(step) < 1e-13):
            break
    return x


def log_tail(count: Floats, mean: Floats) -> Floats:
    """ln P(X >= count) of a Poisson X where count > mean > 0, 0 elsewhere. count >= 1."""
    found, above = np.zeros(len(count)), count > mean
    found[above] = np.minimum(_log_at_least(count[above], mean[above])[0], 0.0)
    return found


def _log_factorial(k: Floats) -> Floats:
    """ln k!; of large k by Stirling's series, which is exact to the last digit there."""
    large = np.maximum(k, 256.0)
    series = large * np.log(large) - large + 0.5 * np.log(2 * np.pi * large) + 1 / (12 * large) - 1 / (360 * large**3)
    return np.where(k < 256, _SMALL[np.minimum(k, 255).astype(np.intp)], series)


def _log_point(k: Floats, x: Floats) -> Floats:
    return k * np.log(x) - x - _log_factorial(k)


def _log_at_least(k: Floats, x: Floats) -> tuple[Floats, Floats]:
    """log P(X >= k | mean x) and its slope against log x; e^-x x^k/k! (1 + x/(k+1) + ...), k >= 1."""
    term, total = np.ones(len(k)), np.ones(len(k))
    for i in range(1, _TERMS):
        term = term * x / (k + i)
        total += term
        if np.all(term < 1e-17 * total):
            break
    # d/dx P(X >= k) = P(X = k - 1), and P(X = k - 1) = P(X = k) k / x
    return _log_point(k, x) + np.log(total), k / total


def _log_at_most(k: Floats, x: Floats) -> tuple[Floats, Floats]:
    """log P(X <= k | mean x) and its slope against log x; e^-x x^k/k! (1 + k/x + k(k-1)/x^2 + ...)."""
    term, total = np.ones(len(k)), np.ones(len(k))
    for i in range(int(k.max(initial=0.0))):
        term = term * np.maximum(k - i, 0.0) / x
        total += term
        if np.all(term < 1e-17 * total):
            break
    # d/dx P(X <= k) = -P(X = k)
    return _log_point(k, x) + np.log(total), -x / total
