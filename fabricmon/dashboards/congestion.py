"""Dashboard: where traffic has to wait. Pause, credits, congestion marks, loss, by rail, tier, priority and port."""

from __future__ import annotations

from fabricmon.dashboards.board import Board
from fabricmon.dashboards.panel import ORANGE, RED, YELLOW, Column, Json, Query, Row, bars, series, stat, steps, table
from fabricmon.dashboards.site import Site, by_rail_index, compute, greatest

UID = "fabricmon-congestion"


def board(site: Site) -> Board:
    return Board(
        UID,
        "fabricmon / Congestion",
        "Where traffic has to wait: pause, credits, congestion marks and loss, by rail, tier, priority and port.",
        (site.nodes(),),
        (_rails(site), _tiers(site), _notices(), _priorities(), _ports(site), _lost(site)),
    )


def _shares(site: Site) -> Json:
    limits = site.limits("congestion")
    return steps((limits.medium, YELLOW), (limits.high, RED))


def _stops(site: Site) -> Json:
    return steps((site.limits("slow_receiver").pausing, YELLOW), (site.limits("pfc_storm").pausing, RED))


def _rails(site: Site) -> Row:
    medium, high = site.limits("congestion").medium, site.limits("congestion").high
    waits = f"Above {medium:.0%} for ten minutes, or {high:.0%} for one and a half, a port is congested."
    return Row("Rails", (
        stat("Ports held up", "Hosts' ports that had data and might not send for 5 % of the last 30 s or more.",
             "sum(fabricmon_rail_pressed_ports)", empty="unknown", width=4),
        stat("Waiting, worst port", f"Share of the last 30 s that the worst port waited. {waits}",
             "max(fabricmon_rail_worst_waiting_ratio)", unit="percentunit", decimals=0, limits=_shares(site), width=4,
             empty="unknown"),
        stat("Pausing, worst port", "Share of the last 30 s in which a port kept its switch from sending. From "
             f"{site.limits('slow_receiver').pausing:.0%} on it is a slow receiver, near 100 % a pause storm.",
             "max(fabricmon_rail_worst_pausing_ratio)", unit="percentunit", decimals=0, limits=_stops(site), width=4,
             empty="no pause told"),
        stat("Marked packets", "Packets that arrived with a congestion mark (ECN), a second, all ports. Marks without "
             "waiting are congestion control at work.", "sum(fabricmon_rail_congestion_marks_per_second)", unit="pps",
             width=4, empty="not counted"),
        stat("Notifications", "Congestion notifications (CNP) that ports acted on, a second: so often senders slowed "
             "down.", "sum(fabricmon_rail_congestion_notices_per_second)", unit="ops", width=4, empty="not counted"),
        stat("Missed packets", "Packets that arrived while no receive buffer was ready, a second. From "
             f"{site.limits('slow_receiver').missed:g} on at one port its host is a slow receiver.",
             "sum(fabricmon_rail_missed_packets_per_second)", unit="pps", width=4, empty="not counted",
             limits=steps((site.limits("slow_receiver").missed, ORANGE))),
        series("Waiting, by rail number", f"Mean over the ports of all rails of one number, over all units. {waits} One "
               "rail above the others is a matter of that rail; all together is load.",
               Query(by_rail_index("fabricmon_rail_waiting_ratio", "avg"), "rail {{index}}"), unit="percentunit",
               limits=_shares(site), width=8, empty="unknown"),
        series("Waiting, worst port by rail number", f"The port that waits most on the rails of one number. {waits}",
               Query(by_rail_index("fabricmon_rail_worst_waiting_ratio", "max"), "rail {{index}}"), unit="percentunit",
               most=1, limits=_shares(site), width=8, empty="unknown"),
        bars("Rails that wait most", "The ten rails whose ports wait most, now, as mean over their ports.",
             Query(f"topk(10, {compute('fabricmon_rail_waiting_ratio')})", "{{rail}}"), unit="percentunit", limits=_shares(site),
             most=1, width=8, decimals=1, empty="unknown"),
    ))  # fmt: skip


def _tiers(site: Site) -> Row:
    what = "adapter is hosts' own ports; 0-1 is the cables between leaves and spines, where the fabric is swept"
    return Row("Tiers", (
        series("Waiting, by tier", f"Mean share of time that ports wait: {what}. Waiting between switches while hosts do "
               "not wait is too little bandwidth above the leaves.",
               Query("fabricmon_tier_waiting_ratio", "{{tier}}"), unit="percentunit", limits=_shares(site), width=8,
               empty="unknown"),
        series("Busy, by tier", f"Bytes sent as a share of the line rates: {what}. A tier near 100 % is the bottleneck.",
               Query("fabricmon_tier_transmit_utilisation_ratio", "{{tier}} sent"),
               Query("fabricmon_tier_receive_utilisation_ratio", "{{tier}} received"), unit="percentunit", most=1,
               width=8, empty="unknown"),
        series("Ports held up, by tier", "Ports that waited 5 % of the last 30 s or more.",
               Query("fabricmon_tier_pressed_ports", "{{tier}}"), width=8, empty="unknown"),
    ))  # fmt: skip


def _notices() -> Row:
    marks, notices = "fabricmon_rail_congestion_marks_per_second", "fabricmon_rail_congestion_notices_per_second"
    return Row("Congestion control (RoCE, EFA)", (
        series("Packets with a congestion mark, by rail number", "A second (ECN). Marks say that queues in switches "
               "grow; marks without pause are congestion control at work.",
               Query(by_rail_index(marks, "sum"), "rail {{index}}"), unit="pps", width=8, empty="not counted"),
        series("Congestion notifications, by rail number", "Times a second that senders were told to slow down and did "
               "(CNP). Many on one rail only: its paths are shared badly.",
               Query(by_rail_index(notices, "sum"), "rail {{index}}"), unit="ops", width=8, empty="not counted"),
        series("Missed packets, by rail number", "Packets a second that arrived while no receive buffer was ready. The "
               "hosts are slow, not the network.",
               Query(by_rail_index("fabricmon_rail_missed_packets_per_second", "sum"), "rail {{index}}"), unit="pps",
               width=8, empty="not counted"),
    ))  # fmt: skip


def _priorities() -> Row:
    return Row("Priority flow control", (
        series("Ports that may not send, by priority", "Time paused, summed over all ports: 3 means as much as three "
               "ports that may never send. Pause on a priority that should be lossy is a wrong setting.",
               Query("fabricmon:priority:paused_ports:rate5m > 0", "priority {{priority}}"), width=12, empty="no pause"),
        series("Ports that stop their switch, by priority", "Time in which ports kept their switch from sending, summed. "
               "A host that cannot keep up spreads from here to everybody who sends to it.",
               Query("fabricmon:priority:pausing_ports:rate5m > 0", "priority {{priority}}"), width=12,
               empty="no pause"),
    ))  # fmt: skip


def _ports(site: Site) -> Row:
    def kept(word: str) -> str:
        return f"fabricmon:port:{word}:ratio_rate5m{{{site.among}}}"

    ticks = f"fabricmon:port:wait_ticks:rate5m{{{site.among}}}"
    place = [Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=120)]
    return Row("Ports", (
        series("Ports that wait most (pause)", "The ten ports with most time in which they were not allowed to send. "
               "They are victims: look for who pauses.", Query(greatest(kept("paused")), site.port),
               unit="percentunit", most=1, limits=_shares(site), width=8, empty="no pause", links=[site.to_node]),
        series("Ports that pause most", "The ten ports with most time in which they kept their switch from sending. One "
               "of them above the others is the cause: a slow receiver or, near 100 %, a storm.",
               Query(greatest(kept("pausing")), site.port), unit="percentunit", most=1, limits=_stops(site), width=8,
               empty="no pause", links=[site.to_node]),
        series("Ports that wait most (InfiniBand)", "The ten ports with most wait ticks a second. How long a tick is "
               "depends on the adapter: compare ports of one kind with each other only.",
               Query(greatest(ticks), site.port), unit="short", width=8, empty="no InfiniBand port waits",
               links=[site.to_node]),
        series("Senders that are told to slow down most", "The ten ports that acted on most congestion notifications a "
               "second. Many senders and one receiver that marks: an incast.",
               Query(greatest(f"fabricmon:port:congestion_notices:rate5m{{{site.among}}}"), site.port), unit="ops",
               width=12, empty="none", links=[site.to_node]),
        series("Receivers of most marked packets", "The ten ports at which most packets with a congestion mark arrive: "
               "behind them is where the queues are.",
               Query(greatest(f"fabricmon:port:congestion_marks:rate5m{{{site.among}}}"), site.port), unit="pps",
               width=12, empty="none", links=[site.to_node]),
        table("Who pauses now", "Share of the last five minutes in which the port kept its switch from sending; the "
              "twenty worst. Empty is good.", [Query(f"topk(20, {kept('pausing')})")],
              [*place, Column("Value", "Pausing", unit="percentunit", decimals=1, width=110, limits=_stops(site))],
              width=12, empty="nobody", sort="Pausing"),
        table("Who waits now", "Share of the last five minutes in which the port was not allowed to send; the twenty "
              "worst. Empty is good.", [Query(f"topk(20, {kept('paused')})")],
              [*place, Column("Value", "Waiting", unit="percentunit", decimals=1, width=110, limits=_shares(site))],
              width=12, empty="nobody", sort="Waiting"),
    ))  # fmt: skip


def _lost(site: Site) -> Row:
    loss = f"fabricmon:port:losses:rate5m{{{site.among}}}"
    drop = f"fabricmon:port:discards:rate5m{{{site.among}}}"
    return Row("Loss", (
        series("Packets sent again, by counter", "A second, over all ports. In a lossless fabric more than single ones "
               "are bad: each may hold up a whole collective.",
               Query("fabricmon:fleet:losses:rate5m > 0", "{{counter}}"), unit="pps", width=8, empty="none"),
        series("Packets dropped, by counter", "A second, over all ports: for want of buffers, of credits or of time.",
               Query("fabricmon:fleet:discards:rate5m > 0", "{{counter}}"), unit="pps", width=8, empty="none"),
        table("Ports that lose or drop most", "The twenty worst now, by counter. Ports of one leaf or rail together are a "
              "switch; one alone is its cable, adapter or host.",
              [Query(f"topk(20, {loss} or {drop})")],
              [Column(site.node, "Node", links=(site.row_to_node,)), Column("device", "Device", width=100),
               Column("counter", "Counter", width=160), Column("Value", "A second", unit="pps", decimals=2, width=100)],
              width=8, empty="nobody", sort="A second"),
    ))  # fmt: skip
