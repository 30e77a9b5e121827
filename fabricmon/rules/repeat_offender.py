"""repeat_offender: a part that fails repeatedly. Its condition is over incidents, not rows."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import OF_INCIDENTS, not_expressible
from fabricmon.rules.rule import Rule, RuleParams, Scope, never, reading
from fabricmon.units import Duration


class RepeatOffenderParams(RuleParams, frozen=True):
    """Limits of repeat_offender (docs/methods.md#repeat-offender), evaluated by engine/incidents/offences.py.

    times       multiple of the median rate of parts of its sort, above which a part is an offender
    certainty   least probability of that (0.95: the same)
    window      time for which incidents count (30 days: as long as the server keeps them)
    apart       incidents of one part closer than this are one
    hold        the probability is the hold
    clear       it ends with the probability
    """

    times: Annotated[float, Meta(gt=1)] = 10.0
    certainty: Annotated[float, Meta(gt=0.5, lt=1)] = 0.95
    window: Duration = Duration(30 * 86_400)
    apart: Duration = Duration(3600)


def evidence(view: View, row: int, params: RepeatOffenderParams) -> tuple[Evidence, ...]:
    text = f"limit: {params.times:g} times the median rate, with a probability of {params.certainty:g}"
    return (reading(text, "Gamma-Poisson", for_it=False),)


RULE = Rule(
    name="repeat_offender",
    table=Kind.NODE,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=RepeatOffenderParams,
    test=never,
    evidence=evidence,
    why=(
        "This part has had many more incidents in the last weeks than others of its kind. The repairs so far did not "
        "help, and its jobs will be interrupted again."
    ),
    decision=(
        "The rate of incidents of this part over the last weeks is, with a probability of 95 %, more than ten times "
        "the median of parts of its sort. A few parts cause most incidents of a cluster: in one public trace six of "
        "forty cable faults were on one host of four hundred. Incidents that a larger cause explained do not count, "
        "and those closer than an hour count once."
    ),
    action=(
        "Stop repairing the symptom: swap the whole path at once (module, cable, adapter), or take the host out of "
        "the pool and return it to the vendor. The evidence counts the incidents by kind and gives the time span."
    ),
    promql=not_expressible(OF_INCIDENTS),
)
