"""Every family of the server's own metrics: its name, type and unit, and the number of the part that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from fabricmon.central.metrics import fabric, page
from fabricmon.fleet.conditions import GroupCondition
from fabricmon.fleet.utilisation import Share
from fabricmon.model import Incident, Members, Presence, Severity
from fabricmon.runtime.exposition import Family
from tests.notify.made import T0, incident

Found = dict[str, dict[tuple[str, ...], float]]


def values(families: Iterable[Family]) -> Found:
    """Name -> values of labels in their order -> value."""
    return {name_of(f): {tuple(s.labels.values()): s.value for s in f.samples} for f in families}


def name_of(family: Family) -> str:
    """As its samples have it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def one(number: float) -> Mapping[tuple[str, ...], float]:
    return {(): number}


def evaluator(**parts: Any) -> Any:
    return SimpleNamespace(**parts)


def test_nodes_and_what_was_checked() -> None:
    seen = SimpleNamespace(
        nodes={Presence.LIVE: 5, Presence.SLOW: 2}, ports=40, ports_silent=8, checked={"InfiniBand": 30},
        unchecked={"NVLink": 3, "PCIe": 1}, nodes_unchecked=4, nodes_nothing=6, maintenance=7,
    )  # fmt: skip
    assert values(page.nodes(evaluator(current=lambda: (T0, seen, [], [])))) == {
        "fabricmon_central_nodes": {("live",): 5, ("slow",): 2},
        "fabricmon_central_ports": one(40),
        "fabricmon_central_ports_silent": one(8),
        "fabricmon_central_checked_components": {("InfiniBand",): 30},
        "fabricmon_central_unchecked_components": {("NVLink",): 3, ("PCIe",): 1},
        "fabricmon_central_nodes_unchecked": one(4),
        "fabricmon_central_nodes_nothing_to_check": one(6),
        "fabricmon_central_nodes_in_maintenance": one(7),
    }


def of_incidents(*given: Incident, rules: Mapping[str, int] | None = None) -> Found:
    engine = SimpleNamespace(open_by_rule=lambda: rules or {})
    return values(page.incidents(evaluator(current=lambda: SimpleNamespace(incidents=given), engine=engine)))


def test_incidents_are_counted_by_kind_and_severity_and_each_open_one_has_its_numbers() -> None:
    parts = ("a/p", "b/p")
    leaf = incident("leaf", kind="fault_domain", severity=Severity.CRITICAL, members=Members(3, 32), parts=parts)
    found = of_incidents(
        leaf, incident("x", since=T0 + 5), incident("over", status="resolved"), rules={"link_down": 3, "errors": 1}
    )
    counts = found["fabricmon_incidents"]
    open_now = {key: n for key, n in counts.items() if n}
    assert open_now == {("fault_domain", "critical"): 1, ("link_flapping", "warning"): 1}
    assert len(counts) > 60, "every kind has a series before its first incident"
    starts = found["fabricmon_incident_start_timestamp_seconds"]
    assert [(key[0], value) for key, value in starts.items()] == [("leaf", T0), ("x", T0 + 5)], "the severest first"
    assert next(key for key in starts if key[0] == "x")[1:] == (
        "link_flapping", "warning", "link(host-007/mlx5_3/x)", "host-007",
    )  # fmt: skip
    assert list(found["fabricmon_incident_confidence_ratio"].values()) == [0.93, 0.93]
    assert list(found["fabricmon_incident_affected_members"].values()) == [3, 1]
    assert found["fabricmon_symptoms"] == {("errors",): 1, ("link_down",): 3}


def test_an_incident_without_members_has_no_number_of_them_and_series_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert of_incidents(incident(members=Members(0, 0)))["fabricmon_incident_affected_members"] == {}
    monkeypatch.setattr(page, "MAX_INCIDENTS", 2)
    found = of_incidents(*(incident(f"i{n}", since=T0 - n) for n in range(4)))
    assert [key[0] for key in found["fabricmon_incident_confidence_ratio"]] == ["i3", "i2"], "the oldest first"
    assert sum(found["fabricmon_incidents"].values()) == 4


def test_streams_and_targets() -> None:
    peers = {str(n): SimpleNamespace(open=n < 2) for n in range(5)}
    pull: Any = SimpleNamespace(register=SimpleNamespace(peers=peers))
    states = {"file": SimpleNamespace(error="", targets=[1, 2]), "dns": SimpleNamespace(error="no answer", targets=[])}
    discovery: Any = SimpleNamespace(refused=9, states=states)
    assert values(page.streams(pull)) == {"fabricmon_central_streams": one(2)}
    assert values(page.targets(pull, discovery)) == {
        "fabricmon_central_targets": one(5),
        "fabricmon_central_targets_refused": one(9),
        "fabricmon_central_targets_source_success": {("file",): 1, ("dns",): 0},
        "fabricmon_central_targets_source_targets": {("file",): 2, ("dns",): 0},
    }


def test_sources_of_jobs() -> None:
    def state(jobs: int, as_of: float | None, odd: int, answers: int, failures: int) -> SimpleNamespace:
        last = SimpleNamespace(jobs=[None] * jobs, as_of=as_of, odd=odd)
        return SimpleNamespace(last=last, answers=answers, failures=failures)

    feed: Any = SimpleNamespace(states={"slurm": state(7, T0 - 30, 2, 11, 3), "file": state(0, None, 0, 0, 5)})
    assert values(page.jobs(feed, T0)) == {
        "fabricmon_central_jobs": {("file",): 0, ("slurm",): 7},
        "fabricmon_central_jobs_age_seconds": {("slurm",): 30},
        "fabricmon_central_jobs_answers_total": {("file",): 0, ("slurm",): 11},
        "fabricmon_central_jobs_failures_total": {("file",): 5, ("slurm",): 3},
        "fabricmon_central_jobs_odd": {("file",): 0, ("slurm",): 2},
    }


def test_evaluations() -> None:
    ticks = SimpleNamespace(count=4, seconds=2.5, last=0.25, longest=1.5, at=T0)
    clock: Any = SimpleNamespace(offset=-3.0)
    engine = SimpleNamespace(counters=lambda: {"open": 2, "changes": 1})
    families = list(page.evaluation(evaluator(ticks=ticks, engine=engine), clock))
    assert values(families) == {
        "fabricmon_central_ticks_total": one(4),
        "fabricmon_central_tick_seconds_total": one(2.5),
        "fabricmon_central_tick_last_seconds": one(0.25),
        "fabricmon_central_tick_longest_seconds": one(1.5),
        "fabricmon_central_tick_timestamp_seconds": one(T0),
        "fabricmon_central_clock_offset_seconds": one(-3.0),
        "fabricmon_central_engine": {("changes",): 1, ("open",): 2},
    }
    assert {name_of(f): (f.type, f.unit) for f in families if f.type == "counter"} == {
        "fabricmon_central_ticks_total": ("counter", ""),
        "fabricmon_central_tick_seconds_total": ("counter", "seconds"),
    }


def test_delivery_and_the_age_of_what_is_not_delivered() -> None:
    def lane(depth: int, oldest: float | None, first: int) -> SimpleNamespace:
        words = ("sent", "failed", "retried", "superseded", "refreshed", "refresh_failed")
        return SimpleNamespace(depth=depth, oldest=oldest, **{word: first + n for n, word in enumerate(words)})

    lanes = {"ops": lane(3, T0 - 40, 10), "idle": lane(0, T0 - 99, 0), "ahead": lane(1, T0 + 5, 0)}
    lanes["new"] = lane(1, None, 0)
    found = values(
        page.delivery(
            evaluator(
                now=lambda: T0, store_error="full", store=SimpleNamespace(unreadable=6),
                silences=SimpleNamespace(active=lambda now: [1, 2] if now == T0 else []),
                outbox=SimpleNamespace(deliveries=lambda: lanes),
                pacing=SimpleNamespace(withheld=lambda name: {"a": 1, "b": 2} if name == "ops" else {}),
            )
        )
    )
    assert found["fabricmon_central_store_success"] == one(0)
    assert found["fabricmon_central_store_unreadable_total"] == one(6)
    assert found["fabricmon_central_silences"] == one(2)
    words = ("sent", "failed", "retried", "superseded", "refreshed", "refresh_failed")
    assert [found[f"fabricmon_notifications_{word}_total"]["ops",] for word in words] == [10, 11, 12, 13, 14, 15]
    assert found["fabricmon_outbox_notifications"] == {("ahead",): 1, ("idle",): 0, ("new",): 1, ("ops",): 3}
    assert found["fabricmon_outbox_withheld_incidents"]["ops",] == 2
    assert found["fabricmon_outbox_withheld_incidents"]["idle",] == 0
    assert found["fabricmon_outbox_oldest_seconds"] == {("ahead",): 0, ("idle",): 0, ("new",): 0, ("ops",): 40}


def test_a_recording() -> None:
    status = SimpleNamespace(error="", records=3, bytes=700, kept=9000, removed=2)
    tape: Any = SimpleNamespace(status=status, lost=lambda: 5)
    assert values(page.recording(tape)) == {
        "fabricmon_central_record_success": one(1),
        "fabricmon_central_record_records_total": one(3),
        "fabricmon_central_record_lost_total": one(5),
        "fabricmon_central_record_bytes_total": one(700),
        "fabricmon_central_record_kept_bytes": one(9000),
        "fabricmon_central_record_removed_total": one(2),
    }


def test_how_busy_rails_and_tiers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def share(name: str, receive: float, transmit: float, of: int, known: int) -> Share:
        return Share(name, receive, transmit, known, of)

    rails = [share("0", 0.25, 0.5, 8, 6), share("1", 0.0, 0.0, 4, 0), share("2", 1.0, 1.0, 1, 1)]
    monkeypatch.setattr(fabric, "MAX_GROUPS", 2)
    families = list(fabric.utilisation(rails, [share("adapter", 0.1, 0.2, 13, 7)]))
    assert values(families) == {
        "fabricmon_rail_receive_utilisation_ratio": {("0",): 0.25},
        "fabricmon_rail_transmit_utilisation_ratio": {("0",): 0.5},
        "fabricmon_rail_ports": {("0",): 8, ("1",): 4},
        "fabricmon_rail_utilisation_known_ports": {("0",): 6, ("1",): 0},
        "fabricmon_tier_receive_utilisation_ratio": {("adapter",): 0.1},
        "fabricmon_tier_transmit_utilisation_ratio": {("adapter",): 0.2},
        "fabricmon_tier_ports": {("adapter",): 13},
        "fabricmon_tier_utilisation_known_ports": {("adapter",): 7},
    }
    assert {f.unit for f in families if f.name.endswith("_ratio")} == {"ratio"}


def test_conditions_of_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ("waiting", "worst", "pressed", "pausing", "stopping", "marks", "notices", "missed")
    numbers = {name: float(n) for n, name in enumerate(fields, 1)}
    groups: list[Any] = [SimpleNamespace(name=str(n), links={"up": 6 + n, "unknown": 1}, **numbers) for n in range(3)]
    assert set(fields) <= {*GroupCondition.__annotations__}
    monkeypatch.setattr(fabric, "MAX_GROUPS", 2)
    monkeypatch.setattr(fabric.fleet, "conditions", lambda view: (groups, groups[:1]))
    view: Any = None
    found = values(fabric.conditions(view))
    states = {("0", "up"): 6, ("0", "unknown"): 1, ("1", "up"): 7, ("1", "unknown"): 1}
    assert found["fabricmon_rail_link_ports"] == states
    names = ("waiting_ratio", "worst_waiting_ratio", "pressed_ports", "pausing_ratio", "worst_pausing_ratio",
             "congestion_marks_per_second", "congestion_notices_per_second", "missed_packets_per_second")  # fmt: skip
    for number, name in enumerate(names, 1):
        assert found[f"fabricmon_rail_{name}"] == {("0",): number, ("1",): number}
        assert found[f"fabricmon_tier_{name}"] == {("0",): number}


def test_which_fabric_this_is() -> None:
    assert values(fabric.about("east", "https://fabric.example/")) == {
        "fabricmon_central_info": {("east", "https://fabric.example"): 1}
    }
