"""What an incident keeps of its episode, and when it changes, comes back and leaves: what receivers and people see."""

from __future__ import annotations

import pytest

from fabricmon.catalogue.kinds import kind_of
from fabricmon.engine.incidents.episode import incident_id, severest
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.restored import PartState
from fabricmon.engine.incidents.situation import REMEMBER, RESOLVED_MOST, Situation
from fabricmon.model import HistoryEntry, Impact, Incident, JobImpact, JobVerdict, Members, Severity
from tests.engine.test_situation_over_time import case, key, step


def changes(incident: Incident) -> list[str]:
    return [entry.change for entry in incident.history]


def impact(verdict: JobVerdict, answered: float = 0.0) -> Impact:
    job = JobImpact("1", "train", "mara", "slurm", verdict, "", ("host-1",), 1, 8, 50.0)
    return Impact("known", "slurm", answered, (job,), 1)


def test_an_incident_begins_with_its_draft() -> None:
    (made,) = step(Situation("lab"), 101.0, case(labels={"rail": "3"}, candidates=("nic(host-1/a)",)))
    assert made.id == incident_id("lab", "link", "link(host-1/a/1)")
    assert (made.status, made.severity, made.kind, made.since) == ("firing", Severity.WARNING, "link_down", 100.0)
    assert (made.updated, made.revision, made.resolved) == (101.0, 101, None)
    assert made.history == (HistoryEntry(101.0, "opened", "Link down"),)
    assert (made.labels, made.candidates, made.parts) == ({"rail": "3"}, ("nic(host-1/a)",), ("host-1/a/1",))


def test_severity_only_rises_and_each_rise_is_news() -> None:
    situation = Situation()
    (first,) = step(situation, 101.0, case(severity=Severity.INFO))
    (risen,) = step(situation, 102.0, case(severity=Severity.CRITICAL))
    assert (risen.severity, risen.revision, risen.updated) == (Severity.CRITICAL, first.revision + 1, 102.0)
    assert risen.history[-1] == HistoryEntry(102.0, "severity", "info rose to critical")
    assert step(situation, 103.0, case(severity=Severity.WARNING)) == []
    (now,) = situation.incidents(103.0)
    assert now.severity is Severity.CRITICAL


def test_more_members_are_in_its_history_and_no_news() -> None:
    situation = Situation()
    (first,) = step(situation, 101.0, case(members=Members(2, 8)))
    (more,) = step(situation, 102.0, case(members=Members(5, 8)))
    assert more.history[-1] == HistoryEntry(102.0, "members", "2 of 8 became 5 of 8")
    assert (more.revision, more.members, more.updated) == (first.revision, Members(5, 8), 102.0)
    (wider,) = step(situation, 103.0, case(members=Members(5, 9)))
    assert changes(wider) == ["opened", "members"]
    assert wider.members == Members(5, 9)


def test_a_sharper_kind_is_news_with_its_words_and_a_blunter_one_changes_nothing() -> None:
    situation = Situation()
    step(situation, 101.0, case(kind="link_down", title="Link down"))
    (sharper,) = step(situation, 102.0, case(kind="link_flapping", title="Link flaps", why="w", action="a"))
    assert (sharper.kind, sharper.title, sharper.why, sharper.action) == ("link_flapping", "Link flaps", "w", "a")
    assert sharper.history[-1] == HistoryEntry(102.0, "kind", "link_down became link_flapping: Link flaps")
    step(situation, 103.0, case(kind="link_down", title="Link down", candidates=("x",)))
    (now,) = situation.incidents(103.0)
    assert (now.kind, now.title, now.candidates) == ("link_flapping", "Link flaps", ("x",))


@pytest.mark.parametrize(
    "face",
    [{"candidates": ("b",)}, {"parts": ("host-1/b/1",)}, {"labels": {"a": "b"}}, {"confidence": 0.8},
     {"component": "link(host-1/a/1, leaf/3)"}],
)  # fmt: skip
def test_what_a_reader_sees_is_stored_when_it_changes_and_is_no_news(face: dict[str, object]) -> None:
    situation = Situation()
    (first,) = step(situation, 101.0, case(identity="i"))
    (changed,) = step(situation, 102.0, case(identity="i", **face))
    assert {name: getattr(changed, name) for name in face} == face
    assert (changed.revision, changes(changed)) == (first.revision, ["opened"])


def test_the_wording_of_the_evidence_and_a_little_confidence_are_not_stored_on_their_own() -> None:
    situation = Situation()
    step(situation, 101.0, case(confidence=0.99))
    assert step(situation, 102.0, case(confidence=0.96, why="other words")) == []


def test_the_impact_on_jobs_is_news_when_it_becomes_worse_and_not_when_it_is_read_again() -> None:
    situation = Situation()
    draft = case(impact=impact(JobVerdict.SLOW))
    (first,) = step(situation, 101.0, draft)
    assert situation.impact(draft) == draft.impact
    assert situation.impact(case("link(other/1)")) is None
    assert step(situation, 102.0, case(impact=impact(JobVerdict.SLOW, answered=99.0))) == []
    (worse,) = step(situation, 103.0, case(impact=impact(JobVerdict.CRASH)))
    assert (worse.history[-1].change, worse.revision) == ("crash", first.revision + 1)
    assert worse.impact == impact(JobVerdict.CRASH)


def test_an_incident_that_comes_back_within_the_hour_goes_on_where_it_was() -> None:
    situation = Situation()
    (first,) = step(situation, 101.0, case())
    (over,) = step(situation, 200.0, still_open=False)
    assert (over.revision, over.resolved, over.updated) == (first.revision + 1, 200.0, 200.0)
    assert over.history[-1] == HistoryEntry(200.0, "resolved", "all its symptoms are closed")
    (back,) = step(situation, 260.0, case(onset=255.0))
    assert (back.id, back.since, back.revision) == (first.id, 255.0, 260)
    assert back.history[-1] == HistoryEntry(260.0, "reopened", "came back after 60 s")
    assert changes(back) == ["opened", "resolved", "reopened"]
    assert [i.status for i in situation.incidents(260.0)] == ["firing"]
    # a revision rises also where the clock stepped back
    step(situation, 261.0, still_open=False)
    (again,) = step(situation, 100.0, case())
    assert again.revision > back.revision


def test_after_an_hour_an_incident_begins_anew() -> None:
    situation = Situation()
    step(situation, 101.0, case())
    step(situation, 200.0, still_open=False)
    (anew,) = step(situation, 201.0 + REMEMBER, case())
    assert changes(anew) == ["opened"]


def test_the_list_has_open_ones_first_then_the_worst_then_the_oldest() -> None:
    situation = Situation()
    drafts = [case(f"link(host-1/{n}/1)", f"{n}/1", severity=s, onset=onset) for n, s, onset in (
        ("a", Severity.WARNING, 90.0), ("b", Severity.CRITICAL, 95.0), ("c", Severity.WARNING, 80.0),
        ("d", Severity.CRITICAL, 70.0),
    )]  # fmt: skip
    step(situation, 101.0, *drafts)
    step(situation, 102.0, *drafts[:3], still_open=False)
    names = [i.component.split("/")[1] for i in situation.incidents(103.0)]
    assert names == ["b", "c", "a", "d"]


def test_resolved_ones_are_bounded() -> None:
    situation = Situation()
    for n in range(RESOLVED_MOST + 3):
        situation.resolved[str(n)] = case_resolved(str(n))
    step(situation, 101.0, case())
    step(situation, 102.0, still_open=False)
    assert len(situation.resolved) == RESOLVED_MOST
    assert "0" not in situation.resolved
    assert incident_id("", "link", "link(host-1/a/1)") in situation.resolved


def case_resolved(id: str) -> Incident:
    (made,) = step(Situation(), 101.0, case())
    return Incident(**{f: getattr(made, f) for f in made.__struct_fields__} | {"id": id, "status": "resolved",
                                                                              "resolved": 101.0})  # fmt: skip


def test_restored_incidents_keep_their_onset_for_the_diagnosis_until_their_part_recovers() -> None:
    (told,) = step(Situation(), 101.0, case("link(host-1/a/1)", "a/1", "b/1"))
    (other,) = step(Situation(), 101.0, case("leaf(l)", "a/1", onset=50.0))
    situation = Situation()
    situation.restore([told, other], 500.0)
    assert situation.onsets() == {"host-1/a/1": 50.0, "host-1/b/1": 100.0}
    assert changes(situation.incidents(500.0)[0])[-1] == "restored"
    step(situation, 501.0, case("leaf(l)", "a/1", onset=50.0), state=PartState.UNCONFIRMED)
    assert situation.onsets() == {"host-1/a/1": 50.0, "host-1/b/1": 100.0}
    situation.recovered("host-1/a/1")
    assert situation.onsets() == {"host-1/b/1": 100.0}


def test_resolved_ones_are_restored_for_the_rest_of_their_hour() -> None:
    situation = Situation()
    situation.restore([case_resolved("x")], 101.0 + REMEMBER)
    assert [i.id for i in situation.incidents(101.0 + REMEMBER)] == ["x"]
    late = Situation()
    late.restore([case_resolved("x")], 102.0 + REMEMBER)
    assert late.resolved == {}


def test_a_restored_incident_needs_all_its_parts_healthy_for_its_cooling() -> None:
    (told,) = step(Situation(), 101.0, case("link(host-1/a/1)", "a/1", "b/1", kind="link_flapping"))
    cooling = kind_of("link_flapping").cooling
    assert cooling > 0
    situation = Situation()
    situation.restore([told], 500.0)
    assert step(situation, 501.0) == []
    assert step(situation, 500.0 + cooling) == []
    half = lambda part, _: PartState.HEALTHY if part.endswith("a/1") else PartState.UNCONFIRMED  # noqa: E731
    assert situation.step(501.0 + cooling / 2, [], lambda _: False, half) == []
    began = 502.0 + cooling
    assert step(situation, began) == []
    assert step(situation, began + cooling - 1) == []
    (over,) = step(situation, began + cooling)
    assert over.history[-1].reason == "all its parts were seen healthy after the restart"


def test_a_restored_incident_ends_when_all_its_parts_left_and_not_while_one_is_here() -> None:
    (told,) = step(Situation(), 101.0, case("link(host-1/a/1)", "a/1", "b/1", kind="link_flapping"))
    situation = Situation()
    situation.restore([told], 500.0)
    half = lambda part, _: PartState.LEFT if part.endswith("a/1") else PartState.UNCONFIRMED  # noqa: E731
    assert situation.step(9e5, [], lambda _: False, half) == []
    (over,) = step(situation, 9e5 + 1, state=PartState.LEFT)
    assert over.history[-1].reason == "all its parts left the fabric"


def test_a_symptom_belongs_to_the_incident_that_explains_it_until_that_ends() -> None:
    situation = Situation()
    step(situation, 101.0, case("link(host-1/a/1)", "a/1"))
    assert situation.claimed(key("a/1"))
    assert not situation.claimed(key("b/1"))
    step(situation, 102.0, case("leaf(l)", "a/1", "b/1", group=True))
    assert situation.claimed(key("b/1"))
    step(situation, 200.0, still_open=False)
    assert not situation.claimed(key("a/1"))
    assert not situation.claimed(key("b/1"))


def test_calm_begins_anew_when_a_symptom_opens_again() -> None:
    situation = Situation()
    step(situation, 101.0, case(calm=30.0))
    assert step(situation, 200.0, still_open=False) == []
    assert step(situation, 220.0, still_open=True) == []
    assert step(situation, 235.0, still_open=False) == []
    assert step(situation, 264.0, still_open=False) == []
    assert [i.status for i in step(situation, 265.0, still_open=False)] == ["resolved"]


def test_of_two_drafts_of_one_component_the_group_and_the_earlier_one_counts() -> None:
    situation = Situation()
    late, early = case(onset=100.0, title="late"), case(onset=90.0, title="early")
    (made,) = step(situation, 101.0, late, early)
    assert (made.title, made.since) == ("early", 90.0)
    group = case("leaf(l)", group=True, onset=99.0, title="group")
    plain = case("leaf(l)", onset=10.0, title="plain")
    assert [i.title for i in step(Situation(), 101.0, plain, group)] == ["group"]


def test_what_is_applied_between_two_steps_is_the_same_incident() -> None:
    situation = Situation()
    draft: IncidentDraft = case()
    made = situation.apply(draft, 101.0)
    assert made.status == "firing"
    assert situation.apply(draft, 102.0) == made
    assert situation.apply(case(severity=Severity.CRITICAL), 103.0).severity is Severity.CRITICAL
    assert step(situation, 104.0, case(severity=Severity.CRITICAL)) == []


def test_the_severest() -> None:
    assert severest([Severity.WARNING, Severity.CRITICAL, Severity.INFO]) is Severity.CRITICAL
    assert severest([]) is Severity.INFO


def test_what_else_the_members_of_a_group_show_does_not_name_another_group_of_them() -> None:
    """Two ports are a module and all of a leaf: while one also is down, the leaf may explain more than the module."""
    situation = Situation()
    module = case("module(leaf-1/1-2)", "a/1", "b/1", group=True, kind="fault_domain", linger=120.0)
    step(situation, 101.0, module)
    down = frozenset({key("a/1"), key("b/1"), key("a/1")._replace(rule="link_errors")})
    leaf = case("leaf(leaf-1)", "a/1", "b/1", group=True, kind="fault_domain", claims=down)
    assert step(situation, 131.0, leaf) == []
    assert [incident.component for incident in situation.incidents(131.0)] == ["module(leaf-1/1-2)"]
    wider = case("leaf(leaf-1)", "a/1", "b/1", "c/1", group=True, kind="fault_domain")
    changed = step(situation, 141.0, wider)
    assert {(one.component, one.status) for one in changed} == {
        ("leaf(leaf-1)", "firing"), ("module(leaf-1/1-2)", "resolved"),
    }  # fmt: skip


@pytest.mark.parametrize(("others", "beside", "told"), [(4, True, True), (4, False, False), (1, True, False)])
def test_a_small_part_of_a_group_that_shows_something_else_is_a_cause_of_its_own(
    others: int, beside: bool, told: bool
) -> None:
    """A plane loses packets and a module of two of its ports flaps; not after the plane, nor where it is most of it."""
    situation = Situation()
    ports = "a/1", "b/1", *(f"{letter}/1" for letter in "cdef"[:others])
    plane = case("plane(0)", *ports, group=True, kind="fault_domain", linger=120.0)
    step(situation, 101.0, plane)
    flaps = frozenset(key(port)._replace(rule="link_flapping") for port in ports[:2])
    module = case("module(leaf-1/1-2)", "a/1", "b/1", group=True, kind="fault_domain", claims=flaps)
    changed = step(situation, 131.0, *((plane,) if beside else ()), module)
    assert [one.component for one in changed] == (["module(leaf-1/1-2)"] if told else [])
