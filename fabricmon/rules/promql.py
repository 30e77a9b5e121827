"""How a rule is said in PromQL: recordings and alerts, and in words what PromQL cannot say of it. Pure.

Expressions are over what agents export on /metrics, scraped at least every 15 s: a range is never below 1m, four such
intervals (conventions of the Prometheus documentation). Series that vanish end a condition in PromQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Severity

SHORTEST = 60.0
"""Seconds of the shortest range: four scrapes of 15 s."""

ON_PORT = "on (job, instance, device, port)"
ON_NODE = "on (job, instance)"
"""What joins two metrics of one port, and metrics of one node, where they have further labels."""

UP = 'up{job=~"fabricmon.*"}'
"""Whether the last scrape of an agent succeeded; an export with a selector of its own puts that in its place."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A costly or remembering part of a condition, evaluated once for all alerts: `record:` and `expr:` of a rule
    file. Names are "fabricmon:<row>:<what>" and unique among all rules.

    every  seconds between two evaluations; 0: as often as the alerts
    """

    name: str
    expr: str
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition.

    expr      true of a component where it has a sample; its labels are those of the component's metrics
    severity  None: the rule's own
    hold      seconds it must be true before it fires; None: the rule's (params.hold)
    keep      seconds it goes on firing after it was true last; None: the rule's (params.clear)
    case      tells conditions of one severity apart, a word; "" where there is one
    """

    expr: str
    severity: Severity | None = None
    hold: float | None = None
    keep: float | None = None
    case: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """A rule in PromQL.

    alerts   the condition; more than one where severities differ; () where it cannot be said
    differs  what the ruler decides otherwise than the rule, and why, in a sentence; "" where it is the same
    """

    alerts: tuple[Alert, ...] = ()
    recordings: tuple[Recording, ...] = ()
    differs: str = ""

    @property
    def word(self) -> str:
        """exact, near, or not expressible."""
        return ("near" if self.differs else "exact") if self.alerts else "not expressible"


def unsaid(why: str) -> Callable[[Any], Translation]:
    """A rule that PromQL cannot say, for this reason."""
    return lambda _params: Translation(differs=why)


def metric(column: str) -> str:
    """ "symbol_errors" -> "fabricmon_port_symbol_errors_total", with the labels of a column of a family.

    KeyError for a column that is not in the catalogue.
    """
    counter = CATALOGUE[column]
    labels = ",".join(f'{name}="{value}"' for name, value in counter.labels)
    return counter.metric + (f"{{{labels}}}" if labels else "")


def top(column: str) -> str:
    """The value at which a saturating counter says "at least", as PromQL writes it."""
    return f"{CATALOGUE[column].top:.0f}"


def span(seconds: float) -> str:
    """A range or duration as PromQL writes it: 90 -> "90s", 0.5 -> "500ms"."""
    return f"{seconds:.0f}s" if float(seconds).is_integer() else f"{max(1.0, seconds * 1000):.0f}ms"


def increase(column: str, seconds: float) -> str:
    """The rise of a counter in the last `seconds`, at least SHORTEST."""
    return f"increase({metric(column)}[{span(max(seconds, SHORTEST))}])"


def total(*values: str) -> str:
    """The sum of those of the values of one component that are known."""
    known = any_of(*values)
    return "(" + " + ".join(f"({value} or 0 * ({known}))" for value in values) + ")"


def greater(one: str, other: str) -> str:
    """The greater of two values of one component; the other where one of them is unknown."""
    return f"({one} >= {other} or {other} or {one})"


def there_before(column: str, seconds: float) -> str:
    """The component was there `seconds` ago: not booting, no driver just loaded."""
    return f"({metric(column)} offset {span(seconds)})"


def lesser(one: str, other: str) -> str:
    """The lesser of two values of one component; unknown where one of them is."""
    return f"({one} <= {other} or {other} < {one})"


def any_of(*conditions: str) -> str:
    """A component that one of the conditions is true of."""
    return " or ".join(conditions)
