"""Who probes whom: degrees, coverage, load, and what a node that comes or goes changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.probe.assignment import SOURCES, Assignment, decode, encode
from fabricmon.probe.plan import PlanLimits, ProbePort, flows_needed, path_probability, plan

LIMITS = PlanLimits()


def port(leaf, number, rail=0, job="", network="compute"):
    node = f"n{leaf}-{number}"
    address = f"10.{rail}.{leaf}.{number}"
    return ProbePort(node, f"mlx5_{rail}/1", address, 9795, f"su{leaf}/rail{rail}", str(rail), network, job)


def named(made):
    return {(made.ports[f.source].full_name, made.ports[f.target].full_name, f.udp) for f in made.flows}


fabrics = st.lists(st.integers(1, 12), min_size=1, max_size=6).flatmap(
    lambda sizes: st.builds(
        lambda rails, jobs: [
            port(leaf, number, rail, jobs[number % len(jobs)])
            for leaf, size in enumerate(sizes)
            for number in range(size)
            for rail in range(rails)
        ],
        st.integers(1, 2),
        st.lists(st.sampled_from(["", "train", "eval"]), min_size=1, max_size=4),
    )
)


@settings(max_examples=60, deadline=None)
@given(fabrics)
def test_degrees_load_and_ends_are_within_bounds(ports):
    made = plan(ports)
    sizes = Counter((p.leaf, p.rail) for p in ports)
    out, into = Counter(), Counter()
    for flow in made.flows:
        one, other = made.ports[flow.source], made.ports[flow.target]
        assert one.node != other.node
        assert (one.rail, one.network) == (other.rail, other.network)
        assert flow.apart == (one.leaf != other.leaf)
        assert flow.udp in SOURCES
        out[flow.source, flow.apart] += 1
        into[flow.target, flow.apart] += 1
    for at, one in enumerate(made.ports):
        chords = min(LIMITS.chords, sizes[one.leaf, one.rail] - 1)
        assert out[at, False] == into[at, False] == chords
        assert out[at, True] <= LIMITS.between
        assert into[at, True] <= 2 * LIMITS.between
    leaves = {p.leaf for p in ports}
    apart = {(made.ports[f.source].leaf, made.ports[f.source].rail) for f in made.flows if f.apart}
    if len({leaf.split("/")[0] for leaf in leaves}) > 1:
        assert {leaf for leaf, _ in apart} == leaves
    assert len({(f.source, f.udp) for f in made.flows}) == len(made.flows)
    assert len({(f.source, f.target) for f in made.flows}) == len(made.flows)


@settings(max_examples=40, deadline=None)
@given(fabrics, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_ports(ports, random):
    shuffled = ports[:]
    random.shuffle(shuffled)
    assert plan(shuffled) == plan(ports)


def test_a_node_that_leaves_changes_the_flows_of_few_others():
    ports = [port(leaf, number) for leaf in range(16) for number in range(32)]
    before = named(plan(ports))
    changed = []
    for gone in ports[::37]:
        after = named(plan([p for p in ports if p != gone]))
        others = {flow for flow in before if gone.full_name not in flow[:2]}
        changed.append(len(others ^ after))
    # its ring: each of k predecessors has a new neighbour; between leaves: those that probed it, and few they push
    assert max(changed) <= 0.05 * len(before)
    assert sorted(changed)[len(changed) // 2] <= 8 * (LIMITS.chords + 2 * LIMITS.between)


def test_pairs_of_a_job_come_first():
    ports = [port(leaf, number, job="train" if number < 4 else "") for leaf in range(4) for number in range(16)]
    made = plan(ports)
    of_job = [f for f in made.flows if made.ports[f.source].job == "train"]
    inside = [f for f in of_job if made.ports[f.target].job == "train"]
    assert sum(not f.apart for f in inside) >= 4 * 3  # neighbours on the ring
    assert sum(f.apart for f in inside) >= 16 * LIMITS.between // 2


def test_networks_are_apart():
    ports = [port(0, n) for n in range(4)] + [port(0, 10 + n, network="storage") for n in range(4)]
    made = plan(ports)
    assert all(made.ports[f.source].network == made.ports[f.target].network for f in made.flows)


def test_a_port_whose_leaf_is_unknown_is_probed_on_one_ring():
    ports = [port(0, n)._replace(leaf="", rail="") for n in range(6)]
    assert Counter(f.apart for f in plan(ports).flows) == {False: 24}


@pytest.mark.parametrize(("paths", "probability"), [(2, 0.99), (16, 0.99), (64, 0.999), (1, 0.5)])
def test_the_flows_needed_reach_the_stated_probability(paths, probability):
    flows = flows_needed(paths, probability)
    assert path_probability(paths, flows) >= probability or paths == 1
    assert paths == 1 or path_probability(paths, flows - 1) < probability


@pytest.mark.parametrize(("size", "needed"), [(40, 3), (29, 4), (16, 8), (8, 15)])
def test_a_plan_says_how_many_flows_a_small_leaf_would_need(size, needed):
    ports = [port(leaf, number) for leaf in range(4) for number in range(size)]
    few, enough = plan(ports), plan(ports, limits=PlanLimits(between=needed))
    assert few.coverage.needed == enough.coverage.needed == needed
    assert (few.coverage.probability >= LIMITS.probability) is (needed <= LIMITS.between)
    assert enough.coverage.probability >= LIMITS.probability


def test_coverage_is_what_random_hashing_covers():
    """The stated bound against paths drawn at random."""
    import random

    draw, covered, paths, flows = random.Random(1), 0, 16, 128
    for _ in range(1000):
        covered += len({draw.randrange(paths) for _ in range(flows)}) == paths
    assert covered / 1000 >= path_probability(paths, flows) - 0.01


def test_what_agents_are_sent_is_within_the_limits_and_names_every_asker():
    made = plan([port(leaf, number, rail) for leaf in range(4) for number in range(8) for rail in range(8)])
    sent = made.by_node()
    by_address = {p.address: p for p in made.ports}
    asks = Counter()
    for node, ports in sent.items():
        found = decode(encode(Assignment(1, 60.0, "0" * 32, ports=ports)))
        for each in found.ports:
            for target in each.targets:
                asks[target.address, next(p.address for p in made.ports if (p.node, p.name) == (node, each.name))] += 1
    answers = {
        (next(p.address for p in made.ports if (p.node, p.name) == (node, each.name)), asker)
        for node, ports in sent.items() for each in ports for asker in each.askers
    }  # fmt: skip
    assert set(asks) == answers
    assert {address for pair in answers for address in pair} <= by_address.keys()
    assert made.coverage.probability == pytest.approx(path_probability(16, 32))
    assert made.coverage.leaves == (32, 32)
