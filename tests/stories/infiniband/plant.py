"""What is installed: hosts, switches and the cables between their ports, and the cable plan that describes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from fabricmon.sources import load
from fabricmon.topology.graph import Graph
from tests.stories.infiniband.parts import (
    GBIT,
    Gpu,
    Host,
    HostPort,
    HostType,
    Port,
    Switch,
    SwitchPort,
    checksum,
)


class Plant:
    def __init__(self, reads_kernel_log: bool = True) -> None:
        self.hosts: list[Host] = []
        self.ports: list[Port] = []
        self.switches: dict[str, Switch] = {}
        self.gpus: list[Gpu] = []
        self.pcie_speeds: list[float] = []  # by row of a PCIe function, bytes per second
        self.peer: dict[int, int] = {}  # row of a port -> that of the other end of its cable
        self._reads_kernel_log = reads_kernel_log

    def host(self, name: str, type: HostType, rack: str, domain: str = "", slot: int = 0) -> Host:
        host = Host(name, len(self.hosts), type, rack, domain, slot, self._reads_kernel_log)
        self.hosts.append(host)
        for number in range(type.adapters):
            self._adapter(host, number)
        for number in range(type.gpus):
            host.gpus.append(len(self.gpus))
            self.gpus.append(Gpu(host, number, type.gpu_generation, type.nvlinks))
        return host

    def _adapter(self, host: Host, number: int) -> None:
        kind = host.type
        storage = number in kind.storage
        port = HostPort(
            row=len(self.ports),
            host=host,
            device=f"mlx5_{number}",
            rate=(200 if storage else kind.rate) * GBIT,
            width=kind.width,
            role="storage" if storage else "compute" if kind.gpus else "unknown",
            guid=f"{checksum(host.name)}{number:04x}",
            system_guid=f"{checksum(host.name)}{number // kind.ports_a_card:04x}",
        )
        host.ports.append(port.row)
        self.ports.append(port)
        host.functions.append(len(self.pcie_speeds))
        self.pcie_speeds.append(kind.pcie_speed)

    def switch(self, name: str, level: int, size: int = 64) -> None:
        self.switches[name] = Switch(name, level, size)

    def _switch_port(self, name: str, rate: float, width: int) -> int:
        """The next free port of the switch. `rate` in bytes per second."""
        switch = self.switches[name]
        port = SwitchPort(len(self.ports), switch, len(switch.ports) + 1, rate, width)
        self.ports.append(port)
        switch.ports.append(port.row)
        return port.row

    def cable(self, host: Host, adapter: int, leaf: str) -> None:
        """A cable from that adapter of the host to the next free port of the leaf."""
        row = host.ports[adapter]
        port = self.ports[row]
        assert isinstance(port, HostPort)
        port.leaf = leaf
        self._join(row, self._switch_port(leaf, port.rate, port.width))

    def trunk(self, lower: str, upper: str, cables: int = 1, rate: float = 400) -> None:
        """That many cables of that rate, in Gb/s, between two switches."""
        for _ in range(cables):
            self._join(self._switch_port(lower, rate * GBIT, 4), self._switch_port(upper, rate * GBIT, 4))

    def _join(self, one: int, other: int) -> None:
        self.peer[one], self.peer[other] = other, one

    def plan(self, folder: Path, misread: Callable[[str, str], str] = lambda _host, end: end) -> Graph:
        """The topology as loaded from a cable plan.

        misread  (name of the one end, name of the other end) -> the other end as a wrong plan names it
        """
        path = folder / "plan.yaml"
        path.write_text(yaml.safe_dump(self._described(misread)))
        return load(str(path))

    def _described(self, misread: Callable[[str, str], str]) -> dict[str, Any]:
        links = []
        for row, other in self.peer.items():
            if row < other:
                one = self.ports[row].name
                rate = f"{int(self.ports[row].rate / GBIT)}Gb/s"
                links.append({"from": one, "to": misread(one, self.ports[other].name), "rate": rate})
        return {
            "fabric": "x",
            "switches": {name: {"level": switch.level} for name, switch in self.switches.items()},
            "hosts": {
                host.name: {"adapters": [f"mlx5_{n}" for n in range(host.type.adapters)], "rack": host.rack}
                for host in self.hosts
            },
            "links": links,
        }
