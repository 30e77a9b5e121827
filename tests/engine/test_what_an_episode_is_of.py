"""A single component's incident: what others show does not keep it, and an outage that is over is not its name."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fabricmon.catalogue.kinds import STOPPED, kind_of
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.restored import PartState
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import ComponentId, Incident, Kind
from fabricmon.notify.due import plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from tests.engine.test_situation_over_time import case, key, step

RULES = ("link_down", "link_flapping", "link_errors", "link_degraded")


def of(rule: str, port: str = "a/1") -> SymptomKey:
    return SymptomKey(rule, ComponentId(Kind.PORT, "host-1", port))


def shown(*rules: str) -> IncidentDraft:
    """The link with these symptoms, named after the first."""
    keys = frozenset(map(of, rules))
    return case(kind=rules[0], title=rules[0], claims=keys, shows=frozenset(k for k in keys if k.rule == rules[0]))


def after(situation: Situation, now: float, *rules: str) -> list[Incident]:
    """A step in which exactly these symptoms of the link are open."""
    drafts = [shown(*rules)] if rules else []
    return situation.step(now, drafts, lambda k: k.rule in rules, lambda *_: PartState.HEALTHY)


OTHERS = st.sampled_from(["b/1", "c/1"])


@given(lossy=st.sets(st.one_of(st.just("a/1"), OTHERS), min_size=1), lasting=st.sets(OTHERS))
def test_what_a_link_did_to_others_does_not_keep_it_open(lossy: set[str], lasting: set[str]) -> None:
    situation = Situation()
    losses = frozenset(of("packet_loss", port) for port in lossy)
    step(situation, 101.0, case(claims=losses | {key("a/1")}, effects=losses))
    left = {of("packet_loss", port) for port in lossy & (lasting | {"a/1"})}
    changed = situation.step(140.0, [], lambda k: k in left, lambda *_: PartState.HEALTHY)
    over = [incident.status for incident in changed] == ["resolved"]
    assert over is ("a/1" not in lossy), "its own losses keep it, those of others do not"


def test_an_effect_that_became_its_own_symptom_keeps_it() -> None:
    situation, loss = Situation(), of("packet_loss", "b/1")
    step(situation, 101.0, case(claims=frozenset({key("a/1"), loss}), effects=frozenset({loss})))
    step(situation, 102.0, case(claims=frozenset({key("a/1"), loss})))
    assert situation.step(140.0, [], lambda k: k == loss, lambda *_: PartState.HEALTHY) == []


def test_a_link_that_is_up_again_and_slower_ends_as_down_and_comes_back_as_slower() -> None:
    situation = Situation()
    after(situation, 101.0, "link_down")
    assert after(situation, 110.0, "link_degraded", "link_down") == [], "still down, whatever explains it better"
    (over,) = after(situation, 120.0, "link_degraded")
    assert (over.status, over.kind, over.history[-1].reason) == (
        "resolved", "link_down", "it works again; what is left: link_degraded",
    )  # fmt: skip
    (slower,) = after(situation, 121.0, "link_degraded")
    assert (slower.status, slower.kind, slower.title) == ("firing", "link_degraded", "link_degraded")
    assert slower.id == over.id
    (down,) = after(situation, 200.0, "link_down", "link_degraded")
    assert (down.kind, down.revision > slower.revision) == ("link_down", True)


@pytest.mark.parametrize(
    ("before", "now"),
    [("link_errors", "link_degraded"), ("link_flapping", "link_down"), ("link_degraded", "link_errors")],
)
def test_only_an_outage_that_is_over_ends_an_episode(before: str, now: str) -> None:
    situation = Situation()
    after(situation, 101.0, before)
    assert all(incident.status == "firing" for incident in after(situation, 110.0, now))


@given(st.lists(st.lists(st.sampled_from(RULES), unique=True, max_size=4).map(tuple), max_size=30))
def test_no_incident_is_named_after_an_outage_that_is_over(history: list[tuple[str, ...]]) -> None:
    """Whatever a link shows and the diagnosis names it after: never an outage of which nothing is open, beside a lesser
    fault that is; and what is open has an incident after one further step."""
    situation, now = Situation(), 100.0
    for rules in history:
        for _ in range(2):
            now += 1.0
            after(situation, now, *rules)
        firing = [record.incident for record in situation.firing.values()]
        assert bool(firing) == bool(rules)
        for incident in firing:
            lesser = kind_of(rules[0]).effect not in STOPPED
            assert not (lesser and kind_of(incident.kind).effect in STOPPED and incident.kind not in rules)


def test_who_was_not_sent_the_end_of_the_outage_is_sent_what_is_left() -> None:
    """The link was slower long before it was down, and the end of that waits for a free message."""
    receiver, last, situation = Receiver("ops", send_resolved=False), LastNotifications(), Situation()
    sent: list[str] = []
    slower, down = ("link_degraded",), ("link_down", "link_degraded")
    for now, rules in ((101.0, slower), (200.0, down), (230.0, slower), (231.0, slower), (260.0, down)):
        after(situation, now, *rules)
        for note in plan_notifications(situation.incidents(now), last, [receiver], [], now).notifications:
            sent += [incident.kind for incident in note.incidents]
            last.add(note)
    assert sent == ["link_degraded", "link_down", "link_degraded", "link_down"]
