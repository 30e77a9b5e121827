"""Everything the page shows at one moment, and what it says across the room. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricmon.central.overview import Overview
from fabricmon.central.words import count
from fabricmon.model import Incident, Maintenance, NodeView, Severity
from fabricmon.notify.acknowledge import Acknowledgements
from fabricmon.notify.silence import Silence


@dataclass(frozen=True, slots=True)
class Receiver:
    """How telling one receiver goes: notifications waiting and what is wrong, "" if nothing is."""

    name: str
    waiting: int
    error: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything the page shows.

    taken     acknowledgements that hold now, by incident id
    warnings  what is wrong with the centre itself, one sentence each
    """

    at: float
    overview: Overview
    nodes: Sequence[NodeView]
    incidents: Sequence[Incident]
    taken: Acknowledgements = field(default_factory=dict)
    silences: Sequence[Silence] = ()
    windows: Sequence[Maintenance] = ()
    receivers: Sequence[Receiver] = ()
    warnings: Sequence[str] = ()


def headline(scene: Scene) -> tuple[str, str]:
    """State word and sentence: what somebody across the room should take in.

    The state is "good" only if everything expected is seen: with silent nodes the fabric is not known to be well.
    """
    o = scene.overview
    if not o.expected:
        return "unknown", "No agents yet"
    if not o.known:
        return "unknown", f"Nothing seen: none of {count(o.expected, 'node')} is live"
    if o.worst in (Severity.CRITICAL, Severity.WARNING):
        counts = [count(o.firing[s], words) for s, words in _SEVERITY_WORDS if o.firing[s]]
        return o.worst.value, " · ".join(counts)
    if o.live < o.expected:
        return "partly", f"No open problem on what is seen; {count(o.expected - o.live, 'node')} not seen"
    return "good", "All well"


_SEVERITY_WORDS = ((Severity.CRITICAL, "critical incident"), (Severity.WARNING, "warning"))


def receivers(deliveries: Mapping[str, tuple[int, str]]) -> list[Receiver]:
    """Receivers from name -> (waiting, error), those in trouble first."""
    made = [Receiver(name, waiting, error) for name, (waiting, error) in deliveries.items()]
    return sorted(made, key=lambda r: (not r.error, r.name))
