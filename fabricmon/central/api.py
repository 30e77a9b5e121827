"""The centre's HTTP API, described in docs/api.md: what is wrong, what is silent, silences and maintenance.

Changing needs `Content-Type: application/json`, which a foreign web page cannot send without being asked first. Who may
read and who may change is not its business: `web/gate.py` stands before it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from aiohttp import web
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon import __version__
from fabricmon.central import api_acknowledge as acknowledging
from fabricmon.central import api_busy as busy
from fabricmon.central import api_request as asked
from fabricmon.central.api_request import MAX_LIMIT, MAX_WORD, Refused
from fabricmon.central.centre import Centre
from fabricmon.central.jobs_told import told
from fabricmon.central.store import StoreError
from fabricmon.fleet.utilisation import SOURCES, Utilisation
from fabricmon.jobs.model import Jobs
from fabricmon.model import Incident, Maintenance, NodeView, Presence, Severity, Symptom
from fabricmon.notify.links import RUNBOOKS, Links
from fabricmon.notify.matchers import nodes_of
from fabricmon.notify.silence import Silence
from fabricmon.senders.webhook import document, rfc3339
from fabricmon.topology.graph import Graph

PREFIX = "/api/v1"

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NewSilence(Struct, forbid_unknown_fields=True):
    """Body of POST /api/v1/silences. Either `duration` ("2h") or `ends`; times are RFC 3339 or seconds since 1970."""

    matchers: list[str]
    author: str = ""
    comment: str = ""
    starts: str | float | None = None
    ends: str | float | None = None
    duration: str | None = None


class NewMaintenance(Struct, forbid_unknown_fields=True):
    """Body of POST /api/v1/maintenance; times as in NewSilence."""

    hosts: list[str] = []
    components: list[str] = []
    author: str = ""
    comment: str = ""
    starts: str | float | None = None
    ends: str | float | None = None
    duration: str | None = None


class Api:
    """The handlers."""

    def __init__(
        self,
        centre: Centre,
        jobs: Callable[[], Sequence[Jobs]] = tuple,
        links: Callable[[], Links] = Links,
    ) -> None:
        self._centre, self._silences, self._jobs = centre, centre.silences, jobs
        self._links = links

    def add_routes(self, app: web.Application) -> None:
        """Put the API below PREFIX of an application."""
        for method, path, handler in (
            ("GET", "/overview", self.overview),
            ("GET", "/incidents", self.incidents),
            ("GET", "/incidents/{id}", self.incident),
            ("POST", "/incidents/{id}/acknowledgement", self.acknowledge),
            ("DELETE", "/incidents/{id}/acknowledgement", self.end_acknowledgement),
            ("GET", "/symptoms", self.symptoms),
            ("GET", "/nodes", self.nodes),
            ("GET", "/ports", self.ports),
            ("GET", "/rails", self.rails),
            ("GET", "/topology", self.topology),
            ("GET", "/jobs", self.jobs),
            ("GET", "/silences", self.silences),
            ("POST", "/silences", self.add_silence),
            ("DELETE", "/silences/{id}", self.end_silence),
            ("GET", "/maintenance", self.maintenance),
            ("POST", "/maintenance", self.add_maintenance),
            ("DELETE", "/maintenance/{id}", self.end_maintenance),
        ):
            app.router.add_route(method, PREFIX + path, handler)

    # ---------------------------------------------------------------- reading

    async def overview(self, request: web.Request) -> web.Response:
        """Counts: nodes by presence, ports, open incidents by severity."""
        asked.query(request)
        _, o, _, _ = self._centre.look()
        judged = self._centre.ticks.at
        return answer(
            {
                **msgspec.to_builtins(o),
                "at": rfc3339(o.at),
                "judged": rfc3339(judged) if judged else None,
                "version": __version__,
            }
        )

    async def incidents(self, request: web.Request) -> web.Response:
        """Open incidents and those resolved within the hour, or what `status` and `since` ask for."""
        query = asked.query(request, "status", "since", "severity", "kind", "node", "id", "limit")
        status = asked.one_of(query, "status", ("firing", "resolved"))
        severity = asked.one_of(query, "severity", tuple(s.value for s in Severity))
        since = asked.moment(query["since"], "since") if "since" in query else None
        limit = asked.limit(query)
        known = {i.id: i for i in self._centre.look()[3]}
        if since is not None and status != "firing":
            for incident in await self._centre.store.resolved(since, MAX_LIMIT):
                known.setdefault(incident.id, incident)
        if "id" in query:
            for incident in await self._centre.store.beginning(query["id"], limit):
                known.setdefault(incident.id, incident)
        found = [
            i
            for i in known.values()
            if (status is None or i.status == status)
            and (severity is None or i.severity.rank >= Severity(severity).rank)
            and ("kind" not in query or i.kind == query["kind"])
            and ("node" not in query or query["node"] in _touched(i))
            and ("id" not in query or i.id.startswith(query["id"]))
            and (since is None or max(i.updated, i.since) >= since)
        ]
        found.sort(key=order)
        return _list("incidents", found, limit, self._document)

    async def incident(self, request: web.Request) -> web.Response:
        """One incident with its whole kept history."""
        asked.query(request)
        wanted = request.match_info["id"][:MAX_WORD]
        found = next((i for i in self._centre.look()[3] if i.id == wanted), None)
        if found is None:
            found = next(iter(await self._centre.store.incidents([wanted])), None)
        if found is None:
            raise Refused(404, f"no incident {wanted!r}")
        history = await self._centre.store.history(wanted) or found.history
        body = self._document(found)
        body["history"] = [{"at": rfc3339(h.at), "change": h.change, "reason": h.reason} for h in history]
        return answer(body)

    def _document(self, incident: Incident) -> dict[str, Any]:
        now = self._centre.now()
        by = [s.id for s in self._silences.active(now) if s.covers(incident)]
        links = self._links()
        # Without an address of its own the centre's path: the client knows where it asked.
        runbook = links.runbook(incident.kind) or f"/{RUNBOOKS}/{incident.kind}"
        taken = acknowledging.told(self._centre.acknowledgements.of(incident))
        return {**document(incident, links), "runbook": runbook, "silenced_by": by, "acknowledged": taken}

    async def symptoms(self, request: web.Request) -> web.Response:
        """Open symptoms: what rules found, before a cause was looked for."""
        query = asked.query(request, "rule", "node", "limit")
        found = [
            s
            for s in self._centre.engine.symptoms()
            if ("rule" not in query or s.rule == query["rule"])
            and ("node" not in query or s.component.node == query["node"])
        ]
        found.sort(key=lambda s: (-s.severity.rank, s.since, s.component))
        return _list("symptoms", found, asked.limit(query), _symptom)

    async def nodes(self, request: web.Request) -> web.Response:
        """All nodes there should be and how they stand."""
        query = asked.query(request, "presence", "limit")
        presence = asked.one_of(query, "presence", (*(p.value for p in Presence), "silent"))
        wanted = [p for p in Presence if presence in (None, p) or (presence == "silent" and p is not Presence.LIVE)]
        found = [n for n in self._centre.look()[2] if n.presence in wanted]
        found.sort(key=lambda n: n.node)
        return _list("nodes", found, asked.limit(query), _node)

    async def ports(self, request: web.Request) -> web.Response:
        """Ports and how busy they are; the busiest first (or by `sort`), or of one node by name."""
        query = asked.query(request, "node", "sort", "limit")
        sort = asked.one_of(query, "sort", busy.SORTS)
        limit, of = asked.limit(query), self._centre.engine.utilisation()
        view, ids, held = of.view, of.view.table.ids, busy.held_up(of)
        rows = np.flatnonzero(view.present)
        if "node" in query:
            rows = np.array([row for row in rows.tolist() if ids[row].node == query["node"]], np.intp)
            rows = np.array(sorted(rows.tolist(), key=lambda row: ids[row]), np.intp)
        if "node" not in query or sort is not None:
            rows = busy.order(of, held, rows, sort or "busy")
        places = {domain: view.group(domain) for domain in ("link", "leaf", "rail", "tier")}
        found = [{**_port(of, places, row), **busy.fields(held, row)} for row in rows[:limit].tolist()]
        return answer({"ports": found, "total": len(rows)})

    async def rails(self, request: web.Request) -> web.Response:
        """How busy rails and tiers are."""
        asked.query(request)
        return answer(busy.rails(self._centre.engine.utilisation()))

    async def topology(self, request: web.Request) -> web.Response:
        """The plan of the fabric the centre judges by; 404 without one."""
        asked.query(request)
        graph = self._centre.engine.topology()
        if graph is None:
            raise Refused(404, "no topology was loaded; set topology.file")
        return answer(_graph(graph))

    async def jobs(self, request: web.Request) -> web.Response:
        """Jobs that run, those hit by an open incident first, and how their sources stand."""
        query = asked.query(request, "node", "source", "limit")
        return answer(told(self._jobs(), self._centre.look()[3], self._centre.now(), query, asked.limit(query)))

    # ---------------------------------------------------------------- acknowledgements, silences and maintenance

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Somebody takes an incident on."""
        wanted = request.match_info["id"][:MAX_WORD]
        body = await asked.body(request, acknowledging.NewAcknowledgement)
        found = await acknowledging.acknowledge(self._centre, wanted, body, self._document)
        if found is None:
            raise Refused(404, f"no incident {wanted!r}")
        return answer(found, 201)

    async def end_acknowledgement(self, request: web.Request) -> web.Response:
        """Nobody has it any more."""
        wanted = request.match_info["id"][:MAX_WORD]
        found = await acknowledging.withdraw(self._centre, wanted, self._document)
        if found is None:
            raise Refused(404, f"no incident {wanted!r}, or nobody has taken it on")
        return answer(found)

    async def silences(self, request: web.Request) -> web.Response:
        """Silences that are or will be active; with `all=true` ended ones too."""
        query = asked.query(request, "all", "limit")
        now = self._centre.now()
        found = [s for s in self._silences.all() if "all" in query or s.ends > now]
        return _list("silences", found, asked.limit(query), lambda s: _silence(s, now))

    async def add_silence(self, request: web.Request) -> web.Response:
        """Make a silence."""
        body, now = await asked.body(request, NewSilence), self._centre.now()
        starts, ends = asked.period(body.starts, body.ends, body.duration, now)
        made = await self._silences.add(body.matchers, starts, ends, body.author, body.comment, now)
        self._centre.silences_changed()
        return answer(_silence(made, now), 201)

    async def end_silence(self, request: web.Request) -> web.Response:
        """End a silence now."""
        wanted, now = request.match_info["id"][:MAX_WORD], self._centre.now()
        ended = await self._silences.expire(wanted, now)
        if ended is None:
            raise Refused(404, f"no silence {wanted!r}")
        self._centre.silences_changed()
        return answer(_silence(ended, now))

    async def maintenance(self, request: web.Request) -> web.Response:
        """Windows that are or will be active; with `all=true` ended ones too."""
        query = asked.query(request, "all", "limit")
        now = self._centre.now()
        found = [w for w in self._silences.all_maintenance() if "all" in query or w.ends > now]
        return _list("maintenance", found, asked.limit(query), lambda w: _window(w, now))

    async def add_maintenance(self, request: web.Request) -> web.Response:
        """Announce work."""
        body, now = await asked.body(request, NewMaintenance), self._centre.now()
        starts, ends = asked.period(body.starts, body.ends, body.duration, now)
        made = await self._silences.add_maintenance(
            starts, ends, now, body.hosts, body.components, body.author, body.comment
        )
        self._centre.silences_changed()
        return answer(_window(made, now), 201)

    async def end_maintenance(self, request: web.Request) -> web.Response:
        """End a window now."""
        wanted, now = request.match_info["id"][:MAX_WORD], self._centre.now()
        ended = await self._silences.expire_maintenance(wanted, now)
        if ended is None:
            raise Refused(404, f"no maintenance window {wanted!r}")
        self._centre.silences_changed()
        return answer(_window(ended, now))


# --------------------------------------------------------------------------------------------------------
# Requests


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What goes wrong below PREFIX is JSON: {"error": "..."} with a fitting status."""
    if not request.path.startswith(PREFIX):
        return await handler(request)
    try:
        return await handler(request)
    except Refused as error:
        status, text = error.status, str(error)
    except StoreError as error:
        status, text = 503, str(error)
    except web.HTTPException as error:
        status, text = error.status, f"{error.reason}: {request.method} {request.path[:MAX_WORD]}"
    except ValueError as error:
        status, text = 400, str(error)
    return answer({"error": text}, status)


# --------------------------------------------------------------------------------------------------------
# Answers


def answer(body: Any, status: int = 200) -> web.Response:
    """JSON that nobody keeps; what is unknown is null."""
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def order(incident: Incident) -> tuple[bool, int, float, str]:
    """Open before resolved, the severest first, then the newest."""
    return (incident.status != "firing", -incident.severity.rank, -incident.since, incident.id)


def _touched(incident: Incident) -> set[str]:
    """Nodes that an incident names: what it is about, and its bad members."""
    return {*nodes_of(incident), *(part.partition("/")[0] for part in incident.parts)}


def _list(name: str, found: list[T], limit: int, each: Callable[[T], Any]) -> web.Response:
    return answer({name: [each(item) for item in found[:limit]], "total": len(found)})


def _symptom(s: Symptom) -> dict[str, Any]:
    return {
        "rule": s.rule,
        "kind": s.kind,
        "severity": s.severity.value,
        "component": {"kind": s.component.kind.value, "node": s.component.node, "name": s.component.name},
        "since": rfc3339(s.since),
        "value": s.value,
        "evidence": [msgspec.to_builtins(e) for e in s.evidence],
        "info": s.info,
    }


def _node(n: NodeView) -> dict[str, Any]:
    last = None if n.last_frame is None else rfc3339(n.last_frame)
    return {**msgspec.to_builtins(n), "since": rfc3339(n.since), "last_frame": last}


def _port(of: Utilisation, places: Mapping[str, NDArray[np.int32]], row: int) -> dict[str, Any]:
    """One PORT row; what is unknown is null."""
    view, component, source = of.view, of.view.table.ids[row], int(of.source[row])
    labels = view.table.labels[row]
    known = {"rate": of.rate[row], "receive_ratio": of.receive[row], "transmit_ratio": of.transmit[row]}
    return {
        "node": component.node,
        "port": component.name,
        "netdev": labels.get("netdev", ""),
        "link_layer": labels.get("link_layer", ""),
        "role": labels.get("role", ""),
        **{name: float(value) if math.isfinite(value) else None for name, value in known.items()},
        "counted": SOURCES[source][0] if source >= 0 else None,
        **{domain: view.group_name(domain, int(groups[row])) or None for domain, groups in places.items()},
    }


def _graph(graph: Graph) -> dict[str, Any]:
    """All that a graph has; nodes are lists, each has its id in it."""
    return {
        **{name: getattr(graph, name) for name in graph.__struct_fields__},
        "switches": list(graph.switches.values()),
        "adapters": list(graph.adapters.values()),
    }


def _state(starts: float, ends: float, now: float) -> str:
    return "pending" if now < starts else "active" if now < ends else "ended"


def _silence(s: Silence, now: float) -> dict[str, Any]:
    return {
        "id": s.id,
        "state": _state(s.starts, s.ends, now),
        "matchers": [str(m) for m in s.matchers],
        "starts": rfc3339(s.starts),
        "ends": rfc3339(s.ends),
        "author": s.author,
        "comment": s.comment,
    }


def _window(w: Maintenance, now: float) -> dict[str, Any]:
    return {
        "id": w.id,
        "state": _state(w.starts, w.ends, now),
        "hosts": w.hosts,
        "components": w.components,
        "starts": rfc3339(w.starts),
        "ends": rfc3339(w.ends),
        "author": w.author,
        "comment": w.comment,
    }
