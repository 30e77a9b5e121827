"""Dashboard: one rail. Its links, load and congestion beside those of the other rails, and its open incidents."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard, choice
from fabricmon.dashboards.open_incidents import open_incidents
from fabricmon.dashboards.panel import BAD, BLUE, GREY, ORANGE, RED, WARN, PanelRow, Query, colours, series, stat
from fabricmon.dashboards.site import RAIL_UID, Site, compute

RAIL = 'rail="$rail"'


def board(site: Site) -> Dashboard:
    return Dashboard(
        RAIL_UID,
        "fabricmon / Rail",
        "One rail: its links, load and congestion beside those of the other rails, and its open incidents.",
        (choice("rail", "Rail", "label_values(fabricmon_rail_link_ports, rail)"),),
        (_now(site), _load(), _congestion(site)),
        annotated=RAIL,
    )  # fmt: skip


def _now(site: Site) -> PanelRow:
    def ports(state: str) -> str:
        return f'sum(fabricmon_rail_link_ports{{{RAIL}, state="{state}"}})'

    return PanelRow("Now", (
        stat("Links up", "Host ports of this rail with an active link.", ports("up"), width=4),
        stat("Links down", "Host ports whose link is down, except disabled ones. Any is bad.", ports("down"), limits=BAD,
             width=4),
        stat("Ports unknown", "Host ports without a recent link state. Any is bad.", ports("unknown"), limits=WARN, width=4),
        stat("Tx utilisation", "Share of the line rates of the rail.",
             f"fabricmon_rail_transmit_utilisation_ratio{{{RAIL}}}", unit="percentunit", decimals=0, width=4),
        stat("Tx wait, mean", "Share of the last 30 s in which its ports could not transmit.",
             f"fabricmon_rail_waiting_ratio{{{RAIL}}}", unit="percentunit", decimals=0, limits=site.waiting_limits, width=4,
             empty="unknown"),
        stat("Tx wait, worst port", "The port that could transmit least.", f"fabricmon_rail_worst_waiting_ratio{{{RAIL}}}",
             unit="percentunit", decimals=0, limits=site.waiting_limits, width=4, empty="unknown"),
        open_incidents(site, 24, height=8, matchers=RAIL, title="Open incidents of this rail"),
    ))  # fmt: skip


def _load() -> PanelRow:
    transmit, receive = (f"fabricmon_rail_{way}_utilisation_ratio" for way in ("transmit", "receive"))
    states = (("down", "down"), ("initialising", "initialising"), ("down_by_order", "disabled"), ("unknown", "unknown"))
    return PanelRow("Load and links", (
        series("Tx utilisation beside the other rails", "This rail, and the median of all compute rails. Jobs load all rails "
               "equally: one below the median is slowed down.", Query(f"{transmit}{{{RAIL}}}", "this rail"),
               Query(f"quantile(0.5, {compute(transmit)})", "median"), unit="percentunit", most=1, width=8),
        series("Rx utilisation beside the other rails", "This rail, and the median of all compute rails.",
               Query(f"{receive}{{{RAIL}}}", "this rail"), Query(f"quantile(0.5, {compute(receive)})", "median"),
               unit="percentunit", most=1, width=8),
        series("Links not up", "Host ports of this rail by link state. All at once: its leaf.",
               *(Query(f'sum(fabricmon_rail_link_ports{{{RAIL}, state="{state}"}})', word) for state, word in states),
               stacked=True, width=8,
               overrides=colours({"down": RED, "initialising": ORANGE, "disabled": BLUE, "unknown": GREY})),
    ))  # fmt: skip


def _congestion(site: Site) -> PanelRow:
    waiting = "fabricmon_rail_waiting_ratio"
    return PanelRow("Congestion", (
        series("Tx wait", "Share of time in which ports could not transmit: mean and worst port of this rail, and the median of "
               "all rails.", Query(f"{waiting}{{{RAIL}}}", "mean"),
               Query(f"fabricmon_rail_worst_waiting_ratio{{{RAIL}}}", "worst port"),
               Query(f"quantile(0.5, {compute(waiting)})", "median of all rails"), unit="percentunit", most=1,
               limits=site.waiting_limits, width=8, empty="unknown"),
        series("PFC pause sent, worst port of the rail", "Share of time in which a port paused its switch: a slow receiver.",
               Query(f"fabricmon_rail_worst_pausing_ratio{{{RAIL}}}", "worst port"), unit="percentunit", most=1,
               limits=site.pausing_limits, width=8, empty="no PFC pause"),
        series("ECN-marked packets and CNPs", "Per second, all ports of the rail.",
               Query(f"fabricmon_rail_congestion_marks_per_second{{{RAIL}}}", "ECN-marked packets"),
               Query(f"fabricmon_rail_congestion_notices_per_second{{{RAIL}}}", "CNPs"), unit="pps", width=8,
               empty="not counted"),
    ))  # fmt: skip
