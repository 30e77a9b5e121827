"""What the log and counters show of streams: each change of the state of an address once, with level and words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fabricmon.central.streams.limits import OverLimit
from fabricmon.central.streams.noting import StreamNotes
from fabricmon.central.streams.presence import Peer
from fabricmon.central.streams.stream import MAX_DETAIL, Ended
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Presence
from fabricmon.runtime import logs

PEER = Peer(Target("10.0.0.1:9780", {}), "host-1")
WHERE = {"address": "10.0.0.1:9780", "node": "host-1", "part": "pull"}


@pytest.fixture(autouse=True)
def _every_level() -> Iterator[None]:
    before = structlog.get_config()
    logs.configure(level="debug")
    yield
    structlog.configure(**before)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def notes(registry: CollectorRegistry) -> StreamNotes:
    return StreamNotes(registry, 3, lambda: 17)


def written(*calls: Any) -> list[dict[str, Any]]:
    with capture_logs() as lines:
        for call in calls:
            call()
    return list(lines)


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"fabricmon_central_{name}", labels)
    assert found is not None, name
    return found


def test_an_agent_that_is_followed_from_the_start_is_not_worth_a_line(notes: StreamNotes) -> None:
    assert written(lambda: notes.followed(PEER, True), lambda: notes.followed(PEER, True)) == []


def test_an_agent_that_is_not_followed_is_a_warning_once_and_its_return_is_a_line(notes: StreamNotes) -> None:
    ended = Ended(Presence.UNREACHABLE, "no route")
    lines = written(
        lambda: notes.not_followed(PEER, ended),
        lambda: notes.not_followed(PEER, ended),
        lambda: notes.followed(PEER, True),
        lambda: notes.followed(PEER, False),
    )
    assert lines == [
        {"log_level": "warning", "event": "agent not followed", "why": "unreachable: no route", **WHERE},
        {"log_level": "info", "event": "agent followed", "seen_before": 2, **WHERE},
        {"log_level": "warning", "event": "agent not followed: another address streams for this node", **WHERE},
    ]


def test_unknown_columns_are_named_up_to_a_length_and_reported_as_known_again(notes: StreamNotes) -> None:
    many = [f"column_{n}" for n in range(100)]
    first, last = written(lambda: notes.unknown_columns(PEER, many), lambda: notes.unknown_columns(PEER, []))
    assert (first["log_level"], first["count"]) == ("warning", 100)
    assert first["columns"] == ", ".join(many)[:MAX_DETAIL]
    assert first["event"] == "columns that this server does not know are not kept"
    assert (last["log_level"], last["event"], last["count"]) == ("info", "all columns are known again", 0)
    assert written(lambda: notes.unknown_columns(Peer(Target("b:1", {}), "b"), [])) == []


def test_wild_values_and_many_turns_are_counted_each_time_and_logged_once(
    notes: StreamNotes, registry: CollectorRegistry
) -> None:
    error = OverLimit("turns", "3 large inventories had to wait")
    lines = written(*[lambda: notes.wild_values(PEER)] * 3, *[lambda: notes.many_turns(PEER, error)] * 2)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "values that no counter can have count as unknown"),
        ("warning", str(error)),
    ]
    assert all(line.items() >= WHERE.items() for line in lines)
    assert counted(registry, "refused_total", limit="value") == 3
    assert counted(registry, "refused_total", limit="turns") == 2


def test_topics_of_an_address_that_is_no_target_any_more_are_forgotten(notes: StreamNotes) -> None:
    def all_bad() -> None:
        notes.followed(PEER, False)
        notes.wild_values(PEER)
        notes.unknown_columns(PEER, ["x"])
        notes.many_turns(PEER, OverLimit("turns", "many"))

    assert len(written(all_bad, all_bad)) == 4
    assert len(written(lambda: notes.forget("10.0.0.1:9780"), all_bad)) == 4


def test_no_address_pushes_the_topics_of_others_out(notes: StreamNotes) -> None:
    """Three addresses are followed at most, each with all its topics."""
    peers = [Peer(Target(f"10.0.0.{n}:1", {}), f"host-{n}") for n in range(3)]

    def all_bad() -> None:
        for peer in peers:
            notes.followed(peer, False)
            notes.wild_values(peer)
            notes.unknown_columns(peer, ["x"])
            notes.many_turns(peer, OverLimit("turns", "many"))

    assert len(written(all_bad)) == 12
    assert written(all_bad) == []


@pytest.mark.parametrize(
    ("error", "limit"), [(OverLimit("frames", "too many frames"), "frames"), (ValueError("no frame"), "protocol")]
)
def test_a_stream_that_breaks_a_limit_or_the_protocol_ends_as_incompatible(
    notes: StreamNotes, registry: CollectorRegistry, error: ValueError, limit: str
) -> None:
    ended = notes.incompatible(error)
    assert (ended.presence, ended.detail) == (Presence.INCOMPATIBLE, str(error))
    assert counted(registry, "bad_messages_total") == counted(registry, "refused_total", limit=limit) == 1
    assert len(notes.incompatible(ValueError("x" * 5000)).detail) == MAX_DETAIL


def test_a_fault_of_the_server_in_one_stream_is_an_error_with_its_cause(
    notes: StreamNotes, registry: CollectorRegistry
) -> None:
    fault = KeyError("row")
    ends: list[Ended] = []
    (line,) = written(lambda: ends.append(notes.our_fault(PEER, fault)))
    assert (line["log_level"], line["event"], line["address"]) == ("error", "stream failed", "10.0.0.1:9780")
    assert line["exc_info"] is fault
    assert [(one.presence, one.detail) for one in ends] == [
        (Presence.INCOMPATIBLE, "KeyError in the server: 'row'")
    ]
    assert counted(registry, "connect_failures_total") == 1


def test_frames_are_added_to_the_counters_when_they_settle(notes: StreamNotes, registry: CollectorRegistry) -> None:
    notes.frames, notes.frame_bytes = 5, 700
    notes.settle()
    notes.settle()
    assert (counted(registry, "frames_total"), counted(registry, "frame_bytes_total")) == (5, 700)
    notes.frames += 1
    notes.settle()
    assert counted(registry, "frames_total") == 6
    assert counted(registry, "unknown_columns") == 17
