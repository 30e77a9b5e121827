"""What the agent says of itself and of its node: families for /metrics and the body of /health. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from fabricmon.agent.board import SEARCH, Status
from fabricmon.agent.state import Key
from fabricmon.model import Fault, Severity, Symptom
from fabricmon.runtime.exposition import Family

MAX_FAULTS = 64
"""Faults of one collector in /health; the number of all is beside them."""


class CollectorHealth(Struct, frozen=True):
    """One session of a collector. Times are wall seconds, durations seconds; None where there is none yet."""

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
    """A symptom as a person needs it: the rule's words beside the readings."""

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

    status   pass | warn | critical | unknown; unknown: nothing could be judged, and `reason` says why.
    judged   rows that were read lately enough to be judged
    warnings sentences about the agent itself
    """

    node: str
    version: str
    status: str
    reason: str
    started: float
    at: float
    judged: int
    collectors: tuple[CollectorHealth, ...]
    symptoms: tuple[SymptomHealth, ...]
    warnings: tuple[str, ...] = ()


def sentence(health: Health, rows: int, values: int) -> str:
    """One line for the service manager: what is read, what is wrong with it, what is wrong with the agent itself."""
    found = f", {len(health.symptoms)} symptom{'' if len(health.symptoms) == 1 else 's'}" if health.symptoms else ""
    reason = f" ({health.reason})" if health.reason else ""
    return "; ".join([f"{rows} rows, {values} values: {health.status}{found}{reason}", *health.warnings])


def families(status: Mapping[Key, Status], symptoms: Sequence[Symptom] | None) -> Iterable[Family]:
    """Metrics about collectors and judgement. `symptoms` None: this agent does not judge.

    Everything is told per collector. A device has series of its own from its first trouble on, so that a node of many
    healthy devices stays a small page.
    """
    collectors: dict[str, list[Status]] = {}
    for (collector, _), one in sorted(status.items()):
        collectors.setdefault(collector, []).append(one)
    sums = [({"collector": c}, ones) for c, ones in collectors.items()]
    # How old a search is says nothing of the values' age where sessions read those.
    reads = [(labels, [s for s in ones if s.device != SEARCH] or ones) for labels, ones in sums]
    troubled = [({"collector": s.collector, "device": s.device}, s) for _, ones in sums for s in ones
                if s.troubled and s.device not in ("", SEARCH)]

    yield Family("fabricmon_collector_success", "gauge",
                 "1 if the last run of the collector succeeded for each of its devices (it runs at its own pace)",
                 [(labels, float(all(s.success is not False for s in ones))) for labels, ones in sums
                  if any(s.success is not None for s in ones)])
    yield Family("fabricmon_collector_duration_seconds", "gauge",
                 "Duration of the last run that came back, of all devices together",
                 [(labels, round(_sum(s.duration for s in ones), 6)) for labels, ones in reads], "seconds")
    yield Family("fabricmon_collector_last_success_timestamp_seconds", "gauge",
                 "When the oldest of the values shown was read, seconds since the Unix epoch",
                 [(labels, round(_oldest(s.last_success for s in ones), 3)) for labels, ones in reads], "seconds")
    yield Family("fabricmon_collector_faults", "gauge", "Sources that the last runs could not read or understand",
                 [(labels, float(sum(len(s.faults) for s in ones))) for labels, ones in sums])
    yield Family("fabricmon_collector_device_success", "gauge",
                 "1 if the last run for this device succeeded; of devices that had trouble since the agent started",
                 [(labels, float(one.success is not False)) for labels, one in troubled])
    yield Family("fabricmon_collector_device_faults", "gauge",
                 "Sources of this device that its last run could not read or understand; of devices that had trouble "
                 "since the agent started",
                 [(labels, float(len(one.faults))) for labels, one in troubled])
    yield Family("fabricmon_collector_runs_total", "counter", "Runs, with or without success",
                 [(labels, float(sum(s.runs for s in ones))) for labels, ones in sums])
    yield Family("fabricmon_collector_skipped_runs_total", "counter",
                 "Runs that did not start because the one before was still waiting for the device",
                 [(labels, float(sum(s.skipped for s in ones))) for labels, ones in sums])
    yield Family("fabricmon_collector_stuck_devices", "gauge", "Devices of which a read does not return",
                 [(labels, float(sum(s.stuck_since is not None for s in ones))) for labels, ones in sums])
    yield Family("fabricmon_collector_hardware_queries", "gauge",
                 "Firmware commands of one cycle of the collector, by the catalogue's estimate",
                 [(labels, float(sum(s.queries for s in ones))) for labels, ones in sums])
    if symptoms is not None:
        yield Family("fabricmon_node_symptoms", "gauge", "Open symptoms of this node, as its own agent judges",
                     [({"severity": s.value}, float(sum(x.severity is s for x in symptoms))) for s in Severity])


def _sum(durations: Iterable[float]) -> float:
    """Of those that are known; NaN when none is."""
    known = [d for d in durations if d == d]
    return sum(known) if known else math.nan


def _oldest(times: Iterable[float]) -> float:
    """NaN when one of them never was: then there is no oldest one to tell."""
    known = list(times)
    return min(known) if all(t == t for t in known) else math.nan


def collector_health(status: Mapping[Key, Status]) -> tuple[CollectorHealth, ...]:
    many = {s.collector for s in status.values() if s.device != SEARCH}
    return tuple(
        CollectorHealth(
            s.collector, "" if s.device == SEARCH else s.device, s.success, s.error, _known(s.last_success),
            _known(s.duration), s.stuck_since, len(s.faults), s.faults[:MAX_FAULTS],
        )
        for s in sorted(status.values(), key=lambda s: (s.collector, s.device))
        # The search is worth a line only where it failed or is all there is.
        if s.device != SEARCH or s.collector not in many or not s.success
    )


def failing(status: Mapping[Key, Status]) -> str:
    """Which devices cannot be read at all, in one line; "" when none is."""
    bad = sorted({(s.collector, "" if s.device == SEARCH else s.device) for s in status.values() if s.success is False})
    if not bad:
        return ""
    names = ", ".join(f"{device or 'devices'} ({collector})" for collector, device in bad[:4])
    return f"cannot read {names}{f' and {len(bad) - 4} more' if len(bad) > 4 else ''}"


def verdict(symptoms: Sequence[Symptom], judged: int, reason: str) -> tuple[str, str]:
    """Status and reason of a node. A known fault outranks what is unknown; what is unknown is never a pass.

    reason  why (a part of) the node cannot be judged, "" where all can
    """
    worst = max((s.severity.rank for s in symptoms), default=-1)
    if worst >= Severity.CRITICAL.rank:
        return "critical", ""
    if worst >= Severity.WARNING.rank:
        return "warn", ""
    if reason or not judged:
        return "unknown", reason or "no port could be read"
    return "pass", ""


def symptom_health(symptoms: Sequence[Symptom], words: Mapping[str, tuple[str, str, str]]) -> tuple[SymptomHealth, ...]:
    """Worst first. `words`: rule -> title, why, action."""
    ordered = sorted(symptoms, key=lambda s: (-s.severity.rank, s.component, s.rule))
    return tuple(
        SymptomHealth(s.rule, s.severity, s.kind, str(s.component), *_title(words, s), s.since,
                      tuple(e.text for e in s.evidence), *words.get(s.rule, ("", "", ""))[1:])
        for s in ordered
    )


def _title(words: Mapping[str, tuple[str, str, str]], s: Symptom) -> tuple[str]:
    return (words.get(s.rule, (s.rule, "", ""))[0],)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
