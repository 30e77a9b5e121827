"""What was played, as it is compared with incidents: causes, what they changed, what is true besides. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.adversary.classes import NAMED_GROUPS, NEEDED, SINGLE, USUALLY
from fabricmon.adversary.composite import Composite, TrueFault
from fabricmon.adversary.names import PartNames
from fabricmon.adversary.readings import Shown

ON_MAP = {"module": "graph", "quadrant": "graph", "line_card": "graph", "leaf": "graph", "spine": "graph",
          "transit_link": "graph", "tray": "tray", "power": "power", "feed": "feed", "rack": "rack", "row": "row",
          "segment": "rack"}  # fmt: skip
"""Sort of a place -> what a map must state so that it can be named: "graph" any map of the cables."""
MEMBER_SHARE = 0.8
"""Share of the members that an incident must have, and share of its own that must be members."""
LISTED = 64
"""Members that an incident names at most."""


@dataclass(frozen=True)
class Cause:
    """One true fault as it showed.

    name      its class; sort of its place
    names     components that name it; words: words of components that do, with the right members
    shown     part -> second at which it first showed
    by_hosts  members are compared by hosts
    by_parts  its place cannot be known from the map: one incident with the right members names it
    asked     the group must be named: enough members showed it, and who belongs to it can be known
    seen      second from which there was enough to see; due: by when it must be found; infinite: never showed
    """

    number: int
    name: str
    sort: str
    names: tuple[str, ...]
    words: tuple[str, ...]
    shown: dict[str, float]
    by_hosts: bool
    by_parts: bool
    asked: bool
    seen: float
    due: float

    @property
    def visible(self) -> bool:
        return math.isfinite(self.seen)

    @property
    def needed(self) -> int:
        """Members that must show it before the group has to be named."""
        return NEEDED.get(self.sort, USUALLY)

    @property
    def group(self) -> bool:
        """So many members showed it."""
        return self.sort not in SINGLE and len(self.shown) >= self.needed


@dataclass(frozen=True)
class Truth:
    """All that was true.

    touched    parts of which any reading, traffic included, was changed by a fault
    silent     hosts whose agents were silent for reasons of their own; odd: those that were restarted or set
    fallen     ports with a stray fall or error
    announced  parts in a maintenance window
    wrong_map  the map differs from the fabric
    """

    causes: tuple[Cause, ...]
    names: PartNames
    touched: frozenset[str]
    silent: frozenset[str]
    odd: frozenset[str]
    fallen: frozenset[str]
    announced: frozenset[str]
    wrong_map: bool


def truth_of(composite: Composite, shown: Shown, names: PartNames) -> Truth:
    """The truth of a composite that was played to its end."""
    noise = composite.noise
    touched = {f"p{row}" for row in np.flatnonzero(np.isfinite(np.minimum(shown.port, shown.rate))).tolist()}
    for letter, times in (("h", shown.host), ("g", shown.gpu), ("c", shown.cable)):
        touched |= {f"{letter}{at}" for at in np.flatnonzero(np.isfinite(times)).tolist()}
    lacking = {host for _, hosts in noise.missing if len(hosts) < len(composite.fabric.layout.hosts) for host in hosts}
    direct = {row for fault in composite.faults for row in fault.course.rows}
    return Truth(
        tuple(_cause(composite, fault, shown, direct) for fault in composite.faults),
        names,
        frozenset(touched),
        frozenset(f"h{host}" for host in noise.silent),
        frozenset(f"h{host}" for host in noise.restarted | lacking),
        frozenset(f"p{row}" for row in noise.fallen),
        frozenset(f"p{row}" for row in noise.announced_rows),
        composite.map.graph is not None and composite.map.graph.cables != composite.fabric.layout.graph.cables,
    )


def _cause(composite: Composite, fault: TrueFault, shown: Shown, direct: set[int]) -> Cause:
    of, place, course = fault.of, fault.place, fault.course
    times: dict[str, float] = {}
    if of.spread:
        others = direct - set(course.rows)
        times = _first("p", [row for row in range(len(shown.port)) if row not in others], shown.port)
    elif course.hosts:
        times = _first("h", course.hosts, shown.host)
        for row in course.rows:
            host = f"h{composite.fabric.layout.host_of[row]}"
            if math.isfinite(shown.port[row]):
                times[host] = min(times.get(host, math.inf), float(shown.port[row]))
    else:
        times = _first("p", course.rows, np.minimum(shown.port, shown.rate) if of.rates else shown.port)
        times |= _first("g", course.gpus, shown.gpu) | _first("c", course.cables, shown.cable)
    known = place.stated and _known(composite, place.sort)
    enough = len(times) >= NEEDED.get(place.sort, USUALLY)
    first = max(course.ready, min(times.values())) if times else math.inf
    return Cause(
        fault.number, of.name, place.sort, place.names, of.words, times, bool(course.hosts),
        not known and place.sort not in SINGLE, place.sort in NAMED_GROUPS and known and enough,
        first, first + of.limit,
    )  # fmt: skip


def _known(composite: Composite, sort: str) -> bool:
    """Whether the map states the members of such a place."""
    need = ON_MAP.get(sort)
    if need is None:
        return True
    return composite.map.graph is not None if need == "graph" else need in composite.map.stated


def _first(letter: str, numbers: Iterable[int], times: NDArray[np.float64]) -> dict[str, float]:
    found = {f"{letter}{at}": float(times[at]) for at in numbers}
    return {part: at for part, at in found.items() if math.isfinite(at)}
