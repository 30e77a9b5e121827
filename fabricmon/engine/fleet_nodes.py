"""Nodes of one engine: what arrives about them between two ticks, and the list of them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from fabricmon.catalogue.xid import OFF_THE_BUS
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import CheckedNode, ComponentId, Event, Inventory, Kind, NodeView, Presence, Severity, Symptom

EVENTS = 64  # components of a node of which the newest kernel event is kept for the evidence
EVENT_TEXT = 1024  # characters that are kept of it, as many as agents send
EVENT_FIELDS = 16  # numbers that are kept of it


class FleetNodes:
    """Writes what arrives into the fleet, and keeps what the fleet has no place for.

    events  the newest kernel event of a component; counters count them
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.events: dict[ComponentId, Event] = {}
        self._kept: dict[str, dict[ComponentId, None]] = {}  # node -> its components in `events`, the oldest first
        self._since: dict[str, float] = {}  # node -> `now` at which its presence began

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        self._fleet.inventory(node, inventory, now)
        self._since.setdefault(node, now)

    def event(self, node: str, event: Event, now: float) -> None:
        component = ComponentId(event.of, node, event.component)
        if _off_the_bus(event):
            self._fleet.lose_gpu(component, now)
        kept = self._kept.setdefault(node, {})
        kept.pop(component, None)
        kept[component] = None
        self.events[component] = cut(event)
        if len(kept) > EVENTS:
            oldest = next(iter(kept))
            del kept[oldest], self.events[oldest]

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        known = self._fleet.nodes.get(node)
        if known is None or known.presence is not presence:
            self._since[node] = now
        self._fleet.presence(node, presence, detail, now)

    def forget(self, node: str) -> None:
        self._fleet.forget(node)
        self._since.pop(node, None)
        for component in self._kept.pop(node, {}):
            del self.events[component]

    def views(
        self, symptoms: Iterable[Symptom], maintained: Mapping[str, str], checked: Mapping[str, CheckedNode]
    ) -> list[NodeView]:
        """Every known node, by name. `maintained`: node -> id of the maintenance window that covers it now; `checked`:
        which of its components were checked."""
        open_at = Counter(symptom.component.node for symptom in symptoms)
        views: list[NodeView] = []
        for name in sorted(self._fleet.nodes):
            node = self._fleet.nodes[name]
            identity = node.inventory.identity if node.inventory else None
            last = self._fleet.last_frame(name)
            reported = not math.isnan(last)
            views.append(
                NodeView(
                    node=name,
                    presence=node.presence,
                    detail=node.detail,
                    since=self._since.get(name, node.first_seen),
                    last_frame=last if reported else None,
                    version=identity.version if identity else "",
                    boot_id=identity.boot_id if identity else "",
                    ports=len(node.rows.get(Kind.PORT, ())),
                    gpus=len(node.rows.get(Kind.GPU, ())),
                    symptoms=open_at[name],
                    maintenance=maintained.get(name, ""),
                    checked=checked[name] if reported else None,
                )
            )
        return views


def _off_the_bus(event: Event) -> bool:
    """Whether a GPU's driver reports that it fell off the bus: not what the kernel logged before the agent started,
    and no consequence of another fault, which are information."""
    severity = event.fields.get("severity", float(Severity.CRITICAL.rank))
    known = event.of is Kind.GPU and event.kind == "xid" and event.fields.get("xid") in OFF_THE_BUS
    return known and severity >= Severity.CRITICAL.rank


def cut(event: Event) -> Event:
    """The event as far as it is kept: the same object where it is no larger than an agent's."""
    if len(event.text) <= EVENT_TEXT and len(event.fields) <= EVENT_FIELDS:
        return event
    fields = dict(list(event.fields.items())[:EVENT_FIELDS])
    return msgspec.structs.replace(event, text=event.text[:EVENT_TEXT], fields=fields)
