"""A file that was written for a table stands in it: a line that is forgotten is named."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from types import ModuleType

import pytest

from fabricmon import catalogue, collect, rules, senders
from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.gpu import FABRIC_STATES
from fabricmon.catalogue.port import OPER_STATES, PHYS_STATES


def named(package: ModuleType, has: str) -> dict[str, ModuleType]:
    """Modules of a package that have something of a name."""
    files = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    found = {file.name.rpartition(".")[2]: importlib.import_module(file.name) for file in files}
    return {name: module for name, module in found.items() if hasattr(module, has)}


RULES = {name: [module.RULE.name] for name, module in named(rules, "RULE").items()}
COUNTERS = {name: [c.name for c in module.COUNTERS] for name, module in named(catalogue, "COUNTERS").items()}
COLLECTORS = {name: [module.NAME] for name, module in named(collect, "NAME").items()}
SENDERS = {name: [name] for name in named(senders, "REFRESH")}


@pytest.mark.parametrize(
    ("written", "table", "file"),
    [
        (RULES, [rule.name for rule in rules.RULES], "RULES (fabricmon/rules/__init__.py)"),
        (COUNTERS, catalogue.CATALOGUE, "COUNTERS (fabricmon/catalogue/__init__.py)"),
        (COLLECTORS, collect.COLLECTORS, "COLLECTORS (fabricmon/collect/__init__.py)"),
        (SENDERS, senders.SENDERS, "SENDERS (fabricmon/senders/__init__.py)"),
    ],
    ids=["rules", "counters", "collectors", "senders"],
)
def test_every_file_stands_in_its_table(written: dict[str, list[str]], table: Collection[str], file: str) -> None:
    assert written
    assert {name for name, rows in written.items() if not set(rows) <= set(table)} == set(), f"in {file}"


def test_states_have_the_names_of_their_help() -> None:
    assert CATALOGUE["state"].states[4] == "active"
    assert CATALOGUE["phys_state"].states == PHYS_STATES
    assert CATALOGUE["operstate"].states == OPER_STATES
    assert CATALOGUE["gpu_fabric_state"].states == FABRIC_STATES
    assert CATALOGUE["carrier"].states == {1: "yes", 0: "no"}
    assert CATALOGUE["lid"].states == CATALOGUE["pfc_enabled"].states == CATALOGUE["symbol_errors"].states == {}
