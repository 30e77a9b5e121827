"""Health of the agent and its node: the body of /health."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from fabricmon.agent.readings.state import Key
from fabricmon.agent.readings.status import SEARCH, DeviceStatus
from fabricmon.model import Checked, CheckedNode, Fault, Severity, Symptom, Unchecked

STATUSES = ("pass", "warn", "critical", "unknown")

MAX_NAMED = 4
"""Names in one sentence."""

MAX_FAULTS = 64
"""Faults of one collector in /health; `fault_count` counts all."""


class CollectorHealth(Struct, frozen=True):
    """One session of a collector. Times are wall seconds, durations seconds; None: none yet."""

    collector: str
    device: str
    success: bool | None
    error: str
    last_success: float | None
    duration: float | None
    stuck_since: float | None
    fault_count: int
    faults: tuple[Fault, ...]


class SymptomHealth(Struct, frozen=True):
    """A symptom with the rule's texts and its evidence."""

    rule: str
    severity: Severity
    kind: str
    component: str
    title: str
    since: float
    evidence: tuple[str, ...]
    why: str
    action: str


class Health(Struct, frozen=True):
    """The body of /health.

    status    pass | warn | critical | unknown; unknown: all or a part could not be checked, see `reason`
    checked   components by technology, those that could not be checked among them
    unread    some of the latter by name
    nothing   the node has no fabric hardware
    warnings  sentences about the agent
    """

    node: str
    version: str
    status: str
    reason: str
    started: float
    at: float
    checked: tuple[Checked, ...]
    unread: tuple[Unchecked, ...]
    nothing: bool
    collectors: tuple[CollectorHealth, ...]
    symptoms: tuple[SymptomHealth, ...]
    warnings: tuple[str, ...] = ()


def sentence(health: Health, rows: int, values: int) -> str:
    """One line for the service manager: rows read, status, warnings of the agent."""
    found = f", {len(health.symptoms)} symptom{'' if len(health.symptoms) == 1 else 's'}" if health.symptoms else ""
    reason = f" ({health.reason})" if health.reason else ""
    return "; ".join([f"{rows} rows, {values} values: {health.status}{found}{reason}", *health.warnings])


def collector_health(status: Mapping[Key, DeviceStatus]) -> tuple[CollectorHealth, ...]:
    many = {s.collector for s in status.values() if s.device != SEARCH}
    return tuple(
        CollectorHealth(
            s.collector, "" if s.device == SEARCH else s.device, s.success, s.error, _known(s.last_success),
            _known(s.duration), s.stuck_since, len(s.faults), s.faults[:MAX_FAULTS],
        )
        for s in sorted(status.values(), key=lambda s: (s.collector, s.device))
        # The search is listed only where it failed or there are no devices.
        if s.device != SEARCH or s.collector not in many or not s.success
    )


def failing(status: Mapping[Key, DeviceStatus]) -> str:
    """The devices that cannot be read, in one line; "" for none."""
    bad = sorted({(s.collector, "" if s.device == SEARCH else s.device) for s in status.values() if s.success is False})
    if not bad:
        return ""
    names = ", ".join(f"{device or 'devices'} ({collector})" for collector, device in bad[:MAX_NAMED])
    return f"cannot read {names}{f' and {len(bad) - MAX_NAMED} more' if len(bad) > MAX_NAMED else ''}"


NOTHING, NOTHING_EXPECTED = "nothing to check: no fabric hardware found", "nothing expected"


def verdict(symptoms: Sequence[Symptom], checked: CheckedNode, reason: str) -> tuple[str, str]:
    """Status and reason of a node. A known fault outranks an unknown part; an unknown part is never a pass.

    reason  why (a part of) the node cannot be evaluated, "" where all can
    """
    worst = max((s.severity.rank for s in symptoms), default=-1)
    if worst >= Severity.CRITICAL.rank:
        return "critical", ""
    if worst >= Severity.WARNING.rank:
        return "warn", ""
    if reason or checked.unknown:
        return "unknown", reason or unchecked_line(checked)
    if not checked.counts:
        return ("pass", NOTHING_EXPECTED) if checked.none_expected else ("unknown", NOTHING)
    return "pass", ""


def unchecked_line(checked: CheckedNode) -> str:
    """The components that could not be checked, in one line."""
    names = ", ".join(f"{one.component} ({one.why})" for one in checked.unread[:MAX_NAMED])
    more = checked.unknown - min(len(checked.unread), MAX_NAMED)
    return f"not checked: {names}{f' and {more} more' if more else ''}"


def symptom_health(
    symptoms: Sequence[Symptom], words: Callable[[Symptom], tuple[str, str, str]]
) -> tuple[SymptomHealth, ...]:
    """Worst first. `words`: title, why and action of a symptom."""
    ordered = sorted(symptoms, key=lambda s: (-s.severity.rank, s.component, s.rule))
    return tuple(
        SymptomHealth(s.rule, s.severity, s.kind, str(s.component), title, s.since, tuple(e.text for e in s.evidence),
                      why, action)
        for s in ordered for title, why, action in [words(s)]
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
