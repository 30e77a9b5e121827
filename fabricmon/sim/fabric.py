"""A rail-optimised fabric as it stands in many GPU clusters: adapter i of every host of a unit on leaf i. Pure.

Nothing is random: the same shape always gives the same names and GUIDs. Default is the fabric R1 of the scenario
catalogue with its spines shared by all rails: 64 hosts x 8 adapters, two units, 16 leaves, 16 spines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fabricmon.topology.graph import Adapter, Cable, End, Graph, Switch, cable
from fabricmon.topology.infer import annotate

GBPS = 1e9 / 8
_SWITCH_GUID = 0x00AA_0000_0000_0000
_ADAPTER_GUID = 0x00BB_0000_0000_0000


@dataclass(frozen=True)
class Shape:
    """What to build.

    nodes     hosts; the last unit may be smaller
    rails     adapters (one port each) and GPUs per host
    unit      hosts per scalable unit
    spines    shared by all leaves
    parallel  cables from each leaf to each spine
    power     hosts per power domain
    rate      of every link, bytes per second
    """

    nodes: int = 64
    rails: int = 8
    unit: int = 32
    spines: int = 16
    parallel: int = 2
    power: int = 16
    rate: float = 400 * GBPS

    def __post_init__(self) -> None:
        for name in ("nodes", "rails", "unit", "spines", "parallel", "power"):
            if getattr(self, name) < 1:
                raise ValueError(f"a fabric has at least one of {name}, got {getattr(self, name)}")

    @property
    def ports(self) -> int:
        return self.nodes * self.rails

    @property
    def units(self) -> int:
        return -(-self.nodes // self.unit)

    @property
    def leaves(self) -> int:
        return self.units * self.rails


@dataclass(frozen=True)
class Fabric:
    """Names, GUIDs and cables of a shape. Port row = host number x rails + rail."""

    shape: Shape

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        width = max(3, len(str(self.shape.nodes - 1)))
        return tuple(f"host-{number:0{width}d}" for number in range(self.shape.nodes))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        return tuple(f"mlx5_{rail}" for rail in range(self.shape.rails))

    def row(self, host: int, rail: int) -> int:
        return host * self.shape.rails + rail

    def leaf_of(self, row: int) -> int:
        """Number of the leaf a port is plugged into: unit x rails + rail."""
        host, rail = divmod(row, self.shape.rails)
        return host // self.shape.unit * self.shape.rails + rail

    def port_name(self, row: int) -> str:
        """"host-007/mlx5_3/1", as incidents write it."""
        host, rail = divmod(row, self.shape.rails)
        return f"{self.hosts[host]}/{self.devices[rail]}/1"

    def adapter_guid(self, row: int) -> int:
        return _ADAPTER_GUID + 0x10 * (row + 1)

    def port_labels(self, row: int) -> dict[str, str]:
        """Static facts about a port, as the InfiniBand collector finds them below sysfs."""
        device = self.devices[row % self.shape.rails]
        return {
            "device": device,
            "port": "1",
            "link_layer": "InfiniBand",
            "node_guid": sysfs_guid(self.adapter_guid(row)),
            "port_guid": sysfs_guid(self.adapter_guid(row)),
            "sys_image_guid": sysfs_guid(self.adapter_guid(row)),
            "firmware": "28.39.1002",
            "board": "MT_0000000838",
            "hca_type": "MT4129",
            "pci": f"0000:{0x1A + 0x10 * (row % self.shape.rails):02x}:00.0",
            "driver": "mlx5_core",
            "role": "compute",
        }

    @cached_property
    def graph(self) -> Graph:
        """What a discovery of this fabric would say, with power domains, annotated."""
        shape = self.shape
        leaves = [self._leaf(number) for number in range(shape.leaves)]
        spines = [
            Switch(_guid(_SWITCH_GUID + 0x1000 + number + 1), f"spine-{number + 1:02d}", model="MQM9700", ports=64)
            for number in range(shape.spines)
        ]
        adapters = [self._adapter(row) for row in range(shape.ports)]
        cables: list[Cable] = []
        for row, adapter in enumerate(adapters):
            slot = row // shape.rails % shape.unit
            cables.append(cable(End(adapter.id, 1), End(leaves[self.leaf_of(row)].id, slot + 1), shape.rate, 4))
        for number, leaf in enumerate(leaves):
            for at, spine in enumerate(spines):
                for k in range(shape.parallel):
                    up = End(leaf.id, shape.unit + at * shape.parallel + k + 1)
                    down = End(spine.id, number * shape.parallel + k + 1)
                    cables.append(cable(up, down, shape.rate, 4))
        hosts = {host: {"power": f"power-{at // shape.power}"} for at, host in enumerate(self.hosts)}
        return annotate(
            Graph(
                {switch.id: switch for switch in (*leaves, *spines)},
                {adapter.id: adapter for adapter in adapters},
                tuple(cables),
                hosts,
                source="simulated",
            )
        )

    def _leaf(self, number: int) -> Switch:
        unit, rail = divmod(number, self.shape.rails)
        labels = {"unit": f"su{unit}", "rail": str(rail)}
        name = f"su{unit}-rail{rail}-leaf"
        return Switch(_guid(_SWITCH_GUID + number + 1), name, model="MQM9700", ports=64, labels=labels)

    def _adapter(self, row: int) -> Adapter:
        host, rail = divmod(row, self.shape.rails)
        guid = _guid(self.adapter_guid(row))
        description = f"{self.hosts[host]} {self.devices[rail]}"
        labels = {"node_guid": guid, "port_guid": guid, "sys_image_guid": guid}
        return Adapter(guid, self.hosts[host], self.devices[rail], description, 1, labels)


def _guid(number: int) -> str:
    return f"0x{number:016x}"


def sysfs_guid(number: int) -> str:
    """As sysfs writes it: "00bb:0000:0000:0010"."""
    digits = f"{number:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))
