"""Title, why and action of incidents by mode. Modes without a row use the texts of their rule."""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.engine.incidents.group_texts import GROUP_TEXTS, WAYS, ModeText

_SWITCH_OUT = "Take the switch out of the routing, then read its drop and parity counters; reload or replace it."


def _all_of(switch: str) -> ModeText:
    return ModeText(
        f"{switch} {{name}} loses packets: {{bad}} of {{of}} flows through it",
        "All connections that lose packets go through this switch; connections around it lose none. Jobs that send "
        "through it slow down or fail.",
        _SWITCH_OUT,
    )


def _half_of(switch: str) -> ModeText:
    return ModeText(
        f"Part of {switch} {{name}} loses packets: {{bad}} of {{of}} flows through it",
        "About half of the connections through this switch lose packets: some of its ports, or a part of its chip, is "
        "bad. Jobs that send through that part slow down or fail.",
        _SWITCH_OUT,
    )


_SOME_OF_A_HOST = ModeText(
    "{bad} of {of} fabric links of {name} went down together",
    "The host runs, and others of its links are up: what these share failed, as an adapter, a PCIe switch, a bundle of "
    "cables or a leaf. Jobs on them stall or fail.",
    "Read the kernel log of the host (driver, PCIe); check what these links share, and for ongoing work on it.",
)

TEXTS: Mapping[str, ModeText] = {
    **GROUP_TEXTS,
    "NIC bad": ModeText(
        "NIC {name} is faulty",
        "The adapter reports errors or has disappeared; a cable cannot cause that. Jobs that use it hang or fail.",
        "Read the kernel log for the device; reset or reload its driver; replace the adapter when it comes back.",
    ),
    "NIC dead": ModeText(
        "NIC {name} is dead",
        "The adapter reports a fault or has disappeared, and its link is down: one broken adapter explains both. Jobs "
        "that use it hang or fail.",
        "Drain the host, power-cycle it (a warm reboot keeps the adapter powered), replace the adapter if it stays.",
    ),
    "host down": ModeText(
        "{name} went down: {bad} of its links and its agent",
        "The links of this host went down together, then its agent stopped: the host rebooted, was shut down or "
        "crashed. Jobs on it have stopped.",
        "Check the host's console or BMC. Its cables need no attention.",
    ),
    "all links of a host down": ModeText(
        "{bad} of {of} fabric links of {name} are down together",
        "The host runs, but its links went down at the same time: its driver, firmware or PCIe failed, or somebody "
        "moved all its cables. Jobs on it stall or fail.",
        "Read the kernel log of the host (driver, PCIe); check for ongoing work on it.",
    ),
    "some links of a host down": _SOME_OF_A_HOST,
    "links of a host flapping": ModeText(
        "{bad} of {of} fabric links of {name} flap together",
        "These links go down and up at the same moments: what they share is unstable, as their driver, adapter, PCIe "
        "switch or leaf, not {bad} cables. Jobs on them stall or fail.",
        "Read the kernel log of the host at these times (driver, PCIe, power); then the log of the switch.",
    ),
    "leaf down": ModeText(
        "Leaf {name} is down: {bad} of {of} links",
        "All these links are on one leaf and went down together: the switch is down, not {bad} cables. Jobs on them "
        "stall or fail.",
        "Check power and console of the switch. Do not touch the cables.",
    ),
    "leaf rebooting": ModeText(
        "Leaf {name} restarts: {bad} of {of} links went down and up",
        "All these links are on one leaf and went down and up together: the switch restarted. Jobs on them stalled or "
        "failed.",
        "Check uptime and log of the switch.",
    ),
    "rail down": ModeText(
        "Rail {name} is down: {bad} of {of} links",
        "The links of one rail went down on many hosts at the same time. All jobs that use this rail stall or fail.",
        "Check the switches of this rail: power, firmware roll-out, {control}.",
    ),
    "power lost": ModeText(
        "{bad} of {of} hosts of power domain {name} are silent: power, or the monitoring network",
        "These hosts stopped answering together: power is lost, or only the monitoring network is cut. Other hosts "
        "have not confirmed yet that they are down.",
        "Check a BMC or PDU of the domain. Powered: check the management switch of these hosts.",
    ),
    "host slower than its peers": ModeText(
        "{name} is slower than its peers on {bad} of its ports",
        "Most adapters of this host carry less than those of the other hosts of its job: the host is slow, not one "
        "adapter. The whole job waits for it.",
        "Check CPU and PCIe load, throttled GPUs and the data loader of this host.",
    ),
    "storage path congested": ModeText(
        "Storage path {name} is congested: {bad} of {of} ports",
        "Storage ports of several hosts are congested for longer than a checkpoint takes: the storage servers or "
        "their network are overloaded, not the hosts. Jobs wait when they load or save data.",
        "Check load and links of the storage servers, then the switches of the storage network.",
    ),
    "storage path below a leaf congested": ModeText(
        "Storage ports below leaf {name} are congested: {bad} of {of}",
        "The storage ports of one leaf are congested for longer than a checkpoint takes. Jobs wait when they load or "
        "save data.",
        "Check the uplinks of that leaf, then load and links of the storage servers.",
    ),
    "rail congested": ModeText(
        "Rail {name} is congested: {bad} of {of} ports",
        "At least half of the active ports of this rail cannot send, and no single receiver causes it: the links that "
        "they share are too narrow for the traffic. Jobs on this rail slow down.",
        "Compare the uplinks of its leaves with those of other rails: lost uplinks overload the rest. Else check which "
        "jobs share the rail (their placement) and whether routing spreads them evenly.",
    ),
    "leaf congested": ModeText(
        "Ports below leaf {name} are congested: {bad} of {of}",
        "At least half of the active ports of this leaf cannot send, and no single receiver causes it: its uplinks are "
        "too narrow for the traffic. Jobs on this leaf slow down.",
        "Compare the leaf's uplinks with those of its peers: lost uplinks overload the rest. Else check which jobs "
        "share the leaf and whether routing spreads them evenly.",
    ),
    "neighbours congested": ModeText(
        "{bad} of {of} neighbouring ports {name} are congested",
        "These ports of one name, on hosts next to each other, cannot send, and the other ports of these hosts can: "
        "most likely they are on one leaf whose uplinks are too narrow. Jobs on them slow down.",
        "Find the leaf of these ports and compare its uplinks with those of its peers. Else check which jobs share it "
        "and whether one receiver takes what all of them send.",
    ),
    "PCIe link of a NIC too slow for what it receives": ModeText(
        "PCIe link of {name} is degraded and back-pressures other ports",
        "The PCIe link of this adapter is slower than it should be, so the adapter cannot take its traffic and makes "
        "other ports wait (PFC pause, no credits). Jobs on all these ports slow down.",
        "Drain the host and power-cycle it, so that the link trains anew; if it comes back narrow, reseat the card or "
        "its riser, then swap it. The ports that wait need no attention.",
    ),
    "learned group down": ModeText(
        "{name} is down: {bad} of {of} links",
        "These links went down together, as they did before: they share a switch or a patch panel that the topology "
        "does not list. Jobs on them stall or fail.",
        "Find what these ports have in common, add it to the topology, then check that switch.",
    ),
    "learned group restarting": ModeText(
        "{name} restarts: {bad} of {of} links went down and up",
        "These links went down and up together, as they did before: they share something that the topology does not "
        "list. Jobs on them stalled or failed.",
        "Find what these ports have in common, add it to the topology, then check that switch.",
    ),
    "NVLink domain down": ModeText(
        "NVLinks of {bad} of {of} GPUs of {name} are down",
        "Most GPUs of one NVLink domain lost links together: an NVSwitch, the fabric manager or the board failed, not "
        "{bad} GPUs. Jobs that use NVLink there stop or do not start.",
        "Read the fabric manager's log and the kernel log for SXid errors; restart the fabric manager or reboot; if "
        "links stay down, have the NVSwitch board or tray checked.",
    ),
    "NVLink domain with errors": ModeText(
        "NVLinks of {bad} of {of} GPUs of {name} have errors",
        "Most GPUs of one NVLink domain have errors at the same time: an NVSwitch or the board is faulty, not {bad} "
        "GPUs. Jobs that use NVLink there slow down.",
        "Read the kernel log for SXid errors and compare the link numbers: the same on all GPUs is a switch.",
    ),
    "monitoring path cut": ModeText(
        "{bad} of {of} hosts of {name} are unreachable for the monitoring",
        "These hosts stopped answering together, most likely because their monitoring network is cut. Jobs on them may "
        "run normally, but faults on these hosts are not detected.",
        "Check the management switch of these hosts.",
    ),
    "host dead": ModeText(
        "{name} is unreachable, and its peers lose packets to it",
        "Its agent does not report, nothing answers, and packets to it are lost: the host or its adapters are dead, "
        "not only the monitoring network. Jobs on it have stopped.",
        "Check the host's console or BMC. Its jobs have stopped; drain it.",
    ),
    "cable or optic losing packets": ModeText(
        "Link {name} loses packets: {bad} of {of} flows through it",
        "All connections that lose packets go through this cable; connections around it lose none. The cable or either "
        "of its ends is faulty; jobs that send through it slow down or fail.",
        "Read error and drop counters at both ends; take the link out of the routing, clean or replace the cable.",
    ),
    "NIC losing packets": ModeText(
        "NIC {name} loses packets: {bad} of {of} of its flows",
        "All connections that lose packets use this adapter; others lose none. Jobs that use it slow down or fail.",
        "Check the errors of its links first; move the jobs, reset the adapter, then replace it.",
    ),
    "host losing packets": ModeText(
        "Packets to host {name} are lost: {bad} of {of} flows",
        "All connections that lose packets go to this host, on several of its adapters: the host is down or hangs, or "
        "what its adapters share is faulty. Jobs on it stall or fail.",
        "Check that the host is up, then its kernel log and its PCIe switches.",
    ),
    "link losing packets": ModeText(
        "Link {name} loses packets",
        "This port loses more packets than any of its neighbours: its own cable or adapter is faulty, not a shared "
        "switch. Jobs that use it slow down.",
        "Compare errors at both ends of its cable; clean or replace the cable, then the adapter.",
    ),
    "link losing packets to its port": ModeText(
        "Link {name} loses packets that are sent to it",
        "All ports that lose packets send to this port, which loses none of its own. They are lost on its cable, in "
        "its adapter or at its switch port; jobs slow down.",
        "Compare errors at both ends of its cable; clean or replace the cable, then the adapter. The senders need no "
        "attention.",
    ),
    "cable between leaves losing packets": ModeText(
        "Cable {name} between switches loses packets",
        "Packets are lost between ports whose shortest ways go through this cable, and hardly elsewhere. Jobs that "
        "send through it slow down.",
        "Read error and drop counters at both of its ends. Take its link out of the routing, clean or replace the "
        "cable.",
    ),
    "leaf losing packets": ModeText(
        "Leaf {name} loses packets: {bad} of {of} ports",
        "Packets through this leaf are lost although its links are up: the switch drops them without an error. Jobs "
        "below it slow down or fail.",
        "Read drop and parity counters of the switch, then reload or replace it. Its cables need no attention.",
    ),
    "part of a leaf losing packets": ModeText(
        "Leaf {name} loses some packets: {bad} of {of} ports",
        "Ports below this leaf lose packets to one another, which no cable above it carries: a part of the switch is "
        "faulty. Jobs below it slow down or fail.",
        "Read drop and parity counters of the switch, then reload or replace it. Its cables need no attention.",
    ),
    "uplink of a leaf losing packets": ModeText(
        "An uplink of leaf {name} loses packets, or the leaf: {bad} of {of} ports",
        "Ports below this leaf lose packets, and so do ports that send to it: the leaf or one of its uplinks is "
        "faulty. Jobs that send through it slow down or fail.",
        "Read error and drop counters of the leaf's uplinks, at both ends.",
    ),
    "half of a leaf losing packets": _half_of("leaf"),
    "spine losing packets": _all_of("Spine"),
    "half of a spine losing packets": _half_of("spine"),
    "core losing packets": _all_of("Core switch"),
    "half of a core losing packets": _half_of("core switch"),
    "pod losing packets": ModeText(
        "Pod {name} loses packets above its leaves: {bad} of {of} ports",
        "All leaves of this pod lose about the same share of packets, and other pods lose less: one of its spines or a "
        "cable to it drops packets. Jobs in this pod slow down.",
        "Read drop counters of the spines that are listed. Loss by flow, or counters of the switches, would name one.",
    ),
    "plane losing packets": ModeText(
        "Plane {name} loses packets above its leaves: {bad} of {of}",
        "Packets through this plane are lost from every leaf: one of its top switches or a cable to it drops packets. "
        "Jobs that use this plane slow down.",
        "Read drop counters of the switches that are listed. Loss by flow, or counters of switches, would name one.",
    ),
    "ports without a map losing packets": ModeText(
        "{bad} ports lose packets",
        "No single port and no known leaf explains the losses on so many, and without a topology the switch, cable or "
        "plane that they share has no name. Jobs on these ports slow down.",
        "Give the server a topology, or look up which switches these ports have in common.",
    ),
    "network losing packets": ModeText(
        "Packets are lost all over network {name}: {bad} of {of} ports",
        "All parts of the network lose about the same share of packets, so no single part stands out. Jobs everywhere "
        "slow down.",
        "Check for changes everywhere: routing, firmware, lossless settings, a job that overruns its receivers.",
    ),
}

CONTROL: Mapping[frozenset[str], str] = {
    frozenset(("infiniband",)): "subnet manager",
    frozenset(("ethernet",)): "configuration",
    frozenset(("efa",)): "events of the provider",
}


def control_of(layers: frozenset[str]) -> str:
    """`{control}`: what governs all links of these link layers (technology.link_layer)."""
    return CONTROL.get(layers, "subnet manager or configuration")


def _part_of_group(what: str, how: str, why: str, action: str) -> ModeText:
    return ModeText(f"{{bad}} of {{of}} links of {what} went down {how}together", why, action)


def _part_of_learned(how: str, jobs: str) -> ModeText:
    return _part_of_group(
        "{name}", how,
        f"These links went down {how}together, as they did before, and others of the group did not: what these share "
        f"is not in the topology. Jobs on them {jobs}.",
        "Find what these ports have in common, add it to the topology, then check that switch.",
    )  # fmt: skip


PARTLY_TEXTS: Mapping[str, ModeText] = {
    "leaf down": _part_of_group(
        "leaf {name}", "",
        "These links went down together, and others of the leaf did not: a part of it, its supply or a bundle of "
        "cables failed, not {bad} cables. Jobs on them stall or fail.",
        "Check log, line cards and supply of the switch, then what these links share.",
    ),
    "leaf rebooting": _part_of_group(
        "leaf {name}", "and up ",
        "These links went down and up together, and others of the leaf did not: a part of it or its supply is "
        "unstable. Jobs on them stalled or failed.",
        "Check uptime and log of the switch.",
    ),
    "rail down": _part_of_group(
        "rail {name}", "",
        "These links of one rail went down together, and others of the rail did not: a switch of it failed, or what "
        "some of its switches share. Jobs on these links stall or fail.",
        "Find the switch or the part that these links share; check its power, firmware roll-out, {control}.",
    ),
    "learned group down": _part_of_learned("", "stall or fail"),
    "learned group restarting": _part_of_learned("and up ", "stalled or failed"),
    "all links of a host down": _SOME_OF_A_HOST,
    **{f"switch {way}": ModeText(
        f"Switch {{name}} above the leaves: {{bad}} of {{of}} cables {what}",
        "These cables of one switch failed together, and others of it did not: {reason}. Jobs that send through them "
        "slow down or fail.",
        "Check the switch: line cards, log, supply. Take that part out of the routing before any cable is touched.",
        "a part of it is faulty, or what the cables share",
    ) for way, what in WAYS.items()},
    **{f"cables of a leaf {way}": ModeText(
        f"Leaf {{name}}: {{bad}} of {{of}} cables {what}",
        "These cables of one leaf failed together, as a sweep reads them; others of it have shown nothing yet: "
        "{reason}. Jobs that send through them slow down or fail.",
        "Check the switch: power, log, line cards. Then check what these cables share.",
        "the leaf or a part of it is faulty",
    ) for way, what in WAYS.items()},
}  # fmt: skip
"""Instead of a text that claims the whole component, where less than MOSTLY of its observed members show it."""

SERIES_TEXT = ModeText(
    "One of {n} cables loses packets ({name}): {bad} of {of} flows through them",
    "All connections that lose packets go through these {n} cables, one after the other; connections around them lose "
    "none. One of the cables or of their ends is faulty; none of the flows separates them. Jobs that send through them "
    "slow down or fail.",
    "Read error and drop counters at all ends and at the switches between: they show which cable it is. Take its link "
    "out of the routing, clean or replace that cable.",
)
"""Instead of the text of a lossy cable, where it is one of several in series."""

EITHER_END_TEXT = ModeText(
    "One of {n} links loses packets ({name})",
    "All packets that are lost go through these cables, one after the other: nothing separates them. Jobs that use "
    "them slow down.",
    "Compare errors at both ends of each of these cables; clean or replace the one that has some, then the adapters.",
)
"""The same by ports alone."""

CONFIRMED_TEXTS: Mapping[str, ModeText] = {
    "power lost": ModeText(
        "{bad} of {of} hosts of power domain {name} are without power",
        "These hosts stopped answering together, and other hosts lose packets to them or their links went dark: the "
        "hosts are down, not only the monitoring network. Jobs on them have stopped.",
        "Check a BMC or PDU of the domain, its feed and its breaker.",
    ),
}
"""Used instead where peers lose packets towards the component."""
