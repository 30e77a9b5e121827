"""A few odd hosts and switches, lost cables, other names, another order change neither shape nor levels nor rails."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fabricmon.sim import shapes
from fabricmon.topology import findings
from fabricmon.topology.graph import Graph
from fabricmon.topology.shape import recognise
from tests.topology.odd_nodes import FABRICS, Odd

SEEDS = 20
LATER = ("500 switches", "640 switches", "700 switches")
"""Fabrics that take seconds each: only in the long test."""


def placed(graph: Graph, ids: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Level and rail of each of some switches."""
    found = {old: graph.switches[new] for old, new in ids.items()}
    return {old: (switch.level, switch.labels.get("rail", "")) for old, switch in found.items()}


def odd_one(build: Callable[[], Graph], seed: int) -> None:
    """One fabric with up to 1 % odd hosts and switches and 2 % of the cables between switches lost."""
    sound = build()
    own = {switch: switch for switch in sound.switches}
    before = Odd(sound, 0).discovered()
    odd = Odd(sound, seed)
    for _ in range(max(1, len(sound.hosts) // 100)):
        odd.host()
    odd.odd_switches(max(1, len(sound.switches) // 100))
    odd.lose(0.02 * odd.dice.random())
    ids = {old: new for old, new in odd.rename().items() if old in own} if seed % 2 else own
    after = odd.discovered()
    assert recognise(after)[0].name == recognise(before)[0].name
    assert placed(after, ids) == placed(before, own)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [name for name in FABRICS if not name.endswith(LATER)])
def test_odd_nodes_change_nothing(name: str, seed: int) -> None:
    odd_one(FABRICS[name], seed)


@pytest.mark.parametrize("name", FABRICS)
def test_many_odd_nodes_change_nothing(name: str) -> None:
    for seed in range(2, 5 if name.endswith(LATER) else 2 + SEEDS):
        odd_one(FABRICS[name], seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_grid_of_any_size_is_recognised_with_odd_nodes(seed: int) -> None:
    """Sizes are drawn: two or three directions of 4 to 9, closed or open."""
    dice = random.Random(seed)
    sizes = (dice.randint(4, 9), dice.randint(4, 9), dice.choice((1, 4, 5, 6)))
    closed = dice.random() < 0.5
    odd_one(lambda: shapes.torus3d(*sizes, closed=closed), 100 + seed)


@pytest.mark.parametrize("sort", ["chain", "gateway", "empty_leaf", "host"])
def test_an_odd_node_is_an_exception_and_adds_no_other_finding(sort: str) -> None:
    sound = FABRICS["rails, 40 switches"]()
    odd = Odd(sound, 3)
    odd.host() if sort == "host" else odd.odd_switches(1, [sort])
    added = [switch.name for key, switch in odd.switches.items() if key not in sound.switches]
    graph = findings.check(odd.discovered())
    for finding in graph.findings:
        named = set(finding.components) & set(added), [name for name in finding.components if name.startswith("odd-")]
        assert finding.kind == "odd_switch" or any(named), finding
    if sort in ("chain", "empty_leaf"):
        (exception,) = [finding for finding in graph.findings if finding.kind == "odd_switch"]
        assert set(exception.components) == set(added)
