"""The peak of an incident: its most bad members, and the worst of each reading. Pure.

While it fires, its evidence is what the readings are now, and one line states the peak. When it ends, title,
members and readings are those of the peak, and the first line states its duration: the last reading before the end is
nearly healthy and would describe another incident.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fabricmon.forms.times import clock_time, span
from fabricmon.model import Evidence, Incident, Members

READINGS = 64
"""Readings of one incident of which the worst is kept."""


class PeakMembers(NamedTuple):
    members: Members
    at: float  # wall time


class Peaks:
    """Of one incident in one episode. A restart keeps the members' (`episode.most_members`), not the readings'."""

    def __init__(self, members: PeakMembers) -> None:
        self.most = members
        self._worst: dict[tuple[str, str], tuple[Evidence, float]] = {}

    def note(self, members: Members, evidence: Iterable[Evidence], now: float) -> None:
        """Compare the present members and readings with the worst so far."""
        if members.bad > self.most.members.bad:
            self.most = PeakMembers(members, now)
        for reading in evidence:
            key = reading.component, reading.formula
            before = self._worst.get(key)
            if before is None and len(self._worst) >= READINGS:
                continue
            if before is None or _worse(reading, before[0]):
                self._worst[key] = reading, now

    def while_firing(self, incident: Incident) -> Incident:
        """The incident with a line about a peak that is past."""
        if incident.members.bad >= self.most.members.bad:
            return incident
        text = f"at most {_count(self.most.members)} at {clock_time(self.most.at)}; {_count(incident.members)} now"
        line = Evidence(incident.component, text, value=float(self.most.members.bad))
        return msgspec.structs.replace(incident, evidence=(*incident.evidence, line))

    def at_the_end(self, incident: Incident) -> Incident:
        """The resolved incident in the words of its peak, with its duration."""
        now, most = incident.members, self.most.members
        lasted = f"lasted {span((incident.resolved or incident.updated) - incident.since)}"
        if most.bad > 1:
            lasted += f"; at most {_count(most)} at {clock_time(self.most.at)}"
        return msgspec.structs.replace(
            incident,
            title=incident.title.replace(_count(now), _count(most)) if most.bad > now.bad else incident.title,
            members=most if most.bad > now.bad else now,
            evidence=(Evidence(incident.component, lasted), *map(self._at_its_worst, incident.evidence)),
        )

    def _at_its_worst(self, reading: Evidence) -> Evidence:
        worst, at = self._worst.get((reading.component, reading.formula), (reading, 0.0))
        if not _worse(worst, reading):
            return reading
        return msgspec.structs.replace(worst, text=f"{worst.text} (at its worst, {clock_time(at)})")


def _count(members: Members) -> str:
    return f"{members.bad} of {members.of}"


def _worse(reading: Evidence, than: Evidence) -> bool:
    """Whether a reading is further beyond its limit, on the side of the limit that the first bad one was on."""
    if reading.formula == "" or reading.value is None or than.value is None:
        return False
    if reading.for_it != than.for_it:
        return reading.for_it
    limit = reading.limit if reading.limit is not None else 0.0
    bad = reading if reading.for_it else than
    upwards = (bad.value or 0.0) >= limit
    return reading.value > than.value if upwards == bad.for_it else reading.value < than.value
