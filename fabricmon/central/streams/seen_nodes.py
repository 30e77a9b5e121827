"""Known nodes in the store, so that after a restart missing ones are reported."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fabricmon.central.store.records import ExpectedNode
from fabricmon.central.store.store import Store
from fabricmon.central.streams.presence import Peer
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Identity

REFRESH = 600.0  # seconds between two updates of the last-seen times
PLACE = ("power", "rack", "unit")  # labels of a target for the location of its node
_SOURCE = "__source"  # source of the target, stored beside its labels


class SeenNodes:
    """Nodes that were seen, by name."""

    def __init__(self, store: Store, nodes: Iterable[ExpectedNode], now: float) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._store, self._saved = store, now
        self._saved_of: dict[str, tuple[Target, Identity | None]] = {}  # what each node's record was made of

    def addresses(self) -> dict[str, str]:
        """Address -> its last node."""
        return {node.target: name for name, node in self.nodes.items() if node.target}

    def targets(self, source: str) -> list[Target]:
        """Targets of a source from before the restart, where an agent was connected."""
        return [
            Target(node.target, {k: v for k, v in node.labels.items() if k != _SOURCE}, source)
            for node in self.nodes.values()
            if node.target and node.labels.get(_SOURCE) == source
        ]

    def places(self) -> dict[str, dict[str, str]]:
        """Node -> labels of its location; only nodes that have any."""
        found = {n.name: {k: v for k, v in n.labels.items() if k in PLACE} for n in self.nodes.values()}
        return {name: labels for name, labels in found.items() if labels}

    async def save(self, peers: Iterable[Peer], now: float) -> None:
        """Save the nodes of these peers; every REFRESH delete nodes without a peer. StoreError where that fails."""
        peers = list(peers)
        everything = now - self._saved >= REFRESH
        seen = [n for n in self._seen(peers, now, everything) if everything or self._is_news(n)]
        made_of = {peer.node: (peer.target, peer.identity) for peer in peers if peer.feeds}
        gone = sorted(self.nodes.keys() - {peer.node for peer in peers}) if everything else []
        await self._store.commit(nodes=seen, forgotten=gone)
        self.nodes.update((node.name, node) for node in seen)
        self._saved_of = made_of
        for name in gone:
            del self.nodes[name]
        if everything:
            self._saved = now

    def _seen(self, peers: Iterable[Peer], now: float, everything: bool) -> list[ExpectedNode]:
        """Records of the peers' nodes; without `everything` only where target or agent is another than before."""
        found = []
        for peer in peers:
            if not everything and self._saved_of.get(peer.node) == (peer.target, peer.identity):
                continue
            if peer.identity is not None and peer.feeds:
                known = self.nodes.get(peer.node)
                labels = {**peer.target.labels, _SOURCE: peer.target.source}
                first = known.first_seen if known else now
                found.append(ExpectedNode(peer.node, peer.target.address, peer.identity.agent, first, now, labels))
        return found

    def _is_news(self, node: ExpectedNode) -> bool:
        known = self.nodes.get(node.name)
        return known is None or msgspec.structs.replace(known, last_seen=node.last_seen) != node
