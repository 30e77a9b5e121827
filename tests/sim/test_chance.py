"""Random numbers by row and moment, and worlds that differ by a fault only."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.model import Kind
from fabricmon.sim.chance import Chance
from fabricmon.sim.layout import Layout
from fabricmon.sim.world import World

ROWS = np.arange(40_000)


@pytest.mark.parametrize("mean", [0.02, 1.5, 30.0, 600.0])
def test_poisson_numbers_have_their_mean_and_variance(mean: float) -> None:
    found = Chance(7).poisson("x", 12.5, ROWS, np.full(len(ROWS), mean))
    assert found.mean() == pytest.approx(mean, rel=0.1)
    assert found.var() == pytest.approx(mean, rel=0.1)
    assert (found == np.floor(found)).all()


@pytest.mark.parametrize("share", [0.01, 0.4, 0.97])
def test_binomial_numbers_have_their_mean_and_stay_within_the_tries(share: float) -> None:
    found = Chance(7).binomial("x", 3.0, ROWS, np.full(len(ROWS), 500.0), share)
    assert found.mean() == pytest.approx(500 * share, rel=0.05)
    assert found.min() >= 0
    assert found.max() <= 500


def test_a_draw_depends_on_its_own_row_moment_purpose_and_seed_only() -> None:
    chance = Chance(1)
    every = chance.uniform("x", 5.0, ROWS)
    assert (chance.uniform("x", 5.0, ROWS[100:200]) == every[100:200]).all()
    for other in (chance.uniform("y", 5.0, ROWS), chance.uniform("x", 6.0, ROWS), Chance(2).uniform("x", 5.0, ROWS)):
        assert abs(np.corrcoef(every, other)[0, 1]) < 0.03


@pytest.mark.parametrize("link_layer", ["InfiniBand", "Ethernet"])
def test_two_worlds_of_one_seed_differ_in_the_readings_of_the_fault_only(link_layer: str) -> None:
    layout = Layout.named("rail-optimised", units=2, hosts=4, rails=4, spines=2, link_layer=link_layer)
    one, other = World(layout, 3), World(layout, 3)
    bad = np.array([5, 6])
    other.links.ramp(bad, 1e-10, 1e-10, 0.0, 0.0)
    for world in (one, other):
        for until in (10.0, 14.0, 20.0, 37.0):
            world.advance(until)
    for column in one.columns(Kind.PORT):
        differ = ~np.isclose(one.column(Kind.PORT, column), other.column(Kind.PORT, column), equal_nan=True)
        assert set(np.flatnonzero(differ).tolist()) <= set(bad.tolist()), column
    errors = "symbol_errors" if link_layer == "InfiniBand" else "eth_symbol_errors"
    assert (other.column(Kind.PORT, errors)[bad] > one.column(Kind.PORT, errors)[bad]).all()
