"""Dashboard: the whole fabric on one page. What is broken, who is silent, how busy it is."""

from __future__ import annotations

from fabricmon.dashboards.board import Board
from fabricmon.dashboards.open_incidents import by_severity, open_incidents
from fabricmon.dashboards.panel import (
    GREEN,
    GREY,
    ORANGE,
    RED,
    YELLOW,
    Query,
    Row,
    bars,
    by_name,
    series,
    stat,
    steps,
)
from fabricmon.dashboards.site import Site, by_rail_index, compute, greatest, to_incidents
from fabricmon.model import Presence

UID = "fabricmon-fabric"

_BAD = steps((1, RED))
_WARN = steps((1, ORANGE))


def board(site: Site) -> Board:
    return Board(
        UID,
        "fabricmon / Fabric",
        "The whole fabric on one page: what is broken, who is silent, how busy it is.",
        (),
        (_now(), _incidents(site), _traffic(site), _links(site), _watching()),
    )


def _now() -> Row:
    presence = "fabricmon_central_nodes"
    return Row("Now", (
        stat("Critical", "Open incidents of severity critical: one broken thing each. Any is bad.",
             'sum(fabricmon_incidents{severity="critical"})', limits=_BAD, links=[to_incidents()], width=3),
        stat("Warning", "Open incidents of severity warning: to be looked at within the day.",
             'sum(fabricmon_incidents{severity="warning"})', limits=_WARN, links=[to_incidents()], width=3),
        stat("Nodes live", "Nodes of which frames arrive. What is not live is unknown, not healthy.",
             f'sum({presence}{{presence="live"}})', width=3),
        stat("Nodes not heard", "Nodes there should be of which no frames arrive: dead, cut off, or their agent is. "
             "Any is bad: their ports are unknown.", f'sum({presence}{{presence!="live"}})', limits=_BAD, width=3),
        stat("Links down", "Hosts' ports whose link is down and should not be. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="down"})', limits=_BAD, width=3),
        stat("Ports unknown", "Hosts' ports whose link state was not read lately, and ports of silent nodes. They may "
             "be down. Any is bad.",
             'sum(fabricmon_rail_link_ports{state="unknown"})', limits=_WARN, width=3),
        stat("Ports held up", "Hosts' ports that had data and might not send for 5 % of the last 30 s or more. Some is "
             "usual under load; all of a rail is not.", 'sum(fabricmon_rail_pressed_ports)', width=3,
             empty="unknown"),
        stat("Fabric busy", "Bytes that hosts' ports sent as a share of what their links could carry. Low while jobs run "
             "says that they wait for something.",
             'fabricmon_tier_transmit_utilisation_ratio{tier="adapter"}', unit="percentunit", decimals=0, width=3),
    ))  # fmt: skip


def _incidents(site: Site) -> Row:
    return Row("Incidents", (open_incidents(site, 14), by_severity(10)))


def _traffic(site: Site) -> Row:
    transmit = "fabricmon_rail_transmit_utilisation_ratio"
    sent, received = compute(transmit), compute("fabricmon_rail_receive_utilisation_ratio")
    congestion = site.limits("congestion")
    shares = steps((congestion.medium, YELLOW), (congestion.high, RED))
    return Row("Traffic", (
        series("Utilisation of the rails", "Bytes sent as a share of the line rates, by rail number, over all units. "
               "Jobs load all rails alike: one that lies below the others is slowed down by something.",
               Query(by_rail_index(transmit, "avg"), "rail {{index}}"), unit="percentunit", most=1, width=8),
        series("Spread over the rails", "The busiest, the middle and the idlest rail of all units. A wide spread while "
               "one job fills the fabric is a slow rail.",
               Query(f"max({sent})", "busiest"), Query(f"quantile(0.5, {sent})", "middle"),
               Query(f"min({sent})", "idlest"), unit="percentunit", most=1, width=8),
        series("Time that ports wait", "Share of time in which hosts' ports had data and might not send (pause, no "
               f"credits), by rail number. Above {congestion.medium:.0%} for minutes is congestion, above "
               f"{congestion.high:.0%} severe.", Query(by_rail_index("fabricmon_rail_waiting_ratio", "avg"),
               "rail {{index}}"), unit="percentunit", limits=shares, width=8, empty="unknown"),
        series("Throughput", "Bytes that all ports sent and received. Sent and received differ for long only where "
               "storage or another network takes part.",
               Query("sum(fabricmon:device:transmitted_bytes:rate5m)", "sent"),
               Query("sum(fabricmon:device:received_bytes:rate5m)", "received"), unit="Bps", width=8,
               empty="no recording rules"),
        bars("Idlest rails", "The eight rails that send least now. One rail far below the others while jobs run is to be "
             "looked at.", Query(f"bottomk(8, {sent})", "{{rail}}"), unit="percentunit", most=1, width=8, decimals=1),
        bars("Busiest rails", "The eight rails that receive most now, as a share of their links' rates.",
             Query(f"topk(8, {received})", "{{rail}}"), unit="percentunit", most=1, width=8, decimals=1),
    ))  # fmt: skip


def _links(site: Site) -> Row:
    downs = 'fabricmon:port:downs:increase1h'
    return Row("Links, NVLinks, PCIe", (
        series("Links that are not up", "Hosts' ports by state of their link. Down: no light or no partner. Initialising: "
               "no subnet manager. Unknown: not read lately.",
               *(Query(f'sum(fabricmon_rail_link_ports{{state="{state}"}})', word) for state, word in (
                   ("down", "down"), ("initialising", "initialising"), ("down_by_order", "down by order"),
                   ("unknown", "unknown"))), stacked=True, width=8,
               overrides=[by_name("down", color={"mode": "fixed", "fixedColor": RED}),
                          by_name("initialising", color={"mode": "fixed", "fixedColor": ORANGE}),
                          by_name("down by order", color={"mode": "fixed", "fixedColor": "blue"}),
                          by_name("unknown", color={"mode": "fixed", "fixedColor": GREY})]),
        series("Links that went down within the hour", "The ten links with most downs. Three within minutes is flapping; "
               "many links at the same time are one cause.", Query(greatest(downs), site.port), width=8,
               empty="none", links=[site.to_node], points=True),
        series("Errors on links", "Errors per second by counter, over all links. Symbol errors that grow are a bad cable "
               "or optic; uncorrectable blocks lose data.",
               Query("fabricmon:fleet:errors:rate5m > 0", "{{counter}}"), width=8, empty="none"),
        stat("GPUs", "GPUs that tell of their NVLinks.", "fabricmon:fleet:gpus:count", width=4, empty="no GPUs"),
        stat("NVLinks inactive", "NVLinks to a switch that are inactive. Any is bad: the GPU is slower than its peers.",
             "fabricmon:fleet:nvlinks_inactive:sum", limits=_BAD, width=4, empty="no GPUs"),
        stat("GPUs to recover", "GPUs with which the driver wants something done: a reset, a reboot. Any is bad.",
             "count(fabricmon:gpu:recovery_wanted:state) or vector(0)", limits=_BAD, width=4),
        stat("PCIe paths narrow", "GPUs and adapters that have fewer PCIe lanes than they could. Any is bad.",
             "count(fabricmon:pcie:path_width:ratio) or vector(0)", limits=_BAD, width=4),
        stat("Modules without light", "Ports with a lane on which no light arrives. Bad where the link should be up.",
             "fabricmon:fleet:module_lanes_dark:count", limits=_WARN, width=4),
        stat("Packets lost", "Packets per second that were lost and sent again, over all ports, of the counter that "
             "shows most. More than a few in a lossless fabric is bad.",
             "max(fabricmon:fleet:losses:rate5m) or vector(0)", unit="pps", width=4, decimals=1),
    ))  # fmt: skip


def _watching() -> Row:
    colours = {Presence.LIVE: GREEN, Presence.SLOW: YELLOW, Presence.REFUSED: ORANGE, Presence.UNREACHABLE: RED,
               Presence.CLONED: "purple", Presence.INCOMPATIBLE: "blue", Presence.NEVER: GREY}  # fmt: skip
    return Row("Who watches", (
        series("Nodes by presence", "How the agents answer. Refused: the node is there and its agent is not. Unreachable: "
               "nothing answers. Never: expected, never seen.",
               Query("fabricmon_central_nodes", "{{presence}}"), stacked=True, width=12,
               overrides=[by_name(p.value, color={"mode": "fixed", "fixedColor": c}) for p, c in colours.items()]),
        series("Judging the fleet", "How long one look at all ports takes at the centre. Near the time between two looks "
               "it judges late.", Query("fabricmon_central_tick_last_seconds", "last"), unit="s", width=12),
    ))  # fmt: skip
