"""The comparison with ibqueryerrors and ibnetdiscover: its rules, and one small fabric."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.sim import shapes
from fabricmon.topology import infer
from tests.conftest import need
from tests.fabric.against_tools import FAULTS, Fault, Item, compared, fresh, scored


def ports(*names: str) -> frozenset[str]:
    return frozenset(names)


COUNTER = Fault("PortRcvErrors", (), ports("a/1"), ports(), ports("a/1", "b/2"), ports("a", "b"))
BELOW = ports("c/1", "d/1")
DEAD = Fault("dead switch", (), ports("x"), BELOW, BELOW | ports("x/1", "x/2"), ports("x", "c", "d"))


@pytest.mark.parametrize(("items", "found", "false"), [
    ([Item("errors", ports("a/1"))], ["PortRcvErrors"], 0),
    ([Item("errors", ports("b/2"))], [], 0),  # the other end: right link, but not the port that counts
    ([Item("errors", ports(), ports("a"))], [], 0),  # the node is not the port
    ([Item("errors", ports("a/3"))], [], 1),
    ([Item("errors", ports("a/1", "a/3"))], ["PortRcvErrors"], 1),  # one right port does not pay for a wrong one
    ([Item("silent", ports(), ports("y"))], [], 1),
    ([Item("down", ports("c/1"))], [], 0),  # one of two ports below a dead switch is a cable
    ([Item("down", ports("c/1")), Item("down", ports("d/1"))], ["dead switch"], 0),
    ([Item("missing_switch", ports(), ports("x"))], ["dead switch"], 0),
])  # fmt: skip
def test_what_is_found_and_what_is_false(items: list[Item], found: list[str], false: int) -> None:
    score = scored([COUNTER, DEAD], items)
    assert (score.found, len(score.false)) == (found, false)
    assert len(score.found) + len(score.missed) == 2


def test_what_was_there_before_is_taken_off_place_by_place() -> None:
    before = [Item("odd", ports("a/1"), ports("m")), Item("slow", ports("b/1"))]
    after = [Item("odd", ports("a/1", "a/2"), ports("m")), Item("slow", ports("b/1")), Item("down", ports("b/1"))]
    assert fresh(before, after) == [Item("odd", ports("a/2")), Item("down", ports("b/1"))]


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_fifteen_faults_of_a_small_fabric(tmp_path: Path) -> None:
    for program in ("ibsim", "opensm", "ibqueryerrors"):
        need(program)
    graph = infer.annotate(shapes.fat_tree(8, 3))
    tool, _, score = next(iter(compared(graph, tmp_path)))
    assert tool == "fabricmon fabric"
    assert len(score.found) == FAULTS, score.missed
    assert not score.false
