"""Who has taken an incident on, who is next in line, and what comes in one digest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Incident, Severity
from fabricmon.notify.acknowledge import AcknowledgementError, acknowledgement, acknowledgement_in
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, due_notifications, incident

OPS = Receiver("ops")
NEXT = Receiver("next", after=900.0)
CHAT = Receiver("chat", acknowledged=True)


class World:
    """Receivers, and what they were told."""

    def __init__(self, *receivers: Receiver) -> None:
        self.receivers, self.told = receivers, LastNotifications()

    def plan(self, now: float, *incidents: Incident, acks=()) -> list[tuple[str, str, tuple[str, ...]]]:
        taken = {a.incident: a for a in acks}
        notes = due_notifications(incidents, self.told, self.receivers, [], now, acknowledgements=taken)
        for each in notes:
            self.told.add(each)
        self.notes = notes
        return [(n.receiver, n.reason, tuple(i.id for i in n.incidents)) for n in notes]


def test_the_next_in_line_is_reported_when_it_is_not_acknowledged():
    world, fault = World(OPS, NEXT), incident()
    assert world.plan(T0 + 1, fault) == [("ops", "new incident", ("i-1",))]
    assert world.plan(T0 + 899, fault) == []
    assert world.plan(T0 + 900, fault) == [("next", "not acknowledged for 15m", ("i-1",))]
    ended = replace(fault, status="resolved", resolved=T0 + 950, revision=2)
    assert {r for r, _, _ in world.plan(T0 + 950, ended)} == {"ops", "next"}


def test_who_takes_it_on_stops_the_line_and_the_reminders():
    world, fault = World(OPS, NEXT), incident()
    world.plan(T0, fault)
    ack = acknowledgement(fault, T0 + 60, "mara", "on it")
    for now in (T0 + 1000, T0 + 5 * 3600):
        assert world.plan(now, fault, acks=[ack]) == []
    assert world.plan(T0 + 5 * 3600, fault) != []  # withdrawn


def test_it_does_not_hold_when_it_becomes_worse_or_begins_anew():
    world, fault = World(OPS, NEXT), incident()
    world.plan(T0, fault)
    ack = acknowledgement(fault, T0 + 60, "mara", "")
    worse = replace(fault, severity=Severity.CRITICAL, revision=2)
    assert ("ops", "severity rose", ("i-1",)) in world.plan(T0 + 100, worse, acks=[ack])
    assert ("next", "not acknowledged for 15m", ("i-1",)) in world.plan(T0 + 1000, worse, acks=[ack])
    again = replace(fault, since=T0 + 2000, history=(*fault.history, HistoryEntry(T0 + 2000, "reopened", "")))
    assert not ack.covers(again)
    assert not ack.covers(replace(fault, status="resolved"))


def test_who_wants_to_know_is_notified_once_of_an_acknowledgement():
    world, fault = World(CHAT), incident()
    world.plan(T0, fault)
    ack = acknowledgement(fault, T0 + 60, "mara", "cable is ordered")
    assert world.plan(T0 + 61, fault, acks=[ack]) == [("chat", "acknowledged", ("i-1",))]
    word = acknowledgement_in(world.notes[0].incidents[0])
    assert word is not None
    assert word.reason == "by mara: cable is ordered"
    assert world.plan(T0 + 62, fault, acks=[ack]) == []
    assert world.plan(T0 + 90, fault, acks=[replace(ack, at=T0 + 80, author="jon")]) != []


@pytest.mark.parametrize(("author", "comment"), [("x" * 1025, ""), ("", "y" * 1025)])
def test_words_have_an_end(author, comment):
    with pytest.raises(AcknowledgementError):
        acknowledgement(incident(), T0, author, comment)


def test_what_has_ended_cannot_be_taken_on():
    with pytest.raises(AcknowledgementError, match="ended"):
        acknowledgement(incident(status="resolved"), T0, "mara", "")


def test_a_digest_gathers_what_is_due_and_lets_critical_pass():
    world = World(Receiver("mail", digest=600.0))
    a, b, c = incident("a"), incident("b"), incident("c")
    assert world.plan(T0, a) == [("mail", "new incident", ("a",))]
    assert world.plan(T0 + 60, a, b) == []
    assert world.plan(T0 + 120, a, b, c) == []
    grave = incident("d", severity=Severity.CRITICAL)
    assert world.plan(T0 + 130, a, b, c, grave) == [("mail", "new incident", ("d",))]
    # Ten minutes after the last message that was not critical: critical ones must not hold a digest back.
    assert world.plan(T0 + 599, a, b, c, grave) == []
    assert world.plan(T0 + 600, a, b, c, grave) == [("mail", "digest", ("b", "c"))]


def test_a_digest_goes_on_after_a_restart():
    world = World(Receiver("mail", digest=600.0))
    world.plan(T0, incident("a"))
    world.told = LastNotifications(list(world.told))
    assert world.plan(T0 + 60, incident("a"), incident("b")) == []
