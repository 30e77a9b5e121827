"""Keys of notifications: made of content, so that two servers that see one fleet send the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Impact, Incident, JobImpact, JobVerdict, Members, Notification, Severity
from fabricmon.notify.acknowledge import acknowledgement
from fabricmon.notify.identity import incident_key
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, due_notifications, incident

OPS = Receiver("ops", repeat=600.0)


def ended(i: Incident, at: float) -> Incident:
    return replace(i, status="resolved", resolved=at, updated=at, revision=i.revision + 1)


class Server:
    """One server's plan. `late` seconds after the other it ticks, and as much later its revisions begin."""

    def __init__(self, late: float = 0.0) -> None:
        self.late, self.told = late, LastNotifications()
        self.sent: list[Notification] = []

    def sees(self, *incidents: Incident, at: float) -> None:
        seen = [replace(i, revision=i.revision + int(self.late), updated=i.updated + self.late) for i in incidents]
        for note in due_notifications(seen, self.told, [OPS], [], at + self.late):
            self.told.add(note)
            self.sent.append(note)

    def states(self) -> list[str]:
        return [note.states[i.id].key for note in self.sent for i in note.incidents]


def life() -> list[tuple[float, Incident]]:
    """An incident that rises, is repeated, ends and comes back."""
    one = incident()
    worse = replace(one, severity=Severity.CRITICAL, revision=2)
    back = replace(one, since=T0 + 5000, revision=4)
    over = ended(worse, T0 + 1500)
    steps = [(1.0, one), (30.0, worse), (700.0, worse), (1400.0, worse), (1500.0, over), (5001.0, back)]
    return [(T0 + at, i) for at, i in steps]


def test_servers_that_tick_at_different_times_send_the_same_keys() -> None:
    first, second = Server(), Server(late=7.3)
    for at, i in life():
        first.sees(i, at=at)
        second.sees(i, at=at)
    assert len(first.sent) == 6
    assert [n.key for n in first.sent] == [n.key for n in second.sent]
    assert len({n.key for n in first.sent}) == 6, "a reminder and a later episode have keys of their own"


def test_a_server_that_started_while_it_fired_gives_its_state_the_same_key() -> None:
    first, late = Server(), Server(late=0.4)
    one = incident()
    first.sees(one, at=T0 + 1)
    found_later = replace(one, since=T0 + 75, history=(HistoryEntry(T0 + 75, "opened", "found at the start"),))
    late.sees(found_later, at=T0 + 76)
    first.sees(ended(one, T0 + 90), at=T0 + 90)
    late.sees(ended(found_later, T0 + 90), at=T0 + 90)
    assert first.states() == late.states()
    assert [n.key for n in first.sent] != [n.key for n in late.sent], "it may be another episode; see docs/webhook.md"


def test_a_notification_of_the_same_incidents_has_one_key_in_any_order() -> None:
    a, b = incident("a"), incident("b", since=T0 + 3)
    one, other = Server(), Server()
    one.sees(a, b, at=T0 + 4)
    other.sees(replace(a, since=T0 + 3.1), replace(b, since=T0 + 0.1), at=T0 + 4)
    assert [i.id for i in one.sent[0].incidents] != [i.id for i in other.sent[0].incidents]
    assert one.sent[0].key == other.sent[0].key


def test_two_episodes_within_one_minute_have_two_keys() -> None:
    server, one = Server(), incident()
    for n in range(4):
        again = replace(one, since=T0 + 4 * n, revision=2 * n + 1)
        server.sees(again, at=T0 + 4 * n + 1)
        server.sees(ended(again, T0 + 4 * n + 2), at=T0 + 4 * n + 2)
    assert len({n.key for n in server.sent}) == 8


@given(st.lists(st.floats(-7200.0, 7200.0), min_size=2, max_size=8))
def test_no_two_episodes_have_one_key_whatever_their_onsets(onsets: list[float]) -> None:
    """An older symptom may be part of a later episode, and a clock may be set back."""
    server = Server()
    for n, onset in enumerate(onsets):
        again = incident(since=T0 + onset, revision=2 * n + 1)
        server.sees(again, at=T0 + 7200.0 + 4 * n)
        server.sees(ended(again, T0 + 7200.0 + 4 * n + 2), at=T0 + 7200.0 + 4 * n + 2)
    assert len({n.key for n in server.sent}) == 2 * len(onsets)


CHANGES = {
    "id": {"id": "i-2"},
    "status": {"status": "resolved", "resolved": T0 + 9},
    "kind": {"kind": "link_down"},
    "component": {"component": "link(host-007/mlx5_3/1, leaf-3/12)"},
    "severity": {"severity": Severity.CRITICAL},
    "parts": {"parts": ("host-007/mlx5_3/1", "host-008/mlx5_3/1")},
    "members": {"members": Members(2, 2)},
    "jobs": {
        "impact": Impact(
            "known", "slurm", T0,
            (JobImpact("7", "t", "u", "slurm", JobVerdict.CRASH, "down", ("host-007",), 1, 2, T0),), 1,
        )
    },
}  # fmt: skip
SAME = {
    "evidence": {"evidence": ()},
    "words": {"title": "x", "why": "y", "action": "z", "confidence": 0.1},
    "times": {"updated": T0 + 50.0, "revision": 99, "history": ()},
    "labels": {"labels": {"rack": "r8"}},
}


@given(st.sampled_from([*CHANGES, *SAME]))
def test_what_makes_a_key(what: str) -> None:
    changed = replace(incident(), **{**CHANGES, **SAME}[what])
    assert (incident_key(changed) == incident_key(incident())) == (what in SAME)


def test_names_of_a_fabric_that_are_not_unicode_have_a_key() -> None:
    Server().sees(incident(parts=("host\udcff/1",)), at=T0 + 1)


def test_an_acknowledgement_that_is_replaced_has_a_key_of_its_own() -> None:
    chat, told, i = Receiver("chat", acknowledged=True), LastNotifications(), incident()
    keys = []
    for at in (1.0, 2.0, 3.0):
        acks = {i.id: acknowledgement(i, T0 + at, "mara", "")} if at > 1.0 else {}
        for note in due_notifications([i], told, [chat], [], T0 + at, acknowledgements=acks):
            told.add(note)
            keys.append(note.key)
    assert len(set(keys)) == 3
