"""Whether a node may send what it sends, by its budget and what others claim, and what of it is kept. Decides only."""

from __future__ import annotations

from fabricmon import frame as wire
from fabricmon.central.streams.claims import Claims
from fabricmon.central.streams.intake import Columns, checked_inventory, components, swept_ports
from fabricmon.central.streams.limits import check
from fabricmon.central.streams.presence import Peer
from fabricmon.model import Component, Inventory
from fabricmon.web.agent_links import AgentLinks


class Admission:
    """claims    GUIDs, each of one node
    columns   which columns of each node are kept
    sweepers  node that sweeps -> its ports elsewhere by name; the next inventory and the other sweepers share them
    """

    def __init__(self, link: AgentLinks, claims: Claims) -> None:
        self._link, self.claims, self.columns = link, claims, Columns()
        self.sweepers: dict[str, dict[str, Component]] = {}

    def spend_inventory(self, peer: Peer, data: str, max_message: int, now: float) -> None:
        """Count an inventory, before anything of it but its node's name is decoded. ValueError beyond a limit."""
        peer.budget.spend("inventories", len(data), max_message, now)
        if not (self._link.names_sweepers and self._link.names_sweeper(wire.node_of(data))):
            check("inventory_size", len(data))
            peer.budget.spend_amount("node_bytes", len(data), now)

    def spend_name(self, peer: Peer, now: float) -> None:
        """Count another name of an address, the more strictly where its last one brought no frame."""
        peer.budget.spend("names", 0, 0, now)
        if peer.identity is not None and peer.proven != peer.node:
            peer.budget.spend_amount("silent_names", 1, now)

    def admit(self, peer: Peer, inventory: Inventory, now: float) -> Inventory:
        """The inventory as it is kept (`checked_inventory`). ValueError for one beyond its
        limits, or with a sweep that the settings do not permit."""
        node, ports = inventory.identity.node, swept_ports(inventory)
        swept = len(ports)
        refused = self._link.overreach(node, swept)
        if refused:
            raise ValueError(refused)
        if swept and not self._link.names_sweeper(node):
            others = [len(theirs) for other, theirs in self.sweepers.items()
                      if other != node and not self._link.names_sweeper(other)]  # fmt: skip
            check("unnamed_sweepers", len(others) + 1, "with it, the fabric")
            check("unnamed_swept", sum(others) + swept, "with it, the fabric")
            peer.budget.spend_amount("unnamed_rows", len(ports - self.sweepers.get(node, {}).keys()), now)
        admitted = checked_inventory(inventory, swept, self._known)
        peer.budget.spend_amount("inventory_components", max(components(inventory) - 2 * swept, 0), now)
        self.sweepers.pop(node, None)
        if swept:
            self.sweepers[node] = {c.name: c for part in admitted.parts for c in part.components if c.name in ports}
        return admitted

    def _known(self, component: Component) -> Component | None:
        """The same port as a sweep had it before."""
        found = (ports.get(component.name) for ports in self.sweepers.values())
        return next((one for one in found if one == component), None)

    def kept(self, node: str, inventory: Inventory, now: float) -> Inventory:
        """The inventory with the columns and the GUIDs that are its node's."""
        return self.claims.settle(node, self.columns.named(node, inventory), now)

    def forget(self, node: str) -> None:
        """No target leads to the node any more."""
        self.claims.forget(node)
        self.columns.forget(node)
        self.sweepers.pop(node, None)

    def warnings(self) -> list[str]:
        """What agents claim that cannot be, for the page."""
        disputed, unknown = self.claims.disputed, self.columns.unknown
        found = []
        if disputed:
            names = ", ".join(sorted(disputed)[:5])
            found.append(f"{len(disputed)} nodes report GUIDs that other nodes reported first: {names}")
        if unknown:
            names = ", ".join(f"{node} ({len(unknown[node])})" for node in sorted(unknown)[:5])
            found.append(f"{len(unknown)} nodes send columns that this server does not know and does not keep: {names}")
        return found
