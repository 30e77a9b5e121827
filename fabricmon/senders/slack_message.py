"""Messages of Slack: incidents as text, an attachment with a coloured bar, and blocks within Slack's limits.

Limits, by Slack's reference of Block Kit: 3,000 characters of text a section, 50 blocks a message; and, as its API was
seen to answer `msg_blocks_too_long`, about 13,000 characters of all blocks together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.links import Links
from fabricmon.notify.template import Line
from fabricmon.senders.routing import Worded, Words, summary, words

SECTION = 2900  # characters of one section
ROW = 1400  # characters of one line before it is escaped
BLOCKS = 12_000  # characters of all blocks of a message
MOST_BLOCKS = 45
DETAILED = 3  # incidents that are told one by one; more come as one digest

COLOURS = {Severity.CRITICAL: "#c62828", Severity.WARNING: "#ef8f00", Severity.INFO: "#1565c0"}
RESOLVED, TAKEN = "#2e7d32", "#6a5acd"


def single(config: Worded, incident: Incident, notification: Notification, links: Links) -> dict[str, Any]:
    """A message about one incident."""
    said = words(config, incident, notification, links)
    url, title = said.value("url"), escape(said.title)
    head = f"*{link(url, said.title)}*" if url else f"*{title}*"
    return _message(said.title, head, _bar(incident, said), sections(map(_row, said.lines)))


def reply(config: Worded, incident: Incident, notification: Notification, links: Links) -> dict[str, Any]:
    """A further word on an incident in the thread of its first message: what is new, not all of it again."""
    message = single(config, incident, notification, links)
    if incident.status == "firing" and notification.reason != "acknowledged":
        return message
    said = words(config, incident, notification, links)
    what = f"over after {said.value('lasted')}" if incident.status != "firing" else f"taken on {said.value('taken')}"
    if notification.reason == "absorbed":
        what = "now part of a larger incident"
    return {"text": escape(f"{said.title}: {what}")}


def digest(config: Worded, notification: Notification, links: Links) -> dict[str, Any]:
    """A message about many incidents: a line each."""
    title = summary(notification)
    rows = []
    for incident in notification.incidents:
        said = words(config, incident, notification, links)
        name = link(said.value("url"), said.title) if said.value("url") else escape(said.title)
        rows.append(f"• {name}: {escape(said.value('what')[:200])}")
    firing = [i.severity for i in notification.incidents if i.status == "firing"]
    bar = COLOURS[max(firing, key=lambda severity: severity.rank)] if firing else RESOLVED
    return _message(title, f"*{escape(title)}*", bar, sections(rows))


def sections(rows: Iterable[str]) -> list[dict[str, Any]]:
    """Rows of mrkdwn as section blocks, as many as Slack takes; the last says how many rows were left out."""
    blocks: list[str] = []
    room, left_out = BLOCKS, 0
    for row in rows:
        if left_out or room < len(row) + 60 or len(blocks) >= MOST_BLOCKS:
            left_out += 1
            continue
        room -= len(row) + 1
        if blocks and len(blocks[-1]) + 1 + len(row) <= SECTION:
            blocks[-1] += f"\n{row}"
        else:
            blocks.append(row)
    if left_out:
        blocks.append(f"_and {left_out} more_")
    return [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in blocks]


def escape(text: str) -> str:
    """Slack's three characters: what looks like a mention, a channel or a link in a name stays text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def link(url: str, text: str) -> str:
    """A link of ours under a text that is not."""
    return f"<{escape(url).replace('|', '%7C')}|{escape(text).replace('|', '¦')}>"


def mentioned(message: dict[str, Any], mention: str) -> dict[str, Any]:
    """The message with somebody called by name before it."""
    return {**message, "text": f"{mention} {message['text']}"}


def _row(line: Line) -> str:
    heading, text = line
    cut = text if len(text) <= ROW else text[: ROW - 1] + "…"
    if cut.startswith(("http://", "https://")) and " " not in cut and heading:
        return link(cut, heading)
    rows = escape(cut).split("\n")
    if not heading:
        return "\n".join(rows)
    if len(rows) > 1:
        return "\n".join([f"*{escape(heading)}:*", *(f"    • {row}" for row in rows)])[:SECTION]
    return f"*{escape(heading)}:* {rows[0]}"


def _bar(incident: Incident, said: Words) -> str:
    """The colour of the bar: what the incident is now."""
    if incident.status != "firing":
        return RESOLVED
    return TAKEN if said.value("taken") else COLOURS[incident.severity]


def _message(title: str, head: str, bar: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """`text` is shown above the attachment; `fallback` where attachments cannot be."""
    return {"text": head, "attachments": [{"color": bar, "fallback": escape(title), "blocks": blocks}]}
