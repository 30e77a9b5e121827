"""What an incident of a fault domain says: title, why, action by mode. Kinds of one link take their rule's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """`{name}` is the component's name, `{bad}` and `{of}` its members."""

    title: str
    why: str
    action: str


WORDS: Mapping[str, Words] = {
    "NIC bad": Words(
        "NIC {name} is faulty",
        "The device itself reports errors or has vanished; its cable alone cannot do that.",
        "Read the kernel log for the device; reset or reload its driver; replace the adapter when it comes back.",
    ),
    "NIC dead": Words(
        "NIC {name} is dead",
        "The device reports a fault or has vanished, and its link is down: one broken adapter explains both.",
        "Drain the host, power-cycle it (a warm reboot keeps the adapter powered), replace the adapter if it stays.",
    ),
    "host down": Words(
        "{name} went down: {bad} of its links and its agent went together",
        "The links of one host went down together and then its agent fell silent: a reboot, a shutdown or a crash of "
        "the host, not {bad} broken cables.",
        "Look at the host's console or BMC. Its cables need no attention.",
    ),
    "host gone": Words(
        "{name} has not come back",
        "Its links went down, its agent fell silent, and both stayed so for longer than a reboot takes.",
        "Look at the host's console or BMC.",
    ),
    "all links of a host down": Words(
        "{bad} of {of} fabric links of {name} are down together",
        "The host runs, but its links went down at the same time: driver, firmware or PCIe trouble of the host, or all "
        "its cables were moved; {bad} independent cable faults are less likely.",
        "Read the kernel log of the host (driver, PCIe); check whether somebody works on it.",
    ),
    "leaf down": Words(
        "Leaf {name} is down: {bad} of {of} links",
        "The links of one leaf went down together; one dead switch explains them better than {bad} cables.",
        "Check power and console of the switch. Do not touch the cables.",
    ),
    "leaf rebooting": Words(
        "Leaf {name} restarts: {bad} of {of} links went down and up",
        "The links of one leaf went down and up together; a restarting switch explains them better than {bad} cables.",
        "Check uptime and log of the switch.",
    ),
    "rail down": Words(
        "Rail {name} is down: {bad} of {of} links",
        "The links of one rail went down together on many hosts.",
        "Check the switches of this rail: power, firmware roll-out, subnet manager.",
    ),
    "power lost": Words(
        "{bad} of {of} hosts of power domain {name} fell silent together: power, or the path of the telemetry",
        "At least 80 % of the domain stopped answering within one window. No peer has confirmed it yet: a cut in the "
        "monitoring network towards these hosts would look the same.",
        "Ask a BMC or PDU of the domain. Powered: look for the management switch of these hosts.",
    ),
    "host slower than its peers": Words(
        "{name} is slower than its peers on {bad} of its ports",
        "Most adapters of one host carry less than those of the other hosts of its job: the host, not an adapter.",
        "Look at CPU and PCIe load, throttled GPUs and the data loader of this host.",
    ),
    "storage path held back": Words(
        "Storage path {name} is held back: {bad} of {of} ports",
        "Storage ports of several hosts wait or are congested together for longer than a checkpoint takes: the storage "
        "servers or their network, not the hosts.",
        "Look at load and links of the storage servers, then at the switches of the storage network.",
    ),
    "storage path below a leaf held back": Words(
        "Storage ports below leaf {name} are held back: {bad} of {of}",
        "Storage ports of one leaf wait or are congested together for longer than a checkpoint takes.",
        "Look at the up-links of that leaf, then at load and links of the storage servers.",
    ),
    "rail congested": Words(
        "Rail {name} is congested: {bad} of {of} ports",
        "At least half of its active ports have data and must wait, and no receiver on it pauses or is overrun: what "
        "they share is too narrow for the traffic, not {bad} ports.",
        "Compare the up-links of its leaves with those of other rails: lost ones make the rest narrow. Else see which "
        "jobs share the rail (their placement) and whether routing spreads them evenly.",
    ),
    "leaf congested": Words(
        "Ports below leaf {name} are congested: {bad} of {of}",
        "At least half of its active ports have data and must wait, and no receiver below it pauses or is overrun: "
        "its up-links are too narrow for the traffic, not {bad} ports.",
        "Compare the leaf's up-links with those of its peers: lost ones make the rest narrow. Else see which jobs "
        "share the leaf and whether routing spreads them evenly.",
    ),
    "PCIe link of a NIC too slow for what it receives": Words(
        "PCIe link of {name} is degraded, and it holds others up",
        "The PCIe link of this adapter has fewer lanes or a lower speed than both its ends can do, and the adapter "
        "tells its switch to stop: it cannot pass on what arrives. Ports that wait for it are victims.",
        "Drain the host and power-cycle it, so that the link trains anew; if it comes back narrow, reseat the card or "
        "its riser, then swap it. The ports that wait need no attention.",
    ),
    "learned group down": Words(
        "{name} is down: {bad} of {of} links",
        "These links went down together, as they did before. No topology tells what they share; a switch or a patch "
        "panel explains that better than {bad} broken cables.",
        "Find out what these ports have in common and give it to fabricmon as a topology; then look at that switch.",
    ),
    "learned group restarting": Words(
        "{name} restarts: {bad} of {of} links went down and up",
        "These links went down and up together, as they did before. No topology tells what they share.",
        "Find out what these ports have in common and give it to fabricmon as a topology; then look at that switch.",
    ),
    "NVLink domain down": Words(
        "NVLinks of {bad} of {of} GPUs of {name} are down",
        "Most GPUs of one NVLink domain lost links together; a switch, the fabric manager or the board explains that "
        "better than {bad} faulty GPUs.",
        "Read the fabric manager's log and the kernel log for SXid errors; restart the fabric manager or reboot; if "
        "links stay down, have the NVSwitch board or tray checked.",
    ),
    "NVLink domain with errors": Words(
        "NVLinks of {bad} of {of} GPUs of {name} make errors",
        "Most GPUs of one NVLink domain show errors together; a switch or the board explains that better than {bad} "
        "faulty GPUs.",
        "Read the kernel log for SXid errors and see which link numbers are struck: the same on all GPUs is a switch.",
    ),
    "monitoring path cut": Words(
        "{bad} of {of} hosts of {name} cannot be reached by the monitoring",
        "At least 80 % of the domain stopped answering within one window.",
        "Look at the management switch of these hosts.",
    ),
    "host dead": Words(
        "{name} is unreachable, and its peers lose what they send to it",
        "Its agent fell silent, nothing answers, and packets towards it are lost since then: the host or its adapters "
        "are dead, not only the path of the telemetry.",
        "Look at the host's console or BMC. Its jobs have stopped; drain it.",
    ),
    "cable or optic losing packets": Words(
        "Link {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this cable in common, and flows around it are clean. Both its ends and the cable itself "
        "are equally likely.",
        "Read error and drop counters at both ends; take the link out of the routing, clean or replace the cable.",
    ),
    "NIC losing packets": Words(
        "NIC {name} loses packets: {bad} of {of} of its flows",
        "The lossy flows have this adapter in common, and flows around it are clean.",
        "Look at the errors of its links first; move the jobs, reset the adapter, then replace it.",
    ),
    "link losing packets": Words(
        "Link {name} loses packets",
        "This port loses a larger share of what it sends than any of its neighbours: what is its own is more likely to "
        "be bad than what it shares with them.",
        "Compare errors at both ends of its cable; clean or replace the cable, then the adapter.",
    ),
    "leaf losing packets": Words(
        "Leaf {name} loses packets: {bad} of {of} see it",
        "What goes through this leaf is lost more often than elsewhere, while its links stay up: the switch drops "
        "silently.",
        "Read drop and parity counters of the switch, then reload or replace it. Its cables need no attention.",
    ),
    "up-link of a leaf losing packets": Words(
        "An up-link of leaf {name} loses packets, or the leaf: {bad} of {of} ports see it",
        "Half of the ports that lose are below this leaf, and the others talk to it: what they share is the leaf and "
        "its up-links. The evidence allows no finer answer.",
        "Read error and drop counters of the leaf's up-links, at both ends.",
    ),
    "half of a leaf losing packets": Words(
        "Part of leaf {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this switch in common, about half of those through it: some of its ports or one of its "
        "pipelines is bad.",
        "Take the switch out of the routing, then read its drop and parity counters; reload or replace it.",
    ),
    "spine losing packets": Words(
        "Spine {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this switch in common, and flows around it are clean.",
        "Take the switch out of the routing, then read its drop and parity counters; reload or replace it.",
    ),
    "half of a spine losing packets": Words(
        "Part of spine {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this switch in common, about half of those through it: some of its ports or one of its "
        "pipelines is bad.",
        "Take the switch out of the routing, then read its drop and parity counters; reload or replace it.",
    ),
    "core losing packets": Words(
        "Core switch {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this switch in common, and flows around it are clean.",
        "Take the switch out of the routing, then read its drop and parity counters; reload or replace it.",
    ),
    "half of a core losing packets": Words(
        "Part of core switch {name} loses packets: {bad} of {of} flows through it",
        "The lossy flows have this switch in common, about half of those through it: some of its ports or one of its "
        "pipelines is bad.",
        "Take the switch out of the routing, then read its drop and parity counters; reload or replace it.",
    ),
    "pod losing packets": Words(
        "Pod {name} loses packets above its leaves: {bad} of {of} ports",
        "Ports of all its leaves lose alike, and other pods lose less: one of its spines, or a cable to one, drops "
        "silently. Nothing tells which: the evidence allows no finer answer.",
        "Read drop counters of the spines that are listed. Loss by flow, or counters of the switches, would name one.",
    ),
    "plane losing packets": Words(
        "Plane {name} loses packets above its leaves: {bad} of {of}",
        "What crosses this plane is lost whatever leaf it comes from: one of its top switches, or a cable to one, "
        "drops silently. Nothing tells which: the evidence allows no finer answer.",
        "Read drop counters of the switches that are listed. Loss by flow, or counters of switches, would name one.",
    ),
    "network losing packets": Words(
        "Packets are lost all over network {name}: {bad} of {of} ports",
        "Ports lose packets wherever they are, and no part of the network more than another: the evidence allows "
        "no finer answer.",
        "Ask what changed everywhere: routing, firmware, lossless settings, a job that overruns its receivers.",
    ),
}

SEEN: Mapping[str, Words] = {
    "power lost": Words(
        "{bad} of {of} hosts of power domain {name} went dark together",
        "At least 80 % of the domain stopped answering within one window, and peers lose what they send to them: the "
        "hosts are dead, not only the path of the telemetry.",
        "Ask a BMC or PDU of the domain; look at its feed and its breaker.",
    ),
}
"""What is said instead where peers saw it, too: they lose packets towards it."""
