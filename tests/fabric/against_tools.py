"""Fifteen faults on a simulated copy of a real fabric: found, missed and false, beside ibqueryerrors and ibnetdiscover.

    python -m tests.fabric.against_tools DUMP [DUMP ...]

A dump is the output of `ibnetdiscover` (gzip too) of any fabric; it is not kept. ibsim runs the fabric, opensm brings
it up, and each tool looks at it before and after the faults: what it reports both times is not counted. A fault is
found when a new line names one of its ports or nodes; a line is false when it names none of any fault.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fabricmon.commands import fabric_text
from fabricmon.fabric.report import SweepReport
from fabricmon.sim.dump import write
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.topology import infer
from fabricmon.topology.graph import Cable, End, Graph
from fabricmon.topology.names import NodeNames
from tests.rigs.ibsim.subnet import Subnet, subnet

SLOW, NARROW, DOWN = 2, 3, 3
COUNTERS = ("SymbolErrorCounter", "PortRcvErrors", "LinkErrorRecoveryCounter", "PortXmitDiscards")
FAULTS = SLOW + NARROW + DOWN + len(COUNTERS) + 3  # and a dead switch, a mute adapter, a mute switch


class Fault(NamedTuple):
    """`marks`: names of which one in a line means that the line is about the fault; `ends`: the ports concerned."""

    kind: str
    ends: tuple[End, ...]
    marks: frozenset[str]


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
        around = tuple(far for _, far in self._around(dead))
        self._add("dead switch", around, {self.graph.name(node) for node in (dead, *(far.node for far in around))})
        adapter = next(a for a in self.dice.sample(list(self.graph.adapters), 99) if a not in self._taken)
        ends = tuple(e for near, far in self._around(adapter) for e in (near, far))
        self._add("mute adapter", ends, {self.graph.name(adapter)})
        for number, kind in enumerate(kinds):
            between = number % 2 == 0
            link = next(c for c in links if self._free(c) and self._inner(c) == between)
            self._add(kind, (link.a, link.b), set())
        switch = next(s for s in self.dice.sample(list(self.graph.switches), len(self.graph.switches)) if s not in
                      self._taken and self.graph.switches[s].level == 0)  # fmt: skip
        self._add("mute switch", tuple(e for pair in self._around(switch) for e in pair), {self.graph.name(switch)})

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

    def _add(self, kind: str, ends: tuple[End, ...], marks: set[str]) -> None:
        self._taken |= {end.node for end in ends}
        named = {self.graph.describe(end) for end in ends}
        self.faults.append(Fault(kind, ends, frozenset(marks | named)))

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
    """All faults but the slow links; a link that goes down counts it at both ends, as hardware does."""
    graph, counters = scene.graph, dict[tuple[str, int], dict[str, int]]()
    for fault in scene.faults:
        where = [(_id(graph, end.node), end.port) for end in fault.ends]
        if fault.kind in COUNTERS:
            counters[where[0]] = {f"PortCounters.{fault.kind}": 120}
        elif fault.kind == "narrow":
            near, _ = sorted(fault.ends, key=lambda end: end.node not in graph.switches)
            running.narrow(running.lid(_id(graph, near.node)), near.port, 1)
        elif fault.kind in ("down", "dead switch"):
            for node, port in where if fault.kind == "dead switch" else where[:1]:
                running.unplug(node, port)
            counters |= {at: {"PortCounters.LinkDownedCounter": 1} for at in where}
        elif fault.kind == "mute adapter":
            running.drop(next(node for node, _ in where if node.startswith("H")), 100)
    running.set_counters(counters)
    mute = scene.of("mute switch")[0].ends[0].node
    running.drop(_id(graph, mute), 100, port=0)  # it still forwards


# --- what each tool reports, a line a finding, with ports as "node/port"


def ours(scene: Scene, running: Subnet) -> list[str]:
    import msgspec

    text = running.run(sys.executable, "-m", "fabricmon.cli", "fabric", "--json", check=False)
    report = msgspec.convert(json.loads(text), SweepReport)
    bad = [f"{p.node}/{p.port}: {name}" for p in report.ports for name in p.errors if name != "link_downed"]
    inactive = [fabric_text._link(link) for link in report.links if link.state != "active"]
    mute = [f"{name}: mute" for name in (*report.mute, *report.silent)]
    return [*bad, *inactive, *fabric_text._slow(report.links), *mute, *report.lost, *report.findings]


def ibqueryerrors(scene: Scene, running: Subnet) -> list[str]:
    """Its lines of ports with errors, and the nodes that it could not query; VL15Dropped and waits are left out."""
    found, node = [], ""
    for line in running.run("ibqueryerrors", check=False).splitlines():
        if head := re.match(r"Errors for (?:0x)?([0-9a-f]+|\S+)?.*?\"(.*)\"", line):
            node = _named(scene.graph, head[2])
        elif at := re.match(r"\s+GUID 0x([0-9a-f]+) port (\d+):(.*)", line):
            node = scene.graph.name(f"0x{at[1]:0>16}") if f"0x{at[1]:0>16}" in scene.graph.switches else node
            words = [w for w in re.findall(r"\[(\w+) == ", at[3]) if w not in ("VL15Dropped", "PortXmitWait")]
            found += [f"{node}/{at[2]}: {word}" for word in words]
    return found


def discovered(scene: Scene, running: Subnet) -> list[str]:
    """Links of ibnetdiscover that are missing or not at 4xHDR: what a comparison with a former dump shows."""
    now = ibnetdiscover.parse(running.run("ibnetdiscover", check=False), "now", NodeNames())
    there = {(link.a, link.b): link for link in now.cables}
    lost = [link for link in scene.graph.cables if (link.a, link.b) not in there]
    odd = [link for link in scene.graph.cables if (c := there.get((link.a, link.b))) and c.rate != 25e9]
    return [f"{scene.graph.title(link)}: missing" for link in lost] + [f"{scene.graph.title(c)}: rate" for c in odd]


def _named(graph: Graph, description: str) -> str:
    return next((graph.name(a.id) for a in graph.adapters.values() if a.description == description), description)


TOOLS: dict[str, Callable[[Scene, Subnet], list[str]]] = {
    "fabricmon fabric": ours, "ibqueryerrors": ibqueryerrors, "ibnetdiscover, compared": discovered,
}  # fmt: skip


class Score(NamedTuple):
    """Kinds of faults found and missed, and lines of no fault."""

    found: list[str]
    missed: list[str]
    false: list[str]
    lines: int


def scored(scene: Scene, lines: Sequence[str]) -> Score:
    texts = [(f" {re.sub('[,;:]', ' ', line)} ", line) for line in lines]
    faults = list(enumerate(scene.faults))
    about = [{n for n, fault in faults if any(f" {mark} " in text for mark in fault.marks)} for text, _ in texts]
    hit = set().union(*about) if about else set()
    kinds = [fault.kind for fault in scene.faults]
    return Score(
        [kind for n, kind in enumerate(kinds) if n in hit], [kind for n, kind in enumerate(kinds) if n not in hit],
        [line for (_, line), faults in zip(texts, about, strict=True) if not faults], len(lines),
    )  # fmt: skip


def compared(graph: Graph, folder: Path, seed: int = 1) -> Iterator[tuple[str, float, Score]]:
    """Tool, its seconds after the faults, and its score."""
    scene = Scene(graph, seed)
    scene.draw()
    before: dict[str, set[str]] = {}
    for name, text in (("before", scene.plain()), ("after", scene.netlist())):
        at = folder / name
        at.mkdir()
        with subnet(at, text) as running:
            if name == "after":
                inject(scene, running)
                running.settled()
            for tool, run in TOOLS.items():
                start = time.monotonic()
                lines = run(scene, running)
                if name == "before":
                    before[tool] = set(lines)
                else:
                    fresh = [line for line in lines if line not in before[tool]]
                    yield tool, time.monotonic() - start, scored(scene, fresh)


def main(paths: Sequence[str]) -> int:
    for path in paths:
        graph = loaded(Path(path))
        print(f"{Path(path).name}: {len(graph.switches)} switches, {len(graph.adapters)} adapters, "
              f"{len(graph.cables)} links; {FAULTS} faults", flush=True)  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            for tool, seconds, score in compared(graph, Path(folder)):
                print(f"  {tool:24} found {len(score.found):2} missed {len(score.missed):2} false {len(score.false):3} "
                      f"of {score.lines:4} lines, {seconds:.1f} s; missed: {', '.join(score.missed) or 'none'}",
                      flush=True)  # fmt: skip
                for line in score.false[:5]:
                    print(f"    false: {line[:160]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
