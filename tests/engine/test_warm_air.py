"""Bit errors of ports whose modules are hot: their rack or row, not their leaf."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.warm_air import HOTTER, of_warm_air
from tests.engine.test_many_at_once import of_group, of_hosts

ROWS = [0, 2, 4, 6]


def errors(name: str = "part of a leaf with bit errors", rows: list[int] | None = None) -> FaultVerdict:
    verdict = of_group(name, 0, ROWS if rows is None else rows)
    return replace(verdict, explained={SymptomType.LINK_ERRORS: np.array(ROWS if rows is None else rows)})


def found(verdict: FaultVerdict, degrees: dict[int, float], rack: list[int], row: list[int] | None = None) -> Any:
    """hosts 0 to 7 with two ports each; `rack` and `row` of each host."""
    domains = of_hosts(8, 2)
    for domain, of in (("rack", rack), ("row", row or [-1] * 8)):
        domains.divide(domain, np.repeat(np.array(of, np.int32), 2), [f"{domain}-{n}" for n in range(4)])
    warm = np.full(16, 50.0) + np.tile([-1.0, 0.0, 0.0, 1.0], 4)
    for at, degree in degrees.items():
        warm[at] = degree
    view = SimpleNamespace(n=16, value=lambda _: warm)
    (one,) = of_warm_air([verdict], domains, view)  # type: ignore[arg-type]
    return one.domain, one.group, one.warmer


HOT = dict.fromkeys(ROWS, 72.0)
RACK = [1, 1, 1, 1, 2, 2, 2, 2]


def test_hot_modules_of_one_rack_are_the_rack() -> None:
    assert found(errors(), HOT, RACK) == ("rack", 1, pytest.approx(21.5)), "the median has the hot ones, too"
    assert found(errors("ports of a leaf with bit errors"), HOT, RACK)[0] == "rack"


def test_of_several_racks_of_one_row_it_is_the_row() -> None:
    racks = [0, 1, 2, 3, 0, 1, 2, 3]
    assert found(errors(), HOT, racks, [3, 3, 3, 3, 0, 0, 0, 0])[:2] == ("row", 3)
    assert found(errors(), HOT, racks)[0] == "leaf", "no row is known"


@pytest.mark.parametrize("degrees", [
    {}, dict.fromkeys(ROWS, 50.0 + HOTTER - 1), dict.fromkeys(ROWS[:2], 72.0), dict.fromkeys(ROWS, np.nan),
    dict.fromkeys(range(16), 72.0),
])  # fmt: skip
def test_modules_that_are_no_hotter_than_the_others_or_are_not_read_leave_the_leaf(degrees: dict[int, float]) -> None:
    assert found(errors(), degrees, RACK) == ("leaf", 0, 0.0)


def test_of_members_that_are_not_read_the_others_decide() -> None:
    assert found(errors(), {**HOT, 6: np.nan}, RACK)[0] == "rack"
    assert found(errors(), {**HOT, 4: np.nan, 6: np.nan}, RACK)[0] == "leaf", "two are too few"


def test_two_leaves_of_one_warm_rack_are_one_rack() -> None:
    domains = of_hosts(8, 2)
    domains.divide("rack", np.repeat(np.array(RACK, np.int32), 2), ["rack-0", "rack-1", "rack-2"])
    degrees = np.full(16, 50.0) + np.tile([-1.0, 0.0, 0.0, 1.0], 4)
    degrees[:6] = 72.0
    view = SimpleNamespace(n=16, value=lambda _: degrees)
    both = [errors(rows=[0, 2, 4]), replace(errors(rows=[1, 3, 5]), group=1, onset=90.0), errors(rows=[9, 11, 13])]
    rack, cool = of_warm_air(both, domains, view)  # type: ignore[arg-type]
    assert (rack.domain, rack.group, rack.onset) == ("rack", 1, 90.0)
    assert rack.explained[SymptomType.LINK_ERRORS].tolist() == list(range(6))
    assert not rack.silent
    assert cool.domain == "leaf"


def test_what_is_warm_in_a_warm_row_is_of_it() -> None:
    """Ports of two racks of a row on one leaf, of one of these racks on another, and a module on a third."""
    domains = of_hosts(16, 2)
    for domain, of in (("rack", [*RACK, *[0] * 8]), ("row", [0] * 8 + [1] * 8)):
        domains.divide(domain, np.repeat(np.array(of, np.int32), 2), [f"{domain}-{n}" for n in range(3)])
    degrees = np.full(32, 50.0) + np.tile([-1.0, 0.0, 0.0, 1.0], 8)
    degrees[[0, 2, 8, 9, 10, 14, 15]] = 72.0
    view = SimpleNamespace(n=32, value=lambda _: degrees)
    rack, both = errors(rows=[8, 9, 10]), replace(errors(rows=[0, 2, 8, 10]), group=1)
    module = replace(of_group("module with bit errors", 7, [14, 15]), group=7)
    module = replace(module, explained={SymptomType.LINK_ERRORS: np.array([14, 15])})
    (row,) = of_warm_air([rack, both, module], domains, view)  # type: ignore[arg-type]
    assert (row.domain, row.group, row.explained[SymptomType.LINK_ERRORS].tolist()) == (
        "row", 0, [0, 2, 8, 9, 10, 14, 15])  # fmt: skip
    degrees[14:16] = 50.0
    found = of_warm_air([rack, both, module], domains, view)  # type: ignore[arg-type]
    assert [verdict.domain for verdict in found] == ["row", "module"], "a module that is no warmer has another cause"


def test_a_leaf_that_is_down_stays_one_however_warm_its_ports_are() -> None:
    assert found(of_group("leaf down", 0, ROWS), HOT, RACK)[0] == "leaf"


def test_a_rack_that_is_found_as_one_knows_how_warm_it_is() -> None:
    rack = errors("rack with bit errors")
    assert found(rack, HOT, RACK)[2] == pytest.approx(21.5)
    assert found(rack, {}, RACK)[2] == 0.0
