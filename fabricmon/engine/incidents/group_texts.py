"""Texts of incidents of groups: modules, cages, parts of switches, feeds, racks, batches, unknown common causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WAYS: Mapping[str, str] = {"down": "down", "flapping": "flapping", "with bit errors": "with bit errors"}
"""End of a mode's name -> what its members are."""


class ModeText(NamedTuple):
    """`{name}` is the component's name, `{bad}` and `{of}` its members."""

    title: str
    why: str
    action: str


class GroupText(NamedTuple):
    """what: the subject of the title; shares: what its members have in common."""

    what: str
    shares: str
    action: str


_GROUPS: Mapping[str, GroupText] = {
    "module": GroupText(
        "Ports {name}", "Two neighbouring ports of a switch share one twin-port module: plug, temperature and supply.",
        "Check whether both ports are one module. If so replace that module, else check each cable.",
    ),
    "module of a host": GroupText(
        "Adapters of cage {name}",
        "Two neighbouring adapters of a host: where cages are twin-port, one module has both links.",
        "Check whether both links are one module. If so replace that module, else check each cable.",
    ),
    "part of a leaf": GroupText(
        "Ports of leaf {name}", "They are on one switch, and more of them than chance explains.",
        "Read the switch's log; check its supply, its temperature and its firmware before any cable.",
    ),
    "ports of a leaf": GroupText(
        "Leaf {name}", "They are neighbours, or of one quadrant, of one switch: a line card, a pipe or a quadrant.",
        "Read the switch's log for that line card or part of the chip; reload or replace it. Spare the cables.",
    ),
    "leaves of one feed": GroupText(
        "Leaves on feed {name}", "The site states that these switches have one power feed.",
        "Check that feed: breaker, PDU, UPS. Then the uptime of its switches.",
    ),
    "hosts of one chassis": GroupText(
        "Hosts of chassis {name}", "The hosts share a chassis: its supply, its backplane, its controller.",
        "Check the chassis: supply, controller, its event log.",
    ),
    "rack": GroupText(
        "Hosts of rack {name}", "The hosts are in one rack: power, cooling and cable ways are shared.",
        "Check cooling, power and cable ways of the rack before any single cable.",
    ),
    "row": GroupText(
        "Hosts of row {name}", "The hosts are in one row: cooling, busway and cable ways are shared.",
        "Check cooling, busway and cable ways of the row before any single cable.",
    ),
    "firmware": GroupText(
        "Adapters with firmware {name}", "The adapters have one firmware in common, which most others do not have.",
        "Compare with the others; roll that firmware back on one host and see whether it ends.",
    ),
    "board": GroupText(
        "Adapters of board {name}", "The adapters are of one board type, which most others are not.",
        "Compare with the others: batch, date code, firmware; ask the vendor about this board.",
    ),
}  # fmt: skip
"""By the first half of the mode's name."""


def _text(group: GroupText, way: str) -> ModeText:
    return ModeText(
        f"{group.what}: {{bad}} of {{of}} links {WAYS[way]}",
        f"{group.shares} One cause explains {{bad}} links better than {{bad}} faults at once.",
        group.action,
    )


_UNKNOWN = "Find what they share: cable ways, supplies, a change, a batch. State it in the topology if it recurs."
_NO_MAP = "No part is known that they share. So many beginnings at once are no chance: one cause, not {bad} faults."

GROUP_TEXTS: Mapping[str, ModeText] = {
    **{f"{title} {way}": _text(group, way) for title, group in _GROUPS.items() for way in WAYS},
    **{f"switch {way}": ModeText(
        f"Switch {{name}} above the leaves: {{bad}} of {{of}} cables {what}",
        "The cables of one switch failed together; hosts are below none of its ports, so only a sweep shows it.",
        "Check the switch: supply, log, firmware. Take it out of the routing before any cable is touched.",
    ) for way, what in WAYS.items()},
    "PCIe switch lost": ModeText(
        "{bad} of {of} adapters behind PCIe switch {name} vanished",
        "The adapters share one PCIe switch, and vanished together: the switch, its link or its supply.",
        "Read the kernel log (AER, hot-plug); drain and power-cycle the host; replace the board with that switch.",
    ),
    "PCIe switch slow": ModeText(
        "PCIe links behind switch {name} are degraded: {bad} of {of}",
        "The devices share one PCIe switch, and their links trained below their capability together.",
        "Drain the host and power-cycle it; if it comes back, reseat or replace the board with that switch.",
    ),
    "hosts of one chassis dead": ModeText(
        "{bad} of {of} hosts of chassis {name} are dead",
        "The hosts of one chassis fell silent together, and peers lose packets to them.",
        "Check the chassis: supply, controller, its event log.",
    ),
    "hosts of one chassis silent": ModeText(
        "{bad} of {of} hosts of chassis {name} do not answer",
        "The hosts of one chassis fell silent together, and no peer has confirmed that they are dead: its supply or "
        "backplane, or its link to the management network.",
        "Check the chassis controller and its management link; then supply and event log.",
    ),
    "hosts of a rack dead": ModeText(
        "{bad} of {of} hosts of rack {name} are dead",
        "Hosts of one rack fell silent together, and peers lose packets to them.",
        "Check the power of the rack: PDU, busway, breakers; then a BMC.",
    ),
    "hosts of a rack silent": ModeText(
        "{bad} of {of} hosts of rack {name} do not answer",
        "Hosts of one rack fell silent together, and no peer has confirmed that they are dead: the management switch "
        "of the rack, or its power.",
        "Check the management switch of the rack; then a BMC or PDU.",
    ),
    "hosts silent": ModeText("{bad} hosts fell silent together", _NO_MAP, _UNKNOWN),
    "links flapping": ModeText("{bad} links flap together", _NO_MAP, _UNKNOWN),
    "links down": ModeText("{bad} links went down together", _NO_MAP, _UNKNOWN),
    "ports congested": ModeText(
        "{bad} ports of several groups are congested together",
        "Ports of several rails or leaves began to wait at the same time: load of one job, or a cause above them.",
        "Check the jobs that started or stalled then, and at the uplinks that these ports have in common.",
    ),
    "PCIe links slow": ModeText(
        "{bad} PCIe links run below their capability: probably a common setting or power state",
        "So many adapters became slow at the same time, as work began. A link that saves power returns to its speed "
        "within milliseconds, so a setting of the platform is more likely than {bad} broken slots.",
        "Compare BIOS and ASPM settings and the firmware with a host that runs at full speed; `lspci -vvv` (LnkSta) "
        "under load. Spare the hardware until then.",
    ),
    "links below their rate": ModeText("{bad} links came up below their rate together", _NO_MAP, _UNKNOWN),
    "adapters pausing": ModeText("{bad} adapters began to pause their switches together", _NO_MAP, _UNKNOWN),
    "GPUs with NVLink faults": ModeText("NVLinks of {bad} GPUs failed together", _NO_MAP, _UNKNOWN),
    "links with bit errors": ModeText("{bad} links began to have bit errors together", _NO_MAP, _UNKNOWN),
}  # fmt: skip
