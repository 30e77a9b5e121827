"""mass_alarm: many incidents open at once. Its condition is over incidents, not rows."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import OF_INCIDENTS, not_expressible
from fabricmon.rules.rule import Rule, RuleParams, Scope, never, reading
from fabricmon.units import Duration


class MassAlarmParams(RuleParams, frozen=True):
    """Limits of mass_alarm (docs/methods.md#mass-alarm), evaluated by engine/incidents/surge.py.

    least   incidents of warning or higher that open within `window`, however large the fabric
    window  s
    hold    it opens in the tick in which it is true
    clear   time for which fewer than half as many must open before it takes no more members; those that it has stay
            until they end or a larger incident explains them
    """

    least: Annotated[int, Meta(ge=2)] = 20
    window: Duration = Duration(60)
    clear: Duration = Duration(300)


def evidence(view: View, row: int, params: MassAlarmParams) -> tuple[Evidence, ...]:
    text = f"limit: {params.least} incidents within {float(params.window):g} s"
    return (reading(text, "incidents that open", for_it=False),)


RULE = Rule(
    name="mass_alarm",
    table=Kind.NODE,
    severity=Severity.CRITICAL,
    scope=Scope.FLEET,
    params=MassAlarmParams,
    test=never,
    evidence=evidence,
    why=(
        "Many parts of the fabric report faults at the same time, so they share a cause, or the data of the central "
        "server is wrong. Jobs on all of these parts may be affected."
    ),
    decision=(
        "So many parts of the fabric do not fail at the same time by chance: they share a cause, or the central server "
        "itself is wrong. One incident counts them by kind and names the fault domains among them. The single "
        "incidents are kept and shown. They stay part of it until they end or a larger incident explains them; time "
        "alone releases none. Notifications of incidents that opened before or later, and of resolutions, are sent as "
        "usual."
    ),
    action=(
        "Check the common causes: core switches, power, a roll-out of firmware or configuration, the network of the "
        "central server, on InfiniBand the subnet manager. The page has the single incidents, fault domains first."
    ),
    promql=not_expressible(OF_INCIDENTS),
)
