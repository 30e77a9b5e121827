"""The fleet in the API: counts, symptoms, nodes, ports, rails, the topology, jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from fabricmon import __version__
from fabricmon.central.api import request as asked
from fabricmon.central.api import utilisation
from fabricmon.central.api.answers import answer, listed
from fabricmon.central.api.request import Refused
from fabricmon.central.documents.fleet import LeafPairDocument
from fabricmon.central.documents.jobs import jobs_document
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.fleet.leaf_pairs import LeafPair
from fabricmon.fleet.utilisation import SOURCES, Utilisation
from fabricmon.forms.documents import finite, optional_time, symptom_document
from fabricmon.forms.natural import natural
from fabricmon.forms.times import rfc3339
from fabricmon.jobs.model import Jobs
from fabricmon.model import NodeView, Presence
from fabricmon.topology.graph import Graph

DOMAINS = ("link", "leaf", "rail", "tier")


class FleetHandlers:
    """Handlers for the whole fleet. `jobs` is the last answer of every job source."""

    def __init__(self, evaluator: Evaluator, jobs: Callable[[], Sequence[Jobs]]) -> None:
        self._evaluator, self._jobs = evaluator, jobs

    async def overview(self, request: web.Request) -> web.Response:
        """Counts: nodes by presence, ports, open incidents by severity."""
        asked.query(request)
        overview, evaluated = self._evaluator.current().overview, self._evaluator.ticks.at
        times = {"at": rfc3339(overview.at), "evaluated": rfc3339(evaluated) if evaluated else None}
        text = {"checked_text": overview.checked_text, "gap": overview.gap}
        return answer({**msgspec.to_builtins(overview), **text, **times, "version": __version__})

    async def symptoms(self, request: web.Request) -> web.Response:
        """Open symptoms: results of the rules, before diagnosis."""
        query = asked.query(request, "rule", "node", "limit")
        found = [
            s
            for s in self._evaluator.engine.symptoms()
            if ("rule" not in query or s.rule == query["rule"])
            and ("node" not in query or s.component.node == query["node"])
        ]
        found.sort(key=lambda s: (-s.severity.rank, s.since, s.component))
        return listed("symptoms", found, asked.limit(query), symptom_document)

    async def nodes(self, request: web.Request) -> web.Response:
        """All expected nodes with their presence."""
        query = asked.query(request, "presence", "limit")
        presence = asked.one_of(query, "presence", (*(p.value for p in Presence), "silent"))
        wanted = [p for p in Presence if presence in (None, p) or (presence == "silent" and p is not Presence.LIVE)]
        found = [n for n in self._evaluator.current().nodes if n.presence in wanted]
        return listed("nodes", sorted(found, key=lambda n: natural(n.node)), asked.limit(query), _node)

    async def ports(self, request: web.Request) -> web.Response:
        """Ports with their utilisation: highest first (or by `sort`), or of one node by name."""
        query = asked.query(request, "node", "sort", "limit")
        sort = asked.one_of(query, "sort", utilisation.SORTS)
        limit, of = asked.limit(query), self._evaluator.engine.utilisation()
        view, ids, held = of.view, of.view.table.ids, utilisation.held_up(of)
        rows = np.flatnonzero(view.present)
        if "node" in query:
            own = (row for row in rows.tolist() if ids[row].node == query["node"])
            rows = np.array(sorted(own, key=lambda row: natural(ids[row].name)), np.intp)
        if "node" not in query or sort is not None:
            rows = utilisation.order(of, held, rows, sort or "busy")
        places = {domain: view.group(domain) for domain in DOMAINS}
        found = [{**_port(of, places, row), **utilisation.fields(held, row)} for row in rows[:limit].tolist()]
        return answer({"ports": found, "total": len(rows)})

    async def rails(self, request: web.Request) -> web.Response:
        """Utilisation of rails and tiers."""
        asked.query(request)
        return answer(utilisation.rails(self._evaluator.engine.utilisation()))

    async def probes(self, request: web.Request) -> web.Response:
        """What probes show between leaves: the worst pairs first, of all rails or of one."""
        query = asked.query(request, "rail", "limit")
        found = await self._evaluator.pairs.newest()
        rows = found.of_rail(query["rail"]) if "rail" in query else np.arange(len(found.flows))
        worst = rows[: asked.limit(query)].tolist()
        rails = sorted({found.rails[rail] for rail in np.unique(found.rail).tolist()}, key=natural)
        return answer({"rails": rails, "pairs": [_pair(found.pair(at)) for at in worst], "total": len(rows)})

    async def topology(self, request: web.Request) -> web.Response:
        """The topology in use; 404 without one."""
        asked.query(request)
        graph = self._evaluator.engine.topology()
        if graph is None:
            raise Refused(404, "no topology was loaded; set topology.file")
        return answer(_graph(graph))

    async def jobs(self, request: web.Request) -> web.Response:
        """Running jobs, affected ones first, and their sources."""
        query = asked.query(request, "node", "source", "limit")
        incidents, now = self._evaluator.current().incidents, self._evaluator.now()
        return answer(jobs_document(self._jobs(), incidents, now, query, asked.limit(query)))


def _node(n: NodeView) -> dict[str, Any]:
    return {**msgspec.to_builtins(n), "since": rfc3339(n.since), "last_frame": optional_time(n.last_frame)}


def _pair(pair: LeafPair) -> LeafPairDocument:
    return {
        "rail": pair.rail, "leaf": pair.near, "peer_leaf": pair.far, "flows": pair.flows, "answered": pair.answered,
        "sent": pair.sent, "lost": pair.lost, "rtt_seconds": finite(pair.rtt), "slowest_seconds": finite(pair.slowest),
    }  # fmt: skip


def _port(of: Utilisation, places: Mapping[str, NDArray[np.int32]], row: int) -> dict[str, Any]:
    """One PORT row; unknown values are null."""
    view, component, source = of.view, of.view.table.ids[row], int(of.source[row])
    labels = view.table.labels[row]
    known = {"rate": of.rate[row], "receive_ratio": of.receive[row], "transmit_ratio": of.transmit[row]}
    return {
        "node": component.node,
        "port": component.name,
        "netdev": labels.get("netdev", ""),
        "link_layer": labels.get("link_layer", ""),
        "role": labels.get("role", ""),
        **{name: finite(float(value)) for name, value in known.items()},
        "counted": SOURCES[source][0] if source >= 0 else None,
        **{domain: view.group_name(domain, int(groups[row])) or None for domain, groups in places.items()},
    }


def _graph(graph: Graph) -> dict[str, Any]:
    """A graph; switches and adapters as lists."""
    return {
        **{name: getattr(graph, name) for name in graph.__struct_fields__},
        "switches": list(graph.switches.values()),
        "adapters": list(graph.adapters.values()),
    }
