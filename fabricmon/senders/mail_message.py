"""Mails as plain text and HTML, with headers that keep an incident in one thread.

The message id is made from the notification's key, so a repeated mail has the same id. Later mails refer to the first
mail of the episode. All values are escaped in HTML; no external content is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from typing import NamedTuple

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.template import MessageLine, plain_text
from fabricmon.senders.routing import IncidentMessage, Worded, digest_line, incident_message, summary

DETAILED = 3  # incidents with a mail each; more come as one digest
COLOURS = {Severity.CRITICAL: "#b71c1c", Severity.WARNING: "#e67e00", Severity.INFO: "#1565c0"}
RESOLVED = "#2e7d32"


class Envelope(NamedTuple):
    """Sender and recipients as in the headers, and the domain of message ids."""

    sender: str
    to: tuple[str, ...]
    domain: str


def single(
    config: Worded,
    incident: Incident,
    notification: Notification,
    links: IncidentLinks,
    envelope: Envelope,
    thread: str,
) -> EmailMessage:
    """A mail about one incident; `thread`: id of the first mail about it, "" for the first one."""
    message = incident_message(config, incident, notification, links)
    mail = _mail(notification, envelope, message.title, identity(notification, incident.id, envelope), thread)
    mail["X-Fabricmon-Incident"] = incident.id
    _urgent(mail, [incident])
    mail.set_content(plain_text(message.lines) + "\n")
    colour = COLOURS[incident.severity] if incident.status == "firing" else RESOLVED
    mail.add_alternative(_page(message.title, colour, _table(message.lines)), subtype="html")
    return mail


def digest(
    config: Worded, incidents: Sequence[Incident], notification: Notification, links: IncidentLinks, envelope: Envelope
) -> EmailMessage:
    """One mail about many incidents: a line and a link for each."""
    title = summary(notification)
    mail = _mail(notification, envelope, title, identity(notification, "digest", envelope), "")
    _urgent(mail, incidents)
    messages = [incident_message(config, incident, notification, links) for incident in incidents]
    server = f"\nServer: {links.server}\n" if links.server else ""
    mail.set_content("".join(f"{digest_line(m)}\n  {m.value('url') or m.value('id')}\n" for m in messages) + server)
    firing = [i.severity for i in incidents if i.status == "firing"]
    colour = COLOURS[max(firing, key=lambda severity: severity.rank)] if firing else RESOLVED
    mail.add_alternative(_page(title, colour, _list(messages) + escape(server)), subtype="html")
    return mail


def identity(notification: Notification, about: str, envelope: Envelope) -> str:
    """The Message-ID of a notification's mail about an incident, the same for every attempt."""
    return f"<{notification.key}.{about}@{envelope.domain}>"


def domain_of(address: str) -> str:
    """The domain of an address, for message ids. ValueError for an invalid address."""
    found = Address(addr_spec=address)
    if not found.domain or not found.username:
        raise ValueError(f"{address!r} is not a mail address")
    return found.domain


def _mail(notification: Notification, envelope: Envelope, subject: str, id: str, thread: str) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = subject
    mail["From"] = envelope.sender
    mail["To"] = ", ".join(envelope.to)
    mail["Date"] = format_datetime(datetime.fromtimestamp(notification.created, UTC))
    mail["Message-ID"] = id
    if thread and thread != id:
        mail["In-Reply-To"] = mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic replies
    mail["X-Fabricmon-Key"] = notification.key
    return mail


def _urgent(mail: EmailMessage, incidents: Sequence[Incident]) -> None:
    if any(i.severity is Severity.CRITICAL and i.status == "firing" for i in incidents):
        mail["Importance"] = "high"
        mail["X-Priority"] = "1"


def _page(title: str, colour: str, inner: str) -> str:
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head>'
        '<body style="font-family:system-ui,sans-serif;font-size:15px;line-height:1.4;margin:0;padding:16px">'
        f'<h2 style="font-size:18px;margin:0 0 12px;padding:8px 12px;border-left:6px solid {colour}">{escape(title)}'
        f"</h2>{inner}</body></html>\n"
    )


def _list(messages: Sequence[IncidentMessage]) -> str:
    rows = []
    for message in messages:
        title, url = escape(message.title), message.value("url")
        shown = f'<a href="{escape(url)}">{title}</a>' if url else title
        rows.append(f"<li>{shown}{escape(digest_line(message).removeprefix(message.title))}</li>")
    return f'<ul style="padding-left:20px">{"".join(rows)}</ul>'


def _table(lines: Sequence[MessageLine]) -> str:
    rows = []
    for heading, value in lines:
        shown = "<br>".join(map(escape, value.split("\n")))
        if value.startswith(("http://", "https://")) and not any(c in value for c in " \n\"'<>"):
            shown = f'<a href="{escape(value)}">{shown}</a>'
        head = '<th style="text-align:left;vertical-align:top;padding:3px 14px 3px 0;white-space:nowrap">'
        rows.append(f'<tr>{head}{escape(heading)}</th><td style="padding:3px 0">{shown}</td></tr>')
    return f'<table style="border-collapse:collapse">{"".join(rows)}</table>'
