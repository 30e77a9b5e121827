"""The summary of the fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.forms.times import ago, span, wall_time
from fabricmon.terminal import incidents as listing
from fabricmon.terminal import nodes as fleet
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.style import PRESENCE, Style, TextView
from fabricmon.terminal.values import PRESENCES, SEVERITIES, counts

SHOWN = 10
"""Incidents, and nodes not reporting, that are printed."""
OLD = 30.0
"""Seconds after which the last evaluation is too old; the server evaluates every second, a large fleet in several."""

CODES = {"pass": 0, "warning": 1, "critical": 2, "unknown": 3}


def age(overview: Mapping[str, Any]) -> float | None:
    """Seconds since the last evaluation; None if there was none."""
    at, evaluated = wall_time(overview.get("at")), wall_time(overview.get("evaluated"))
    return None if at is None or evaluated is None else max(0.0, at - evaluated)


def silent(overview: Mapping[str, Any]) -> int:
    """Number of expected nodes that are not live."""
    return sum(number for presence, number in overview["nodes"].items() if presence in PRESENCES)


def verdict(overview: Mapping[str, Any], allowed_silent: int = 0) -> tuple[str, str]:
    """A word of CODES and the reason. Without open incidents: unknown if no node is live, if the last evaluation is too
    old, if more nodes than allowed do not report, or if components of those that report were not checked."""
    firing, nodes = overview["firing"], overview["nodes"]
    quiet, old = silent(overview), age(overview)
    for word, severity in (("critical", "critical"), ("warning", "warning")):
        if firing.get(severity):
            return word, counts(firing, SEVERITIES)
    if not sum(nodes.values()):
        return "unknown", "no agents configured"
    if not nodes.get("live"):
        return "unknown", f"no data: none of {sum(nodes.values()):,} nodes is live"
    if old is None or old > OLD:
        return "unknown", "no evaluation yet" if old is None else f"no evaluation for {span(old)}"
    if quiet > allowed_silent:
        return "unknown", f"no warning, but {quiet:,} {'node does' if quiet == 1 else 'nodes do'} not report"
    if overview.get("gap"):
        return "unknown", f"no warning, but {clean(overview['gap'])}"
    return "pass", counts(firing, SEVERITIES) or "no open incidents"


def screen(
    overview: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]],
    where: str, view: TextView, allowed_silent: int = 0,
) -> Iterator[str]:  # fmt: skip
    """Fleet, open incidents, nodes not reporting, time of the last evaluation.

    incidents, nodes  the open ones and those not reporting, the worst first
    """
    style, old = view.style, age(overview)
    word, reason = verdict(overview, allowed_silent)
    manner = {"pass": "good"}.get(word, word)
    name = clean(overview.get("fabric") or "fabric")
    yield f"{style('OK' if word == 'pass' else word.upper(), manner)}  {style(name, 'strong')}: {reason}"
    yield ""
    yield from facts(overview, view)
    open_count = sum(overview["firing"].values())
    if open_count:
        yield ""
        shown = incidents[:SHOWN]
        yield from listing.listed(shown, view, 2)
        if open_count > len(shown):
            yield style(f"  and {open_count - len(shown):,} more: fabricmon incidents", "faint")
    if nodes:
        yield ""
        yield from fleet.listed(nodes[:SHOWN], view, 2, silent=True)
        if silent(overview) > len(nodes[:SHOWN]):
            yield style(f"  and {silent(overview) - SHOWN:,} more: fabricmon nodes --silent", "faint")
    yield ""
    yield style(f"{evaluated(old)}, server {where}, fabricmon {clean(overview.get('version', '?'))}", "faint")
    if incidents:
        id = next(iter(listing.short_ids(incidents[:SHOWN]).values())) if len(incidents) == 1 else "ID"
        yield style(f"fabricmon explain {id}  shows evidence and next step", "faint")


def live_and_not(nodes: Mapping[str, int], live: str, style: Style) -> list[str]:
    """`live`, and the number of nodes of each other presence."""
    return [live, *(style(f"{nodes[presence]:,} {fleet.presence_text(presence)}", PRESENCE.get(presence, "unknown"))
                    for presence in PRESENCES if nodes.get(presence))]  # fmt: skip


def evaluated(old: float | None) -> str:
    """Time of the last evaluation, from `age`."""
    return "not evaluated yet" if old is None else f"last evaluation {ago(old)}"


def facts(overview: Mapping[str, Any], view: TextView) -> Iterator[str]:
    """Nodes, ports, GPUs and incidents in numbers."""
    style, nodes = view.style, overview["nodes"]
    of = sum(nodes.values())
    live = style(f"{nodes.get('live', 0):,} of {of:,} live", "good" if nodes.get("live") == of and of else "")
    yield f"  nodes        {', '.join(live_and_not(nodes, live, style))}"
    ports = f"{overview['ports']:,}"
    if overview["ports_silent"]:
        ports += ", " + style(f"{overview['ports_silent']:,} unknown (their nodes do not report)", "unknown")
    yield f"  ports        {ports}"
    if overview.get("checked_text"):
        yield f"  checked      {clean(overview['checked_text'])}"
    if overview.get("gap"):
        yield f"               {style(clean(overview['gap']), 'unknown')}"
    if overview.get("gpus"):
        yield f"  GPUs         {overview['gpus']:,}"
    if overview.get("maintenance"):
        yield f"  maintenance  {overview['maintenance']:,} nodes"
    firing = [
        style(f"{overview['firing'][s]:,} {s}", s) for s in SEVERITIES if overview["firing"].get(s)
    ]
    ended = f"; {overview['resolved']:,} resolved in the last hour" if overview.get("resolved") else ""
    yield f"  incidents    {', '.join(firing) or 'none'}{ended}"
