"""Slack messages: incidents as text and an attachment with a coloured bar and blocks, within Slack's limits.

Limits (reference of Block Kit): 3,000 characters per section, 50 blocks per message; and about 13,000 characters in all
blocks (`msg_blocks_too_long`, observed).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.acting import absorbed_into
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.template import MessageLine
from fabricmon.senders.routing import IncidentMessage, Worded, digest_line, incident_message, summary

SECTION = 2900  # characters of one section
ROW = 1400  # characters of one line before it is escaped
BLOCKS = 12_000  # characters of all blocks of a message
MARGIN = 400  # of these for the rows that count and that name the server
MOST_BLOCKS = 45
DETAILED = 3  # incidents with a message each; more come as one digest

COLOURS = {Severity.CRITICAL: "#c62828", Severity.WARNING: "#ef8f00", Severity.INFO: "#1565c0"}
RESOLVED, ACKNOWLEDGED = "#2e7d32", "#6a5acd"


def single(config: Worded, incident: Incident, notification: Notification, links: IncidentLinks) -> dict[str, Any]:
    """A message about one incident."""
    made = incident_message(config, incident, notification, links)
    url, title = made.value("url"), escape(made.title)
    head = f"*{link(url, made.title)}*" if url else f"*{title}*"
    return _message(made.title, head, _bar(incident, made), sections([_row(line) for line in made.lines]))


def reply(config: Worded, incident: Incident, notification: Notification, links: IncidentLinks) -> dict[str, Any]:
    """A post in the thread of an incident's first message: only the change."""
    message = single(config, incident, notification, links)
    if incident.status == "firing" and notification.reason != "acknowledged":
        return message
    made = incident_message(config, incident, notification, links)
    firing = incident.status == "firing"
    what = f"acknowledged {made.value('acknowledged')}" if firing else f"resolved after {made.value('lasted')}"
    if not firing and absorbed_into(incident):
        what = "merged into a larger incident"
    server = f" (server {links.server})" if links.server else ""
    return {"text": escape(f"{made.title}: {what}{server}")}


def digest(config: Worded, notification: Notification, links: IncidentLinks) -> dict[str, Any]:
    """A message about many incidents: a line per incident, shorter ones where they would not fit otherwise."""
    title = summary(notification)
    room = (BLOCKS - MARGIN) // len(notification.incidents)
    rows = [_named(incident_message(config, i, notification, links), room) for i in notification.incidents]
    if links.server:
        rows.append(f"*Server:* {escape(links.server)}")
    firing = [i.severity for i in notification.incidents if i.status == "firing"]
    bar = COLOURS[max(firing, key=lambda severity: severity.rank)] if firing else RESOLVED
    return _message(title, f"*{escape(title)}*", bar, sections(rows))


def _named(message: IncidentMessage, room: int) -> str:
    """One incident in a list, in `room` characters: linked and with its worst job, only linked, or cut."""
    title = escape(message.title)
    name = link(message.value("url"), message.title) if message.value("url") else title
    more = escape(digest_line(message).removeprefix(message.title)[:200])
    rows = (f"• {name}{more}", f"• {name}", f"• {title}")
    # An escaped character has at most 5.
    return next((row for row in rows if len(row) < room), f"• {escape(message.title[: max(1, (room - 5) // 5)])}…")


def sections(rows: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of mrkdwn as section blocks within Slack's limits. The last row, which names the server, is always there; a
    row before it counts those left out."""
    *first, last = rows or [""]
    blocks: list[str] = []
    room, left_out = BLOCKS - len(last), 0
    for row in first:
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
    if blocks and len(blocks[-1]) + 1 + len(last) <= SECTION:
        blocks[-1] += f"\n{last}"
    elif last:
        blocks.append(last)
    return [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in blocks]


def escape(text: str) -> str:
    """Escape Slack's three special characters, so that names cannot become mentions, channels or links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def link(url: str, text: str) -> str:
    """A link of fabricmon; `text` is escaped."""
    return f"<{escape(url).replace('|', '%7C')}|{escape(text).replace('|', '¦')}>"


def mentioned(message: dict[str, Any], mention: str) -> dict[str, Any]:
    """The message with a mention before its text."""
    return {**message, "text": f"{mention} {message['text']}"}


def _row(line: MessageLine) -> str:
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


def _bar(incident: Incident, made: IncidentMessage) -> str:
    """The colour of the bar, by the state of the incident."""
    if incident.status != "firing":
        return RESOLVED
    return ACKNOWLEDGED if made.value("acknowledged") else COLOURS[incident.severity]


def _message(title: str, head: str, bar: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """`text` is shown above the attachment; `fallback` instead of it if attachments are not supported."""
    return {"text": head, "attachments": [{"color": bar, "fallback": escape(title), "blocks": blocks}]}
