"""What rules compare with a limit: units of evidence, and the charts on which a limit is a line."""

from __future__ import annotations

import pytest

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.forms.quantities import quantity
from fabricmon.rules import RULES
from fabricmon.rules.measures import BER, MEASURES, lines_of
from fabricmon.rules.rule import reading

MEANS = ("receive_ratio", "transmit_ratio")
SHARES_WITHOUT_UNIT = ("pcie_path_width", "pcie_path_speed")


def drawn_in(series: str) -> str:
    """The unit in which a series is drawn, as measures name it."""
    if series in MEANS or series in SHARES_WITHOUT_UNIT:
        return "ratio"
    counter = CATALOGUE[series]
    if not counter.growth.counts:
        return BER if series.endswith("_ber") else counter.unit
    if counter.unit == "seconds":
        return "ratio"
    return counter.unit or ("errors/s" if counter.category is Category.ERROR else "packets/s")


@pytest.mark.parametrize("name", MEASURES)
def test_a_limit_is_drawn_only_where_the_series_has_its_unit(name: str) -> None:
    measure = MEASURES[name]
    assert name.partition(".")[0] in {rule.name for rule in RULES} | {"flow_loss", "unreachable"}
    for series in measure.series:
        assert name in lines_of(series)
        counts = measure.unit in ("adapters", "GPUs", "NVLinks") and CATALOGUE[series].unit == ""
        assert counts or drawn_in(series) == ("errors/s" if measure.per_bit else measure.unit)


def test_a_reading_has_the_unit_of_its_measure() -> None:
    made = reading("paused", "", 0.3, 0.25, measure="congestion.stalled")
    assert (made.unit, made.measure) == ("ratio", "congestion.stalled")
    assert reading("x").unit == ""
    with pytest.raises(KeyError):
        reading("x", measure="congestion.unknown")


@pytest.mark.parametrize(("value", "unit", "words"), [
    (0.25, "ratio", "25 %"), (1e-5, "ratio", "0.001 %"), (30.0, "seconds", "30 s"), (5e-4, "seconds", "500 us"),
    (0.02, "seconds", "20 ms"), (0.0, "seconds", "0 s"), (5e10, "bytes_per_second", "400 Gb/s"), (0.0, "bytes", "0 B"),
    (651_680_644_052_054.0, "bytes", "651.7 TB"), (32e9, "transfers_per_second", "32 GT/s"), (1e-14, BER, "1e-14"),
    (75.0, "celsius", "75 °C"), (12.0, "nats", "12 nats"), (2000.0, "", "2000"),
])  # fmt: skip
def test_a_quantity_in_the_unit_people_use(value: float, unit: str, words: str) -> None:
    assert quantity(value, unit) == words
