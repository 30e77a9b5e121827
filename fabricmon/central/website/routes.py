"""The page over HTTP: documents, their parts, the map, and an event stream for changes.

A rendered answer serves all browsers that ask in the same second; its digest is the ETag. Nothing is rendered while no
browser is connected.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from aiohttp import web

from fabricmon.central.api import answers as api
from fabricmon.central.api import request as api_request
from fabricmon.central.documents.past import as_csv
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.page import components as known
from fabricmon.central.page import document, scene
from fabricmon.central.page.heat_map import probes_page
from fabricmon.central.page.incident import incident_detail
from fabricmon.central.page.map_layout import FabricMap, lay_out_map
from fabricmon.central.page.map_levels import map_levels
from fabricmon.central.page.map_states import map_states
from fabricmon.central.page.markup import e
from fabricmon.central.page.node import component_detail, node_detail
from fabricmon.central.page.places import PlacesOfIncidents
from fabricmon.central.page.search_filter import Filter, filter_of
from fabricmon.central.store.database import StoreError
from fabricmon.central.website.history import History
from fabricmon.central.website.named import NamedPages
from fabricmon.central.website.sending import HTML, JSON, add_assets, digest, sent
from fabricmon.forms.decoding import loose_json
from fabricmon.forms.times import clock_time
from fabricmon.jobs.model import Jobs
from fabricmon.model import ComponentId, HistoryEntry, Incident, Kind, Presence, Symptom
from fabricmon.notify.silence import silenced_by

MAX_WATCHERS = 128  # event streams; further browsers poll every few seconds
BEAT = 1.0  # seconds between two checks for a change, while a stream is open
HEARTBEAT = 5.0  # seconds after which an event is sent without a change
PLAN_EVERY = 10.0  # seconds between two layouts of the map (4 us per port)
MAX_KEPT = 32  # cached answers, valid for one second: one per filter in use
MAX_DRAWN = 2  # members of an incident whose readings are drawn
MAX_HISTORY = 500  # entries of the history on the page of an incident


class StatusPage:
    """The handlers. `warnings` are problems of the server, one sentence each."""

    def __init__(
        self,
        evaluator: Evaluator,
        warnings: Callable[[], list[str]],
        history: History | None = None,
        jobs: Callable[[], Sequence[Jobs]] = tuple,
    ) -> None:
        self._evaluator, self._warnings, self._history = evaluator, warnings, history
        self._kept: dict[tuple[str, Filter | None], tuple[float, bytes, str]] = {}
        self._plan: FabricMap | None = None
        self._plan_of: tuple[object, ...] = ()
        self._plan_at = float("-inf")
        self._places, self._named = PlacesOfIncidents(), NamedPages(evaluator, jobs)
        self._watchers = 0
        self._ending = False

    def add_routes(self, app: web.Application) -> None:
        router = app.router
        for path, handler in (
            ("/", self._document),
            ("/page/live", self._live),
            ("/page/plan", self._map_plan),
            ("/page/health", self._map_health),
            ("/page/levels", self._map_levels),
            ("/page/events", self._events),
            ("/incident", self._incident),
            ("/node", self._node),
            ("/component", self._component),
            ("/named", self._named_thing),
            ("/probes", self._probes),
            (f"{api.PREFIX}/history", self._past),
        ):
            router.add_get(path, handler)
        app.on_shutdown.append(self._end)
        add_assets(router)

    def scene(self) -> scene.Scene:
        """The current data of the page."""
        at, overview, nodes, incidents = self._evaluator.current()
        silences, taken = self._evaluator.silences, self._evaluator.acknowledgements
        deliveries = {
            name: (d.depth, d.error if d.attempts else "") for name, d in self._evaluator.outbox.deliveries().items()
        }
        return scene.Scene(
            at=at,
            overview=overview,
            nodes=nodes,
            incidents=incidents,
            taken={i.id: held for i in incidents if (held := taken.covering(i)) is not None},
            silences=silences.open(at),
            windows=self._evaluator.maintenance.open(at),
            receivers=scene.receivers(deliveries),
            warnings=self._warnings(),
            places=self._places.of(incidents, self._evaluator.engine.fleet),
        )

    # ---------------------------------------------------------------- the page and its main part

    async def _document(self, request: web.Request) -> web.Response:
        wanted = filter_of(request.query)
        return self._answer(request, ("document", wanted), lambda: document.document(self.scene(), wanted).encode())

    async def _live(self, request: web.Request) -> web.Response:
        wanted = filter_of(request.query)
        return self._answer(request, ("live", wanted), lambda: document.fragment(self.scene(), wanted).encode())

    async def _map_plan(self, request: web.Request) -> web.Response:
        return self._answer(request, ("plan", None), lambda: msgspec.json.encode(self.fabric_map().document()), JSON)

    async def _map_health(self, request: web.Request) -> web.Response:
        return self._answer(request, ("health", None), self._health, JSON)

    async def _map_levels(self, request: web.Request) -> web.Response:
        return self._answer(request, ("levels", None), self._levels, JSON)

    def _levels(self) -> bytes:
        """Load and errors by cell. Not part of the events: they change with every reading."""
        of, table = self._evaluator.engine.utilisation(), self._evaluator.engine.fleet.tables[Kind.PORT]
        errors = self._history.trail.recent_errors() if self._history is not None else np.zeros(0)
        found = map_levels(self.fabric_map(), table.generation, np.fmax(of.receive, of.transmit), errors)
        return msgspec.json.encode({"plan": self._tag(("plan", None), self._plan_bytes), **found})

    def _health(self) -> bytes:
        now, _, nodes, incidents = self._evaluator.current()
        fleet, symptoms = self._evaluator.engine.fleet, self._evaluator.engine.symptoms()
        found = map_states(self.fabric_map(), fleet, nodes, incidents, symptoms, now)
        return msgspec.json.encode({"plan": self._tag(("plan", None), self._plan_bytes), **found})

    def fabric_map(self) -> FabricMap:
        """The layout of the map, computed at most every PLAN_EVERY seconds when nodes, ports or topology changed."""
        engine, now = self._evaluator.engine, self._evaluator.now()
        table = engine.fleet.tables[Kind.PORT]
        state = (table.changes, id(table.domains), tuple(engine.fleet.nodes), id(engine.topology()))
        due = now - self._plan_at >= PLAN_EVERY or now < self._plan_at
        if self._plan is None or (due and state != self._plan_of):
            self._plan = lay_out_map(list(engine.fleet.nodes), table, engine.topology())
            self._plan_of, self._plan_at = state, now
        return self._plan

    def _plan_bytes(self) -> bytes:
        return msgspec.json.encode(self.fabric_map().document())

    # ---------------------------------------------------------------- one thing in full

    async def _incident(self, request: web.Request) -> web.Response:
        wanted = request.query.get("id", "")[: api_request.MAX_WORD]
        now, found = self._evaluator.current().at, await self._evaluator.incident(wanted)
        if found is None:
            return self._missing(request, "No such incident", "Incidents are stored for 30 days.")
        history = await self._transitions(wanted) or found.history
        clock, fleet = self._clock(request), self._evaluator.engine.fleet
        html = incident_detail(
            found,
            list(history)[-MAX_HISTORY:],
            self._evaluator.acknowledgements.covering(found),
            silenced_by(found, self._evaluator.silences.active(now), now),
            clock,
            self._named.link,
            [member for part in found.parts[:MAX_DRAWN] if (member := fleet.find(part)) is not None],
        )
        return self._detail(request, found.title, html)

    async def _transitions(self, incident: str) -> list[HistoryEntry]:
        """All transitions from the store; none while it fails: an open incident is shown also then."""
        try:
            return await self._evaluator.store.history(incident)
        except StoreError:
            return []

    async def _node(self, request: web.Request) -> web.Response:
        name = request.query.get("name", "")[: api_request.MAX_WORD]
        _, _, nodes, incidents = self._evaluator.current()
        node = next((n for n in nodes if n.node == name), None)
        if node is None:
            return self._missing(request, "No such node", "No agent of this name is configured.")
        engine = self._evaluator.engine
        ports = known.ports_of(engine.utilisation(), engine.fleet, name)
        html = node_detail(
            node,
            ports,
            [c for kind in (Kind.GPU, Kind.PCIE) for c in known.others_of(engine.fleet, name, kind)],
            [i for i in incidents if _concerns(i, name)],
            [s for s in engine.symptoms() if s.component.node == name],
            self._clock(request),
            self._named.link,
            await self._named.around([port for port in ports if "swept" not in port.labels]),
        )
        return self._detail(request, name, html)

    async def _component(self, request: web.Request) -> web.Response:
        component = component_of(request)
        engine = self._evaluator.engine
        row = engine.fleet.tables[component.kind].row(component) if component else None
        if component is None or row is None:
            return self._missing(request, "No such component", "No agent has reported it.")
        component = engine.fleet.tables[component.kind].ids[row]
        now, _, nodes, incidents = self._evaluator.current()
        html = component_detail(
            component,
            engine.fleet.tables[component.kind].labels[row],
            known.places_of(engine.fleet, component, now),
            known.values_of(engine.fleet, component, now),
            [i for i in incidents if str(component) in i.parts or str(component) in i.component],
            _symptoms_of(engine.symptoms(), component),
            any(n.node == component.node and n.presence is Presence.LIVE for n in nodes),
            self._clock(request),
            self._named.link,
            await self._around_row(component, row),
        )
        return self._detail(request, str(component), html)

    async def _around_row(self, component: ComponentId, row: int) -> str:
        if component.kind is not Kind.PORT:
            return ""
        engine = self._evaluator.engine
        return await self._named.around(known.port_rows(engine.utilisation(), engine.fleet, [row]))

    async def _named_thing(self, request: web.Request) -> web.Response:
        kind, name = (request.query.get(key, "")[: api_request.MAX_WORD] for key in ("kind", "name"))
        found = await self._named.html(kind, name)
        if found is None:
            return self._missing(request, "Nothing of this name", "Neither the topology nor an agent names it now.")
        return self._detail(request, *found)

    async def _probes(self, request: web.Request) -> web.Response:
        rail = request.query.get("rail", "")[: api_request.MAX_WORD]
        html = probes_page(await self._evaluator.pairs.newest(), rail)
        return self._detail(request, "Probes", html)

    async def _past(self, request: web.Request) -> web.Response:
        """The last hours of a component; starts recording it closely."""
        query = api_request.query(request, "kind", "node", "name", "span", "format")
        form, component = api_request.one_of(query, "format", ("json", "csv")), component_of(request)
        day = api_request.one_of(query, "span", ("hours", "day")) == "day"
        if component is None:
            raise api_request.Refused(400, "kind, node and name of a component are required")
        table = self._evaluator.engine.fleet.tables[component.kind]
        row = table.row(component)
        if self._history is None or row is None:
            raise api_request.Refused(404, f"no {component.kind} {str(component)!r}")
        component = table.ids[row]
        found = await self._history.day_document(component) if day else self._history.series_document(component)
        if form != "csv":
            return api.answer(found)
        name = re.sub(r"[^\w.-]+", "-", str(component))
        headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}.csv"'}
        return web.Response(text=as_csv(found), content_type="text/csv", headers=headers)

    def _clock(self, request: web.Request) -> float | None:
        """The time for relative times written here; None for a part, where the script writes them."""
        return None if "part" in request.query else self._evaluator.now()

    def _detail(self, request: web.Request, title: str, html: str, status: int = 200) -> web.Response:
        if "part" not in request.query:
            back = '<p class="back"><a href=".">Overview</a></p>'
            heading = f'<h1 class="unseen">{e(title)}</h1>'
            body = f'{back}{heading}<div class="panel whole">{html}</div>'
            pulse = f"as of <time>{clock_time(self._evaluator.now())}</time>"
            html = document.shell(title, self._evaluator.fabric, body, pulse)
        body_bytes = html.encode()
        return sent(request, body_bytes, digest(body_bytes), HTML, status)

    def _missing(self, request: web.Request, title: str, text: str) -> web.Response:
        html = f'<h2 id="panel-title" tabindex="-1">{title}</h2><p class="note">{text}</p>'
        return self._detail(request, title, html, 404)

    # ---------------------------------------------------------------- what changed

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: `update` with the digests of page and map."""
        if self._watchers >= MAX_WATCHERS:
            raise web.HTTPServiceUnavailable(text="too many streams; retry later\n", headers={"Retry-After": "10"})
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
        )
        self._watchers += 1
        try:
            await response.prepare(request)
            sent, sent_at = "", 0.0
            loop = asyncio.get_running_loop()
            while not self._ending:
                news = self._news()
                if news != sent or loop.time() - sent_at >= HEARTBEAT:
                    data = json.dumps({"at": self._evaluator.now(), **loose_json(news)})
                    await response.write(f"event: update\ndata: {data}\n\n".encode())
                    sent, sent_at = news, loop.time()
                await asyncio.sleep(BEAT)
        finally:
            self._watchers -= 1
        return response

    async def _end(self, _app: web.Application) -> None:
        """Close the event streams within a beat."""
        self._ending = True

    def _news(self) -> str:
        live = self._tag(("live", Filter()), lambda: document.fragment(self.scene(), Filter()).encode())
        return json.dumps({"live": live, "map": self._tag(("health", None), self._health)})

    # ---------------------------------------------------------------- answers

    def _answer(
        self,
        request: web.Request,
        key: tuple[str, Filter | None],
        make: Callable[[], bytes],
        kind: str = HTML,
    ) -> web.Response:
        self._tag(key, make)
        _, body, tag = self._kept[key]
        return sent(request, body, tag, kind)

    def _tag(self, key: tuple[str, Filter | None], make: Callable[[], bytes]) -> str:
        """The digest of an answer; rendered at most once per tick."""
        at = self._evaluator.current().at
        kept = self._kept.get(key)
        if kept is None or kept[0] != at:
            body = make()
            self._kept.pop(key, None)
            self._kept[key] = kept = (at, body, digest(body))
            while len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        return kept[2]


def component_of(request: web.Request) -> ComponentId | None:
    """The component that `kind`, `node` and `name` of a query name; None where they are invalid."""
    kind, node, name = (request.query.get(key, "")[: api_request.MAX_WORD] for key in ("kind", "node", "name"))
    return ComponentId(Kind(kind), node, name) if kind in tuple(Kind) and node else None


def _concerns(incident: Incident, node: str) -> bool:
    return any(part.partition("/")[0] == node for part in incident.parts) or f"({node}" in incident.component


def _symptoms_of(symptoms: list[Symptom], component: ComponentId) -> list[Symptom]:
    return [s for s in symptoms if s.component == component]
