"""Which nodes there were: kept in the store, so that a restarted centre misses those that are gone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fabricmon.central.presence import Peer
from fabricmon.central.store import ExpectedNode, Store
from fabricmon.central.targets import Target

REFRESH = 600.0  # seconds between two savings of when each node was last seen
PLACE = ("power", "rack", "unit")  # labels of a target that say where its node stands
_SOURCE = "__source"  # where the target came from, beside the labels of the target itself


class Memory:
    """Nodes that were seen, by name."""

    def __init__(self, store: Store, nodes: Iterable[ExpectedNode], now: float) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._store, self._saved = store, now

    def addresses(self) -> dict[str, str]:
        """Address -> node that was there last."""
        return {node.target: name for name, node in self.nodes.items() if node.target}

    def targets(self, source: str) -> list[Target]:
        """What a source of targets gave before the restart, as far as an agent was there."""
        return [
            Target(node.target, {k: v for k, v in node.labels.items() if k != _SOURCE}, source)
            for node in self.nodes.values()
            if node.target and node.labels.get(_SOURCE) == source
        ]

    def places(self) -> dict[str, dict[str, str]]:
        """Node -> labels that say where it stands; nodes of which nothing is said are left out."""
        found = {n.name: {k: v for k, v in n.labels.items() if k in PLACE} for n in self.nodes.values()}
        return {name: labels for name, labels in found.items() if labels}

    async def save(self, peers: Iterable[Peer], now: float) -> None:
        """Remember the nodes of these peers, and from time to time forget those that no peer stands for any more.

        StoreError where that cannot be made durable; then nothing is taken for remembered.
        """
        peers = list(peers)
        everything = now - self._saved >= REFRESH
        seen = [n for n in self._seen(peers, now) if everything or self._is_news(n)]
        gone = sorted(self.nodes.keys() - {peer.node for peer in peers}) if everything else []
        await self._store.commit(nodes=seen, forgotten=gone)
        self.nodes.update((node.name, node) for node in seen)
        for name in gone:
            del self.nodes[name]
        if everything:
            self._saved = now

    def _seen(self, peers: Iterable[Peer], now: float) -> list[ExpectedNode]:
        found = []
        for peer in peers:
            if peer.identity is not None and peer.feeds:
                known = self.nodes.get(peer.node)
                labels = {**peer.target.labels, _SOURCE: peer.target.source}
                first = known.first_seen if known else now
                found.append(ExpectedNode(peer.node, peer.target.address, peer.identity.agent, first, now, labels))
        return found

    def _is_news(self, node: ExpectedNode) -> bool:
        known = self.nodes.get(node.name)
        return known is None or msgspec.structs.replace(known, last_seen=node.last_seen) != node
