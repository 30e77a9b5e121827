"""Limits of notifications and actions, met exactly: what happens at the limit and right beside it."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from fabricmon.model import Impact, Incident, JobImpact, JobVerdict, Presence, Severity
from fabricmon.notify import last_notification, message_fields
from fabricmon.notify.acting import ActedNode, Deed, Terms, decide
from fabricmon.notify.batch import DIGEST, MAX_DIGEST, DueIncident, batches, messages
from fabricmon.notify.due import plan_notifications
from fabricmon.notify.last_notification import CRITICAL, LastNotifications, sort_of
from fabricmon.notify.links import NO_LINKS
from fabricmon.notify.message_fields import MOST_LINES, MOST_NAMES, field_values, jobs_text, listed, plain
from fabricmon.notify.node_condition import HEALTHY, MAX_MESSAGE, node_conditions
from fabricmon.notify.pacing import MAX_WITHHELD, PERIOD, Pacing, SentNotification, Withheld
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, incident, note
from tests.notify.test_acting import fault, nodes

NOW = T0 + 1000.0
TERMS = Terms(kinds=("nic_fault",), confidence=0.9, hold=60.0, calm=600.0, per_hour=2, undo=True)

# --- actions on nodes


@pytest.mark.parametrize(
    ("change", "acts"),
    [
        ({"confidence": 0.9}, True),
        ({"confidence": 0.8999}, False),
        ({"since": NOW - 60.0}, True),
        ({"since": NOW - 59.9}, False),
    ],
)
def test_a_fault_is_acted_on_from_the_limit_on(change: dict[str, float], acts: bool) -> None:
    assert bool(decide(TERMS, [fault("n7", **change)], set(), nodes(), (), {}, (), NOW).act) is acts


def test_an_action_of_exactly_an_hour_ago_no_longer_counts() -> None:
    def acted(*ago: float) -> int:
        deeds = [Deed("slurm", f"x{n}", "drain", "i", NOW - at) for n, at in enumerate(ago)]
        return len(decide(TERMS, [fault("n7"), fault("n8")], set(), nodes(), (), {}, deeds, NOW).act)

    assert [acted(), acted(3599.9), acted(3599.9, 3600.0), acted(3599.9, 3599.9)] == [2, 1, 1, 0]


def test_as_many_actions_as_are_allowed_stand_at_once() -> None:
    held = [ActedNode("n1", "a"), ActedNode("n2", "b")]
    assert len(decide(TERMS, [fault("n7")], set(), nodes(599), held, {}, (), NOW).act) == 0  # 0.5 %: two
    assert len(decide(TERMS, [fault("n7")], set(), nodes(600), held, {}, (), NOW).act) == 1  # three


@pytest.mark.parametrize(("calm", "undone"), [(599.9, False), (600.0, True)])
def test_an_action_is_reversed_from_the_limit_on(calm: float, undone: bool) -> None:
    over = fault("n7", status="resolved", resolved=NOW - calm)
    assert bool(decide(TERMS, [over], set(), nodes(), [ActedNode("n7", "i-n7")], {}, (), NOW).undo) is undone


# --- when


def planned(
    gap: float, receiver: Receiver, severity: Severity = Severity.WARNING, before: Severity = Severity.WARNING
) -> list[str]:
    """Reasons of what is planned `gap` seconds after the first notification, when another kind is known."""
    told, one = LastNotifications(), incident(kind="link_degraded", severity=before)
    for sent in plan_notifications([one], told, [receiver], [], T0).notifications:
        told.add(sent)
    news = replace(one, kind="link_errors", severity=severity, revision=2)
    return [n.reason for n in plan_notifications([news], told, [receiver], [], T0 + gap).notifications]


def test_further_rises_join_for_the_time_that_is_set() -> None:
    ops = Receiver("ops", repeat=0.0, join=60.0)
    assert [planned(gap, ops) for gap in (0.0, 59.9, 60.0)] == [[], [], ["cause sharpened"]]
    assert planned(-1.0, ops) == ["cause sharpened"], "a clock that was set back holds nothing up"
    assert planned(1.0, ops, Severity.CRITICAL) == ["severity rose"]
    assert planned(1.0, ops, Severity.CRITICAL, Severity.CRITICAL) == [], "it was critical when it was sent"


def test_a_message_counts_for_exactly_a_period() -> None:
    pacing = Pacing([SentNotification("k", "ops", 3, T0), SentNotification("open", "ops", 1, None)])
    assert [pacing.used("ops", T0 + PERIOD - 0.1), pacing.used("ops", T0 + PERIOD)] == [4, 1]
    assert pacing.used("other", T0) == 0


def test_so_many_incidents_wait_at_most() -> None:
    waiting = [Withheld("ops", f"i-{n}", T0) for n in range(3)]
    pacing = Pacing((), [*waiting, Withheld("other", "i-0", T0)])
    assert pacing.room() == MAX_WITHHELD - 4
    pacing.withhold((), waiting[:1])
    assert pacing.room() == MAX_WITHHELD - 3
    pacing.withhold([Withheld("ops", f"n-{n}", T0) for n in range(MAX_WITHHELD)], ())
    assert pacing.room() == 0
    assert pacing.incidents({"other", "absent"}) == {"i-0"}


# --- how many


def due(count: int, reason: str = "new incident", **changes: object) -> list[DueIncident]:
    return [DueIncident(incident(f"{reason}-{n}", **changes), reason, T0) for n in range(count)]


def sizes(receiver: Receiver, what: list[DueIncident], used: int = 0) -> list[tuple[str, int]]:
    return [(batch.reason, len(batch.due)) for batch in batches(receiver, what, used, T0)]


def test_a_notification_has_as_many_incidents_as_the_receiver_takes() -> None:
    ops = Receiver("ops", batch=3)
    assert sizes(ops, due(3)) == [("new incident", 3)]
    assert sizes(ops, due(4)) == [("new incident", 3), ("new incident", 1)]
    assert sizes(ops, due(2) + due(1, "resolved")) == [("new incident", 2), ("resolved", 1)]


def test_a_receiver_that_sends_each_incident_makes_that_many_messages_up_to_its_limit() -> None:
    ops = Receiver("ops", each=3)
    made = [batches(ops, due(count), 0, T0)[0] for count in (1, 3, 4)]
    assert [messages(ops, batch) for batch in made] == [1, 3, 1]
    assert messages(ops, made[1]._replace(reason=DIGEST)) == 1


@pytest.mark.parametrize(
    ("used", "sent"),
    [
        (0, [("a", 1), ("b", 1), ("c", 1)]),  # half of the five beside the reserve, rounded up
        (1, [("a", 1), (DIGEST, 2)]),
        (3, [(DIGEST, 3)]),
        (4, [(DIGEST, 3)]),
        (5, []),  # the last message is kept for critical ones
        (9, []),
    ],
)
def test_what_fits_the_budget_is_sent_and_the_rest_in_its_last_message(used: int, sent: list[tuple[str, int]]) -> None:
    assert sizes(Receiver("ops", budget=6), due(1, "a") + due(1, "b") + due(1, "c"), used) == sent


def test_critical_incidents_use_the_reserve_and_reminders_of_them_do_not() -> None:
    ops, one = Receiver("ops", budget=4), due(1, severity=Severity.CRITICAL)
    assert sizes(ops, one, 3) == [("new incident", 1)]
    assert sizes(ops, one, 4) == []
    assert sizes(ops, [one[0]._replace(reminder=True)], 3) == []
    assert sizes(Receiver("ops", budget=1), due(1), 0) == [("new incident", 1)], "a budget of one has no reserve"


@pytest.mark.parametrize("budget", [1, 2, 3, 6, 100])
def test_a_sort_has_two_messages_and_then_all_but_the_last(budget: int) -> None:
    """Used messages up to which a sort that was in `had` of them is sent, after a critical one and before."""
    incident = due(1)[0].incident
    sort = sort_of(incident.kind, incident.component)

    def until(recent: dict[str, int]) -> int:
        sent = [len(batches(Receiver("ops", budget=budget), due(1), used, T0, recent)) for used in range(budget + 2)]
        assert sent == sorted(sent, reverse=True)
        return sum(sent)

    reserve = 0 if budget == 1 else 1
    for had in (0, 1):
        assert until({sort: had, CRITICAL: 1}) == budget
        assert until({sort: had}) == budget - reserve
    for had in (2, 3, 4):
        assert until({sort: had, CRITICAL: 1}) == budget - 1
        assert until({sort: had}) == max(0, budget - reserve - 1)


def test_a_reminder_and_an_end_are_no_news() -> None:
    (one,) = due(1)
    over = one._replace(incident=replace(one.incident, status="resolved", resolved=T0), since=T0 - PERIOD)
    for item, made in ((one, 1), (one._replace(reminder=True), 0), (over, 0)):
        assert len(batches(Receiver("ops", budget=6), [item], 4, T0)) == made


def test_a_digest_lists_so_many_and_the_rest_waits() -> None:
    assert sizes(Receiver("ops", budget=2), due(MAX_DIGEST + 1, "a")[1:] + due(1, "b"), 0) == [(DIGEST, MAX_DIGEST)]
    daily = Receiver("ops", digest=60.0, batch=2)
    assert sizes(daily, due(MAX_DIGEST + 1)) == [(DIGEST, MAX_DIGEST), ("new incident", 1)]
    assert sizes(daily, due(3, severity=Severity.CRITICAL)) == [("new incident", 2), ("new incident", 1)]


def test_a_notification_that_does_not_fit_is_cut_and_its_rest_is_in_the_digest() -> None:
    """Five messages of one notification, room for three: two of it, and a digest of the rest."""
    assert sizes(Receiver("ops", budget=6, each=5), due(5)) == [("new incident", 2), (DIGEST, 3)]
    assert sizes(Receiver("ops", budget=6, each=5), due(3)) == [("new incident", 3)]


# --- how long


def test_a_text_of_the_greatest_length_stays_and_a_longer_one_is_cut() -> None:
    assert plain("x" * 20, 20) == "x" * 20
    assert plain("x" * 21, 20) == "x" * 19 + "…"
    assert plain("x" * 18 + " y z", 20) == "x" * 18 + "…", "no space before the end"
    assert plain("  a \n b\t", 20) == "a b"
    assert len(plain("\u202e" + "x" * 500, 20)) == 20


def test_as_many_lines_as_fit_and_then_a_count() -> None:
    assert listed(str(n) for n in range(MOST_LINES)).split("\n") == [str(n) for n in range(MOST_LINES)]
    more = listed(str(n) for n in range(MOST_LINES + 1)).split("\n")
    assert (len(more), more[-2:]) == (MOST_LINES, [str(MOST_LINES - 2), "and 2 more"])


def test_as_many_names_as_fit_and_then_a_count() -> None:
    def parts(count: int) -> str:
        one = incident(parts=tuple(f"h{n}/p" for n in range(count)))
        return field_values(one, note("k", one), NO_LINKS)["parts"]

    assert parts(MOST_NAMES) == ", ".join(f"h{n}/p" for n in range(MOST_NAMES))
    assert parts(MOST_NAMES + 1) == parts(MOST_NAMES) + " and 1 more"
    assert parts(0) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(86399, "23 h 59 min"), (86400, "1 d"), (90000, "1 d 1 h"), (3660, "1 h 1 min"), (7199, "1 h 59 min"),
     (math.inf, "")],
)  # fmt: skip
def test_a_duration_at_the_change_of_its_units(seconds: float, words: str) -> None:
    assert message_fields.duration(seconds) == words


@pytest.mark.parametrize(
    ("confidence", "words"), [(0.0, "0 %"), (0.9949, "99 %"), (0.995, "over 99 %"), (-math.inf, "")]
)
def test_a_confidence_is_never_certain(confidence: float, words: str) -> None:
    assert message_fields.percent(confidence) == words


def impact(state: str, total: int, *jobs: JobImpact) -> Impact:
    return Impact(state, "slurm", T0, jobs, total)


def job(id: str, name: str, user: str, gone: float | None = None) -> JobImpact:
    return JobImpact(id, name, user, "slurm", JobVerdict.SLOW, "", ("h",), 1, 2, T0, gone=gone)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, ""),
        (impact("known", 0), "none"),
        (impact("unknown", 0), "unknown: no answer of slurm for too long"),
        (replace(impact("unknown", 0), source=""), "unknown: no answer of the scheduler for too long"),
        (impact("known", 1, job("4711", "train", "mara")), "train (4711, mara) is slow, 1 of 2 nodes"),
        (impact("known", 1, job("train-1", "train", "")), "train-1 is slow, 1 of 2 nodes"),
        (impact("known", 1, job("7", "", "mara")), "7 (mara) is slow, 1 of 2 nodes"),
        (impact("known", 2, job("7", "", "")), "7 is slow, 1 of 2 nodes\nand 1 more"),
        (impact("partly", 1, job("7", "", "")),
         "7 is slow, 1 of 2 nodes\npossibly more: not every scheduler answered (slurm)"),
        (impact("known", 1, job("7", "", "", T0)), "7 is slow, 1 of 2 nodes; it is not listed any more"),
    ],
)  # fmt: skip
def test_the_affected_jobs_in_words(given: Impact | None, text: str) -> None:
    assert jobs_text(given) == text


# --- conditions of Kubernetes nodes


def condition(*incidents: Incident, presence: Presence = Presence.LIVE, patience: float = 60.0, **node: object):
    views = nodes(1, presence, **node)
    return node_conditions(incidents, views, Severity.CRITICAL, (), patience, T0 + 60.0)["n0"]


def test_a_node_is_faulty_from_the_severity_that_is_set() -> None:
    assert condition() == condition(fault("n0", severity=Severity.WARNING)) == HEALTHY
    assert condition(fault("n0", status="resolved")) == condition(fault("n9")) == HEALTHY
    found = condition(fault("n0", "b", since=T0 + 1), fault("n0", "a"), fault("n0", "c", since=T0 + 2))
    assert (found.status, found.reason) == ("False", "NicFault")
    assert found.message.startswith("Link flaps (incident a, and 2 more)")
    assert condition(fault("n0", "a")).message.startswith("Link flaps (incident a)")


def test_a_silent_node_is_unknown_when_the_patience_is_over() -> None:
    assert condition(presence=Presence.UNREACHABLE, patience=60.1) is None
    assert condition(presence=Presence.UNREACHABLE, patience=60.0).status == "Unknown"
    assert condition(fault("n0"), presence=Presence.UNREACHABLE).status == "False", "what is known counts"


def test_maintenance_comes_before_faults_and_a_doubt_after_them() -> None:
    assert condition(fault("n0"), maintenance="m-1").reason == "Maintenance"
    doubt = incident("d", kind="telemetry_quality", component="host(n0)", parts=("n0/mlx5_0/1",), labels={"node": "n0"})
    assert (condition(doubt).status, condition(doubt).reason) == ("Unknown", "TelemetryQuality")
    assert condition(doubt, fault("n0")).reason == "NicFault"


def test_a_condition_has_a_bounded_message() -> None:
    assert len(condition(fault("n0", title="x" * 5000)).message) == MAX_MESSAGE


# --- what is remembered


def test_of_more_than_is_remembered_the_tenth_that_ended_first_is_forgotten_and_nothing_that_fires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(last_notification, "MAX_REMEMBERED", 20)
    told = LastNotifications()
    for number in range(10):
        told.add(note(f"f{number}", incident(f"fires-{number}"), created=T0 + number))
    for number in range(10):
        over = incident(f"over-{number}", status="resolved", resolved=T0 + 100 + number)
        told.add(note(f"o{number}", over, created=T0 + 100 + number))
    assert len(told) == 20
    told.add(note("more", incident("more"), created=T0 + 200))
    left = {one.incident for one in told}
    assert left == {f"fires-{n}" for n in range(10)} | {f"over-{n}" for n in range(2, 10)} | {"more"}
