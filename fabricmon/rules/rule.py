"""A rule: one literal. Pure; `RuleState` of the engine does the hysteresis."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from fabricmon.catalogue.kinds import WHERE, required
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.measures import MEASURES
from fabricmon.rules.promql import Translation
from fabricmon.units import Duration

if TYPE_CHECKING:
    from fabricmon.fleet.view import View


Share = Annotated[float, Meta(gt=0, le=1)]
Ratio = Annotated[float, Meta(gt=0, lt=1)]


class Scope(StrEnum):
    NODE = "node"  # needs one node's rows only: runs in the agent too
    FLEET = "fleet"  # needs the other nodes


@dataclass(slots=True)
class Outcome:
    """The result of a test for every row of its table (arrays of one length, in row order).

    fire      the raise condition holds now
    clear     the condition that ends the symptom holds now (a lower level than fire: hysteresis)
    known     there was evidence; rows not known keep the state they have
    value     the number that was compared, for evidence and sorting; NaN where unknown
    severity  rank (Severity.rank) per row, or None: the rule's own
    since     wall time of the first evidence per row, or None: the first tick that fired
    confirmed a second reading shows the same; None: all rows
    nearing   it is on the way to fire, so that it was not seen well; None: no row
    anew      what fires began at `since`, whatever was open before began elsewhere; None: no row
    working   not known, and what the symptom is about works: evidence against causes, nothing else; None: no row
    """

    fire: NDArray[np.bool_]
    clear: NDArray[np.bool_]
    known: NDArray[np.bool_]
    value: NDArray[np.float64]
    severity: NDArray[np.int8] | None = None
    since: NDArray[np.float64] | None = None
    confirmed: NDArray[np.bool_] | None = None
    nearing: NDArray[np.bool_] | None = None
    anew: NDArray[np.bool_] | None = None
    working: NDArray[np.bool_] | None = None


class RuleText(NamedTuple):
    """See `Rule`."""

    why: str
    action: str


class RuleParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a rule. Further limits and other defaults are in a struct of the rule.

    `hold`: time for which the raise condition must hold before the symptom opens. `clear`: time for which the clear
    condition must hold before it closes.
    """

    hold: Duration = Duration(0)
    clear: Duration = Duration(0)


def reading(
    text: str,
    formula: str = "",
    value: float | None = None,
    limit: float | None = None,
    for_it: bool = True,
    measure: str = "",
) -> Evidence:
    """A reading of the row that the symptom is of; `Rule.readings` adds the row's component. Numbers of arrays become
    plain ones: an incident with another could be neither stored nor sent."""
    unit = MEASURES[measure].unit if measure else ""
    value, limit = (None if number is None else float(number) for number in (value, limit))
    return Evidence("", text, formula, value, limit, bool(for_it), unit, measure)


def never(view: View, params: RuleParams) -> Outcome:
    """The test of a rule whose condition is over incidents: no row shows it."""
    nothing = np.zeros(view.n, np.bool_)
    return Outcome(nothing, nothing, nothing, np.zeros(view.n))


@dataclass(frozen=True, slots=True)
class Rule:
    """One phenomenon.

    name       unique; also the key below `rules:` in the configuration
    kind       kind of incident it leads to; "": the rule's name
    table      the table whose rows it evaluates
    params     its limits, with defaults; the docstring explains each of them
    test       (view, params) -> Outcome; a pure function of the view, which carries `now`
    evidence   (view, row, params) -> readings, called for transitions only
    title      what is wrong, in a few words; "": the kind's title
    why        what is wrong and what it does to a job: at most two short sentences, for the engineer on call
    decision   how it is decided: limits, and what does not count; in docs/rules.md and the runbook only
    action     the next step
    by_layer   link layer (technology.link_layer) -> why and action of its ports, where those differ
    yields_to  rules whose symptom on the same component makes this one an effect without an incident
    promql     params -> the same condition for a rule evaluator
    info       (view, row, params) -> Symptom.info, labels of the incident
    slow       what it tests is read every ten seconds or more seldom, or over longer windows: it is tested once a
               second, and not each time that a link changes
    """

    name: str
    table: Kind
    severity: Severity
    scope: Scope
    params: type[RuleParams]
    test: Callable[[View, Any], Outcome]
    evidence: Callable[[View, int, Any], tuple[Evidence, ...]]
    why: str
    decision: str
    action: str
    promql: Callable[[Any], Translation]
    kind: str = ""
    title: str = ""
    by_layer: Mapping[str, RuleText] = field(default_factory=dict)
    yields_to: tuple[str, ...] = ()
    slow: bool = False
    info: Callable[[View, int, Any], dict[str, str]] = lambda _view, _row, _params: {}

    def __post_init__(self) -> None:
        kind = required(self.kind or self.name, f"rule {self.name!r}")
        if kind.symptom is None and kind.notice is None:
            raise ValueError(f"rule {self.name!r}: kind {kind.name!r} needs a symptom type or a notice in {WHERE}")
        object.__setattr__(self, "kind", kind.name)
        object.__setattr__(self, "title", self.title or kind.title)

    def text_of(self, layers: Collection[str]) -> RuleText:
        """Why and action of something on ports of these link layers; the general ones where they are several."""
        general = RuleText(self.why, self.action)
        fitting = {self.by_layer.get(layer, general) for layer in layers}
        return fitting.pop() if len(fitting) == 1 else general

    def readings(self, view: View, row: int, params: Any) -> tuple[Evidence, ...]:
        """The evidence with the row's component and, behind each formula, the section that explains it."""
        component = str(view.table.ids[row])
        return tuple(
            replace(e, component=e.component or component, formula=self._cited(e.formula))
            for e in self.evidence(view, row, params)
        )

    def _cited(self, formula: str) -> str:
        return f"{formula} (docs/{self.method})" if formula and "docs/methods.md#" not in formula else formula

    @property
    def method(self) -> str:
        """The section on its method and the source of each default, below docs/: "methods.md#link-down"."""
        return f"methods.md#{self.name.replace('_', '-')}"
