"""Title, why and action of incidents by mode. Modes without a row use the texts of their rule."""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.engine.incidents.group_texts import GROUP_TEXTS, ModeText

_SWITCH_OUT = "Take the switch out of the routing, then read its drop and parity counters; reload or replace it."


def _all_of(switch: str) -> ModeText:
    return ModeText(
        f"{switch} {{name}} loses packets: {{bad}} of {{of}} flows through it",
        "The lossy flows have this switch in common, and flows around it are clean.",
        _SWITCH_OUT,
    )


def _half_of(switch: str) -> ModeText:
    return ModeText(
        f"Part of {switch} {{name}} loses packets: {{bad}} of {{of}} flows through it",
        "The lossy flows have this switch in common, about half of those through it: some of its ports or one of its "
        "pipelines is bad.",
        _SWITCH_OUT,
    )


TEXTS: Mapping[str, ModeText] = {
    **GROUP_TEXTS,
    "NIC bad": ModeText(
        "NIC {name} is faulty",
        "The device reports errors or has vanished; a cable alone cannot cause that.",
        "Read the kernel log for the device; reset or reload its driver; replace the adapter when it comes back.",
    ),
    "NIC dead": ModeText(
        "NIC {name} is dead",
        "The device reports a fault or has vanished, and its link is down: one broken adapter explains both.",
        "Drain the host, power-cycle it (a warm reboot keeps the adapter powered), replace the adapter if it stays.",
    ),
    "host down": ModeText(
        "{name} went down: {bad} of its links and its agent",
        "The links of one host went down together and then its agent stopped reporting: a reboot, a shutdown or a "
        "crash of the host, not {bad} broken cables.",
        "Check the host's console or BMC. Its cables need no attention.",
    ),
    "all links of a host down": ModeText(
        "{bad} of {of} fabric links of {name} are down together",
        "The host runs, but its links went down at the same time: driver, firmware or PCIe trouble of the host, or all "
        "its cables were moved; {bad} independent cable faults are less likely.",
        "Read the kernel log of the host (driver, PCIe); check for ongoing work on it.",
    ),
    "leaf down": ModeText(
        "Leaf {name} is down: {bad} of {of} links",
        "The links of one leaf went down together; one dead switch explains them better than {bad} cables.",
        "Check power and console of the switch. Do not touch the cables.",
    ),
    "leaf rebooting": ModeText(
        "Leaf {name} restarts: {bad} of {of} links went down and up",
        "The links of one leaf went down and up together; a restarting switch explains them better than {bad} cables.",
        "Check uptime and log of the switch.",
    ),
    "rail down": ModeText(
        "Rail {name} is down: {bad} of {of} links",
        "The links of one rail went down together on many hosts.",
        "Check the switches of this rail: power, firmware roll-out, subnet manager.",
    ),
    "power lost": ModeText(
        "{bad} of {of} hosts of power domain {name} are silent: power, or the monitoring network",
        "At least 80 % of the domain stopped answering within one window. No peer has confirmed it yet: a cut in the "
        "monitoring network of these hosts would look the same.",
        "Check a BMC or PDU of the domain. Powered: check the management switch of these hosts.",
    ),
    "host slower than its peers": ModeText(
        "{name} is slower than its peers on {bad} of its ports",
        "Most adapters of one host carry less than those of the other hosts of its job: the host, not an adapter.",
        "Check CPU and PCIe load, throttled GPUs and the data loader of this host.",
    ),
    "storage path congested": ModeText(
        "Storage path {name} is congested: {bad} of {of} ports",
        "Storage ports of several hosts are congested together for longer than a checkpoint takes: the storage "
        "servers or their network, not the hosts.",
        "Check load and links of the storage servers, then the switches of the storage network.",
    ),
    "storage path below a leaf congested": ModeText(
        "Storage ports below leaf {name} are congested: {bad} of {of}",
        "Storage ports of one leaf are congested together for longer than a checkpoint takes.",
        "Check the uplinks of that leaf, then load and links of the storage servers.",
    ),
    "rail congested": ModeText(
        "Rail {name} is congested: {bad} of {of} ports",
        "At least half of its active ports cannot transmit, and no receiver on it pauses or is overrun: the shared "
        "links are too narrow for the traffic, not {bad} ports.",
        "Compare the uplinks of its leaves with those of other rails: lost uplinks overload the rest. Else check which "
        "jobs share the rail (their placement) and whether routing spreads them evenly.",
    ),
    "leaf congested": ModeText(
        "Ports below leaf {name} are congested: {bad} of {of}",
        "At least half of its active ports cannot transmit, and no receiver below it pauses or is overrun: its uplinks "
        "are too narrow for the traffic, not {bad} ports.",
        "Compare the leaf's uplinks with those of its peers: lost uplinks overload the rest. Else check which jobs "
        "share the leaf and whether routing spreads them evenly.",
    ),
    "PCIe link of a NIC too slow for what it receives": ModeText(
        "PCIe link of {name} is degraded and back-pressures other ports",
        "The PCIe link of this adapter has fewer lanes or a lower speed than both its ends support, and the adapter "
        "sends PFC pause: it cannot drain its traffic. Ports that wait for it are victims.",
        "Drain the host and power-cycle it, so that the link trains anew; if it comes back narrow, reseat the card or "
        "its riser, then swap it. The ports that wait need no attention.",
    ),
    "learned group down": ModeText(
        "{name} is down: {bad} of {of} links",
        "These links went down together, as before. The topology does not contain what they share; a switch or a patch "
        "panel explains it better than {bad} broken cables.",
        "Find what these ports have in common, add it to the topology, then check that switch.",
    ),
    "learned group restarting": ModeText(
        "{name} restarts: {bad} of {of} links went down and up",
        "These links went down and up together, as before. The topology does not contain what they share.",
        "Find what these ports have in common, add it to the topology, then check that switch.",
    ),
    "NVLink domain down": ModeText(
        "NVLinks of {bad} of {of} GPUs of {name} are down",
        "Most GPUs of one NVLink domain lost links together; a switch, the fabric manager or the board explains that "
        "better than {bad} faulty GPUs.",
        "Read the fabric manager's log and the kernel log for SXid errors; restart the fabric manager or reboot; if "
        "links stay down, have the NVSwitch board or tray checked.",
    ),
    "NVLink domain with errors": ModeText(
        "NVLinks of {bad} of {of} GPUs of {name} have errors",
        "Most GPUs of one NVLink domain show errors together; a switch or the board explains that better than {bad} "
        "faulty GPUs.",
        "Read the kernel log for SXid errors and compare the link numbers: the same on all GPUs is a switch.",
    ),
    "monitoring path cut": ModeText(
        "{bad} of {of} hosts of {name} are unreachable for the monitoring",
        "At least 80 % of the domain stopped answering within one window.",
        "Check the management switch of these hosts.",
    ),
    "host dead": ModeText(
        "{name} is unreachable, and its peers lose packets to it",
        "Its agent is silent, nothing answers, and packets to it are lost since then: the host or its adapters are "
        "dead, not only the monitoring network.",
        "Check the host's console or BMC. Its jobs have stopped; drain it.",
    ),
    "cable or optic losing packets": ModeText(
        "Link {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this cable in common, and flows around it are clean. Both its ends and the cable are "
        "equally likely.",
        "Read error and drop counters at both ends; take the link out of the routing, clean or replace the cable.",
    ),
    "NIC losing packets": ModeText(
        "NIC {name} loses packets: {bad} of {of} of its flows",
        "The lossy flows have this adapter in common, and flows around it are clean.",
        "Check the errors of its links first; move the jobs, reset the adapter, then replace it.",
    ),
    "link losing packets": ModeText(
        "Link {name} loses packets",
        "This port loses a larger share of its packets than any of its neighbours: its own cable or adapter is more "
        "likely at fault than a shared switch.",
        "Compare errors at both ends of its cable; clean or replace the cable, then the adapter.",
    ),
    "leaf losing packets": ModeText(
        "Leaf {name} loses packets: {bad} of {of} ports",
        "Packets through this leaf are lost more often than elsewhere, while its links stay up: the switch drops "
        "silently.",
        "Read drop and parity counters of the switch, then reload or replace it. Its cables need no attention.",
    ),
    "uplink of a leaf losing packets": ModeText(
        "An uplink of leaf {name} loses packets, or the leaf: {bad} of {of} ports",
        "Half of the lossy ports are below this leaf, and the rest send to it: they share the leaf and its uplinks. "
        "The evidence allows no finer answer.",
        "Read error and drop counters of the leaf's uplinks, at both ends.",
    ),
    "half of a leaf losing packets": _half_of("leaf"),
    "spine losing packets": _all_of("Spine"),
    "half of a spine losing packets": _half_of("spine"),
    "core losing packets": _all_of("Core switch"),
    "half of a core losing packets": _half_of("core switch"),
    "pod losing packets": ModeText(
        "Pod {name} loses packets above its leaves: {bad} of {of} ports",
        "Ports of all its leaves lose alike, and other pods lose less: one of its spines, or a cable to one, drops "
        "silently. The evidence allows no finer answer.",
        "Read drop counters of the spines that are listed. Loss by flow, or counters of the switches, would name one.",
    ),
    "plane losing packets": ModeText(
        "Plane {name} loses packets above its leaves: {bad} of {of}",
        "Packets through this plane are lost from any leaf: one of its top switches, or a cable to one, drops "
        "silently. The evidence allows no finer answer.",
        "Read drop counters of the switches that are listed. Loss by flow, or counters of switches, would name one.",
    ),
    "network losing packets": ModeText(
        "Packets are lost all over network {name}: {bad} of {of} ports",
        "All parts of the network lose packets alike. The evidence allows no finer answer.",
        "Check for changes everywhere: routing, firmware, lossless settings, a job that overruns its receivers.",
    ),
}

CONFIRMED_TEXTS: Mapping[str, ModeText] = {
    "power lost": ModeText(
        "{bad} of {of} hosts of power domain {name} are without power",
        "At least 80 % of the domain stopped answering within one window, and peers lose packets to them: the hosts "
        "are dead, not only the monitoring network.",
        "Check a BMC or PDU of the domain, its feed and its breaker.",
    ),
}
"""Used instead where peers lose packets towards the component."""
