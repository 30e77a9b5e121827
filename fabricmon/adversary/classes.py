"""The classes of faults: where, how, how often, and by when each must be found. Pure.

Weights are how often a class is drawn, not how often it occurs: rare groups are drawn often enough to be counted.
Limits count from the first reading that shows enough; reasons in docs/scenarios.md#required-and-in-time.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabricmon.adversary import phenomena as p
from fabricmon.adversary.phenomena import Phenomenon

DEATH, HARD, FLAP, SILENCE, SOFT, SLOW = 30.0, 60.0, 60.0, 180.0, 300.0, 600.0
"""Seconds: a dead host; what is down or gone; after the third fall; a silent segment; errors and loss; the rest."""
IB, ROCE, EFA = "InfiniBand", "Ethernet", "EFA"
PORTS, EVERY = (IB, ROCE), (IB, ROCE, EFA)
MOST_ROUTED = 5000
"""Ports up to which loss on paths is simulated: every flow is routed."""


@dataclass(frozen=True)
class FaultClass:
    """One class.

    place     sort of its place; how: its phenomenon
    words     words of components that name a group of it, as in "module(...)", whose members are right
    limit     seconds in which it must be found
    layers    link layers on which it is drawn
    small     drawn on fabrics of up to MOST_ROUTED ports only
    swept     visible to a sweep of the switches only
    rates     a lower rate of traffic shows it
    busy      it shows on ports with traffic only
    spread    it shows at ports that it does not name: those whose packets pass it
    """

    name: str
    place: str
    how: Phenomenon
    weight: float
    words: tuple[str, ...]
    limit: float
    layers: tuple[str, ...] = PORTS
    small: bool = False
    swept: bool = False
    rates: bool = False
    spread: bool = False
    busy: bool = False


_MODULE = ("module", "cage", "plug", "transceiver")
_PCIE = ("pcie_switch", "pcie", "bridge")
_PART = ("quadrant", "line_card", "card", "asic", "pipe", "part", "ports")
_FEED = ("power", "feed", "pdu")
_ROW = ("row", "rack", "cooling", "heat")
_BATCH = ("batch", "firmware", "board", "lot")
_BUNDLE = ("bundle", "cable_tray", "trunk", "cables", "patch_panel")
_SEGMENT = ("segment", "management", "rack", "subnet", "mgmt")
_TRAY = ("tray", "chassis")
_SPINE = ("spine", "core", "plane", "switch")
_CHIP = ("nvlink_domain", "nvswitch", "nvlink_chip", "chip", "plane")

# fmt: off
CLASSES: tuple[FaultClass, ...] = (
    FaultClass("link down", "link", p.down, 6, (), HARD),
    FaultClass("link flap", "link", p.flap, 5, (), FLAP),
    FaultClass("link errors", "link", p.errors, 4, (), SOFT),
    FaultClass("dim optic", "link", p.dim, 2, (), SOFT),
    FaultClass("hot module", "link", p.heat, 1, (), SLOW),
    FaultClass("narrow link", "link", p.narrow, 3, (), SOFT),
    FaultClass("lost adapter", "nic", p.vanish, 3, (), HARD, EVERY),
    FaultClass("failing adapter", "nic", p.ail, 2, (), SOFT),
    FaultClass("lossy adapter", "nic", p.lossy, 3, (), SOFT, EVERY, small=True, busy=True),
    FaultClass("slow adapter", "nic", p.slow, 2, (), SLOW, EVERY, rates=True, busy=True),
    FaultClass("slow PCIe link", "nic", p.pcie, 3, (), SOFT, EVERY),
    FaultClass("pausing adapter", "nic", p.pause, 3, (), SLOW, spread=True, busy=True),
    FaultClass("incast", "link", p.incast, 2, ("rail",), SLOW, spread=True),
    FaultClass("stuck counters", "nic", p.frozen, 1, ("host",), SLOW, rates=True, busy=True),
    FaultClass("dead host", "host", p.die, 8, (), DEATH, EVERY),
    FaultClass("host reboot", "host", p.restart, 3, (), DEATH, EVERY),
    FaultClass("dead tray", "tray", p.die, 2, _TRAY, HARD, EVERY),
    FaultClass("cage down", "cage", p.down, 2, _MODULE, HARD),
    FaultClass("cage flap", "cage", p.flap, 2, _MODULE, FLAP),
    FaultClass("cage errors", "cage", p.errors, 1, _MODULE, SOFT),
    FaultClass("module down", "module", p.down, 3, _MODULE, HARD),
    FaultClass("module flap", "module", p.flap, 3, _MODULE, FLAP),
    FaultClass("module errors", "module", p.errors, 2, _MODULE, SOFT),
    FaultClass("hot twin module", "module", p.heat, 1, _MODULE, SLOW),
    FaultClass("lost PCIe switch", "pcie_switch", p.vanish, 4, _PCIE, HARD, EVERY),
    FaultClass("slow PCIe switch", "pcie_switch", p.pcie, 1, _PCIE, SOFT, EVERY),
    FaultClass("part of a leaf flaps", "quadrant", p.flap, 3, _PART, FLAP),
    FaultClass("part of a leaf errs", "quadrant", p.errors, 2, _PART, SOFT),
    FaultClass("part of a leaf down", "quadrant", p.part_down, 2, _PART, HARD),
    FaultClass("line card down", "line_card", p.down, 2, _PART, HARD),
    FaultClass("line card flaps", "line_card", p.flap, 2, _PART, FLAP),
    FaultClass("dead leaf", "leaf", p.down, 4, ("leaf",), HARD),
    FaultClass("leaf reboot", "leaf", p.reboot, 2, ("leaf",), HARD),
    FaultClass("half a leaf down", "leaf", p.part_down, 2, ("leaf",), HARD),
    FaultClass("leaf flaps", "leaf", p.flap, 2, ("leaf",), FLAP),
    FaultClass("gray leaf", "leaf", p.gray, 2, ("leaf",), SOFT, small=True, spread=True, busy=True),
    FaultClass("crowded leaf", "leaf", p.crowd, 2, ("leaf", "rail"), SLOW),
    FaultClass("gray spine", "spine", p.gray, 3, _SPINE, SOFT, small=True, spread=True, busy=True),
    FaultClass("dead spine", "spine", p.down, 1, _SPINE, HARD, (IB,), swept=True),
    FaultClass("uplink down", "transit_link", p.down, 2, (), HARD, (IB,), swept=True),
    FaultClass("uplink flap", "transit_link", p.flap, 1, (), FLAP, (IB,), swept=True),
    FaultClass("uplink errors", "transit_link", p.errors, 1, (), SOFT, (IB,), swept=True),
    FaultClass("gray uplink", "transit_link", p.gray, 2, (), SOFT, small=True, spread=True, busy=True),
    FaultClass("leaves lose a feed", "feed", p.down, 3, _FEED, HARD),
    FaultClass("feed dips", "feed", p.reboot, 2, _FEED, HARD),
    FaultClass("hosts lose power", "power", p.die, 3, _FEED, HARD, EVERY),
    FaultClass("warm rack", "rack", p.heat, 1, _ROW, SLOW),
    FaultClass("warm row", "row", p.heat, 2, _ROW, SLOW),
    FaultClass("cut bundle", "bundle", p.down, 3, _BUNDLE, HARD),
    FaultClass("bad batch errs", "batch", p.errors, 2, _BATCH, SOFT),
    FaultClass("bad batch flaps", "batch", p.flap, 1, _BATCH, FLAP),
    FaultClass("silent segment", "segment", p.mute, 4, _SEGMENT, SILENCE, EVERY),
    FaultClass("NVLink of a GPU", "gpu", p.nvlink, 3, (), SOFT, EVERY),
    FaultClass("NVLink chip", "chip", p.nvlink, 2, _CHIP, SOFT, EVERY),
)
# fmt: on
"""In the order of the tables."""

NEEDED = {"module": 2, "cage": 2}
"""Members that must show a fault before its group has to be named; 3 of any other sort."""
USUALLY = 3
SINGLE = ("link", "nic", "host", "gpu", "transit_link", "spine")
"""Sorts of places that are one component."""
NAMED_GROUPS = ("module", "cage", "pcie_switch", "tray", "quadrant", "line_card", "feed", "power", "batch")
"""Sorts whose naming is scored by itself."""
