"""What a site states of its fabric: the topology that a server is given, exact, wrong in places, or none. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import Fabric
from fabricmon.topology.graph import Cable, End, Graph, cable

WRONG, LOST = (0.002, 0.02), (0.02, 0.2)
"""Shares of the hosts' cables that a map files wrongly or lacks, log-uniform."""
FILED_WRONGLY = 0.05
"""Share of the stress "filed"."""
STATED = 0.6
"""Chance that a site states each sort of place."""


@dataclass(frozen=True)
class SiteMap:
    """graph: what the server is given, None nothing; stated: sorts of places in it; wrong: adapters filed wrongly."""

    graph: Graph | None
    stated: frozenset[str]
    wrong: frozenset[str] = frozenset()


def draw_map(draw: Draw, fabric: Fabric, stress: str, swept: bool) -> SiteMap:
    """A map of the fabric. With `swept` its cables are measured, so they are exact."""
    if stress == "no topology":
        return SiteMap(None, frozenset())
    graph = fabric.layout.graph
    stated = frozenset(sort for sort in ("rack", "row", "power", "feed", "tray") if draw.chance(STATED))
    graph = _state(graph, stated)
    how = "filed" if stress == "filed" else draw.weighted({"exact": 60.0, "filed": 25.0, "lost": 15.0})
    if how == "exact" or swept or not graph.cables:
        return SiteMap(graph, stated)
    if how == "lost":
        return SiteMap(_lose(draw, graph, draw.log(*LOST)), stated)
    share = FILED_WRONGLY if stress == "filed" else draw.log(*WRONG)
    graph, wrong = _swap(draw, graph, share)
    return SiteMap(graph, stated, wrong)


def _state(graph: Graph, stated: frozenset[str]) -> Graph:
    """The graph with the places that the site states only."""
    words = {"rack": {"rack"}, "row": {"row"}, "power": {"power"}, "tray": {"chassis", "tray"}}
    hidden = {word for sort, mine in words.items() if sort not in stated for word in mine}
    fed = {"power"} if "feed" not in stated else set()
    return msgspec.structs.replace(
        graph,
        hosts={host: _without(labels, hidden) for host, labels in graph.hosts.items()},
        switches={
            id: msgspec.structs.replace(switch, labels=_without(switch.labels, hidden - {"power"} | fed))
            for id, switch in graph.switches.items()
        },
    )


def _without(labels: dict[str, str], hidden: set[str]) -> dict[str, str]:
    return {word: label for word, label in labels.items() if word not in hidden}


def _to_hosts(graph: Graph) -> list[int]:
    """Cables between an adapter and a switch."""
    found = []
    for at, one in enumerate(graph.cables):
        adapter = graph.adapters.get(one.a.node) or graph.adapters.get(one.b.node)
        if adapter is not None and adapter.labels.get("class") != "gpu":
            found.append(at)
    return found


def _lose(draw: Draw, graph: Graph, share: float) -> Graph:
    every = _to_hosts(graph)
    lost = set(draw.some(every, round(share * len(every))))
    return msgspec.structs.replace(graph, cables=tuple(c for at, c in enumerate(graph.cables) if at not in lost))


def _swap(draw: Draw, graph: Graph, share: float) -> tuple[Graph, frozenset[str]]:
    """Exchange the switch ends of pairs of cables, neighbours or any two."""
    every = _to_hosts(graph)
    cables: list[Cable] = list(graph.cables)
    wrong: set[str] = set()
    near = draw.chance(0.5)
    for _ in range(max(1, round(share * len(every) / 2))):
        at = draw.number(0, len(every) - 1)
        other = min(len(every) - 1, at + draw.number(1, 8)) if near else draw.number(0, len(every) - 1)
        one, two = cables[every[at]], cables[every[other]]
        (mine, far), (his, his_far) = _ends(graph, one), _ends(graph, two)
        if at == other:
            continue
        cables[every[at]] = cable(mine, his_far, one.rate, one.width, one.labels)
        cables[every[other]] = cable(his, far, two.rate, two.width, two.labels)
        wrong |= {mine.node, his.node}
    names = frozenset(f"{graph.adapters[node].host}/{graph.adapters[node].name}" for node in wrong)
    return msgspec.structs.replace(graph, cables=tuple(cables)), names


def _ends(graph: Graph, one: Cable) -> tuple[End, End]:
    """The adapter's end first."""
    return (one.a, one.b) if one.a.node in graph.adapters else (one.b, one.a)
