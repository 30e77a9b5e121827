"""repeat_offender: a part that breaks again and again. Its condition is over incidents, not rows."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of repeat_offender, which engine/offences.py decides.

    times       of the median rate of its like, above which a part is an offender (10: detection-methods 3.10)
    certainty   probability of that (0.95: the same)
    window      how far back incidents count (30 days: as long as the centre keeps them)
    apart       incidents of one part closer than this are one (1 h: design)
    hold        s; the certainty is the hold (0)
    clear       s; it ends with the certainty (0)
    """

    times: Annotated[float, Meta(gt=1)] = 10.0
    certainty: Annotated[float, Meta(gt=0.5, lt=1)] = 0.95
    window: Duration = Duration(30 * 86_400)
    apart: Duration = Duration(3600)
    hold: Duration = Duration(0)
    clear: Duration = Duration(0)


def test(view: View, params: Params) -> Outcome:
    """No reading of a node shows this."""
    nothing = np.zeros(view.n, np.bool_)
    return Outcome(nothing, nothing, nothing, np.zeros(view.n))


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    text = f"from {params.times:g} times the median rate of its like on, with a certainty of {params.certainty:g}"
    return (Evidence(str(view.table.ids[row]), text, "Gamma-Poisson (detection-methods 3.10)", for_it=False),)


RULE = Rule(
    name="repeat_offender",
    kind="repeat_offender",
    table=Kind.NODE,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=0.0,
    title="Repeat offender",
    why=(
        "This part had so many incidents of its own within the last weeks that its rate is, with a certainty of 95 %, "
        "more than ten times the median of its like. A few parts make most of the trouble of a cluster: in one public "
        "trace six of forty cable faults fell on one host of four hundred. Incidents that a larger cause explained, "
        "and those closer than an hour, do not count twice."
    ),
    action=(
        "Stop repairing the symptom: swap the whole path at once (module, cable, adapter), or take the host out of "
        "the pool and return it to the vendor. The evidence counts the incidents by kind and says since when."
    ),
)
