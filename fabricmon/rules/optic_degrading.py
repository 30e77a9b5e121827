"""optic_degrading: Rx power or temperature of a module drifts towards its alarm limit, or is beyond it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.trend import TEMPERATURE, Z95, ModuleTrend
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, family, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

Floats = NDArray[np.float64]
_HOUR = 3600.0
_WORDS = (
    (ModuleTrend.LIGHT, "Rx power", "dB {side} the module's low alarm", "light", ("above", "below")),
    (ModuleTrend.HEAT, "temperature", "degrees {side} the module's high alarm", "heat", ("below", "above")),
)
"""Which, what, the margin, its measure, and on which side of the limit the reading is: with a margin, beyond it."""


class OpticDegradingParams(RuleParams, frozen=True):
    """Limits of optic_degrading (docs/methods.md#optic-degrading).

    Alarm limits are the module's own.

    horizon      s; reaching the alarm limit within this time raises it
    sigmas       standard errors by which the margin must fall (one in 1,000 with the 11 degrees of freedom of 13 bins;
                 a fleet has 100,000 modules)
    loss         least fall of the Rx power in six hours, dB (a module reads in steps of 0.1)
    heat         least rise of the temperature in six hours above that of the other modules, degrees
    hold         time for which a module must be beyond its limit (two reads)
    clear        time for which the reading must not drift and be within the limit (one bin of the fit)
    """

    horizon: Duration = Duration(86_400)
    sigmas: Annotated[float, Meta(gt=0)] = 4.5
    loss: Annotated[float, Meta(ge=0)] = 0.5
    heat: Annotated[float, Meta(ge=0)] = 3.0
    hold: Duration = Duration(300)
    clear: Duration = Duration(1800)


def falling(view: View, params: OpticDegradingParams) -> NDArray[np.bool_]:
    """bool[2, n]: the margin of Rx power, of temperature falls steadily and is 0 within the horizon."""
    n, trend = view.n, view.tracks.modules
    level, slope, error = trend.level[:, :n], trend.slope[:, :n], trend.error[:, :n]
    least = np.array([[params.loss], [params.heat]]) / 6.0
    sure = (-slope > params.sigmas * error) & (-slope >= least) & trend.steady[:, :n]
    return np.asarray(sure & (level <= -slope * float(params.horizon) / _HOUR))


def test(view: View, params: OpticDegradingParams) -> Outcome:
    n, trend = view.n, view.tracks.modules
    fire, known = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    margin = trend.margin[:, :n]
    if view.table.read_times(TEMPERATURE) is not None:
        fire = np.logical_or.reduce([*(margin <= 0), *falling(view, params)])
        known = view.present & view.fresh(TEMPERATURE) & (np.isfinite(margin[0]) | np.isfinite(margin[1]))
    value = np.fmin(margin[0], margin[1])
    return Outcome(fire=fire, clear=~fire, known=known, value=value)


def evidence(view: View, row: int, params: OpticDegradingParams) -> tuple[Evidence, ...]:
    trend = view.tracks.modules
    drifts = falling(view, params)
    found = []
    for which, word, unit, name, sides in _WORDS:
        margin, slope = float(trend.margin[which, row]), float(trend.slope[which, row])
        if not np.isfinite(margin):
            continue
        text = _margin(word, margin, unit, sides)
        if np.isfinite(slope):
            error = Z95 * float(trend.error[which, row])
            text += f", margin {slope:+.2f} an hour (95 %: {slope - error:+.2f} to {slope + error:+.2f})"
        if drifts[which, row]:
            text += f"; the limit is reached in {_hours(view, which, row):.1f} h"
        formula = (
            f"margin <= 0, or a line through half-hour means that falls by {params.sigmas:g} standard errors in both "
            f"halves of 6 h and reaches 0 within {float(params.horizon) / _HOUR:g} h"
        )
        bad = bool(margin <= 0 or drifts[which, row])
        found.append(reading(text, formula, margin, 0.0, bad, f"optic_degrading.{name}"))
    return tuple(found) or (reading("no reading of the module"),)


def _margin(word: str, margin: float, unit: str, sides: tuple[str, str]) -> str:
    return f"{word}: {abs(margin):.1f} {unit.format(side=sides[margin < 0])}"


def of_a_bad_link(view: View, row: int) -> tuple[Evidence, ...]:
    """What its module shows of a link with bit errors: how far the light is from the limit, and heat beyond it."""
    found = []
    for which, word, unit, _, sides in _WORDS:
        margin = float(view.tracks.modules.margin[which, row])
        if margin <= 0 or (which == ModuleTrend.LIGHT and np.isfinite(margin)):
            text = _margin(word, margin, unit, sides)
            found.append(reading(text, "the module's own alarm limit", for_it=margin <= 0))
    return tuple(found)


def _hours(view: View, which: int, row: int) -> float:
    trend = view.tracks.modules
    return max(0.0, float(trend.level[which, row]) / -float(trend.slope[which, row]))


def info(view: View, row: int, params: OpticDegradingParams) -> dict[str, str]:
    drifts = falling(view, params)
    near = [f"{word} in {_hours(view, which, row):.1f} h" for which, word, *_ in _WORDS if drifts[which, row]]
    return {"degrading": "true"} | ({"forecast": "alarm limit of " + ", ".join(near)} if near else {})


def promql(params: OpticDegradingParams) -> Translation:
    hot = f"{metric('module_temperature')} >= ignoring (limit) ({metric('module_temperature_limit_high_alarm')} > 0)"
    light, faint = family("module_rx_power_lane0"), metric("module_rx_power_limit_low_alarm")
    dark = f"max without (lane) ({light} <= ignoring (lane, limit) group_left () ({faint} > 0))"
    return Translation(
        (Alert(f"{hot} or {dark}"),),
        differs=(
            "only modules beyond their own alarm limits now; a drift needs the straight line through six hours and the "
            "other modules' mean, which a rule evaluator cannot form"
        ),
    )


RULE = Rule(
    name="optic_degrading",
    kind="link_errors",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=OpticDegradingParams,
    test=test,
    evidence=evidence,
    info=info,
    title="Optical module degrading",
    why=(
        "The optical module receives too little light or is too hot, or will be within a day. Bit errors follow, and "
        "jobs that use the link then slow down."
    ),
    decision=(
        "Rx power or temperature of this module is beyond the module's own alarm limit, or drifts so steadily that it "
        "reaches the limit within a day. A line through half-hour means of six hours has to fall in both halves, so "
        "that a step, as when a job starts, is no trend; of the temperature only the rise above the other modules "
        "counts. Errors follow when the margin is gone."
    ),
    action=(
        "Low Rx power with a healthy Tx power at the far end: clean the connectors and check the fibre. Low Tx power "
        "or bias at the far end: its module ages, swap that one. Hot: check fans, dust and blanking plates of the host "
        "or switch. `mlxlink -d DEVICE -m`, `ethtool -m IF` show both."
    ),
    yields_to=("link_flapping", "link_down", "nic_fault"),
    promql=promql,
    slow=True,
)
