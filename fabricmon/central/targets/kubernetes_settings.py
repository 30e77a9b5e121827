"""Discovery of agents and node locations in a Kubernetes cluster: `central.kubernetes`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.units import Duration

AGENTS = "app.kubernetes.io/name=fabricmon,app.kubernetes.io/component=agent"
"""Labels of the agent pods in the manifests."""


class KubernetesConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Agents found through the Kubernetes API, by LIST and WATCH of their pods.

    enabled     off by default.
    api         "cluster" inside a pod (its service account's token and CA), or the server's URL.
    token_file  file with a bearer token; read at each request, so that it can be rotated.
    ca_file     CA certificates (PEM) to trust instead of the system's; read again when the file changes.
    namespace   of the agents' pods; "" the namespace of the server.
    selector    label selector of the agents' pods.
    port        on which the agents listen.
    keep        an agent whose pod has gone stays expected that long, and as long as its node is in the cluster and not
                ready: it may have vanished with its node.
    nodes       read nodes too: labels for their location (docs/topology.md), addresses for agents that never started.
                Needs permission to list and watch nodes.
    deadline    of one request.
    retry_max   longest pause after failures; the first is a second, each next one twice as long, 50..100 % jitter.
    """

    enabled: bool = False
    api: str = "cluster"
    token_file: str = ""
    ca_file: str = ""
    namespace: str = ""
    selector: str = AGENTS
    port: Annotated[int, Meta(ge=1, le=65535)] = 9790
    keep: Duration = Duration(3600)
    nodes: bool = True
    deadline: Duration = Duration(20)
    retry_max: Duration = Duration(60)

    def __post_init__(self) -> None:
        if self.api != "cluster" and not self.api.startswith(("http://", "https://")):
            raise ValueError(f'`api` must be "cluster", http://... or https://..., got {self.api!r}')
        if not self.selector:
            raise ValueError("`selector` is empty: every pod would match")
        if self.deadline <= 0 or self.retry_max < 1:
            raise ValueError("`deadline` must be above 0 and `retry_max` at least 1s")
