"""The data of the page at one moment, and its headline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricmon.central.documents.overview import Overview
from fabricmon.central.page.places import Whereabouts, by_labels
from fabricmon.forms.readable import count
from fabricmon.model import Incident, Maintenance, NodeView, Severity
from fabricmon.notify.acknowledge import Acknowledgements
from fabricmon.notify.silence import Silence


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """One receiver: queued notifications and the last error, "" for none."""

    name: str
    waiting: int
    error: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The data of the page.

    taken     acknowledgements in force, by incident id
    warnings  problems of the server, one sentence each
    places    of incidents by id, where they are known better than by their labels
    """

    at: float
    overview: Overview
    nodes: Sequence[NodeView]
    incidents: Sequence[Incident]
    taken: Acknowledgements = field(default_factory=dict)
    silences: Sequence[Silence] = ()
    windows: Sequence[Maintenance] = ()
    receivers: Sequence[ReceiverState] = ()
    warnings: Sequence[str] = ()
    places: Mapping[str, Whereabouts] = field(default_factory=dict)

    def place(self, incident: Incident) -> Whereabouts:
        """Where an incident is."""
        return self.places.get(incident.id) or by_labels(incident)


def headline(scene: Scene) -> tuple[str, str]:
    """State and sentence. "good" only if every expected node is live and all of its components were checked: else
    part of the fabric is unknown."""
    o = scene.overview
    if not o.expected:
        return "unknown", "No agents yet"
    if not o.known:
        return "unknown", f"No data: 0 of {count(o.expected, 'node')} live"
    if o.worst in (Severity.CRITICAL, Severity.WARNING):
        counts = [count(o.firing[s], words) for s, words in _SEVERITY_WORDS if o.firing[s]]
        return o.worst.value, " · ".join(counts)
    if o.live < o.expected:
        return "partly", f"No open incidents; {count(o.expected - o.live, 'node')} not reporting"
    if o.gap:
        return "partly", f"No open incidents; {o.gap}"
    return "good", "OK"


_SEVERITY_WORDS = ((Severity.CRITICAL, "critical incident"), (Severity.WARNING, "warning"))


def receivers(deliveries: Mapping[str, tuple[int, str]]) -> list[ReceiverState]:
    """Receivers from name -> (waiting, error), those with errors first."""
    made = [ReceiverState(name, waiting, error) for name, (waiting, error) in deliveries.items()]
    return sorted(made, key=lambda r: (not r.error, r.name))
