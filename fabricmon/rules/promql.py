"""A rule in PromQL: recordings, alerts, and the differences from the rule. Pure.

Expressions are over the /metrics of agents, scraped at least every 15 s: a range is never below 1m, four such
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
"""Joins two metrics of one port, and metrics of one node, that have further labels."""

UP = 'up{job=~"fabricmon.*"}'
"""Whether the last scrape of an agent succeeded; an export with a selector uses that instead."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A part of a condition that is costly or has a memory: `record:` and `expr:` of a rule file. Names are
    "fabricmon:<row>:<what>" and unique among all rules.

    every  seconds between two evaluations; 0: as often as the alerts
    """

    name: str
    expr: str
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition.

    expr      has a sample for each component of which it is true, with the labels of the component's metrics
    severity  None: the rule's own
    hold      seconds it must be true before it fires; None: the rule's (params.hold)
    keep      seconds it fires after it was last true; None: the rule's (params.clear)
    case      a word that distinguishes conditions of one severity; "" where there is one
    """

    expr: str
    severity: Severity | None = None
    hold: float | None = None
    keep: float | None = None
    case: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """A rule in PromQL.

    alerts   the condition; more than one where severities differ; () not expressible
    differs  the differences of the alerts from the rule, in a sentence; "" none
    """

    alerts: tuple[Alert, ...] = ()
    recordings: tuple[RecordingRule, ...] = ()
    differs: str = ""

    @property
    def word(self) -> str:
        """exact, near, or not expressible."""
        return ("near" if self.differs else "exact") if self.alerts else "not expressible"


OF_INCIDENTS = "needs the incidents of the server, which the metrics of the nodes do not have"


def not_expressible(why: str) -> Callable[[Any], Translation]:
    """A rule that is not expressible in PromQL, for this reason."""
    return lambda _params: Translation(differs=why)


def metric(column: str) -> str:
    """ "symbol_errors" -> "fabricmon_port_symbol_errors_total", with the labels of a column of a family.

    KeyError for a column that is not in the catalogue.
    """
    counter = CATALOGUE[column]
    labels = ",".join(f'{name}="{value}"' for name, value in counter.labels)
    return counter.metric + (f"{{{labels}}}" if labels else "")


def family(column: str) -> str:
    """The metric of all columns of a column's family, without their labels."""
    return CATALOGUE[column].metric


def pause_share(direction: str, window: str = "1m") -> str:
    """Share of the window in which a port sent ("tx") or received ("rx") PFC pause, on its worst priority."""
    return f"max without (priority) (rate({family(f'pfc_{direction}_pause_prio0')}[{window}]))"


def span(seconds: float) -> str:
    """A range or duration in PromQL: 90 -> "90s", 0.5 -> "500ms"."""
    return f"{seconds:.0f}s" if float(seconds).is_integer() else f"{max(1.0, seconds * 1000):.0f}ms"


def increase(column: str, seconds: float) -> str:
    """The rise of a counter in the last `seconds`, at least SHORTEST."""
    return f"increase({metric(column)}[{span(max(seconds, SHORTEST))}])"


def total(*values: str) -> str:
    """The sum of the known values of one component."""
    known = any_of(*values)
    return "(" + " + ".join(f"({value} or 0 * ({known}))" for value in values) + ")"


def greater(one: str, other: str) -> str:
    """The greater of two values of one component; the other where one of them is unknown."""
    return f"({one} >= {other} or {other} or {one})"


def there_before(column: str, seconds: float) -> str:
    """The component existed `seconds` ago: no boot or driver load since."""
    return f"({metric(column)} offset {span(seconds)})"


def lesser(one: str, other: str) -> str:
    """The lesser of two values of one component; unknown where one of them is."""
    return f"({one} <= {other} or {other} < {one})"


def any_of(*conditions: str) -> str:
    """True of a component where one of the conditions is."""
    return " or ".join(conditions)
