"""What the Configs of all receivers share: which incidents they take, when they are told, and how it is worded."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.links import Links
from fabricmon.notify.matchers import parse as parse_matcher
from fabricmon.notify.route import Receiver
from fabricmon.notify.settings import NotifyConfig
from fabricmon.notify.template import BODY, ENDED, TITLE, Line, Template, TemplateError, one_line, parse, values
from fabricmon.senders.settings import check_receiver
from fabricmon.units import Duration

LONGEST_WAIT = 7 * 86400.0  # seconds; who is told later than that is not told
MAX_TITLE = 200  # characters of a title; what shows it in one line clips it anyway


class Routing(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What every receiver has.

    timeout        for one attempt, connecting included.
    min_severity   info | warning | critical: less severe incidents are not told.
    match          matchers that must all hold, as in a silence: [kind=link_flapping, 'node=~"host-0.*"'].
    send_resolved  tell also that an incident ended.
    after          tell only what has been open for so long and was taken on by nobody: the next in line. 0s: at once.
    """

    timeout: Duration = Duration(10)
    min_severity: Severity = Severity.WARNING
    match: tuple[str, ...] = ()
    send_resolved: bool = True
    after: Duration = Duration(0)

    def check(self) -> None:
        """ValueError with the key that is wrong."""
        check_receiver(self.timeout, self.match)
        if not 0 <= self.after <= LONGEST_WAIT:
            raise ValueError("`after` must be 0s (at once) or at most 7d")

    def receiver(self, name: str, notify: NotifyConfig, repeats_itself: bool, acknowledged: bool) -> Receiver:
        """The same for the plan."""
        return Receiver(
            name=name,
            min_severity=self.min_severity,
            matchers=tuple(parse_matcher(text) for text in self.match),
            send_resolved=self.send_resolved,
            # What is refreshed is never news a second time: that receiver repeats to people by itself.
            repeat=0.0 if repeats_itself else float(notify.repeat),
            batch=notify.batch,
            after=float(self.after),
            acknowledged=acknowledged,
        )


class Paced(Routing, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a receiver has that tells people at our pace.

    repeat  until it is told again of what still fires; 0s: never, null: as `notify.repeat`.
    digest  from one message to the next at least: what is due meanwhile comes together in one. What is critical does
            not wait. 0s: at once.
    """

    repeat: Duration | None = None
    digest: Duration = Duration(0)

    def check(self) -> None:
        super().check()
        if self.repeat is not None and self.repeat and self.repeat < 60:
            raise ValueError("`repeat` must be 0s (never) or at least 1m")
        if not 0 <= self.digest <= 86400:
            raise ValueError("`digest` must be 0s (at once) or at most 1d")

    def receiver(self, name: str, notify: NotifyConfig, repeats_itself: bool, acknowledged: bool) -> Receiver:
        made = super().receiver(name, notify, repeats_itself, acknowledged)
        repeat = notify.repeat if self.repeat is None else self.repeat
        return replace(made, repeat=0.0 if repeats_itself else float(repeat), digest=float(self.digest))


class Worded(Paced, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a receiver has whose messages people read. Templates: docs/receivers.md.

    title  template of the title; "": "[{state}] {title}".
    body   template of the message; "": the default, which is shorter for what has ended.
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


class Words(NamedTuple):
    """A message about one incident, as plain text; `value` gives further fields of it by name."""

    title: str
    lines: list[Line]
    value: Callable[[str], str]


def words(config: Worded, incident: Incident, notification: Notification, links: Links) -> Words:
    """What a receiver is told of one incident."""
    value = values(incident, notification, links)
    title = one_line(_template(config.title or TITLE).render(value))
    if len(title) > MAX_TITLE:
        title = title[: MAX_TITLE - 1].rstrip() + "…"
    usual = BODY if incident.status == "firing" else ENDED
    return Words(title, _template(config.body or usual).render(value), value)


def summary(notification: Notification) -> str:
    """One line for many incidents: "7 incidents, 2 of them critical: new incident"."""
    count = len(notification.incidents)
    ended = sum(i.status != "firing" for i in notification.incidents)
    if ended == count:
        return f"[RESOLVED] {count} incidents have ended"
    grave = sum(i.severity is Severity.CRITICAL and i.status == "firing" for i in notification.incidents)
    worst = max((i.severity for i in notification.incidents), key=lambda s: s.rank)
    of = f", {grave} of them critical" if grave and grave < count else ""
    return f"[{worst.value.upper()}] {count} incidents{of}: {notification.reason}"


@lru_cache(maxsize=256)
def _template(text: str) -> Template:
    return parse(text)
