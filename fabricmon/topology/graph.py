"""The fabric as a graph: switches, adapters and cables, whoever told of them. Pure data.

A cable is an unordered pair of ends and both ends are ports of a node, so its key does not depend on who saw it
(topologies.md section 1): GUID and port number for InfiniBand, chassis and port id for Ethernet.
"""

from __future__ import annotations

from msgspec import Struct


class Switch(Struct, frozen=True):
    """One switch ASIC. `level` 0 = has adapters below it (leaf), else distance to the nearest leaf; -1 unknown."""

    id: str  # "0x00aa000000000001" for InfiniBand, the chassis id or name otherwise
    name: str
    level: int = -1
    model: str = ""
    ports: int = 0
    labels: dict[str, str] = {}  # "unit" (scalable unit), "rail", "plane", "rack", "power" where a source names them


class Adapter(Struct, frozen=True):
    """One HCA or NIC. In-network aggregation nodes of switches are not adapters."""

    id: str  # node GUID "0x..." for InfiniBand; "<host>/<device>" otherwise
    host: str  # "" where the description does not tell
    name: str  # device on that host: "mlx5_0", "HCA-1"; "" where unknown
    description: str = ""
    ports: int = 1
    labels: dict[str, str] = {}


class End(Struct, frozen=True, order=True):
    node: str  # id of a switch or an adapter
    port: int


class Cable(Struct, frozen=True):
    """`a` < `b` always; use `cable()`."""

    a: End
    b: End
    rate: float = 0.0  # bytes per second, 0 unknown
    width: int = 0  # lanes, 0 unknown
    labels: dict[str, str] = {}


def cable(x: End, y: End, rate: float = 0.0, width: int = 0, labels: dict[str, str] | None = None) -> Cable:
    a, b = sorted((x, y))
    return Cable(a, b, rate, width, labels or {})


class Finding(Struct, frozen=True):
    """Something in the topology a person should know: kind, components it is about, why."""

    kind: str
    components: tuple[str, ...]
    why: str


class Graph(Struct, frozen=True):
    switches: dict[str, Switch]
    adapters: dict[str, Adapter]
    cables: tuple[Cable, ...]
    hosts: dict[str, dict[str, str]] = {}  # host -> labels ("unit", "rack", "power")
    source: str = ""  # "ibnetdiscover:/path", "yaml:/path"
    findings: tuple[Finding, ...] = ()
