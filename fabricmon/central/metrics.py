"""The centre's own /metrics: what is wrong, who is silent, and whether judging and telling keep up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fabricmon import __version__
from fabricmon.central.centre import Centre
from fabricmon.central.clock import Clock
from fabricmon.central.jobs import JobFeed
from fabricmon.central.metrics_fabric import MAX_GROUPS, conditions, utilisation
from fabricmon.central.pull import Pull
from fabricmon.central.targets import Discovery
from fabricmon.model import Incident, Severity
from fabricmon.notify.matchers import nodes_of
from fabricmon.replay.tape import Tape
from fabricmon.rules import RULES
from fabricmon.runtime.exposition import EOF, Family, Format, render
from fabricmon.runtime.metrics import process_families
from fabricmon.runtime.reloads import Reloads
from fabricmon.runtime.reloads import families as reload_families

MAX_INCIDENTS = 500  # open incidents that get a series of their own, the severest first; all are counted

# The words of kinds that fabricmon has rules or causes for: their series are there with 0 before the first incident,
# for `increase()` and alerts do not see a series that is born at 1.
KINDS = sorted({rule.kind for rule in RULES} | {"fault_domain", "host_unreachable", "maintenance"})


def page(
    centre: Centre,
    pull: Pull,
    discovery: Discovery,
    clock: Clock,
    reloads: Reloads,
    format: Format,
    tape: Tape | None = None,
    feed: JobFeed | None = None,
    more: Iterable[Family] = (),
) -> bytes:
    """What a scraper gets, not compressed; `more` comes from elsewhere."""
    pieces = render(
        [
            *_incidents(centre),
            *_nodes(centre),
            *_fabric(centre),
            *_streams(pull),
            *_targets(pull, discovery),
            *(_jobs(feed, centre.now()) if feed is not None else ()),
            *_judging(centre, clock),
            *_telling(centre),
            *reload_families(reloads, "fabricmon_central"),
            *(_recording(tape) if tape is not None else ()),
            *more,
            *process_families(__version__, "central"),
        ],
        format,
    )
    if format is Format.OPENMETRICS:
        pieces.append(EOF)
    return "".join(pieces).encode()


def _gauge(name: str, help: str, value: float, unit: str = "") -> Family:
    return Family(f"fabricmon_central_{name}", "gauge", help, [({}, float(value))], unit)


def _counter(name: str, help: str, value: float, unit: str = "") -> Family:
    return Family(f"fabricmon_central_{name}_total", "counter", help, [({}, float(value))], unit)


def _by(label: str, counts: Mapping[str, float]) -> Iterable[tuple[dict[str, str], float]]:
    return [({label: str(word)}, float(value)) for word, value in sorted(counts.items())]


def _incidents(centre: Centre) -> Iterator[Family]:
    firing = [i for i in centre.look()[3] if i.status == "firing"]
    counts = {(kind, severity): 0 for kind in KINDS for severity in Severity}
    for incident in firing:
        key = (incident.kind, incident.severity)
        counts[key] = counts.get(key, 0) + 1
    samples = [({"kind": k, "severity": s.value}, float(n)) for (k, s), n in sorted(counts.items())]
    yield Family("fabricmon_incidents", "gauge", "Open incidents", samples)
    firing.sort(key=lambda i: (-i.severity.rank, i.since, i.id))
    yield Family(
        "fabricmon_incident_confidence_ratio",
        "gauge",
        f"Confidence in each open incident's cause; the {MAX_INCIDENTS} severest",
        [(_labels(i), i.confidence) for i in firing[:MAX_INCIDENTS]],
        "ratio",
    )
    yield Family(
        "fabricmon_incident_start_timestamp_seconds",
        "gauge",
        f"When each open incident began, since the Unix epoch; the {MAX_INCIDENTS} severest",
        [(_labels(i), i.since) for i in firing[:MAX_INCIDENTS]],
        "seconds",
    )
    yield Family(
        "fabricmon_incident_affected_members",
        "gauge",
        f"Bad members of each open incident's component: ports of a leaf, for example; the {MAX_INCIDENTS} severest",
        [(_labels(i), float(i.members.bad)) for i in firing[:MAX_INCIDENTS] if i.members.of],
    )
    yield Family(
        "fabricmon_symptoms",
        "gauge",
        "Open symptoms by rule, before causes are found for them",
        _by("rule", {k: float(v) for k, v in centre.engine.open_by_rule().items()}),
    )


def _labels(incident: Incident) -> dict[str, str]:
    """Identity of an open incident's series; `node` where it is about one node, for a link to it."""
    nodes = nodes_of(incident)
    return {
        "id": incident.id,
        "kind": incident.kind,
        "severity": incident.severity.value,
        "component": incident.component,
        "node": nodes[0] if nodes else "",
    }


def _nodes(centre: Centre) -> Iterator[Family]:
    _, o, _, _ = centre.look()
    counts = {presence.value: float(n) for presence, n in o.nodes.items()}
    yield Family("fabricmon_central_nodes", "gauge", "Nodes by presence of their agent", _by("presence", counts))
    yield _gauge("ports", "Ports of nodes whose frames arrive", o.ports)
    yield _gauge("ports_silent", "Ports of nodes whose frames do not arrive: unknown, not healthy", o.ports_silent)
    yield _gauge("nodes_in_maintenance", "Nodes in a maintenance window", o.maintenance)


def _fabric(centre: Centre) -> Iterator[Family]:
    now = centre.engine.utilisation()
    yield from utilisation(now)
    yield from conditions(now.view)
    yield _gauge("rails_left_out", f"Rails beyond the first {MAX_GROUPS}, which have no series",
                 max(0, len(now.rails()) - MAX_GROUPS))  # fmt: skip


def _streams(pull: Pull) -> Iterator[Family]:
    counts = pull.counts
    yield _gauge("streams", "Streams to agents that are open", sum(p.open for p in pull.register.peers.values()))
    yield _counter("frames", "Frames received from agents", counts.frames)
    yield _counter("frame_bytes", "Bytes of frames received from agents", counts.bytes, "bytes")
    yield _counter("events", "Kernel events received from agents", counts.events)
    yield _counter("inventories", "Inventories received from agents", counts.inventories)
    yield _counter("bad_messages", "Messages that were no valid part of a stream; each ended its stream",
                   counts.bad_messages)  # fmt: skip
    yield _counter("connects", "Streams opened", counts.connects)
    yield _counter("connect_failures", "Attempts to open a stream that failed", counts.failures)


def _targets(pull: Pull, discovery: Discovery) -> Iterator[Family]:
    yield _gauge("targets", "Agents to follow, from all sources", len(pull.register.peers))
    yield _gauge("targets_refused", "Targets beyond central.pull.max_targets, not followed", discovery.refused)
    states = discovery.states.items()
    yield Family("fabricmon_central_targets_source_success", "gauge",
                 "Whether the source of targets could be read the last time (1) or keeps what it gave before (0)",
                 [({"source": name}, float(not s.error)) for name, s in states])  # fmt: skip
    yield Family("fabricmon_central_targets_source_targets", "gauge", "Targets a source gave last",
                 [({"source": name}, float(len(s.targets))) for name, s in states])  # fmt: skip


def _jobs(feed: JobFeed, now: float) -> Iterator[Family]:
    states = sorted(feed.states.items())
    yield Family("fabricmon_central_jobs", "gauge", "Running jobs that a source told last",
                 [({"source": name}, float(len(s.said.jobs))) for name, s in states])  # fmt: skip
    ages = [({"source": name}, now - s.said.as_of) for name, s in states if s.said.as_of is not None]
    yield Family("fabricmon_central_jobs_age_seconds", "gauge", "Age of that answer; none before the first one", ages,
                 "seconds")  # fmt: skip
    for name, help, values in (
        ("answers", "Answers of a source of jobs", [s.answers for _, s in states]),
        ("failures", "Times a source of jobs did not answer as it should", [s.failures for _, s in states]),
    ):
        samples = [({"source": source}, float(n)) for (source, _), n in zip(states, values, strict=True)]
        yield Family(f"fabricmon_central_jobs_{name}_total", "counter", help, samples)
    yield Family("fabricmon_central_jobs_odd", "gauge", "Jobs of that answer that could not be understood",
                 [({"source": name}, float(s.said.odd)) for name, s in states])  # fmt: skip


def _judging(centre: Centre, clock: Clock) -> Iterator[Family]:
    ticks = centre.ticks
    yield _counter("ticks", "Times the whole fleet was judged", ticks.count)
    yield _counter("tick_seconds", "Time spent judging", ticks.seconds, "seconds")
    yield _gauge("tick_last_seconds", "Duration of the last tick", ticks.last, "seconds")
    yield _gauge("tick_longest_seconds", "Duration of the longest tick since the start", ticks.longest, "seconds")
    yield _gauge("tick_timestamp_seconds", "When the last tick was, since the Unix epoch", ticks.at, "seconds")
    yield _gauge("clock_offset_seconds", "How far the machine's clock is ahead of the time the centre judges by",
                 clock.offset, "seconds")  # fmt: skip
    yield Family("fabricmon_central_engine", "gauge", "The engine's own counts, by name",
                 _by("name", centre.engine.counters()))  # fmt: skip


def _telling(centre: Centre) -> Iterator[Family]:
    now = centre.now()
    yield _counter("commit_failures", "Commits to the state directory that failed and were tried again",
                   centre.ticks.commit_failures)  # fmt: skip
    yield _gauge("store_success", "Whether the last commit to the state directory succeeded",
                 not centre.store_error)  # fmt: skip
    yield _counter("store_unreadable", "Rows of the state that could not be read or written", centre.store.unreadable)
    yield _gauge("silences", "Active silences", len(centre.silences.active(now)))
    deliveries = sorted(centre.outbox.deliveries().items())
    for name, help, field in (
        ("sent", "Notifications a receiver accepted", "sent"),
        ("failed", "Notifications a receiver refused for good", "failed"),
        ("retried", "Attempts to deliver that failed and are repeated", "retried"),
        ("superseded", "Notifications that newer ones made needless before they were delivered", "superseded"),
        ("refreshed", "Times a receiver that keeps state was told what stands", "refreshed"),
        ("refresh_failed", "Times a receiver could not be told what stands", "refresh_failed"),
    ):
        samples = [({"receiver": r}, float(getattr(d, field))) for r, d in deliveries]
        yield Family(f"fabricmon_notifications_{name}_total", "counter", help, samples)
    yield Family("fabricmon_outbox_notifications", "gauge", "Notifications not delivered yet",
                 [({"receiver": r}, float(d.depth)) for r, d in deliveries])  # fmt: skip
    yield Family("fabricmon_outbox_oldest_seconds", "gauge", "Age of the oldest notification not delivered yet",
                 [({"receiver": r}, max(0.0, now - d.oldest) if d.depth and d.oldest is not None else 0.0)
                  for r, d in deliveries], "seconds")  # fmt: skip


def _recording(tape: Tape) -> Iterator[Family]:
    status = tape.status
    yield _gauge("record_success", "Whether the recording could be written the last time", not status.error)
    yield _counter("record_records", "Records written to the recording", status.records)
    yield _counter("record_lost", "Records that are not in the recording: the disk was full or too slow", tape.lost())
    yield _counter("record_bytes", "Bytes written to the recording", status.bytes, "bytes")
    yield _gauge("record_kept_bytes", "Size of all segments of recordings in the directory", status.kept, "bytes")
    yield _counter("record_removed", "Segments removed, oldest first, to keep below central.record.total",
                   status.removed)  # fmt: skip
