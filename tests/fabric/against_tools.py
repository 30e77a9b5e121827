"""Fifteen faults on a simulated copy of a real fabric: found, missed and false, beside ibqueryerrors and ibnetdiscover.

    python -m tests.fabric.against_tools [DUMP ...]

A dump is the output of `ibnetdiscover` (gzip too) of any fabric; it is not kept. Without one a made fat tree of 320
switches is used. ibsim runs the fabric, opensm brings
it up, and each tool looks at it before and after the faults. What a tool reports is a list of items: a kind, and the
ports and nodes that it names. Places that an item of the same kind named before the faults are taken off; an item
without any left is not counted.

found   the port with the counter is named; either port of a slow, narrow or down link; the mute adapter or the port
        that it is plugged into; the dead or mute switch by its name, or every port of a switch that leads to it
false   an item names a port that is none of any fault, or names no port, and no node at the end of a fault's link.
        Ports of a fault are both ends of its link; those of a switch or adapter, both ends of each of its links

A node at the end of a link is never enough to find a fault, and other ports of it are false.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from fabricmon.fabric.report import SweepReport
from fabricmon.sim import shapes
from fabricmon.sim.dump import write
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology import infer
from fabricmon.topology.graph import Cable, End, Finding, Graph
from fabricmon.topology.names import NodeNames
from tests.rigs.ibsim.subnet import Subnet, subnet

SLOW, NARROW, DOWN = 2, 3, 3
COUNTERS = ("SymbolErrorCounter", "PortRcvErrors", "LinkErrorRecoveryCounter", "PortXmitDiscards")
ATTEMPTS = 4
NARROW_LINK = r"\b1x\b"
FAULTS = SLOW + NARROW + DOWN + len(COUNTERS) + 3  # and a dead switch, a mute adapter, a mute switch


class Fault(NamedTuple):
    """Places by name.

    ends   of the links concerned, as End; for a counter the first has it
    any    one of these finds it
    all    these together find it, too
    ports  those of the fault: naming them is not false
    nodes  at its links' ends
    """

    kind: str
    ends: tuple[End, ...]
    any: frozenset[str]
    all: frozenset[str]
    ports: frozenset[str]
    nodes: frozenset[str]


class Item(NamedTuple):
    """One thing that a tool reports: "node/port" of the ports that it names, names of nodes."""

    kind: str
    ports: frozenset[str]
    nodes: frozenset[str] = frozenset()


def loaded(path: Path) -> Graph:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = data.decode(errors="replace")
    return infer.annotate(ibnetdiscover.parse(text, str(path), NodeNames()))


class Scene:
    """A fabric with faults on it. Faults are drawn apart from each other: no two share a switch or an adapter."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph, self.dice = graph, random.Random(seed)
        self.faults: list[Fault] = []
        self._taken: set[str] = set()
        first = next(iter(graph.adapters))  # the tools run there
        self._taken |= {end.node for link in graph.cables for end in (link.a, link.b)
                        if first in (link.a.node, link.b.node)}  # fmt: skip

    def draw(self) -> None:
        links = self.dice.sample(self.graph.cables, len(self.graph.cables))
        kinds = ["slow"] * SLOW + ["narrow"] * NARROW + ["down"] * DOWN + list(COUNTERS)
        dead = self._dead()
        self._add("dead switch", self._ends(dead), dead)
        adapter = next(a for a in self.dice.sample(list(self.graph.adapters), 99) if a not in self._taken)
        self._add("mute adapter", self._ends(adapter), adapter)
        for number, kind in enumerate(kinds):
            between = number % 2 == 0
            link = next(c for c in links if self._free(c) and self._inner(c) == between)
            self._add(kind, (link.a, link.b))
        switch = next(s for s in self.dice.sample(list(self.graph.switches), len(self.graph.switches)) if s not in
                      self._taken and self.graph.switches[s].level == 0)  # fmt: skip
        self._add("mute switch", self._ends(switch), switch)

    def _dead(self) -> str:
        """A switch of the highest level with enough switches below it."""
        top = max(s.level for s in self.graph.switches.values() if not s.labels.get("apart"))
        tops = [s.id for s in self.graph.switches.values() if s.level == top]
        return self.dice.choice(sorted(tops)[1:-1])

    def _free(self, link: Cable) -> bool:
        return link.a.node != link.b.node and not {link.a.node, link.b.node} & self._taken

    def _inner(self, link: Cable) -> bool:
        return link.a.node in self.graph.switches and link.b.node in self.graph.switches

    def _around(self, node: str) -> Iterator[tuple[End, End]]:
        for link in self.graph.cables:
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if near.node == node:
                    yield near, far

    def _ends(self, node: str) -> tuple[End, ...]:
        """Both ends of each of its links, the near one first."""
        return tuple(end for pair in self._around(node) for end in pair)

    def _add(self, kind: str, ends: tuple[End, ...], node: str = "") -> None:
        """`node`: the one that is dead or mute."""
        self._taken |= {end.node for end in ends}
        graph, ports = self.graph, frozenset(map(self.graph.describe, ends))
        nodes = {graph.name(end.node) for end in ends} | {a.host for e in ends if (a := graph.adapters.get(e.node))}
        leads = frozenset(graph.describe(e) for e in ends if e.node in graph.switches and e.node != node)
        named = {graph.name(node)} | (leads if node in graph.adapters else set()) if node else ports
        only = frozenset({graph.describe(ends[0])}) if kind in COUNTERS else frozenset(named)
        self.faults.append(Fault(kind, ends, only, leads if node else frozenset(), ports, frozenset(nodes)))

    def of(self, kind: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind == kind]

    def netlist(self) -> str:
        """The fabric with its slow links already in place, all others at 4xHDR."""
        slow = {fault.ends for fault in self.of("slow")}
        rated = [link for link in self.graph.cables if (link.a, link.b) in slow]
        text = write(self.graph, "4xHDR")
        for link in rated:
            for near, far in ((link.a, link.b), (link.b, link.a)):
                text = _slowed(text, _id(self.graph, near.node), near.port, _id(self.graph, far.node))
        return text

    def plain(self) -> str:
        return write(self.graph, "4xHDR")


def _slowed(text: str, node: str, port: int, far: str) -> str:
    start = text.index("\n", re.search(rf'^(?:Switch|Ca)\t\d+ "{node}"', text, re.MULTILINE).start())  # type: ignore[union-attr]
    line = re.compile(rf'^(\[{port}\](?:\([0-9a-f]+\) )?\t"{far}".*)4xHDR$', re.MULTILINE).search(text, start)
    assert line is not None, (node, port)
    return f"{text[: line.start()]}{line[1]}4xEDR{text[line.end() :]}"


def _id(graph: Graph, node: str) -> str:
    return f"{'S' if node in graph.switches else 'H'}-{node.removeprefix('0x')}"


def inject(scene: Scene, running: Subnet) -> None:
    """All faults but the slow links, in the order in which each still can be set; then all routes are set anew. A link
    that goes down counts it at both ends, as hardware does."""
    graph, counters = scene.graph, dict[tuple[str, int], dict[str, int]]()
    where = {n: [(_id(graph, end.node), end.port) for end in fault.ends] for n, fault in enumerate(scene.faults)}
    for n, fault in enumerate(scene.faults):
        if fault.kind == "narrow":
            narrow(running, where[n])
        elif fault.kind in COUNTERS:
            counters[where[n][0]] = {f"PortCounters.{fault.kind}": 120}
    for n, fault in enumerate(scene.faults):
        if fault.kind in ("down", "dead switch"):
            for node, port in where[n][::2]:  # one end of each link
                running.unplug(node, port)
            counters |= {at: {"PortCounters.LinkDownedCounter": 1} for at in where[n]}
        elif fault.kind.startswith("mute"):
            still = 0 if fault.kind == "mute switch" else None  # a switch still forwards
            running.drop(where[n][0][0], 100, port=still)
    settle(running, [where[n] for n, fault in enumerate(scene.faults) if fault.kind == "narrow"])
    running.set_counters(counters)


def settle(running: Subnet, narrowed: Sequence[list[tuple[str, int]]]) -> None:
    """Have all routes set anew. A subnet manager that swept meanwhile gives narrow links their width back: they are
    narrowed again. RuntimeError where a fault does not stay."""
    for _ in range(ATTEMPTS):
        running.resweep()
        wide = [ends for ends in narrowed if not re.search(NARROW_LINK, running.link(*ends[0]))]
        if not wide:
            return
        for ends in wide:
            narrow(running, ends)
    raise RuntimeError(f"links that do not stay narrow: {wide}")


def narrow(running: Subnet, ends: Sequence[tuple[str, int]]) -> None:
    """Retrain a link to one lane, at each end that is a switch's: the simulator gives a link the width of the end that
    the subnet manager set last. Asked again, as the tool needs a route."""
    for _ in range(ATTEMPTS):
        for node, port in ends:
            if node.startswith("S"):
                running.narrow(running.lid(node), port, 1)
        if re.search(NARROW_LINK, running.link(*ends[0])):
            return
        time.sleep(1.0)


# --- what each tool reports


def ours(scene: Scene, running: Subnet) -> list[Item]:
    report = msgspec.convert(json.loads(running.run(sys.executable, "-m", "fabricmon.cli", "fabric", "--json",
                                                    check=False)), SweepReport)  # fmt: skip
    bad = [Item(name, frozenset({f"{p.node}/{p.port}"})) for p in report.ports for name in p.errors]
    inactive = [
        Item("inactive", frozenset(f"{end.node}/{end.port}" for end in (link.a, link.b)))
        for link in report.links if link.state != "active"
    ]  # fmt: skip
    silent = [Item("silent", frozenset(), frozenset({name})) for name in report.silent]
    mute = [Item("mute", frozenset({port})) for port in report.mute]
    ports = {f"{p.node}/{p.port}" for p in report.ports}
    found = [_item(finding, ports) for finding in (*report.lost, *report.findings)]
    return [*bad, *inactive, *silent, *mute, *found]


def _item(finding: Finding, ports: Set[str]) -> Item:
    """A component is a port, both ends of a cable, or a node."""
    words = [word for component in finding.components for word in component.split(", ")]
    found = frozenset(word for word in words if word in ports)
    return Item(finding.kind, found, frozenset(words) - found)


def ibqueryerrors(scene: Scene, running: Subnet) -> list[Item]:
    """A counter of a port an item; VL15Dropped and waits are left out."""
    found, node = [], ""
    for line in told(running, "ibqueryerrors").splitlines():
        if head := re.match(r"Errors for (?:0x)?([0-9a-f]+|\S+)?.*?\"(.*)\"", line):
            node = _named(scene.graph, head[2])
        elif at := re.match(r"\s+GUID 0x([0-9a-f]+) port (\d+):(.*)", line):
            node = scene.graph.name(f"0x{at[1]:0>16}") if f"0x{at[1]:0>16}" in scene.graph.switches else node
            words = [w for w in re.findall(r"\[(\w+) == ", at[3]) if w not in ("VL15Dropped", "PortXmitWait")]
            found += [Item(word, frozenset({f"{node}/{at[2]}"})) for word in words]
    return found


def discovered(scene: Scene, running: Subnet) -> list[Item]:
    """Links of ibnetdiscover that are missing or not at 4xHDR: what a comparison with a former dump shows."""
    now = ibnetdiscover.parse(told(running, "ibnetdiscover"), "now", NodeNames())
    there = {(link.a, link.b): link for link in now.cables}
    lost = [link for link in scene.graph.cables if (link.a, link.b) not in there]
    odd = [link for link in scene.graph.cables if (c := there.get((link.a, link.b))) and c.rate != 25e9]
    return [
        Item(kind, frozenset(map(scene.graph.describe, (link.a, link.b))))
        for kind, links in (("missing", lost), ("rate", odd)) for link in links
    ]  # fmt: skip


def told(running: Subnet, tool: str) -> str:
    """What a tool prints. It is asked again when it prints nothing: ibqueryerrors ends with SIGSEGV now and then, as
    the simulator cuts its table of paths. RuntimeError when it never prints anything."""
    last = ""
    for _ in range(ATTEMPTS):
        code, text, last = running.outcome(tool)
        if code >= 0 and text.strip():
            return text
        last = f"ended with {code}: {last.strip()[-200:]}"
    raise RuntimeError(f"{tool} printed nothing {ATTEMPTS} times; {last}")


def _named(graph: Graph, description: str) -> str:
    return next((graph.name(a.id) for a in graph.adapters.values() if a.description == description), description)


TOOLS: dict[str, Callable[[Scene, Subnet], list[Item]]] = {
    "fabricmon fabric": ours, "ibqueryerrors": ibqueryerrors, "ibnetdiscover, compared": discovered,
}  # fmt: skip


class Score(NamedTuple):
    """Kinds of faults found and missed, false items, and how many items there are; `why` the tool did not run."""

    found: list[str]
    missed: list[str]
    false: list[Item]
    items: int
    why: str = ""


def fresh(before: Sequence[Item], after: Sequence[Item]) -> list[Item]:
    """Items with what their kind did not name before."""
    known: dict[str, set[str]] = defaultdict(set)
    for item in before:
        known[item.kind] |= item.ports | item.nodes
    left = [Item(item.kind, item.ports - known[item.kind], item.nodes - known[item.kind]) for item in after]
    return [item for item in left if item.ports or item.nodes]


def scored(faults: Sequence[Fault], items: Sequence[Item]) -> Score:
    """By the rules at the head of this module."""
    named = {place for item in items for place in item.ports | item.nodes}
    ports = {port for fault in faults for port in fault.ports}
    nodes = {node for fault in faults for node in fault.nodes}
    hit = [bool(fault.any & named) or (bool(fault.all) and fault.all <= named) for fault in faults]
    false = [item for item in items if item.ports - ports or not (item.ports or item.nodes & nodes)]
    kinds = [fault.kind for fault in faults]
    return Score(
        [kind for kind, found in zip(kinds, hit, strict=True) if found],
        [kind for kind, found in zip(kinds, hit, strict=True) if not found], false, len(items),
    )  # fmt: skip


def compared(graph: Graph, folder: Path, seed: int = 1) -> Iterator[tuple[str, float, Score]]:
    """Tool, its seconds after the faults, and its score."""
    scene = Scene(graph, seed)
    scene.draw()
    seen: dict[tuple[str, str], list[Item] | str] = {}
    took: dict[str, float] = {}
    for name, text in (("before", scene.plain()), ("after", scene.netlist())):
        at = folder / name
        at.mkdir()
        with subnet(at, text) as running:
            if name == "after":
                inject(scene, running)
            for tool, run in TOOLS.items():
                start = time.monotonic()
                try:
                    seen[name, tool] = run(scene, running)
                except (RuntimeError, SourceError, subprocess.TimeoutExpired) as error:
                    seen[name, tool] = str(error)
                took[tool] = time.monotonic() - start
    for tool in TOOLS:
        before, after = seen["before", tool], seen["after", tool]
        if isinstance(before, str) or isinstance(after, str):
            why = after if isinstance(after, str) else str(before)
            yield tool, took[tool], Score([], [fault.kind for fault in scene.faults], [], 0, why)
        else:
            yield tool, took[tool], scored(scene.faults, fresh(before, after))


def main(argv: Sequence[str]) -> int:
    """0 when fabricmon found all and reported nothing false."""
    parser = argparse.ArgumentParser(prog="python -m tests.fabric.against_tools", description=__doc__.splitlines()[0])
    parser.add_argument("dumps", nargs="*", type=Path, metavar="DUMP", help="output of ibnetdiscover, gzip too")
    parser.add_argument("--seed", type=int, default=1, help="of the places of the faults (default 1)")
    args = parser.parse_args(argv)
    bad = False
    made = {"a made fat tree": lambda: infer.annotate(shapes.fat_tree(16, 3))}
    fabrics = {path.name: partial(loaded, path) for path in args.dumps} or made
    for name, build in fabrics.items():
        graph = build()
        print(f"{name}: {len(graph.switches)} switches, {len(graph.adapters)} adapters, "
              f"{len(graph.cables)} links; {FAULTS} faults, seed {args.seed}", flush=True)  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            for tool, seconds, score in compared(graph, Path(folder), args.seed):
                show(tool, seconds, score)
                bad |= tool == next(iter(TOOLS)) and bool(score.missed or score.false)
    return int(bad)


def show(tool: str, seconds: float, score: Score) -> None:
    if score.why:
        print(f"  {tool:24} not measured: {score.why[:300]}", flush=True)
        return
    found, missed, false = len(score.found), len(score.missed), len(score.false)
    print(f"  {tool:24} found {found:2} missed {missed:2} false {false:3} of {score.items:4} items, {seconds:.1f} s; "
          f"missed: {', '.join(score.missed) or 'none'}", flush=True)  # fmt: skip
    for item in score.false[:20]:
        print(f"    false: {item.kind}: {', '.join(sorted(item.ports | item.nodes))[:200]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
