"""Who is told what: the plan against what was told before."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.plan import MAX_TELLINGS, decide, owed
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, silence
from fabricmon.notify.told import Told
from tests.notify.made import T0, incident

OPS = Receiver("ops")
HOUR = 3600.0


def ended(i: Incident, at: float) -> Incident:
    return replace(i, status="resolved", resolved=at, updated=at, revision=i.revision + 1)


def reasons(notes: list[Notification]) -> list[tuple[str, str, str]]:
    return [(n.receiver, i.id, n.reason) for n in notes for i in n.incidents]


def accept(told: Told, notes: list[Notification]) -> list[Notification]:
    for note in notes:
        told.add(note)
    return notes


def test_a_new_incident_is_told_once_and_its_end_once() -> None:
    told, i = Told(), incident()
    assert reasons(accept(told, decide([i], told, [OPS], [], T0 + 1))) == [("ops", "i-1", "new incident")]
    assert decide([i], told, [OPS], [], T0 + 2) == []
    assert reasons(accept(told, decide([ended(i, T0 + 9)], told, [OPS], [], T0 + 9))) == [("ops", "i-1", "resolved")]
    assert decide([ended(i, T0 + 9)], told, [OPS], [], T0 + 10) == []


def test_an_end_is_told_only_to_whom_the_beginning_was_told() -> None:
    told, i = Told(), ended(incident(), T0 + 5)
    assert decide([i], told, [OPS], [], T0 + 6) == []
    other = Receiver("other")
    accept(told, decide([incident()], told, [OPS], [], T0 + 1))
    assert reasons(decide([i], told, [OPS, other], [], T0 + 6)) == [("ops", "i-1", "resolved")]


def test_what_is_not_committed_is_planned_again_with_the_same_key() -> None:
    told, i = Told(), incident()
    first, again = decide([i], told, [OPS], [], T0 + 1), decide([i], told, [OPS], [], T0 + 1)
    assert first == again
    assert first[0].key == again[0].key


def test_severity_is_told_when_it_rises_and_not_when_it_falls_back_and_rises_again() -> None:
    told, i = Told(), incident()
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    worse = replace(i, severity=Severity.CRITICAL, revision=2)
    assert reasons(accept(told, decide([worse], told, [OPS], [], T0 + 2))) == [("ops", "i-1", "severity rose")]
    assert decide([replace(i, revision=3)], told, [OPS], [], T0 + 3) == []
    assert decide([replace(worse, revision=4)], told, [OPS], [], T0 + 4) == []


def test_a_sharper_cause_is_told_once() -> None:
    told, i = Told(), incident(kind="link_down")
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    sharper = replace(i, kind="link_flapping", revision=2)
    notes = accept(told, decide([sharper], told, [OPS], [], T0 + 2))
    assert reasons(notes) == [("ops", "i-1", "cause sharpened")]
    assert [f.kind for f in notes[0].before["i-1"]] == ["link_down"]
    assert decide([replace(i, revision=3)], told, [OPS], [], T0 + 3) == []
    assert decide([replace(sharper, revision=4)], told, [OPS], [], T0 + 4) == []


def test_one_revision_is_news_once_only() -> None:
    told, i = Told(), incident()
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    assert decide([replace(i, component="link(host-007/mlx5_3/1, leaf-3/12)")], told, [OPS], [], T0 + 2) == []


def test_what_became_part_of_a_larger_incident_ends_by_that_name() -> None:
    told, i = Told(), incident()
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    part = replace(ended(i, T0 + 5), labels={"absorbed_by": "leaf"})
    assert reasons(decide([part], told, [OPS], [], T0 + 5)) == [("ops", "i-1", "absorbed")]


def test_more_members_alone_are_no_news() -> None:
    told, i = Told(), incident()
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    assert decide([replace(i, parts=(*i.parts, "x"), revision=2)], told, [OPS], [], T0 + 2) == []


def test_what_still_fires_is_repeated_after_the_interval_with_another_key() -> None:
    told, i = Told(), incident()
    first = accept(told, decide([i], told, [OPS], [], T0 + 1))
    assert decide([i], told, [OPS], [], T0 + 4 * HOUR) == []
    again = decide([i], told, [OPS], [], T0 + 1 + 4 * HOUR)
    assert reasons(again) == [("ops", "i-1", "repeat after 4h")]
    assert again[0].key != first[0].key
    assert decide([i], told, [replace(OPS, repeat=0.0)], [], T0 + 90 * HOUR) == []


def test_an_incident_that_comes_back_is_told_again() -> None:
    told, i = Told(), incident()
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    accept(told, decide([ended(i, T0 + 5)], told, [OPS], [], T0 + 5))
    back = replace(i, since=T0 + 60, revision=3)
    notes = decide([back], told, [OPS], [], T0 + 61)
    assert reasons(notes) == [("ops", "i-1", "new incident")]
    assert notes[0].before == {}, "another episode has nothing to do with the faces of the last one"


def test_a_new_episode_is_told_to_a_receiver_that_wants_no_resolutions() -> None:
    told, i, quiet = Told(), incident(), replace(OPS, send_resolved=False)
    accept(told, decide([i], told, [quiet], [], T0 + 1))
    assert decide([ended(i, T0 + 5)], told, [quiet], [], T0 + 5) == []
    back = replace(i, since=T0 + 60, revision=3)
    assert reasons(decide([back], told, [quiet], [], T0 + 61)) == [("ops", "i-1", "new incident")]
    assert owed(told, [], [quiet]) == set()


def test_info_is_not_sent_unless_asked_for() -> None:
    i = incident(severity=Severity.INFO)
    assert decide([i], Told(), [OPS], [], T0) == []
    assert len(decide([i], Told(), [Receiver("all", min_severity=Severity.INFO)], [], T0)) == 1


def test_the_end_is_told_even_if_the_incident_would_not_be_routed_any_more() -> None:
    told = Told()
    accept(told, decide([incident()], told, [OPS], [], T0))
    mild = replace(ended(incident(), T0 + 5), severity=Severity.INFO)
    hush = silence("s-1", ["id=i-1"], T0, T0 + HOUR, "me")
    assert reasons(decide([mild], told, [OPS], [hush], T0 + 6)) == [("ops", "i-1", "resolved")]


def test_a_silenced_incident_is_told_when_the_silence_ends_and_it_still_fires() -> None:
    told, i = Told(), incident()
    hush: list[Silence] = [silence("s-1", ["node=host-007"], T0 - 10, T0 + HOUR, "me")]
    assert decide([i], told, [OPS], hush, T0 + 1) == []
    assert decide([ended(i, T0 + 5)], told, [OPS], hush, T0 + 5) == [], "nobody knew of it"
    assert reasons(decide([i], told, [OPS], hush, T0 + HOUR)) == [("ops", "i-1", "silence ended")]


def test_a_part_of_a_firing_domain_is_held_back_until_the_domain_ends() -> None:
    leaf = incident("leaf", kind="fault_domain", severity=Severity.CRITICAL, parts=("a", "b", "c"))
    link = incident("link", kind="link_down", parts=("b",))
    told = Told()
    assert reasons(accept(told, decide([link, leaf], told, [OPS], [], T0))) == [("ops", "leaf", "new incident")]
    assert sorted(reasons(decide([link, ended(leaf, T0 + 9)], told, [OPS], [], T0 + 9))) == [
        ("ops", "leaf", "resolved"),
        ("ops", "link", "new incident"),
    ]
    elsewhere = incident("other", kind="link_down", parts=("z",))
    assert reasons(decide([leaf, elsewhere], told, [OPS], [], T0 + 9)) == [("ops", "other", "new incident")]


def test_a_full_outbox_is_told_later_what_is_true_then() -> None:
    told, i = Told(), incident()
    assert decide([i], told, [OPS], [], T0, full={"ops"}) == []
    accept(told, decide([i], told, [OPS], [], T0 + 1))
    assert decide([ended(i, T0 + 5)], told, [OPS], [], T0 + 5, full={"ops"}) == []
    assert owed(told, [], [OPS]) == {"i-1"}, "the engine has dropped it, the receiver does not know"
    assert reasons(decide([ended(i, T0 + 5)], told, [OPS], [], T0 + 9000)) == [("ops", "i-1", "resolved")]


def test_notifications_are_bounded_and_a_flood_is_worked_off() -> None:
    many = [incident(f"i-{n:05}") for n in range(MAX_TELLINGS + 30)]
    told = Told()
    first = accept(told, decide(many, told, [OPS], [], T0))
    assert max(len(n.incidents) for n in first) == OPS.batch
    assert sum(len(n.incidents) for n in first) == MAX_TELLINGS
    second = accept(told, decide(many, told, [OPS], [], T0 + 1))
    assert sum(len(n.incidents) for n in second) == 30
    assert len({n.key for n in first + second}) == len(first + second)
    assert decide(many, told, [OPS], [], T0 + 2) == []


def test_the_most_severe_is_told_first() -> None:
    notes = decide([incident("a"), incident("b", severity=Severity.CRITICAL)], Told(), [OPS], [], T0)
    assert [i.id for n in notes for i in n.incidents] == ["b", "a"]


# What may happen between two ticks to one of three incidents, and to the centre.
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
    now, told = T0, Told()
    world: dict[str, Incident] = {}
    silences: list[Silence] = []
    heard: dict[tuple[str, str], list[tuple[Incident, str]]] = {}

    def tick(full: frozenset[str] = frozenset()) -> None:
        for n in accept(told, decide(world.values(), told, receivers, silences, now, full)):
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
            decide(world.values(), told, receivers, silences, now)  # planned, and lost before the commit
            told = Told(iter(told))
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
