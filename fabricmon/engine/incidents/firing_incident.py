"""A firing incident with its evidence over time, which the situation changes from step to step. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from fabricmon.catalogue.kinds import STOPPED, kind_of
from fabricmon.engine.incidents.incident_draft import IncidentDraft, sharper
from fabricmon.engine.incidents.peaks import Peaks
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import Incident


@dataclass(slots=True)
class FiringIncident:
    """A firing incident and its evidence.

    draft   the last one, None for a restored one without a confirmation
    claims  every symptom it explained in this episode, of components that exist; of a group without evidence, those
            that never recovered
    effects those of them that it made on the traffic of others, of a group also of its members: they do not keep it
            open without a draft
    shows   those of the kind of the incident
    lost    since when no draft supports it, None while one does
    calm    since when none of its claims is open, None while one is
    fewer   since when its draft lacks some of the members that it had or shows, None while it does not
    """

    incident: Incident
    peaks: Peaks
    draft: IncidentDraft | None
    claims: set[SymptomKey] = field(default_factory=set)
    effects: set[SymptomKey] = field(default_factory=set)
    shows: set[SymptomKey] = field(default_factory=set)
    lost: float | None = None
    calm: float | None = None
    fewer: float | None = None

    def without_evidence(self, now: float) -> bool:
        """A group without evidence for longer than it lingers."""
        lost, draft = self.lost, self.draft
        return draft is not None and draft.group and lost is not None and now - lost >= draft.linger

    def works_again(self, draft: IncidentDraft, still_open: Callable[[SymptomKey], bool]) -> bool:
        """Whether it carried no traffic, all that showed so ended, and its draft is of something that slows it only."""
        before, after = kind_of(self.incident.kind), kind_of(draft.kind)
        less = before.effect in STOPPED and after.effect not in STOPPED
        if not less or not self.shows or sharper(draft.family, before.name, after.name):
            return False
        return not any(still_open(key) for key in self.shows)

    def has_others(self, draft: IncidentDraft, still_open: Callable[[SymptomKey], bool]) -> bool:
        """Whether all that it had in this episode ended, and its draft is of other members, of which no receiver was
        notified. Not of a group that falls again and again, each time with others, nor of a part that is known by what
        happens to the traffic of others: that changes with the traffic."""
        before = {key.component for key in self.claims - self.effects}
        if draft.series or draft.notice or draft.of_traffic or not before.isdisjoint(draft.components):
            return False
        if {part.kind for part in before}.isdisjoint(part.kind for part in draft.components):
            return False  # a host, and then its ports
        return not any(still_open(key) for key in self.claims - self.effects)

    def steady(self, draft: IncidentDraft, now: float) -> IncidentDraft:
        """The draft; of a group that becomes smaller, with the members that it had, until it has been smaller for its
        calm time: its members are read at moments of their own, so a group comes back in many steps."""
        shown = self.incident
        self.fewer = None if draft.members.bad >= shown.members.bad else now if self.fewer is None else self.fewer
        if self.fewer is None or now - self.fewer >= draft.calm:
            self.fewer = None
            return draft
        return msgspec.structs.replace(
            draft, component=shown.component, members=shown.members, parts=shown.parts, title=shown.title
        )
