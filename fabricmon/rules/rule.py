"""What a rule is: one literal. Pure; the Judge owns hysteresis, freshness and minimum evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.fleet.view import View


class Scope(StrEnum):
    NODE = "node"  # needs one node's rows only: runs in the agent too
    FLEET = "fleet"  # needs the other nodes


@dataclass(slots=True)
class Outcome:
    """What a test says of every row of its table (arrays of one length, in row order).

    fire      the raise condition holds now
    clear     the condition that ends the symptom holds now (a lower level than fire: hysteresis)
    known     there was evidence; rows not known keep the state they have
    value     the number that was compared, for evidence and sorting; NaN where unknown
    severity  rank (Severity.rank) per row, or None: the rule's own
    since     wall time of the first evidence per row, or None: the first tick that fired
    confirmed a reading after the first one says the same, so that the time between them may count as held; None: all
    """

    fire: NDArray[np.bool_]
    clear: NDArray[np.bool_]
    known: NDArray[np.bool_]
    value: NDArray[np.float64]
    severity: NDArray[np.int8] | None = None
    since: NDArray[np.float64] | None = None
    confirmed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One phenomenon.

    name       unique; also the key below `rules:` in the configuration
    kind       the incident kind word it stands for (scenario catalogue)
    table      which table it judges
    params     msgspec Struct type with defaults; every default documents unit and source
    test       (view, params) -> Outcome; a pure function of the view, which carries `now`
    evidence   (view, row, params) -> readings for a person, called for transitions only
    hold       seconds the raise condition must hold before the symptom opens (params.hold overrides)
    clear      seconds the clear condition must hold before it closes (params.clear overrides)
    why        what the limit means and where it comes from
    action     what a person should do
    yields_to  rules whose symptom on the same component makes this one an effect, not told by itself
    promql     the same condition for a Prometheus-compatible ruler: params -> Translation, or one expression that knows
               no params; "" where it cannot be said
    info       (view, row, params) -> Symptom.info: what tells one sort of this symptom from another
    """

    name: str
    kind: str
    table: Kind
    severity: Severity
    scope: Scope
    params: type[Struct]
    test: Callable[[View, Any], Outcome]
    evidence: Callable[[View, int, Any], tuple[Evidence, ...]]
    hold: float
    clear: float
    title: str
    why: str
    action: str
    yields_to: tuple[str, ...] = ()
    promql: str | Callable[[Any], Translation] = ""
    info: Callable[[View, int, Any], dict[str, str]] = lambda _view, _row, _params: {}

    def translation(self, params: Any) -> Translation:
        """This rule with these params in PromQL."""
        if callable(self.promql):
            return self.promql(params)
        if not self.promql:
            return Translation(differs="needs more than the metrics of the nodes tell")
        return Translation((Alert(self.promql),), differs="its limits are the defaults, not those of the configuration")
