"""Which readings give a chart its limits: those of the component that fired, each measure once, the newest first."""

from __future__ import annotations

import math

from fabricmon.central.page.rule_limits import readings_of, rule_limits
from fabricmon.model import ComponentId, Evidence, Kind, Severity, Symptom
from fabricmon.rules.measures import MEASURES, lines_of
from tests.fleet.site import Site, port_part
from tests.page.scenes import NOW, incident

PORT, OTHER = (ComponentId(Kind.PORT, "a", name) for name in ("p", "q"))


def reading(text: str, component: ComponentId = PORT, **more: object) -> Evidence:
    return Evidence(str(component), text, **more)  # type: ignore[arg-type]


def test_the_readings_are_those_of_its_symptoms_then_of_incidents_the_newest_first() -> None:
    symptoms = [
        Symptom("r", "kind", port, Severity.WARNING, NOW, 1.0, (reading(word, port),))
        for port, word in ((OTHER, "of another"), (PORT, "of a symptom"))
    ]
    incidents = [
        incident(id=f"i{since}", since=NOW + since, evidence=(reading(f"at {since}"), reading("of another", OTHER)))
        for since in (1.0, 3.0, 2.0)
    ]
    found = [one.text for one in readings_of(PORT, symptoms, incidents)]
    assert found == ["of a symptom", "at 3.0", "at 2.0", "at 1.0"]


def test_each_measure_has_one_line_which_a_reading_gave_that_speaks_for_it() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ("symbol_errors", "rate"), "p"))
    site.send("a", {("p", "rate"): 5e10}, 10.0)
    view = site.tick()
    table = view.table
    seen = 0
    for series in sorted({name for measure in MEASURES.values() for name in measure.series}):
        for measure in sorted(lines_of(series)):
            readings = [
                reading("against it", limit=1.0, for_it=False, measure=measure),
                reading("no limit", measure=measure),
                reading("another", limit=2.0, measure="another.measure"),
                reading("the first", limit=3.0, measure=measure),
                reading("a later one", limit=4.0, measure=measure),
            ]
            scale = 4e11 if MEASURES[measure].per_bit else 1.0
            view.tracks.errors.rate[site.row("a", "p")] = 4e11
            lines = rule_limits(series, readings, table, site.row("a", "p"))
            assert lines == [{"text": f"limit of {measure.partition('.')[0]}", "value": 3.0 * scale}]
            unknown = rule_limits(series, [reading("", limit=math.nan, measure=measure)], table, None)
            assert unknown == []
            seen += 1
    assert seen > 5
    assert rule_limits("no series", [reading("x", limit=1.0, measure="latency.rtt")], table, None) == []
