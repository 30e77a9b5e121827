"""Dashboard: incidents. What is open, since when, of which kind, what the rules found, and who was told."""

from __future__ import annotations

from fabricmon.dashboards.board import Board, choice
from fabricmon.dashboards.open_incidents import by_severity, open_incidents
from fabricmon.dashboards.panel import BLUE, GREEN, ORANGE, RED, Query, Row, series, stat, states, steps
from fabricmon.dashboards.site import INCIDENTS_UID, SEVERITIES, Site


def board(site: Site) -> Board:
    return Board(
        INCIDENTS_UID,
        "fabricmon / Incidents",
        "What is open, since when, of which kind, what the rules found, and who was told.",
        (choice("kind", "Kind", "label_values(fabricmon_incidents, kind)", several=True),
         choice("page", "Page", "label_values(fabricmon_central_info, page)", hidden=True)),
        (_now(site), _time(), _rules(), _telling(site)),
    )  # fmt: skip


def _now(site: Site) -> Row:
    oldest = "max(time() - fabricmon_incident_start_timestamp_seconds)"
    stats = [
        stat(severity.value.capitalize(), f"Open incidents of severity {severity}.",
             f'sum(fabricmon_incidents{{severity="{severity.value}", kind=~"$kind"}})', limits=steps((1, color)), width=4)
        for severity, color in SEVERITIES.items()
    ]  # fmt: skip
    return Row("Now", (
        *stats,
        stat("Symptoms", "What rules found, before causes were found for it. Many symptoms and few incidents: a common "
             "cause was found.", "sum(fabricmon_symptoms)", width=4, empty="none"),
        stat("Oldest", "How long the oldest incident has been open. One that is open for weeks is nobody's.", oldest,
             unit="dtdurations", width=4, empty="none open", graph=False),
        stat("Silences", "Active silences: what they cover is told to nobody.", "fabricmon_central_silences", width=4),
        open_incidents(site, 24, height=12, matchers='kind=~"$kind"', page=True),
    ))  # fmt: skip


def _time() -> Row:
    kinds = 'sum by (kind) (fabricmon_incidents{kind=~"$kind"})'
    return Row("Over time", (
        by_severity(8),
        series("Open incidents by kind", "Kinds that had an open incident in the time range.",
               Query(f"{kinds} and max_over_time({kinds.replace('sum by', 'sum by')}[$__range:] @ end()) > 0", "{{kind}}"),
               stacked=True, width=8, empty="none"),
        states("When which kind was open", "Blue where one was open, red where several were.",
               Query(f"{kinds} and max_over_time({kinds}[$__range:] @ end()) > 0", "{{kind}}"),
               limits=steps((1, BLUE), (2, RED), base="transparent"), width=8, empty="none"),
    ))  # fmt: skip


def _rules() -> Row:
    return Row("Symptoms", (
        series("Open symptoms by rule", "What each rule finds, on how many components, before causes are found. A rule "
               "that finds much all the time has a limit that does not fit this site.",
               Query("fabricmon_symptoms > 0", "{{rule}}"), width=24, height=7, empty="none", stacked=True),
    ), folded=False)  # fmt: skip


def _telling(site: Site) -> Row:
    def total(word: str) -> str:
        return f"fabricmon_notifications_{word}_total"

    return Row("Who was told", (
        series("Notifications sent", "Accepted by each receiver, per hour.",
               Query(f"sum by (receiver) (increase({total('sent')}[1h]))", "{{receiver}}"), width=8,
               empty="no receiver"),
        series("Trouble with receivers", "Per hour: retried is an attempt that failed and is repeated, failed one that the "
               "receiver refused for good. Any failed is bad: somebody was not told.",
               Query(f"sum by (receiver) (increase({total('retried')}[1h])) > 0", "{{receiver}} retried"),
               Query(f"sum by (receiver) (increase({total('failed')}[1h])) > 0", "{{receiver}} failed"),
               width=8, empty="none"),
        series("Waiting to be told", "Age of the oldest notification not yet delivered. Minutes are bad: the receiver is "
               "away and people do not know.",
               Query("fabricmon_outbox_oldest_seconds", "{{receiver}}"), unit="s", width=8, empty="no receiver",
               limits=steps((60, ORANGE), (600, RED), base=GREEN)),
    ))  # fmt: skip
