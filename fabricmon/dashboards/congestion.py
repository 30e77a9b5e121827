"""Dashboard: congestion. PFC pause, credit wait, ECN and CNP, retransmissions and discards, by rail, tier and port."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.panel import ORANGE, PanelColumn, PanelRow, Query, bars, series, stat, steps, table
from fabricmon.dashboards.site import Site, by_rail_index, compute, greatest, to_rail

UID = "fabricmon-congestion"


def board(site: Site) -> Dashboard:
    return Dashboard(
        UID,
        "fabricmon / Congestion",
        "PFC pause, credit wait, ECN and CNP, retransmissions and discards, by rail, tier, priority and port.",
        (site.nodes(),),
        (_rails(site), _tiers(site), _ecn(), _priorities(), _ports(site), _lost(site)),
    )


def _rails(site: Site) -> PanelRow:
    medium, high = site.limits("congestion").medium, site.limits("congestion").high
    waits = f"Above {medium:.0%} for ten minutes, or {high:.0%} for 90 s, a port is congested."
    return PanelRow("Rails", (
        stat("Ports with Tx wait", "Host ports that could not transmit for at least 5 % of the last 30 s (no credits, "
             "PFC-paused).", "sum(fabricmon_rail_pressed_ports)", empty="unknown", width=4),
        stat("Tx wait, worst port", f"Share of the last 30 s in which the worst port could not transmit. {waits}",
             "max(fabricmon_rail_worst_waiting_ratio)", unit="percentunit", decimals=0, limits=site.waiting_limits, width=4,
             empty="unknown"),
        stat("PFC pause sent, worst port", "Share of the last 30 s in which a port paused its switch. From "
             f"{site.limits('slow_receiver').pausing:.0%} on it is a slow receiver, near 100 % a PFC storm.",
             "max(fabricmon_rail_worst_pausing_ratio)", unit="percentunit", decimals=0, limits=site.pausing_limits, width=4,
             empty="no PFC pause"),
        stat("ECN-marked packets", "ECN-marked packets received per second, all ports. ECN marks without Tx wait mean "
             "that congestion control works.", "sum(fabricmon_rail_congestion_marks_per_second)", unit="pps",
             width=4, empty="not counted"),
        stat("CNPs", "Congestion notification packets (CNP) handled per second: senders reduced their rate.",
             "sum(fabricmon_rail_congestion_notices_per_second)", unit="ops", width=4, empty="not counted"),
        stat("Out of receive buffers", "Packets per second that arrived without a receive buffer. From "
             f"{site.limits('slow_receiver').missed:g} on at one port its host is a slow receiver.",
             "sum(fabricmon_rail_missed_packets_per_second)", unit="pps", width=4, empty="not counted",
             limits=steps((site.limits("slow_receiver").missed, ORANGE))),
        series("Tx wait by rail number", f"Mean over the ports of all rails with this number, all units. {waits} One rail "
               "above the others: a fault of that rail; all together: load.",
               Query(by_rail_index("fabricmon_rail_waiting_ratio", "avg"), "rail {{index}}"), unit="percentunit",
               limits=site.waiting_limits, width=8, empty="unknown"),
        series("Tx wait, worst port by rail number", f"The port with most Tx wait on the rails with this number. {waits}",
               Query(by_rail_index("fabricmon_rail_worst_waiting_ratio", "max"), "rail {{index}}"), unit="percentunit",
               most=1, limits=site.waiting_limits, width=8, empty="unknown"),
        bars("Tx wait, top rails", "The ten rails with most Tx wait now, mean over their ports.",
             Query(f"topk(10, {compute('fabricmon_rail_waiting_ratio')})", "{{rail}}"), unit="percentunit", limits=site.waiting_limits,
             most=1, width=8, decimals=1, empty="unknown", links=[to_rail()]),
    ))  # fmt: skip


def _tiers(site: Site) -> PanelRow:
    tiers = "adapter: host ports; 0-1: links between leaves and spines, if the fabric is swept"
    return PanelRow("Tiers", (
        series("Tx wait by tier", f"Mean over the ports of a tier ({tiers}). Tx wait between switches without Tx wait of "
               "hosts: too little bandwidth above the leaves.",
               Query("fabricmon_tier_waiting_ratio", "{{tier}}"), unit="percentunit", limits=site.waiting_limits, width=8,
               empty="unknown"),
        series("Utilisation by tier", f"Share of the line rates ({tiers}). A tier near 100 % is the bottleneck.",
               Query("fabricmon_tier_transmit_utilisation_ratio", "{{tier}} Tx"),
               Query("fabricmon_tier_receive_utilisation_ratio", "{{tier}} Rx"), unit="percentunit", most=1,
               width=8, empty="unknown"),
        series("Ports with Tx wait by tier", "Ports that could not transmit for at least 5 % of the last 30 s.",
               Query("fabricmon_tier_pressed_ports", "{{tier}}"), width=8, empty="unknown"),
    ), folded=True)  # fmt: skip


def _ecn() -> PanelRow:
    marks, cnps = "fabricmon_rail_congestion_marks_per_second", "fabricmon_rail_congestion_notices_per_second"
    return PanelRow("Congestion control (RoCE, EFA)", (
        series("ECN-marked packets by rail number", "Per second. Queues in switches grow; without PFC pause congestion "
               "control works.", Query(by_rail_index(marks, "sum"), "rail {{index}}"), unit="pps", width=8,
               empty="not counted"),
        series("CNPs by rail number", "CNPs handled per second. Many on one rail only: its paths are shared unevenly.",
               Query(by_rail_index(cnps, "sum"), "rail {{index}}"), unit="ops", width=8, empty="not counted"),
        series("Out of receive buffers by rail number", "Packets per second that arrived without a receive buffer: the "
               "hosts are slow, not the network.",
               Query(by_rail_index("fabricmon_rail_missed_packets_per_second", "sum"), "rail {{index}}"), unit="pps",
               width=8, empty="not counted"),
    ), folded=True)  # fmt: skip


def _priorities() -> PanelRow:
    return PanelRow("Priority flow control", (
        series("PFC pause received by priority", "Paused time summed over all ports: 3 means as much as three ports that "
               "are always paused. Pause on a lossy priority is a configuration error.",
               Query("fabricmon:priority:paused_ports:rate5m > 0", "priority {{priority}}"), width=12, empty="no PFC pause"),
        series("PFC pause sent by priority", "Time in which ports paused their switch, summed over all ports. Back-pressure "
               "spreads from a slow host to all its senders.",
               Query("fabricmon:priority:pausing_ports:rate5m > 0", "priority {{priority}}"), width=12,
               empty="no PFC pause"),
    ))  # fmt: skip


def _ports(site: Site) -> PanelRow:
    def kept(word: str) -> str:
        return f"fabricmon:port:{word}:ratio_rate5m{{{site.among}}}"

    ticks = f"fabricmon:port:wait_ticks:rate5m{{{site.among}}}"
    place = site.columns("device", "Device", 120)
    return PanelRow("Ports", (
        series("PFC pause received, top ports", "The ten ports with most paused time. They are victims: the cause is a port "
               "that sends PFC pause.", Query(greatest(kept("paused")), site.port),
               unit="percentunit", most=1, limits=site.waiting_limits, width=8, empty="no PFC pause", links=[site.to_port, site.to_node]),
        series("PFC pause sent, top ports", "The ten ports that paused their switch most. One above the others is the "
               "cause: a slow receiver or, near 100 %, a PFC storm.",
               Query(greatest(kept("pausing")), site.port), unit="percentunit", most=1, limits=site.pausing_limits, width=8,
               empty="no PFC pause", links=[site.to_port, site.to_node]),
        series("Credit wait, top ports (InfiniBand)", "The ten ports with most wait ticks per second. The length of a tick "
               "depends on the adapter: compare ports of one model only.",
               Query(greatest(ticks), site.port), unit="short", width=8, empty="no credit wait",
               links=[site.to_port, site.to_node]),
        series("CNPs received, top senders", "The ten ports that handled most CNPs per second. Many senders and one "
               "receiver with ECN-marked packets: incast.",
               Query(greatest(f"fabricmon:port:congestion_notices:rate5m{{{site.among}}}"), site.port), unit="ops",
               width=12, empty="none", links=[site.to_port, site.to_node]),
        series("ECN-marked packets, top receivers", "The ten ports that receive most ECN-marked packets: the queues are on "
               "the paths to them.",
               Query(greatest(f"fabricmon:port:congestion_marks:rate5m{{{site.among}}}"), site.port), unit="pps",
               width=12, empty="none", links=[site.to_port, site.to_node]),
        table("PFC pause sent now", "Share of the last five minutes in which the port paused its switch, top 20. Empty is "
              "good.", [Query(f"topk(20, {kept('pausing')})")],
              [*place, PanelColumn("Value", "Pause sent", unit="percentunit", decimals=1, width=110, limits=site.pausing_limits)],
              width=12, empty="none", sort="Pause sent"),
        table("PFC pause received now", "Share of the last five minutes in which the port was paused, top 20. Empty is "
              "good.", [Query(f"topk(20, {kept('paused')})")],
              [*place, PanelColumn("Value", "Pause received", unit="percentunit", decimals=1, width=110, limits=site.waiting_limits)],
              width=12, empty="none", sort="Pause received"),
    ))  # fmt: skip


def _lost(site: Site) -> PanelRow:
    loss = f"fabricmon:port:losses:rate5m{{{site.among}}}"
    drop = f"fabricmon:port:discards:rate5m{{{site.among}}}"
    return PanelRow("Loss", (
        series("Retransmissions by counter", "Per second, all ports. In a lossless fabric more than single ones are bad: "
               "each can delay a whole collective.",
               Query("fabricmon:fleet:losses:rate5m > 0", "{{counter}}"), unit="pps", width=8, empty="none"),
        series("Discards by counter", "Per second, all ports: no buffer, no credits, or timeout.",
               Query("fabricmon:fleet:discards:rate5m > 0", "{{counter}}"), unit="pps", width=8, empty="none"),
        table("Retransmissions and discards, top ports", "The top 20 now, by counter. Several ports of one leaf or rail: a "
              "switch; a single one: its cable, adapter or host.",
              [Query(f"topk(20, {loss} or {drop})")],
              [*site.columns("device", "Device", 100),
               PanelColumn("counter", "Counter", width=160), PanelColumn("Value", "Per second", unit="pps", decimals=2, width=100)],
              width=8, empty="none", sort="Per second"),
    ), folded=True)  # fmt: skip
