"""How often gray faults are found by probes alone: `python -m tests.accuracy.probes --help`.

The flows are those of the server's plan (docs/probing.md#plan), each with the probes of a minute. A question is lost on
its way there or its answer on the way back, each on one equal-cost path by hash; which one, the server does not know.
No other reading shows anything: neither counters nor the jobs' own flows, and nothing loses packets but the fault.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.flow import USUAL_LOSS
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.central.probing.ends import ends as ends_of
from fabricmon.central.probing.ends import uplinks
from fabricmon.engine.diagnosis.losses import unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.silence_rate import SilenceRate
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.domains.port_health import PortHealth
from fabricmon.engine.domains.row_domains import RowDomains, power_of
from fabricmon.engine.domains.transit import transit_of
from fabricmon.fleet.clocks import PartClocks
from fabricmon.fleet.pooled_losses import pooled
from fabricmon.fleet.table import Table
from fabricmon.model import ComponentId, Kind
from fabricmon.probe.plan import OFFER, ProbePlan, plan
from fabricmon.sim.flows import Flows
from fabricmon.sim.layout import Layout
from fabricmon.topology.domains import Assigner
from fabricmon.topology.groups import Domains
from tests.accuracy.evidence import BEGIN, CORE, Gray, Trial, Truth, _Evidence
from tests.accuracy.fabrics import FABRICS, TREES, Fabric
from tests.accuracy.methods import Answer, noisy_or
from tests.accuracy.score import SURE

TURNS, PER_TURN = 6, 12  # windows of a minute; probes of a flow in each: 10 a second for 8 flows
GRAY = ("NIC lossy", "cable errors, with loss", "leaf gray", *CORE)
LOST = (0.0, 3.0, 10.0, 30.0, math.inf)
"""Probes that a fault takes in a minute, on average: bands of the table."""


class Probed(NamedTuple):
    """A fabric whose FLOW rows are the plan's, and the same flows there and back for the losses on their paths."""

    fabric: Fabric
    ways: Flows
    made: ProbePlan

    @property
    def flows(self) -> int:
        return len(self.made.flows)


class Case(NamedTuple):
    """One fault.

    expected  probes that it takes in a minute, on average
    right     a verdict names it
    sure      verdicts of SURE confidence, `false` of them name something else
    """

    sort: str
    expected: float
    right: bool
    sure: int
    false: int


def build_probed(name: str, seed: int) -> Probed:
    layout = Layout.from_graph(FABRICS[name](), gpus=0, nvlinks=0, storage=0)
    ids = [ComponentId(Kind.PORT, layout.hosts[host], layout.row_name(row)) for row, host in enumerate(layout.host_of)]
    rows = [(id, layout.labels(row)) for row, id in enumerate(ids)]
    power = power_of(layout.graph)
    assigner = Assigner(layout.graph, power)
    domains = assigner.assign(rows)
    table = _table(rows, domains)
    paths = uplinks(table, layout.graph)
    made = plan(ends_of(table, {}), paths.cables, unequal=paths.unequal)
    row_of = {str(id): row for row, id in enumerate(ids)}
    ends = [(row_of[made.ports[f.source].full_name], row_of[made.ports[f.target].full_name]) for f in made.flows]
    sent = [
        (ComponentId(Kind.FLOW, ids[a].node, f"{ids[a].name}>{ids[b]}"), {"port": ids[a].name, "peer": str(ids[b])})
        for a, b in ends
    ]
    nodes = [ComponentId(Kind.NODE, host, "") for host in layout.hosts]
    places = RowDomains(domains, power, nodes, flows=assigner.flows(sent, domains))
    index = SymptomIndex(places, {}, {Kind.PORT: ids, Kind.NODE: nodes, Kind.FLOW: [id for id, _ in sent]})
    ways = _both_ways(layout, np.array(ends, np.intp), seed)
    carries = np.zeros(layout.ports, np.bool_)
    carries[ways.source] = True
    transit = transit_of(layout.graph, places)
    return Probed(Fabric(name, layout, ways, places, index, carries, transit), ways, made)


def _table(rows: Sequence[tuple[ComponentId, Mapping[str, str]]], domains: Domains) -> Table:
    """The server's PORT rows: each offers to probe."""
    table = Table(Kind.PORT, {}, PartClocks())
    for at, (id, labels) in enumerate(rows):
        table.add(0, [id], [{**labels, OFFER: f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}:9795"}])
    table.domains = domains
    return table


def _both_ways(layout: Layout, ends: np.ndarray, seed: int) -> Flows:
    """The flows there, then those back."""
    flows = Flows(layout, (), seed)
    flows.source, flows.target = np.concatenate((ends, ends[:, ::-1])).T
    count = len(flows.source)
    flows.weight, flows.job = np.ones(count), np.full(count, -1, np.intp)
    flows.loss, flows.broken, flows._paths = np.zeros(count), np.zeros(count, np.bool_), np.ones(count, np.intp)
    flows.route(named=False)
    return flows


def cases(probed: Probed, trials: int, seed: int, faults: Sequence[str] = GRAY) -> Iterator[Case]:
    """Faults in turn, each kind as often as the others; a fault that the fabric does not have is left out."""
    for number, fault in enumerate(faults):
        for at in range(trials):
            random = np.random.default_rng((seed, number, at))
            made = _Evidence(probed.fabric, random)
            made.silent[:] = False
            truth = made.strike(fault)
            if truth is not None:
                yield _case(probed, made.grays, made.cables, made.rows, truth, random)


def _case(
    probed: Probed, grays: Sequence[Gray], cables: dict[int, float], ports: dict[int, float], truth: Truth,
    random: np.random.Generator,
) -> Case:
    probed.ways.lose(grays, cables, ports)
    there, back = np.split(probed.ways.loss, 2)
    loss = 1 - (1 - there) * (1 - back)
    lost = random.binomial(PER_TURN, np.tile(1 - (1 - loss) * (1 - USUAL_LOSS), (TURNS, 1))).astype(float)
    answers = _answers(probed, lost)
    name = probed.fabric.name
    good = [_right(answer, truth, name) for answer in answers]
    sort = truth.fault if not truth.tier else "above the leaves"
    expected = float(TURNS * PER_TURN * loss.sum())
    return Case(sort, expected, any(good), len(good), good.count(False))


def _answers(probed: Probed, lost: np.ndarray) -> list[Answer]:
    """Verdicts of SURE confidence."""
    fabric = probed.fabric
    groups = fabric.places.by_table[Kind.FLOW]
    found = pooled(lost, np.full(probed.flows, float(TURNS * PER_TURN)), groups.many)
    rows = np.flatnonzero(found.bad)
    facts = {SymptomType.FLOW_LOSS: Observation(groups, rows, np.full(len(rows), BEGIN), found.bad | found.clean)}
    none = np.full(fabric.ports, np.nan)
    ports = PortHealth(fabric.places.port, unwell(facts, fabric.places.port, none, none, BEGIN + 60), none,
                       fabric.places.near, BEGIN + 60, np.zeros(fabric.ports, np.bool_), none,
                       np.full(probed.flows, np.nan))  # fmt: skip
    case = Trial(facts, SilenceRate().leak(facts, np.empty(0, np.int64), BEGIN + 60), ports, [])
    return [answer for answer in noisy_or(fabric, case) if answer.confidence >= SURE]


def _right(answer: Answer, truth: Truth, fabric: str) -> bool:
    """As without paths (level L1): above the leaves the tier, the network, or for a cable what is at its end."""
    named = {(answer.word, answer.name), *answer.others}
    if any(truth.is_it(*one) for one in named):
        return True
    transit = truth.tier or (truth.fault == "leaf gray" and fabric not in TREES)
    return bool(transit) and (answer.word in ("network", "plane") or bool(named & truth.ends))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "-"


def document(found: Mapping[str, Probed], counted: Mapping[str, Sequence[Case]], trials: int, seed: int) -> str:
    bands = [f"{low:g} to {high:g}" if high < math.inf else f"{low:g} and more" for low, high in pairwise(LOST)]
    lines = [
        "# Accuracy of probes alone",
        "",
        f"Made by `python -m tests.accuracy.probes --trials {trials} --seed {seed} --write docs/accuracy-probes.md`.",
        "",
        f"Simulated gray faults, {trials} of each kind in each fabric, seen by one minute of the "
        "[plan's](probing.md#plan) probes and by nothing else: no counters, no flows of jobs. Each way of a probe "
        "takes one path by hash, which the server does not know, and a healthy path loses what is "
        "[usual](methods.md#pooled-losses). Shares of lost packets are log-uniform from 1e-3 to 5e-2 "
        "(switches and uplinks: 3e-2).",
        "",
        "Precision: of the verdicts with a confidence of at least 0.9, those that name the faulty part; above the "
        "leaves those that name the plane, the network, or for a cable the switch at its end. Recall: of the faults, "
        "those that one such verdict names, by the number of probes that the fault takes in the minute on average.",
        "",
        "| fabric | ports | flows | least probability of an uplink |",
        "| --- | --- | --- | --- |",
        *(f"| {name} | {one.fabric.ports} | {one.flows} | {_probability(one.made)} |"
          for name, one in found.items()),
        "",
        f"| fabric | fault | precision | {' | '.join(f'recall, {band} lost' for band in bands)} |",
        "|" + " --- |" * (len(bands) + 3),
    ]  # fmt: skip
    every = [(name, case) for name, cases in counted.items() for case in cases]
    for name in (*counted, "all"):
        for sort in dict.fromkeys(case.sort for at, case in every if name in (at, "all")):
            mine = [case for at, case in every if name in (at, "all") and case.sort == sort]
            lines.append(f"| {name} | {sort} | {_precision(mine)} | {' | '.join(_recalls(mine))} |")
    return "\n".join([*lines, ""])


def _probability(made: ProbePlan) -> str:
    reached = made.coverage.probability
    return "unknown" if math.isnan(reached) else f"{reached:.2f}"


def _precision(cases: Sequence[Case]) -> str:
    sure = sum(case.sure for case in cases)
    return _share(sure - sum(case.false for case in cases), sure)


def _recalls(cases: Sequence[Case]) -> list[str]:
    bands = [[case.right for case in cases if low <= case.expected < high] for low, high in pairwise(LOST)]
    return [_share(sum(band), len(band)) for band in bands]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.probes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--fabric", choices=list(FABRICS), action="append", help="default: all")
    parser.add_argument("--trials", type=int, default=20, help="of each fabric and kind of fault (20)")
    parser.add_argument("--seed", type=int, default=1, help="another one, other faults (1)")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables as Markdown")
    args = parser.parse_args()
    found = {name: build_probed(name, args.seed) for name in args.fabric or FABRICS}
    text = document(
        found, {name: [*cases(one, args.trials, args.seed)] for name, one in found.items()}, args.trials, args.seed
    )
    print(text)
    if args.write:
        args.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
