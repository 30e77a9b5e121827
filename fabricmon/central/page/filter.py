"""What somebody looks for on the page: words, a severity, a kind, a rail. Pure.

Words are parted by blanks and must all be found, without regard to case, in what an incident is about or says.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from fabricmon.model import Incident, NodeView, Severity

MAX_WORDS = 256  # characters
NAMES = ("q", "severity", "kind", "rail")


class Filter(Struct, frozen=True):
    """All "" : everything."""

    q: str = ""
    severity: str = ""  # that or worse
    kind: str = ""
    rail: str = ""

    @property
    def on(self) -> bool:
        return bool(self.q or self.severity or self.kind or self.rail)

    def incident(self, incident: Incident) -> bool:
        """Whether it is among what is looked for."""
        if self.severity and incident.severity.rank < Severity(self.severity).rank:
            return False
        if self.kind and incident.kind != self.kind:
            return False
        if self.rail and incident.labels.get("rail", "") != self.rail:
            return False
        if not self.q:
            return True
        said = (incident.id, incident.kind, incident.component, incident.title, *incident.parts, *incident.candidates)
        labels = (f"{name}={value}" for name, value in incident.labels.items())
        text = "\n".join((*said, *labels)).lower()
        return all(word in text for word in self.q.lower().split())

    def node(self, node: NodeView) -> bool:
        """Of nodes only words can be asked; whatever is asked of incidents alone leaves them as they are."""
        text = f"{node.node}\n{node.presence.value}\n{node.detail}".lower()
        return all(word in text for word in self.q.lower().split())


def filter_of(query: Mapping[str, str]) -> Filter:
    """From a request's query. A severity that is none, or another parameter, is passed over: it is a person's page."""
    words = {name: query.get(name, "").strip()[:MAX_WORDS] for name in NAMES}
    if words["severity"] not in {s.value for s in Severity}:
        words["severity"] = ""
    return Filter(**words)
