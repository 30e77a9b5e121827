"""Planned cables against live ones: mis-wired, missing, not planned (docs/methods.md#cable-plans). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.topology.connect import connected
from fabricmon.topology.graph import Cable, End, Finding, Graph, Switch

SHOWN = 4  # cables of one kind that a finding names


class Difference(NamedTuple):
    """All in the ids of the merged graph.

    miswired    groups of cables that share ends: the planned ones, the live ones
    missing     planned cables with both ends empty; their nodes are live
    absent      planned nodes that are not live, with the planned cables to nodes that are
    unseen      planned nodes that are not live, and none of whose planned neighbours is
    unplanned   live cables that are not planned, in a part of the fabric that the plan covers
    slow        (as planned, as it is): cables below their planned rate
    """

    miswired: list[tuple[list[Cable], list[Cable]]]
    missing: list[Cable]
    absent: dict[str, list[Cable]]
    unseen: list[str]
    unplanned: list[Cable]
    slow: list[tuple[Cable, Cable]]


def compare(
    plan: Iterable[Cable], live: Iterable[Cable], seen: Set[str], known: Set[str], switches: Mapping[str, Switch]
) -> Difference:
    """
    seen      nodes of which a live source shows every cable: hosts with LLDP, all nodes of a subnet sweep
    known     live nodes: all that are seen, and switches that a host's LLDP names
    switches  a plan of the uplinks only covers neither the hosts' cables nor the inside of a director
    """
    wanted, found = {_ends(c): c for c in plan}, {_ends(c): c for c in live}
    lost, absent, unseen = _lost([c for key, c in wanted.items() if key not in found], seen, known)
    covered = {end.node for key in wanted for end in key}
    kinds = {_kind(c, switches) for c in wanted.values()}
    new = [
        link
        for key, link in found.items()
        if key not in wanted and _kind(link, switches) in kinds and covered & {end.node for end in key}
    ]
    miswired, missing, unplanned = [], [], []
    moved: set[tuple[End, End]] = set()
    for group in _sharing_ends([*((link, True) for link in lost), *((link, False) for link in new)]):
        planned = sorted((c for c, is_plan in group if is_plan), key=_ends)
        actual = sorted((c for c, is_plan in group if not is_plan), key=_ends)
        if planned and actual:
            miswired.append((planned, actual))
            moved |= {_ends(c) for c in planned}
        else:
            missing += [c for c in planned if {c.a.node, c.b.node} <= known]
            unplanned += actual
    absent = {node: cables for node, cables in absent.items() if not moved.issuperset(map(_ends, cables))}
    slow = [(wanted[k], found[k]) for k in found if k in wanted and 0 < found[k].rate < wanted[k].rate]
    return Difference(miswired, missing, absent, sorted(unseen - absent.keys()), unplanned, slow)


def _lost(
    cables: Iterable[Cable], seen: Set[str], known: Set[str]
) -> tuple[list[Cable], dict[str, list[Cable]], set[str]]:
    """Of planned cables that are not live: those that would be seen, the same by absent node, and unseen nodes."""
    lost: list[Cable] = []
    absent: dict[str, list[Cable]] = defaultdict(list)
    unseen: set[str] = set()
    for link in cables:
        gone = [end.node for end in _ends(link) if end.node not in known]
        if len(gone) == 2:
            unseen.update(gone)
        elif any(end.node in seen for end in _ends(link)):
            lost.append(link)
            if gone:
                absent[gone[0]].append(link)
    return lost, absent, unseen


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
            f"{plan} has {_listed(titles(planned))}; found: {_listed(titles(actual))}",
        )  # fmt: skip
    for node, cables in sorted(found.absent.items(), key=lambda item: natural(graph.name(item[0]))):
        yield Finding(
            "missing_node", (graph.name(node),),
            f"{graph.name(node)} is in {plan} with {_links(len(cables))}, but not in the live fabric",
        )  # fmt: skip
    if found.missing:
        yield Finding(
            "missing_link", titles(found.missing),
            f"{_links(len(found.missing))} of {plan} missing, both ends empty: cable unplugged, or the link is down",
        )  # fmt: skip
    if found.unplanned:
        yield Finding("unplanned_link", titles(found.unplanned), f"{_links(len(found.unplanned))} not in {plan}")
    if found.slow:
        first = found.slow[0]
        yield Finding(
            "below_plan", titles(live for _, live in found.slow),
            f"{_links(len(found.slow))} below the rate of {plan}, e.g. {_gbps(first[1])} of {_gbps(first[0])} Gb/s",
        )  # fmt: skip
    if found.unseen:
        yield Finding(
            "unseen_part", tuple(sorted(map(graph.name, found.unseen), key=natural)),
            f"{len(found.unseen)} switches and adapters of {plan}, and all their neighbours, are in no live source: "
            "another subnet, or this part of the fabric is down",
        )  # fmt: skip


def _kind(link: Cable, switches: Mapping[str, Switch]) -> str:
    ends = [switches[end.node] for end in _ends(link) if end.node in switches]
    boxes = {switch.labels.get("box", switch.id) for switch in ends}
    return "inside" if len(ends) == 2 and len(boxes) == 1 else f"{len(ends)} switches"


def _ends(link: Cable) -> tuple[End, End]:
    return link.a, link.b


def _sharing_ends(cables: list[tuple[Cable, bool]]) -> Iterator[list[tuple[Cable, bool]]]:
    """Groups of cables that share ends."""
    at: dict[End, list[int]] = defaultdict(list)
    for number, (link, _) in enumerate(cables):
        at[link.a].append(number)
        at[link.b].append(number)
    near = {number: at[link.a] + at[link.b] for number, (link, _) in enumerate(cables)}
    return ([cables[number] for number in part] for part in connected(near))


def _links(count: int) -> str:
    return f"{count} link" if count == 1 else f"{count} links"


def _gbps(link: Cable) -> str:
    return f"{link.rate * 8 / 1e9:g}"


def _listed(titles: tuple[str, ...]) -> str:
    rest = len(titles) - SHOWN
    return "; ".join(f"({title})" for title in titles[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
