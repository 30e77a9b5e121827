"""Past incidents over HTTP: the page, and `GET /api/v1/archive` and `/timeline`. Every answer is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from fabricmon.central.api import answers as api
from fabricmon.central.api import request as asked_of
from fabricmon.central.api.request import Refused
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.page import document
from fabricmon.central.page.archive import LONGEST, PARTS, PERIODS, Asked, archive_page, cursor
from fabricmon.central.page.search_filter import CHOICES, SEARCHED, filter_of
from fabricmon.central.store.archive import past_changes, past_incidents
from fabricmon.central.store.episodes import ArchivePlace, OpenPeriod, Timeline, timeline
from fabricmon.forms.documents import incident_document
from fabricmon.forms.times import clock_time, rfc3339
from fabricmon.notify.links import IncidentLinks

ROWS = 100  # incidents of one page
MOST = 500  # incidents of one answer of the API
PARAMETERS = (*SEARCHED, "since", "until", "before")


class ArchiveSite:
    """The handlers."""

    def __init__(self, evaluator: Evaluator, links: Callable[[], IncidentLinks]) -> None:
        self._evaluator, self._links = evaluator, links

    def add_routes(self, app: web.Application) -> None:
        """Serve the page and the API."""
        app.router.add_get("/archive", self._page)
        app.router.add_get(f"{api.PREFIX}/archive", self._incidents)
        app.router.add_get(f"{api.PREFIX}/timeline", self._timeline)

    async def _page(self, request: web.Request) -> web.Response:
        now = self._evaluator.now()
        try:
            asked = asked_of_archive(request.query, now, PERIODS[1][1])
        except Refused as error:
            return web.Response(status=error.status, text=f"{error}\n")
        reads = self._evaluator.store
        found = await reads.query(
            lambda rows: past_incidents(rows, asked.since, asked.until, asked.begin, ROWS, asked.wanted.incident)
        )
        body = archive_page(asked, found, await self._line(asked, PARTS), now)
        pulse = f"as of <time>{clock_time(now)}</time>"
        back = '<p class="back"><a href=".">Overview</a></p>'
        html = document.shell("Past incidents", self._evaluator.fabric, back + body, pulse)
        return web.Response(text=html, content_type="text/html", headers={"Cache-Control": "no-store"})

    async def _line(self, asked: Asked, parts: int) -> Timeline:
        changes, whole = await self._evaluator.store.query(lambda rows: past_changes(rows, asked.until))
        return timeline(changes, asked.since, asked.until, parts, whole)

    async def _incidents(self, request: web.Request) -> web.Response:
        """Incidents that were open at some time of a period, the newest change first."""
        query = asked_of.query(request, *PARAMETERS, "limit")
        asked_of.one_of(query, "severity", CHOICES["severity"])
        text = query.get("limit", str(ROWS))
        if not text.isdecimal() or not 1 <= int(text) <= MOST:
            raise Refused(400, f"limit: expected 1 to {MOST}, got {text!r}")
        asked = asked_of_archive(query, self._evaluator.now(), PERIODS[1][1])
        found = await self._evaluator.store.query(
            lambda rows: past_incidents(rows, asked.since, asked.until, asked.begin, int(text), asked.wanted.incident)
        )
        links = self._links()
        return api.answer({
            "incidents": [
                {**incident_document(i, links.of(i)), "episodes": [_episode(one) for one in own]}
                for i, own in found.found
            ],
            "next": cursor(found.next) if found.next is not None else None,
            "since": rfc3339(asked.since),
            "until": rfc3339(asked.until),
        })  # fmt: skip

    async def _timeline(self, request: web.Request) -> web.Response:
        """How many were open when."""
        asked = asked_of_archive(asked_of.query(request, "since", "until"), self._evaluator.now(), PERIODS[1][1])
        line = await self._line(asked, PARTS)
        return api.answer({
            "edges": [rfc3339(at) for at in line.edges],
            "open": line.counts,
            "complete_from": rfc3339(max(line.since, asked.since)),
        })  # fmt: skip


def asked_of_archive(query: Mapping[str, str], now: float, usual: float) -> Asked:
    """From a query: at most LONGEST seconds, by default the last `usual`. Refused for an invalid time or place."""
    until = asked_of.moment(query["until"], "until") if query.get("until") else now
    since = asked_of.moment(query["since"], "since") if query.get("since") else until - usual
    if not since < until:
        raise Refused(400, "since: expected a time before `until`")
    if until > now + LONGEST or until - since > LONGEST + 1:
        raise Refused(400, f"since, until: a period has at most {LONGEST / 86400:g} days")
    return Asked(filter_of(query), since, until, place_of(query.get("before", "")))


def place_of(word: str) -> ArchivePlace:
    """What `cursor` wrote; the newest without a word."""
    if not word:
        return ArchivePlace()
    at, _, id = word.partition("~")
    try:
        updated = float(at)
    except ValueError:
        updated = math.nan
    if math.isnan(updated):
        raise Refused(400, "before: expected `next` of the answer before")
    return ArchivePlace(updated, id[: asked_of.MAX_WORD])


def _episode(one: OpenPeriod) -> dict[str, Any]:
    return {
        "began": rfc3339(one.began) if math.isfinite(one.began) else None,
        "ended": rfc3339(one.ended) if math.isfinite(one.ended) else None,
    }
