"""The page of past incidents: a search over a period, how many were open when, and the incidents found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from fabricmon.central.page.cards import severity_badge
from fabricmon.central.page.markup import address, e
from fabricmon.central.page.search_filter import CHOICES, SEARCHED, Filter
from fabricmon.central.store.episodes import ArchivePlace, OpenPeriod, PastIncidents, Timeline
from fabricmon.forms.readable import kind_words
from fabricmon.forms.times import rfc3339, span
from fabricmon.model import Incident

PERIODS = (("1 hour", 3600.0), ("1 day", 86400.0), ("7 days", 7 * 86400.0), ("30 days", 30 * 86400.0))
LONGEST = PERIODS[-1][1]  # seconds of a period: as long as the store keeps resolved incidents
PARTS = 96  # bars of the time line
WIDE, HIGH, ROW = 960, 90, 200  # pixels of the drawings


class Asked(NamedTuple):
    """What is asked of the archive: a search, a period in wall seconds, and where the list goes on."""

    wanted: Filter
    since: float
    until: float
    begin: ArchivePlace = ArchivePlace()

    def during(self, since: float, until: float) -> str:
        """Its address for another period."""
        return self._replace(since=since, until=until).link()

    def link(self, **changed: str) -> str:
        """Its address with these changes."""
        words = {name: value for name in SEARCHED if (value := getattr(self.wanted, name))}
        times = {"since": rfc3339(self.since) or "", "until": rfc3339(self.until) or ""}
        return f"archive?{urlencode({**words, **times, **changed})}"


def cursor(place: ArchivePlace) -> str:
    """A place as a word of an address; `place_of` reads it."""
    return f"{place.updated!r}~{place.id}"


def archive_page(asked: Asked, found: PastIncidents, line: Timeline, now: float) -> str:
    """The main part of the page."""
    return f"""<section class="archive"><h1>Past incidents</h1>{_form(asked, now)}
{_timeline(asked, line)}
{_list(asked, found, now)}</section>"""


def _form(asked: Asked, now: float) -> str:
    links = "".join(
        f'<a href="{e(asked.during(now - seconds, now))}">{words}</a>'
        for words, seconds in PERIODS
    )
    severities = "".join(
        f'<option{" selected" if asked.wanted.severity == name else ""}>{name}</option>' for name in CHOICES["severity"]
    )
    fields = "".join(
        f'<input name="{name}" value="{e(getattr(asked.wanted, name))}" placeholder="any {name}" maxlength="256" '
        f'aria-label="{name.capitalize()}">'
        for name in ("host", "kind", "rail", "leaf", "job")
    )
    times = "".join(
        f'<label>{words} <input name="{name}" value="{_second(at)}" size="20" aria-label="{words} (UTC)"></label>'
        for name, words, at in (("since", "from", asked.since), ("until", "to", asked.until))
    )
    return (
        f'<form class="search" role="search" method="get" action="archive"><input type="search" name="q" '
        f'value="{e(asked.wanted.q)}" placeholder="Component, title, label …" maxlength="256" aria-label="Words">'
        f'<select name="severity" aria-label="Severity"><option value="">any severity</option>{severities}</select>'
        f'{fields}{times}<button class="button strong" type="submit">Search</button></form>'
        f'<nav class="choose" aria-label="Period"><span>Last</span>{links}</nav>'
    )


def _second(at: float) -> str:
    """A time to the second: "2026-05-04T09:10:01Z"."""
    return f"{(rfc3339(at) or '')[:19]}Z"


def _timeline(asked: Asked, line: Timeline) -> str:
    """Bars of the most incidents open in each part, critical lowest; each leads to its own period."""
    parts = len(line.edges) - 1
    totals = [sum(row[at] for row in line.counts.values()) for at in range(parts)]
    most, wide, bars = max(totals, default=0) or 1, WIDE / parts, []
    for at in range(parts):
        y, stack = float(HIGH), []
        for severity, row in line.counts.items():
            high = row[at] * (HIGH - 12) / most
            y -= high
            if high:
                box = f'x="{at * wide:.1f}" y="{y:.1f}" width="{wide - 1:.1f}" height="{high:.1f}"'
                stack.append(f'<rect class="{severity}" {box}/>')
        where = asked.during(line.edges[at], line.edges[at + 1])
        words = ", ".join(f"{row[at]} {severity}" for severity, row in line.counts.items() if row[at]) or "none open"
        title = f"<title>{_day(line.edges[at])}: {words}</title>"
        empty = f'<rect class="empty" x="{at * wide:.1f}" y="0" width="{wide:.1f}" height="{HIGH}"/>'
        bars.append(f'<a href="{e(where)}" tabindex="-1">{title}{empty}{"".join(stack)}</a>')
    gap = f" Before {_day(line.since)} not all are counted." if line.since > asked.since else ""
    return (
        f'<section><h2>Open incidents <span class="n">at most {max(totals, default=0):,}</span></h2>'
        f'<div class="wide drawn" tabindex="0" role="region" aria-label="Time line"><svg class="timeline" role="group" '
        f'aria-label="Open incidents from {_day(asked.since)} to {_day(asked.until)}" '
        f'viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none">{"".join(bars)}</svg></div>'
        f'<p class="note ends"><span>{_day(asked.since)}</span><span>{_day((asked.since + asked.until) / 2)}</span>'
        f"<span>{_day(asked.until)}</span></p>"
        f"<p class='note'>The most that were open at once in each bar.{gap}</p></section>"
    )


def _list(asked: Asked, found: PastIncidents, now: float) -> str:
    rows = "".join(_row(asked, incident, own, now) for incident, own in found.found)
    more = ""
    if found.next is not None:
        more = f'<p class="more"><a href="{e(asked.link(before=cursor(found.next)))}">Older</a></p>'
    if not rows:
        end = "No incident was open then that matches."
        text = end if found.next is None else "Nothing among those searched so far."
        return f'<p class="none">{text}</p>{more}'
    return (
        "<section><h2>Incidents, the last change first</h2><div class='wide' tabindex='0' role='region' "
        "aria-label='Past incidents'><table class='dense'><thead><tr><th class='c-severity'>severity</th>"
        "<th class='c-kind'>kind</th><th class='c-title'>title</th><th class='c-since'>began</th>"
        f"<th class='c-took'>open for</th><th class='c-span'>when</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"{more}</section>"
    )


def _row(asked: Asked, i: Incident, own: Sequence[OpenPeriod], now: float) -> str:
    last = own[-1]
    took = span(min(last.ended, now) - last.began) if last.began > float("-inf") else "unknown"
    times = f"{len(own)} times, last " if len(own) > 1 else ""
    where, state = address("incident", id=i.id), "" if last.ended < now else ", open"
    return (
        f'<tr class="incident {i.severity.value}"><td class="c-severity">{severity_badge(i)}</td>'
        f'<td class="c-kind">{e(kind_words(i.kind))}</td><td class="c-title"><a class="title" href="{where}" '
        f'title="{e(i.title)}">{e(i.title)}</a><code class="small">{e(i.component)}</code></td>'
        f'<td class="c-since">{_day(last.began)}</td><td class="c-took">{times}{took}{state}</td>'
        f'<td class="c-span">{_spans(asked, i.severity.value, own)}</td></tr>'
    )


def _spans(asked: Asked, severity: str, own: Sequence[OpenPeriod]) -> str:
    """The episodes as bars within the period."""
    scale = ROW / max(1.0, asked.until - asked.since)
    bars = []
    for one in own:
        begin = (max(one.began, asked.since) - asked.since) * scale
        end = (min(one.ended, asked.until) - asked.since) * scale
        bars.append(f'<rect class="{severity}" x="{begin:.1f}" y="2" width="{max(2.0, end - begin):.1f}" height="8"/>')
    return f'<svg class="timeline row" viewBox="0 0 {ROW} 12" aria-hidden="true">{"".join(bars)}</svg>'


def _day(at: float) -> str:
    """A time with its date: "31 Jan 12:00 UTC"."""
    return f"{datetime.fromtimestamp(at, UTC):%-d %b %H:%M} UTC" if abs(at) < 1e11 else "unknown"
