"""Parts that break again and again, from incidents alone."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine import Engine
from fabricmon.engine.incidents.offences import Offences, certainty
from fabricmon.model import HistoryEntry, Incident, Severity
from fabricmon.rules.repeat_offender import RepeatOffenderParams
from fabricmon.rules.rule import Scope

DAY = 86_400.0
PARTS = {"link": 4000, "nic": 4000, "gpu": 4000, "pcie": 8000, "host": 500}


def incident(component: str, at: list[float], kind: str = "link_down", node: str = "host-001") -> Incident:
    history = tuple(HistoryEntry(when, "opened" if n == 0 else "reopened", "") for n, when in enumerate(at))
    return Incident(
        component, "resolved", Severity.WARNING, kind, component, at[-1], 1.0, "", "", "",
        labels={"node": node}, history=history,
    )  # fmt: skip


def found(offences: Offences, now: float) -> list[tuple[str, str]]:
    return [(case.component, case.labels["incidents"]) for case in offences.drafts(PARTS, RepeatOffenderParams(), now)]


@given(st.integers(0, 40), st.floats(0.0, 5.0))
def test_the_certainty_is_the_tail_of_a_gamma_distribution(count: int, expected: float) -> None:
    x = 10 * 0.22746821155978656 * (1 + 2 * expected)
    steps = 4000
    top = 20.0 + 4 * (count + x)

    def density(v: float) -> float:  # in u = sqrt(v), where the density of shape 1/2 has no pole
        u = v
        return 2 * u ** (2 * count) * math.exp(-u * u - math.lgamma(count + 0.5))

    low, high = math.sqrt(x), math.sqrt(top + 60)
    width = (high - low) / steps
    tail = width * sum(density(low + (n + 0.5) * width) for n in range(steps))
    assert certainty(count, expected, 10.0) == pytest.approx(tail, abs=2e-4)


def test_one_link_that_breaks_again_and_again_is_reported_with_count_and_days() -> None:
    offences, now = Offences(), 100 * DAY
    for n in range(30):
        host = f"host-{n + 100}"
        offences.note([incident(f"link({host}/mlx5_0/1, leaf-1/{n})", [now - n * DAY], node=host)], now)
    assert found(offences, now) == []
    offences.note([incident("link(host-001/mlx5_3/1, leaf-3/12)", [now - d * DAY for d in (20, 15, 11, 4, 3, 1)])], now)
    (told,) = found(offences, now)
    assert told == ("link(host-001/mlx5_3/1)", "6")
    (case,) = offences.drafts(PARTS, RepeatOffenderParams(), now)
    assert "29 days" in case.title or "30 days" in case.title
    assert case.severity == "info"


def test_one_of_two_cables_counts_for_neither() -> None:
    offences, now = Offences(), 100 * DAY
    times = [now - d * DAY for d in (20, 15, 11, 4, 3, 1)]
    offences.note([incident("link(leaf-1/9, spine-0/1, leaf-2/9, spine-0/2)", times, "packet_loss")], now)
    assert found(offences, now) == []
    offences.note([incident("link(leaf-1/9, spine-0/1)", times, "packet_loss")], now)
    assert found(offences, now) == [("link(leaf-1/9)", "6")]


def test_a_host_is_reported_where_no_single_part_of_it_is() -> None:
    offences, now = Offences(), 100 * DAY
    for rail in range(6):
        offences.note([incident(f"link(host-001/mlx5_{rail}/1, leaf-{rail}/1)", [now - rail * DAY])], now)
    assert found(offences, now) == [("host(host-001)", "6")]


def test_where_all_have_it_nobody_stands_out() -> None:
    offences, now = Offences(), 100 * DAY
    for n in range(500):
        at = [now - d * DAY for d in (9, 6, 4, 2, 1)]
        offences.note([incident(f"host(host-{n})", at, "host_unreachable", f"host-{n}")], now)
    assert found(offences, now) == []


def test_what_a_larger_cause_explained_load_and_repetitions_do_not_count() -> None:
    offences, now = Offences(), 100 * DAY
    times = [now - d * DAY for d in (20, 15, 11, 4, 3, 1)]
    history: tuple[HistoryEntry, ...] = ()
    for at in times:
        history += (HistoryEntry(at, "reopened", ""),)
        offences.note([msgspec.structs.replace(incident("link(a/mlx5_0/1)", [at]), history=history)], now)
        history += (HistoryEntry(at + 5, "absorbed", "part of leaf(x)"),)
        offences.note([msgspec.structs.replace(incident("link(a/mlx5_0/1)", [at]), history=history)], now)
    offences.note([incident("nic(b/mlx5_0)", times, "congestion")], now)
    offences.note([incident("link(c/mlx5_0/1)", [now - 600.0 * n for n in range(6, 0, -1)])], now)
    assert found(offences, now) == []


def test_it_ends_when_the_incidents_are_old() -> None:
    offences, now = Offences(), 100 * DAY
    offences.note([incident("link(a/mlx5_0/1)", [now - d * DAY for d in (6, 5, 4, 3, 2, 1)])], now)
    assert found(offences, now)
    assert found(offences, now + 31 * DAY) == []


def offend(w: Any) -> Incident:
    """One link has six incidents; returns them as the store does."""
    for _ in range(6):
        w.half.add(("host-003", 1))
        w.run(100, step=10.0)
        w.half.clear()
        w.run(4000, step=50.0)
    offender = [i for i in w.firing("info") if i.kind == "repeat_offender"]
    assert [i.component for i in offender] == ["link(host-003/mlx5_1/1)"]
    opened = [i for i in w.changed if i.kind == "link_degraded" and i.status == "resolved"]
    return msgspec.structs.replace(opened[-1], history=tuple(entry for i in opened for entry in i.history))


def test_an_engine_tells_an_offender_and_a_restart_knows_it_again(world: Any) -> None:
    w = world(hosts=8, rails=4)
    past = offend(w)
    offender = [i for i in w.firing("info") if i.kind == "repeat_offender"]
    w.engine, kept = Engine(Scope.FLEET, w.graph, {}, "test"), w.engine.incidents()
    w.engine.restore([past, *kept], w.now)
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(30)
    again = [i for i in w.firing("info") if i.kind == "repeat_offender"]
    assert [(i.id, i.since) for i in again] == [(offender[0].id, offender[0].since)]


def test_a_restart_before_any_node_reports_ends_no_offender_and_one_whose_node_left_ends(world: Any) -> None:
    w = world(hosts=8, rails=4)
    past = offend(w)
    before = [(i.id, i.revision) for i in w.firing("info")]
    kept = w.engine.incidents()
    w.engine = Engine(Scope.FLEET, w.graph, {}, "test")
    w.engine.restore([past, *kept], w.now)
    w.silent = set(w.hosts)
    w.run(30)
    assert [(i.id, i.revision) for i in w.firing("info")] == before
    for host in w.hosts:
        w.silent.discard(host)
        w._tell_inventory(host)
    w.run(60)
    assert [(i.id, i.revision) for i in w.firing("info")] == before
    w.leave("host-003")
    w.run(60)
    assert w.firing("info") == []
