"""link_degrading: the bit error ratio of a link rises steadily; a forecast of the next limit."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet import ber, link
from fabricmon.fleet.trend import BINS, SPAN, Z95
from fabricmon.fleet.view import View
from fabricmon.fleet.window import ERRORS
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.bit_error_limits import BitErrorParams, read_lately, targets
from fabricmon.rules.promql import not_expressible
from fabricmon.rules.rule import Outcome, Rule, Scope, reading
from fabricmon.units import Duration

Floats = NDArray[np.float64]
_HOUR = 3600.0


class LinkDegradingParams(BitErrorParams, frozen=True):
    """Limits of link_degrading (docs/methods.md#link-degrading).

    warning      times the target; the first limit of the forecast
    critical     times the target; the limit of the forecast beyond the first one
    horizon      s; a crossing within this time raises it
    sigmas       standard errors by which the slope must be above 0 (one in 1,000: a fleet has 100,000)
    hold         the fit covers hours already
    clear        time for which the ratio must not rise (one bin of the fit)
    """

    horizon: Duration = Duration(86_400)
    sigmas: Annotated[float, Meta(gt=0)] = 3.3
    clear: Duration = Duration(1800)


def forecast(view: View, rows: NDArray[np.intp], params: LinkDegradingParams) -> tuple[Floats, Floats]:
    """log10 of the next limit of each row, and seconds until the fitted line crosses it; 0: crossed."""
    trend = view.tracks.errors.trend
    target = np.log10(targets(view, rows, params))
    level, slope = trend.level[rows], trend.slope[rows]
    first, last = target + np.log10(params.warning), target + np.log10(params.critical)
    limit = np.where(level < first, first, last)
    with np.errstate(divide="ignore", invalid="ignore"):
        return limit, np.where(slope > 0, np.maximum(limit - level, 0.0) / slope * _HOUR, np.inf)


def test(view: View, params: LinkDegradingParams) -> Outcome:
    n, trend = view.n, view.tracks.errors.trend
    fire, value = np.zeros(n, np.bool_), np.zeros(n)
    rows = trend.fitted[trend.fitted < n]
    if len(rows):
        _, seconds = forecast(view, rows, params)
        fire[rows] = (trend.slope[rows] > params.sigmas * trend.error[rows]) & (seconds <= params.horizon)
        value[rows] = np.nan_to_num(trend.slope[rows])
    known = view.present & (view.tracks.link[:n] == link.UP) & read_lately(view)
    return Outcome(fire=fire, clear=~fire, known=known, value=value)


def evidence(view: View, row: int, params: LinkDegradingParams) -> tuple[Evidence, ...]:
    errors = view.tracks.errors
    trend, at = errors.trend, np.array([row])
    if not np.isfinite(trend.slope[row]):
        return (reading("no trend: too few errors in 6 h, or the errors ended", for_it=False),)
    limit, seconds = forecast(view, at, params)
    low, high = (float(trend.slope[row] + sign * Z95 * trend.error[row]) for sign in (-1, 1))
    when = "crossed now" if seconds[0] <= 0 else f"crosses {10 ** limit[0]:.2g} in {_words(float(seconds[0]))}"
    text = (
        f"degrading: bit error ratio {10 ** float(trend.level[row]):.2g} by the fit, "
        f"{10 ** float(trend.slope[row]):.2g} times as high every hour; {when}"
    )
    formula = (
        f"{trend.slope[row]:+.2f} decades an hour (95 %: {low:+.2f} to {high:+.2f}); "
        f"log-linear Poisson fit of {BINS} bins of {SPAN:g} s; slope > {params.sigmas:g} standard errors and a "
        f"crossing within {float(params.horizon) / _HOUR:g} h"
    )
    short = errors.short
    seen = ber.claim(short.at(ERRORS, row), short.bits_at(row), 10 ** float(limit[0]), 10 ** float(limit[0]))
    measured = f"measured: {seen.errors:,.0f} errors in {seen.bits:.2g} bits"
    if seen.bits > 0:
        measured += f", {seen.low:.2g} to {seen.high:.2g}"
    bounds = "exact bounds of a Poisson count over the bits (docs/methods.md#ber-bounds)"
    return (
        reading(text, formula, for_it=bool(trend.slope[row] > 0)),
        reading(measured, bounds, seen.low, measure="link_degrading.ber"),
    )


def _words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def info(view: View, row: int, params: LinkDegradingParams) -> dict[str, str]:
    limit, seconds = forecast(view, np.array([row]), params)
    if not np.isfinite(seconds[0]):
        return {}
    when = f"in {_words(float(seconds[0]))}" if seconds[0] > 0 else "now"
    return {"degrading": "true", "forecast": f"{10 ** limit[0]:.2g} {when}"}


RULE = Rule(
    name="link_degrading",
    kind="link_errors",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=LinkDegradingParams,
    test=test,
    evidence=evidence,
    info=info,
    title="Link degrading",
    why=(
        "Bit errors on this link are increasing and will reach the alarm limit within a day. Jobs are not affected "
        "yet."
    ),
    decision=(
        "The bit error ratio of this link rises steadily. Errors of the last six hours, in half-hour bins, follow a "
        "line in log10 whose slope is significantly above 0, and that line crosses the next limit of link_errors "
        "within a day. Bursts widen the interval, so one bad hour is no trend; fewer than 20 errors in six hours make "
        "no forecast. A module or cable that ages does this; congestion does not."
    ),
    action=(
        "Plan the repair before the limit is crossed: read the module's receive power, temperature and bias "
        "(`mlxlink -d DEVICE -m -c`, `ethtool -m IF`) at both ends, clean the connectors, then swap module and cable "
        "in that order. The forecast gives the time left; keep long jobs off this link."
    ),
    yields_to=("link_flapping", "link_down", "nic_fault"),
    promql=not_expressible(
        "each point of the line is the logarithm of a ratio over the bits of half an hour with an interval of its own, "
        "which a rule evaluator cannot keep"
    ),
    slow=True,
)
