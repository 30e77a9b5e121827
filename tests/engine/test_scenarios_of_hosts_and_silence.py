"""Ground truths of the scenario catalogue through the real fleet, rules and engine: hosts, power, silence, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from fabricmon.model import Kind, Maintenance, Members, Presence


def test_s11_a_dark_power_domain_is_one_incident_that_says_what_is_not_confirmed(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2, rack=8)
    w.silence(w.hosts[8:])
    assert w.run(60, check=lambda: bool(w.firing())) <= 45.0
    w.run(20)
    (incident,) = w.firing("info")
    assert (incident.kind, incident.component) == ("fault_domain", "power(rack-1)")
    assert (incident.severity, incident.members) == ("critical", Members(8, 8))
    assert "management(rack-1)" in incident.candidates
    assert "confirmed" in incident.why
    w.speak(w.hosts[8:])
    w.run(60)
    assert w.firing("info") == []


def test_a_power_domain_that_comes_back_host_by_host_stays_one_incident(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2, rack=8)
    w.silence(w.hosts[8:])
    w.run(60)
    for host in w.hosts[8:]:
        w.speak([host])
        w.run(8)
    w.run(60)
    assert w.firing("info") == []
    assert w.told("info") == {("fault_domain", "power(rack-1)")}


def test_s12_a_host_that_stops_answering_alone_is_a_warning_at_once_and_accuses_no_link(world: Any) -> None:
    w = world()
    w.silence(["host-003"])
    assert w.run(60, check=lambda: bool(w.firing())) <= 31.0
    assert [(i.kind, i.component, i.severity) for i in w.firing("info")] == [
        ("agent_silent", "host(host-003)", "warning")
    ]


def test_an_agent_that_refuses_connections_is_information(world: Any) -> None:
    w = world()
    w.silence(["host-003"], Presence.REFUSED)
    w.run(60)
    assert w.firing() == []
    assert w.kinds("info") == [("agent_silent", "host(host-003)")]


def test_links_that_went_down_with_their_host_are_the_hosts(world: Any) -> None:
    w = world()
    w.break_links(w.ports(["host-003"]))
    w.run(7)
    w.silence(["host-003"])
    w.run(120)
    assert w.told("info") == {("host_unreachable", "host(host-003)")}
    w.mend(w.ports(["host-003"]))
    w.reboot("host-003")
    w.run(60)
    assert w.firing("info") == []


def test_a_host_that_took_its_links_along_and_does_not_come_back_is_unreachable(world: Any) -> None:
    w = world(hosts=4, rails=2)
    w.break_links(w.ports(["host-003"]))
    w.run(7)
    w.silence(["host-003"])
    w.run(1000, step=5.0)
    (incident,) = w.firing()
    assert (incident.kind, incident.component, incident.severity) == ("host_unreachable", "host(host-003)", "warning")


def test_all_links_of_a_host_that_goes_on_reporting_are_one_incident(world: Any) -> None:
    w = world()
    w.break_links(w.ports(["host-003"]))
    w.run(90)
    (incident,) = w.firing()
    assert (incident.kind, incident.component) == ("link_down", "host(host-003)")
    assert incident.members == Members(4, 4)


def test_s21_maintenance_keeps_a_reboot_quiet_and_leaves_a_note(world: Any) -> None:
    w = world()
    window = Maintenance("m-1", w.now, w.now + 1200, ("host-003",), comment="new BIOS")
    w.engine.maintenance([window])
    w.run(5)
    w.break_links(w.ports(["host-003"]))
    w.run(10)
    w.silence(["host-003"])
    w.run(360, step=2.0)
    w.mend(w.ports(["host-003"]))
    w.reboot("host-003")
    w.run(900, step=5.0)
    assert w.told("info") == {("maintenance", "host(host-003)")}
    assert w.firing("info") == []


def test_what_is_still_broken_when_the_window_ends_is_reported_then(world: Any) -> None:
    w = world()
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 300, ("host-003",))])
    w.run(5)
    w.break_links([("host-003", 1)])
    w.run(200)
    assert w.firing() == []
    w.run(150)
    assert w.kinds() == [("link_down", "link(host-003/mlx5_1/1, leaf-0-1/4)")]


def test_maintenance_of_a_leaf_covers_its_links(world: Any) -> None:
    w = world(units=2)
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 3600, components=("leaf(su0/rail2)",))])
    w.break_links(w.ports(w.hosts[:8], 2))
    w.run(60)
    assert w.firing() == []


def test_maintenance_hides_nothing_that_was_already_reported(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(20)
    (before,) = w.firing()
    w.engine.maintenance([Maintenance("m-1", w.now, w.now + 300, ("host-003",))])
    w.run(60)
    assert [i.id for i in w.firing()] == [before.id]
    w.mend([("host-003", 1)])
    w.run(30)
    assert w.firing() == []


def test_s26_a_driver_reload_is_no_nic_fault_and_no_flap(world: Any) -> None:
    w = world(hosts=4, rails=2)
    w.run(130, step=1.0)
    ports = w.ports(["host-001"])
    w.break_links(ports)
    w.run(1)
    for host, rail in sorted(ports):
        w.lose(host, rail)
    w.run(15)
    w.gone.clear()
    w.mend(ports)
    for port in ports:
        w.downs[port] = 1
    w._tell_inventory("host-001")
    w.run(5)
    w.flap(("host-001", 0), 2.0)
    w.flap(("host-001", 1), 2.0)
    w.run(200, step=1.0)
    assert w.told() == set()


def test_s27_an_agent_that_restarts_within_thirty_seconds_is_not_silent(world: Any) -> None:
    w = world()
    w.silence(w.hosts[:3], Presence.REFUSED)
    w.run(25)
    for host in w.hosts[:3]:
        w.silent.discard(host)
        w._tell_inventory(host)
    w.run(60)
    assert w.told("info") == set()
    assert all(i.since <= w.now for i in w.engine.incidents())


def test_s28_many_silent_agents_are_one_summary_and_a_flap_is_found_as_usual(world: Any) -> None:
    w = world(units=4, hosts=8, rails=2, rack=8)
    w.silence(w.hosts[::7])
    w.run(60)
    (together,) = w.firing("info")
    assert together.kind == "agent_silent"
    assert together.component.startswith("common(hosts silent")
    assert together.members == Members(5, 5)
    for _ in range(3):
        w.flap(("host-002", 1))
        w.run(20)
    assert ("link_flapping", "link(host-002/mlx5_1/1, leaf-0-1/3)") in w.kinds()
    assert {kind for kind, _ in w.told()} == {"agent_silent", "link_flapping"}


def test_agents_that_answer_refused_say_nothing_of_their_power(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2, rack=8)
    w.silence(w.hosts[8:], Presence.REFUSED)
    w.run(60)
    assert w.firing() == [] or {i.kind for i in w.firing()} == {"agent_silent"}


def test_agents_that_report_again_are_no_sign_of_lost_power(world: Any) -> None:
    """Their silence ends some seconds after their first frame."""
    w = world(units=4, hosts=8, rails=2, rack=8)
    w.silence(w.hosts[24:], Presence.REFUSED)
    w.run(60)
    w.speak(w.hosts[24:])
    w.run(20)
    assert w.told() == set()


@pytest.mark.parametrize("before", [Presence.REFUSED, Presence.LIVE])
def test_a_host_that_was_one_of_many_silent_agents_and_dies_is_reported(world: Any, before: Presence) -> None:
    """Its agent had no answer or came back; the others stay in the summary."""
    w = world(units=8, hosts=8, rails=1, rack=8)
    w.silence(w.hosts[:24], Presence.REFUSED)
    w.run(60)
    assert w.kinds("info") == [("agent_silent", "network(test)")]
    if before is Presence.LIVE:
        w.speak(["host-005"])
        w.run(60)
    w.silence(["host-005"])
    w.run(29)
    assert [(i.kind, i.component, i.severity) for i in w.firing()] == [("agent_silent", "host(host-005)", "warning")]


def test_a_host_that_dies_beside_others_that_are_silent_for_long_does_not_wait_for_them(world: Any) -> None:
    w = world(units=4, hosts=8, rails=1, rack=8)
    w.silence(["host-003"])
    w.run(100)
    w.silence(["host-017"])
    assert w.run(60, check=lambda: len(w.firing()) == 2) <= 21.0


@pytest.mark.parametrize(("later", "known"), [(15, 20.0), (4, 24.0)])
def test_a_host_that_dies_waits_for_those_only_that_fell_silent_with_it(world: Any, later: int, known: float) -> None:
    """Of one that fell silent within ten seconds: until its silence shows, too."""
    w = world(units=4, hosts=8, rails=1, rack=8)
    w.silence(["host-003"])
    w.run(later)
    w.silence(["host-017"])
    assert known <= later + w.run(60, check=lambda: bool(w.firing())) <= known + 2


def test_when_most_agents_are_silent_it_is_the_server_that_cannot_see(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2, rack=4)
    w.silence(w.hosts)
    w.run(60)
    (incident,) = w.firing()
    assert (incident.kind, incident.severity) == ("agent_silent", "warning")
    assert incident.members == Members(16, 16)


def test_silence_is_never_recovery(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(20)
    w.silence(["host-003"])
    w.run(600, step=2.0)
    assert w.kinds() == [("agent_silent", "host(host-003)"), ("link_down", "link(host-003/mlx5_1/1, leaf-0-1/4)")]


def test_a_restart_neither_forgets_nor_repeats(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(20)
    (before,) = w.firing()
    w.changed.clear()
    w.restart()
    assert [i.id for i in w.firing()] == [before.id]
    w.run(60)
    (after,) = w.firing()
    assert (after.id, after.since, after.revision) == (before.id, before.since, before.revision)
    w.mend([("host-003", 1)])
    w.run(30)
    assert w.firing() == []


def test_a_restored_incident_stays_until_its_members_are_seen_healthy(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(20)
    w.mend([("host-003", 1)])
    w.silence(["host-003"])
    w.restart()
    w.run(300, step=2.0)
    assert w.kinds() == [("link_down", "link(host-003/mlx5_1/1, leaf-0-1/4)")]
    w.silent.discard("host-003")
    w._tell_inventory("host-003")
    w.run(30)
    assert w.firing() == []


def test_a_restored_leaf_is_not_reported_again_as_links(world: Any) -> None:
    w = world(units=2)
    w.break_links(w.ports(w.hosts[:8], 2))
    w.run(40)
    (before,) = w.firing()
    w.changed.clear()
    w.restart()
    w.run(60)
    assert [i.id for i in w.firing()] == [before.id]
    assert {i.id for i in w.changed if i.severity == "critical" or i.severity == "warning"} <= {before.id}


def test_two_servers_agree_on_every_id(world: Any) -> None:
    one, two = world(units=2), world(units=2, period=10.0)
    for w in (one, two):
        w.break_links(w.ports(w.hosts[:8], 2) | {("host-012", 1)})
        w.run(60)
    assert {(i.id, i.component) for i in one.firing()} == {(i.id, i.component) for i in two.firing()}
    assert len(one.firing()) == 2


def test_a_node_that_is_forgotten_takes_its_incidents_along(world: Any) -> None:
    w = world()
    w.break_links([("host-003", 1)])
    w.run(20)
    assert len(w.firing()) == 1
    w.silent.add("host-003")
    w.engine.forget("host-003", w.now)
    w.run(5)
    assert w.firing("info") == []
    assert "host-003" not in {n.node for n in w.engine.nodes()}


def test_the_engine_says_how_each_node_stands(world: Any) -> None:
    w = world()
    w.silence(["host-003"])
    w.run(60)
    by_name = {n.node: n for n in w.engine.nodes()}
    assert by_name["host-003"].presence is Presence.UNREACHABLE
    assert by_name["host-003"].symptoms == 1
    assert by_name["host-000"].presence is Presence.LIVE
    assert by_name["host-000"].ports == 4
    assert w.engine.fleet.tables[Kind.PORT].n == 32
    assert w.engine.open_by_rule()["agent_silent"] == 1
