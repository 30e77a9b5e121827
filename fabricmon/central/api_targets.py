"""GET /api/v1/targets: the agents the centre follows, as Prometheus's HTTP service discovery asks for targets.

So a Prometheus needs no list of its own, and calls each node by the name that incidents call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from fabricmon.central.presence import Peer

Handler = Callable[[web.Request], Any]


def document(peers: Iterable[Peer], encrypted: Callable[[Peer], bool]) -> list[Mapping[str, Any]]:
    """A group a target, by node. The label `instance` is the node's name; `__` labels are for relabelling."""
    groups: list[Mapping[str, Any]] = []
    for peer in sorted(peers, key=lambda peer: (peer.node, peer.target.address)):
        address, slash, prefix = peer.target.address.partition("/")
        labels = {f"__meta_fabricmon_{name}": value for name, value in peer.target.labels.items()}
        labels |= {"__meta_fabricmon_node": peer.node, "instance": peer.node}
        if slash:
            labels["__metrics_path__"] = f"/{prefix}/metrics"
        if encrypted(peer):
            labels["__scheme__"] = "https"
        groups.append({"targets": [address], "labels": labels})
    return groups


def handler(peers: Callable[[], Iterable[Peer]], encrypted: Callable[[Peer], bool]) -> Handler:
    async def targets(_request: web.Request) -> web.Response:
        body = msgspec.json.encode(document(peers(), encrypted))
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    return targets
