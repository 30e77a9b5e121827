"""Few probes a flow, decided together: which part loses, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.flow import USUAL_LOSS
from fabricmon.fleet.pooled_losses import pooled
from fabricmon.probe.plan import ProbePort, plan
from fabricmon.topology.groups import Many

LEAVES, SIZE, PER_FLOW = 4, 12, 75  # probes of a minute of each of 8 flows at 10 a second


def fabric():
    """Flows of the plan over four leaves, and what they pass."""
    ports = [
        ProbePort(f"n{leaf}-{n}", "eth0", f"10.0.{leaf}.{n}", 9795, f"leaf{leaf}", "0")
        for leaf in range(LEAVES)
        for n in range(SIZE)
    ]
    made = plan(ports)
    leaf = {p: int(p.leaf[4:]) for p in made.ports}
    ends = np.array([(f.source, f.target) for f in made.flows])
    leaves = np.array([(leaf[made.ports[a]], leaf[made.ports[b]]) for a, b in ends])
    return ends, leaves, {"nic": many(ends), "leaf": many(leaves)}


def many(pairs):
    rows = [sorted(set(pair)) for pair in pairs.tolist()]
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return Many(start, np.array([g for row in rows for g in row], np.int32))


def drawn(share, seed):
    """Lost probes of six turns."""
    draw = np.random.default_rng(seed)
    sent = np.full(len(share), float(PER_FLOW))
    return draw.binomial(PER_FLOW // 6, np.tile(share, (6, 1))).astype(float), sent


@pytest.mark.parametrize("seed", range(20))
def test_a_leaf_that_loses_one_percent(seed):
    _, leaves, parts = fabric()
    through = (leaves == 1).any(axis=1)
    found = pooled(*drawn(np.where(through, 0.02, 0.0), seed), parts)
    assert found.bad.sum() > 30
    assert not found.bad[~through].any()
    assert found.clean[~through].all()
    assert not found.clean[through].any()


@pytest.mark.parametrize("seed", range(20))
def test_an_adapter_that_loses_five_percent_is_not_its_leaf(seed):
    ends, _, parts = fabric()
    mine = (ends == 3).any(axis=1)
    found = pooled(*drawn(np.where(mine, 0.1, 0.0), seed), parts)
    assert found.bad[mine].mean() > 0.8
    assert not found.bad[~mine].any()
    assert found.clean[~mine].all()


@pytest.mark.parametrize("seed", range(20))
def test_one_path_that_loses_all_is_neither(seed):
    _, _, parts = fabric()
    share = np.zeros(len(parts["nic"]))
    share[5] = 1.0
    found = pooled(*drawn(share, seed), parts)
    assert np.flatnonzero(found.bad).tolist() == [5]


def test_usual_losses_are_no_fault_in_a_thousand_minutes():
    _, _, parts = fabric()
    share = np.full(len(parts["nic"]), USUAL_LOSS)
    assert sum(pooled(*drawn(share, seed), parts).bad.any() for seed in range(1000)) <= 1000 * 0.01


def test_a_moment_is_no_fault():
    _, leaves, parts = fabric()
    lost = np.zeros((6, len(leaves)))
    lost[2, (leaves == 1).any(axis=1)] = 5
    assert not pooled(lost, np.full(len(leaves), float(PER_FLOW)), parts).bad.any()


def test_without_packets_nothing_is_known():
    _, leaves, parts = fabric()
    found = pooled(np.zeros((6, len(leaves))), np.zeros(len(leaves)), parts)
    assert not found.bad.any()
    assert not found.clean.any()


def test_without_any_group_a_flow_stands_for_itself():
    lost = np.zeros((6, 3))
    lost[:, 1] = 2
    found = pooled(lost, np.full(3, 75.0), {})
    assert (found.bad.tolist(), found.clean.tolist()) == ([False, True, False], [True, False, True])


@pytest.mark.parametrize("seed", range(10))
def test_what_other_leaves_lose_beside_a_lossy_one_whose_switch_carries_their_packets_is_unknown(seed):
    """In a dragonfly or torus; an adapter of another leaf is still found by its own leaf's probes."""
    ends, leaves, parts = fabric()
    apart = leaves[:, 0] != leaves[:, 1]
    network = {"network": Many(np.concatenate(([0], np.cumsum(apart))), np.zeros(int(apart.sum()), np.int32))}
    through, beside = (leaves == 1).any(axis=1), apart & (leaves == 2).any(axis=1) & (leaves != 1).all(axis=1)
    adapter = (ends == 3).any(axis=1)
    lost, sent = drawn(np.where(through, 0.04, np.where(adapter, 0.1, np.where(beside, 0.02, 0.0))), seed)
    shown = lost.any(axis=0)
    found, before = (pooled(lost, sent, known) for known in (parts | network, parts))
    assert found.bad[through & shown].all()
    assert not (found.bad | found.clean)[beside & shown & ~adapter].any()
    assert found.clean[~through & ~adapter & ~shown].all()
    assert found.bad[adapter & shown & ~apart].all()
    assert before.bad[beside & shown].mean() > 0.5  # where no other way leads through the lossy leaf
