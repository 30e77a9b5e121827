"""The message budget of a receiver: what is over waits and comes in a digest, critical first, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Incident, Members, Notification, Severity
from fabricmon.notify.batch import DIGEST, MAX_DIGEST
from fabricmon.notify.due import owed_resolutions, plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.matchers import parse
from fabricmon.notify.pacing import PERIOD, Pacing, Withheld
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, silence
from tests.notify.made import T0, incident

OPS = Receiver("ops", repeat=0.0, budget=6, join=60.0)
PLANS = 5.0  # seconds between two plans
LAG = 0.2  # of a receiver's answer


def ended(i: Incident, at: float) -> Incident:
    history = (*i.history, HistoryEntry(at, "resolved", ""))
    return replace(i, status="resolved", resolved=at, updated=at, revision=i.revision + 1, history=history)


def critical(id: str, **changes: object) -> Incident:
    return incident(id, severity=Severity.CRITICAL, **changes)


class Site:
    """A server and its receivers in simulated time. A receiver in `down` answers nothing."""

    def __init__(self, *receivers: Receiver) -> None:
        self.receivers, self.now = receivers, T0
        self.told, self.pacing = LastNotifications(), Pacing()
        self.world: dict[str, Incident] = {}
        self.silences: list[Silence] = []
        self.down: set[str] = set()
        self.queued: list[Notification] = []
        self.heard: list[tuple[float, Notification]] = []
        self.waits: dict[tuple[str, str], Withheld] = {}
        self.released: list[Withheld] = []

    def see(self, *incidents: Incident) -> list[Notification]:
        """The notifications that are planned at once."""
        self.world.update((i.id, i) for i in incidents)
        return self.plan()

    def plan(self) -> list[Notification]:
        given = [i for i in self.world.values() if i.status == "firing"]
        given += [self.world[id] for id in owed_resolutions(self.told, given, self.receivers, self.pacing)]
        plan = plan_notifications(given, self.told, self.receivers, self.silences, self.now, pacing=self.pacing)
        for note in plan.notifications:
            self.told.add(note)
            self.pacing.add(note)
            for i in note.incidents:
                self.waits.pop((note.receiver, i.id), None)
        self.pacing.withhold(plan.withheld, plan.released)
        self.waits.update({(w.receiver, w.incident): w for w in plan.withheld})
        for entry in plan.released:
            self.waits.pop((entry.receiver, entry.incident), None)
        self.released += plan.released
        self.queued += plan.notifications
        return plan.notifications

    def deliver(self) -> None:
        for note in [n for n in self.queued if n.receiver not in self.down]:
            self.queued.remove(note)
            self.heard.append((self.now, note))
            self.pacing.answered(note, self.now)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + PLANS)
            self.plan()
            self.now += LAG
            self.deliver()

    def restart(self) -> None:
        """What the store has: last notifications, the outbox, what waits."""
        sent = [item for known in self.pacing._sent.values() for item in known.values()]
        self.told, self.pacing = LastNotifications(list(self.told)), Pacing(sent, self.waits.values())

    def last(self) -> set[tuple[str, str, str]]:
        """Receiver, incident and the status that the receiver was told last, of incidents that are in this status."""
        states = {(n.receiver, i.id): i.status for _, n in self.heard for i in n.incidents}
        return {(r, id, status) for (r, id), status in states.items() if self.world[id].status == status}

    def told_of(self, receiver: str = "ops") -> list[tuple[str, str]]:
        return [(i.id, i.status) for _, n in self.heard if n.receiver == receiver for i in n.incidents]


def most_in_a_period(heard: Sequence[tuple[float, Notification]], receiver: str) -> int:
    times = [(at, n.messages) for at, n in heard if n.receiver == receiver]
    return max((sum(m for at, m in times if start <= at < start + PERIOD) for start, _ in times), default=0)


def test_what_fits_is_sent_at_once_and_one_by_one() -> None:
    site = Site(OPS)
    for n, kind in enumerate(["agent_silent", "agent_silent", "link_down", "link_down", "link_flapping"]):
        (note,) = site.see(incident(f"i-{n}", kind=kind))
        assert (note.reason, note.created, note.waiting) == ("new incident", site.now, 0)
        site.now += 1.0


def test_a_sort_that_had_many_messages_waits_before_one_that_had_few() -> None:
    """Measured before: a link that went down waited for two minutes, as five agents had fallen silent one by one."""
    site = Site(OPS)
    for n in range(7):
        site.see(incident(f"i-{n}", kind="agent_silent"))
        site.run(10)
    assert [len(n.incidents) for _, n in site.heard] == [1] * 4, "one is left, and one for critical ones"
    site.restart()
    (note,) = site.see(incident("down", kind="link_down"))
    assert {i.id for i in note.incidents} == {"down", "i-4", "i-5", "i-6"}, "it takes along what waits"
    site.run(10)
    assert site.see(incident("flaps", kind="link_flapping")) == [], "the last message is for critical ones"
    (note,) = site.see(critical("grave"))
    assert {i.id for i in note.incidents} == {"grave", "flaps"}


def test_after_a_critical_incident_the_others_share_what_was_kept_for_it() -> None:
    site = Site(OPS)
    site.see(critical("leaf", kind="fault_domain", component="leaf(su0/rail4)"))
    for n in range(5):
        site.see(incident(f"i-{n}", kind="agent_silent"))
        site.run(10)
    assert len(site.heard) == 5, "four of a kind"
    other = incident("module", kind="fault_domain", component="module(su0/rail1/5-6)")
    (note,) = site.see(other)
    assert {i.id for i in note.incidents} == {"module", "i-4"}, "another word is another sort of fault domain"
    assert site.see(incident("flaps", kind="link_flapping")) == []
    site.deliver()
    assert most_in_a_period(site.heard, "ops") == OPS.budget


def test_a_sort_is_counted_once_a_message_and_forgotten_after_five_minutes() -> None:
    site = Site(OPS)
    site.see(*[incident(f"i-{n}") for n in range(9)])
    site.run(10)
    for id in ("x", "y", "z"):
        assert len(site.see(incident(id))) == 1, "nine incidents in one message are one"
        site.run(10)
    assert site.see(incident("late")) == []
    site.run(PERIOD - 35)
    assert site.told_of()[-1] == ("late", "firing")


def test_messages_about_ends_do_not_count_for_a_sort() -> None:
    """Agents that were restarted were why a host that died waited."""
    site = Site(OPS)
    site.see(critical("i-0", kind="link_down"))
    site.run(10)
    site.see(ended(site.world["i-0"], site.now))
    site.run(10)
    for n in (1, 2, 3):
        assert len(site.see(incident(f"i-{n}", kind="link_down"))) == 1
        site.run(10)
    assert site.see(incident("i-4", kind="link_down")) == []
    assert len(site.see(incident("flaps", kind="link_flapping"))) == 1


def test_what_is_over_comes_in_one_digest_within_five_minutes() -> None:
    site = Site(OPS)
    for n in range(12):
        site.see(incident(f"i-{n:02}"))
        site.run(10)
    site.see(ended(site.world["i-00"], site.now))
    site.run(PERIOD)
    singles, (at, digest), *more = site.heard[:4], site.heard[4], *site.heard[5:]
    assert [len(n.incidents) for _, n in singles] == [1] * 4
    assert digest.reason == DIGEST
    assert [i.id for i in digest.incidents] == [*(f"i-{n:02}" for n in range(4, 12)), "i-00"]
    assert digest.incidents[-1].status == "resolved"
    assert at - T0 <= PERIOD + 20
    assert more == []


def test_what_ends_leaves_the_budget_to_what_fires() -> None:
    site = Site(OPS)
    for n in range(3):
        site.see(incident(f"i-{n}"))
        site.run(10)
    for n in range(3):
        assert site.see(ended(site.world[f"i-{n}"], site.now)) == [], "messages are in use"
        site.run(10)
    for n, kind in ((3, "link_errors"), (4, "link_down")):
        (note,) = site.see(incident(f"i-{n}", kind=kind))
        assert (note.reason, note.waiting) == ("new incident", 3)
        site.run(10)
    site.run(PERIOD)
    (at, last), *more = site.heard[5:]
    assert ([i.id for i in last.incidents], last.reason) == (["i-0", "i-1", "i-2"], DIGEST)
    assert at - T0 <= PERIOD + 40
    assert more == []


def test_the_end_of_what_was_critical_comes_at_once_in_the_first_half_of_the_budget() -> None:
    site = Site(OPS)
    for n, made in enumerate((1, 0, 0)):
        site.see(critical(f"i-{n}"))
        site.run(5)
        assert len(site.see(ended(site.world[f"i-{n}"], site.now))) == made
        site.run(5)
    site = Site(OPS)
    site.see(incident("warning"))
    site.run(PERIOD + 10)
    assert len(site.see(ended(site.world["warning"], site.now))) == 1, "none is in use any more"


def test_what_ends_joins_a_message_that_lists_several() -> None:
    site = Site(OPS)
    for n in range(4):
        site.see(incident(f"i-{n}"))
    site.see(ended(site.world["i-0"], site.now))
    (note,) = site.see(incident("i-8", kind="link_down"), incident("i-9", kind="link_down"))
    assert [(i.id, i.status) for i in note.incidents] == [("i-8", "firing"), ("i-9", "firing"), ("i-0", "resolved")]
    assert (note.reason, note.waiting) == (DIGEST, 0)


def test_what_is_now_part_of_another_comes_with_the_message_about_that() -> None:
    site = Site(OPS)
    site.see(incident("i-link"))
    part = ended(site.world["i-link"], site.now)
    (note,) = site.see(replace(part, labels={**part.labels, "absorbed_by": "i-leaf"}), critical("i-leaf"))
    assert [(i.id, i.status) for i in note.incidents] == [("i-leaf", "firing"), ("i-link", "resolved")]
    assert note.reason == "new incident"


def test_what_ends_waits_two_periods_at_most() -> None:
    site = Site(OPS)
    for n in range(3):
        site.see(incident(f"i-{n}"))
    site.see(ended(site.world["i-0"], site.now))
    since = site.now
    for n in range(3, 40):  # never more than five in a period, never less than three
        site.run(70.0)
        site.see(incident(f"i-{n}"))
    (at,) = [at for at, note in site.heard if any(i.status == "resolved" for i in note.incidents)]
    assert at - since <= 2 * PERIOD


def test_a_critical_incident_has_a_message_left_and_takes_along_what_waits() -> None:
    site = Site(OPS)
    for n in range(8):
        site.see(incident(f"i-{n}"))
        site.run(10)
    (note,) = site.see(critical("grave"))
    # critical first, then the oldest
    assert [i.id for i in note.incidents] == ["grave", *(f"i-{n}" for n in range(4, 8))]
    (note,) = site.see(critical("second"))
    assert [i.id for i in note.incidents] == ["second"]
    site.run(1)
    assert site.see(critical("third")) == [], "seven messages are too many even then"
    site.run(PERIOD)
    assert site.told_of()[-1] == ("third", "firing")


def test_an_incident_that_ends_while_it_waits_is_told_all_the_same() -> None:
    site = Site(OPS)
    for n in range(7):
        site.see(incident(f"i-{n}"))
    site.run(5)
    site.see(ended(site.world["i-6"], site.now))
    site.restart()
    site.run(PERIOD + 10)
    told = [i for _, n in site.heard for i in n.incidents if i.id == "i-6"]
    assert [i.status for i in told] == ["resolved"]
    assert site.waits == {}


def test_what_is_silenced_or_became_part_of_a_larger_incident_while_it_waited_is_not_told() -> None:
    site = Site(OPS)
    for n in range(9):
        site.see(incident(f"i-{n}"))
    leaf = critical("leaf", kind="fault_domain", parts=("a", "b"))
    site.see(leaf)
    site.run(1)
    assert {id for _, id in site.waits} == set(), "the digest of the critical one took them along"
    for n in (20, 21, 22):
        site.see(incident(f"i-{n}"))
    site.silences.append(silence("s", ["id=i-20"], site.now - 1, site.now + 5000, "me"))
    absorbed = replace(ended(site.world["i-21"], site.now), labels={"absorbed_by": "leaf"})
    site.see(ended(site.world["i-20"], site.now), absorbed)
    site.run(PERIOD + 10)
    assert {w.incident for w in site.released} == {"i-20", "i-21"}
    assert ("i-22", "firing") in site.told_of()


def test_what_waits_of_an_incident_that_no_longer_exists_is_released() -> None:
    lost = Withheld("ops", "lost", T0)
    plan = plan_notifications([], LastNotifications(), [OPS], [], T0 + 1, pacing=Pacing(withheld=[lost]))
    assert plan.released == [lost]


def test_rises_of_one_incident_within_a_minute_are_one_message() -> None:
    site, one = Site(OPS), incident(kind="link_degraded")
    site.see(one)
    site.run(10)
    site.see(replace(one, kind="link_errors", revision=2))
    site.run(10)
    site.see(replace(one, kind="link_flapping", component="link(host-007/mlx5_3/1, leaf-3/12)", revision=3))
    site.run(60)
    assert [(n.reason, n.incidents[0].kind) for _, n in site.heard] == [
        ("new incident", "link_degraded"),
        ("cause sharpened", "link_flapping"),
    ]
    assert 60 <= site.heard[1][1].created - site.heard[0][1].created <= 60 + PLANS + LAG


def test_a_rise_to_critical_and_an_end_do_not_wait_for_further_rises() -> None:
    site, one = Site(OPS), incident()
    site.see(one)
    site.now += 5.0
    (note,) = site.see(replace(one, severity=Severity.CRITICAL, revision=2))
    assert note.reason == "severity rose"
    site.now += 5.0
    (note,) = site.see(ended(site.world["i-1"], site.now))
    assert note.reason == "resolved"


def test_a_digest_is_bounded_and_counts_what_is_left_for_the_next() -> None:
    site = Site(replace(OPS, each=1000))
    site.see(*[incident(f"i-{n:03}") for n in range(250)])
    site.deliver()
    assert [(n.reason, len(n.incidents), n.messages) for _, n in site.heard] == [
        ("new incident", 2, 2),
        (DIGEST, MAX_DIGEST, 1),
    ]
    assert site.heard[-1][1].waiting == 250 - 2 - MAX_DIGEST
    site.run(3 * PERIOD)
    assert len(set(site.told_of())) == 250


def test_a_receiver_that_was_away_gets_no_more_than_its_budget_when_it_is_back() -> None:
    site = Site(OPS)
    site.down = {"ops"}
    for n in range(40):
        site.see(incident(f"i-{n:02}"))
        site.run(60)
    site.down = set()
    site.run(PERIOD + 30)
    assert most_in_a_period(site.heard, "ops") <= OPS.budget
    assert {id for id, _ in site.told_of()} == {f"i-{n:02}" for n in range(40)}


def test_a_clock_that_is_set_back_delays_by_one_period_at_most() -> None:
    site = Site(replace(OPS, budget=1))
    site.see(incident("a"))
    site.run(10)
    site.now -= 7200.0
    site.see(incident("b", since=site.now))
    site.run(PERIOD + 2 * PLANS)
    assert ("b", "firing") in site.told_of()


def test_without_a_budget_nothing_waits() -> None:
    site = Site(replace(OPS, budget=0))
    for n in range(50):
        (note,) = site.see(incident(f"i-{n}"))
        assert len(note.incidents) == 1


def test_a_receiver_that_waits_does_not_hold_up_another() -> None:
    site = Site(replace(OPS, budget=1), Receiver("other", repeat=0.0))
    site.see(*[incident(f"i-{n:04}") for n in range(2500)])
    for _ in range(5):
        site.plan()
    site.deliver()
    assert len(site.told_of("other")) == 2500


@pytest.mark.parametrize("every", [60.0, 3000.0])
def test_a_digest_comes_however_many_critical_incidents_there_are(every: float) -> None:
    """Measured before: one critical incident every 50 minutes held a warning back for 24 hours."""
    site = Site(replace(OPS, digest=3600.0, budget=0))
    site.see(incident("first"))
    site.run(10)
    site.see(incident("second"))
    begun = site.now
    for n in range(int(2 * 3600 / every)):
        site.see(critical(f"c-{n}"))
        site.run(every)
    heard = [at for at, n in site.heard if any(i.id == "second" for i in n.incidents)]
    assert len(heard) == 1
    assert heard[0] - begun <= 3600 + PLANS + LAG


RECEIVERS = [
    OPS,
    Receiver("mail", repeat=0.0, budget=3, each=3, digest=900.0, join=60.0),
    Receiver("pager", repeat=0.0, min_severity=Severity.CRITICAL, budget=2, each=1000, join=60.0),
    Receiver("quiet", repeat=0.0, matchers=(parse("rack=r7"),), send_resolved=False, budget=1),
    Receiver("all", repeat=0.0),
]
_STEP = st.tuples(
    st.sampled_from(["fire", "end", "worse", "sharpen", "silence", "restart", "down", "up", "burst"]),
    st.integers(0, 7),
    st.sampled_from([0.0, 5.0, 40.0, 250.0]),
)


def play(site: Site, steps: list[tuple[str, int, float]]) -> None:
    """i-0 is a leaf that has the members of i-1 to i-3, in another rack."""
    for what, which, pause in steps:
        id, now = f"i-{which}", site.now
        old = site.world.get(id)
        live = old is not None and old.status == "firing"
        revision = old.revision + 1 if old else 1
        match what:
            case "fire" if not live:
                parts = ("p-1", "p-2", "p-3", "p-4") if which == 0 else (f"p-{which}",)
                site.see(
                    incident(
                        id, since=now, revision=revision, parts=parts, members=Members(len(parts), 4),
                        kind="fault_domain" if which == 0 else "link_degraded",
                        labels={"rack": "r9" if which == 0 else "r7"}, history=(HistoryEntry(now, "opened", ""),),
                        severity=Severity.CRITICAL if which == 0 else Severity.WARNING,
                    )
                )  # fmt: skip
            case "end" if live:
                site.see(ended(old, now))
            case "worse" if live:
                site.see(replace(old, severity=Severity.CRITICAL, revision=revision))
            case "sharpen" if live and which:
                site.see(replace(old, kind="link_flapping", revision=revision))
            case "silence":
                site.silences.append(silence(f"s-{len(site.silences)}", [f"id={id}"], now, now + 100.0, "me"))
            case "restart":
                site.restart()
            case "down" | "up":
                getattr(site.down, "add" if what == "down" else "discard")(RECEIVERS[which % len(RECEIVERS)].name)
            case "burst":
                site.see(*[incident(f"b-{len(site.world)}-{n}", since=now) for n in range(which)])
        site.run(pause)


@example([("fire", 1, 0.0), ("end", 1, 0.0), ("fire", 1, 0.0)])
@example([("fire", 1, 0.0), ("worse", 1, 0.0), ("end", 1, 0.0), ("fire", 1, 0.0)])
@example([("fire", 0, 0.0), ("fire", 5, 0.0), ("worse", 5, 0.0), ("end", 5, 5.0), ("fire", 5, 0.0)])
@given(st.lists(_STEP, max_size=30))
def test_whatever_happens_no_receiver_gets_too_much_too_late_or_nothing(steps: list[tuple[str, int, float]]) -> None:
    site = Site(*RECEIVERS)
    play(site, steps)
    site.down = set()
    site.run(200.0)  # silences are over, queues are empty
    site.run(max(r.digest for r in RECEIVERS) + 2 * PERIOD)

    # A link that waited when the leaf was sent is inhibited; it is due again if the leaf ends first.
    with_leaf = [r.name for r in RECEIVERS if (r.name, "i-0", "firing") in site.last()]
    inhibited = {(name, f"i-{n}") for name in with_leaf for n in (1, 2, 3, 4)}
    assert set(site.waits) <= inhibited, "nothing else waits longer than a digest and the budget's period"
    keys = [n.key for _, n in site.heard]
    assert len(set(keys)) == len(keys), "no key twice"
    for receiver in RECEIVERS:
        if receiver.budget:
            assert most_in_a_period(site.heard, receiver.name) <= receiver.budget
        last = {i.id: i for _, n in site.heard if n.receiver == receiver.name for i in n.incidents}
        leaf = last.get("i-0")
        told_of_leaf = leaf is not None and leaf.status == "firing" and site.world["i-0"].status == "firing"
        for i in site.world.values():
            if i.status == "firing" and receiver.takes(i):
                inhibited = told_of_leaf and i.id in ("i-1", "i-2", "i-3", "i-4")
                assert inhibited or (i.id in last and last[i.id].status == "firing")
            elif i.status != "firing" and i.id in last and receiver.send_resolved:
                assert last[i.id].status == i.status


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 3.0, 70.0])), max_size=40), st.integers(1, 6))
def test_what_is_due_is_told_in_time_and_critical_first(arrivals: list[tuple[bool, float]], budget: int) -> None:
    site = Site(replace(OPS, budget=budget))
    due: dict[str, float] = {}
    for n, (grave, pause) in enumerate(arrivals):
        due[f"i-{n}"] = site.now
        made = site.see((critical if grave else incident)(f"i-{n}", since=site.now))
        sent = {i.id for note in made for i in note.incidents}
        grave_waits = any(site.world[w].severity is Severity.CRITICAL for _, w in site.waits)
        assert not (grave_waits and sent), "while a critical one waits, no other is sent"
        for note in made:
            grades = [i.severity.rank for i in note.incidents]
            assert grades == sorted(grades, reverse=True)
            assert note.waiting == len(site.waits)
        site.run(pause)
    site.run(PERIOD + 2 * PLANS)
    heard = {i.id: at for at, n in site.heard for i in n.incidents}
    assert set(heard) == set(due)
    assert all(heard[id] - due[id] <= PERIOD + 2 * (PLANS + LAG) for id in due)
    assert most_in_a_period(site.heard, "ops") <= budget
