"""Anonymises a recording: counters, times and cables stay, names of the site are replaced.

It is read twice: once to learn every name, once to write it anew. Free text that may contain names is left out: kernel
messages, texts of incidents, comments. Decisions are kept as rules, components and numbers.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fabricmon.forms.glob import NamePatterns
from fabricmon.jobs.model import Jobs
from fabricmon.model import Incident, Inventory, Maintenance
from fabricmon.notify.matchers import Matcher
from fabricmon.recording.reading import Recording
from fabricmon.replay import records
from fabricmon.replay.names import PLAIN, Names
from fabricmon.replay.records import (
    ANONYMISED,
    REPEATED,
    NotifyPlan,
    PackedRecord,
    RecordedItem,
    RecordedPresence,
    RecordMark,
    Start,
    SymptomBrief,
    Tick,
)
from fabricmon.topology.graph import Graph

_PLACES = ("unit", "rack", "power", "block", "region", "zone", "chassis")


@dataclass(slots=True)
class AnonymisedCounts:
    """Counts of a written recording."""

    segments: int = 0
    records: int = 0
    names: int = 0


def anonymise(recording: Recording, directory: str | os.PathLike[str], key: bytes = b"") -> AnonymisedCounts:
    """Write the recording below `directory`, which must be empty or absent.

    `key` is random unless given, and not kept. ValueError for a directory with files in it; OSError, RecordingError.
    """
    to = Path(directory)
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(to.iterdir()):
        raise ValueError(f"{to}: not empty")
    names = Names(key or secrets.token_bytes(32))
    hosts: set[str] = set()
    for item in recording.items():
        _learn(names, hosts, item)
    counts = AnonymisedCounts(names=len(names))
    file: Any = None
    pieces: list[bytes] = []
    try:
        for item in recording.items():
            if item.mark is RecordMark.START:
                _flush(file, pieces)
                if file is not None:
                    file.close()
                start: Start = item.thing.start
                run = names.hidden(start.run, 8)
                path = to / f"{int(item.now * 1000):015d}-{run}-{start.index:06d}{records.SUFFIX}"
                file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
                file.write(records.header())
                counts.segments += 1
            changed = _changed(names, hosts, item)
            body = records.body(item.mark, changed)
            pieces.append(records.pack(PackedRecord(item.mark, item.now, names.text(item.node), body)))
            counts.records += 1
            if len(pieces) >= 1000:
                _flush(file, pieces)
        _flush(file, pieces)
    finally:
        if file is not None:
            file.close()
    return counts


def _flush(file: Any, pieces: list[bytes]) -> None:
    if pieces:
        file.write(records.block(pieces))
        pieces.clear()


# --------------------------------------------------------------------------------------------------------
# Names


def _learn(names: Names, hosts: set[str], item: RecordedItem) -> None:
    mark, _, node, thing = item
    mark = REPEATED.get(mark, mark)
    if node:
        names.learn(node, "node")
        hosts.add(node)
    if mark is RecordMark.START:
        names.learn(thing.start.fabric, "fabric")
    elif mark is RecordMark.GRAPH:
        _learn_graph(names, hosts, thing)
    elif mark is RecordMark.INVENTORY:
        for part in thing.parts:
            for component in part.components:
                _learn_labels(names, component.labels)
    elif mark is RecordMark.JOBS:
        for source in thing:
            for job in source.jobs:
                for value, sort in ((job.id, "job"), (job.name, "job"), (job.user, "user"), (job.queue, "queue")):
                    names.learn(value, sort)
                for host in job.nodes:
                    names.learn(host, "node")
    elif mark is RecordMark.PLAN:
        for receiver in thing.receivers:
            names.learn(receiver.name, "receiver")


def _learn_graph(names: Names, hosts: set[str], graph: Graph) -> None:
    for host, labels in graph.hosts.items():
        names.learn(host, "node")
        hosts.add(host)
        _learn_labels(names, labels)
    for adapter in graph.adapters.values():
        names.learn(adapter.host, "node")
        _learn_labels(names, adapter.labels)
    for switch in graph.switches.values():
        names.learn(switch.name, "switch")
        names.learn(switch.id, "switch")
        _learn_labels(names, switch.labels)


def _learn_labels(names: Names, labels: dict[str, str]) -> None:
    for label, value in labels.items():
        if label not in PLAIN and not label.startswith("port/"):
            names.learn(value, label if label in _PLACES else "name")


# --------------------------------------------------------------------------------------------------------
# Records


def _changed(names: Names, hosts: Iterable[str], item: RecordedItem) -> Any:
    mark, thing = REPEATED.get(item.mark, item.mark), item.thing
    if mark is RecordMark.START:
        start: Start = thing.start
        return replace(start, run=names.hidden(start.run, 8), fabric=names.text(start.fabric))
    if mark is RecordMark.GRAPH:
        return _graph(names, thing)
    if mark is RecordMark.INVENTORY:
        return _inventory(names, thing)
    if mark is RecordMark.EVENT:
        return replace(thing, text="", component=names.text(thing.component))
    if mark is RecordMark.PRESENCE:
        return RecordedPresence(thing.presence, names.harmless(thing.detail))
    if mark is RecordMark.RESTORE:
        return [_incident(names, incident) for incident in thing]
    if mark is RecordMark.INCIDENT:
        return _incident(names, thing)
    if mark is RecordMark.SYMPTOM:
        return SymptomBrief(thing.rule, names.text(thing.component), thing.opened, thing.since)
    if mark is RecordMark.TICK:
        return thing if thing.digest == records.NOTHING else Tick(ANONYMISED, thing.symptoms, thing.incidents)
    if mark is RecordMark.MAINTENANCE:
        return [_window(names, hosts, window) for window in thing]
    if mark is RecordMark.JOBS:
        return [_jobs(names, source) for source in thing]
    if mark is RecordMark.PLAN:
        receivers = tuple(
            replace(r, name=names.text(r.name), matchers=_matchers(names, r.matchers)) for r in thing.receivers
        )
        silences = tuple(
            replace(s, author="", comment="", matchers=_matchers(names, s.matchers)) for s in thing.silences
        )
        return NotifyPlan(receivers, silences)
    if mark is RecordMark.KNOWN_NODES:
        return [names.text(name) for name in thing]
    return thing


def _inventory(names: Names, inventory: Inventory) -> Inventory:
    identity = inventory.identity
    parts = tuple(
        replace(
            part,
            components=tuple(
                replace(c, name=names.text(c.name), labels=names.labels(c.labels)) for c in part.components
            ),
        )
        for part in inventory.parts
    )
    who = replace(
        identity,
        node=names.text(identity.node),
        boot_id=names.hidden(identity.boot_id, 32),
        agent=names.hidden(identity.agent, 32),
    )
    return replace(inventory, identity=who, parts=parts)


def _graph(names: Names, graph: Graph) -> Graph:
    text = names.text
    plain: dict[str, Any] = msgspec.to_builtins(graph)
    for switch in plain["switches"].values():
        switch["labels"] = names.labels(switch["labels"])
    for adapter in plain["adapters"].values():
        adapter["labels"], adapter["description"] = names.labels(adapter["labels"]), ""
        adapter["host"], adapter["id"] = text(adapter["host"]), text(adapter["id"])
    for switch in plain["switches"].values():
        switch["name"], switch["id"] = text(switch["name"]), text(switch["id"])
    for link in plain["cables"]:
        link["a"]["node"], link["b"]["node"] = text(link["a"]["node"]), text(link["b"]["node"])
        link["labels"] = names.labels(link["labels"])
    for name in ("switches", "adapters"):
        plain[name] = {text(id): value for id, value in plain[name].items()}
    plain["hosts"] = {text(host): names.labels(labels) for host, labels in plain["hosts"].items()}
    plain["aggregation"] = {text(a): text(b) for a, b in plain["aggregation"].items()}
    plain["attached"] = {text(host): [text(s) for s in switches] for host, switches in plain["attached"].items()}
    plain["trunks"] = [sorted((text(a), text(b))) for a, b in plain["trunks"]]
    plain["origins"] = [{**origin, "path": ""} for origin in plain["origins"]]
    plain["source"], plain["findings"] = "", []
    made: Graph = msgspec.convert(plain, Graph)
    ordered = tuple(replace(c, a=min(c.a, c.b), b=max(c.a, c.b)) for c in made.cables)
    return replace(made, cables=ordered)


def _incident(names: Names, incident: Incident) -> Incident:
    return replace(
        incident,
        id=names.hidden(incident.id, 16),
        component=names.text(incident.component),
        title=names.harmless(incident.title),
        why="",
        action="",
        evidence=(),
        labels=names.labels(incident.labels),
        candidates=tuple(map(names.text, incident.candidates)),
        parts=tuple(map(names.text, incident.parts)),
        history=tuple(replace(entry, reason="") for entry in incident.history),
        impact=None,
        ruled_out=(),
    )


def _window(names: Names, hosts: Iterable[str], window: Maintenance) -> Maintenance:
    """Replace names; patterns of hosts become the hosts that they match."""
    patterns = NamePatterns(window.hosts)
    covered = tuple(names.text(host) for host in sorted(hosts) if patterns.match(host))
    components = tuple(names.text(component) for component in window.components)
    return replace(window, hosts=covered, components=components, author="", comment="")


def _jobs(names: Names, source: Jobs) -> Jobs:
    jobs = tuple(
        replace(
            job,
            id=names.word(job.id),
            name=names.word(job.name),
            user=names.word(job.user),
            queue=names.word(job.queue),
            nodes=tuple(map(names.text, job.nodes)),
        )
        for job in source.jobs
    )
    return replace(source, source=names.harmless(source.source), jobs=jobs, error="")


def _matchers(names: Names, matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    return tuple(replace(m, value=names.text(m.value)) for m in matchers)
