"""Dashboard: the whole fabric on one page. Open incidents, nodes not reporting, utilisation."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.open_incidents import by_severity, open_incidents
from fabricmon.dashboards.panel import (
    BAD,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    WARN,
    YELLOW,
    PanelRow,
    Query,
    bars,
    colours,
    series,
    stat,
)
from fabricmon.dashboards.site import Site, by_rail_index, compute, greatest, to_incidents, to_rail
from fabricmon.model import Presence

UID = "fabricmon-fabric"


def board(site: Site) -> Dashboard:
    return Dashboard(
        UID,
        "fabricmon / Fabric",
        "The whole fabric on one page: open incidents, nodes not reporting, utilisation.",
        (),
        (_now(), PanelRow("Incidents", (open_incidents(site, 14), by_severity(10))), _traffic(site), _links(site),
         _reporting()),
    )  # fmt: skip


def _now() -> PanelRow:
    presence = "fabricmon_central_nodes"
    return PanelRow("Now", (
        stat("Critical", "Open incidents of severity critical, one per cause. Any is bad.",
             'sum(fabricmon_incidents{severity="critical"})', limits=BAD, links=[to_incidents()], width=3),
        stat("Warning", "Open incidents of severity warning, to be handled within the day.",
             'sum(fabricmon_incidents{severity="warning"})', limits=WARN, links=[to_incidents()], width=3),
        stat("Nodes live", "Nodes that report. All others are unknown, not OK.",
             f'sum({presence}{{presence="live"}})', width=3),
        stat("Nodes not reporting", "Expected nodes without reports: node, network or agent is down. Their ports are "
             "unknown. Any is bad.", f'sum({presence}{{presence!="live"}})', limits=BAD, width=3),
        stat("Links down", "Host ports whose link is down, except disabled ones. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="down"})', limits=BAD, width=3),
        stat("Ports unknown", "Host ports without a recent link state, and ports of nodes not reporting. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="unknown"})', limits=WARN, width=3),
        stat("Ports with Tx wait", "Host ports that could not transmit for at least 5 % of the last 30 s (no credits, "
             "PFC-paused). Some are usual under load, a whole rail is not.", 'sum(fabricmon_rail_pressed_ports)', width=3,
             empty="unknown"),
        stat("Fabric utilisation", "Bytes sent by host ports, share of their line rates. Low while jobs run: the jobs wait.",
             'fabricmon_tier_transmit_utilisation_ratio{tier="adapter"}', unit="percentunit", decimals=0, width=3),
    ))  # fmt: skip


def _traffic(site: Site) -> PanelRow:
    transmit = "fabricmon_rail_transmit_utilisation_ratio"
    sent, received = compute(transmit), compute("fabricmon_rail_receive_utilisation_ratio")
    congestion = site.limits("congestion")
    return PanelRow("Traffic", (
        series("Tx utilisation by rail number", "Share of the line rates, all units. Jobs load all rails equally: a rail "
               "below the others is slowed down.",
               Query(by_rail_index(transmit, "avg"), "rail {{index}}"), unit="percentunit", most=1, width=8),
        series("Spread of Tx utilisation", "The most, the median and the least utilised rail of all units. A wide spread "
               "while one job fills the fabric is a slow rail.",
               Query(f"max({sent})", "max"), Query(f"quantile(0.5, {sent})", "median"),
               Query(f"min({sent})", "min"), unit="percentunit", most=1, width=8),
        series("Tx wait by rail number", "Share of time in which host ports could not transmit (no credits, PFC-paused). "
               f"Above {congestion.medium:.0%} for minutes is congestion, above {congestion.high:.0%} severe.",
               Query(by_rail_index("fabricmon_rail_waiting_ratio", "avg"),
               "rail {{index}}"), unit="percentunit", limits=site.waiting_limits, width=8, empty="unknown"),
        series("Throughput", "Bytes per second of all ports. Tx and Rx differ for long only with storage or another "
               "network.",
               Query("sum(fabricmon:device:transmitted_bytes:rate5m)", "Tx"),
               Query("sum(fabricmon:device:received_bytes:rate5m)", "Rx"), unit="Bps", width=8,
               empty="no recording rules"),
        bars("Least utilised rails", "The eight rails with the lowest Tx utilisation now. One far below the others while "
             "jobs run is suspect.", Query(f"bottomk(8, {sent})", "{{rail}}"), unit="percentunit", most=1, width=8, decimals=1,
             links=[to_rail()]),
        bars("Most utilised rails", "The eight rails with the highest Rx utilisation now.",
             Query(f"topk(8, {received})", "{{rail}}"), unit="percentunit", most=1, width=8, decimals=1,
             links=[to_rail()]),
    ))  # fmt: skip


def _links(site: Site) -> PanelRow:
    downs = 'fabricmon:port:downs:increase1h'
    return PanelRow("Links, NVLinks, PCIe", (
        series("Links not up", "Host ports by link state. Down: loss of signal or no partner. Initialising: no subnet "
               "manager. Unknown: not read recently.",
               *(Query(f'sum(fabricmon_rail_link_ports{{state="{state}"}})', word) for state, word in (
                   ("down", "down"), ("initialising", "initialising"), ("down_by_order", "disabled"),
                   ("unknown", "unknown"))), stacked=True, width=8,
               overrides=colours({"down": RED, "initialising": ORANGE, "disabled": BLUE, "unknown": GREY})),
        series("Link-downs in the last hour", "The ten links with most link-downs. Three within minutes is flapping; many "
               "links at the same time have one cause.", Query(greatest(downs), site.port), width=8,
               empty="none", links=[site.to_port, site.to_node], points=True),
        series("Link errors by counter", "Per second, all links. Rising symbol errors: a bad cable or optic; "
               "uncorrectable codewords: lost data.",
               Query("fabricmon:fleet:errors:rate5m > 0", "{{counter}}"), width=8, empty="none"),
        stat("GPUs", "GPUs with NVLink counters.", "fabricmon:fleet:gpus:count", width=4, empty="no GPUs"),
        stat("NVLinks inactive", "Inactive NVLinks to a switch. Any is bad: the GPU is slower than its peers.",
             "fabricmon:fleet:nvlinks_inactive:sum", limits=BAD, width=4, empty="no GPUs"),
        stat("GPUs that need a reset", "GPUs for which the driver requests an action: reset, reboot, drain. Any is bad.",
             "count(fabricmon:gpu:recovery_wanted:state) or vector(0)", limits=BAD, width=4),
        stat("PCIe links degraded", "GPUs and adapters with fewer PCIe lanes than possible. Any is bad.",
             "count(fabricmon:pcie:path_width:ratio) or vector(0)", limits=BAD, width=4),
        stat("Loss of signal", "Modules with a lane without Rx power. Bad if the link should be up.",
             "fabricmon:fleet:module_lanes_dark:count", limits=WARN, width=4),
        stat("Retransmissions", "Packets per second lost and retransmitted, all ports, of the counter with most. More than "
             "a few in a lossless fabric is bad.",
             "max(fabricmon:fleet:losses:rate5m) or vector(0)", unit="pps", width=4, decimals=1),
    ))  # fmt: skip


def _reporting() -> PanelRow:
    by_presence = {Presence.LIVE: GREEN, Presence.SLOW: YELLOW, Presence.REFUSED: ORANGE, Presence.UNREACHABLE: RED,
                   Presence.CLONED: "purple", Presence.INCOMPATIBLE: BLUE, Presence.NEVER: GREY}  # fmt: skip
    return PanelRow("Agents and server", (
        series("Nodes by state", "Refused: the agent is down (connection refused). Unreachable: no answer. Cloned: "
               "duplicate node name. Never: expected, never seen.",
               Query("fabricmon_central_nodes", "{{presence}}"), stacked=True, width=12,
               overrides=colours(by_presence)),
        series("Duration of an evaluation", "Time of one evaluation of all ports on the server. Near the interval between "
               "evaluations the server is late.", Query("fabricmon_central_tick_last_seconds", "last"), unit="s", width=12),
    ), folded=True)  # fmt: skip
