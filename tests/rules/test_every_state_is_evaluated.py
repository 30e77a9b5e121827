"""Every exported state has a rule that reads it, or a line in docs/counters.md that it is information only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE, Growth
from fabricmon.catalogue.information import INFORMATION
from fabricmon.engine import Engine
from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules import RULES, config_drift
from fabricmon.rules.rule import Scope

NOW = 1_800_000_000.0
COUNTERS = Path(__file__).resolve().parents[2] / "docs/counters.md"
STATES = sorted(name for name, counter in CATALOGUE.items() if counter.growth is Growth.STATE)
LABELS = {
    Kind.PORT: {"device": "mlx5_0", "port": "1", "link_layer": "Ethernet", "netdev": "eth0", "role": "compute"},
    Kind.GPU: {"gpu": "0"}, Kind.PCIE: {"device": "0000:17:00.0", "class": "nic"},
}  # fmt: skip


class Spy(View):
    """A view that notes the columns a rule asks for."""

    asked: set[str]

    def value(self, column: str) -> NDArray[np.float64]:
        self.asked.add(column)
        return super().value(column)


def engine() -> Engine:
    """One node with a row of each kind that has every column of the catalogue."""
    made = Engine(Scope.FLEET)
    parts = tuple(
        Part("test", kind, tuple(n for n, c in CATALOGUE.items() if c.kind is kind), (Component("x", labels),))
        for kind, labels in ((kind, LABELS.get(kind, {})) for kind in Kind) if kind is not Kind.FLOW
    )
    made.inventory("n1", Inventory(1, Identity("n1", "boot", "agent", "1", NOW), parts), NOW)
    size = sum(part.size for part in parts)
    for second in range(3):
        taken = np.full(len(parts), 100.0 + 10 * second)
        made.frame("n1", Frame(1, second, NOW, taken, None, np.ones(size)), NOW + 10 * second)
        made.tick(NOW + 10 * second)
    return made


@pytest.fixture(scope="module")
def asked() -> set[str]:
    """The columns that the rules of the table read, and those of the state of a link, which all share."""
    fleet, found = engine().fleet, set(link.COLUMNS)
    for rule in RULES:
        spy = Spy(fleet.tables[rule.table], NOW + 20.0)
        spy.asked = found
        params: Any = rule.params()
        rule.test(spy, params)
    return found | set(config_drift.WORDS)  # the settings of a fingerprint


def test_every_state_has_a_rule_or_is_information_only(asked: set[str]) -> None:
    assert {name for name in STATES if name not in asked} == set(INFORMATION) & set(STATES)
    assert set(INFORMATION) <= set(STATES)


@pytest.mark.parametrize("column", sorted(INFORMATION))
def test_what_is_information_only_is_documented(column: str) -> None:
    text = COUNTERS.read_text().partition("## Information only")[2]
    metric, why = CATALOGUE[column].metric, INFORMATION[column]
    assert f"| `{metric}` | {why} |" in text
