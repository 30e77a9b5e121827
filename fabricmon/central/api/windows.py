"""Silences and maintenance windows in the API: list, create, end."""

from __future__ import annotations

from typing import Any, Generic

from aiohttp import web
from msgspec import Struct

from fabricmon.central.api import request as asked
from fabricmon.central.api.answers import answer, listed
from fabricmon.central.api.names import fabric_names
from fabricmon.central.api.request import Refused
from fabricmon.central.delivery.silences import KeptWindows, W
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.forms.times import rfc3339
from fabricmon.model import Maintenance
from fabricmon.notify.known_names import unknown_in_matchers, unknown_in_window
from fabricmon.notify.silence import Silence, maintenance, silence

PREVIEWED = 1000  # incidents that a preview names


def refuse_unknown(sentence: str) -> None:
    """Refuse a window with a name that nothing has."""
    if sentence:
        raise Refused(400, f"{sentence} (`anyway`, --anyway: accept it)")


class NewWindow(Struct, forbid_unknown_fields=True, kw_only=True):
    """Common fields of POST bodies. Either `duration` ("2h") or `ends`; times in RFC 3339 or seconds since 1970.

    anyway   accept names that nothing in the fabric has
    preview  save nothing; the answer shows what would be saved and how many incidents it covers now
    """

    author: str = ""
    comment: str = ""
    starts: str | float | None = None
    ends: str | float | None = None
    duration: str | None = None
    anyway: bool = False
    preview: bool = False

    def period(self, now: float) -> tuple[float, float]:
        """Start and end as wall time."""
        return asked.period(self.starts, self.ends, self.duration, now)


class NewSilence(NewWindow, forbid_unknown_fields=True, kw_only=True):
    """Body of POST /api/v1/silences."""

    matchers: list[str]


class NewMaintenance(NewWindow, forbid_unknown_fields=True, kw_only=True):
    """Body of POST /api/v1/maintenance."""

    hosts: list[str] = []
    components: list[str] = []


class WindowHandlers(Generic[W]):
    """Handlers for one type of windows. `name` is the key of the list, `word` the singular."""

    name = word = ""

    def __init__(self, evaluator: Evaluator, windows: KeptWindows[W]) -> None:
        self._evaluator = evaluator
        self._windows: KeptWindows[W] = windows

    async def all(self, request: web.Request) -> web.Response:
        """Active and future ones; with `all=true` also ended ones."""
        query, now = asked.query(request, "all", "limit"), self._evaluator.now()
        found = self._windows.all() if "all" in query else self._windows.open(now)
        return listed(self.name, found, asked.limit(query), lambda window: self._document(window, now))

    async def end(self, request: web.Request) -> web.Response:
        """End one now."""
        wanted, now = asked.name(request), self._evaluator.now()
        ended = await self._windows.expire(wanted, now)
        if ended is None:
            raise Refused(404, f"no {self.word} {wanted!r}")
        return self._changed(ended, now, 200)

    def _changed(self, window: W, now: float, status: int) -> web.Response:
        self._evaluator.silences_changed()
        return answer(self._document(window, now), status)

    def _document(self, window: W, now: float) -> dict[str, Any]:
        covered = {"hosts": window.hosts, "components": window.components} if isinstance(window, Maintenance) else {
            "matchers": [str(m) for m in window.matchers]
        }  # fmt: skip
        disabled = window.disabled if isinstance(window, Silence) else ""
        state = "pending" if now < window.starts else "active" if now < window.ends else "ended"
        return {
            "id": window.id,
            "state": "disabled" if disabled and state != "ended" else state,
            **({"disabled": disabled} if disabled else {}),
            **covered,
            "starts": rfc3339(window.starts),
            "ends": rfc3339(window.ends),
            "author": window.author,
            "comment": window.comment,
        }


class SilenceHandlers(WindowHandlers[Silence]):
    """Handlers for silences."""

    name, word = "silences", "silence"

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__(evaluator, evaluator.silences)

    async def add(self, request: web.Request) -> web.Response:
        """Create a silence."""
        body, now = await asked.body(request, NewSilence), self._evaluator.now()
        given = (body.matchers, *body.period(now), body.author, body.comment)
        wanted = silence("", *given)
        covered = [i.id for i in self._evaluator.current().incidents if i.status == "firing" and wanted.covers(i)]
        # what it covers now needs no further name
        if not (body.anyway or covered):
            refuse_unknown(unknown_in_matchers(wanted.matchers, fabric_names(self._evaluator)))
        made = wanted if body.preview else await self._evaluator.silences.add(*given, now)
        document = {**self._document(made, now), "covers": len(covered)}
        if body.preview:
            return answer({**document, "incidents": covered[:PREVIEWED]})
        self._evaluator.silences_changed()
        return answer(document, 201)


class MaintenanceHandlers(WindowHandlers[Maintenance]):
    """Handlers for maintenance windows."""

    name, word = "maintenance", "maintenance window"

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__(evaluator, evaluator.maintenance)

    async def add(self, request: web.Request) -> web.Response:
        """Create a maintenance window."""
        body, now = await asked.body(request, NewMaintenance), self._evaluator.now()
        windows, covered, period = self._evaluator.maintenance, (body.hosts, body.components), body.period(now)
        wanted = maintenance("", *period, *covered, body.author, body.comment)
        if not body.anyway:
            refuse_unknown(unknown_in_window(*covered, fabric_names(self._evaluator)))
        if body.preview:
            return answer(self._document(wanted, now))
        return self._changed(await windows.add(*period, now, *covered, body.author, body.comment), now, 201)
