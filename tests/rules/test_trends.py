"""link_degrading and optic_degrading: forecasts from six hours of errors, light and temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.trend import BINS, SPAN, fit_counts, fit_means
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules import link_degrading, link_errors, optic_degrading
from tests.rules.bench_of_ports import Ports

HOUR = 3600.0
BITS = 4e12  # of 10 s at 400 Gb/s
HOURS = np.arange(BINS) / 2 - 6.0


@given(st.floats(-1.5, 3.0), st.floats(1e2, 1e6))
def test_a_log_linear_rate_is_found_exactly_where_there_is_no_noise(slope: float, rate: float) -> None:
    exposure = np.full((1, BINS), 1e15)
    counts = rate * np.exp(slope * HOURS)[None, :]
    line = fit_counts(HOURS, counts, exposure)
    assert line.slope[0] == pytest.approx(slope, abs=1e-4)
    assert line.level[0] == pytest.approx(np.log(rate / 1e15), abs=1e-3)


def test_the_interval_of_the_slope_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    exposure = np.full((4000, BINS), 1e15)
    counts = rng.poisson(6.0 * np.exp(0.2 * HOURS), (4000, BINS)).astype(float)
    line = fit_counts(HOURS, counts, exposure)
    outside = np.abs(line.slope - 0.2) > 1.96 * line.error
    assert 0.01 < outside.mean() < 0.07


def test_bursts_widen_the_interval() -> None:
    rng = np.random.default_rng(6)
    exposure = np.full((500, BINS), 1e15)
    bursts = 50.0 * rng.poisson(0.4, (500, BINS))
    usable = (bursts > 0).sum(axis=1) >= 4
    line = fit_counts(HOURS, bursts[usable], exposure[usable])
    assert (line.slope > 3.3 * line.error).mean() < 0.05


@given(st.floats(-3, 3), st.floats(-20, 20), st.sets(st.integers(0, BINS - 1), max_size=6))
def test_a_straight_line_is_found_whatever_bins_are_missing(slope: float, level: float, missing: set[int]) -> None:
    means = (level + slope * HOURS)[None, :]
    means[0, sorted(missing)] = np.nan
    line = fit_means(HOURS, means)
    assert line.slope[0] == pytest.approx(slope, abs=1e-9)
    assert line.level[0] == pytest.approx(level, abs=1e-8)


def test_a_steady_rise_is_forecast_hours_before_it_is_critical() -> None:
    ports, rng = Ports(nics=2), np.random.default_rng(3)
    ports.polls(6)
    onset, told = ports.now, {}
    while ports.now <= onset + 5 * HOUR:
        ratio = 10 ** (-15 + 5 * (ports.now - onset) / HOUR / 6)
        ports.port[0, 1]["symbol_errors"] += float(rng.poisson(ratio * 3 * BITS))
        for change in ports.poll(30.0):
            if change.opened:
                told.setdefault((change.symptom.rule, change.symptom.severity.value), (ratio, change.symptom))
    ratio, symptom = told["link_degrading", "warning"]
    assert ratio < 1e-11
    assert ratio < told["link_errors", "critical"][0]
    assert symptom.info["degrading"] == "true"
    assert "times as high every hour" in symptom.evidence[0].text
    assert "bits" in symptom.evidence[1].text
    assert not ports.known("link_degrading", 0, 0) or symptom.component.name == "mlx5_1/1"


def test_errors_at_a_constant_rate_degrade_nothing() -> None:
    ports, rng = Ports(nics=8), np.random.default_rng(4)
    ports.polls(6)
    for _ in range(6 * 120):
        for at in ports.port:
            ports.port[at]["symbol_errors"] += float(rng.poisson(0.2))
        ports.poll(30.0)
    assert len(ports.view().tracks.errors.trend.fitted) == 8
    assert "link_degrading" not in ports.told()


def test_a_module_that_was_changed_ends_the_forecast() -> None:
    ports = Ports(nics=2)
    ports.polls(6)
    for half_minute in range(480):
        ports.port[0, 0]["symbol_errors"] += float(int(0.2 * np.exp(half_minute / 80)))
        ports.poll(30.0)
    assert ports.open("link_degrading")
    ports.polls(140, seconds=30.0)
    assert not ports.open("link_degrading")


def test_a_forecast_stands_while_the_link_is_not_read_and_ends_for_a_module_that_was_changed_meanwhile() -> None:
    ports = Ports(hosts=2, nics=2)
    ports.polls(6)
    for half_minute in range(480):
        ports.port[0, 0]["symbol_errors"] += float(int(0.2 * np.exp(half_minute / 80)))
        ports.poll(30.0)
    assert ports.open("link_degrading")
    ports.silent.add(0)
    for _ in range(9 * 60):  # the hours of the fit pass without a reading
        ports.poll(60.0)
    assert [str(symptom.component) for symptom in ports.open("link_degrading")] == ["host-000/mlx5_0/1"]
    assert not ports.known("link_degrading", 0, 0)
    assert ports.known("link_degrading", 1, 0)
    ports.silent.clear()
    ports.polls(70, seconds=30.0)
    assert not ports.open("link_degrading")


def test_the_limits_are_those_of_link_errors() -> None:
    mine, theirs = link_degrading.LinkDegradingParams(), link_errors.LinkErrorsParams()
    for name in ("target_100g", "target_50g", "target_25g", "target_slow", "warning", "critical"):
        assert getattr(mine, name) == getattr(theirs, name)


class Modules:
    """Eight modules of one node, read every two minutes: light in watts, degrees."""

    COLUMNS = ("module_temperature", "module_temperature_limit_high_alarm", "module_rx_power_lane0",
               "module_rx_power_lane1", "module_rx_power_limit_low_alarm")  # fmt: skip

    def __init__(self) -> None:
        self.fleet, self.now = Fleet(), 1_700_000_000.0
        ports = tuple(Component(f"mlx5_{n}/1", {"device": f"mlx5_{n}", "role": "compute"}) for n in range(8))
        parts = (
            Part("optics", Kind.PORT, self.COLUMNS, ports, 120.0),
            Part("infiniband_state", Kind.PORT, ("state", "phys_state", "carrier"), ports, 120.0),
        )
        self.inventory = Inventory(1, Identity("host", "boot", "agent", "1", 0.0), parts)
        self.fleet.inventory("host", self.inventory, self.now)
        self.rng = np.random.default_rng(8)

    def run(self, hours: float, light: np.ndarray, heat: np.ndarray) -> None:
        """`light` dB and `heat` degrees an hour by which each module drifts."""
        for step in range(int(hours * 30)):
            self.now += 120.0
            at = (step + 1) / 30
            noise = self.rng.normal(0, 0.05, 8)
            power = 5e-4 * 10 ** ((light * at + noise) / 10)
            rows = np.stack(
                [55 + heat * at + self.rng.normal(0, 0.3, 8), np.full(8, 80.0), power, 1.2 * power, np.full(8, 1e-4)], 1
            )
            state = np.tile([4.0, 5.0, 1.0], (8, 1))
            values = np.concatenate([rows.reshape(-1), state.reshape(-1)])
            self.fleet.frame("host", Frame(1, step, self.now, np.full(2, self.now), None, values), self.now)
            self.fleet.advance(self.now)

    def fired(self) -> list[int]:
        view = View(self.fleet.tables[Kind.PORT], self.now)
        return np.flatnonzero(optic_degrading.test(view, optic_degrading.OpticDegradingParams()).fire).tolist()


def test_light_that_fades_is_told_before_the_limit_and_a_healthy_module_is_not() -> None:
    modules = Modules()
    modules.run(6.5, np.array([-0.5, 0, 0, 0, 0, 0, 0, 0]), np.zeros(8))
    assert modules.fired() == [0]
    view = View(modules.fleet.tables[Kind.PORT], modules.now)
    (light, heat) = optic_degrading.evidence(view, 0, optic_degrading.OpticDegradingParams())
    assert "reached in" in light.text
    assert light.value is not None
    assert light.value > 0
    assert heat.text.startswith("temperature")


def test_a_room_that_gets_warm_is_no_modules_fault() -> None:
    modules = Modules()
    modules.run(6.5, np.zeros(8), np.full(8, 1.5))
    assert modules.fired() == []


def test_one_module_that_gets_warmer_than_the_others_is_told() -> None:
    modules = Modules()
    modules.run(6.5, np.zeros(8), np.array([0, 0, 2.0, 0, 0, 0, 0, 0]))
    assert modules.fired() == [2]


def test_a_step_is_no_trend() -> None:
    modules = Modules()
    modules.run(4.0, np.zeros(8), np.zeros(8))
    modules.run(0.04, np.full(8, 0.0), np.array([0, 0, 0, 200.0, 0, 0, 0, 0]))
    for _ in range(70):
        modules.run(0.04, np.zeros(8), np.array([0, 0, 0, 200.0, 0, 0, 0, 0]))
    assert modules.fired() == []


def test_a_module_beyond_its_own_limit_is_told_at_once() -> None:
    modules = Modules()
    modules.run(0.1, np.array([0, -100.0, 0, 0, 0, 0, 0, 0]), np.zeros(8))
    assert modules.fired() == [1]
    assert SPAN > 0
