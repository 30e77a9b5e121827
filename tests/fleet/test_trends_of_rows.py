"""Which rows have a trend, from what, and when it ends: errors of links, margins of modules."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fabricmon.fleet import link
from fabricmon.fleet.trend import (
    BINS,
    FEWEST_BINS,
    FEWEST_ERRORS,
    FEWEST_MEANS,
    FIT_EVERY,
    HOUR,
    SPAN,
    ErrorTrend,
    ModuleTrend,
    fit_counts,
    fit_means,
)
from fabricmon.fleet.window import BITS, ERRORS, Window
from fabricmon.model import Kind
from tests.fleet.site import Site, port_part

NAN, NOW = math.nan, 1_700_000_000.0
GIGABITS = 4e11 * SPAN  # a bin at 400 Gb/s


class Links:
    """A trend of `many` links whose bins are given, each filled at its middle; `short` as the newest errors say."""

    def __init__(self, counts: list[list[float]]) -> None:
        self.trend, self.short = ErrorTrend(len(counts)), Window(300.0, len(counts))
        self.counts, self.now = counts, NOW
        every = np.arange(len(counts))
        for at in range(BINS):
            self.now = NOW + at * SPAN
            self.trend.bins.turn(self.now)
            errors = np.array([one[at] for one in counts])
            some = np.flatnonzero(errors)
            self.trend.add(every, np.full(len(counts), GIGABITS), some, errors[some])
        self.short.turn(self.now)
        self.now += SPAN / 2

    def fit(self, blind: bool = False) -> list[float]:
        self.trend.fit(self.short, np.full(len(self.counts), blind), len(self.counts), self.now)
        return self.trend.slope[: len(self.counts)].tolist()


def test_a_link_has_a_trend_from_enough_errors_in_enough_half_hours() -> None:
    few, burst = [1.0] * (FEWEST_ERRORS - 1), [5.0] * FEWEST_BINS
    rows = [
        few[:BINS] + [0.0] * (BINS - len(few[:BINS])),
        [1.0] * (BINS - 1) + [float(FEWEST_ERRORS - BINS + 1)],
        [1.0] * (BINS - 1) + [float(FEWEST_ERRORS - BINS)],
        [0.0] * (BINS - FEWEST_BINS) + burst,
        [0.0] * (BINS - FEWEST_BINS + 1) + [50.0] * (FEWEST_BINS - 1),
        [0.0] * BINS,
    ]
    links = Links(rows)
    slopes = links.fit()
    assert [not math.isnan(slope) for slope in slopes] == [False, True, False, True, False, False]
    assert links.trend.fitted.tolist() == [1, 3]
    hours, (bits, count) = links.trend.bins.sums_of(np.array([1, 3]), links.now)
    line = fit_counts(hours, count, bits)
    decade = math.log(10.0)
    trend = links.trend
    for mine, wanted in ((trend.level, line.level), (trend.slope, line.slope), (trend.error, line.error)):
        assert mine[[1, 3]] == pytest.approx(wanted / decade)
        assert np.isnan(mine[[0, 2, 4, 5]]).all()


def test_a_trend_is_fitted_once_a_minute_and_forgotten_with_its_errors() -> None:
    links = Links([[3.0] * BINS])
    (before,) = links.fit()
    links.trend.bins.sums[:] = 0.0
    for wait, known in ((0.0, True), (FIT_EVERY - 0.1, True), (0.1, False)):
        links.now += wait
        assert (links.fit() == [before]) is known
    assert math.isnan(links.trend.level[0])
    assert math.isnan(links.trend.error[0])
    links = Links([[3.0] * BINS])
    links.fit()
    links.trend.bins.sums[:] = 0.0
    links.now -= 1.0  # the clock was set back: it is fitted anew
    assert math.isnan(links.fit()[0])


@pytest.mark.parametrize(
    ("bits", "errors", "blind", "stands"),
    [(0.9, 0.0, False, True), (1.1, 0.0, False, False), (1.1, 0.0, True, True), (10.0, 10.5, False, True),
     (10.0, 9.5, False, False)],
)  # fmt: skip
def test_a_trend_ends_when_errors_that_it_expects_do_not_come_unless_their_counter_is_full(
    bits: float, errors: float, blind: bool, stands: bool
) -> None:
    """A level of 100 errors in `bits` = 1; in as much traffic that ten are expected, at least one must come."""
    links = Links([[100.0] * BINS])
    links.short.add(np.array([0]), BITS, np.array([bits * GIGABITS / 10]))
    links.short.add(np.array([0]), ERRORS, np.array([errors]))
    (slope,) = links.fit(blind)
    assert (not math.isnan(slope)) is stands


# --- modules

LANES = ("module_rx_power_lane0", "module_rx_power_lane1")
LIMITS = {"module_rx_power_limit_low_alarm": 1e-4, "module_temperature_limit_high_alarm": 75.0}
COLUMNS = (*LANES, "module_temperature", *LIMITS)


class Modules:
    """Modules of one node, read every ten minutes; `light` in dB above the limit and `heat` in degrees below it, by
    module and hour."""

    def __init__(self, many: int) -> None:
        self.site, self.trend, self.names = Site(), ModuleTrend(many), [f"p{n}/1" for n in range(many)]
        self.site.now = NOW
        self.site.inventory("h", port_part("module", COLUMNS, *self.names, period=600.0))
        self.link = np.full(many, link.UP, np.int8)
        self.read: list[tuple[float, list[float], list[float]]] = []

    def show(self, light: list[float], heat: list[float], after: float = 600.0) -> None:
        self.site.now += after
        cells: dict[tuple[str, str], float] = {}
        for name, db, degrees in zip(self.names, light, heat, strict=True):
            power = 1e-4 * 10 ** (db / 10)
            cells |= {(name, LANES[0]): power * 2, (name, LANES[1]): power}
            cells[name, "module_temperature"] = 75.0 - degrees
            cells |= {(name, limit): value for limit, value in LIMITS.items()}
        self.site.send("h", cells, self.site.now - 1.6e9)
        self.site.tick()
        self.trend.advance(self.site.fleet.tables[Kind.PORT], self.link, self.site.now)

    def row(self, which: int) -> int:
        return self.site.row("h", self.names[which])


def test_margins_are_those_of_the_weakest_lane_and_only_of_links_that_are_up() -> None:
    modules = Modules(3)
    modules.link[modules.row(1)] = link.DOWN
    modules.show([3.0, 3.0, NAN], [20.0, 20.0, NAN])
    margins = modules.trend.margin[:, [modules.row(n) for n in range(3)]]
    assert margins[:, 0].tolist() == pytest.approx([3.0, 20.0])
    assert np.isnan(margins[:, 1:]).all()
    modules.link[:] = link.UP
    modules.show([4.0, 1.0, 2.0], [NAN, -3.0, 5.0])
    margins = modules.trend.margin[:, [modules.row(n) for n in range(3)]]
    assert margins[0].tolist() == pytest.approx([4.0, 1.0, 2.0])
    assert margins[1].tolist() == pytest.approx([NAN, -3.0, 5.0], nan_ok=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("many", [2, 4])
def test_trends_of_modules_are_lines_through_the_means_of_half_hours(seed: int, many: int) -> None:
    """Temperatures are compared with the median of all modules, where there are more than two."""
    rng, modules = random.Random(seed), Modules(many)
    falls = [(rng.choice((0.0, -0.5, -1.0)), rng.choice((0.0, -1.0, -4.0))) for _ in range(many)]
    steps = [rng.random() < 0.3 for _ in range(many)]
    silent = {at for at in range(48) if rng.random() < 0.2}
    read: list[list[list[tuple[float, int]]]] = [[[], []] for _ in range(many)]
    began = NOW + 600.0
    for at in range(40):
        if at in silent:
            continue
        hour = at / 6
        light = [8.0 + (fall * hour if not step else (fall * 6 if hour > 3 else 0.0)) + rng.gauss(0, 0.1)
                 for (fall, _), step in zip(falls, steps, strict=True)]  # fmt: skip
        heat = [20.0 + fall * hour - hour + rng.gauss(0, 0.2) for _, fall in falls]
        if rng.random() < 0.1:
            heat[0] = NAN
        when = NOW + 600.0 * (at + 1)
        modules.show(light, heat, when - modules.site.now)
        if at == min(set(range(40)) - silent):
            began = when
        for which in range(many):
            for kind, value in enumerate((light[which], heat[which])):
                if not math.isnan(value):
                    read[which][kind].append((value, int((when - began) // SPAN)))
    newest = int((modules.site.now - began) // SPAN)
    modules.site.tick(FIT_EVERY)
    modules.trend.advance(modules.site.fleet.tables[Kind.PORT], modules.link, modules.site.now)
    filled = modules.site.now - began - newest * SPAN
    hours = [-(filled + SPAN * (back - 0.5)) / HOUR for back in range(BINS - 1, 0, -1)] + [-filled / 2 / HOUR]
    lines: dict[tuple[int, int], tuple[float, float, float, set[bool]]] = {}
    for which in range(many):
        for kind in (0, 1):
            bins = [[value for value, at in read[which][kind] if at == newest - back]
                    for back in range(BINS - 1, -1, -1)]  # fmt: skip
            means = np.array([[sum(values) / len(values) if values else NAN for values in bins]])
            if np.isfinite(means).sum() < FEWEST_MEANS:
                continue
            parts = [fit_means(np.array(hours)[part], means[:, part]) for part in
                     (slice(None), slice(0, BINS // 2), slice(BINS // 2, None))]  # fmt: skip
            level, slope, error = (float(column[0]) for column in parts[0])
            below = [slope / 3 - float(part.slope[0]) for part in parts[1:]]
            steady = {True, False} if min(map(abs, below)) < 1e-3 else {min(below) > 0}  # sums are float32
            lines[which, kind] = level, slope, error, steady
    common = float(np.median([line[1] for (_, kind), line in lines.items() if kind == 1])) if many > 2 else 0.0
    for which in range(many):
        for kind in (0, 1):
            row, trend = modules.row(which), modules.trend
            found = trend.level[kind, row], trend.slope[kind, row], trend.error[kind, row]
            if (which, kind) not in lines:
                assert np.isnan(found).all()
                continue
            level, slope, error, steady = lines[which, kind]
            assert found == pytest.approx((level, slope - (common if kind else 0.0), error), rel=1e-4, abs=1e-4)
            assert bool(trend.steady[kind, row]) in steady


def test_a_module_has_a_trend_from_half_of_the_window_on() -> None:
    modules = Modules(1)
    for at in range(1, FEWEST_MEANS * 3 + 1):
        modules.show([5.0], [20.0])
        known = not math.isnan(modules.trend.slope[ModuleTrend.LIGHT, modules.row(0)])
        assert known is (at > (FEWEST_MEANS - 1) * 3), at
