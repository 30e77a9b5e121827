"""The mass-alarm breaker: many incidents at once are told as one, and none of them is lost."""

from __future__ import annotations

from typing import Any

from fabricmon.engine import Engine
from fabricmon.notify.due import due_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from fabricmon.rules.rule import Scope

PARAMS = {"mass_alarm": {"share": 0.1, "least": 6}}
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


def test_many_at_once_are_one_notification_and_the_single_ones_follow_when_it_is_over(
    world: Any,
) -> None:
    w = world(units=2, hosts=8, rails=4)
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(10)
    told = LastNotifications()
    w.break_links([("host-015", 3)])
    w.run(100, step=1.0)
    assert [kind for kind, _, _ in told_of(w, told)] == ["link_down"]
    w.break_links(spread(w))
    heard: list[tuple[str, str, str]] = []
    for _ in range(60):
        w.run(1.0)
        heard += told_of(w, told)
    assert heard == [("mass_alarm", "network(test)", "firing")]
    (alarm,) = [i for i in w.firing("critical") if i.kind == "mass_alarm"]
    assert "8 link_down" in alarm.title
    assert len([i for i in w.firing() if i.kind == "link_down"]) == 9
    w.mend([("host-015", 3)])
    w.run(30, step=1.0)
    assert ("link_down", "link(host-015/mlx5_3/1, leaf-1-3/16)", "resolved") in told_of(w, told)
    w.mend(sorted(spread(w))[:3])
    w.run(400, step=2.0)
    last = told_of(w, told)
    assert ("mass_alarm", "network(test)", "resolved") in last
    assert sum(kind == "link_down" and status == "firing" for kind, _, status in last) == 5


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


def test_a_restart_keeps_the_alarm_until_it_is_calm(world: Any) -> None:
    w = world(units=2, hosts=8, rails=4)
    w.engine = Engine(Scope.FLEET, w.graph, PARAMS, "test")
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(10)
    w.break_links(spread(w))
    w.run(60)
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
    assert not [i for i in w.firing("critical") if i.kind == "mass_alarm"]
