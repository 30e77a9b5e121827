"""GET /api/v1/targets: the agents in the format of Prometheus HTTP service discovery, with the node names of
incidents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from fabricmon.central.api.answers import Handler, answer
from fabricmon.central.api.request import query
from fabricmon.central.documents.fleet import TargetGroup
from fabricmon.central.streams.presence import Peer


def document(peers: Iterable[Peer], encrypted: Callable[[Peer], bool]) -> list[TargetGroup]:
    """One group per node: the address of its stream, else its first address. The label `instance` is the node's name;
    a second address under it would write into the same series. `__` labels are for relabelling."""
    of: dict[str, Peer] = {}
    for peer in sorted(peers, key=lambda peer: (peer.node, not peer.feeds, peer.target.address)):
        of.setdefault(peer.node, peer)
    groups: list[TargetGroup] = []
    for node, peer in of.items():
        address, slash, prefix = peer.target.address.partition("/")
        labels = {f"__meta_fabricmon_{name}": value for name, value in peer.target.labels.items()}
        labels |= {"__meta_fabricmon_node": node, "instance": node}
        if slash:
            labels["__metrics_path__"] = f"/{prefix}/metrics"
        if encrypted(peer):
            labels["__scheme__"] = "https"
        groups.append({"targets": [address], "labels": labels})
    return groups


def handler(peers: Callable[[], Iterable[Peer]], encrypted: Callable[[Peer], bool]) -> Handler:
    async def targets(request: web.Request) -> web.Response:
        query(request)
        return answer(document(peers(), encrypted))

    return targets
