"""The search of the page: words, a severity, a kind, a rail. Pure.

Words are separated by blanks; all must occur in the texts of an incident, ignoring case.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from fabricmon.model import Incident, NodeView, Severity

MAX_WORDS = 256  # characters
NAMES = ("q", "severity", "kind", "rail")


class Filter(Struct, frozen=True):
    """A search; "" matches everything."""

    q: str = ""
    severity: str = ""  # or higher
    kind: str = ""
    rail: str = ""

    @property
    def on(self) -> bool:
        return bool(self.q or self.severity or self.kind or self.rail)

    def incident(self, incident: Incident) -> bool:
        """Whether an incident matches."""
        if self.severity and incident.severity.rank < Severity(self.severity).rank:
            return False
        if self.kind and incident.kind != self.kind:
            return False
        if self.rail and incident.labels.get("rail", "") != self.rail:
            return False
        if not self.q:
            return True
        texts = (incident.id, incident.kind, incident.component, incident.title, *incident.parts, *incident.candidates)
        labels = (f"{name}={value}" for name, value in incident.labels.items())
        text = "\n".join((*texts, *labels)).lower()
        return all(word in text for word in self.q.lower().split())

    def node(self, node: NodeView) -> bool:
        """Whether a node matches; only the words apply to nodes."""
        text = f"{node.node}\n{node.presence.value}\n{node.detail}".lower()
        return all(word in text for word in self.q.lower().split())


def filter_of(query: Mapping[str, str]) -> Filter:
    """From the query of a request; an unknown severity or parameter is ignored."""
    words = {name: query.get(name, "").strip()[:MAX_WORDS] for name in NAMES}
    if words["severity"] not in {s.value for s in Severity}:
        words["severity"] = ""
    return Filter(**words)
