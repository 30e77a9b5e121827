"""optic_degrading: a module's light or temperature drifts towards the module's own alarm limit, or is beyond it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet.trend import TEMPERATURE, Z95, ModuleTrend
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Floats = NDArray[np.float64]
_HOUR = 3600.0
_WORDS = ((ModuleTrend.LIGHT, "receive power", "dB above the module's low alarm"),
          (ModuleTrend.HEAT, "temperature", "degrees below the module's high alarm"))  # fmt: skip


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of optic_degrading. Alarm limits are the module's own (link-health 5): no fixed number is right for all.

    horizon      s; reaching the alarm limit within this time is told (24 h: detection-methods 3.4)
    sigmas       standard errors by which the margin must fall (4.5: one in 1,000 with the 11 degrees of freedom of 13
                 bins; a fleet has 100,000 modules)
    loss         dB the light must fall in six hours at least (0.5: design; steps of a module's own reading are 0.1)
    heat         degrees the module must get warmer in six hours than the others do (3: design)
    hold         how long a module must be beyond its limit (5 min: two reads)
    clear        how long the reading must not drift and be within the limit (30 min: one bin of the fit)
    """

    horizon: Duration = Duration(86_400)
    sigmas: Annotated[float, Meta(gt=0)] = 4.5
    loss: Annotated[float, Meta(ge=0)] = 0.5
    heat: Annotated[float, Meta(ge=0)] = 3.0
    hold: Duration = Duration(300)
    clear: Duration = Duration(1800)


def falling(view: View, params: Params) -> NDArray[np.bool_]:
    """bool[2, n]: the margin of light, of temperature falls steadily and is gone within the horizon."""
    n, trend = view.n, view.tracks.modules
    level, slope, error = trend.level[:, :n], trend.slope[:, :n], trend.error[:, :n]
    least = np.array([[params.loss], [params.heat]]) / 6.0
    with np.errstate(invalid="ignore"):
        sure = (-slope > params.sigmas * error) & (-slope >= least) & trend.steady[:, :n]
        return np.asarray(sure & (level <= -slope * float(params.horizon) / _HOUR))


def test(view: View, params: Params) -> Outcome:
    n, trend = view.n, view.tracks.modules
    fire, known = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    margin = trend.margin[:, :n]
    if view.table.lane(TEMPERATURE) is not None:
        with np.errstate(invalid="ignore"):
            fire = np.logical_or.reduce([*(margin <= 0), *falling(view, params)])
        known = view.present & view.fresh(TEMPERATURE) & (np.isfinite(margin[0]) | np.isfinite(margin[1]))
    value = np.fmin(margin[0], margin[1])
    return Outcome(fire=fire, clear=~fire, known=known, value=value)


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, trend = str(view.table.ids[row]), view.tracks.modules
    drifts = falling(view, params)
    found = []
    for which, word, unit in _WORDS:
        margin, slope = float(trend.margin[which, row]), float(trend.slope[which, row])
        if not np.isfinite(margin):
            continue
        text = f"{word}: {margin:.1f} {unit}"
        if np.isfinite(slope):
            error = Z95 * float(trend.error[which, row])
            text += f", {slope:+.2f} an hour (95 %: {slope - error:+.2f} to {slope + error:+.2f})"
        if drifts[which, row]:
            text += f"; the limit is reached in {_hours(view, which, row):.1f} h"
        formula = (
            f"margin <= 0, or a line through half-hour means that falls by {params.sigmas:g} standard errors in both "
            f"halves of 6 h and reaches 0 within {float(params.horizon) / _HOUR:g} h (detection-methods 3.4)"
        )
        found.append(Evidence(component, text, formula, margin, 0.0, bool(margin <= 0 or drifts[which, row])))
    return tuple(found) or (Evidence(component, "no reading of the module"),)


def _hours(view: View, which: int, row: int) -> float:
    trend = view.tracks.modules
    return max(0.0, float(trend.level[which, row]) / -float(trend.slope[which, row]))


def info(view: View, row: int, params: Params) -> dict[str, str]:
    drifts = falling(view, params)
    told = [f"{word} in {_hours(view, which, row):.1f} h" for which, word, _ in _WORDS if drifts[which, row]]
    return {"degrading": "true"} | ({"forecast": "alarm limit of " + ", ".join(told)} if told else {})


def promql(params: Params) -> Translation:
    hot = f"{metric('module_temperature')} >= ignoring (limit) ({metric('module_temperature_limit_high_alarm')} > 0)"
    faint = metric("module_rx_power_limit_low_alarm")
    light = metric("module_rx_power_lane0").partition("{")[0]
    dark = f"max without (lane) ({light} <= ignoring (lane, limit) group_left () ({faint} > 0))"
    return Translation(
        (Alert(f"{hot} or {dark}"),),
        differs=(
            "only what is beyond the module's own alarm limits now; a drift that will be there within a day needs the "
            "straight line through six hours and the other modules' mean, which a ruler cannot hold against noise"
        ),
    )


RULE = Rule(
    name="optic_degrading",
    kind="link_errors",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=300.0,
    clear=1800.0,
    title="Optical module degrading",
    why=(
        "The light that this module receives, or its temperature, is beyond the alarm limit that the module itself "
        "states, or drifts towards it so steadily that it will be there within a day. A line through half-hour means "
        "of six hours has to fall in both halves, so that a step, as when a job starts, is no trend; of the "
        "temperature only what this module gets warmer than the others counts. Errors follow when the margin is gone."
    ),
    action=(
        "Low light with a healthy transmit power at the far end: clean the connectors and look at the fibre. Low "
        "transmit power or bias at the far end: its module ages, swap that one. Hot: look at fans, dust and blanking "
        "plates of the host or switch. `mlxlink -d DEVICE -m`, `ethtool -m IF` show both."
    ),
    yields_to=("link_flapping", "link_down", "nic_fault"),
    promql=promql,
)
