"""Random fabrics: shapes, sizes, names, places. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fabricmon.adversary.draw import Draw
from fabricmon.sim import shapes
from fabricmon.sim.layout import Layout
from fabricmon.topology.graph import Adapter, Graph

HOSTS = (30, 2000)
"""Hosts of a fabric, log-uniform."""
MOST_PORTS = 16_000
MOST_CHIPS_HOSTS = 360
"""Hosts of racks of 72 GPUs: every one has 72 cables to switch chips."""
MOST_GPU_HOSTS = 400
"""Hosts up to which GPUs are simulated."""
SHAPES = {
    "rail": 36.0, "planes": 6.0, "dual-tor": 10.0, "rail-only": 4.0, "fat-tree-2": 8.0, "fat-tree-3": 6.0,
    "dragonfly": 6.0, "dragonfly-plus": 5.0, "torus": 5.0, "nvl72": 7.0, "cloud": 7.0,
}  # fmt: skip
"""Weights of the shapes."""
RAILS = {1: 1.0, 2: 1.0, 4: 3.0, 8: 10.0}
"""Adapters of a host in rail-optimised shapes."""
GATHERED = {1: 5.0, 2: 2.0, 4: 2.0, 8: 1.0}
"""Adapters of a host in the other shapes."""
RACK, POWERED, RACKS_IN_ROW = (4, 32), (4, 40), (3, 12)
"""Hosts of a rack and of a power domain (log-uniform), racks of a row."""
CHASSIS = {1: 7.0, 2: 2.0, 4: 1.0}
"""Hosts of one chassis, which are its trays."""
HOST_NAMES: tuple[Callable[[int, str], str], ...] = (
    lambda n, rack: f"host-{n:04d}",
    lambda n, rack: f"gpu{n + 1}",
    lambda n, rack: f"{rack}n{n % 32:02d}-{n}",
    lambda n, rack: f"ip-10-{n // 65536 % 256}-{n // 256 % 256}-{n % 256}",
    lambda n, rack: f"node{n:05d}.cluster.example.com",
    lambda n, rack: f"dgx-{chr(97 + n % 26)}{n // 26:03d}",
    lambda n, rack: f"h{(n * 2654435761) % 2**32:08x}",
    lambda n, rack: f"GPU-NODE-{n:03d}",
)
SWITCH_NAMES: tuple[Callable[[int, str], str], ...] = (
    lambda n, name: name,
    lambda n, name: f"sw{n:04d}",
    lambda n, name: f"{name}.fabric.example.com",
    lambda n, name: f"ibsw-{n // 40:02d}-{n % 40:02d}",
    lambda n, name: f"MF0;{name}:MQM9700/U1",
)


@dataclass(frozen=True)
class SitePlan:
    """Where things stand, by number.

    rack, row   of each host; of each switch after the hosts
    power       power domain of each host
    feed        feed of each switch
    chassis     of each host
    pcie        adapters behind one PCIe switch, 0: none
    cages       adapters are two to a cage
    modules     ports 2k-1 and 2k of a switch are one module
    """

    rack: tuple[int, ...]
    row: tuple[int, ...]
    power: tuple[int, ...]
    feed: tuple[int, ...]
    chassis: tuple[int, ...]
    pcie: int
    cages: bool
    modules: bool


@dataclass(frozen=True)
class Fabric:
    """A fabric as it is: rows, places, and the name of its shape."""

    shape: str
    layout: Layout
    site: SitePlan


def draw_fabric(draw: Draw, most: int = HOSTS[1]) -> Fabric:
    """A fabric of up to `most` hosts."""
    hosts = round(draw.log(HOSTS[0], max(HOSTS[0], most)))
    shape = draw.weighted(SHAPES)
    ethernet = shape in ("dual-tor", "rail-only") or draw.chance(0.35)
    graph = _graph(draw.of("graph"), shape, hosts)
    site = _site(draw.of("site"), shape, graph)
    graph = _named(draw.of("names"), graph, site)
    with_gpus = len(graph.hosts) <= MOST_GPU_HOSTS and draw.chance(0.5)
    layout = Layout.from_graph(
        graph,
        gpus=draw.pick((4, 8, 8)) if with_gpus else 0,
        nvlinks=draw.pick((12, 18)) if with_gpus else 18,
        storage=draw.weighted({0: 3.0, 1: 5.0, 2: 1.0}) if _is_mlx5(graph) else 0,
        link_layer="EFA" if shape == "cloud" else "Ethernet" if ethernet else "InfiniBand",
    )
    _mark(draw.of("marks"), layout, site, shape)
    return Fabric(shape, layout, site)


def _is_mlx5(graph: Graph) -> bool:
    """Whether further devices of the hosts would go on with the names of the first."""
    return next(iter(graph.adapters.values())).name.startswith("mlx5")


def _graph(draw: Draw, shape: str, hosts: int) -> Graph:
    if shape in ("rail", "planes", "dual-tor", "rail-only"):
        return _rails(draw, shape, hosts)
    if shape == "nvl72":
        return shapes.nvl72(max(2, min(hosts, MOST_CHIPS_HOSTS) // 18), draw.number(2, 8))
    if shape == "cloud":
        adapters = draw.pick((1, 4, 8, 16, 32))
        return shapes.efa(min(hosts, MOST_PORTS // 2 // adapters), adapters, (draw.number(4, 16), 4, 2))
    wide = draw.weighted(GATHERED)
    return _gathered(_single(draw, shape, hosts * wide if hosts * wide <= MOST_PORTS else hosts), wide)


def _rails(draw: Draw, shape: str, hosts: int) -> Graph:
    rails = draw.weighted(RAILS)
    tors = 2 if shape == "dual-tor" else 1
    unit = min(draw.pick((8, 16, 20, 24, 31, 32, 48, 64)), max(4, hosts // 2))
    units = max(1, min(hosts, MOST_PORTS // rails // tors) // unit)
    if shape == "rail-only":
        return shapes.rail_optimised(units, unit, rails, 0)
    spines = draw.pick((2, 4, 8, 16) if units * rails * tors < 200 else (2, 4))
    parallel = draw.pick((1, 1, 2))
    return shapes.rail_optimised(units, unit, rails, spines, parallel, tors, planes=shape == "planes")


def _single(draw: Draw, shape: str, adapters: int) -> Graph:
    """A fabric of about so many adapters, each a host of its own."""
    if shape == "fat-tree-2":
        return shapes.fat_tree(max(8, 2 * round((2 * adapters) ** 0.5 / 2)), 2)
    if shape == "fat-tree-3":
        return shapes.fat_tree(max(4, 2 * round((4 * adapters) ** (1 / 3) / 2)), 3)
    below = draw.pick((2, 4, 8, 16))
    if shape == "torus":
        side = max(2, round((adapters / below) ** (1 / 3)))
        return shapes.torus3d(side, side, max(2, round(adapters / below / side**2)), below, draw.chance(0.8))
    each = draw.pick((4, 6, 8))
    groups = max(3, round(adapters / each / below))
    if shape == "dragonfly":
        return shapes.dragonfly(groups, each, below, draw.number(1, 3))
    return shapes.dragonfly_plus(groups, each, each, below, draw.number(2, 6))


def _gathered(graph: Graph, wide: int) -> Graph:
    """Join every `wide` consecutive adapters to one host."""
    if wide == 1:
        return graph
    names, adapters = list(graph.hosts), dict[str, Adapter]()
    hosts: dict[str, dict[str, str]] = {}
    for at, (id, adapter) in enumerate(graph.adapters.items()):
        host = names[at // wide]
        hosts.setdefault(host, graph.hosts[adapter.host])
        adapters[id] = msgspec.structs.replace(
            adapter, host=host, name=f"mlx5_{at % wide}", description=f"{host} mlx5_{at % wide}"
        )
    return msgspec.structs.replace(graph, adapters=adapters, hosts=hosts)


def _site(draw: Draw, shape: str, graph: Graph) -> SitePlan:
    hosts, switches = len(graph.hosts), len(graph.switches)
    rack = 18 if shape == "nvl72" else round(draw.log(*RACK))
    per_row = draw.number(*RACKS_IN_ROW)
    racks = [at // rack for at in range(hosts)]
    in_rack = draw.pick((1, 2, 4, 8))
    racks += [at // in_rack for at in range(switches)]
    powered = rack if shape == "nvl72" else round(draw.log(*POWERED))
    fed = draw.number(3, 12)
    chassis = 1 if shape in ("nvl72", "cloud") else draw.weighted(CHASSIS)
    most = max(_counts(graph).values(), default=0)
    return SitePlan(
        rack=tuple(racks),
        row=tuple(number // per_row for number in racks),
        power=tuple(at // powered for at in range(hosts)),
        feed=tuple(at // fed for at in range(switches)),
        chassis=tuple(at // chassis for at in range(hosts)),
        pcie=draw.pick((2, 4)) if most >= 8 and draw.chance(0.7) else 2 if most == 4 and draw.chance(0.4) else 0,
        cages=shape not in ("cloud", "nvl72") and most >= 4 and draw.chance(0.6),
        modules=shape != "cloud" and draw.chance(0.7),
    )


def _counts(graph: Graph) -> dict[str, int]:
    found: dict[str, int] = {}
    for adapter in graph.adapters.values():
        if adapter.labels.get("class") != "gpu":
            found[adapter.host] = found.get(adapter.host, 0) + 1
    return found


def _named(draw: Draw, graph: Graph, site: SitePlan) -> Graph:
    """The graph with names of a random scheme and the places as labels."""
    host_name, switch_name = draw.pick(HOST_NAMES), draw.pick(SWITCH_NAMES)
    new = {host: host_name(at, f"r{site.rack[at]:02d}") for at, host in enumerate(graph.hosts)}
    hosts = {}
    for at, (host, labels) in enumerate(graph.hosts.items()):
        places = {"rack": f"rack-{site.rack[at]}", "row": f"row-{site.row[at]}", "power": f"power-{site.power[at]}"}
        if len(set(site.chassis)) < len(site.chassis):
            places |= {"chassis": f"chassis-{site.chassis[at]}", "tray": str(at - site.chassis.index(site.chassis[at]))}
        hosts[new[host]] = labels | places
    switches = {}
    for at, (id, switch) in enumerate(graph.switches.items()):
        place = len(graph.hosts) + at
        labels = switch.labels | {
            "rack": f"rack-s{site.rack[place]}", "row": f"row-{site.row[place]}", "power": f"feed-{site.feed[at]}"
        }  # fmt: skip
        switches[id] = msgspec.structs.replace(switch, name=switch_name(at, switch.name or id), labels=labels)
    return msgspec.structs.replace(
        graph,
        hosts=hosts,
        switches=switches,
        adapters={
            id: msgspec.structs.replace(a, host=new[a.host], description=f"{new[a.host]} {a.name}")
            for id, a in graph.adapters.items()
        },
        attached={new[host]: above for host, above in graph.attached.items()},
    )


def _mark(draw: Draw, layout: Layout, site: SitePlan, shape: str) -> None:
    """Labels of ports and bridges of devices, as agents read them."""
    if site.pcie:
        adapters = max((layout.device_number(row) for row in range(layout.ports)), default=0) + 1
        gpus = max((len(layout.gpu_rows(host)) for host in range(min(4, len(layout.hosts)))), default=0)
        for device in range(adapters):
            layout.bridges[layout.pci(device)] = f"0000:00:01.0 0000:{0xA0 + device // site.pcie:02x}:00.0"
        for device in range(gpus):
            bridge = device * max(1, adapters) // gpus // site.pcie
            layout.bridges[layout.pci(device, gpu=True)] = f"0000:00:01.0 0000:{0xA0 + bridge:02x}:00.0"
    bonded = shape == "dual-tor" and draw.chance(0.5)
    serials = site.cages and draw.chance(0.6)
    for row in range(layout.ports):
        labels = layout.marks.setdefault(row, {})
        if bonded and not layout.storage[row]:
            labels["bond"] = f"bond{layout.device_number(row)}"
        if serials and not layout.storage[row]:
            labels["module_serial"] = f"MT{layout.host_of[row]:05d}{layout.device_number(row) // 2:02d}"
