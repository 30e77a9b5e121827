"""mass_alarm: so many incidents open at once that one incident says so. Its condition is over incidents, not rows."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of mass_alarm, which engine/breaker.py decides.

    share   incidents of warning or higher that open within `window`, as a share of all nodes (0.05: design)
    least   and at least so many: a small fabric may fail as a whole without anyone drowning in messages (20: design)
    window  s (1 min: design)
    hold    s; it is told in the tick in which it is true (0)
    clear   how long fewer than half as many must open before the single incidents are told again (5 min: design)
    """

    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    least: Annotated[int, Meta(ge=2)] = 20
    window: Duration = Duration(60)
    hold: Duration = Duration(0)
    clear: Duration = Duration(300)

    def limit(self, nodes: int) -> float:
        return max(float(self.least), self.share * nodes)


def test(view: View, params: Params) -> Outcome:
    """No node has this by itself."""
    nothing = np.zeros(view.n, np.bool_)
    return Outcome(nothing, nothing, nothing, np.zeros(view.n))


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    text = f"from {params.limit(int(view.present.sum())):.0f} incidents within {float(params.window):g} s on"
    return (Evidence(str(view.table.ids[row]), text, "share of all nodes (detection-methods 5)", for_it=False),)


RULE = Rule(
    name="mass_alarm",
    kind="mass_alarm",
    table=Kind.NODE,
    severity=Severity.CRITICAL,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=300.0,
    title="Mass alarm",
    why=(
        "So many parts of the fabric do not fail at the same time by chance: something that they share does, or this "
        "centre misjudges. One incident counts them by kind and names the fault domains among them. The single "
        "incidents are kept and shown, and those that still fire are told when it is over. What was told before goes "
        "on, and a resolution is never held back."
    ),
    action=(
        "Look at what is common: core switches, subnet manager, power, a roll-out of firmware or configuration, this "
        "centre's own network. The page has the single incidents, fault domains first."
    ),
)
