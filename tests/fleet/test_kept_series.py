"""The series of the last hours, fine and coarse: the same points as a list of all readings would give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet.closeup import KEPT, STEP, Closeup
from fabricmon.fleet.trail import EVERY, NAMES, SLOT, Trail
from fabricmon.fleet.trail import KEPT as TRAIL_KEPT
from fabricmon.fleet.utilisation import utilisation
from fabricmon.frame import Frame
from fabricmon.model import ComponentId, Kind
from tests.fleet.site import Site, port_part

COLUMNS = ("module_temperature", "symbol_errors", "xmit", "rate")
WRAP = {"xmit": 4.0 * 2.0**64}
TOP = {"symbol_errors": 65_535.0}
PORT = ComponentId(Kind.PORT, "a", "p1")


class Read:
    """One node with a slow and a quick collector; `readings` of the port p1: (slot, collector, interval, values)."""

    def __init__(self) -> None:
        self.site = Site()
        self.site.now = 1_700_000_010.0 // STEP * STEP
        self.parts = (
            port_part("optics", COLUMNS[:1], "p0", "p1", period=60.0),
            port_part("infiniband", COLUMNS[1:], "p0", "p1", period=10.0),
        )
        self.values = dict.fromkeys(COLUMNS, 1.0)
        self.taken = [0.0, 0.0]
        self.boot()
        self.kept = Closeup()
        self.readings: list[tuple[int, int, float, dict[str, float]]] = []
        self.sequence = 0

    def boot(self) -> None:
        self.site.inventory("a", *self.parts, boot=f"boot-{self.site.now}")

    @property
    def table(self) -> Any:
        return self.site.fleet.tables[Kind.PORT]

    def read(self, seconds: float, collectors: list[int], values: dict[str, float]) -> None:
        """`seconds` later these collectors read the values."""
        self.site.now += seconds
        before = list(self.taken)
        for which in collectors:
            self.taken[which] = self.site.now - 1.6e9
        self.values |= {c: v for c, v in values.items() if (0 if c == COLUMNS[0] else 1) in collectors}
        cells = [v for part in self.parts for _ in range(2) for v in (self.values[c] for c in part.columns)]
        self.sequence += 1
        frame = Frame(self.site.inventories["a"].id, self.sequence, 0.0, np.array(self.taken), None, np.array(cells))
        assert self.site.fleet.frame("a", frame, self.site.now)
        self.site.tick()
        self.kept.update([PORT], self.site.fleet.tables, self.site.now)
        for which in collectors:
            interval = self.taken[which] - before[which] if before[which] else math.nan
            seen = {c: self.values[c] for c in self.parts[which].columns}
            self.readings.append((int(self.site.now // STEP), which, interval, seen))

    def expected(self, column: str) -> dict[float, float]:
        """Points of a column by time, {} where it never moved."""
        which = 0 if column == COLUMNS[0] else 1
        period = self.parts[which].period
        points: dict[int, float] = {}
        base, moved = math.nan, False
        for slot, _, interval, seen in (r for r in self.readings if r[1] == which):
            value = seen[column]
            regular = 0 < interval <= max(3 * period, 3 * STEP)
            if math.isnan(value):
                if not moved and regular:
                    points[slot] = self.still(column, base)
                continue
            moved = moved or (not math.isnan(base) and value != base)
            if moved:
                points[slot] = self.point(column, base, value, interval if regular else math.nan)
            elif regular:
                points[slot] = self.still(column, value)
            else:
                points.setdefault(slot, math.nan)
            base = value
        newest = int(self.site.now // STEP)
        kept = {s: v for s, v in points.items() if not math.isnan(v) and s > newest - KEPT}
        return {s * STEP: v for s, v in kept.items()} if moved else {}

    @staticmethod
    def still(column: str, value: float) -> float:
        return 0.0 if column in WRAP or column in TOP else value

    @staticmethod
    def point(column: str, base: float, value: float, seconds: float) -> float:
        if column not in WRAP and column not in TOP:
            return value
        rise = value - base
        if value == TOP.get(column):
            return math.nan
        if rise < 0 and column in WRAP and rise + WRAP[column] < WRAP[column] / 2:
            rise += WRAP[column]
        return rise / seconds if rise >= 0 else math.nan


readings = st.lists(
    st.tuples(
        st.sampled_from([5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 200.0]),
        st.sampled_from([[0, 1], [1], [1], [0]]),
        st.fixed_dictionaries({
            "module_temperature": st.sampled_from([50.0, 50.0, 61.5, math.nan]),
            "symbol_errors": st.sampled_from([1.0, 1.0, 31.0, 7.0, 65_535.0, math.nan]),
            "xmit": st.sampled_from([0, 2**30, 3 * 2**32]),
            "rate": st.just(5e10),
        }),
    ),
    min_size=2, max_size=25,
)  # fmt: skip


@settings(max_examples=120)
@given(readings)
def test_the_fine_series_are_what_all_readings_give(events: list[tuple[float, list[int], dict[str, float]]]) -> None:
    """`xmit` is given as a rise, from just below where it wraps. Errors never fall: all that fall began anew."""
    read, sent, most = Read(), 4 * 2**64 - 2**31, 1.0
    read.read(10.0, [0, 1], dict.fromkeys(COLUMNS, 1.0) | {"xmit": float(sent)})
    for seconds, collectors, values in events:
        sent = (sent + int(values["xmit"]) * (1 in collectors)) % (4 * 2**64)
        errors = values["symbol_errors"] if 1 in collectors else math.nan
        most = max(most, errors) if errors == errors else most
        errors = most if errors == errors else errors
        read.read(seconds, collectors, values | {"xmit": float(sent), "symbol_errors": errors})
    found, quiet = read.kept.series_of(PORT, read.table)
    want = {name: read.expected(name) for name in COLUMNS}
    points = {series.name: dict(series.points) for series in found}
    assert {name: series for name, series in want.items() if series} == {
        name: pytest.approx(series, rel=1e-6) for name, series in points.items() if series
    }
    assert [series.name for series in found] == sorted(points, key=read.table.columns.__getitem__)
    periods = {series.name: series.period for series in found}
    assert all(period == (60.0 if name == COLUMNS[0] else 10.0) for name, period in periods.items())
    assert quiet == sorted(set(quiet) - set(points))
    assert read.kept.series == len(points)


def test_points_of_hours_ago_leave_and_none_comes_back_in_their_place() -> None:
    read = Read()
    read.read(15.0, [1], {"xmit": 0.0})
    for number in range(1, 6):
        read.read(15.0, [1], {"xmit": 1e9 * number})
    left = []
    for silence in (KEPT // 2, KEPT // 2 - 4, 10):
        for _ in range(2):
            read.read(15.0 * silence / 2, [1], {"xmit": 6e9})
        (series,) = (s for s in read.kept.series_of(PORT, read.table)[0] if s.name == "xmit")
        assert dict(series.points) == pytest.approx(read.expected("xmit"))
        left.append(len(series.points))
    assert left == [5, 4, 0]


def test_after_a_reboot_the_first_reading_has_no_rate_and_a_port_that_is_not_followed_has_no_series() -> None:
    read = Read()
    assert read.kept.series_of(PORT, read.table) == ([], [])
    for number in range(4):
        read.read(15.0, [1], {"xmit": 1e9 * number, "symbol_errors": 5.0 * number})
    before = {s.name: len(s.points) for s in read.kept.series_of(PORT, read.table)[0]}
    read.boot()
    for number in range(3):
        read.read(15.0, [1], {"xmit": 7e9 + 3e9 * number, "symbol_errors": 50.0})
    series = {s.name: s.points for s in read.kept.series_of(PORT, read.table)[0]}
    assert [value for _, value in series["xmit"]][before["xmit"] :] == pytest.approx([2e8, 2e8])
    assert read.kept.series_of(ComponentId(Kind.PORT, "a", "p0"), read.table) == ([], [])


# --- every port, coarse


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([60.0, 60.0, 30.0, 240.0, 660.0]),
            st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=9, max_size=9),
            st.lists(st.sampled_from([0.0, 0.0, 2.0, math.nan, -3.0]), min_size=9, max_size=9),
        ),
        min_size=2, max_size=14,
    ),
    st.sampled_from([1, 8]),
)  # fmt: skip
def test_the_coarse_series_are_means_and_sums_of_what_was_read(
    events: list[tuple[float, list[float], list[float]]], few: int
) -> None:
    """Nine ports; the first frames are of a node with fewer, so that there is room that no port uses."""
    site, trail = Site(), Trail()
    site.now = 1_700_000_000.0 // SLOT * SLOT
    line, sent, errors = 1e10, np.zeros(9), np.zeros(9)
    begun, kept = -math.inf, 0
    shares: dict[tuple[int, int], list[float]] = {}
    counted: dict[tuple[int, int], float] = {}
    last: dict[int, float] = {}
    for number, (seconds, share, more) in enumerate(events):
        ports = few if number == 0 else 9
        if number < 2:
            names = [f"p{port}" for port in range(ports)]
            site.inventory("a", port_part("infiniband", ("xmit", "rcv", "rate", "symbol_errors"), *names, period=60.0))
        site.now += seconds
        sent += line * seconds * np.array(share)
        errors = np.maximum(errors + np.array(more), 0.0)
        cells = {(f"p{p}", "xmit"): sent[p] for p in range(9)} | {(f"p{p}", "rcv"): 0.0 for p in range(9)}
        cells |= {(f"p{p}", "rate"): line for p in range(9)} | {(f"p{p}", "symbol_errors"): errors[p] for p in range(9)}
        site.send("a", cells, site.now - 1.6e9)
        view = site.tick()
        load = utilisation(view)
        trail.update(load, site.now)
        errors = np.nan_to_num(errors)
        if not 0 <= site.now - begun < EVERY:
            begun, slot, kept = site.now, int(site.now // SLOT), ports
            for p in range(ports):
                row = site.row("a", f"p{p}")
                total = cells[f"p{p}", "symbol_errors"]
                if math.isfinite(load.transmit[row]):
                    shares.setdefault((p, slot), []).append(float(load.transmit[row]))
                if math.isfinite(total) and total >= last.get(p, math.inf):
                    counted[p, slot] = counted.get((p, slot), 0.0) + total - last[p]
                last[p] = total if math.isfinite(total) else math.inf
    recent = trail.recent_errors()
    for p in range(kept):
        two = [counted[p, slot] for slot in (int(begun // SLOT), int(begun // SLOT) - 1) if (p, slot) in counted]
        wanted = sum(two) if two else math.nan
        assert recent[site.row("a", f"p{p}")] == pytest.approx(wanted, rel=1e-5, nan_ok=True)
        found = trail.series_of(view.table, site.row("a", f"p{p}"))
        assert set(found) <= set(NAMES)
        newest = int(begun // SLOT)
        for name, want in (
            ("transmit_ratio", {s: sum(v) / len(v) for (q, s), v in shares.items() if q == p}),
            ("errors", {s: v for (q, s), v in counted.items() if q == p}),
        ):
            points = {int(at // SLOT): value for at, value in found.get(name, [])}
            assert points == pytest.approx({s: v for s, v in want.items() if s > newest - TRAIL_KEPT}, rel=1e-5)


def test_the_coarse_series_keep_four_hours_and_date_a_slot_by_its_middle() -> None:
    site, trail = Site(), Trail()
    site.now = 1_700_000_000.0 // SLOT * SLOT
    site.inventory("a", port_part("infiniband", ("symbol_errors",), "p", period=60.0))
    for number in range(60):
        site.now += SLOT / 2
        site.send("a", {("p", "symbol_errors"): float(number)}, site.now - 1.6e9)
        trail.update(utilisation(site.tick()), site.now)
        trail.update(utilisation(site.tick()), site.now + EVERY - 1)  # too soon: adds nothing
    found = trail.series_of(site.fleet.tables[Kind.PORT], 0)["errors"]
    assert [value for _, value in found] == [2.0] * 29 + [1.0]
    assert all(at % SLOT == SLOT / 2 for at, _ in found[:-1])
    assert found[-1][0] == site.now  # of the slot that is being filled, not its middle, which is still to come
    for number in range(60, 130):
        site.now += SLOT / 2
        site.send("a", {("p", "symbol_errors"): float(number)}, site.now - 1.6e9)
        trail.update(utilisation(site.tick()), site.now)
    assert len(trail.series_of(site.fleet.tables[Kind.PORT], 0)["errors"]) == TRAIL_KEPT
    assert trail.series_of(site.fleet.tables[Kind.PORT], 5) == {}

