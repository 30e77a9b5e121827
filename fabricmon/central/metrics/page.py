"""Metrics of the server: incidents, nodes, streams, evaluation and delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fabricmon.catalogue.kinds import KINDS
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.jobs.feed import JobFeed
from fabricmon.central.metrics.fabric import MAX_GROUPS, conditions, utilisation
from fabricmon.central.streams.pull import Pull
from fabricmon.central.targets.discovery import TargetDiscovery
from fabricmon.model import Incident, Severity
from fabricmon.notify.matchers import nodes_of
from fabricmon.recording.tape import Tape
from fabricmon.runtime.clock import Clock
from fabricmon.runtime.exposition import Family

MAX_INCIDENTS = 500  # open incidents that get a series of their own, the severest first; all are counted


def _gauge(name: str, help: str, value: float, unit: str = "") -> Family:
    return Family(f"fabricmon_central_{name}", "gauge", help, [({}, float(value))], unit)


def _counter(name: str, help: str, value: float, unit: str = "") -> Family:
    return Family(f"fabricmon_central_{name}_total", "counter", help, [({}, float(value))], unit)


def _by(label: str, counts: Mapping[str, float]) -> Iterable[tuple[dict[str, str], float]]:
    return [({label: str(word)}, float(value)) for word, value in sorted(counts.items())]


_OF_INCIDENT: tuple[tuple[str, str, Callable[[Incident], float | None], str], ...] = (
    ("confidence_ratio", "Confidence in each open incident's cause", lambda i: i.confidence, "ratio"),
    ("start_timestamp_seconds", "When each open incident began, since the Unix epoch", lambda i: i.since, "seconds"),
    ("affected_members", "Bad members of each open incident's component: ports of a leaf, for example",
     lambda i: float(i.members.bad) if i.members.of else None, ""),
)  # fmt: skip


def incidents(evaluator: Evaluator) -> Iterator[Family]:
    firing = [i for i in evaluator.current().incidents if i.status == "firing"]
    # Every kind has its series with 0 before its first incident: `increase()` does not see one that begins at 1.
    counts = {(kind, severity): 0 for kind in KINDS for severity in Severity}
    for incident in firing:
        key = (incident.kind, incident.severity)
        counts[key] = counts.get(key, 0) + 1
    samples = [({"kind": k, "severity": s.value}, float(n)) for (k, s), n in sorted(counts.items())]
    yield Family("fabricmon_incidents", "gauge", "Open incidents", samples)
    firing.sort(key=lambda i: (-i.severity.rank, i.since, i.id))
    for name, help, value, unit in _OF_INCIDENT:
        samples = [(_labels(i), number) for i in firing[:MAX_INCIDENTS] if (number := value(i)) is not None]
        yield Family(f"fabricmon_incident_{name}", "gauge", f"{help}; the {MAX_INCIDENTS} severest", samples, unit)
    yield Family(
        "fabricmon_symptoms",
        "gauge",
        "Open symptoms by rule, before causes are found for them",
        _by("rule", {k: float(v) for k, v in evaluator.engine.open_by_rule().items()}),
    )


def _labels(incident: Incident) -> dict[str, str]:
    """Identity of an open incident's series; its place where it is in one node, device, leaf, rail, for links."""
    nodes = nodes_of(incident)
    return {
        "id": incident.id,
        "kind": incident.kind,
        "severity": incident.severity.value,
        "component": incident.component,
        "node": nodes[0] if nodes else "",
        **{name: incident.labels.get(name, "") for name in ("device", "leaf", "rail")},
    }


def nodes(evaluator: Evaluator) -> Iterator[Family]:
    _, o, _, _ = evaluator.current()
    counts = {presence.value: float(n) for presence, n in o.nodes.items()}
    yield Family("fabricmon_central_nodes", "gauge", "Nodes by presence of their agent", _by("presence", counts))
    yield _gauge("ports", "Ports of nodes that report", o.ports)
    yield _gauge("ports_silent", "Ports of nodes that do not report: unknown, not healthy", o.ports_silent)
    yield Family("fabricmon_central_checked_components", "gauge", "Components of live nodes that were checked",
                 _by("technology", o.checked))  # fmt: skip
    yield Family("fabricmon_central_unchecked_components", "gauge",
                 "Components of live nodes of which the state, or every error counter, was not read lately: unknown",
                 _by("technology", o.unchecked))  # fmt: skip
    yield _gauge("nodes_unchecked", "Live nodes with components that were not checked", o.nodes_unchecked)
    yield _gauge("nodes_nothing_to_check", "Live nodes without fabric hardware, which no setting expects",
                 o.nodes_nothing)  # fmt: skip
    yield _gauge("nodes_in_maintenance", "Nodes in a maintenance window", o.maintenance)


def fabric(evaluator: Evaluator) -> Iterator[Family]:
    now = evaluator.engine.utilisation()
    rails = now.rails()
    yield from utilisation(rails, now.tiers())
    yield from conditions(now.view)
    yield _gauge("rails_left_out", f"Rails beyond the first {MAX_GROUPS}, which have no series",
                 max(0, len(rails) - MAX_GROUPS))  # fmt: skip


def streams(pull: Pull) -> Iterator[Family]:
    yield _gauge("streams", "Streams to agents that are open", sum(p.open for p in pull.register.peers.values()))


def targets(pull: Pull, discovery: TargetDiscovery) -> Iterator[Family]:
    yield _gauge("targets", "Agents to follow, from all sources", len(pull.register.peers))
    yield _gauge("targets_refused", "Targets beyond central.pull.max_targets, not followed", discovery.refused)
    states = discovery.states.items()
    yield Family("fabricmon_central_targets_source_success", "gauge",
                 "Whether the source of targets could be read the last time (1) or keeps what it gave before (0)",
                 [({"source": name}, float(not s.error)) for name, s in states])  # fmt: skip
    yield Family("fabricmon_central_targets_source_targets", "gauge", "Targets a source gave last",
                 [({"source": name}, float(len(s.targets))) for name, s in states])  # fmt: skip


def jobs(feed: JobFeed, now: float) -> Iterator[Family]:
    states = sorted(feed.states.items())
    yield Family("fabricmon_central_jobs", "gauge", "Running jobs in the last answer of a source",
                 [({"source": name}, float(len(s.last.jobs))) for name, s in states])  # fmt: skip
    ages = [({"source": name}, now - s.last.as_of) for name, s in states if s.last.as_of is not None]
    yield Family("fabricmon_central_jobs_age_seconds", "gauge", "Age of that answer; none before the first one", ages,
                 "seconds")  # fmt: skip
    for name, help, values in (
        ("answers", "Answers of a source of jobs", [s.answers for _, s in states]),
        ("failures", "Times a source of jobs did not answer as it should", [s.failures for _, s in states]),
    ):
        samples = [({"source": source}, float(n)) for (source, _), n in zip(states, values, strict=True)]
        yield Family(f"fabricmon_central_jobs_{name}_total", "counter", help, samples)
    yield Family("fabricmon_central_jobs_odd", "gauge", "Jobs of that answer that could not be understood",
                 [({"source": name}, float(s.last.odd)) for name, s in states])  # fmt: skip


def evaluation(evaluator: Evaluator, clock: Clock) -> Iterator[Family]:
    ticks = evaluator.ticks
    yield _counter("ticks", "Evaluations of the whole fleet", ticks.count)
    yield _counter("tick_seconds", "Time spent in evaluations", ticks.seconds, "seconds")
    yield _gauge("tick_last_seconds", "Duration of the last tick", ticks.last, "seconds")
    yield _gauge("tick_longest_seconds", "Duration of the longest tick since the start", ticks.longest, "seconds")
    yield _gauge("tick_timestamp_seconds", "When the last tick was, since the Unix epoch", ticks.at, "seconds")
    yield _gauge("clock_offset_seconds", "Seconds by which the machine's clock is ahead of the server's clock",
                 clock.offset, "seconds")  # fmt: skip
    yield Family("fabricmon_central_engine", "gauge", "The engine's own counts, by name",
                 _by("name", evaluator.engine.counters()))  # fmt: skip


def delivery(evaluator: Evaluator) -> Iterator[Family]:
    now = evaluator.now()
    yield _gauge("store_success", "Whether the state directory can be written: 0 also while its disk hangs",
                 not evaluator.store_error)  # fmt: skip
    yield _counter(
        "store_unreadable", "Rows of the state that could not be read or written", evaluator.store.unreadable
    )
    yield _gauge("silences", "Active silences", len(evaluator.silences.active(now)))
    deliveries = sorted(evaluator.outbox.deliveries().items())
    for name, help, field in (
        ("sent", "Notifications a receiver accepted", "sent"),
        ("failed", "Notifications a receiver refused for good", "failed"),
        ("retried", "Attempts to deliver that failed and are repeated", "retried"),
        ("superseded", "Notifications that newer ones made needless before they were delivered", "superseded"),
        ("refreshed", "Successful repeats of the current state to a receiver", "refreshed"),
        ("refresh_failed", "Failed repeats of the current state to a receiver", "refresh_failed"),
    ):
        samples = [({"receiver": r}, float(getattr(d, field))) for r, d in deliveries]
        yield Family(f"fabricmon_notifications_{name}_total", "counter", help, samples)
    yield Family("fabricmon_outbox_notifications", "gauge", "Notifications not delivered yet",
                 [({"receiver": r}, float(d.depth)) for r, d in deliveries])  # fmt: skip
    yield Family("fabricmon_outbox_withheld_incidents", "gauge", "Incidents that wait for a free message or a digest",
                 [({"receiver": r}, float(len(evaluator.pacing.withheld(r)))) for r, _ in deliveries])  # fmt: skip
    yield Family("fabricmon_outbox_oldest_seconds", "gauge", "Age of the oldest notification not delivered yet",
                 [({"receiver": r}, max(0.0, now - d.oldest) if d.depth and d.oldest is not None else 0.0)
                  for r, d in deliveries], "seconds")  # fmt: skip


def recording(tape: Tape) -> Iterator[Family]:
    status = tape.status
    yield _gauge("record_success", "Whether the recording could be written the last time", not status.error)
    yield _counter("record_records", "Records written to the recording", status.records)
    yield _counter("record_lost", "Records that are not in the recording: the disk was full or too slow", tape.lost())
    yield _counter("record_bytes", "Bytes written to the recording", status.bytes, "bytes")
    yield _gauge("record_kept_bytes", "Size of all segments of recordings in the directory", status.kept, "bytes")
    yield _counter("record_removed", "Segments removed, oldest first, to keep below central.record.total",
                   status.removed)  # fmt: skip
