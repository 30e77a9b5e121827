"""The plan: who is to be told what now, by comparing what is with what each receiver was told. Pure.

It is a comparison of states and not a queue of changes, so it needs no change to pass by: after a restart, a
silence or a full outbox it finds what is still owed by looking. What it returns is accepted only once it was
committed with `Told` (the store does both in one transaction); until then the same call gives the same answer, with
the same keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Sequence
from typing import NamedTuple

from fabricmon.model import Face, Incident, Notification, Severity
from fabricmon.notify.acknowledge import Acknowledgement, Acknowledgements, opened, with_word
from fabricmon.notify.inhibit import DOMAINS, MASS_ALARM, inhibited_by
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, silenced_by
from fabricmon.notify.told import Told

MAX_TELLINGS = 2000  # incidents told in one call, all receivers together; what is left is found by the next call


NOBODY: Acknowledgements = {}


class Verdict(NamedTuple):
    """Whether one receiver is to be told of one incident now, and why or why not."""

    tell: bool
    reason: str


def decide(
    incidents: Iterable[Incident],
    told: Told,
    receivers: Sequence[Receiver],
    silences: Sequence[Silence],
    now: float,
    full: Container[str] = (),
    acknowledgements: Acknowledgements = NOBODY,
) -> list[Notification]:
    """The notifications that are due at wall time `now`, the most severe first, oldest first within a severity.

    incidents         all that fire, and every resolved one that a receiver may not yet know of (see `owed`)
    full              names of receivers whose outbox takes no more; they are told later what is true then
    acknowledgements  who has taken on what; those that cover an incident no more change nothing
    """
    everything = sorted(incidents, key=lambda i: (-i.severity.rank, i.since, i.id))
    domains = [i for i in everything if (i.kind in DOMAINS or i.kind == MASS_ALARM) and i.status == "firing"]
    left = MAX_TELLINGS
    notifications: list[Notification] = []
    for receiver in receivers:
        if receiver.name in full:
            continue
        groups: dict[str, list[Incident]] = {}
        gathering = _gathers(receiver, told, now)
        for incident in everything:
            ack = acknowledgements.get(incident.id)
            ack = ack if ack is not None and ack.covers(incident) else None
            verdict = judge(incident, told, receiver, silences, domains, now, ack)
            if verdict.tell and left and not (gathering and incident.severity is not Severity.CRITICAL):
                left -= 1
                groups.setdefault(verdict.reason, []).append(with_word(incident, ack))
        for reason, group in groups.items():
            for start in range(0, len(group), receiver.batch):
                batch = tuple(group[start : start + receiver.batch])
                notifications.append(_notification(receiver, batch, told, reason, now))
    return notifications


def judge(
    incident: Incident,
    told: Told,
    receiver: Receiver,
    silences: Sequence[Silence],
    domains: Collection[Incident],
    now: float,
    ack: Acknowledgement | None = None,
) -> Verdict:
    """What `decide` thinks of one incident and one receiver; `domains` are the incidents that may inhibit it, `ack`
    the acknowledgement that covers it."""
    last = told.get(receiver.name, incident.id)
    if incident.status != "firing":
        # Whatever a silence or a changed route says: who was told that it fires is told that it ended.
        if last is None or not last.firing:
            return Verdict(False, "resolved, and never told")
        if not receiver.send_resolved:
            return Verdict(False, "the receiver wants no resolutions")
        # What became part of a larger incident ends as itself; its label `absorbed_by` names the larger one.
        return Verdict(True, "absorbed" if incident.labels.get("absorbed_by") else "resolved")
    if not receiver.takes(incident):
        return Verdict(False, "not routed to this receiver")
    held = silenced_by(incident, silences, now)
    if held is not None:
        return Verdict(False, f"silenced by {held.id}")
    # A receiver that wants no resolutions is left at "firing": an episode that began after we told it is another one.
    if last is None or not last.firing or incident.since > last.at:
        larger = inhibited_by(incident, domains)
        if larger is not None:
            return Verdict(False, f"inhibited by {larger.id}")
        if receiver.after:
            if ack is not None:
                return Verdict(False, f"taken on by {ack.author}")
            if now - opened(incident) < receiver.after:
                return Verdict(False, f"told when nobody takes it on within {_hours(receiver.after)}")
            return Verdict(True, f"not taken on for {_hours(receiver.after)}")
        ended = any(s.ends <= now and s.ends > incident.since and s.covers(incident) for s in silences)
        return Verdict(True, "silence ended" if ended else "new incident")
    # The engine raises the revision with whatever a receiver should know, so one revision is news once only.
    if incident.revision > last.revision:
        if incident.severity.rank > last.rank:
            return Verdict(True, "severity rose")
        if (incident.kind, incident.component) not in {(f.kind, f.component) for f in last.faces}:
            return Verdict(True, "cause sharpened")
        if any(entry.change == "crash" and entry.at > last.at for entry in incident.history):
            return Verdict(True, "job crashes")
    if ack is not None:
        if receiver.acknowledged and ack.at > last.taken_on:
            return Verdict(True, "acknowledged")
        return Verdict(False, f"taken on by {ack.author}")
    if receiver.repeat and now - last.at >= receiver.repeat:
        return Verdict(True, f"repeat after {_hours(receiver.repeat)}")
    return Verdict(False, "told already")


def _gathers(receiver: Receiver, told: Told, now: float) -> bool:
    """Whether this receiver was told of something so recently that news wait for the next digest."""
    newest = told.newest(receiver.name)
    return bool(receiver.digest) and newest is not None and 0 <= now - newest < receiver.digest


def owed(told: Told, incidents: Iterable[Incident], receivers: Iterable[Receiver]) -> set[str]:
    """Incidents that a receiver believes to fire and that are not among `incidents`: look them up in the store and
    add them.

    An engine drops a resolved incident after a while; if a receiver's outbox was full for that long it still has to
    know.
    """
    known = {incident.id for incident in incidents}
    return told.firing({r.name for r in receivers if r.send_resolved}) - known


def _notification(receiver: Receiver, batch: tuple[Incident, ...], told: Told, reason: str, now: float) -> Notification:
    before: dict[str, tuple[Face, ...]] = {}
    digest = hashlib.sha256(f"{receiver.name}\0{now!r}\0{reason}".encode())
    for incident in batch:
        look = (incident.kind, incident.component, incident.severity)
        digest.update(f"\0{incident.id}\0{incident.status}\0{incident.revision}\0{'/'.join(look)}".encode())
        last = told.get(receiver.name, incident.id)
        if last is not None and last.firing and not (incident.status == "firing" and incident.since > last.at):
            before[incident.id] = last.faces
    return Notification(digest.hexdigest()[:32], receiver.name, batch, now, reason, before)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds / 60:g}m"
