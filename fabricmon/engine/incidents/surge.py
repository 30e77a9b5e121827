"""The mass alarm: one incident for more incidents at once than a known cause explains. Pure.

Its members are the incidents that opened while it grew. A member leaves when it ends, or when a larger incident takes
it over; never because time passed (docs/design/incidents-one-cause.md). `notify/inhibit.py` withholds the members of
receivers that were notified of it, and never what ended. Labels of its incident carry it over a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fabricmon.engine.incidents.incident_draft import FEW, PARTS, IncidentDraft
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Incident, Members, Severity
from fabricmon.rules.mass_alarm import RULE, MassAlarmParams

KIND = "mass_alarm"
NAMED = 10  # fault domains that the mass alarm names
CAUSES = 64  # causes that are remembered


class Surge:
    """No mass alarm, one that grows, or one that only shrinks."""

    def __init__(self, fabric: str) -> None:
        self._component = f"network({fabric or 'fabric'})"
        self._clear()

    def _clear(self) -> None:
        self._began: float | None = None
        self._grew_until: float | None = None
        self._busy_at = self._peak_at = 0.0
        self._peak = 0
        self._taken_over: Counter[str] = Counter()

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Continue a mass alarm of before a restart."""
        for incident in incidents:
            if incident.kind == KIND and incident.status == "firing":
                began, until = incident.labels.get("from", ""), incident.labels.get("until", "")
                self._began = float(began or incident.since)
                self._grew_until = float(until) if until else None
                self._busy_at = now
                self._peak, self._peak_at = incident.members.of, incident.since
                self._taken_over.update(dict.fromkeys(incident.labels.get("causes", "").split(), FEW + 1))

    def note(self, changed: Iterable[Incident]) -> None:
        """Count, for each larger incident, the members that it took over."""
        for incident in changed:
            larger = incident.labels.get("absorbed_by")
            if self._began is not None and incident.status != "firing" and larger and self._opened_in(incident):
                self._taken_over[larger] += 1

    def draft(self, firing: Iterable[Incident], params: MassAlarmParams, now: float) -> IncidentDraft | None:
        """The mass alarm now, None where there is none.

        firing  all firing incidents, with those that opened at this tick
        """
        counted = [i for i in firing if i.kind != KIND and i.severity is not Severity.INFO]
        # after a clock was set back, openings are later than now
        lately = sum(0 <= now - max(i.openings) <= float(params.window) for i in counted)
        if lately >= (params.least if self._began is None else params.least / 2):
            self._busy_at, self._grew_until = now, None
            self._began = now - float(params.window) if self._began is None else self._began
        if self._began is None:
            return None
        if self._grew_until is None and now - self._busy_at > float(params.clear):
            self._grew_until = now
        causes = self._causes()
        members = [i for i in counted if i.id not in causes and self._opened_in(i)]
        if not members or (causes and len(members) <= FEW):
            self._clear()
            return None
        if len(members) > self._peak:
            self._peak, self._peak_at = len(members), now
        return self._draft(members, causes, params, self._began)

    def _causes(self) -> list[str]:
        """Ids of the incidents that took over a group of members: they are found causes."""
        found = [id for id, count in self._taken_over.items() if count > FEW]
        return sorted(found)[:CAUSES]

    def _opened_in(self, incident: Incident) -> bool:
        return self._began is not None and opened_between(incident, self._began, self._grew_until)

    def _draft(
        self, members: list[Incident], causes: list[str], params: MassAlarmParams, began: float
    ) -> IncidentDraft:
        kinds = Counter(i.kind for i in members)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        left, peak = len(members), self._peak
        title = f"Mass alarm: {left} incidents opened at once ({counts})"
        if left < peak:
            title = f"Mass alarm: {left} of {peak} incidents that opened at once are left ({counts})"
        until = {} if self._grew_until is None else {"until": f"{self._grew_until:.3f}"}
        return IncidentDraft(
            family=KIND,
            identity=self._component,
            component=self._component,
            kind=KIND,
            severity=Severity.CRITICAL,
            title=title,
            why=RULE.why,
            action=RULE.action,
            evidence=self._evidence(members, counts, causes, params),
            members=Members(left, peak),
            onset=began,
            labels={"from": f"{began:.3f}"} | until | ({"causes": " ".join(causes)} if causes else {}),
            parts=tuple(dict.fromkeys(part for i in members for part in i.parts or (i.component,)))[:PARTS],
        )

    def _evidence(
        self, members: list[Incident], counts: str, causes: list[str], params: MassAlarmParams
    ) -> tuple[Evidence, ...]:
        left, limit = float(len(members)), float(params.least)
        formula = f"{limit:.0f} or more opened within {float(params.window):g} s (docs/methods.md#mass-alarm)"
        found = [
            Evidence(self._component, f"open now: {counts}", formula, left, limit, True, "incidents", RULE.name),
            Evidence(self._component, f"at most {self._peak} at once, at {clock_time(self._peak_at)}"),
        ]
        domains = sorted(i.component for i in members if i.kind == "fault_domain")
        if domains:
            more = f" and {len(domains) - NAMED} more" if len(domains) > NAMED else ""
            found.append(Evidence(self._component, f"fault domains among them: {', '.join(domains[:NAMED])}{more}"))
        if causes:
            text = f"{len(causes)} larger incidents took over {sum(self._taken_over[id] for id in causes)} of them"
            found.append(Evidence(self._component, text, for_it=False))
        return tuple(found)


def opened_between(incident: Incident, began: float, until: float | None) -> bool:
    """Whether an episode of the incident opened in this time. One that came back stays what it was before."""
    return any(began <= at and (until is None or at <= until) for at in incident.openings)
