"""Restored incidents and components that leave: an incident ends when none of its parts exists."""

from __future__ import annotations

from typing import Any

import pytest

from fabricmon.engine.incidents.incident_draft import LINGER
from fabricmon.engine.incidents.restored import FOUND_AGAIN
from fabricmon.fleet.fleet import EXPECTED_FOR
from fabricmon.fleet.membership import GONE_TIME

DAY = 86_400.0


def test_a_restored_incident_waits_for_targets_and_then_ends(world: Any) -> None:
    w = world()
    w.break_links([("host-007", 1)])
    w.run(30)
    w.silent.add("host-007")
    w.hosts_left.add("host-007")  # removed from the targets while the server is down
    w.restart()
    w.run(EXPECTED_FOR - 60, step=30.0)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]
    w.run(120, step=30.0)
    assert w.kinds() == []
    assert w.changed[-1].history[-1].reason == "all its parts left the fabric"


def test_while_a_source_of_nodes_has_not_answered_nothing_restored_ends(world: Any) -> None:
    w = world()
    w.break_links([("host-007", 1)])
    w.run(30)
    w.hosts = []
    w.restart()
    w.engine.fleet.expected_from = float("inf")
    w.run(10 * EXPECTED_FOR, step=30.0)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]
    w.engine.fleet.expected_from = w.now
    w.run(EXPECTED_FOR + 60, step=30.0)
    assert w.kinds() == []


def test_a_node_that_is_expected_and_silent_keeps_its_restored_incident(world: Any) -> None:
    w = world()
    w.break_links([("host-007", 1)])
    w.run(30)
    w.silence(["host-007"])
    w.restart()
    w.days(20)
    assert ("link_down", "link(host-007/mlx5_1/1, leaf-0-1/8)") in w.kinds()


def test_a_restored_leaf_ends_when_its_parts_are_healthy_or_have_left(world: Any) -> None:
    w = world()
    w.break_links(w.ports(rail=1))
    w.run(60)
    assert [kind for kind, _ in w.kinds()] == ["fault_domain"]
    w.silent.add("host-007")
    w.hosts_left.add("host-007")
    w.restart()
    w.mend(w.ports(rail=1))
    w.run(EXPECTED_FOR + 60, step=30.0)
    assert w.kinds() == []
    w.break_links([("host-002", 1)])
    w.run(30)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]


def test_a_restored_leaf_whose_last_links_have_incidents_of_their_own_ends(world: Any) -> None:
    w = world()
    w.break_links(w.ports(rail=1))
    w.run(60)
    w.mend(w.ports(rail=1) - {("host-003", 1)})
    w.restart()
    w.run(LINGER + 60)
    assert w.kinds() == [("link_down", "link(host-003/mlx5_1/1, leaf-0-1/4)")]


def test_a_restored_link_becomes_part_of_its_leaf(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(60)
    w.break_links(w.ports(rail=1))
    w.restart()
    w.run(60)
    assert [kind for kind, _ in w.kinds()] == ["fault_domain"]


def test_faults_that_began_apart_are_apart_after_a_restart(world: Any) -> None:
    """A link of another leaf that goes down with one is a wrong record of the topology: not one that went before."""
    w = world(units=2, hosts=8, rails=2)
    w.break_links([("host-010", 0)])
    w.run(120)
    w.break_links(w.ports(w.hosts[:8], 0))
    w.run(60)
    before = w.kinds()
    assert sorted(kind for kind, _ in before) == ["fault_domain", "link_down"]
    w.restart()
    w.run(120)
    assert w.kinds() == before
    w.mend([("host-010", 0)])
    w.run(60)
    w.break_links([("host-010", 0)])
    w.run(60)
    assert w.kinds() == before
    (link,) = (i for i in w.firing() if i.kind == "link_down")
    assert w.now - link.since < 70


@pytest.mark.parametrize("restarted", [False, True])
def test_a_missing_adapter_is_a_fault_until_it_counts_as_gone(world: Any, restarted: bool) -> None:
    w = world()
    w.lose("host-003", 1)
    w.run(60)
    if restarted:
        w.restart()
    w.days(GONE_TIME / DAY - 1)
    assert [kind for kind, _ in w.kinds()] == ["nic_fault"]
    w.days(1.5)
    assert w.kinds() == []


@pytest.mark.parametrize("restarted", [False, True])
def test_an_adapter_that_was_removed_on_purpose_is_no_fault(world: Any, restarted: bool) -> None:
    w = world()
    w.lose("host-003", 1)
    w.run(60)
    assert [kind for kind, _ in w.kinds()] == ["nic_fault"]
    w.reboot("host-003")
    w.run(300, step=2.0)
    assert [kind for kind, _ in w.kinds()] == ["nic_fault"]
    if restarted:
        w.restart()
        w.run(30)
        assert [kind for kind, _ in w.kinds()] == ["nic_fault"]
    w.remove("host-003", 1)
    w.run(10)
    assert w.kinds() == []
    w.gone.clear()
    w.reboot("host-003")  # it is back, and the configuration was forgotten
    w.break_links([("host-003", 1)])
    w.run(200, step=1.0)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]


def test_nothing_is_kept_of_the_symptoms_of_nodes_that_left(world: Any) -> None:
    w = world()
    w.break_links(w.ports(rail=1))
    w.run(60)
    w.leave("host-007")
    w.run(5)
    (record,) = w.engine.situation.firing.values()
    assert "host-007" not in {key.component.node for key in record.claims}


def test_a_mass_alarm_of_before_a_restart_ends(world: Any) -> None:
    w = world(units=3, hosts=8, params={"mass_alarm": {"least": 5}})
    for n, host in enumerate(w.hosts[:10]):
        w.break_links([(host, n % 4)])
        w.run(6)
    assert any(kind == "mass_alarm" for kind, _ in w.kinds())
    w.restart()
    w.run(5)
    assert any(kind == "mass_alarm" for kind, _ in w.kinds())
    w.mend(set(w.down))
    w.run(4 * FOUND_AGAIN, step=20.0)
    assert w.kinds() == []


@pytest.mark.parametrize("restarts", [1, 2])
def test_what_is_down_at_a_first_look_did_not_go_down_together(world: Any, restarts: int) -> None:
    """A server without its database, which may restart again, knows of no link since when it is down."""
    w = world(hosts=12, rails=4, topology=False)
    apart = [(w.hosts[2 * n], n % 4) for n in range(6)]
    for port in apart:
        w.break_links([port])
        w.run(1200, step=30.0)
    before = w.kinds()
    assert [kind for kind, _ in before] == ["link_down"] * 6
    for restart in range(restarts):
        w.restart(forgets=restart == 0)
        w.run(300, step=2.0)
        assert w.kinds() == before
    more = {(host, n % 4) for n, host in enumerate(w.hosts[1::2][:5])}
    w.break_links(more)
    w.run(60)
    assert [i.members.bad for i in w.firing() if i.component.startswith("common(links down")] == [5]


def test_what_went_down_together_is_one_incident_after_a_restart(world: Any) -> None:
    w = world(hosts=12, rails=4, topology=False)
    w.break_links({(host, n % 4) for n, host in enumerate(w.hosts[:8])})
    w.run(60)
    before = w.kinds()
    assert len(before) == 1
    w.restart()
    w.run(60)
    assert w.kinds() == before
