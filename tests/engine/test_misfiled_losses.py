"""A lossy port that a map has on the wrong leaf is one of the leaf that loses its packets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GRAY_MODES
from fabricmon.engine.diagnosis.misfiled_losses import with_misfiled
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind
from fabricmon.topology.groups import DOMAINS, Domains

HOSTS, RAILS = 40, 4
LOSS = SymptomType.PACKET_LOSS
RAIL = 1
LOSSY = [host * RAILS + RAIL for host in range(2, 14)]
"""Ports of the leaf of rail 1 that lose packets."""


def fabric(moved: Mapping[int, int] = {}, alike: bool = False) -> RowDomains:
    """Hosts with a port on the leaf of each rail; row = host * RAILS + rail. moved: row -> the leaf that it is filed
    at; alike: all adapters have one name."""
    n = HOSTS * RAILS
    rows = np.arange(n, dtype=np.int32)
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["nic"], ids["host"], ids["leaf"] = rows, rows, rows // RAILS, (rows % RAILS).astype(np.int32)
    for row, leaf in moved.items():
        ids["leaf"][row] = leaf
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["host"] = [f"host-{at}" for at in range(HOSTS)]
    names["leaf"] = [f"rail-{at}" for at in range(RAILS)]
    names["nic"] = [f"host-{at // RAILS}/mlx5_{0 if alike else at % RAILS}" for at in range(n)]
    none = Groups({"adapter": np.empty(0, np.int32), "pcie_switch": np.empty(0, np.int32)})
    return RowDomains(
        Domains(ids, names, {}, np.zeros(n, np.bool_), np.arange(n, dtype=np.int32)), {}, [],
        {Kind.PCIE: none, Kind.GPU: none}, places={},
    )  # fmt: skip


def verdict(name: str, group: int, rows: Sequence[int], well: int = 0) -> FaultVerdict:
    mode = next(mode for mode in GRAY_MODES if mode.name == name)
    return FaultVerdict((mode,), group, 0.99, 0.99, 50.0, {LOSS: np.array(rows)}, 100.0, {LOSS: well}, (), None)


def left(domains: RowDomains, ports: Sequence[int], well: int = 20) -> list[int]:
    """Ports that still have a verdict of their own, beside a lossy leaf."""
    leaf = verdict("leaf losing packets", RAIL, LOSSY, well)
    found = with_misfiled([leaf, *(verdict("link losing packets", row, [row]) for row in ports)], domains)
    assert found[0].explained[LOSS].tolist() == LOSSY
    mine = found[0].effects.get(LOSS, np.empty(0, np.int64)).tolist()
    alone = [v.group for v in found[1:]]
    assert sorted([*mine, *alone]) == sorted(ports), "none is lost"
    return alone


STRAYS = dict.fromkeys((33 * RAILS + RAIL, 34 * RAILS + RAIL), 3)


def test_ports_with_the_names_of_the_lossy_leaf_on_another_are_its() -> None:
    assert left(fabric(STRAYS), list(STRAYS)) == []


@pytest.mark.parametrize("row", [30 * RAILS + 2, 30 * RAILS + RAIL])
def test_a_port_that_is_where_its_name_belongs_is_its_own(row: int) -> None:
    """On its own leaf, whether that is the lossy one or another."""
    assert left(fabric(), [row]) == [row]


def test_names_that_all_adapters_have_show_nothing() -> None:
    assert left(fabric(STRAYS, alike=True), list(STRAYS)) == list(STRAYS)


def test_as_many_as_members_that_lose_nothing() -> None:
    assert len(left(fabric(STRAYS), list(STRAYS), well=1)) == 1


def test_without_a_lossy_leaf_a_port_is_reported() -> None:
    alone = [verdict("link losing packets", row, [row]) for row in STRAYS]
    assert with_misfiled(alone, fabric(STRAYS)) == alone
