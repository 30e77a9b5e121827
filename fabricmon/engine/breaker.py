"""The mass-alarm breaker: when a large part of the fabric alarms at once, one incident says so. Pure.

A fault of the fabric's core, of its subnet manager or of this centre itself can open hundreds of incidents within a
minute, and nobody reads hundreds of messages. While the breaker is open every incident is kept and shown as ever; the
plan tells only the breaker's own one, and what was told before (`notify/inhibit.py`). A resolution is never held back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.engine.case import Case
from fabricmon.model import Evidence, Incident, Members, Severity
from fabricmon.units import Duration

KIND = "mass_alarm"
OPENED = frozenset({"opened", "reopened"})
NAMED = 10  # fault domains that the mass alarm names


class MassAlarm(Struct, frozen=True, forbid_unknown_fields=True):
    """When many incidents are told as one.

    share   incidents of warning or higher that open within `window`, as a share of all nodes (0.05: design)
    least   and at least so many: a small fabric may fail as a whole without anyone drowning in messages (20: design)
    window  s (1 min: design)
    calm    how long less than half as many must open before the single incidents are told again (5 min: design)
    """

    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    least: Annotated[int, Meta(ge=2)] = 20
    window: Duration = Duration(60)
    calm: Duration = Duration(300)

    def limit(self, nodes: int) -> float:
        return max(float(self.least), self.share * nodes)


class Breaker:
    """Open or closed, and since when."""

    def __init__(self, fabric: str, settings: MassAlarm) -> None:
        self._component = f"network({fabric or 'fabric'})"
        self.settings = settings
        self._since: float | None = None
        self._busy_at = 0.0

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """A mass alarm from before a restart goes on until it is calm."""
        for incident in incidents:
            if incident.kind == KIND and incident.status == "firing":
                self._since, self._busy_at = incident.since, now

    def case(self, firing: Iterable[Incident], nodes: int, now: float) -> Case | None:
        """The mass alarm as it stands now, None while there is none.

        firing  all firing incidents, those included that opened at this tick
        """
        told = [i for i in firing if i.kind != KIND and i.severity is not Severity.INFO]
        window, limit = float(self.settings.window), self.settings.limit(nodes)
        if self._since is None and len(told) < limit:
            return None
        opened = {i.id: opened_at(i) for i in told}
        lately = sum(now - at <= window for at in opened.values())
        if lately >= (limit if self._since is None else limit / 2):
            self._since = now - window if self._since is None else self._since
            self._busy_at = now
        if self._since is None:
            return None
        if now - self._busy_at > float(self.settings.calm):
            self._since = None
            return None
        return self._told([i for i in told if opened[i.id] >= self._since], nodes, self._since)

    def _told(self, held: list[Incident], nodes: int, since: float) -> Case:
        kinds = Counter(i.kind for i in held)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        domains = sorted(i.component for i in held if i.kind == "fault_domain")
        window = float(self.settings.window)
        found = [Evidence(self._component, f"open now: {counts or 'none'}",
                          f"{self.settings.limit(nodes):.0f} or more opened within {window:g} s (detection-methods 5)",
                          float(len(held)), self.settings.limit(nodes))]  # fmt: skip
        if domains:
            more = f" and {len(domains) - NAMED} more" if len(domains) > NAMED else ""
            found.append(Evidence(self._component, f"fault domains among them: {', '.join(domains[:NAMED])}{more}"))
        return Case(
            family=KIND,
            identity=self._component,
            component=self._component,
            kind=KIND,
            severity=Severity.CRITICAL,
            confidence=1.0,
            title=f"Mass alarm: {len(held)} incidents opened at once ({counts})",
            why=(
                "So many parts of the fabric do not fail at the same time by chance: something that they share does, "
                "or this centre misjudges. The single incidents are on the page and are told when this is over."
            ),
            action=(
                "Look at what is common: core switches, subnet manager, power, a roll-out of firmware or "
                "configuration, this centre's own network. The page has the single incidents, fault domains first."
            ),
            evidence=tuple(found),
            members=Members(len(held), max(nodes, len(held))),
            claims=frozenset(),
            onset=since,
            labels={"from": f"{since:.3f}"},
        )


def opened_at(incident: Incident) -> float:
    """When its present episode opened."""
    return max((entry.at for entry in incident.history if entry.change in OPENED), default=incident.since)
