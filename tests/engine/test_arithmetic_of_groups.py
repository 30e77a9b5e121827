"""The arithmetic of groups against other ways of computing it: enumeration, simulation, numerical integration."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, exp, factorial, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.coincidence import SMALLEST, BeginningRate, chance, least_mean, poisson_tail
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.runs import parts
from fabricmon.engine.diagnosis.silence_rate import MOMENT, MOST, SilenceRate, server_cut_off
from fabricmon.engine.domains.groups import Groups


@given(n=st.integers(0, 60), data=st.data())
def test_the_marginal_is_the_integral_over_the_share(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    share = (np.arange(20_000) + 0.5) / 20_000
    integral = float(np.mean(share**k * (1 - share) ** (n - k)))
    assert exp(float(log_marginal(k, n))) == pytest.approx(integral, rel=1e-3, abs=1e-12)


@given(n=st.integers(3, 40), least=st.integers(0, 3))
def test_the_marginals_of_all_outcomes_of_a_mode_sum_to_one(n: int, least: int) -> None:
    total = sum(comb(n, k) * exp(float(log_marginal(k, n, least))) for k in range(least, n + 1))
    assert total == pytest.approx(1.0)


def test_the_marginal_takes_whole_arrays_and_refuses_more_shown_than_members() -> None:
    assert log_marginal(np.array([0, 2]), np.array([4, 4])) == pytest.approx([-log(5), log(2 * 2 / factorial(5))])
    with pytest.raises(ValueError, match="k must be"):
        log_marginal(5, 4)


@given(k=st.integers(0, 30), mean=st.floats(1e-6, 60))
def test_the_tail_of_a_poisson_distribution_is_its_sum(k: int, mean: float) -> None:
    total = sum(exp(i * log(mean) - mean - log(factorial(i))) for i in range(k, k + 200))
    assert poisson_tail(k, mean) == pytest.approx(min(1.0, total), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("k", "rate"), [(2, 1e-3), (3, 5e-3), (4, 2e-2)])
def test_the_chance_of_a_coincidence_is_never_less_than_the_simulated_one(k: int, rate: float) -> None:
    random, within, span, trials = np.random.default_rng(7), 10.0, 2000.0, 3000
    hits = 0
    for _ in range(trials):
        times = np.sort(random.uniform(0, span, random.poisson(rate * span)))
        hits += bool(len(times) >= k and (times[k - 1 :] - times[: len(times) - k + 1] <= within).any())
    share = hits / trials
    bound = chance(k, rate, within, span)
    assert bound >= share - 3 * (share * (1 - share) / trials) ** 0.5
    assert bound <= max(3 * share, 0.02)


def test_four_at_once_are_no_chance_in_a_calm_fabric_and_are_in_a_restless_one() -> None:
    assert chance(4, 1 / 86400, 10.0) < 1e-9
    assert chance(4, 5000 / 86400, 10.0) == 1.0  # as many flaps a day as one operator counts (HPN)


def test_beginnings_of_one_moment_count_once() -> None:
    rate = BeginningRate(1.0, 1000.0, 10.0)
    rate.learn([], 0.0)
    rate.learn([100.0, 101.0, 105.0], 100.0)
    rate.learn([100.0, 101.0, 105.0, 150.0], 200.0)
    assert rate.mean == pytest.approx(3 / 1200)
    assert rate.before(150.0) == pytest.approx(2 / 1200), "what is tested is no evidence of how often it begins"
    assert rate.before(500.0) == pytest.approx(3 / 1200)


@given(seen=st.integers(1, 400))
def test_what_was_seen_proves_no_higher_rate_than_it_does(seen: int) -> None:
    """So many or more come by less than SMALLEST at the least mean, by the sum of the distribution itself."""
    least = least_mean(seen)
    assert 0.0 <= least < seen
    assert poisson_tail(seen, least) <= SMALLEST if least else seen < 4
    assert seen < 20 or poisson_tail(seen, least) > 0.6 * SMALLEST, "nearly as much as can be proven"


def test_a_restless_fabric_is_known_within_minutes() -> None:
    """One a day is expected with the weight of a day; one a minute, for ten minutes, is not one a day by chance."""
    rate = BeginningRate(1.0, 86400.0, 10.0)
    for at in range(0, 660, 60):
        rate.learn([float(at)], float(at))
    assert 100.0 < rate.mean * 86400.0 < 60 * 24
    calm = BeginningRate(1.0, 86400.0, 10.0)
    for at in range(0, 660, 60):
        calm.learn([300.0], float(at))
    assert calm.mean == pytest.approx(2 / 87000), "a single one proves nothing"


NONE = np.empty(0, np.int64)


def fell_silent(onsets: Sequence[float], reported: int) -> Observation:
    groups = Groups({"host": np.arange(reported, dtype=np.int32)})
    return Observation(groups, np.arange(len(onsets)), np.array(onsets, float), np.ones(reported, np.bool_))


def test_a_new_silence_weighs_the_same_however_many_are_silent_for_long() -> None:
    assert SilenceRate().leak({}, NONE, 0.0) < MOST / 1000


@pytest.mark.parametrize(("dead", "cut"), [(0, True), (5, True), (21, False)])
def test_a_server_is_not_cut_off_from_hosts_that_others_show_to_be_dead(dead: int, cut: bool) -> None:
    """Two power domains of 21 of 72 hosts; of the first one peers show that it is dead."""
    silent = fell_silent([10.0] * 42, 72)
    assert (SilenceRate().leak({SymptomType.AGENT_SILENT: silent}, np.arange(dead), 20.0) == MOST) == cut


@given(st.lists(st.floats(0.0, 1000.0), max_size=40), st.integers(0, 20), st.integers(0, 10))
def test_a_server_is_cut_off_only_where_most_that_still_reported_fall_silent_at_once(
    onsets: list[float], others: int, dead: int
) -> None:
    left, silent = onsets[dead:], fell_silent(onsets, len(onsets) + others)
    found = server_cut_off(silent, np.arange(min(dead, len(onsets))))
    every = [(sum(one <= at <= one + MOMENT for at in left), sum(at < one for at in left)) for one in left]
    assert found == any(count > (len(left) + others - before) / 2 for count, before in every)
    if len(left) <= others:
        assert not found, "never where half of them report"


def test_hosts_that_fall_silent_one_after_the_other_cut_no_server_off() -> None:
    """Fifteen of 31 hosts lose their power, and then two die."""
    assert not server_cut_off(fell_silent([100.0] * 15 + [152.0, 175.0], 31), NONE)
    assert server_cut_off(fell_silent([100.0] * 16, 31), NONE)


def test_a_silence_is_no_evidence_of_how_often_a_host_falls_silent_and_those_of_one_moment_are_one() -> None:
    def rate_after(*onsets: float) -> float:
        rate = SilenceRate()
        rate.leak({SymptomType.AGENT_SILENT: fell_silent(onsets, 1000)}, NONE, 100.0)
        return rate.besides(onsets[-1]) * 500 * 3600 / 120

    assert rate_after(50.0) == pytest.approx(1.0)
    assert rate_after(20.0, 35.0, 50.0) == pytest.approx(3.0)
    assert rate_after(48.0, 49.0, 50.0) == pytest.approx(1.0)


def leaf_of(ports: int, shown: set[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    socket = np.arange(1, ports + 1, dtype=np.int32)
    return np.zeros(ports, np.int32), socket, np.isin(socket, list(shown)), np.ones(ports, np.bool_)


@pytest.mark.parametrize(
    ("shown", "text", "size"),
    [
        (set(range(9, 17)), "ports 9-16", 8),
        ({9, 10, 12, 13, 15, 16}, "ports 9-16", 8),
        (set(range(2, 33, 4)), "every 4th port from 2", 8),
        ({1, 2, 3}, "ports 1-3", 3),
    ],
)
def test_a_part_of_a_switch_is_found(shown: set[int], text: str, size: int) -> None:
    part = parts(*leaf_of(32, shown))[0]
    assert (part.text, len(part.rows)) == (text, size)


@pytest.mark.parametrize("shown", [set(range(1, 33)), {3, 14, 29}, {5, 6}, set()])
def test_a_whole_switch_scattered_ports_and_two_neighbours_are_no_part(shown: set[int]) -> None:
    assert not parts(*leaf_of(32, shown))


@given(ports=st.integers(4, 24), data=st.data())
def test_the_choice_of_a_run_is_that_of_all_runs_with_the_same_ports(ports: int, data: st.DataObject) -> None:
    shown = data.draw(st.sets(st.integers(1, ports), min_size=3))
    for part in parts(*leaf_of(ports, shown)).values():
        inside = {int(row) + 1 for row in part.rows} & shown
        runs = [set(range(i, j + 1)) for i in range(1, ports + 1) for j in range(i + 2, ports + 1)]
        runs = [run for run in runs if len(run) < ports]
        same = sum(exp(log_marginal(len(inside), len(run), 3)) for run in runs if run & shown == inside)
        shortest = exp(log_marginal(len(inside), len(part.rows), 3))
        run = log(shortest / (same / len(runs) / 2)) if part.text.startswith("ports") else log(2 * 4)
        assert part.choice == pytest.approx(run)
