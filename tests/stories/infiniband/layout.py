"""What the agent of a host reports: the inventory, and which values of the world are its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.sim.scenarios.stage import START
from tests.stories.infiniband.columns import (
    GPU,
    GPU_FABRIC,
    NODE,
    NVLINK,
    PCIE,
    PORT_ERRORS,
    PORT_KERNEL_LOG,
    PORT_OPTICS,
    PORT_STATE,
    PORT_TEMPERATURE,
    PORT_TRAFFIC,
    SWEPT_PORT,
)
from tests.stories.infiniband.parts import Host, HostPort, Port, SwitchPort
from tests.stories.infiniband.world import Table, World

SWEEP = "fabric"
"""Collector of a sweep."""


@dataclass(frozen=True)
class Layout:
    """`places`: where in the world's values those of the inventory are; `swept`: rows of the ports of a sweep."""

    inventory: Inventory
    places: NDArray[np.int64]
    swept: list[int]


class _Parts:
    """Parts in the order in which they are added; one without rows is left out."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.places: list[int] = []

    def add(
        self,
        collector: str,
        kind: Kind,
        table: Table,
        columns: tuple[str, ...],
        rows: dict[int, Component],
        period: float,
    ) -> None:
        if rows:
            self.parts.append(Part(collector, kind, columns, tuple(rows.values()), period))
            self.places += [table.first[column] + row for row in rows for column in columns]


def layout(world: World, host: Host, number: int) -> Layout:
    """What the host's agent reports from now on, as its inventory of that number."""
    found = _Parts()
    _add_ports(found, world, host)
    _add_gpus(found, world, host)
    node = {host.row: Component("", {"machine": f"m{int(host.type.machine)}"})}
    found.add("inventory", Kind.NODE, world.node, NODE, node, 5.0)
    swept = _swept(world) if host.sweeps else {}
    found.add(SWEEP, Kind.PORT, world.port, SWEPT_PORT, swept, 30.0)
    identity = Identity(host.name, f"boot-{host.name}-{host.boot}", f"agent-{host.name}", "0.2", START + host.booted)
    return Layout(Inventory(number, identity, tuple(found.parts)), np.array(found.places), list(swept))


def _add_ports(found: _Parts, world: World, host: Host) -> None:
    ports, functions = {}, {}
    for row, function in zip(host.ports, host.functions, strict=True):
        port = world.plant.ports[row]
        if row not in host.hidden and isinstance(port, HostPort):
            labels = _port_labels(host, port)
            ports[row] = Component(f"{labels['device']}/1", labels)
            functions[function] = _function(port, labels["device"])
    table = world.port
    found.add("infiniband_state", Kind.PORT, table, PORT_STATE, ports, 1.0)
    found.add("infiniband", Kind.PORT, table, PORT_TRAFFIC, ports, 5.0)
    found.add("infiniband_errors", Kind.PORT, table, PORT_ERRORS, ports, 30.0)
    if world.optics:
        found.add("optics", Kind.PORT, table, PORT_OPTICS, ports, 120.0)
    found.add("hwmon", Kind.PORT, table, PORT_TEMPERATURE, ports, 60.0)
    if host.reads_kernel_log:
        found.add("kernel_log", Kind.PORT, table, PORT_KERNEL_LOG, ports, 5.0)
    found.add("pcie", Kind.PCIE, world.function, PCIE, functions, 10.0)


def _port_labels(host: Host, port: HostPort) -> dict[str, str]:
    device = host.renamed.get(port.device, port.device)
    netdev = f"ib{port.device[5:]}" if device == port.device else f"ib{device[2:]}"
    guid = f"{port.guid[:4]}:{port.guid[4:8]}:{port.guid[8:12]}"
    system = f"{port.system_guid[:4]}:{port.system_guid[4:8]}:{port.system_guid[8:12]}"
    return {
        "device": device,
        "port": "1",
        "netdev": netdev,
        "link_layer": "InfiniBand",
        "node_guid": f"{guid}:0000",
        "port_guid": f"{guid}:0001",
        "sys_image_guid": f"{system}:0000",
        "firmware": host.firmware,
        "board": host.type.board,
        "hca_type": host.type.hca,
        "pci": port.pci,
        "driver": "mlx5_core",
        "role": port.role,
    }


def _function(port: HostPort, device: str) -> Component:
    return Component(
        port.pci, {"device": port.pci, "class": "nic", "owner": port.device, "rdma": device, "numa": "0"}
    )


def _add_gpus(found: _Parts, world: World, host: Host) -> None:
    gpus = {
        row: Component(world.plant.gpus[row].name, world.plant.gpus[row].labels())
        for row in host.gpus
        if row not in host.lost_gpus
    }
    columns = (*GPU_FABRIC, *GPU) if host.domain else GPU
    found.add("gpu", Kind.GPU, world.gpu, columns, gpus, 10.0)
    found.add("nvlink", Kind.GPU, world.gpu, NVLINK, gpus, 10.0)


def _swept(world: World) -> dict[int, Component]:
    """Every cabled port of the subnet; the first of each node describes it."""
    found: dict[int, Component] = {}
    described: set[str] = set()
    for port in world.plant.ports:
        other = world.plant.ports[world.peer[port.row]]
        node = _node(port)
        labels = {
            "swept": "switch" if isinstance(port, SwitchPort) else "adapter",
            "device": node,
            "port": str(port.number),
            "link_layer": "InfiniBand",
            "role": "fabric",
            "node_guid": _guid(port),
            "remote": f"{_node(other)}/{other.number}",
            "remote_guid": _guid(other),
            "remote_port": str(other.number),
        }
        if node not in described:
            described.add(node)
            labels |= _description(port)
        found[port.row] = Component(f"{node}/{port.number}", labels)
    return found


def _node(port: Port) -> str:
    return port.switch.name if isinstance(port, SwitchPort) else port.name


def _guid(port: Port) -> str:
    return port.switch.guid if isinstance(port, SwitchPort) else f"0x{port.guid}0000"


def _description(port: Port) -> dict[str, str]:
    if isinstance(port, SwitchPort):
        description = f"MF0;{port.switch.name}:MQM9790/U1"
        return {"description": description, "ports": str(port.switch.size), "model": "0xd2f2"}
    return {"description": f"{port.host.name} {port.device}", "ports": "1", "model": "0x1021"}
