"""Rows of a simulated cluster: hosts, ports, GPUs, switches and cables. Pure.

Any graph that `sim/shapes` builds becomes a layout. Rows are numbered host by host; within a host the ports of the
compute network come first, in the order of its adapters, and those of the storage network after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Kind
from fabricmon.sim import shapes
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Adapter, End, Graph
from fabricmon.topology.infer import rail_index

Ints = NDArray[np.int32]

RATE = 400e9 / 8
"""Bytes per second of a link whose rate is not in the graph."""
LINK_LAYERS = ("InfiniBand", "Ethernet", "EFA")
_LABEL = {"EFA": "Unknown"}
"""A link layer as ports are labelled with it, where the word differs."""
_STORAGE_GUID = 0x00CC_0000_0000_0000


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows of a simulated cluster.

    graph        with a power domain ("power-3") for every host that had none
    hosts        names, in row order
    first        int32[hosts + 1]: ports of host h are rows first[h] to first[h + 1]
    host_of      int32[ports]
    devices      per port: "mlx5_3"
    numbers      per port: number of the port on its device, from 1
    storage      bool[ports]: the port is one of the storage network, which is not in the graph
    rail         int32[ports]: index of the device among its host's devices of one role
    leaf         int32[ports]: number of the switch it is plugged into, -1 where the graph has no cable of it
    cable        int32[ports]: number of its cable in graph.cables, -1 for none
    rate         float64[ports]: bytes per second
    gpu_host     int32[gpus]
    gpu_names    per GPU: "gpu3"
    gpu_first    int32[hosts + 1]
    nvlinks      NVLinks of each GPU
    switches     ids, in the order of the graph
    link_layer   of all ports; EFA devices have neither an InfiniBand nor an Ethernet port
    guids        per port: "0x00bb000000000010"
    lowest       bool[ports]: the lowest port of its device
    pcie_first   int32[hosts + 1]; a host's PCIe links are those of its adapters, then those of its GPUs
    pcie_gpu     bool[PCIe links]: the device is a GPU
    pcie_of      int32[ports]: the PCIe link of the port's device
    marks        port -> labels that differ from those of the other ports: another firmware, a bond, a module's serial
    bridges      PCI address of an adapter or GPU -> bridges above it on its host, where hosts have PCIe switches
    """

    graph: Graph
    hosts: tuple[str, ...]
    first: Ints
    host_of: Ints
    devices: tuple[str, ...]
    numbers: tuple[int, ...]
    storage: NDArray[np.bool_]
    rail: Ints
    leaf: Ints
    cable: Ints
    rate: NDArray[np.float64]
    gpu_host: Ints
    gpu_names: tuple[str, ...]
    gpu_first: Ints
    nvlinks: int
    switches: tuple[str, ...]
    link_layer: str
    guids: tuple[str, ...]
    lowest: NDArray[np.bool_]
    pcie_first: Ints
    pcie_gpu: NDArray[np.bool_]
    pcie_of: Ints
    marks: dict[int, dict[str, str]] = field(default_factory=dict)
    bridges: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _leaves: dict[str, int] = field(default_factory=dict)
    _links: list[str] = field(default_factory=list)
    _leaf_names: dict[int, str] = field(default_factory=dict)

    # --- building

    @classmethod
    def from_graph(
        cls, graph: Graph, *, gpus: int = 8, nvlinks: int = 18, storage: int = 1, link_layer: str = "InfiniBand",
        power_hosts: int = 16,
    ) -> Layout:
        """The rows of a graph.

        gpus         of each host, where the graph has none; nvlinks of each of them
        storage      adapters of the storage network of each host
        link_layer   "InfiniBand", "Ethernet" (RoCE) or "EFA"
        power_hosts  hosts of one power domain, where the graph names none

        ValueError for another link layer or a graph without hosts.
        """
        if link_layer not in LINK_LAYERS:
            raise ValueError(f"a link layer is one of {', '.join(LINK_LAYERS)}, got {link_layer!r}")
        if not graph.hosts:
            raise ValueError("a layout needs at least one host")
        graph = _powered(graph, power_hosts)
        of_host = _port_rows(graph, storage)
        chips = _gpu_names(graph, gpus)
        rows = [row for mine in of_host for row in mine]
        host_of, gpu_host = _column(row.host for row in rows), _owners(chips)
        lowest = np.array([row.number == 1 for row in rows], np.bool_)
        adapters = [sum(row.number == 1 for row in mine) for mine in of_host]
        pcie_first = _starts(count + len(names) for count, names in zip(adapters, chips, strict=True))
        made = cls(
            graph, tuple(graph.hosts), _starts(map(len, of_host)), host_of, tuple(row.device for row in rows),
            tuple(row.number for row in rows), np.array([row.storage for row in rows], np.bool_),
            _column(row.rail for row in rows), _column(row.leaf for row in rows), _column(row.cable for row in rows),
            np.array([row.rate for row in rows]), gpu_host, tuple(name for names in chips for name in names),
            _starts(map(len, chips)), nvlinks, tuple(graph.switches), link_layer, tuple(row.guid for row in rows),
            lowest, pcie_first,
            np.concatenate([np.arange(count + len(c)) >= count for count, c in zip(adapters, chips, strict=True)]),
            pcie_first[host_of] + np.cumsum(lowest, dtype=np.int32) - 1 - _starts(adapters)[host_of],
        )  # fmt: skip
        made._name()
        return made

    @classmethod
    def named(cls, shape: str, *, gpus: int = 8, nvlinks: int = 18, storage: int = 1, link_layer: str = "InfiniBand",
              power_hosts: int = 16, **sizes: int) -> Layout:
        """A layout of a shape by its name in SHAPES; `sizes` are that shape's own. ValueError for an unknown one."""
        build = SHAPES.get(shape)
        if build is None:
            raise ValueError(f"unknown shape {shape!r}; known are {', '.join(SHAPES)}")
        try:
            graph = build(**sizes)
        except TypeError as error:
            raise ValueError(f"shape {shape}: {error}") from None
        return cls.from_graph(
            graph, gpus=gpus, nvlinks=nvlinks, storage=storage, link_layer=link_layer, power_hosts=power_hosts
        )

    def _name(self) -> None:
        """Set the names of rows as incidents write them, by the function that names incidents."""
        ids = [ComponentId(Kind.PORT, self.hosts[h], self.row_name(row)) for row, h in enumerate(self.host_of.tolist())]
        domains = assign(self.graph, [(id, self.labels(row)) for row, id in enumerate(ids)], {})
        self._rows.update({str(id): row for row, id in enumerate(ids)})
        links, leaves = domains.ids["link"], domains.ids["leaf"]
        names, leaf_names = domains.names["link"], domains.names["leaf"]
        self._links.extend(names[link] if link >= 0 else str(ids[row]) for row, link in enumerate(links.tolist()))
        for row, group in enumerate(leaves.tolist()):
            if group >= 0 and self.leaf[row] >= 0:
                self._leaf_names.setdefault(int(self.leaf[row]), leaf_names[group])
        self._leaves.update({name: leaf for leaf, name in self._leaf_names.items()})

    # --- sizes

    @property
    def ports(self) -> int:
        return len(self.host_of)

    @property
    def gpus(self) -> int:
        return len(self.gpu_host)

    @property
    def pcie(self) -> int:
        """PCIe links."""
        return len(self.pcie_gpu)

    # --- rows of something

    def host_rows(self, host: int) -> Ints:
        """Ports of a host, storage included."""
        return np.arange(self.first[host], self.first[host + 1], dtype=np.int32)

    def leaf_rows(self, switch: int) -> Ints:
        """Ports that are plugged into a switch."""
        return np.flatnonzero(self.leaf == switch).astype(np.int32)

    def rail_rows(self, rail: int) -> Ints:
        """Compute ports of one rail on all hosts."""
        return np.flatnonzero((self.rail == rail) & ~self.storage).astype(np.int32)

    def power_hosts(self, domain: str) -> tuple[int, ...]:
        """Hosts of a power domain. ValueError where there is none of that name."""
        found = tuple(at for at, host in enumerate(self.hosts) if self.graph.hosts[host].get("power") == domain)
        if not found:
            raise ValueError(f"no power domain {domain!r}")
        return found

    def gpu_rows(self, host: int) -> Ints:
        return np.arange(self.gpu_first[host], self.gpu_first[host + 1], dtype=np.int32)

    # --- names, as incidents write them

    def row_name(self, row: int) -> str:
        """"mlx5_3/1"."""
        return f"{self.devices[row]}/{self.numbers[row]}"

    def port_name(self, row: int) -> str:
        """"host-007/mlx5_3/1"."""
        return f"{self.hosts[self.host_of[row]]}/{self.row_name(row)}"

    def nic_name(self, row: int) -> str:
        """"host-007/mlx5_3"."""
        return f"{self.hosts[self.host_of[row]]}/{self.devices[row]}"

    def link_name(self, row: int) -> str:
        """"host-007/mlx5_3/1, su0-rail3-leaf/8"."""
        return self._links[row]

    def leaf_name(self, switch: int) -> str:
        """"su0/rail2" in a rail-optimised unit, else the switch's name."""
        return self._leaf_names.get(switch) or self.graph.name(self.switches[switch])

    def port(self, name: str) -> int:
        """Row of "host-007/mlx5_3/1" ("host-007/mlx5_3" where the device has one port). ValueError for none."""
        row = self._rows.get(name, self._rows.get(f"{name}/1"))
        if row is None:
            raise ValueError(f"no port {name!r}; ports are named like {self.port_name(0)!r}")
        return row

    def host(self, name: str) -> int:
        try:
            return self.hosts.index(name)
        except ValueError:
            raise ValueError(f"no host {name!r}; hosts are named like {self.hosts[0]!r}") from None

    def switch(self, name: str) -> int:
        """Number of a switch by its name, or of a leaf by the name that incidents give it. ValueError for none."""
        if name in self._leaves:
            return self._leaves[name]
        for at, id in enumerate(self.switches):
            if self.graph.name(id) == name or id == name:
                return at
        raise ValueError(f"no switch {name!r}; switches are named like {self.graph.name(self.switches[0])!r}")

    @property
    def leaves(self) -> tuple[int, ...]:
        """Switches that carry compute ports, in row order."""
        return tuple(self._leaf_names)

    # --- labels of agents

    def pci(self, device: int, gpu: bool = False) -> str:
        """PCI address of a host's adapter or GPU number `device`."""
        bus = (0x1B if gpu else 0x1A) + 0x10 * device
        return f"{bus >> 8:04x}:{bus & 0xFF:02x}:00.0"

    def device_number(self, row: int) -> int:
        """Number of a port's adapter on its host, from 0, storage adapters last."""
        return int(self.pcie_of[row] - self.pcie_first[self.host_of[row]])

    def labels(self, row: int) -> dict[str, str]:
        """Labels of a port, as the RDMA collectors read them from sysfs."""
        guid = sysfs_guid(int(self.guids[row], 16))
        labels = {
            "device": self.devices[row],
            "port": str(self.numbers[row]),
            "link_layer": _LABEL.get(self.link_layer, self.link_layer),
            "node_guid": guid,
            "port_guid": guid,
            "sys_image_guid": guid,
            "firmware": "28.39.1002",
            "board": "MT_0000000838",
            "hca_type": "MT4129",
            "pci": self.pci(self.device_number(row)),
            "driver": "mlx5_core",
            "role": "storage" if self.storage[row] else "compute",
        }
        if self.link_layer == "Ethernet":
            port = f"p{self.numbers[row]}" if self.numbers[row] > 1 else ""
            labels["netdev"] = f"eth{self.device_number(row)}{port}"
        if self.link_layer == "EFA":
            labels |= {"driver": "efa", "hca_type": "", "board": "", "firmware": "0.0.0.0"}
        return labels | self.marks.get(row, {})


def sysfs_guid(number: int) -> str:
    """As sysfs writes it: "00bb:0000:0000:0010"."""
    digits = f"{number:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


class _PortRow(NamedTuple):
    """One port, as the columns of a Layout have it."""

    host: int
    device: str
    number: int
    storage: bool
    rail: int
    leaf: int
    cable: int
    rate: float
    guid: str


def _port_rows(graph: Graph, storage: int) -> list[list[_PortRow]]:
    """The ports of each host: of its adapters in the graph, then of `storage` further ones."""
    by_host: dict[str, list[Adapter]] = {host: [] for host in graph.hosts}
    for adapter in graph.adapters.values():
        if adapter.labels.get("class") != "gpu":
            by_host[adapter.host].append(adapter)
    switch = {id: at for at, id in enumerate(graph.switches)}
    cable_at = {end: (at, other) for at, c in enumerate(graph.cables) for end, other in ((c.a, c.b), (c.b, c.a))}
    found: list[list[_PortRow]] = []
    total = 0
    for at, adapters in enumerate(by_host.values()):
        mine: list[_PortRow] = []
        for rail, adapter in enumerate(adapters):
            for port in range(1, adapter.ports + 1):
                cable, far = cable_at.get(End(adapter.id, port), (-1, None))
                rate = (graph.cables[cable].rate if far else 0.0) or RATE
                leaf = switch.get(far.node, -1) if far else -1
                guid = _guid_of(adapter, total + len(mine))
                mine.append(_PortRow(at, adapter.name, port, False, rail, leaf, cable, rate, guid))
        for extra in range(storage):
            guid = f"0x{_STORAGE_GUID + total + len(mine) + 1:016x}"
            mine.append(_PortRow(at, _further(adapters, extra), 1, True, extra, -1, -1, RATE, guid))
        total += len(mine)
        found.append(mine)
    return found


def _gpu_names(graph: Graph, gpus: int) -> list[list[str]]:
    """The GPUs of each host: those of the graph, `gpus` where it has none there."""
    found: dict[str, list[str]] = {host: [] for host in graph.hosts}
    for adapter in graph.adapters.values():
        if adapter.labels.get("class") == "gpu":
            found[adapter.host].append(adapter.name)
    return [names or [f"gpu{n}" for n in range(gpus)] for names in found.values()]


def _starts(counts: Iterable[int]) -> Ints:
    """First row of each host, and the end of the last."""
    return np.concatenate([[0], np.cumsum(list(counts))]).astype(np.int32)


def _owners(lists: Sequence[Sequence[str]]) -> Ints:
    return np.repeat(np.arange(len(lists), dtype=np.int32), [len(one) for one in lists])


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int32)


def _guid_of(adapter: Adapter, row: int) -> str:
    if adapter.id.startswith("0x"):
        return adapter.id
    return f"0x{_STORAGE_GUID + 0x1_0000_0000 + row + 1:016x}"


def _further(adapters: list[Adapter], extra: int) -> str:
    """Name of one more device of a host: numbers go on after those of its last adapter."""
    last = adapters[-1].name if adapters else ""
    number = rail_index(last)
    if number is None or not last.startswith("mlx5_"):
        return f"mlx5_{extra}"
    return f"mlx5_{number + 1 + extra}"


def _powered(graph: Graph, power_hosts: int) -> Graph:
    if power_hosts < 1:
        raise ValueError(f"a power domain has at least one host, got {power_hosts}")
    hosts = {
        host: labels if "power" in labels else {**labels, "power": f"power-{at // power_hosts}"}
        for at, (host, labels) in enumerate(graph.hosts.items())
    }
    return msgspec.structs.replace(graph, hosts=hosts)


def r1() -> Graph:
    """The default fabric of the scenario catalogue: 2 units of 32 hosts, 8 rails, each a plane of 16 spines."""
    return shapes.rail_optimised(2, 32, 8, 16, 2, planes=True)


SHAPES: Mapping[str, Callable[..., Graph]] = {
    "r1": r1,
    "rail-optimised": shapes.rail_optimised,
    "dual-tor": shapes.dual_tor,
    "fat-tree": shapes.fat_tree,
    "dragonfly": shapes.dragonfly,
    "dragonfly-plus": shapes.dragonfly_plus,
    "torus": shapes.torus3d,
    "nvl72": shapes.nvl72,
    "cloud": shapes.efa,
}
"""Shapes by their names in scenario files; their sizes are the parameters of the function."""
