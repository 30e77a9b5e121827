"""Settings common to all receivers: which incidents, when to notify, and the text of messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.matchers import parse as parse_matcher
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.notify.template import BODY, ENDED, TITLE, MessageLine, Template, TemplateError, one_line, parse, values
from fabricmon.senders.settings import check_receiver
from fabricmon.units import Duration

JOIN = 60.0  # seconds after a message in which further rises of its incident join
LONGEST_WAIT = 7 * 86400.0  # seconds of `after`, at most
MAX_TITLE = 200  # characters of a title


class Routing(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings of every receiver.

    timeout        for one attempt, including the connection.
    min_severity   info | warning | critical: minimum severity to notify.
    match          matchers that must all match, as in a silence: [kind=link_flapping, 'node=~"host-0.*"'].
    send_resolved  notify also when an incident is resolved.
    after          escalation: notify only of incidents open for this time without acknowledgement. 0s: immediately.
    """

    timeout: Duration = Duration(10)
    min_severity: Severity = Severity.WARNING
    match: tuple[str, ...] = ()
    send_resolved: bool = True
    after: Duration = Duration(0)

    def check(self) -> None:
        """ValueError with the invalid key."""
        check_receiver(self.timeout, self.match)
        if not 0 <= self.after <= LONGEST_WAIT:
            raise ValueError("`after` must be 0s (immediately) or at most 7d")

    def receiver(self, name: str, notify: NotifyConfig, repeats_itself: bool, acknowledged: bool) -> Receiver:
        """The settings for `notify`."""
        return Receiver(
            name=name,
            min_severity=self.min_severity,
            matchers=tuple(parse_matcher(text) for text in self.match),
            send_resolved=self.send_resolved,
            # A receiver with a refresh repeats notifications itself.
            repeat=0.0 if repeats_itself else float(notify.repeat),
            batch=notify.batch,
            after=float(self.after),
            acknowledged=acknowledged,
        )


class Paced(Routing, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings of receivers with reminders.

    repeat  time between reminders of an open incident; 0s: none, null: `notify.repeat`.
    digest  minimum time between messages: incidents due meanwhile come in one. Critical ones are sent immediately. 0s:
            no delay.
    budget  messages in any 5 minutes at most, digests included; what is over comes in one digest. 0: no limit, and
            rises of one incident do not join; null: `notify.budget`.
    """

    repeat: Duration | None = None
    digest: Duration = Duration(0)
    budget: Annotated[int, Meta(ge=0, le=1000)] | None = None

    @property
    def each(self) -> int:
        """Incidents of a notification that are a message each; more of them are one message."""
        return 1

    def check(self) -> None:
        super().check()
        if self.repeat is not None and self.repeat and self.repeat < 60:
            raise ValueError("`repeat` must be 0s (never) or at least 1m")
        if not 0 <= self.digest <= 86400:
            raise ValueError("`digest` must be 0s (no delay) or at most 1d")

    def receiver(self, name: str, notify: NotifyConfig, repeats_itself: bool, acknowledged: bool) -> Receiver:
        made = super().receiver(name, notify, repeats_itself, acknowledged)
        repeat = notify.repeat if self.repeat is None else self.repeat
        budget = notify.budget if self.budget is None else self.budget
        return replace(
            made,
            repeat=0.0 if repeats_itself else float(repeat),
            digest=float(self.digest),
            budget=budget,
            each=self.each,
            join=JOIN if budget else 0.0,
        )


class Worded(Paced, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings of receivers with text messages. Templates: docs/receivers.md.

    title  template of the title; "": "[{state}] {title}".
    body   template of the message; "": the default, shorter for resolved incidents.
    """

    title: str = ""
    body: str = ""

    def check(self) -> None:
        super().check()
        for key, text in (("title", self.title), ("body", self.body)):
            try:
                parse(text)
            except TemplateError as error:
                raise ValueError(f"`{key}`: {error}") from None
        if "\n" in self.title.strip():
            raise ValueError("`title` must be one line")


class IncidentMessage(NamedTuple):
    """A message about one incident as plain text; `value` returns other fields by name."""

    title: str
    lines: list[MessageLine]
    value: Callable[[str], str]


def incident_message(
    config: Worded, incident: Incident, notification: Notification, links: IncidentLinks
) -> IncidentMessage:
    """The message about one incident. Its last line names the server, unless the template does."""
    value = values(incident, notification, links)
    title = one_line(_template(config.title or TITLE).render(value))
    if len(title) > MAX_TITLE:
        title = title[: MAX_TITLE - 1].rstrip() + "…"
    usual = BODY if incident.status == "firing" else ENDED
    body = _template(config.body or usual)
    lines = body.render(value)
    if value("server") and not body.has("server"):
        lines.append(MessageLine("Server", value("server")))
    return IncidentMessage(title, lines, value)


def digest_line(message: IncidentMessage) -> str:
    """One line for an incident in a list: title and the worst affected job, without its link."""
    first, *more = message.value("jobs").split("\n")
    jobs = "" if first in ("", "none") else f"; {first}" + (f" and {len(more)} more" if more else "")
    return f"{message.title}{jobs}"


def summary(notification: Notification) -> str:
    """One line for many incidents: "7 incidents, 2 critical: new incident", "digest: 7 firing, 3 resolved"."""
    if notification.reason == DIGEST:
        return _digest_summary(notification)
    count = len(notification.incidents)
    ended = sum(i.status != "firing" for i in notification.incidents)
    if ended == count:
        return f"[RESOLVED] {count} incidents resolved"
    grave = sum(i.severity is Severity.CRITICAL and i.status == "firing" for i in notification.incidents)
    worst = max((i.severity for i in notification.incidents), key=lambda s: s.rank)
    of = f", {grave} critical" if grave and grave < count else ""
    return f"[{worst.value.upper()}] {count} incidents{of}: {notification.reason}"


def _digest_summary(notification: Notification) -> str:
    firing = [i.severity for i in notification.incidents if i.status == "firing"]
    state = max(firing, key=lambda severity: severity.rank).value.upper() if firing else "RESOLVED"
    grave = f" ({firing.count(Severity.CRITICAL)} critical)" if Severity.CRITICAL in firing else ""
    more = f", {notification.waiting} more wait" if notification.waiting else ""
    resolved = len(notification.incidents) - len(firing)
    ended = f", {resolved} resolved" if resolved else ""
    return f"[{state}] digest: {len(firing)} firing{grave}{ended}{more}"


@lru_cache(maxsize=256)
def _template(text: str) -> Template:
    return parse(text)
