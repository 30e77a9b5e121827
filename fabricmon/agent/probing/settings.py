"""Settings of `agent.probe`."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.probe.packet import BackendName


class AgentProbeConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Probes between adapters. What is probed comes from the server (`central.probe`).

    enabled   accept assignments of a server. Without one in force no socket is open.
    backend   udp: all by UDP; verbs: RDMA adapters by queue pairs (needs fabricmon[verbs]), other interfaces by UDP
    port      UDP port at which each adapter's address answers while it is probed
    exclude   interfaces that neither probe nor answer, with wildcards
    networks  where probes may go, "10.0.0.0/8"; none: all private and link-local addresses
    """

    enabled: bool = False
    backend: BackendName = "udp"
    port: Annotated[int, Meta(ge=1, le=65535)] = 9795
    exclude: tuple[str, ...] = ("lo", "docker*", "br-*", "virbr*", "cali*", "cni*", "flannel*", "cilium*", "kube-*")
    networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for network in self.networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"`networks`: {error}") from None
