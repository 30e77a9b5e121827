"""Gray faults that only probes show: a few on one fabric; the command does many of them itself."""

from __future__ import annotations

import pytest

from tests.accuracy.probes import Probed, build_probed, cases, document


@pytest.fixture(scope="module")
def probed() -> Probed:
    return build_probed("fat tree, 2 tiers", 5)


def test_flows_cross_the_spines(probed: Probed) -> None:
    assert probed.made.coverage.leaves == (46, 46)
    assert probed.made.coverage.between == 4 * 1058


def test_faults_that_take_many_probes_are_found_and_nothing_else_is_blamed(probed: Probed) -> None:
    every = [*cases(probed, 4, 5)]
    large = [case for case in every if case.expected >= 30]
    assert len(large) >= 5
    assert sum(case.right for case in large) >= 0.8 * len(large)
    assert sum(case.false for case in every) <= 1
    assert "| all | leaf gray |" in document({"a": probed}, {"a": every}, 4, 5)


def test_loss_at_a_switch_in_between_is_not_blamed_on_the_ends_of_its_flows() -> None:
    """In a torus flows pass the switches of other hosts, and which ones is not known."""
    every = [*cases(build_probed("torus", 5), 6, 5, ["leaf gray"])]
    assert sum(case.sure for case in every) >= 1
    assert sum(case.false for case in every) == 0
