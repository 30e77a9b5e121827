"""Incidents in the API: list, one in full, acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from msgspec import Struct

from fabricmon.central.api import request as asked
from fabricmon.central.api.answers import answer, listed
from fabricmon.central.api.request import MAX_LIMIT, Refused
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.forms.documents import history_document, incident_document
from fabricmon.forms.times import rfc3339
from fabricmon.model import Incident, Severity
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.links import RUNBOOKS, IncidentLinks
from fabricmon.notify.matchers import nodes_of

MAX_TOGETHER = 1000  # incidents acknowledged by one request


class NewAcknowledgement(Struct, forbid_unknown_fields=True):
    """Body of POST /api/v1/incidents/{id}/acknowledgement."""

    author: str = ""
    comment: str = ""


class NewAcknowledgements(Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST /api/v1/acknowledgements. preview: save nothing; the answer shows what would be acknowledged."""

    incidents: list[str]
    author: str = ""
    comment: str = ""
    preview: bool = False


class IncidentHandlers:
    """Handlers for incidents."""

    def __init__(self, evaluator: Evaluator, links: Callable[[], IncidentLinks]) -> None:
        self._evaluator, self._links = evaluator, links

    async def all(self, request: web.Request) -> web.Response:
        """Open incidents and those resolved within the hour, or those that `status` and `since` select."""
        query = asked.query(request, "status", "since", "severity", "kind", "node", "id", "limit")
        status = asked.one_of(query, "status", ("firing", "resolved"))
        severity = asked.one_of(query, "severity", tuple(s.value for s in Severity))
        since = asked.moment(query["since"], "since") if "since" in query else None
        limit = asked.limit(query)
        found = [
            i
            for i in await self._known(query.get("id"), since if status != "firing" else None, limit)
            if (status is None or i.status == status)
            and (severity is None or i.severity.rank >= Severity(severity).rank)
            and ("kind" not in query or i.kind == query["kind"])
            and ("node" not in query or query["node"] in _touched(i))
            and ("id" not in query or i.id.startswith(query["id"]))
            and (since is None or max(i.updated, i.since) >= since)
        ]
        return listed("incidents", sorted(found, key=_order), limit, self._document)

    async def _known(self, prefix: str | None, resolved_since: float | None, limit: int) -> list[Incident]:
        """Current ones, and from the store those with the id prefix and those resolved since."""
        store, known = self._evaluator.store, {i.id: i for i in self._evaluator.current().incidents}
        past = await store.resolved(resolved_since, MAX_LIMIT) if resolved_since is not None else []
        past += await store.beginning(prefix, limit) if prefix is not None else []
        for incident in past:
            known.setdefault(incident.id, incident)
        return list(known.values())

    async def one(self, request: web.Request) -> web.Response:
        """One incident with its stored history."""
        asked.query(request)
        wanted = asked.name(request)
        found = await self._evaluator.incident(wanted)
        if found is None:
            raise Refused(404, f"no incident {wanted!r}")
        history = await self._evaluator.store.history(wanted) or found.history
        return answer({**self._document(found), "history": history_document(history)})

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Acknowledge an incident."""
        wanted, evaluator = asked.name(request), self._evaluator
        body = await asked.body(request, NewAcknowledgement)
        found = evaluator.present_incident(wanted)
        if found is None:
            raise Refused(404, f"no incident {wanted!r}")
        await evaluator.acknowledgements.add(found, evaluator.now(), body.author, body.comment)
        evaluator.replan()
        return answer(self._document(found), 201)

    async def acknowledge_all(self, request: web.Request) -> web.Response:
        """Acknowledge those that are open of several incidents, in one commit."""
        body, evaluator = await asked.body(request, NewAcknowledgements), self._evaluator
        if not 1 <= len(body.incidents) <= MAX_TOGETHER:
            raise Refused(400, f"incidents: expected 1 to {MAX_TOGETHER} ids, got {len(body.incidents)}")
        wanted = set(body.incidents)
        found = [i for i in evaluator.current().incidents if i.id in wanted and i.status == "firing"]
        if not body.preview:
            await evaluator.acknowledgements.add_all(found, evaluator.now(), body.author, body.comment)
            evaluator.replan()
        document = {"covers": len(found), "incidents": [i.id for i in found]}
        return answer(document, 200 if body.preview else 201)

    async def withdraw(self, request: web.Request) -> web.Response:
        """Remove the acknowledgement."""
        wanted, evaluator = asked.name(request), self._evaluator
        found = evaluator.present_incident(wanted)
        if found is None or await evaluator.acknowledgements.withdraw(wanted) is None:
            raise Refused(404, f"no incident {wanted!r}, or it is not acknowledged")
        evaluator.replan()
        return answer(self._document(found))

    def _document(self, incident: Incident) -> dict[str, Any]:
        evaluator, links = self._evaluator, self._links()
        return {
            **incident_document(incident, links.of(incident)),
            # Without `external_url` a path: the client knows the host.
            "runbook": links.runbook(incident.kind) or f"/{RUNBOOKS}/{incident.kind}",
            "silenced_by": [s.id for s in evaluator.silences.active(evaluator.now()) if s.covers(incident)],
            "acknowledged": _acknowledgement(evaluator.acknowledgements.covering(incident)),
        }


def _order(incident: Incident) -> tuple[bool, int, float, str]:
    """Sort key: open first, then highest severity, then newest."""
    return (incident.status != "firing", -incident.severity.rank, -incident.since, incident.id)


def _touched(incident: Incident) -> set[str]:
    """Nodes that an incident names: its component and its bad members."""
    return {*nodes_of(incident), *(part.partition("/")[0] for part in incident.parts)}


def _acknowledgement(ack: Acknowledgement | None) -> dict[str, Any] | None:
    return None if ack is None else {"at": rfc3339(ack.at), "author": ack.author, "comment": ack.comment}
