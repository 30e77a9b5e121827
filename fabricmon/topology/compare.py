"""What should be plugged where against what is: mis-wired, missing live, not planned (topologies.md 8). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from fabricmon.topology.graph import Cable, End, Finding, Graph
from fabricmon.topology.infer import natural

SHOWN = 4
"""Cables of one kind that a finding's words name."""


class Difference(NamedTuple):
    """All in the ids of the merged graph.

    miswired    groups of cables that share ends: what was planned, what is there instead
    missing     planned cables with both ends empty; their nodes are there
    absent      planned nodes that are not there, with the planned cables to nodes that are
    unseen      planned nodes of which no planned neighbour is in sight either
    unplanned   cables nobody planned, in a part of the fabric that the plan covers
    slow        (as planned, as it is): cables below their planned rate
    """

    miswired: list[tuple[list[Cable], list[Cable]]]
    missing: list[Cable]
    absent: dict[str, list[Cable]]
    unseen: list[str]
    unplanned: list[Cable]
    slow: list[tuple[Cable, Cable]]


def compare(
    plan: Iterable[Cable], live: Iterable[Cable], seen: Set[str], known: Set[str], switches: Set[str]
) -> Difference:
    """
    seen      nodes of which a live source would show every cable: a host asked by LLDP, anything a subnet sweep found
    known     nodes that are there; all that are seen, and switches that a host's LLDP names
    switches  ids that are switches: a plan of the up-links only says nothing of the hosts' cables
    """
    wanted = {(c.a, c.b): c for c in plan}
    found = {(c.a, c.b): c for c in live}
    slow = [(wanted[k], found[k]) for k in found if k in wanted and 0 < found[k].rate < wanted[k].rate]
    covered = {node for c in wanted.values() for node in (c.a.node, c.b.node)}
    kinds = {_kind(c, switches) for c in wanted.values()}
    absent: dict[str, list[Cable]] = defaultdict(list)
    lonely: set[str] = set()
    odd: list[tuple[Cable, bool]] = []
    for key, link in wanted.items():
        if key in found:
            continue
        gone = [end.node for end in key if end.node not in known]
        if len(gone) == 2:
            lonely.update(gone)
        elif any(end.node in seen for end in key):
            odd.append((link, True))
            if gone:
                absent[gone[0]].append(link)
    odd += [
        (link, False)
        for key, link in found.items()
        if key not in wanted and _kind(link, switches) in kinds and covered & {end.node for end in key}
    ]
    miswired, missing, unplanned = [], [], []
    moved: set[tuple[End, End]] = set()
    for group in _sharing_ends(odd):
        planned = sorted((c for c, is_plan in group if is_plan), key=_order)
        actual = sorted((c for c, is_plan in group if not is_plan), key=_order)
        if planned and actual:
            miswired.append((planned, actual))
            moved |= {(c.a, c.b) for c in planned}
        else:
            missing += [c for c in planned if {c.a.node, c.b.node} <= known]
            unplanned += actual
    absent = {node: cables for node, cables in absent.items() if not moved.issuperset((c.a, c.b) for c in cables)}
    return Difference(miswired, missing, absent, sorted(lonely - absent.keys()), unplanned, slow)


def findings(found: Difference, graph: Graph, plan: str) -> Iterator[Finding]:
    """
    graph  knows the names of both sides
    plan   which plan, in words
    """
    def titles(cables: Iterable[Cable]) -> tuple[str, ...]:
        return tuple(sorted((graph.title(c) for c in cables), key=natural))

    for planned, actual in sorted(found.miswired, key=lambda pair: natural(graph.title(pair[0][0]))):
        ends = {graph.describe(end) for c in (*planned, *actual) for end in (c.a, c.b)}
        yield Finding(
            "miswired", tuple(sorted(ends, key=natural)),
            f"{plan} says {_listed(titles(planned))}; found is {_listed(titles(actual))}",
        )  # fmt: skip
    for node, cables in sorted(found.absent.items(), key=lambda item: natural(graph.name(item[0]))):
        yield Finding(
            "missing_node", (graph.name(node),),
            f"{graph.name(node)} is in {plan} with {_links(len(cables))}, and not in the live fabric",
        )  # fmt: skip
    if found.missing:
        yield Finding(
            "missing_link", titles(found.missing),
            f"{_links(len(found.missing))} of {plan} not there, both ends empty: cable unplugged, or the link is down",
        )  # fmt: skip
    if found.unplanned:
        yield Finding("unplanned_link", titles(found.unplanned), f"{_links(len(found.unplanned))} not in {plan}")
    if found.slow:
        first = found.slow[0]
        yield Finding(
            "below_plan", titles(live for _, live in found.slow),
            f"{_links(len(found.slow))} below the rate of {plan}, such as {_gbps(first[1])} of {_gbps(first[0])} Gb/s",
        )  # fmt: skip
    if found.unseen:
        yield Finding(
            "unseen_part", tuple(sorted(map(graph.name, found.unseen), key=natural)),
            f"{len(found.unseen)} switches and adapters of {plan} are in no live source, nor are their neighbours: "
            "another subnet, or all of it is down",
        )  # fmt: skip


def _kind(link: Cable, switches: Set[str]) -> int:
    return (link.a.node in switches) + (link.b.node in switches)


def _order(link: Cable) -> tuple[End, End]:
    return link.a, link.b


def _sharing_ends(cables: list[tuple[Cable, bool]]) -> Iterator[list[tuple[Cable, bool]]]:
    """Groups of cables that touch each other's ends: an end has at most one planned and one real cable, so a group is
    a chain or a ring."""
    at: dict[End, list[int]] = defaultdict(list)
    for number, (link, _) in enumerate(cables):
        at[link.a].append(number)
        at[link.b].append(number)
    done: set[int] = set()
    for first in range(len(cables)):
        if first in done:
            continue
        done.add(first)
        queue = [first]
        for number in queue:
            link = cables[number][0]
            for other in (*at[link.a], *at[link.b]):
                if other not in done:
                    done.add(other)
                    queue.append(other)
        yield [cables[number] for number in queue]


def _links(count: int) -> str:
    return f"{count} link" if count == 1 else f"{count} links"


def _gbps(link: Cable) -> str:
    return f"{link.rate * 8 / 1e9:g}"


def _listed(titles: tuple[str, ...]) -> str:
    rest = len(titles) - SHOWN
    return "; ".join(f"({title})" for title in titles[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
