"""One cause as it stands now, in words: what the diagnosis hands to the situation. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from fabricmon.model import ComponentId, Evidence, Impact, Members, RuledOut, Severity


class Key(NamedTuple):
    """Names one open symptom."""

    rule: str
    component: ComponentId


# Family of an incident, by the word of its component: kinds of one family on one component are one incident whose kind
# may change to one that says more. Later words win; a kind never goes back within an episode.
SHARPER: Mapping[str, tuple[str, ...]] = {
    "link": ("link_degraded", "link_errors", "link_down", "link_flapping"),
    "host": ("link_down", "agent_silent", "host_unreachable"),
    "nic": ("straggler", "storage_path", "pcie_degraded", "nic_fault"),
    "gpu": ("pcie_degraded", "nvlink_degraded", "nvlink_down"),
}


def sharper(family: str, old: str, new: str) -> bool:
    """Whether `new` says more than `old`, or is another kind of a family without an order."""
    order = SHARPER.get(family, ())
    if old not in order or new not in order:
        return new != old
    return order.index(new) > order.index(old)


class Case(Struct, frozen=True):
    """What one incident should look like now.

    identity   component without what may become known later (a link's far end); with `family` it makes the id
    claims     the open symptoms it explains
    group      a component of several links: it swallows the incidents of its members
    onset      wall time of the earliest symptom
    wait       seconds for which it may be held back while `unsettled`, from when it was first seen
    unsettled  why it is too early to tell, "" when it is not
    linger     seconds for which a group keeps its claims after the evidence no longer points at the group
    calm       seconds without an open symptom before it is resolved
    covered    id of the maintenance window that covers it, "" for none: it is not opened
    impact     jobs hit or at risk, None where that is not asked
    ruled_out  other causes that were thought of
    """

    family: str
    identity: str
    component: str
    kind: str
    severity: Severity
    confidence: float
    title: str
    why: str
    action: str
    evidence: tuple[Evidence, ...]
    members: Members
    claims: frozenset[Key]
    onset: float
    labels: dict[str, str] = {}
    candidates: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    group: bool = False
    wait: float = 0.0
    unsettled: str = ""
    linger: float = 0.0
    calm: float = 0.0
    covered: str = ""
    impact: Impact | None = None
    ruled_out: tuple[RuledOut, ...] = ()
