"""One cause, one incident: the laws of the situation, held against any sequence of drafts, recoveries and time."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fabricmon.catalogue.kinds import SHOWS, TRAFFIC
from fabricmon.engine.incidents.incident_draft import FEW, LINGER, IncidentDraft
from fabricmon.engine.incidents.restored import PartState
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import ComponentId, Evidence, Incident, Kind, Members
from tests.engine.test_situation_over_time import case, key, step

PORTS = tuple(f"p{n}/1" for n in range(8))


def leaf(*ports: str, **more: Any) -> IncidentDraft:
    title = f"Leaf l is down: {len(ports)} of {len(PORTS)}"
    members = Members(len(ports), len(PORTS))
    fields = {"kind": "fault_domain", "group": True, "linger": LINGER, "title": title, "members": members} | more
    return case("leaf(l)", *ports, **fields)


def links(ports: Any) -> list[IncidentDraft]:
    return [case(f"link(host-1/{port})", port) for port in sorted(ports)]


def firing(situation: Situation) -> set[str]:
    return {record.incident.component for record in situation.firing.values()}


class Laws(RuleBasedStateMachine):
    """Eight ports of one leaf. The diagnosis names the leaf while it is `whole`, else each port that is down."""

    def __init__(self) -> None:
        super().__init__()
        self.situation, self.now = Situation(), 1000.0
        self.down: set[str] = set()
        self.whole = False
        self.held: set[str] = set()  # down since the leaf was named

    def diagnose(self) -> None:
        self.now += 1.0
        drafts = [leaf(*sorted(self.down))] if self.whole and self.down else links(self.down)
        self.situation.step(
            self.now, drafts, lambda k: k.component.name in self.down, lambda _part, _kind: PartState.HEALTHY
        )
        if self.whole:
            self.held |= self.down
        self.held &= self.down

    @rule(ports=st.sets(st.sampled_from(PORTS), min_size=1))
    def break_ports(self, ports: set[str]) -> None:
        self.down |= ports
        self.diagnose()

    @rule(ports=st.sets(st.sampled_from(PORTS), min_size=1))
    def mend(self, ports: set[str]) -> None:
        self.down -= ports
        self.diagnose()

    @precondition(lambda self: len(self.down) > FEW)
    @rule()
    def name_the_leaf(self) -> None:
        self.whole = True
        self.diagnose()

    @rule()
    def lose_the_leaf(self) -> None:
        self.whole = False
        self.diagnose()

    @rule(seconds=st.sampled_from([1.0, 60.0, LINGER, 2 * LINGER, 86_400.0]))
    def wait(self, seconds: float) -> None:
        """Time alone releases no member of a group that is one."""
        held = self.held if "leaf(l)" in firing(self.situation) and len(self.held) > FEW else set()
        alone = firing(self.situation)
        self.now += seconds
        self.diagnose()
        self.diagnose()
        new = firing(self.situation) - alone
        assert not new & {f"link(host-1/{port})" for port in held}, "a member came out because time passed"
        if held:
            assert "leaf(l)" in firing(self.situation)

    @invariant()
    def every_open_incident_has_a_living_part(self) -> None:
        for record in self.situation.firing.values():
            alive = {k.component.name for k in record.claims} & self.down
            assert alive or record.calm is not None, record.incident.component

    @invariant()
    def every_open_symptom_is_in_an_incident(self) -> None:
        claimed = {k.component.name for record in self.situation.firing.values() for k in record.claims}
        assert self.down <= claimed

    @invariant()
    def members_are_counted_as_they_are(self) -> None:
        for record in self.situation.firing.values():
            assert record.incident.members.bad <= record.peaks.most.members.bad


Laws.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestLaws = Laws.TestCase


def test_a_group_shrinks_to_what_never_recovered_and_frees_few() -> None:
    situation = Situation()
    step(situation, 101.0, leaf(*PORTS))
    down = set(PORTS[:4])

    def later(now: float) -> list[Incident]:
        return situation.step(now, links(down), lambda k: k.component.name in down, lambda *_: PartState.HEALTHY)

    later(102.0)
    later(103.0 + LINGER)
    later(90_000.0)
    assert firing(situation) == {"leaf(l)"}
    (incident,) = situation.incidents(90_000.0)
    assert (incident.members, incident.title) == (Members(4, 8), "Leaf l is down: 4 of 8")
    assert any("at most 8 of 8 at 1970-01-01 00:01:41 UTC; 4 of 8 now" in e.text for e in incident.evidence)
    down -= {PORTS[0], PORTS[1]}
    later(90_001.0)
    assert firing(situation) == {"link(host-1/p2/1)", "link(host-1/p3/1)"}


def test_a_member_that_fails_anew_after_the_group_is_its_own() -> None:
    """A cable that breaks days after its leaf came back, while others of that leaf still are down, is not hidden."""
    situation, down = Situation(), set(PORTS[:4])
    step(situation, 101.0, leaf(*PORTS))

    def later(now: float) -> None:
        situation.step(now, links(down), lambda k: k.component.name in down, lambda *_: PartState.HEALTHY)

    later(102.0)
    later(103.0 + LINGER)
    down.add(PORTS[6])
    later(90_000.0)
    assert firing(situation) == {"leaf(l)", "link(host-1/p6/1)"}


@given(st.lists(st.sets(st.sampled_from(PORTS[:6]), max_size=4), max_size=20))
def test_an_episode_is_over_when_all_its_members_are_well_and_others_are_bad(history: list[set[str]]) -> None:
    """Whatever fails and recovers at one moment: a receiver is notified of others once all that it knows of is over."""
    situation, now, had = Situation(), 100.0, set[str]()
    for bad in history:
        opened = []
        for _ in range(2):
            now += 1.0
            drafts, open_ = [leaf(*sorted(bad), calm=10.0)] if bad else [], {key(port) for port in bad}
            opened += [i.status for i in situation.step(now, drafts, open_.__contains__, lambda *_: PartState.HEALTHY)]
        if bad and had and not bad & had:
            assert opened == ["resolved", "firing"]
        elif bad and had:
            assert "resolved" not in opened
        had = set() if not firing(situation) else bad if bad and not bad & had else had | bad


@pytest.mark.parametrize(
    "more", [{"series": 60.0}, {"labels": {SHOWS: TRAFFIC}}, {"kind": "packet_loss"}, {"notice": True}]
)
def test_what_shows_at_others_each_time_goes_on(more: dict[str, Any]) -> None:
    """A group that falls again and again, and parts that are known by what happens to the traffic of others."""
    situation = Situation()
    for now, ports in ((101.0, PORTS[:3]), (111.0, PORTS[3:6])):
        open_ = {key(port) for port in ports}
        (changed,) = situation.step(now, [leaf(*ports, **more)], open_.__contains__, lambda *_: PartState.HEALTHY)
    assert (changed.status, len(changed.openings)) == ("firing", 1)


def test_a_host_and_then_its_ports_are_one_episode() -> None:
    situation, silent = Situation(), SymptomKey("agent_silent", ComponentId(Kind.NODE, "host-1", ""))
    for now, claims in ((101.0, {silent}), (111.0, {key(port) for port in PORTS[:3]})):
        draft = leaf(*PORTS[:3], claims=frozenset(claims))
        changed = situation.step(now, [draft], claims.__contains__, lambda *_: PartState.HEALTHY)
        assert all(incident.status == "firing" for incident in changed)


def test_a_larger_cause_takes_what_it_explains_out_of_a_group() -> None:
    situation, down = Situation(), set(PORTS[:6])
    step(situation, 101.0, leaf(*PORTS))
    module = case("group(m)", *PORTS[:3], kind="fault_domain", group=True)
    for now in (102.0, 103.0 + LINGER, 104.0 + LINGER):
        situation.step(now, [module], lambda k: k.component.name in down, lambda *_: PartState.HEALTHY)
    assert firing(situation) == {"leaf(l)", "group(m)"}
    left = next(i for i in situation.incidents(400.0) if i.component == "leaf(l)")
    assert left.members == Members(3, 8)


def test_a_resolved_incident_is_told_with_its_duration_and_peak() -> None:
    """Never "16 of 32" for what was 32 of 32."""
    situation = Situation()
    step(situation, 161.0, leaf(*PORTS, onset=100.0))
    step(situation, 461.0, leaf(*PORTS[:4], onset=100.0))
    (over,) = step(situation, 820.0, still_open=False)
    assert (over.title, over.members) == ("Leaf l is down: 8 of 8", Members(8, 8))
    assert over.evidence[0].text == "lasted 12 min; at most 8 of 8 at 1970-01-01 00:02:41 UTC"


def test_the_peak_of_the_members_outlives_a_restart() -> None:
    first = Situation()
    step(first, 101.0, leaf(*PORTS[:5], onset=100.0))
    step(first, 201.0, leaf(*PORTS, onset=100.0))
    step(first, 301.0, leaf(*PORTS[:4], onset=100.0))
    situation = Situation()
    situation.restore(first.incidents(302.0), 302.0)
    (over,) = step(situation, 400.0)
    assert (over.title, over.members) == ("Leaf l is down: 8 of 8", Members(8, 8))
    assert "at most 8 of 8 at 1970-01-01 00:03:21 UTC" in over.evidence[0].text


def test_a_resolved_incident_has_its_readings_at_their_worst() -> None:
    def errors(count: float) -> tuple[Evidence, ...]:
        return (Evidence("host-1/a/1", f"{count:.0f} errors", "errors > 10", count, 10.0, count > 10.0),)

    situation = Situation()
    for now, count in ((101.0, 87.0), (161.0, 10_481.0), (221.0, 3.0)):
        step(situation, now, case(evidence=errors(count)))
    (now_,) = situation.incidents(221.0)
    assert now_.evidence[0].text == "3 errors"
    (over,) = step(situation, 300.0, still_open=False)
    assert over.evidence[1].text == "10481 errors (at its worst, 1970-01-01 00:02:41 UTC)"


def test_readings_below_a_limit_are_worse_the_lower_they_are() -> None:
    def power(value: float) -> tuple[Evidence, ...]:
        return (Evidence("host-1/a/1", f"{value:g} dBm", "Rx < -10", value, -10.0, value < -10.0),)

    situation = Situation()
    for now, value in ((101.0, -11.0), (161.0, -14.0), (221.0, -12.0)):
        step(situation, now, case(evidence=power(value)))
    (over,) = step(situation, 300.0, still_open=False)
    assert over.evidence[1].text.startswith("-14 dBm")


def test_evidence_is_what_the_readings_are_now_and_no_news() -> None:
    situation = Situation()
    (first,) = step(situation, 101.0, case(evidence=(Evidence("x", "87 errors"),)))
    assert step(situation, 102.0, case(evidence=(Evidence("x", "10481 errors"),))) == []
    (seen,) = situation.incidents(102.0)
    assert seen.evidence[0].text == "10481 errors"
    assert (seen.revision, seen.updated) == (first.revision, first.updated)


def test_a_notice_makes_no_symptom_evidence() -> None:
    situation = Situation()
    step(situation, 101.0, case(notice=True))
    assert not situation.claimed(key("a/1"))
    step(situation, 102.0, msgspec.structs.replace(case(), notice=False))
    assert situation.claimed(key("a/1"))


def test_the_evidence_of_an_incident_is_read_when_it_is_looked_at(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(300, step=1.0)
    (incident,) = w.firing()
    readings = [e for e in incident.evidence if e.component == "host-003/mlx5_1/1" and e.value is not None]
    assert 285 <= (readings[0].value or 0.0) <= 300
    assert sum(i.id == incident.id for i in w.changed) == 1
    w.silence(["host-003"])
    w.run(200, step=1.0)
    (incident,) = [i for i in w.firing() if i.kind == "link_down"]
    kept = [e for e in incident.evidence if e.component == "host-003/mlx5_1/1" and e.value is not None]
    assert 285 <= (kept[0].value or 0.0) <= 340, "unknown now: the last reading stays"
