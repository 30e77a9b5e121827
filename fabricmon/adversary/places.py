"""Groups of parts that share a fate, drawn at random from a fabric. Pure.

Which groups exist and how each shows: docs/scenarios.md#random-scenarios, with sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import Fabric
from fabricmon.adversary.scene import Transit

LINE_CARDS = (8, 16, 32)
"""Ports of a line card."""
BUNDLE = (6, 48)
"""Cables of a bundle, log-uniform."""
BATCH = (0.03, 0.25)
"""Share of the adapters of one batch, log-uniform."""
SEGMENT = (4, 64)
"""Hosts of a management segment, log-uniform."""


@dataclass(frozen=True)
class Place:
    """A group of parts.

    sort    "module"
    names   how an incident may name it, of a link one end is enough; none where only its members show it
    stated  the site's map or the inventories state who belongs to it, or port numbers do
    """

    sort: str
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()
    cables: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()
    stated: bool = True


@dataclass
class Places:
    """Draws places of a fabric; a part is drawn once at most, so that no fault hides another."""

    fabric: Fabric
    transit: Transit
    taken_rows: set[int] = field(default_factory=set)
    taken_hosts: set[int] = field(default_factory=set)
    taken_cables: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        layout = self.fabric.layout
        self._below: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._at_switch: dict[int, list[int]] = defaultdict(list)
        ends = {}
        for at, cable in enumerate(layout.graph.cables):
            ends[at] = cable.b if cable.a.node in layout.graph.adapters else cable.a
        for row in range(layout.ports):
            if layout.leaf[row] >= 0:
                self._below[int(layout.leaf[row])].append((ends[int(layout.cable[row])].port, row))
        for ports in self._below.values():
            ports.sort()

    def draw(self, sort: str, draw: Draw) -> Place | None:
        """A free place of this sort; None where the fabric has none."""
        for _ in range(8):
            place = PLACES[sort](self, draw)
            if place is not None and self._free(place):
                self._take(place)
                if sort == "batch":
                    self._label(place, draw)
                return place
        return None

    def _free(self, place: Place) -> bool:
        layout = self.fabric.layout
        hosts = {int(layout.host_of[row]) for row in place.rows} | set(place.hosts)
        hosts |= {int(layout.gpu_host[gpu]) for gpu in place.gpus}
        return not (
            hosts & self.taken_hosts or set(place.rows) & self.taken_rows or set(place.cables) & self.taken_cables
        )

    def _take(self, place: Place) -> None:
        layout = self.fabric.layout
        self.taken_rows |= set(place.rows)
        self.taken_cables |= set(place.cables)
        self.taken_hosts |= set(place.hosts) | {int(layout.gpu_host[gpu]) for gpu in place.gpus}
        if len(place.rows) <= 64:  # another fault on the same host would be hard to distinguish
            self.taken_hosts |= {int(layout.host_of[row]) for row in place.rows}

    def _label(self, batch: Place, draw: Draw) -> None:
        mark = draw.pick(({"firmware": "28.43.2026"}, {"board": "MT_0000001093"}))
        for row in batch.rows:
            self.fabric.layout.marks.setdefault(row, {}).update(mark)

    # --- of one host

    def _row(self, draw: Draw) -> int:
        """A port of the compute network."""
        layout = self.fabric.layout
        rows = np.flatnonzero(~layout.storage)
        return int(rows[draw.number(0, len(rows) - 1)])

    def _device(self, row: int) -> tuple[int, ...]:
        layout = self.fabric.layout
        mine = layout.host_rows(int(layout.host_of[row])).tolist()
        return tuple(at for at in mine if layout.pcie_of[at] == layout.pcie_of[row])

    def link_names(self, row: int) -> tuple[str, ...]:
        """PartNames of a port's link, and of its adapter where that has one port only: both have the same members."""
        layout = self.fabric.layout
        names = (f"link({layout.port_name(row)})", f"link({layout.link_name(row)})")
        return (*names, f"nic({layout.nic_name(row)})") if len(self._device(row)) == 1 else names

    def link(self, draw: Draw) -> Place:
        row = self._row(draw)
        return Place("link", self.link_names(row), rows=(row,))

    def nic(self, draw: Draw) -> Place:
        row = self._row(draw)
        rows = self._device(row)
        names = (f"nic({self.fabric.layout.nic_name(row)})",)
        return Place("nic", names + (self.link_names(row) if len(rows) == 1 else ()), rows=rows)

    def _by_device(self, host: int) -> list[list[int]]:
        """Compute ports of a host by device."""
        layout = self.fabric.layout
        found: dict[int, list[int]] = defaultdict(list)
        for row in layout.host_rows(host).tolist():
            if not layout.storage[row]:
                found[int(layout.pcie_of[row])].append(row)
        return list(found.values())

    def cage(self, draw: Draw) -> Place | None:
        return self._neighbours(draw, "cage", 2) if self.fabric.site.cages else None

    def pcie_switch(self, draw: Draw) -> Place | None:
        return self._neighbours(draw, "pcie_switch", self.fabric.site.pcie) if self.fabric.site.pcie else None

    def _neighbours(self, draw: Draw, sort: str, size: int) -> Place | None:
        devices = self._by_device(draw.number(0, len(self.fabric.layout.hosts) - 1))
        if len(devices) <= size:
            return None
        first = draw.number(0, len(devices) // size - 1) * size
        rows = tuple(row for rows in devices[first : first + size] for row in rows)
        return Place(sort, rows=rows) if len(rows) >= 2 else None

    def _of_hosts(self, sort: str, hosts: list[int], names: tuple[str, ...] = (), stated: bool = True) -> Place:
        layout = self.fabric.layout
        rows = tuple(row for host in hosts for row in layout.host_rows(host).tolist())
        return Place(sort, names, rows, tuple(hosts), stated=stated)

    def host(self, draw: Draw) -> Place:
        host = draw.number(0, len(self.fabric.layout.hosts) - 1)
        return self._of_hosts("host", [host], (f"host({self.fabric.layout.hosts[host]})",))

    def tray(self, draw: Draw) -> Place | None:
        return self._placed(draw, "tray", self.fabric.site.chassis, 2)

    def power(self, draw: Draw) -> Place | None:
        return self._placed(draw, "power", self.fabric.site.power, 3, "power(power-{})")

    def rack(self, draw: Draw) -> Place | None:
        return self._placed(draw, "rack", self.fabric.site.rack[: len(self.fabric.layout.hosts)], 3)

    def row(self, draw: Draw) -> Place | None:
        return self._placed(draw, "row", self.fabric.site.row[: len(self.fabric.layout.hosts)], 6)

    def _placed(self, draw: Draw, sort: str, of: tuple[int, ...], least: int, name: str = "") -> Place | None:
        number = draw.pick(of)
        hosts = [at for at, one in enumerate(of) if one == number]
        if not least <= len(hosts) <= max(least, len(of) // 2):
            return None
        return self._of_hosts(sort, hosts, (name.format(number),) if name else ())

    def segment(self, draw: Draw) -> Place | None:
        """Hosts behind one management switch: neighbours."""
        hosts, size = len(self.fabric.layout.hosts), round(draw.log(*SEGMENT))
        if size > hosts // 2:
            return None
        first = draw.number(0, hosts - size)
        racks = {self.fabric.site.rack[at] for at in range(first, first + size)}
        return self._of_hosts("segment", list(range(first, first + size)), stated=len(racks) == 1)

    def batch(self, draw: Draw) -> Place | None:
        """Devices of another firmware or board, anywhere."""
        layout = self.fabric.layout
        if layout.link_layer == "EFA":
            return None
        rows = np.flatnonzero(~layout.storage & layout.lowest).tolist()
        picked = draw.some(rows, max(6, min(400, round(draw.log(*BATCH) * len(rows)))))
        return Place("batch", rows=tuple(row for one in picked for row in self._device(one)))

    def gpu(self, draw: Draw) -> Place | None:
        layout = self.fabric.layout
        if not layout.gpus:
            return None
        gpu = draw.number(0, layout.gpus - 1)
        return Place("gpu", (f"gpu({layout.hosts[layout.gpu_host[gpu]]}/{layout.gpu_names[gpu]})",), gpus=(gpu,))

    def chip(self, draw: Draw) -> Place | None:
        """A switch chip of the NVLink domain of a host or rack: one link of every GPU."""
        layout = self.fabric.layout
        if not layout.gpus:
            return None
        host = draw.number(0, len(layout.hosts) - 1)
        domain = layout.graph.hosts[layout.hosts[host]].get("nvlink", "")
        known = layout.graph.hosts
        hosts = [at for at, name in enumerate(layout.hosts) if domain and known[name].get("nvlink") == domain]
        gpus = tuple(gpu for at in hosts or [host] for gpu in layout.gpu_rows(at).tolist())
        names = () if domain else (f"nvlink_domain({layout.hosts[host]})",)
        return Place("chip", names, gpus=gpus) if len(gpus) >= 2 else None

    # --- of switches

    def _leaf(self, draw: Draw) -> int | None:
        return draw.pick(sorted(self._below)) if self._below else None

    def leaf(self, draw: Draw) -> Place | None:
        leaf = self._leaf(draw)
        if leaf is None or len(self._below[leaf]) < 3:
            return None
        rows = tuple(row for _, row in self._below[leaf])
        name = self.fabric.layout.leaf_name(leaf)
        return Place("leaf", (f"leaf({name})",), rows, cables=self._uplinks(leaf), switches=(leaf,))

    def _uplinks(self, switch: int) -> tuple[int, ...]:
        """Cables between this switch and others."""
        if not self._at_switch:
            index = {id: at for at, id in enumerate(self.fabric.layout.switches)}
            for number, at in enumerate(self.transit.cables):
                cable = self.fabric.layout.graph.cables[at]
                self._at_switch[index[cable.a.node]].append(number)
                self._at_switch[index[cable.b.node]].append(number)
        return tuple(self._at_switch[switch])

    def module(self, draw: Draw) -> Place | None:
        leaf = self._leaf(draw)
        if leaf is None or not self.fabric.site.modules:
            return None
        number = draw.pick([port for port, _ in self._below[leaf]])
        rows = tuple(row for port, row in self._below[leaf] if (port + 1) // 2 == (number + 1) // 2)
        return Place("module", rows=rows) if len(rows) == 2 else None

    def quadrant(self, draw: Draw) -> Place | None:
        """Ports of one part of a switch's chip: neighbours, or every fourth."""
        leaf = self._leaf(draw)
        if leaf is None or len(self._below[leaf]) < 16:
            return None
        ports, part = self._below[leaf], draw.number(0, 3)
        if draw.chance(0.7):
            size = -(-len(ports) // 4)
            rows = tuple(row for _, row in ports[part * size : (part + 1) * size])
        else:
            rows = tuple(row for port, row in ports if port % 4 == part)
        return Place("quadrant", rows=rows, switches=(leaf,)) if len(rows) >= 3 else None

    def line_card(self, draw: Draw) -> Place | None:
        leaf, size = self._leaf(draw), draw.pick(LINE_CARDS)
        if leaf is None or len(self._below[leaf]) < 2 * size:
            return None
        card = draw.number(0, len(self._below[leaf]) // size - 1)
        rows = tuple(row for _, row in self._below[leaf][card * size : (card + 1) * size])
        return Place("line_card", rows=rows, switches=(leaf,))

    def feed(self, draw: Draw) -> Place | None:
        """Leaves on one feed."""
        if not self._below:
            return None
        feed = self.fabric.site.feed
        number = feed[draw.pick(sorted(self._below))]
        leaves = [leaf for leaf in self._below if feed[leaf] == number]
        if not 2 <= len(leaves) <= max(2, len(self._below) // 2):
            return None
        rows = tuple(row for leaf in leaves for _, row in self._below[leaf])
        cables = tuple(sorted({cable for leaf in leaves for cable in self._uplinks(leaf)}))
        return Place("feed", (f"power(feed-{number})",), rows, cables=cables, switches=tuple(leaves))

    def spine(self, draw: Draw) -> Place | None:
        """A switch without hosts."""
        layout = self.fabric.layout
        free = [at for at in range(len(layout.switches)) if at not in self._below and self._uplinks(at)]
        if not free:
            return None
        switch = draw.pick(free)
        name, cables = layout.graph.name(layout.switches[switch]), self._uplinks(switch)
        return Place("spine", (f"spine({name})", f"core({name})"), cables=cables, switches=(switch,))

    def transit_link(self, draw: Draw) -> Place | None:
        if not self.transit.cables:
            return None
        at = draw.number(0, len(self.transit.cables) - 1)
        graph = self.fabric.layout.graph
        cable = graph.cables[self.transit.cables[at]]
        names = tuple(f"link({one})" for one in (graph.describe(cable.a), graph.describe(cable.b), graph.title(cable)))
        return Place("transit_link", names, cables=(at,))

    def bundle(self, draw: Draw) -> Place | None:
        """Neighbouring cables of one way: from some hosts of a rack to the switches, or between switches."""
        size = round(draw.log(*BUNDLE))
        if len(self.transit.cables) > 4 * size and draw.chance(0.3):
            first = draw.number(0, len(self.transit.cables) - size)
            return Place("bundle", cables=tuple(range(first, first + size)), stated=False)
        layout = self.fabric.layout
        rows = np.flatnonzero(layout.leaf >= 0).tolist()
        if len(rows) < 4 * size:
            return None
        first = draw.number(0, len(rows) - 2 * size)
        return Place("bundle", rows=tuple(draw.some(rows[first : first + 2 * size], size)), stated=False)


PLACES: dict[str, Callable[[Places, Draw], Place | None]] = {
    "link": Places.link, "nic": Places.nic, "cage": Places.cage, "pcie_switch": Places.pcie_switch,
    "host": Places.host, "tray": Places.tray, "power": Places.power, "rack": Places.rack, "row": Places.row,
    "segment": Places.segment, "batch": Places.batch, "gpu": Places.gpu, "chip": Places.chip, "leaf": Places.leaf,
    "module": Places.module, "quadrant": Places.quadrant, "line_card": Places.line_card, "feed": Places.feed,
    "spine": Places.spine, "transit_link": Places.transit_link, "bundle": Places.bundle,
}  # fmt: skip
"""Draws of places, by their sort."""
