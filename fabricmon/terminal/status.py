"""The fleet on one screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.central.words import span
from fabricmon.terminal import incidents as listing
from fabricmon.terminal import nodes as fleet
from fabricmon.terminal.style import PRESENCE
from fabricmon.terminal.text import clean
from fabricmon.terminal.view import View
from fabricmon.terminal.words import PRESENCES, SEVERITIES, counts, wall

SHOWN = 10
"""Incidents, and silent nodes, that are printed."""
OLD = 30.0
"""Seconds after which what the centre last judged is no answer any more; it judges every second, and a large fleet
takes it several."""

CODES = {"pass": 0, "warning": 1, "critical": 2, "unknown": 3}


def age(overview: Mapping[str, Any]) -> float | None:
    """Seconds since the centre judged; None where it never did, or does not say."""
    at, judged = wall(overview.get("at")), wall(overview.get("judged"))
    return None if at is None or judged is None else max(0.0, at - judged)


def silent(overview: Mapping[str, Any]) -> int:
    """Nodes that there should be and of which no frames arrive."""
    return sum(number for presence, number in overview["nodes"].items() if presence in PRESENCES)


def verdict(overview: Mapping[str, Any], allowed_silent: int = 0) -> tuple[str, str]:
    """A word of CODES and the reason for it. Unknown is never a pass: neither a fleet of which nothing is seen, nor an
    old judgement, nor more silent nodes than allowed, unless something worse is known."""
    firing, nodes = overview["firing"], overview["nodes"]
    quiet, old = silent(overview), age(overview)
    for word, severity in (("critical", "critical"), ("warning", "warning")):
        if firing.get(severity):
            return word, counts(firing, SEVERITIES)
    if not sum(nodes.values()):
        return "unknown", "no agents known"
    if not nodes.get("live"):
        return "unknown", f"nothing is seen: none of {sum(nodes.values()):,} nodes live"
    if old is None or old > OLD:
        return "unknown", "nothing judged yet" if old is None else f"nothing judged for {span(old)}"
    if quiet > allowed_silent:
        return "unknown", f"no warning, but {quiet:,} {'node is' if quiet == 1 else 'nodes are'} silent"
    return "pass", counts(firing, SEVERITIES) or "no open incident"


def screen(
    overview: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]],
    where: str, view: View, allowed_silent: int = 0,
) -> Iterator[str]:  # fmt: skip
    """Fleet, open incidents, what is silent, and how old all that is.

    incidents, nodes  open ones and silent ones, the worst first
    """
    style, old = view.style, age(overview)
    word, reason = verdict(overview, allowed_silent)
    manner = {"pass": "good"}.get(word, word)
    name = clean(overview.get("fabric") or "fabric")
    yield f"{style(word.upper(), manner)}  {style(name, 'strong')}: {reason}"
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
    judged = "never judged" if old is None else f"judged {span(old)} ago" if old >= 1 else "judged now"
    yield style(f"{judged} by {where}, fabricmon {clean(overview.get('version', '?'))}", "faint")
    if incidents:
        id = next(iter(listing.short_ids(incidents[:SHOWN]).values())) if len(incidents) == 1 else "ID"
        yield style(f"fabricmon explain {id}  tells why and what to do", "faint")


def facts(overview: Mapping[str, Any], view: View) -> Iterator[str]:
    """Nodes, ports, GPUs: what is seen and what is not."""
    style, nodes = view.style, overview["nodes"]
    of = sum(nodes.values())
    parts = [style(f"{nodes.get('live', 0):,} of {of:,} live", "good" if nodes.get("live") == of and of else "")]
    parts += [
        style(f"{nodes[presence]:,} {presence}", PRESENCE.get(presence, "unknown"))
        for presence in PRESENCES
        if nodes.get(presence)
    ]
    yield f"  nodes        {', '.join(parts)}"
    ports = f"{overview['ports']:,} seen"
    if overview["ports_silent"]:
        ports += ", " + style(f"{overview['ports_silent']:,} of silent nodes: unknown, not healthy", "unknown")
    yield f"  ports        {ports}"
    if overview.get("gpus"):
        yield f"  GPUs         {overview['gpus']:,}"
    if overview.get("maintenance"):
        yield f"  maintenance  {overview['maintenance']:,} nodes"
    firing = [
        style(f"{overview['firing'][s]:,} {s}", s) for s in SEVERITIES if overview["firing"].get(s)
    ]
    ended = f"; {overview['resolved']:,} resolved within the hour" if overview.get("resolved") else ""
    yield f"  incidents    {', '.join(firing) or 'none open'}{ended}"
