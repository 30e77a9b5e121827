"""Which sets are joined, against a comparison of every pair; and that a member of many sets costs little."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.topology.connect import MOST_OWNERS, connected, joined

SETS = st.lists(st.frozensets(st.sampled_from("abcdefgh")), max_size=12).map(lambda sets: dict(enumerate(sets)))


@given(SETS, st.integers(1, 8), st.sampled_from([min, max]))
def test_joined_as_every_pair_compared(sets: dict[int, frozenset[str]], share: int, of: type[min] | type[max]) -> None:
    def fit(a: int, b: int, shared: int) -> bool:
        return shared * share >= of(len(sets[a]), len(sets[b]))

    near: dict[int, list[int]] = {key: [] for key in sets}
    for a, b in combinations(sets, 2):
        if sets[a] & sets[b] and fit(a, b, len(sets[a] & sets[b])):
            near[a].append(b)
            near[b].append(a)
    assert joined(sets, fit) == [sorted(part) for part in connected(near)]


def test_a_member_of_too_many_different_sets_joins_none() -> None:
    for count, parts in ((MOST_OWNERS, 1), (MOST_OWNERS + 1, MOST_OWNERS + 1)):
        sets = {key: {"shared", f"own {key}"} for key in range(count)}
        assert len(joined(sets, lambda _a, _b, shared: shared >= 1)) == parts


@pytest.mark.parametrize("own", [False, True])
def test_ten_thousand_sets_of_one_member_are_not_paired(own: bool) -> None:
    sets = {key: {"shared", f"own {key}"} if own else {"shared"} for key in range(10_000)}
    compared = []
    tracemalloc.start()
    try:
        joined(sets, lambda a, b, _shared: not compared.append((a, b)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(compared) < len(sets)
    assert peak < 50e6
