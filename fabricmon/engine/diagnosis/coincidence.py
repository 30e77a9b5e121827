"""Whether so many beginnings at once can be chance: a scan statistic (docs/methods.md#unknown-common-cause). Pure."""

from __future__ import annotations

from math import exp, log

DAY = 86400.0
UNLIKELY = 1e-3
"""Chance in a day below which beginnings have a common cause (docs/methods.md#unknown-common-cause)."""

SMALLEST = 1e-6
"""Chance below which the model itself may be wrong: beginnings are only nearly Poisson. As the leak of a state that is
read (causes.py)."""


def chance(k: int, rate: float, within: float, span: float = DAY) -> float:
    """Upper bound of the chance that k or more of Poisson beginnings fall within some window anywhere in a span.

    Each beginning opens a window; k - 1 more must follow in it: the expected number of such windows.

    rate    beginnings a second
    within  length of the window, s; span: time that is searched, s
    """
    if k < 2:
        return 1.0
    return min(1.0, rate * span * poisson_tail(k - 1, rate * within))


def poisson_tail(k: int, mean: float) -> float:
    """Chance of k or more; sums the tail itself, so that small chances are exact."""
    if k <= 0:
        return 1.0
    if mean <= 0.0:
        return 0.0
    if mean > k:  # the head is the smaller sum
        term = total = exp(-mean)
        for i in range(1, k):
            term *= mean / i
            total += term
        return max(0.0, 1.0 - total)
    log_term = k * log(mean) - mean - sum(log(i) for i in range(2, k + 1))
    term = total = exp(log_term)
    i = k
    while term > total * 1e-16:
        i += 1
        term *= mean / i
        total += term
    return min(1.0, total)


class BeginningRate:
    """Rate of beginnings of one kind, with a Gamma prior; those of one moment count once, as they have one cause. Where
    what was seen proves a higher rate than the prior lets it be, it is that one (docs/methods.md#rate-of-beginnings).

    beginnings, exposure  of the prior; exposure in seconds (times what is exposed)
    apart                 seconds within which beginnings are of one moment
    """

    def __init__(self, beginnings: float, exposure: float, apart: float) -> None:
        self._beginnings, self._exposure, self._apart = beginnings, exposure, apart
        self._seen, self._exposed = 0, 0.0
        self._at: float | None = None
        self._newest = float("-inf")

    @property
    def mean(self) -> float:
        """Beginnings per unit of exposure."""
        return self._without(0)

    def before(self, onset: float) -> float:
        """`mean` without a beginning at this moment, if that was the newest: what began shows nothing of how often such
        begins by chance."""
        return self._without(int(self._newest > onset - self._apart))

    def learn(self, onsets: list[float], now: float, exposed: float = 1.0) -> None:
        """Take over the onsets known now; `exposed`: what was exposed since the last call."""
        if self._at is not None:
            self._exposed += exposed * min(max(0.0, now - self._at), LONGEST)
        self._at = now
        for onset in sorted(onsets):
            if onset > self._newest + self._apart:
                self._seen += 1
                self._newest = onset

    def _without(self, newest: int) -> float:
        seen = self._seen - newest
        mean = (self._beginnings + seen) / (self._exposure + self._exposed)
        return max(mean, least_mean(seen) / self._exposed) if self._exposed > 0.0 else mean


def least_mean(seen: int) -> float:
    """Mean of a Poisson number below which so many come by a chance of less than SMALLEST: Wilson and Hilferty's
    approximation of the quantile of a Gamma distribution, too low for few."""
    if seen < 1:
        return 0.0
    return float(seen * max(0.0, 1.0 - 1.0 / (9.0 * seen) - DEVIATIONS / (3.0 * seen**0.5)) ** 3)


DEVIATIONS = 4.7534  # of a normal distribution, beyond which SMALLEST of it lies
LONGEST = 120.0  # seconds between two calls that count as exposure: after a gap nothing was observed
