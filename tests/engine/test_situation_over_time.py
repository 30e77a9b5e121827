"""Incidents over time, from cases alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fabricmon.engine.incidents.episode import HISTORY, incident_id
from fabricmon.engine.incidents.incident_draft import PARTS, IncidentDraft
from fabricmon.engine.incidents.restored import PartState
from fabricmon.engine.incidents.situation import REMEMBER, Situation
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import ComponentId, Incident, Kind, Members, Severity


def key(port: str) -> SymptomKey:
    return SymptomKey("link_down", ComponentId(Kind.PORT, "host-1", port))


def case(component: str = "link(host-1/a/1)", *ports: str, **changes: object) -> IncidentDraft:
    family = component.partition("(")[0]
    fields: dict[str, object] = {
        "family": family,
        "identity": component,
        "component": component,
        "kind": "link_down",
        "severity": Severity.WARNING,
        "confidence": 0.99,
        "title": "Link down",
        "why": "",
        "action": "",
        "evidence": (),
        "members": Members(len(ports) or 1, len(ports) or 1),
        "claims": frozenset(key(p) for p in ports or ("a/1",)),
        "onset": 100.0,
        "parts": tuple(f"host-1/{p}" for p in ports or ("a/1",)),
    }
    return IncidentDraft(**{**fields, **changes})


def step(
    situation: Situation,
    now: float,
    *cases: IncidentDraft,
    still_open: bool = True,
    state: PartState = PartState.HEALTHY,
) -> list[Incident]:
    return situation.step(now, cases, lambda _: still_open, lambda _part, _kind: state)


def test_an_id_depends_on_fabric_family_and_component_only() -> None:
    assert incident_id("f", "link", "link(a)") == incident_id("f", "link", "link(a)")
    others = (("f", "link", "a"), ("g", "link", "a"), ("f", "nic", "a"), ("f", "link", "b"))
    assert len({incident_id(*words) for words in others}) == 4


def test_nothing_changes_while_nothing_changes() -> None:
    situation = Situation()
    assert len(step(situation, 101.0, case())) == 1
    assert [step(situation, 102.0 + n, case()) for n in range(5)] == [[]] * 5


def test_a_symptom_that_nothing_explains_any_more_keeps_its_incident_open() -> None:
    situation = Situation()
    step(situation, 101.0, case())
    assert step(situation, 200.0, still_open=True) == []
    (over,) = step(situation, 300.0, still_open=False)
    assert (over.status, over.resolved) == ("resolved", 300.0)


def test_a_group_swallows_the_incidents_of_its_members() -> None:
    situation = Situation()
    step(situation, 101.0, case("link(host-1/a/1)", "a/1"))
    leaf = case("leaf(su1/rail2)", "a/1", "b/1", kind="fault_domain", group=True)
    changed = {i.component: i for i in step(situation, 103.0, leaf)}
    assert changed["link(host-1/a/1)"].status == "resolved"
    assert changed["link(host-1/a/1)"].labels["absorbed_by"] == changed["leaf(su1/rail2)"].id
    assert changed["link(host-1/a/1)"].history[-1].change == "absorbed"


def test_a_case_waits_while_it_is_unsettled_and_no_longer_than_allowed() -> None:
    situation = Situation()
    waiting = case(unsettled="neighbours not read", wait=12.0)
    assert step(situation, 101.0, waiting) == []
    assert step(situation, 112.0, waiting) == []
    assert len(step(situation, 113.0, waiting)) == 1
    assert len(step(Situation(), 101.0, case(wait=12.0))) == 1


def test_a_group_needs_calm_before_it_is_over() -> None:
    situation = Situation()
    leaf = case("leaf(l)", "a/1", "b/1", group=True, calm=30.0)
    step(situation, 101.0, leaf)
    assert step(situation, 200.0, still_open=False) == []
    assert step(situation, 229.0, still_open=False) == []
    assert len(step(situation, 230.0, still_open=False)) == 1


def test_links_of_a_group_that_broke_up_stay_its_own_for_a_while() -> None:
    situation = Situation()
    step(situation, 101.0, case("leaf(l)", "a/1", "b/1", group=True, linger=120.0))
    link = case("link(host-1/b/1)", "b/1")
    assert step(situation, 200.0, link) == []
    assert step(situation, 319.0, link) == []
    changed = {i.component: i for i in step(situation, 320.0, link)}
    assert {name: i.status for name, i in changed.items()} == {"leaf(l)": "resolved", "link(host-1/b/1)": "firing"}
    assert "absorbed_by" not in changed["leaf(l)"].labels


def test_a_restored_incident_is_closed_by_health_only() -> None:
    first = Situation()
    (told,) = step(first, 101.0, case())
    situation = Situation()
    situation.restore([told], 500.0)
    assert step(situation, 501.0, still_open=False, state=PartState.UNCONFIRMED) == []
    assert step(situation, 9000.0, still_open=False, state=PartState.UNCONFIRMED) == []
    (over,) = step(situation, 9001.0, still_open=False, state=PartState.HEALTHY)
    assert (over.id, over.since, over.status) == (told.id, told.since, "resolved")


def test_a_restored_incident_that_is_confirmed_is_not_told_again() -> None:
    (told,) = step(Situation(), 101.0, case())
    situation = Situation()
    situation.restore([told], 500.0)
    step(situation, 501.0, case(onset=499.0))
    (now,) = situation.incidents(501.0)
    assert (now.revision, now.since, now.status) == (told.revision, told.since, "firing")


def test_history_is_bounded_and_keeps_its_beginning() -> None:
    situation = Situation()
    for n in range(3 * HISTORY):
        step(situation, 101.0 + n, case("leaf(l)", *(f"p{i}/1" for i in range(1 + n % 7)), group=True))
    (incident,) = situation.incidents(1000.0)
    assert len(incident.history) == HISTORY
    assert incident.history[0].change == "opened"


def test_a_resolved_incident_is_listed_for_an_hour() -> None:
    situation = Situation()
    step(situation, 101.0, case())
    step(situation, 200.0, still_open=False)
    assert len(situation.incidents(200.0 + REMEMBER)) == 1
    assert situation.incidents(201.0 + REMEMBER) == []


def test_what_is_covered_by_maintenance_is_not_opened_and_what_was_open_stays() -> None:
    situation = Situation()
    assert step(situation, 101.0, case(covered="m-1")) == []
    step(situation, 102.0, case())
    assert step(situation, 103.0, case(covered="m-1")) == []
    assert [i.status for i in situation.incidents(103.0)] == ["firing"]


def test_a_group_that_falls_again_and_again_keeps_its_members_until_they_were_calm() -> None:
    situation = Situation()

    def part(component: str, of: int, *ports: str) -> IncidentDraft:
        title = f"{component}: {len(ports)} of {of} links flapping"
        return case(component, *ports, family="part", identity="part(a)", group=True, title=title, calm=30.0,
                    series=600.0, members=Members(len(ports), of))  # fmt: skip

    step(situation, 100.0, part("part(a, ports 1-3)", 3, "a", "b", "c"))
    (incident,) = step(situation, 150.0, part("part(a, ports 1-4)", 4, "a", "c", "d"))
    assert (incident.component, incident.members) == ("part(a, ports 1-4)", Members(4, 4))
    assert incident.parts == ("host-1/a", "host-1/c", "host-1/d", "host-1/b")
    assert incident.title == "part(a, ports 1-4): 4 of 4 links flapping"
    assert step(situation, 749.0, part("part(a, ports 1-3)", 3, "a", "c")) == []
    (fewer,) = step(situation, 750.0, part("part(a, ports 1-3)", 3, "a", "c"))
    assert (fewer.component, fewer.members) == ("part(a, ports 1-3)", Members(2, 3))


def test_of_more_members_than_an_incident_names_a_group_that_falls_again_and_again_keeps_the_number() -> None:
    situation = Situation()

    def leaf(ports: Sequence[str]) -> IncidentDraft:
        draft = case("leaf(a)", *ports, group=True, series=600.0, members=Members(len(ports), 90))
        return msgspec.structs.replace(draft, parts=draft.parts[:PARTS])

    ports = [f"{n:02d}" for n in range(80)]
    step(situation, 100.0, leaf(ports[1:]))
    for at, now in enumerate((ports, ports[:70], ports)):
        step(situation, 110.0 + at, leaf(now))
        (incident,) = situation.incidents(120.0)
        assert incident.members == Members(80, 90)
    step(situation, 130.0, leaf(ports[:40]))
    step(situation, 740.0, leaf(ports[:40]))
    (incident,) = situation.incidents(740.0)
    assert incident.members == Members(40, 90)


def test_what_is_in_another_incident_now_is_no_member_of_a_group_that_falls_again_and_again() -> None:
    situation = Situation()
    both = [case("part(a)", *ports, group=True, series=600.0) for ports in (("a", "b", "c", "d"), ("a", "b", "c"))]
    step(situation, 100.0, both[0])
    other = case("leaf(b)", "d", "e", group=True)
    step(situation, 110.0, both[1], other)
    step(situation, 120.0, both[1], other)
    members = {incident.component: incident.parts for incident in situation.incidents(120.0)}
    assert members["part(a)"] == ("host-1/a", "host-1/b", "host-1/c")


def test_a_group_that_comes_back_in_steps_is_reported_when_it_stands() -> None:
    situation = Situation()

    def leaf(*ports: str) -> IncidentDraft:
        return case("leaf(a)", *ports, group=True, linger=120.0, calm=30.0, members=Members(len(ports), 4))

    step(situation, 100.0, leaf("a", "b", "c", "d"))
    assert step(situation, 110.0, leaf("a", "b", "c")) == []
    assert step(situation, 120.0, leaf("a", "b")) == []
    (incident,) = step(situation, 140.0, leaf("a", "b"))
    assert (incident.members, incident.parts) == (Members(2, 4), ("host-1/a", "host-1/b"))
    (incident,) = step(situation, 141.0, leaf("a", "b", "c"))
    assert incident.members == Members(3, 4)


def test_lost_packets_that_end_later_keep_no_group_open_and_are_no_members_of_it() -> None:
    situation, lost = Situation(), SymptomKey("packet_loss", ComponentId(Kind.PORT, "host-2", "z/1"))
    leaf = case("leaf(a)", "a", "b", "c", group=True, linger=120.0, calm=30.0)
    leaf = msgspec.structs.replace(leaf, claims=leaf.claims | {lost}, effects=frozenset({lost}))
    step(situation, 100.0, leaf)

    def later(now: float, *still: SymptomKey) -> list[Incident]:
        return situation.step(now, [], lambda key: key in still, lambda _part, _kind: PartState.HEALTHY)

    later(110.0, *leaf.claims)
    later(240.0, *leaf.claims)
    (incident,) = situation.incidents(240.0)
    assert set(incident.parts) == {"host-1/a", "host-1/b", "host-1/c"}
    assert later(250.0, lost) == []
    (over,) = later(281.0, lost)
    assert over.status == "resolved"


def test_what_members_of_a_group_show_on_traffic_releases_none_of_them() -> None:
    ports = ("a/1", "b/1", "c/1", "d/1")
    lost = {port: SymptomKey("packet_loss", ComponentId(Kind.PORT, "host-1", port)) for port in (*ports, "e/1")}
    rail = case("rail(1)", *ports, kind="fault_domain", group=True, linger=10.0)
    of_members = frozenset(lost[port] for port in ports)
    rail = msgspec.structs.replace(rail, claims=rail.claims | of_members, effects=of_members)
    situation = Situation()
    assert len(step(situation, 101.0, rail)) == 1
    # the diagnosis explains them one by one: each with what its port loses, one with what a peer loses, too
    links = [case(f"link(host-1/{port})", port) for port in ports]
    lossy = [{lost[port]} | ({lost["e/1"]} if port == "a/1" else set()) for port in ports]
    links = [
        msgspec.structs.replace(link, claims=link.claims | more, effects=frozenset(more))
        for link, more in zip(links, lossy, strict=True)
    ]
    opened = [i for now in (102.0, 111.0, 113.0, 400.0) for i in step(situation, now, *links)]
    assert {i.component for i in opened} <= {"rail(1)"}
    (held,) = situation.incidents(400.0)
    assert (held.component, held.members.bad) == ("rail(1)", 4)
