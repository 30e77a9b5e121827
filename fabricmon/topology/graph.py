"""The fabric as a graph: switches, adapters and cables, from any source. Pure data.

A cable is an unordered pair of ends and both ends are ports of a node, so its key does not depend on the source
(docs/methods.md#link-identity): GUID and port number for InfiniBand, chassis and port id for Ethernet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from msgspec import Struct

from fabricmon.model import RankedEnum
from fabricmon.topology.signs import Shape


class Switch(Struct, frozen=True):
    """One switch ASIC. `level` 0 = has adapters below it (leaf), else distance to the nearest leaf; -1 unknown."""

    id: str  # "0x00aa000000000001" for InfiniBand, the chassis id or name otherwise
    name: str
    level: int = -1
    model: str = ""
    ports: int = 0
    # "unit" (scalable unit), "rail", "plane", "rack", "power" where a source names them; "network" is "nvlink" for an
    # NVSwitch chip; "port/<number>" is the name of a port that has no plain number ("swp12s0")
    labels: dict[str, str] = {}


class Adapter(Struct, frozen=True):
    """One HCA or NIC. In-network aggregation nodes of switches are not adapters.

    A GPU is one where its NVLinks are cables: name "gpu3", label "class" = "gpu".
    """

    id: str  # node GUID "0x..." for InfiniBand; "<host>/<device>" otherwise
    host: str  # "" unknown
    name: str  # device on that host: "mlx5_0", "HCA-1"; "" where unknown
    description: str = ""
    ports: int = 1
    labels: dict[str, str] = {}


class End(Struct, frozen=True, order=True):
    node: str  # id of a switch or an adapter
    port: int


class Cable(Struct, frozen=True):
    """`a` < `b` always; use `cable()`. `most`: bytes per second that both ends support, 0 unknown."""

    a: End
    b: End
    rate: float = 0.0  # bytes per second, 0 unknown
    width: int = 0  # lanes, 0 unknown
    labels: dict[str, str] = {}
    most: float = 0.0


def cable(
    x: End, y: End, rate: float = 0.0, width: int = 0, labels: dict[str, str] | None = None, most: float = 0.0
) -> Cable:
    a, b = sorted((x, y))
    return Cable(a, b, rate, width, labels or {}, most)


class Finding(Struct, frozen=True):
    """A fault in the topology: kind, components, reason."""

    kind: str
    components: tuple[str, ...]
    why: str


class Role(RankedEnum):
    """Kind of a source; where sources contradict each other the first wins (docs/methods.md#wrong-topology)."""

    LIVE = "live"  # seen on the wire: subnet discovery, LLDP
    PLAN = "plan"  # written by the operator: the intended cabling
    PLACEMENT = "placement"  # from a scheduler or cloud: proximity of hosts, no ports


class Origin(Struct, frozen=True):
    """One source that a graph was made from."""

    kind: str  # word of sources.SOURCES: "ibnetdiscover", "yaml", "slurm", ...
    path: str
    role: Role = Role.LIVE
    taken: float | None = None  # when the file was written, seconds since the Unix epoch; None unknown

    def __str__(self) -> str:
        return f"{self.kind}:{self.path}"


class Graph(Struct, frozen=True, dict=True):
    """A fabric. Everything is keyed by id, so that graphs of several sources can be laid over each other.

    hosts        host -> labels: "unit", "rack", "power", "block", "region", "zone", "nvlink" (NVLink domain,
                 "<cluster UUID>.<clique>" where known), "chassis", "slot", "tray", "slice"
    source       "ibnetdiscover:/path"; several joined by " + "
    aggregation  in-network aggregation node -> its switch; neither adapters nor cables
    attached     host -> switches above it, from a source that names no ports
    trunks       pairs of switches, the lower id first, that are joined by an unknown number of cables
    origins      the sources; the label "sources" of a switch, adapter or cable of a merged graph lists positions in it
    stated       properties of the whole by a source: "shape" ("torus 8x8x4"), "block_sizes" ("18,36"), "view" ("hosts":
                 it covers the cables of hosts only)
    shapes       of every network in it (`shape.recognise`), the one with most adapters first; none before `check`
    """

    switches: dict[str, Switch]
    adapters: dict[str, Adapter]
    cables: tuple[Cable, ...]
    hosts: dict[str, dict[str, str]] = {}
    source: str = ""
    findings: tuple[Finding, ...] = ()
    aggregation: dict[str, str] = {}
    attached: dict[str, tuple[str, ...]] = {}
    trunks: tuple[tuple[str, str], ...] = ()
    origins: tuple[Origin, ...] = ()
    stated: dict[str, str] = {}
    shapes: tuple[Shape, ...] = ()

    def name(self, node: str) -> str:
        """Display name of a switch or an adapter; its id where no name is known."""
        if switch := self.switches.get(node):
            return switch.name or node
        adapter = self.adapters.get(node)
        if adapter is None or not adapter.host:
            return node
        return f"{adapter.host}/{adapter.name}" if adapter.name else adapter.host

    def describe(self, end: End) -> str:
        """Display name of one end of a cable: "leaf-3/12", "host-007/mlx5_3/1", "tor-1/swp12s0"."""
        switch = self.switches.get(end.node)
        if switch and (word := switch.labels.get(f"port/{end.port}")):
            return f"{self.name(end.node)}/{word}"
        return f"{self.name(end.node)}/{end.port}"

    def title(self, link: Cable) -> str:
        """Both ends of a cable, the adapter's first: "host-007/mlx5_3/1, leaf-3/12"."""
        ends = sorted((link.a, link.b), key=lambda end: end.node in self.switches)
        return ", ".join(self.describe(end) for end in ends)


Result = TypeVar("Result")


def once(derive: Callable[[Graph], Result]) -> Callable[[Graph], Result]:
    """What follows from a graph alone, derived once: it is kept beside the graph and goes with it. Callers share it and
    change nothing in it. A changed graph (`msgspec.structs.replace`) is another graph."""
    name = f"{derive.__module__}.{derive.__qualname__}"

    @wraps(derive)
    def kept(graph: Graph) -> Result:
        beside = vars(graph)
        if name not in beside:
            beside[name] = derive(graph)
        found: Result = beside[name]
        return found

    return kept


def unsound(graph: Graph) -> str:
    """Why a graph from elsewhere cannot be used; "" where it can."""
    for name, found in (("switches", graph.switches), ("adapters", graph.adapters)):
        for key, node in found.items():
            if key != node.id:
                return f"{name}: {key[:80]!r} has the id {node.id[:80]!r}"
    both = graph.switches.keys() & graph.adapters.keys()
    return f"{min(both)[:80]!r} is a switch and an adapter" if both else ""


def trunk(one: str, other: str) -> tuple[str, str]:
    """The key of a pair of switches."""
    return (one, other) if one <= other else (other, one)
