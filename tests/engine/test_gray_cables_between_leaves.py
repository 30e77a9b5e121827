"""Where hosts hang on switches that carry the packets of others: which cable between these loses packets."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.rails_of_losses import in_common, mixed
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Floats, Groups
from fabricmon.engine.domains.transit import LeafCables
from fabricmon.sim.shapes.dragonfly import dragonfly
from fabricmon.sim.shapes.torus import torus3d
from fabricmon.topology.graph import Graph
from fabricmon.topology.ways import Ways, ways_of

HOSTS, PEERS = 4, 6
MESH = torus3d(5, 5, 1, HOSTS, closed=False)
FABRICS = {"dragonfly": dragonfly(9, 4, HOSTS), "torus": torus3d(4, 4, 2, HOSTS), "mesh": MESH}
LOSS = 2e-3


def of(graph: Graph) -> Ways:
    ways = ways_of(graph)
    assert ways is not None
    return ways


@dataclass
class Flows:
    """Flows between the ports of a fabric, HOSTS a switch in the order of the switches; through: share of each flow's
    packets by cable."""

    source: list[int]
    target: list[int]
    through: Floats


def flows(ways: Ways, seed: int, peers: int = PEERS, jobs: int = 1) -> Flows:
    """Each port sends to some others of its job; each flow takes one of the shortest ways. Jobs are on switches in the
    order of these."""
    rng = np.random.default_rng(seed)
    n = len(ways.place) * HOSTS
    source = np.repeat(np.arange(n), peers)
    size = -(-n // jobs)
    first = source // size * size
    target = first + rng.integers(0, size, len(source)) % (np.minimum(first + size, n) - first)
    through = np.zeros((len(source), len(ways.near)))
    for flow, (here, end) in enumerate(zip((source // HOSTS).tolist(), (target // HOSTS).tolist(), strict=True)):
        at = here
        while at != end:
            out = [(c, b if a == at else a) for c, (a, b) in enumerate(zip(ways.near, ways.far, strict=True))
                   if at in (a, b)]  # fmt: skip
            nearer = [(c, to) for c, to in out if ways.hops[to, end] == ways.hops[at, end] - 1]
            cable, at = nearer[int(rng.integers(len(nearer)))]
            through[flow, cable] = 1.0
    return Flows(source.tolist(), target.tolist(), through)


def verdicts(ways: Ways, traffic: Flows, lossy: Floats, idle: tuple[int, ...] = ()) -> list[FaultVerdict]:
    """What is found where flows lose shares of their packets, for minutes; cable c is link number 1000 + c. `idle`:
    switches whose ports carry nothing."""
    n = len(ways.place) * HOSTS
    rows = np.arange(n, dtype=np.int32)
    zero = np.zeros(n, np.int32)
    groups = Groups({"link": rows, "nic": rows, "leaf": rows // HOSTS, "pod": zero - 1, "plane": zero - 1,
                     "network": zero})  # fmt: skip
    ratio = np.bincount(traffic.source, lossy, n) / np.maximum(1, np.bincount(traffic.source, minlength=n))
    towards = np.bincount(traffic.target, lossy, n) > 0
    some = np.flatnonzero(ratio > 0)
    observation = Observation(groups, some, np.zeros(len(some)), np.ones(n, np.bool_))
    transit = LeafCables(ways, np.arange(len(ways.place)), 1000 + np.arange(len(ways.near)))
    works = ~np.isin(rows // HOSTS, idle)
    lost = np.where(ratio > 0, ratio, np.nan)
    return gray(observation, lost, towards, read=np.full(n, 600.0), transit=transit, works=works)


def named(verdict: FaultVerdict) -> set[int]:
    return {group - 1000 for group in (verdict.group, *verdict.series) if verdict.domain == "link"}


@pytest.mark.parametrize(("name", "share"), [("dragonfly", 0.8), ("torus", 0.8), ("mesh", 0.3)])
def test_the_cable_that_all_lossy_flows_go_through_is_named(name: str, share: float) -> None:
    """In the middle of a mesh many have flows in common: none is sure there."""
    ways, right, wrong = of(FABRICS[name]), 0, 0
    cables = range(0, len(ways.near), 8)
    for cable in cables:
        traffic = flows(ways, cable)
        for found in verdicts(ways, traffic, LOSS * traffic.through[:, cable]):
            right += cable in named(found)
            wrong += found.confidence >= 0.9 and max(named(found), default=-1) >= 0 and cable not in named(found)
    assert right >= share * len(cables)
    assert not wrong


@pytest.mark.parametrize("jobs", [2, 3, 5])
@pytest.mark.parametrize("name", FABRICS)
def test_of_cables_that_all_flows_of_a_job_go_through_none_is_sure(name: str, jobs: int) -> None:
    """Jobs on parts of a network send through few cables, so that several of them have all lossy flows in common."""
    ways, sure, right = of(FABRICS[name]), 0, 0
    for cable in range(0, len(ways.near), 3):
        traffic = flows(ways, cable, jobs=jobs)
        for found in verdicts(ways, traffic, LOSS * traffic.through[:, cable]):
            if found.confidence >= 0.9 and found.domain == "link":
                sure, right = sure + 1, right + (cable in named(found))
    assert right >= 0.9 * sure


def sure_cables(idle: bool, jobs: int = 3) -> tuple[float, float]:
    """Of how many gray cables, and of how many gray switches, a cable is named surely: the right one, and any. The
    ports of those switches lose what they send as well, or carry nothing."""
    ways = of(FABRICS["dragonfly"])
    ends, right, wrong = np.arange(0, len(ways.near), 3), 0, 0
    for cable in ends.tolist():
        traffic = flows(ways, cable, jobs=jobs)
        for found in verdicts(ways, traffic, LOSS * traffic.through[:, cable]):
            right += found.confidence >= 0.9 and cable in named(found)
    for switch in range(len(ways.place)):
        traffic = flows(ways, switch, jobs=jobs)
        source, target = (np.array(end) // HOSTS for end in (traffic.source, traffic.target))
        own = (source == switch) | (target == switch)
        on_it = traffic.through[:, (ways.near == switch) | (ways.far == switch)].any(axis=1)
        lossy = LOSS * (on_it & ~own if idle else on_it | own)
        for found in verdicts(ways, traffic, lossy, (switch,) if idle else ()):
            wrong += found.confidence >= 0.9 and found.domain == "link"
            assert not (found.confidence >= 0.9 and found.domain == "leaf" and found.group != switch)
    return right / len(ends), wrong / len(ways.place)


def test_a_sure_cable_is_none_of_the_switches_at_its_ends() -> None:
    """By their priors a given cable loses packets as often as exp(1.2) given switches do; those of three switches in
    ten are taken as idle."""
    (right, busy), (_, idle) = sure_cables(idle=False), sure_cables(idle=True)
    wrong = 0.7 * busy + 0.3 * idle
    assert wrong <= 0.1 * (wrong + exp(9.2 - 8.0) * right)


@pytest.mark.parametrize("name", FABRICS)
def test_ports_that_lose_packets_of_their_own_are_no_cable_between_leaves(name: str) -> None:
    ways = of(FABRICS[name])
    for seed in range(8):
        traffic = flows(ways, seed)
        port = 7 * seed % (len(ways.place) * HOSTS)
        mine = (np.array(traffic.source) == port) | (np.array(traffic.target) == port)
        for found in verdicts(ways, traffic, LOSS * mine):
            assert not (found.confidence >= 0.9 and max(named(found), default=-1) >= 0)


def test_losses_all_over_a_network_are_of_no_cable() -> None:
    ways = of(FABRICS["torus"])
    for seed in range(8):
        traffic = flows(ways, seed)
        every = np.random.default_rng(seed).random(len(traffic.source)) < 0.1
        assert [found.domain for found in verdicts(ways, traffic, LOSS * every)] == ["network"]


def test_a_single_flow_does_not_separate_the_cables_that_it_goes_through() -> None:
    """Between two neighbours there is one cable: it, or that of either port."""
    ways = of(FABRICS["dragonfly"])
    traffic = flows(ways, 1)
    hops = ways.hops[np.array(traffic.source) // HOSTS, np.array(traffic.target) // HOSTS]
    flow = int(np.flatnonzero(hops == 1)[0])
    one = np.arange(len(hops)) == flow
    (found,) = verdicts(ways, traffic, LOSS * one)
    ends = {traffic.source[flow] - 1000, traffic.target[flow] - 1000}
    assert named(found) == {int(traffic.through[flow].argmax())} | ends
    assert found.explained[SymptomType.PACKET_LOSS].tolist() == [traffic.source[flow]]


def test_ways_are_those_of_the_fabric() -> None:
    """Shares of the ways over the cables around a switch add up to one, and every cable is as long as one hop."""
    for graph in FABRICS.values():
        ways = of(graph)
        every = np.arange(len(ways.place))
        shares = [ways.share(cable, every) for cable in range(len(ways.near))]
        for switch in (0, len(every) // 2):
            leaves = sum(share[switch] for cable, share in enumerate(shares) if ways.near[cable] == switch)
            leaves = leaves + sum(share.T[switch] for cable, share in enumerate(shares) if ways.far[cable] == switch)
            assert np.delete(leaves, switch) == pytest.approx(1.0)
            around = ways.share_through(switch, every)
            assert (around[switch] == 1.0).all()
            assert (around[:, switch] == 1.0).all()
            assert np.delete(np.delete(around, switch, 0), switch, 1).max() <= 1.0
        assert (ways.hops[ways.near, ways.far] == 1).all()


def test_more_ways_than_a_network_has_switches_are_counted() -> None:
    """Between opposite corners of a cube of n hops each way there are (3n)! / n!^3 shortest ways."""
    ways = of(torus3d(4, 4, 4, 1, closed=False))
    assert ways.hops.max() == 9
    assert ways.many.max() == 1680
    assert (ways.hops == ways.hops.T).all()
    assert (ways.many == ways.many.T).all()


@pytest.mark.parametrize("idle", [False, True])
def test_two_ports_that_talk_to_each_other_only_are_no_switch(idle: bool) -> None:
    ways = of(FABRICS["torus"])
    pair = Flows([20, 21], [21, 20], np.zeros((2, len(ways.near))))
    found = verdicts(ways, pair, np.full(2, LOSS), (20 // HOSTS,) if idle else ())
    assert not [verdict for verdict in found if verdict.domain == "leaf"]


def test_one_of_two_cables_is_sure_of_five_in_six_at_most() -> None:
    for busy in (0, 1, 3):  # switches in common whose ports are at work and lose nothing
        where = mixed([0.0, -50.0, *[-1.0] * busy], [1.0, 1.0, *[1e-9] * busy])
        share = [exp(nats) for nats in where[:2]]
        assert share[0] / sum(share) == pytest.approx(5 / 6, abs=1e-6)
    assert mixed([-inf, -inf], [1.0, 1.0]) == [-inf, -inf]
    assert mixed([], []) == []


def test_losses_all_over_a_large_network_are_diagnosed_in_bounded_steps() -> None:
    """Of many leaves some are compared, however many lose packets."""
    ways = of(torus3d(12, 12, 12, 1))
    every = np.arange(len(ways.place))
    transit = LeafCables(ways, every, every)
    assert in_common(transit, every.astype(np.int32), every >= 0, every % 2 == 0, every % 2 == 1, lambda _: True) == []
