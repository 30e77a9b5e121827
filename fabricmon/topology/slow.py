"""Cables that run slower than their sisters or than both their ends support (docs/methods.md#slow-cables). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.topology.graph import Cable, Finding, Graph
from fabricmon.topology.infer import tier

LEAST = 4
"""Cables between ends of the same kinds, in the same place of the fabric, that are sisters; fewer are not compared."""
SHARE = 0.75
"""Share of the sisters that run at one rate, from which the slower ones are faults and not a second kind: of the fewest
that are compared, all but one."""


class _Kind(NamedTuple):
    """Where a cable runs, and the models of its ends: sisters have the same."""

    tier: str
    models: tuple[str, ...]


def slow_links(graph: Graph) -> Iterator[Finding]:
    """Findings by kind of cables; each component names the ports at both ends. Where most of a kind run below what both
    ends support, that is the cabling or a setting: one finding that names none."""
    kinds: dict[_Kind, list[Cable]] = defaultdict(list)
    for link in graph.cables:
        if link.rate and link.a.node != link.b.node:
            models = sorted(_model(graph, end.node) for end in (link.a, link.b))
            kinds[_Kind(tier(graph, link), tuple(models))].append(link)
    for links in _compared(kinds):
        usual = _usual(links)
        slow = [link for link in links if link.rate < usual]
        if slow:
            why = f"{_rates(slow, links)}; the rest runs at {_gbps(usual)} Gb/s"
            yield Finding("slow_link", _names(graph, slow), why)
        limited = [link for link in links if link.most > link.rate >= usual]
        if limited:
            most = ", ".join(_gbps(rate) for rate in sorted({link.most for link in limited}))
            why = f"{_rates(limited, links)}; both ends support {most} Gb/s"
            few = len(links) < LEAST or 2 * len(limited) < len(links)
            yield Finding("slow_link", _names(graph, limited), why) if few else Finding("limited_links", (), why)


def _compared(kinds: Mapping[_Kind, list[Cable]]) -> Iterator[list[Cable]]:
    """Cables that are compared with each other: of one kind, or, where no kind of a place has enough, of that place."""
    places: dict[str, list[list[Cable]]] = defaultdict(list)
    for kind, links in kinds.items():
        places[kind.tier].append(links)
    for found in places.values():
        yield from found if any(len(links) >= LEAST for links in found) else [[link for of in found for link in of]]


def _usual(links: Sequence[Cable]) -> float:
    """The rate of most of some sisters; 0 where they are too few or of several kinds."""
    rate, count = max(Counter(link.rate for link in links).items(), key=lambda item: (item[1], item[0]))
    return rate if len(links) >= LEAST and count >= SHARE * len(links) else 0.0


def _model(graph: Graph, node: str) -> str:
    switch, adapter = graph.switches.get(node), graph.adapters.get(node)
    return switch.model if switch else adapter.labels.get("model", "") if adapter else ""


def _names(graph: Graph, links: Sequence[Cable]) -> tuple[str, ...]:
    return tuple(sorted((graph.title(link) for link in links), key=natural))


def _rates(links: Sequence[Cable], of: Sequence[Cable]) -> str:
    rates = " or ".join(_gbps(rate) for rate in sorted({link.rate for link in links}))
    return f"{len(links)} of {len(of)} links run at {rates} Gb/s"


def _gbps(rate: float) -> str:
    return f"{rate * 8 / 1e9:g}"
