"""The mass-alarm breaker: many incidents at once are told as one, and none of them is lost."""

from __future__ import annotations

from typing import Any

import msgspec

from fabricmon.engine import Engine
from fabricmon.engine.incidents.surge import Surge
from fabricmon.model import HistoryEntry, Incident, Members, Severity
from fabricmon.notify.inhibit import inhibits
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from fabricmon.rules.mass_alarm import MassAlarmParams
from fabricmon.rules.rule import Scope
from tests.notify.made import due_notifications

PARAMS = {"mass_alarm": {"least": 6}}
APART = 6
"""Seconds between two faults: so many at once would be one common cause."""
OPS = Receiver("ops", repeat=0.0)


def told_of(w: Any, told: LastNotifications) -> list[tuple[str, str, str]]:
    """What a receiver is told now: (kind, component, status)."""
    notes = due_notifications(w.engine.incidents(), told, [OPS], [], w.now)
    for note in notes:
        told.add(note)
    return [(i.kind, i.component, i.status) for note in notes for i in note.incidents]


def spread(w: Any) -> set[tuple[str, int]]:
    """One link of each of eight hosts, on different leaves: eight incidents."""
    return {(host, n % 4) for n, host in enumerate(w.hosts[:8])}


def fleet(world: Any) -> Any:
    w = world(units=2, hosts=8, rails=4)
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(10)
    return w


def test_many_at_once_are_one_notification_for_as_long_as_one_of_them_is_bad(world: Any) -> None:
    w = fleet(world)
    told = LastNotifications()
    w.break_links([("host-015", 3)])
    w.run(100, step=1.0)
    assert [kind for kind, _, _ in told_of(w, told)] == ["link_down"]
    heard: list[tuple[str, str, str]] = []
    for port in sorted(spread(w)):
        w.break_links([port])
        for _ in range(APART):
            w.run(1.0)
            heard += told_of(w, told)
    for _ in range(30):
        w.run(1.0)
        heard += told_of(w, told)
    single = {component for kind, component, _ in heard if kind == "link_down"}
    assert len(single) < PARAMS["mass_alarm"]["least"]
    assert [one for one in heard if one[0] != "link_down"] == [("mass_alarm", "network(test)", "firing")]
    assert heard[-1][0] == "mass_alarm", "none follows it"
    (alarm,) = [i for i in w.firing("critical") if i.kind == "mass_alarm"]
    assert "8 link_down" in alarm.title
    assert len([i for i in w.firing() if i.kind == "link_down"]) == 9
    w.mend([("host-015", 3)])
    w.run(30, step=1.0)
    assert ("link_down", "link(host-015/mlx5_3/1, leaf-1-3/16)", "resolved") in told_of(w, told)
    w.mend(sorted(spread(w))[:3])
    w.run(2000, step=20.0)  # much longer than `clear`: time releases none
    assert all(component in single and status == "resolved" for _, component, status in told_of(w, told))
    (alarm,) = [i for i in w.firing("critical") if i.kind == "mass_alarm"]
    assert alarm.title.startswith("Mass alarm: 5 of 8 incidents that opened at once are left")
    assert alarm.members == Members(5, 8)
    w.break_links([("host-014", 2)])  # opens long after the surge: an incident of its own
    w.run(60, step=1.0)
    assert [(kind, status) for kind, _, status in told_of(w, told)] == [("link_down", "firing")]
    w.mend(sorted(spread(w)))
    w.run(60, step=1.0)
    last = [one for one in told_of(w, told) if one[1] not in single]
    assert [(kind, status) for kind, _, status in last] == [("mass_alarm", "resolved")]
    (over,) = [i for i in w.changed if i.kind == "mass_alarm" and i.status == "resolved"]
    assert over.members == Members(8, 8)
    assert over.evidence[0].text.startswith("lasted ")


def test_a_cause_that_takes_over_members_is_told_and_the_alarm_is_over() -> None:
    """Five links of one leaf among others: when the leaf is found, what is left are singles."""
    surge, firing = Surge("f"), [opened(f"link-{n}", 100.0) for n in range(8)]
    params = MassAlarmParams(least=6)
    alarm = surge.draft(firing, params, 101.0)
    assert alarm is not None
    assert alarm.members.bad == 8
    leaf = opened("leaf", 110.0, kind="fault_domain")
    gone = [msgspec.structs.replace(i, status="resolved", labels={"absorbed_by": "leaf"}) for i in firing[:5]]
    surge.note(gone)
    smaller = surge.draft([leaf, *firing[5:]], params, 111.0)
    assert smaller is not None
    assert (smaller.members, smaller.labels["causes"]) == (Members(3, 8), "leaf")
    told = msgspec.structs.replace(leaf, id="alarm", kind="mass_alarm", labels=smaller.labels)
    assert not inhibits(told, leaf)
    assert inhibits(told, firing[6])
    surge.note([msgspec.structs.replace(firing[5], status="resolved", labels={"absorbed_by": "leaf"})])
    assert surge.draft([leaf, *firing[6:]], params, 112.0) is None


def test_the_limit_does_not_grow_with_the_fabric() -> None:
    """At 10,000 nodes 499 single incidents within a minute were below the share of all nodes."""
    firing = [opened(f"link-{n}", 100.0) for n in range(20)]
    assert Surge("f").draft(firing[:19], MassAlarmParams(), 101.0) is None
    assert Surge("f").draft(firing, MassAlarmParams(), 101.0) is not None


def test_what_opened_before_the_clock_was_set_back_did_not_open_lately() -> None:
    firing = [opened(f"link-{n}", 4000.0 + 600.0 * n) for n in range(20)]
    assert Surge("f").draft(firing, MassAlarmParams(), 3000.0) is None


def test_a_member_that_comes_back_is_still_a_member() -> None:
    surge, params = Surge("f"), MassAlarmParams(least=6)
    firing = [opened(f"link-{n}", 100.0) for n in range(8)]
    assert surge.draft(firing, params, 101.0) is not None
    assert surge.draft(firing, params, 500.0) is not None  # calm: it takes no more members
    again = (*firing[0].history, HistoryEntry(600.0, "reopened", ""))
    back = msgspec.structs.replace(firing[0], history=again)
    alarm = surge.draft([back], params, 601.0)
    assert alarm is not None
    assert alarm.members == Members(1, 8)
    later = opened("another", 600.0)
    assert surge.draft([later], params, 602.0) is None


def opened(id: str, at: float, kind: str = "link_down") -> Incident:
    return Incident(
        id=id, status="firing", severity=Severity.WARNING, kind=kind, component=f"link({id})", since=at,
        confidence=1.0, title="", why="", action="", history=(HistoryEntry(at, "opened", ""),),
    )  # fmt: skip


def test_one_cause_of_many_is_no_mass_alarm(world: Any) -> None:
    w = world(units=2, hosts=8, rails=4)
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(10)
    w.break_links(w.ports(w.hosts[:8], 2))
    w.run(60)
    assert [i.kind for i in w.firing()] == ["fault_domain"]
    assert not [i for i in w.changed if i.kind == "mass_alarm"]


def test_a_restart_keeps_the_alarm_and_its_members(world: Any) -> None:
    w = world(units=2, hosts=8, rails=4)
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(10)
    for port in sorted(spread(w)):
        w.break_links([port])
        w.run(APART)
    w.run(30)
    kept = w.engine.incidents()
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    w.engine.restore(kept, w.now)
    for host in w.hosts:
        w._tell_inventory(host)
    w.changed.clear()
    w.run(60)
    assert [i.kind for i in w.firing("critical") if i.kind == "mass_alarm"] == ["mass_alarm"]
    assert not [i for i in w.changed if i.kind == "mass_alarm" and i.status == "resolved"]
    w.run(400, step=2.0)
    (alarm,) = [i for i in w.firing("critical") if i.kind == "mass_alarm"]
    assert alarm.members == Members(8, 8)
    w.mend(spread(w))
    w.run(60)
    assert not [i for i in w.firing("critical") if i.kind == "mass_alarm"]
