"""Forecasts of link_degrading and optic_degrading from given lines: what fires, and the texts that explain it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.fleet.window import BITS, ERRORS
from fabricmon.model import Evidence
from fabricmon.rules import link_degrading, link_errors, optic_degrading
from fabricmon.rules.link_degrading import LinkDegradingParams
from fabricmon.rules.optic_degrading import OpticDegradingParams
from tests.rules.bench_of_ports import Ports

NAN = math.nan


def lines(found: tuple[Evidence, ...]) -> list[tuple[str, bool]]:
    return [(one.text, one.for_it) for one in found]


@pytest.fixture
def ports() -> Ports:
    bench = Ports(1, 4)
    bench.polls(8)
    return bench


@pytest.mark.parametrize(
    ("level", "slope", "error", "fires", "when", "info"),
    [
        # NDR: target 1e-15, the first limit 1e-14, the next 1e-12
        (-15.0, 0.5, 0.1, True, "crosses 1e-14 in 2.0 h", "1e-14 in 2.0 h"),
        (-15.0, 0.5, 0.152, False, "crosses 1e-14 in 2.0 h", "1e-14 in 2.0 h"),  # not 3.3 standard errors
        (-14.75, 1.0, 0.1, True, "crosses 1e-14 in 45 min", "1e-14 in 45 min"),
        (-13.0, 0.5, 0.1, True, "crosses 1e-12 in 2.0 h", "1e-12 in 2.0 h"),
        (-11.0, 0.5, 0.1, True, "crossed now", "1e-12 now"),
        (-16.4, 0.1, 0.01, True, "crosses 1e-14 in 24.0 h", "1e-14 in 24.0 h"),
        (-16.41, 0.1, 0.01, False, "crosses 1e-14 in 24.1 h", "1e-14 in 24.1 h"),
    ],
)
def test_a_line_of_bit_errors(
    ports: Ports, level: float, slope: float, error: float, fires: bool, when: str, info: str
) -> None:
    view, params = ports.view(), LinkDegradingParams()
    trend, row = view.tracks.errors.trend, ports.row(0, 1)
    trend.level[row], trend.slope[row], trend.error[row] = level + 1e-6, slope, error
    trend.fitted = np.array([row])
    short = view.tracks.errors.short
    short.add(np.array([row]), ERRORS, np.array([30.0 - short.at(ERRORS, row)]))
    short.add(np.array([row]), BITS, np.array([1e14 - short.at(BITS, row)]))
    outcome = link_degrading.test(view, params)
    assert np.flatnonzero(outcome.fire).tolist() == ([row] if fires else [])
    assert outcome.value[row] == pytest.approx(slope)
    assert outcome.known[: view.n].all()
    (line, measured) = link_degrading.evidence(view, row, params)
    half = 1.96 * error
    assert line.text == (
        f"degrading: bit error ratio {10 ** level:.2g} by the fit, {10 ** slope:.2g} times as high every hour; {when}"
    )
    assert line.formula == (
        f"+{slope:.2f} decades an hour (95 %: {slope - half:+.2f} to {slope + half:+.2f}); "
        "log-linear Poisson fit of 13 bins of 1800 s; slope > 3.3 standard errors and a crossing within 24 h"
    )
    assert (line.value, line.limit, line.for_it) == (None, None, True)
    assert measured.text == "measured: 30 errors in 1e+14 bits, 8.6e-14 to 4.1e-13"
    assert link_degrading.info(view, row, params) == {"degrading": "true", "forecast": info}


def test_without_a_line_there_is_no_forecast(ports: Ports) -> None:
    view, params, row = ports.view(), LinkDegradingParams(), ports.row(0, 1)
    assert lines(link_degrading.evidence(view, row, params)) == [
        ("no trend: too few errors in 6 h, or the errors ended", False)
    ]
    assert link_degrading.info(view, row, params) == {}
    view.tracks.errors.trend.slope[row] = -0.5
    view.tracks.errors.trend.level[row] = -15.0
    assert link_degrading.info(view, row, params) == {}
    assert not link_degrading.test(view, params).fire.any()


def test_margins_of_a_module(ports: Ports) -> None:
    view, params, row = ports.view(), OpticDegradingParams(), ports.row(0, 1)
    modules = view.tracks.modules
    assert lines(optic_degrading.evidence(view, row, params)) == [("no reading of the module", True)]
    modules.margin[:, row] = (-0.5, 3.0)
    first, second = optic_degrading.evidence(view, row, params)
    assert (first.value, first.limit, first.for_it) == (-0.5, 0.0, True)
    assert (second.value, second.for_it) == (3.0, False)
    assert first.text == "Rx power: 0.5 dB below the module's low alarm"
    modules.slope[0, row], modules.error[0, row] = -0.25, 0.1
    text = optic_degrading.evidence(view, row, params)[0].text
    assert text.endswith("low alarm, margin -0.25 an hour (95 %: -0.45 to -0.05)")


@pytest.mark.parametrize("margin", [-13.8, -0.5, 0.0, 0.4, 12.0])
def test_a_reading_beyond_its_limit_is_named_on_that_side(ports: Ports, margin: float) -> None:
    view, row = ports.view(), ports.row(0, 1)
    view.tracks.modules.margin[:, row] = margin
    light, heat = (reading.text for reading in optic_degrading.evidence(view, row, OpticDegradingParams()))
    low, high = ("below", "above") if margin < 0 else ("above", "below")
    assert light == f"Rx power: {abs(margin):.1f} dB {low} the module's low alarm"
    assert heat == f"temperature: {abs(margin):.1f} degrees {high} the module's high alarm"


@pytest.mark.parametrize(
    ("light", "heat", "shown"),
    [
        (np.nan, np.nan, []),
        (5.6, 20.0, [("Rx power: 5.6 dB above the module's low alarm", False)]),
        (-0.8, 20.0, [("Rx power: 0.8 dB below the module's low alarm", True)]),
        (np.nan, -2.0, [("temperature: 2.0 degrees above the module's high alarm", True)]),
    ],
)
def test_bit_errors_have_the_light_of_their_module_as_evidence(
    ports: Ports, light: float, heat: float, shown: list[tuple[str, bool]]
) -> None:
    """The person on call sees whether to clean the cable, before the module itself is reported."""
    view, row = ports.view(), ports.row(0, 1)
    before = lines(link_errors.evidence(view, row, link_errors.LinkErrorsParams()))
    view.tracks.modules.margin[:, row] = (light, heat)
    assert lines(link_errors.evidence(view, row, link_errors.LinkErrorsParams())) == before + shown
