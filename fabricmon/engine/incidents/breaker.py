"""The mass alarm: one incident when a large part of the fabric alarms at once. Pure.

It inhibits notifications of incidents that opened since (`notify/inhibit.py`), never those of resolutions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.model import Evidence, Incident, Members, Severity
from fabricmon.rules.mass_alarm import RULE, MassAlarmParams

KIND = "mass_alarm"
OPENED = frozenset({"opened", "reopened"})
NAMED = 10  # fault domains that the mass alarm names


class Breaker:
    """Open or closed, and since when."""

    def __init__(self, fabric: str) -> None:
        self._component = f"network({fabric or 'fabric'})"
        self._since: float | None = None
        self._busy_at = 0.0

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Continue a mass alarm of before a restart."""
        for incident in incidents:
            if incident.kind == KIND and incident.status == "firing":
                self._since, self._busy_at = incident.since, now

    def draft(
        self, firing: Iterable[Incident], nodes: int, params: MassAlarmParams, now: float
    ) -> IncidentDraft | None:
        """The mass alarm now, None while closed.

        firing  all firing incidents, with those that opened at this tick
        """
        counted = [i for i in firing if i.kind != KIND and i.severity is not Severity.INFO]
        window, limit = float(params.window), params.limit(nodes)
        if self._since is None and len(counted) < limit:
            return None
        opened = {i.id: opened_at(i) for i in counted}
        lately = sum(now - at <= window for at in opened.values())
        if lately >= (limit if self._since is None else limit / 2):
            self._since = now - window if self._since is None else self._since
            self._busy_at = now
        if self._since is None:
            return None
        if now - self._busy_at > float(params.clear):
            self._since = None
            return None
        return self._draft([i for i in counted if opened[i.id] >= self._since], nodes, params, self._since)

    def _draft(self, held: list[Incident], nodes: int, params: MassAlarmParams, since: float) -> IncidentDraft:
        kinds = Counter(i.kind for i in held)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        domains = sorted(i.component for i in held if i.kind == "fault_domain")
        limit = params.limit(nodes)
        formula = f"{limit:.0f} or more opened within {float(params.window):g} s (docs/methods.md#mass-alarm)"
        found = [Evidence(self._component, f"open now: {counts or 'none'}", formula, float(len(held)), limit)]
        if domains:
            more = f" and {len(domains) - NAMED} more" if len(domains) > NAMED else ""
            found.append(Evidence(self._component, f"fault domains among them: {', '.join(domains[:NAMED])}{more}"))
        return IncidentDraft(
            family=KIND,
            identity=self._component,
            component=self._component,
            kind=KIND,
            severity=Severity.CRITICAL,
            title=f"Mass alarm: {len(held)} incidents opened at once ({counts})",
            why=RULE.why,
            action=RULE.action,
            evidence=tuple(found),
            members=Members(len(held), max(nodes, len(held))),
            onset=since,
            labels={"from": f"{since:.3f}"},
        )


def opened_at(incident: Incident) -> float:
    """Time at which its present episode opened."""
    return max((entry.at for entry in incident.history if entry.change in OPENED), default=incident.since)
