"""Means, counts and majorities over groups of ports: the same as group by group."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.rules.config_drift import RULE, drift
from fabricmon.rules.link_degraded import most_common, steps_of
from fabricmon.rules.neighbours import others_count, others_mean
from tests.rules.test_config_drift import Rails

ports = st.lists(
    st.tuples(
        st.integers(-1, 2),
        st.sampled_from([0.0, 1.0, 2.5, 8.0, math.nan]),
        st.booleans(),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


@given(ports, st.integers(1, 4))
def test_the_mean_of_the_others_of_a_group(rows: list[tuple[int, float, bool]], least: int) -> None:
    groups, value, among = (np.array(column) for column in zip(*rows, strict=True))
    at = np.arange(len(rows))[::-1].copy()
    mean, count = others_mean(value, among, groups, at, least), others_count(among, groups, at)
    for place, row in enumerate(at.tolist()):
        others = [rows[other] for other in range(len(rows)) if other != row and rows[other][0] == rows[row][0] != -1]
        known = [value for _, value, shows in others if shows and not math.isnan(value)]
        wanted = sum(known) / len(known) if known and len(known) >= least else math.nan
        assert mean[place] == pytest.approx(wanted, nan_ok=True)
        assert count[place] == sum(shows for _, _, shows in others)


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.sampled_from([25e9, 50e9, 100e9, math.nan]), st.booleans()), min_size=1,
             max_size=14),
    st.integers(1, 4),
)  # fmt: skip
def test_the_rate_of_more_than_half_of_a_group(rows: list[tuple[int, float, bool]], least: int) -> None:
    group, rate, usable = (np.array(column) for column in zip(*rows, strict=True))
    found = most_common(steps_of(rate, usable & np.isfinite(rate)), group.astype(np.int64), least)
    for row, (number, _, _) in enumerate(rows):
        known = [r for g, r, good in rows if g == number and good and not math.isnan(r)]
        value, many = Counter(known).most_common(1)[0] if known else (math.nan, 0)
        sure = number >= 0 and len(known) >= least and 2 * many > len(known)
        assert found[row] == pytest.approx(value if sure else math.nan, nan_ok=True)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=2, max_size=9), st.integers(1, 4))
def test_a_port_differs_from_the_setting_of_more_than_half_of_its_rail(
    hosts: list[tuple[int, int]], least: int
) -> None:
    """Of each host the settings of its two ports, whatever the order of the hosts."""
    rails = Rails(hosts=len(hosts))
    for host, mtus in enumerate(hosts):
        for nic, mtu in enumerate(mtus):
            rails.settings[host, nic]["qos_mtu"] = 1000.0 * mtu
    rails.send()
    found = drift(rails.view(), RULE.params(least=least))
    for row, id in enumerate(rails.table.ids):
        host, nic = int(id.node[1:]), int(id.name[5])
        mtus = [mtus[nic] for mtus in hosts]
        usual, many = Counter(mtus).most_common(1)[0]
        sure = len(mtus) >= least and 2 * many > len(mtus)
        assert bool(found.known[row]) is sure
        assert bool(found.differs[row]) is (sure and hosts[host][nic] != usual)
        assert bool(found.loses[row]) is bool(found.differs[row])
        if sure:
            like = rails.table.ids[found.like[row]]
            assert (int(like.name[5]), hosts[int(like.node[1:])][nic]) == (nic, usual)
