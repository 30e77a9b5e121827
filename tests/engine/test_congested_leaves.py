"""Which group of ports that wait is congested: the rail, the leaf, or one of the two leaves of a rail."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.topology.groups import DOMAINS, Domains

PORTS = 8
"""Ports of each leaf."""


def placed(rails: list[int]) -> RowDomains:
    """Leaves of PORTS ports each; `rails`: the rail of each leaf."""
    n = PORTS * len(rails)
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    for domain in ("link", "nic", "host"):
        ids[domain] = np.arange(n, dtype=np.int32)
    ids["leaf"] = np.repeat(np.arange(len(rails), dtype=np.int32), PORTS)
    ids["rail"] = np.repeat(np.array(rails, np.int32), PORTS)
    names: dict[str, list[str]] = {domain: [f"{domain}-{at}" for at in range(n)] for domain in DOMAINS}
    return RowDomains(Domains(ids, names, {}, np.zeros(n, np.bool_), np.full(n, -1, np.int32)), {}, [])


def congested(rails: list[int], rows: list[int]) -> list[tuple[str, int]]:
    """Word and number of the groups that are congested, where these rows wait and all others work and do not."""
    domains = placed(rails)
    n = PORTS * len(rails)
    waiting = np.array(rows, np.int64)
    onset = np.full(len(rows), 100.0)
    found = Observation(domains.port, waiting, onset, np.ones(n, np.bool_), onset - 30.0)
    verdicts = diagnose({SymptomType.CONGESTION: found}, 1e-3, MODES)
    return [(v.mode.word or v.mode.domain, v.group) for v in verdicts if v.mode.kind == "fault_domain"]


@pytest.mark.parametrize(
    ("rails", "rows", "named"),
    [
        ([0, 1], [*range(7)], [("rail", 0)]),  # the rail is that leaf
        ([0, 0, 1, 1], [*range(7)], [("leaf", 0)]),  # dual ToR: not half of the rail
        ([0, 0, 1, 1], [*range(15)], [("rail", 0)]),  # both leaves of it
        ([0, 0, 1, 1], [*range(3)], []),
    ],
)
def test_most_of_a_leaf_that_wait_are_the_leaf_unless_it_is_all_of_a_rail(
    rails: list[int], rows: list[int], named: list[tuple[str, int]]
) -> None:
    assert congested(rails, rows) == named


@pytest.mark.parametrize(("elsewhere", "named"), [(0, [("rail", 0)]), (1, [("rail", 0)]), (3, [])])
def test_most_of_a_leaf_that_wait_are_the_leaf_only_where_few_ports_of_most_others_wait(
    elsewhere: int, named: list[tuple[str, int]]
) -> None:
    leaves = range(12)
    rows = [*range(7), *(PORTS * leaf + at for leaf in leaves[1:] for at in range(elsewhere))]
    assert congested([*leaves], rows) == named
