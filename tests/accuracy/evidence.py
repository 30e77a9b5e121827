"""Random faults and the symptoms that they make, as the judges would hand them to the diagnosis.

Losses follow from real paths (sim/flows.py); whether a symptom that is there is shown, and what is shown without any
fault, is drawn with the probabilities of docs/methods.md#priors-and-probabilities. Nothing here knows what the
diagnosis assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.silence_rate import SilenceRate
from fabricmon.engine.domains.port_health import PortHealth, PortWork
from fabricmon.model import Kind
from fabricmon.sim.flows import Gray
from fabricmon.topology.infer import is_nvlink
from tests.accuracy.fabrics import Fabric

Ints = NDArray[np.int64]

BEGIN = 1_000_000.0
PACKETS = 5e7  # of a busy port in the windows that are kept: about 30 s at a quarter of 400 Gb/s
WEAK = 1e-5
LEAST = 3  # lost packets
SEEN = 0.97  # of what is there to be seen
STRAY = {
    SymptomType.LINK_DOWN: 1e-7, SymptomType.LINK_FLAPPING: 1e-7, SymptomType.LINK_ERRORS: 4e-7,
    SymptomType.NIC_FAULT: 1e-7, SymptomType.PACKET_LOSS: 1e-4, SymptomType.FLOW_LOSS: 1e-5,
}  # fmt: skip
"""Share of rows that show a symptom without any fault: link state is read and not estimated; one false onset of errors
a day among 100,000 ports, told for an hour; a tenth of a thousandth of the windows after persistence."""
SILENT = 0.01  # share of agents that are silent for reasons of their own, since some time of the last day

VISIBLE: Mapping[str, float] = {
    "host dead": 6.9, "cable down": 7.6, "cable flapping": 7.6, "cable flapping, with loss": 8.0, "cable errors": 7.6,
    "cable errors, with loss": 8.0, "NIC bad": 8.5, "NIC dead": 8.9, "NIC lossy": 8.9, "leaf down": 9.2,
    "leaf reboot": 9.2, "leaf gray": 9.2, "power lost": 10.4,
}  # fmt: skip
CORE: Mapping[str, float] = {
    "uplink cable": 8.0, "spine": 9.2, "core": 9.2, "half a spine": 9.9, "half a core": 9.9, "transit cable": 8.0,
    "transit switch": 9.2,
}  # fmt: skip
"""-logit of the priors (docs/methods.md#priors-and-probabilities)."""


@dataclass
class Truth:
    """word, name: as an incident's component; same: others that no evidence of this level tells apart from it;
    tier: of a fault above the leaves, "" else; seen: lossy ports, lossy flows; signs: other symptoms;
    ends: leaf and pod at an end of a cable between switches."""

    fault: str
    word: str
    name: str
    same: set[tuple[str, str]] = field(default_factory=set)
    tier: str = ""
    seen: tuple[int, int] = (0, 0)
    signs: int = 0
    ends: set[tuple[str, str]] = field(default_factory=set)

    def is_it(self, word: str, name: str) -> bool:
        return (word, name) == (self.word, self.name) or (word, name) in self.same


@dataclass
class Trial:
    facts: dict[SymptomType, Observation]
    silence: float
    ports: PortHealth
    truths: list[Truth]


class _Evidence:
    def __init__(self, fabric: Fabric, random: np.random.Generator) -> None:
        n, hosts = fabric.ports, len(fabric.layout.hosts)
        self.fabric, self.random = fabric, random
        self.shown: dict[SymptomType, dict[int, float]] = {kind: {} for kind in (*STRAY, SymptomType.AGENT_SILENT)}
        self.silent = random.random(hosts) < SILENT
        self.dead = np.zeros(hosts, np.bool_)
        self.broken = np.zeros(n, np.bool_)  # ports that nothing reaches
        self.grays: list[Gray] = []
        self.cables: dict[int, float] = {}
        self.rows: dict[int, float] = {}

    def show(self, kind: SymptomType, rows: Ints | NDArray[np.int32], share: float) -> None:
        for row in np.asarray(rows).tolist():
            if self.random.random() < share:
                self.shown[kind][row] = BEGIN + self.random.uniform(0, 15)

    # --- faults

    def struck(self, fault: str) -> Truth | None:
        before = sum(map(len, self.shown.values()))
        truth = self.strike(fault)
        if truth is not None:
            truth.signs = sum(map(len, self.shown.values())) - before
        return truth

    def strike(self, fault: str) -> Truth | None:
        """Make one; None where the fabric has no such part."""
        layout, random = self.fabric.layout, self.random
        row = int(random.choice(np.flatnonzero(self.fabric.carries)))
        one = np.array([row])
        if fault in ("host dead", "power lost"):
            return self._dark(fault, int(layout.host_of[row]))
        if fault.startswith("leaf"):
            return self._leaf(fault, int(layout.leaf[row]))
        if fault in CORE:
            return self._core(fault)
        link = Truth(fault, "link", layout.link_name(row), {("nic", _nic(layout.port_name(row)))})
        ratio = float(10 ** random.uniform(-3, -1.3))
        if fault == "cable down":
            self.show(SymptomType.LINK_DOWN, one, SEEN)
            self.broken[row] = True
        elif fault.startswith("cable flapping"):
            self.show(SymptomType.LINK_FLAPPING, one, 0.95)
            self.show(SymptomType.LINK_DOWN, one, 0.35)
            self.show(SymptomType.LINK_ERRORS, one, 0.4)
            self.rows |= {row: ratio} if "loss" in fault else {}
        elif fault.startswith("cable errors"):
            self.show(SymptomType.LINK_ERRORS, one, 0.95)
            self.rows |= {row: ratio} if "loss" in fault else {}
        else:
            mine = np.flatnonzero((layout.host_of == layout.host_of[row]) & _same(layout.devices, row))
            links = {("link", layout.link_name(other)) for other in mine.tolist()}
            link = Truth(fault, "nic", _nic(layout.port_name(row)), links)
            self._nic(fault, mine, ratio)
        return link

    def _nic(self, fault: str, rows: Ints, ratio: float) -> None:
        for row in rows.tolist():
            if fault == "NIC dead":
                self.broken[row] = True
            elif fault == "NIC lossy":
                self.rows[row] = ratio
        self.show(SymptomType.NIC_FAULT, rows[:1], 0.9 if fault == "NIC bad" else 0.8)
        if fault == "NIC bad":
            self.show(SymptomType.LINK_ERRORS, rows, 0.2)
        if fault == "NIC dead":
            self.show(SymptomType.LINK_DOWN, rows, SEEN)

    def _dark(self, fault: str, host: int) -> Truth:
        layout = self.fabric.layout
        power = layout.graph.hosts[layout.hosts[host]]["power"]
        hosts = np.array([host]) if fault == "host dead" else np.array(layout.power_hosts(power))
        self.dead[hosts] = True
        self.broken[np.isin(layout.host_of, hosts)] = True
        name = ("host", layout.hosts[host]) if fault == "host dead" else ("power", power)
        return Truth(fault, *name)

    def _leaf(self, fault: str, switch: int) -> Truth:
        rows = self.fabric.layout.leaf_rows(switch)
        if fault == "leaf down":
            self.show(SymptomType.LINK_DOWN, rows, SEEN)
            self.broken[rows] = True
        elif fault == "leaf reboot":
            self.show(SymptomType.LINK_DOWN, rows, 0.4)
            self.show(SymptomType.LINK_FLAPPING, rows, 0.9)
            self.broken[rows] = True
        else:
            self.grays.append(Gray(switch, float(10 ** self.random.uniform(-3, -1.5))))
        truth = Truth(fault, "leaf", self.fabric.layout.leaf_name(switch))
        if len(rows) == 1:  # nothing tells a switch of one host from its cable
            truth.same.add(("link", self.fabric.layout.link_name(int(rows[0]))))
        return truth

    def _core(self, fault: str) -> Truth | None:
        layout, graph = self.fabric.layout, self.fabric.layout.graph
        ratio = float(10 ** self.random.uniform(-3, -1.5))
        every = [(at, graph.switches[id]) for at, id in enumerate(layout.switches)]
        level = {at: switch.level for at, switch in every if not is_nvlink(switch)}
        top = max(level.values())
        if "cable" in fault:
            ends = [(at, [graph.switches[e.node].level for e in (c.a, c.b) if e.node in graph.switches])
                    for at, c in enumerate(graph.cables)]  # fmt: skip
            between = [at for at, found in ends if len(found) == 2 and min(found) >= 0
                       and not is_nvlink(graph.switches[graph.cables[at].a.node])]  # fmt: skip
            some = between if (fault == "uplink cable") == (top > 0) else []
            if not some:
                return None
            cable = int(self.random.choice(some))
            self.cables[cable] = ratio
            high = max(ends[cable][1])
            truth = Truth(fault, "link", graph.title(graph.cables[cable]), tier=("leaf", "spine", "core")[min(high, 2)])
            number = {id: at for at, id in enumerate(layout.switches)}
            for end in (graph.cables[cable].a, graph.cables[cable].b):
                truth.ends.add(("leaf", layout.leaf_name(number[end.node])))
                for group, pod in enumerate(self.fabric.places.names["pod"]):
                    if graph.name(end.node) in self.fabric.places.about("pod", group)["names"].split():
                        truth.ends.add(("pod", pod))
            return truth
        wanted = {"spine": 1, "core": 2, "switch": 0}[fault.split()[-1]]
        some = [at for at, found in level.items() if found == wanted and (wanted > 0) == (top > 0)]
        if not some:
            return None
        switch = int(self.random.choice(some))
        self.grays.append(Gray(switch, ratio, 0.5 if "half" in fault else 1.0))
        word = ("leaf", "spine", "core")[wanted]
        return Truth(fault, word, layout.leaf_name(switch), tier=word)

    # --- what is seen of them

    def trial(self, truths: list[Truth], level: str) -> Trial:
        fabric, random = self.fabric, self.random
        layout, flows, n = fabric.layout, fabric.flows, fabric.ports
        flows.lose(self.grays, self.cables, self.rows)
        silent = self.silent | self.dead
        reached = ~self.broken[flows.target] & ~self.broken[flows.source]
        loss = np.where(reached, flows.loss, 0.0)
        seen = ~silent[layout.host_of]
        sent = PACKETS * flows.weight
        lost = random.binomial(sent.astype(np.int64), loss)
        ratio = np.bincount(flows.source, lost, n) / np.maximum(1.0, np.bincount(flows.source, sent, n))
        waits = np.bincount(flows.source, ~reached, n) > 0  # timers fire, whatever share of packets that is
        lossy = ((ratio >= WEAK) | waits) & ~self.broken & fabric.carries
        self.show(SymptomType.PACKET_LOSS, np.flatnonzero(lossy), SEEN)
        bad = ((lost >= LEAST) & (lost >= WEAK * sent)) | ~reached
        self.show(SymptomType.FLOW_LOSS, np.flatnonzero(bad), SEEN)
        for host in np.flatnonzero(self.dead).tolist():  # agents send a heartbeat a second, and one may be lost
            self.shown[SymptomType.AGENT_SILENT][host] = BEGIN + random.uniform(0, 2)
        for host in np.flatnonzero(self.silent & ~self.dead).tolist():
            self.shown[SymptomType.AGENT_SILENT][host] = BEGIN - random.uniform(0, 86400)
        for kind, share in STRAY.items():
            size = len(flows.source) if kind == SymptomType.FLOW_LOSS else n
            for row in random.integers(0, size, random.poisson(share * size)).tolist():
                self.shown[kind].setdefault(row, BEGIN - random.uniform(0, 600))
        for truth in truths:
            truth.seen = int((lossy & seen).sum()), int((bad & seen[flows.source]).sum())
        facts = self._facts(seen, level)
        groups = fabric.places.port
        fell = np.full(n, np.nan)
        of_el = np.full(n, np.nan)
        of_el[facts[SymptomType.PACKET_LOSS].rows] = np.maximum(ratio, 2e-8)[facts[SymptomType.PACKET_LOSS].rows]
        noise = facts[SymptomType.PACKET_LOSS].rows[ratio[facts[SymptomType.PACKET_LOSS].rows] == 0]
        of_el[noise] = np.where(waits[noise], 1e-7, 10 ** random.uniform(-5, -3, len(noise)))
        near = fabric.places.near if level == "L2" else np.zeros(0, np.int64)
        sick = unwell(facts, groups, fell, fell, BEGIN + 60)
        arrived = np.bincount(flows.target, np.where(reached, lost, 0), n) >= LEAST  # a receiver counts what is missing
        towards = arrived & (random.random(n) < SEEN) & ~silent[layout.host_of]
        unread = np.full(n, np.nan), np.full(len(near), np.nan)
        ports = PortHealth(
            groups, sick, of_el, near, BEGIN + 60, towards, *unread, fabric.places.rails(),
            islands=fabric.places.islands(), counted=seen, transit=fabric.transit, work=self._work(),
        )  # fmt: skip
        return Trial(facts, SilenceRate().leak(facts, np.empty(0, np.int64), BEGIN + 60), ports, truths)

    def _work(self) -> PortWork:
        """Those that carry traffic have done so for a day; which job it is of is not known."""
        carries, n = self.fabric.carries, self.fabric.ports
        newest, began = np.where(carries, BEGIN + 50, -np.inf), np.where(carries, BEGIN - 86400, np.nan)
        return PortWork(newest, began, carries, np.full(n, -1, np.int32))

    def _facts(self, seen: NDArray[np.bool_], level: str) -> dict[SymptomType, Observation]:
        fabric, facts = self.fabric, {}
        for kind, shown in self.shown.items():
            if kind == SymptomType.FLOW_LOSS and level != "L2":
                continue
            if kind == SymptomType.AGENT_SILENT:
                groups, known = fabric.places.by_table[Kind.NODE], np.ones(len(fabric.layout.hosts), np.bool_)
            elif kind == SymptomType.FLOW_LOSS:
                source = fabric.flows.source
                groups, known = fabric.places.by_table[Kind.FLOW], seen[source] & ~self.broken[source]
            else:
                groups, known = fabric.places.port, seen.copy()
                if kind == SymptomType.PACKET_LOSS:
                    known = known & fabric.carries & ~self.broken
            rows = np.array(sorted(row for row in shown if known[row]), np.int64)
            onset = np.array([shown[row] for row in rows.tolist()])
            facts[kind] = Observation(groups, rows, onset, known)
        return facts


def trial(fabric: Fabric, seed: tuple[int, ...], table: Mapping[str, float], level: str) -> Trial:
    """A random fault of a table, weighted by its priors; one time in ten a second one that is seen by hosts."""
    random = np.random.default_rng(seed)
    made = _Evidence(fabric, random)
    truths: list[Truth] = []
    names = list(table)
    weights = np.array([exp(-(cost - 6.9)) for cost in table.values()])
    while not truths:
        found = made.struck(names[int(random.choice(len(names), p=weights / weights.sum()))])
        truths += [found] if found is not None else []
    if random.random() < 0.1:
        names = [name for name in VISIBLE if name != "power lost"]
        found = made.struck(names[int(random.integers(len(names)))])
        truths += [found] if found is not None and not found.is_it(truths[0].word, truths[0].name) else []
    return made.trial(truths, level)


def _nic(port: str) -> str:
    return port.rpartition("/")[0]


def _same(devices: tuple[str, ...], row: int) -> NDArray[np.bool_]:
    return np.array([device == devices[row] for device in devices], np.bool_)
