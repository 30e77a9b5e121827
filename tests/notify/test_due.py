"""Who is told what: the plan against what was told before."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Incident, Notification, Severity
from fabricmon.notify.due import MAX_AT_ONCE, owed_resolutions
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.matchers import parse
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, silence
from tests.notify.made import T0, due_notifications, incident

OPS = Receiver("ops")
HOUR = 3600.0


def ended(i: Incident, at: float) -> Incident:
    return replace(i, status="resolved", resolved=at, updated=at, revision=i.revision + 1)


def reasons(notes: list[Notification]) -> list[tuple[str, str, str]]:
    return [(n.receiver, i.id, n.reason) for n in notes for i in n.incidents]


def accept(told: LastNotifications, notes: list[Notification]) -> list[Notification]:
    for note in notes:
        told.add(note)
    return notes


def test_a_new_incident_is_reported_once_and_its_end_once() -> None:
    told, i = LastNotifications(), incident()
    assert reasons(accept(told, due_notifications([i], told, [OPS], [], T0 + 1))) == [("ops", "i-1", "new incident")]
    assert due_notifications([i], told, [OPS], [], T0 + 2) == []
    assert reasons(accept(told, due_notifications([ended(i, T0 + 9)], told, [OPS], [], T0 + 9))) == [
        ("ops", "i-1", "resolved")
    ]
    assert due_notifications([ended(i, T0 + 9)], told, [OPS], [], T0 + 10) == []


def test_an_end_is_reported_only_to_whom_the_beginning_was_reported() -> None:
    told, i = LastNotifications(), ended(incident(), T0 + 5)
    assert due_notifications([i], told, [OPS], [], T0 + 6) == []
    other = Receiver("other")
    accept(told, due_notifications([incident()], told, [OPS], [], T0 + 1))
    assert reasons(due_notifications([i], told, [OPS, other], [], T0 + 6)) == [("ops", "i-1", "resolved")]


def test_what_is_not_committed_is_planned_again_with_the_same_key() -> None:
    told, i = LastNotifications(), incident()
    first, again = due_notifications([i], told, [OPS], [], T0 + 1), due_notifications([i], told, [OPS], [], T0 + 1)
    assert first == again
    assert first[0].key == again[0].key


def test_severity_is_reported_when_it_rises_and_not_when_it_falls_back_and_rises_again() -> None:
    told, i = LastNotifications(), incident()
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    worse = replace(i, severity=Severity.CRITICAL, revision=2)
    assert reasons(accept(told, due_notifications([worse], told, [OPS], [], T0 + 2))) == [
        ("ops", "i-1", "severity rose")
    ]
    assert due_notifications([replace(i, revision=3)], told, [OPS], [], T0 + 3) == []
    assert due_notifications([replace(worse, revision=4)], told, [OPS], [], T0 + 4) == []


def test_a_sharper_cause_is_reported_once() -> None:
    told, i = LastNotifications(), incident(kind="link_down")
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    sharper = replace(i, kind="link_flapping", revision=2)
    notes = accept(told, due_notifications([sharper], told, [OPS], [], T0 + 2))
    assert reasons(notes) == [("ops", "i-1", "cause sharpened")]
    assert [f.kind for f in notes[0].before["i-1"]] == ["link_down"]
    assert due_notifications([replace(i, revision=3)], told, [OPS], [], T0 + 3) == []
    assert due_notifications([replace(sharper, revision=4)], told, [OPS], [], T0 + 4) == []


def test_one_revision_is_news_once_only() -> None:
    told, i = LastNotifications(), incident()
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    assert (
        due_notifications([replace(i, component="link(host-007/mlx5_3/1, leaf-3/12)")], told, [OPS], [], T0 + 2) == []
    )


def test_what_became_part_of_a_larger_incident_ends_by_that_name() -> None:
    told, i = LastNotifications(), incident()
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    part = replace(ended(i, T0 + 5), labels={"absorbed_by": "leaf"})
    assert reasons(due_notifications([part], told, [OPS], [], T0 + 5)) == [("ops", "i-1", "absorbed")]


def test_more_members_alone_are_no_news() -> None:
    told, i = LastNotifications(), incident()
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    assert due_notifications([replace(i, parts=(*i.parts, "x"), revision=2)], told, [OPS], [], T0 + 2) == []


def test_what_still_fires_is_repeated_after_the_interval_with_another_key() -> None:
    told, i = LastNotifications(), incident()
    first = accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    assert due_notifications([i], told, [OPS], [], T0 + 4 * HOUR) == []
    again = due_notifications([i], told, [OPS], [], T0 + 1 + 4 * HOUR)
    assert reasons(again) == [("ops", "i-1", "repeat after 4h")]
    assert again[0].key != first[0].key
    assert due_notifications([i], told, [replace(OPS, repeat=0.0)], [], T0 + 90 * HOUR) == []


def test_an_incident_that_comes_back_is_reported_again() -> None:
    told, i = LastNotifications(), incident()
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    accept(told, due_notifications([ended(i, T0 + 5)], told, [OPS], [], T0 + 5))
    back = replace(i, since=T0 + 60, revision=3)
    notes = due_notifications([back], told, [OPS], [], T0 + 61)
    assert reasons(notes) == [("ops", "i-1", "new incident")]
    assert notes[0].before == {}, "another episode has nothing to do with the faces of the last one"


def test_a_new_episode_is_reported_to_a_receiver_that_wants_no_resolutions() -> None:
    told, i, quiet = LastNotifications(), incident(), replace(OPS, send_resolved=False)
    accept(told, due_notifications([i], told, [quiet], [], T0 + 1))
    assert due_notifications([ended(i, T0 + 5)], told, [quiet], [], T0 + 5) == []
    back = replace(i, since=T0 + 60, revision=3)
    assert reasons(due_notifications([back], told, [quiet], [], T0 + 61)) == [("ops", "i-1", "new incident")]
    assert owed_resolutions(told, [], [quiet]) == set()


def test_a_clock_that_was_set_back_repeats_nothing() -> None:
    """Found by the state machine: told an hour before it began, an incident was new at each tick of that hour."""
    for receiver in (OPS, replace(OPS, send_resolved=False)):
        told, i = LastNotifications(), incident()
        assert reasons(accept(told, due_notifications([i], told, [receiver], [], T0 - HOUR)))
        for seconds in (10.0, 1800.0, HOUR - 1, HOUR, HOUR + 10):
            assert due_notifications([i], told, [receiver], [], T0 - HOUR + seconds) == []
        back = replace(i, since=T0 + 60, revision=3)
        assert reasons(due_notifications([back], told, [receiver], [], T0 + 61)) == [("ops", "i-1", "new incident")]


def test_info_is_not_sent_unless_asked_for() -> None:
    i = incident(severity=Severity.INFO)
    assert due_notifications([i], LastNotifications(), [OPS], [], T0) == []
    assert len(due_notifications([i], LastNotifications(), [Receiver("all", min_severity=Severity.INFO)], [], T0)) == 1


def test_the_end_is_reported_even_if_the_incident_would_not_be_routed_any_more() -> None:
    told = LastNotifications()
    accept(told, due_notifications([incident()], told, [OPS], [], T0))
    mild = replace(ended(incident(), T0 + 5), severity=Severity.INFO)
    hush = silence("s-1", ["id=i-1"], T0, T0 + HOUR, "me")
    assert reasons(due_notifications([mild], told, [OPS], [hush], T0 + 6)) == [("ops", "i-1", "resolved")]


def test_a_silenced_incident_is_reported_when_the_silence_ends_and_it_still_fires() -> None:
    told, i = LastNotifications(), incident()
    hush: list[Silence] = [silence("s-1", ["node=host-007"], T0 - 10, T0 + HOUR, "me")]
    assert due_notifications([i], told, [OPS], hush, T0 + 1) == []
    assert due_notifications([ended(i, T0 + 5)], told, [OPS], hush, T0 + 5) == [], "nobody knew of it"
    assert reasons(due_notifications([i], told, [OPS], hush, T0 + HOUR)) == [("ops", "i-1", "silence ended")]


def test_a_part_of_a_firing_domain_is_held_back_until_the_domain_ends() -> None:
    leaf = incident("leaf", kind="fault_domain", severity=Severity.CRITICAL, parts=("a", "b", "c"))
    link = incident("link", kind="link_down", parts=("b",))
    told = LastNotifications()
    assert reasons(accept(told, due_notifications([link, leaf], told, [OPS], [], T0))) == [
        ("ops", "leaf", "new incident")
    ]
    assert sorted(reasons(due_notifications([link, ended(leaf, T0 + 9)], told, [OPS], [], T0 + 9))) == [
        ("ops", "leaf", "resolved"),
        ("ops", "link", "new incident"),
    ]
    elsewhere = incident("other", kind="link_down", parts=("z",))
    assert reasons(due_notifications([leaf, elsewhere], told, [OPS], [], T0 + 9)) == [("ops", "other", "new incident")]


def test_what_fails_on_a_member_long_after_a_group_began_is_a_fault_of_its_own() -> None:
    plane = incident("plane", kind="fault_domain", severity=Severity.CRITICAL, since=T0 - 120, parts=("a", "b", "c"))
    told = LastNotifications()
    accept(told, due_notifications([plane], told, [OPS], [], T0 - 100))
    same, later = (incident(f"link-{at:g}", kind="link_down", since=at, parts=("b",)) for at in (T0 - 60, T0 - 59))
    assert due_notifications([plane, same], told, [OPS], [], T0) == []
    assert reasons(due_notifications([plane, later], told, [OPS], [], T0)) == [("ops", later.id, "new incident")]


LEAF = incident("leaf", kind="fault_domain", severity=Severity.CRITICAL, parts=("a", "b", "c"), labels={"rack": "r9"})
LINK = incident("link", kind="link_down", severity=Severity.CRITICAL, parts=("b",))


def test_a_receiver_without_the_larger_incident_is_notified_of_the_smaller() -> None:
    """Its filter takes the link and not the leaf."""
    racks = Receiver("racks", matchers=(parse("rack=r7"),))
    told = LastNotifications()
    assert sorted(reasons(accept(told, due_notifications([LINK, LEAF], told, [OPS, racks], [], T0)))) == [
        ("ops", "leaf", "new incident"),
        ("racks", "link", "new incident"),
    ]
    assert due_notifications([LINK, LEAF], told, [OPS, racks], [], T0 + 1) == []


def test_a_larger_incident_inhibits_where_it_was_reported_before_the_restart_and_where_it_is_reported_now() -> None:
    told = LastNotifications()
    accept(told, due_notifications([LEAF], told, [OPS], [], T0))
    told = LastNotifications(iter(told))
    assert due_notifications([LINK, LEAF], told, [OPS], [], T0 + 1) == []
    rail = incident("rail", kind="fault_domain", severity=Severity.CRITICAL, parts=("a", "b", "c", "d"))
    assert reasons(due_notifications([LINK, LEAF, rail], LastNotifications(), [OPS], [], T0)) == [
        ("ops", "rail", "new incident")
    ]


@pytest.mark.parametrize(("kind", "sent"), [
    ("link_down", ["link", "leaf"]), ("packet_loss", ["leaf"]), ("congestion", ["leaf"]), ("straggler", ["leaf"]),
    ("config_drift", ["link", "leaf"]), ("expected_inventory", ["link", "leaf"]), ("link_errors", ["link", "leaf"]),
    ("pcie_degraded", ["link", "leaf"]), ("slow_receiver", ["leaf"]),
])  # fmt: skip
def test_what_loses_packets_stops_no_link_and_sets_nothing(kind: str, sent: list[str]) -> None:
    leaf = replace(LEAF, labels={"shows": "traffic"})
    due = due_notifications([replace(LINK, kind=kind), leaf], LastNotifications(), [OPS], [], T0)
    assert sorted(id for _, id, _ in reasons(due)) == sorted(sent)


def test_a_larger_incident_that_was_not_notified_because_it_is_silenced_hides_nothing() -> None:
    hush = silence("s-1", ["id=leaf"], T0 - 10, T0 + HOUR, "me")
    assert reasons(due_notifications([LINK, LEAF], LastNotifications(), [OPS], [hush], T0)) == [
        ("ops", "link", "new incident")
    ]


def test_a_silenced_mass_alarm_hides_what_it_began_with_and_not_what_comes_later() -> None:
    alarm = incident("alarm", kind="mass_alarm", severity=Severity.CRITICAL, parts=(), labels={"from": str(T0 - 60)})
    told, first = LastNotifications(), incident("first", kind="link_down")
    assert reasons(accept(told, due_notifications([alarm, first], told, [OPS], [], T0))) == [
        ("ops", "alarm", "new incident")
    ]
    hush = silence("s-1", ["id=alarm"], T0 + 10, T0 + HOUR, "me")
    later = incident("later", kind="link_down", since=T0 + 20, history=(HistoryEntry(T0 + 20, "opened", ""),))
    assert due_notifications([alarm, first, later], told, [OPS], [], T0 + 20) == []
    assert reasons(due_notifications([alarm, first, later], told, [OPS], [hush], T0 + 20)) == [
        ("ops", "later", "new incident")
    ]


def test_a_full_outbox_is_reported_later_what_is_true_then() -> None:
    told, i = LastNotifications(), incident()
    assert due_notifications([i], told, [OPS], [], T0, full={"ops"}) == []
    accept(told, due_notifications([i], told, [OPS], [], T0 + 1))
    assert due_notifications([ended(i, T0 + 5)], told, [OPS], [], T0 + 5, full={"ops"}) == []
    assert owed_resolutions(told, [], [OPS]) == {"i-1"}, "the engine has dropped it, the receiver does not know"
    assert reasons(due_notifications([ended(i, T0 + 5)], told, [OPS], [], T0 + 9000)) == [("ops", "i-1", "resolved")]


def test_notifications_are_bounded_and_a_flood_is_worked_off() -> None:
    many = [incident(f"i-{n:05}") for n in range(MAX_AT_ONCE + 30)]
    told = LastNotifications()
    first = accept(told, due_notifications(many, told, [OPS], [], T0))
    assert max(len(n.incidents) for n in first) == OPS.batch
    assert sum(len(n.incidents) for n in first) == MAX_AT_ONCE
    second = accept(told, due_notifications(many, told, [OPS], [], T0 + 1))
    assert sum(len(n.incidents) for n in second) == 30
    assert len({n.key for n in first + second}) == len(first + second)
    assert due_notifications(many, told, [OPS], [], T0 + 2) == []


def test_the_most_severe_is_reported_first() -> None:
    notes = due_notifications(
        [incident("a"), incident("b", severity=Severity.CRITICAL)], LastNotifications(), [OPS], [], T0
    )
    assert [i.id for n in notes for i in n.incidents] == ["b", "a"]


# What may happen between two ticks to one of three incidents, and to the server.
_STEP = st.tuples(
    st.sampled_from(["fire", "end", "worse", "milder", "sharpen", "hush", "nothing", "crash", "full"]),
    st.integers(0, 2),
    st.sampled_from([0.25, 60.0, 5000.0]),
)


@settings(max_examples=300)
@given(st.lists(_STEP, max_size=40))
def test_whatever_happens_nobody_hears_a_thing_twice_an_end_unbegun_or_nothing_for_ever(
    steps: list[tuple[str, int, float]],
) -> None:
    receivers = [OPS, Receiver("pager", min_severity=Severity.CRITICAL)]
    now, told = T0, LastNotifications()
    world: dict[str, Incident] = {}
    silences: list[Silence] = []
    heard: dict[tuple[str, str], list[tuple[Incident, str]]] = {}

    def tick(full: frozenset[str] = frozenset()) -> None:
        for n in accept(told, due_notifications(world.values(), told, receivers, silences, now, full)):
            for i in n.incidents:
                heard.setdefault((n.receiver, i.id), []).append((i, n.reason))

    for what, which, pause in steps:
        now += pause
        id = f"i-{which}"
        old = world.get(id)
        revision = old.revision + 1 if old else 1
        live = old is not None and old.status == "firing"
        if what == "fire" and not live:
            world[id] = incident(id, since=now, revision=revision)
        elif old is not None and live:
            if what == "end":
                world[id] = ended(old, now)
            elif what in ("worse", "milder"):
                severity = Severity.CRITICAL if what == "worse" else Severity.WARNING
                world[id] = replace(old, severity=severity, revision=revision)
            elif what == "sharpen":
                kind = "link_down" if old.kind == "link_flapping" else "link_flapping"
                world[id] = replace(old, kind=kind, revision=revision)
        if what == "hush":
            silences.append(silence(f"s-{len(silences)}", [f"id={id}"], now, now + 100.0, "me"))
        if what == "crash":
            due_notifications(world.values(), told, receivers, silences, now)  # planned, and lost before the commit
            told = LastNotifications(iter(told))
            continue
        tick(full=frozenset({"ops"}) if what == "full" else frozenset())

    now += 1000.0  # every silence is over
    tick()
    for words in heard.values():
        states = [i.status for i, _ in words]
        assert states[0] == "firing", "an end is never the first word"
        for before, after in itertools.pairwise(words):
            if after[1].startswith("repeat"):
                continue
            assert (before[0].status, before[0].revision) != (after[0].status, after[0].revision)
            assert not (before[0].status == "resolved" == after[0].status)
    for receiver in receivers:
        for i in world.values():
            last = heard.get((receiver.name, i.id))
            if i.status == "firing" and receiver.takes(i):
                assert last is not None, "what fires and is taken is told in the end"
                assert last[-1][0].status == "firing"
            if last is not None and i.status == "resolved":
                assert last[-1][0].status == "resolved", "who was told that it fires is told that it ended"
