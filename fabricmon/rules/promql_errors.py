"""link_errors in PromQL: bounds of a Poisson count by the cube root of Wilson and Hilferty. Pure.

PromQL has no inverse of the chi-square distribution; chi2inv(1 - CL, 2k) / 2 is near k (1 - 1/9k - z/(3 sqrt k))^3
(E. B. Wilson, M. M. Hilferty 1931), below the exact bound for few errors, so that an alarm comes no sooner.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from fabricmon.fleet.ber import ALARM_CONFIDENCE
from fabricmon.fleet.errors import HARD, HARD_POLLS, SOURCES
from fabricmon.fleet.settings import TrackSettings
from fabricmon.model import Severity
from fabricmon.rules.bit_error_limits import BitErrorParams
from fabricmon.rules.promql import Alert, RecordingRule, Translation, any_of, greater, lesser, metric, span

HARD_PERIOD = 30.0
"""Seconds between two reads of the counters of hard errors (collect.infiniband_errors.interval)."""

ONSET = 120.0
"""Seconds of the onset test."""

SLOWLY = 300.0
"""Seconds between two evaluations of the long window."""

# names of the recordings: errors, errors capped by polls, lower bounds of the expected number of errors, and the number
# of a link at the target ratio
_ERRORS, _CAPPED, _RECENT = (f"fabricmon:port:errors_{what}" for what in ("short", "short_capped", "recent_capped"))
_LOW, _LOW_CAPPED = "fabricmon:port:errors_short_low", "fabricmon:port:errors_short_capped_low"
_OLD, _LOW_OLD = "fabricmon:port:errors_long_capped", "fabricmon:port:errors_long_capped_low"
_TARGET, _GOOD = "fabricmon:port:ber_target", "fabricmon:port:errors_short_good"


def translation(params: BitErrorParams, onset: float, hard_polls: int) -> Translation:
    """The rule with these limits; `onset` and `hard_polls` are those of link_errors."""
    settings = TrackSettings()
    short, long = 1.5 * settings.short, 1.5 * settings.long  # a window of the fleet covers one to two horizons
    good_long = f"{_TARGET} * 8 * {metric('rate')} * {long:g}"
    # a range that begins before the rate was known would count bits that did not pass
    known = f"(time() - min_over_time(timestamp({metric('rate')})[{span(short)}:1m]))"
    gain = math.log(settings.elevated / settings.background)
    loss = (settings.elevated - settings.background) * ONSET / settings.poll
    sudden = f"({gain:.4g} * {_RECENT} - {loss:.4g} >= {onset:g} and {_LOW} > {params.warning:g} * {_GOOD})"
    slow = f"({_LOW_OLD} > {params.warning:g} * {good_long} and {_ERRORS} > 0)"
    steady = f"{_LOW_CAPPED} > {params.warning:g} * {_GOOD}"
    far = f"{_LOW} > {params.critical:g} * {_GOOD}"
    hard = (span(HARD_POLLS * HARD_PERIOD), hard_polls)
    broken = (f"changes({metric(c)}[{hard[0]}]) - resets({metric(c)}[{hard[0]}]) >= {hard[1]}" for c in HARD)
    return Translation(
        alerts=(
            Alert(any_of(steady, slow, sudden), severity=Severity.WARNING),
            Alert(any_of(f"({any_of(steady, slow, sudden)}) and {far}", *broken), severity=Severity.CRITICAL),
        ),
        recordings=(
            RecordingRule(_TARGET, _target(params)),
            RecordingRule(_GOOD, f"{_TARGET} * 8 * {metric('rate')} * {known}"),
            RecordingRule(_ERRORS, _rise(short)),
            RecordingRule(_CAPPED, lesser(_ERRORS, f"{settings.cap:g} * {_polls(short)}")),
            RecordingRule(_LOW, _lower(_ERRORS)),
            RecordingRule(_LOW_CAPPED, _lower(_CAPPED)),
            RecordingRule(_RECENT, lesser(_rise(ONSET), f"{settings.cap:g} * {_polls(ONSET)}")),
            RecordingRule(_OLD, lesser(_rise(long), f"{settings.cap:g} * {_polls(long)}"), every=SLOWLY),
            RecordingRule(_LOW_OLD, _lower(_OLD), every=SLOWLY),
        ),
        differs=(
            "the bounds are approximate, too low where errors are few; bursts are capped by scrapes, not by polls; the "
            "onset test covers two minutes and knows no background of a port's class; errors of the first 30 s after a "
            "link came up count; it ends when the bound falls below the limit, not at proven health"
        ),
    )


def _target(params: BitErrorParams) -> str:
    """Target ratio by the speed of a lane; a link of unknown width counts as four lanes."""
    rate, width = metric("rate"), metric("width")
    lane = f"(8 * {rate} / ({width} > 0 or 0 * {rate} + 4))"
    bands = ((90e9, params.target_100g), (45e9, params.target_50g), (20e9, params.target_25g))
    known = [f"0 * ({lane} >= {least:g}) + {target:g}" for least, target in bands]
    return any_of(*known, f"0 * {lane} + {params.target_slow:g}")


def _of_first_group(function: str, seconds: float) -> str:
    """A function of the error counters over a range: the greatest of the first group that a port has."""
    groups = []
    for group in SOURCES:
        counts = [f"{function}({metric(c)}[{span(seconds)}])" for c in group]
        most = counts[0]
        for count in counts[1:]:
            most = greater(most, count)
        groups.append(most)
    return f"({any_of(*groups)})"


def _rise(seconds: float) -> str:
    return _of_first_group("increase", seconds)


def _polls(seconds: float) -> str:
    """Scrapes of the range with new errors."""
    return _of_first_group("changes", seconds)


def _lower(count: str) -> str:
    """Lower bound of the expected count, where it has at least one error."""
    z = NormalDist().inv_cdf(ALARM_CONFIDENCE)
    k = f"({count} > 0)"
    return f"{count} * clamp_min(1 - 1 / (9 * {k}) - {z / 3:.4g} / sqrt{k}, 0) ^ 3"
