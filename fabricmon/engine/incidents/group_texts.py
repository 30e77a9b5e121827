"""Texts of incidents of groups: modules, cages, parts of switches, feeds, racks, batches, unknown common causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WAYS: Mapping[str, str] = {"down": "down", "flapping": "flapping", "with bit errors": "with {ill}"}
"""End of a mode's name -> what its members are."""

JOBS: Mapping[str, str] = {"down": "stall or fail", "flapping": "stall or fail", "with bit errors": "slow down or fail"}
"""End of a mode's name -> what it does to jobs."""


class ModeText(NamedTuple):
    """`{name}` is the component's name, `{bad}` and `{of}` its members, `{ill}` what is wrong with these and `{reason}`
    why they have one cause: `reason`, unless it is their heat (heat_texts.py)."""

    title: str
    why: str
    action: str
    reason: str = ""


class GroupText(NamedTuple):
    """what: the subject of the title; shares: what its members have in common."""

    what: str
    shares: str
    action: str


_GROUPS: Mapping[str, GroupText] = {
    "module": GroupText(
        "Ports {name}", "Two neighbouring ports of a switch are often in one twin-port module.",
        "Check whether both ports are one module. If so replace that module, else check each cable.",
    ),
    "module of a host": GroupText(
        "Adapters of cage {name}",
        "Two neighbouring adapters of a host are often on one twin-port module.",
        "Check whether both links are one module. If so replace that module, else check each cable.",
    ),
    "part of a leaf": GroupText(
        "Ports of leaf {name}", "Too many ports of this switch failed for chance.",
        "Read the switch's log; check its supply, its temperature and its firmware before any cable.",
    ),
    "ports of a leaf": GroupText(
        "Leaf {name}", "These ports are next to each other on one switch: a line card or a part of its chip.",
        "Read the switch's log for that line card or part of the chip; reload or replace it. Spare the cables.",
    ),
    "leaves of one feed": GroupText(
        "Leaves on feed {name}", "These switches have one power feed, by your configuration.",
        "Check that feed: breaker, PDU, UPS. Then the uptime of its switches.",
    ),
    "hosts of one chassis": GroupText(
        "Hosts of chassis {name}", "The hosts share a chassis: its power supply, backplane and controller.",
        "Check the chassis: supply, controller, its event log.",
    ),
    "rack": GroupText(
        "Hosts of rack {name}", "The hosts are in one rack and share its power, cooling and cable ways.",
        "Check cooling, power and cable ways of the rack before any single cable.",
    ),
    "row": GroupText(
        "Hosts of row {name}", "The hosts are in one row and share its power, cooling and cable ways.",
        "Check cooling, busway and cable ways of the row before any single cable.",
    ),
    "firmware": GroupText(
        "Adapters with firmware {name}", "These adapters have the same firmware; most others have a different one.",
        "Compare with the others; roll that firmware back on one host and see whether it ends.",
    ),
    "board": GroupText(
        "Adapters of board {name}", "These adapters are of the same board type; most others are not.",
        "Compare with the others: batch, date code, firmware; ask the vendor about this board.",
    ),
}  # fmt: skip
"""By the first half of the mode's name."""


def _text(group: GroupText, way: str) -> ModeText:
    return ModeText(
        f"{group.what}: {{bad}} of {{of}} links {WAYS[way]}",
        f"{group.shares} {{reason}}; jobs on these links {JOBS[way]}.",
        group.action,
        "One cause is more likely than {bad} separate faults",
    )


_UNKNOWN = "Find what they share: cable ways, supplies, a change, a batch. State it in the topology if it recurs."
_NO_MAP = "They began together, too many for chance, so one cause is likely. fabricmon knows no part that they share."
_NO_MAP_ILL = "They began together, too many for chance: {reason}. fabricmon knows no part that they share."
_SWITCH = "the switch is faulty, not {bad} cables"

GROUP_TEXTS: Mapping[str, ModeText] = {
    **{f"{title} {way}": _text(group, way) for title, group in _GROUPS.items() for way in WAYS},
    **{f"switch {way}": ModeText(
        f"Switch {{name}} above the leaves: {{bad}} of {{of}} cables {what}",
        "The cables of one switch failed together: {reason}. Jobs that send through it slow down or fail.",
        "Check the switch: supply, log, firmware. Take it out of the routing before any cable is touched.",
        _SWITCH,
    ) for way, what in WAYS.items()},
    **{f"cables of a leaf {way}": ModeText(
        f"Leaf {{name}}: {{bad}} of {{of}} cables {what}",
        "The cables of one leaf failed together, as a sweep reads them: {reason}. Jobs below it stall or fail.",
        "Check power, console and log of the switch before any cable is touched.",
        _SWITCH,
    ) for way, what in WAYS.items()},
    **{f"module by names {way}": ModeText(
        f"Most likely one switch module: {{bad}} of 2 links {what}",
        "These are the same port of two hosts next to each other, which mostly share a module of the switch: {reason}. "
        "No map shows the switch.",
        "Find the switch ports at the other ends. If they are one module replace that, else check each cable.",
        "one cause is more likely than two faults",
    ) for way, what in WAYS.items()},
    "PCIe switch lost": ModeText(
        "{bad} of {of} adapters behind PCIe switch {name} vanished",
        "The adapters share one PCIe switch and disappeared together: that switch, its link or its power failed. Jobs "
        "that use them fail.",
        "Read the kernel log (AER, hot-plug); drain and power-cycle the host; replace the board with that switch.",
    ),
    "PCIe switch slow": ModeText(
        "PCIe links behind switch {name} are degraded: {bad} of {of}",
        "The devices share one PCIe switch, and their links became slow together. Jobs that use them run slower.",
        "Drain the host and power-cycle it; if it comes back, reseat or replace the board with that switch.",
    ),
    "PCIe switch with errors": ModeText(
        "PCIe links behind switch {name} have errors: {bad} of {of}",
        "The devices share one PCIe switch, and several of their links have errors: that switch, its link or its board "
        "is faulty. Jobs that use them run slower, or fail.",
        "Read the kernel log (AER); drain the host and power-cycle it; if it comes back, replace the board with that "
        "switch.",
    ),
    "PCIe switch too slow for what is received": ModeText(
        "PCIe links behind switch {name} are degraded, and its adapters pause their switches",
        "The adapters share one PCIe switch whose links became slow: they receive more than they can pass to the host "
        "and pause the network. Senders all over the fabric are slowed down.",
        "Drain the host and power-cycle it; if it comes back, reseat or replace the board with that switch.",
    ),
    "hosts of one chassis dead": ModeText(
        "{bad} of {of} hosts of chassis {name} are dead",
        "The hosts of one chassis stopped reporting together, and their links went dark or other hosts lose packets to "
        "them. Jobs on them have stopped.",
        "Check the chassis: supply, controller, its event log.",
    ),
    "hosts of one chassis silent": ModeText(
        "{bad} of {of} hosts of chassis {name} do not answer",
        "The hosts of one chassis stopped reporting together: its power or backplane, or only its link to the "
        "management network. Other hosts have not confirmed that they are down.",
        "Check the chassis controller and its management link; then supply and event log.",
    ),
    "hosts of a rack dead": ModeText(
        "{bad} of {of} hosts of rack {name} are dead",
        "Hosts of one rack stopped answering together, and their links went dark or other hosts lose packets to them. "
        "Their jobs have stopped.",
        "Check the power of the rack: PDU, busway, breakers; then a BMC.",
    ),
    "hosts of a rack silent": ModeText(
        "{bad} of {of} hosts of rack {name} do not answer",
        "Hosts of one rack stopped reporting together: its power, or only its management switch. Other hosts have not "
        "confirmed that they are down.",
        "Check the management switch of the rack; then a BMC or PDU.",
    ),
    "ports wait for the subnet manager": ModeText(
        "{bad} ports wait for the subnet manager of {name}",
        "Ports of several hosts have a physical link, but no subnet manager has made them ACTIVE: it is dead, hangs or "
        "does not reach them. The cables and the hosts work; jobs on these ports cannot start.",
        "Check the subnet manager (`sminfo`, `systemctl status opensm`, UFM) and its log; restart it or let a standby "
        "take over. Leave cables and hosts alone.",
    ),
    "ports of a host wait for the subnet manager": ModeText(
        "{bad} of {of} fabric links of {name} wait for the subnet manager",
        "The ports of this host have a physical link, but no subnet manager has made them ACTIVE: it does not reach "
        "them, or refuses this host. The cables work; jobs on it stall or fail.",
        "Check that the subnet manager runs and sees the host (`sminfo`, its log, its partitions). Leave the cables "
        "alone.",
    ),
    "hosts silent": ModeText("{bad} hosts stopped reporting together", _NO_MAP, _UNKNOWN),
    "hosts dead": ModeText(
        "{bad} hosts died together",
        "These hosts stopped answering together, and their links went down or other hosts lose packets to them. Their "
        "jobs have stopped; the topology has nothing that all of them share.",
        "Find what these hosts share: a power feed, a breaker, cooling.",
    ),
    "links flapping": ModeText("{bad} links flap together", _NO_MAP, _UNKNOWN),
    "links down": ModeText("{bad} links went down together", _NO_MAP, _UNKNOWN),
    "ports congested": ModeText(
        "{bad} ports of several groups are congested together",
        "Ports of several rails or leaves began to wait at the same time: the load of one job, or a fault above them. "
        "Jobs on them slow down.",
        "Check the jobs that started or stalled then, and the uplinks that these ports have in common.",
    ),
    "PCIe links slow": ModeText(
        "{bad} PCIe links run below their capability: probably a common setting or power state",
        "Many PCIe links became slow at the same time, as work began: a setting of the hosts is more likely than {bad} "
        "broken slots. Jobs on them run slower.",
        "Compare BIOS and ASPM settings and the firmware with a host that runs at full speed; `lspci -vvv` (LnkSta) "
        "under load. Spare the hardware until then.",
    ),
    "links below their rate": ModeText(
        # they may have been so before they could be compared: no moment is named
        "{bad} links are below the rate of their peers",
        "These links were found below the rate of most of their make together, now or since they were first compared: "
        "a setting, cables or ports that allow no more. Jobs on them run at the slower rate.",
        "Compare what the links share: cable type, speed setting or split of the switch ports, model of the adapters. "
        "By design: give these ports a role of their own, and its rate in `rules.link_degraded.expected`.",
    ),
    "adapters pausing": ModeText("{bad} adapters began to pause their switches together", _NO_MAP, _UNKNOWN),
    "GPUs with NVLink faults": ModeText("NVLinks of {bad} GPUs failed together", _NO_MAP, _UNKNOWN),
    "adapters failing": ModeText("{bad} ports lost their adapters together", _NO_MAP, _UNKNOWN),
    "connections losing packets": ModeText("{bad} connections began to lose packets together", _NO_MAP, _UNKNOWN),
    "links with bit errors": ModeText("{bad} links began to have {ill} together", _NO_MAP_ILL, _UNKNOWN,
                                      "one cause is likely"),
}  # fmt: skip
