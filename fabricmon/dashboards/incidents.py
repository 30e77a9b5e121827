"""Dashboard: open incidents, their age and kind, symptoms by rule, and the notifications sent."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard, choice
from fabricmon.dashboards.open_incidents import by_severity, open_incidents
from fabricmon.dashboards.panel import BLUE, GREEN, ORANGE, RED, PanelRow, Query, series, stat, states, steps
from fabricmon.dashboards.site import INCIDENTS_UID, SEVERITIES, Site


def board(site: Site) -> Dashboard:
    return Dashboard(
        INCIDENTS_UID,
        "fabricmon / Incidents",
        "Open incidents, their age and kind, symptoms by rule, and the notifications sent.",
        (choice("kind", "Kind", "label_values(fabricmon_incidents, kind)", several=True),
         choice("page", "Page", "label_values(fabricmon_central_info, page)", hidden=True)),
        (_now(site), _time(), _rules(), _notifications()),
    )  # fmt: skip


def _now(site: Site) -> PanelRow:
    oldest = "max(time() - fabricmon_incident_start_timestamp_seconds)"
    stats = [
        stat(severity.value.capitalize(), f"Open incidents of severity {severity}.",
             f'sum(fabricmon_incidents{{severity="{severity.value}", kind=~"$kind"}})', limits=steps((1, color)), width=4)
        for severity, color in SEVERITIES.items()
    ]  # fmt: skip
    return PanelRow("Now", (
        *stats,
        stat("Symptoms", "Open symptoms, before grouping by cause. Many symptoms and few incidents: a common cause was "
             "found.", "sum(fabricmon_symptoms)", width=4, empty="none"),
        stat("Oldest incident", "Age of the oldest open incident. After weeks: assign or silence it.", oldest,
             unit="dtdurations", width=4, empty="none open", graph=False),
        stat("Silences", "Active silences: no notifications for incidents that match.", "fabricmon_central_silences",
             width=4),
        open_incidents(site, 24, height=12, matchers='kind=~"$kind"', page=True),
    ))  # fmt: skip


def _time() -> PanelRow:
    kinds = 'sum by (kind) (fabricmon_incidents{kind=~"$kind"})'
    in_range = Query(f"{kinds} and max_over_time({kinds}[$__range:] @ end()) > 0", "{{kind}}")
    return PanelRow("Over time", (
        by_severity(8),
        series("Open incidents by kind", "Kinds with an open incident in the time range.", in_range, stacked=True, width=8,
               empty="none"),
        states("Timeline by kind", "Blue: one open incident; red: several.", in_range,
               limits=steps((1, BLUE), (2, RED), base="transparent"), width=8, empty="none"),
    ))  # fmt: skip


def _rules() -> PanelRow:
    return PanelRow("Symptoms", (
        series("Open symptoms by rule", "Components with a symptom of each rule. A rule with many symptoms all the time has "
               "a limit that does not fit this site.",
               Query("fabricmon_symptoms > 0", "{{rule}}"), width=24, height=7, empty="none", stacked=True),
    ), folded=True)  # fmt: skip


def _notifications() -> PanelRow:
    def hourly(word: str) -> str:
        return f"sum by (receiver) (increase(fabricmon_notifications_{word}_total[1h]))"

    return PanelRow("Notifications", (
        series("Notifications sent", "Accepted by each receiver, per hour.",
               Query(hourly("sent"), "{{receiver}}"), width=8, empty="no receiver"),
        series("Delivery failures", "Per hour. Retried: a failed attempt that is repeated; failed: rejected by the receiver "
               "and dropped. Any failed is bad.",
               Query(f"{hourly('retried')} > 0", "{{receiver}} retried"),
               Query(f"{hourly('failed')} > 0", "{{receiver}} failed"), width=8, empty="none"),
        series("Oldest undelivered notification", "Age by receiver. Minutes are bad: the receiver is down.",
               Query("fabricmon_outbox_oldest_seconds", "{{receiver}}"), unit="s", width=8, empty="no receiver",
               limits=steps((60, ORANGE), (600, RED), base=GREEN)),
    ), folded=True)  # fmt: skip
