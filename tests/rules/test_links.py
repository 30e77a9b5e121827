"""link_down, link_flapping and link_degraded over scenarios of links (S01, S02, S15, S26 and their look-alikes)."""

from __future__ import annotations

import math

import pytest

from fabricmon.fleet.differences import RELOAD
from fabricmon.rules import link_degraded, link_down, link_flapping
from fabricmon.units import Duration, Rate
from tests.rules.bench_of_ports import ACTIVE, NDR, Ports

HOUR = 3600.0
INIT = {"state": 2.0, "phys_state": 5.0}


def warm(ports: Ports, polls: int = 3) -> Ports:
    ports.polls(polls)
    assert not ports.changes
    return ports


# --- link_down


def test_a_link_that_goes_down_is_reported_after_the_hold_and_ends_when_it_is_up() -> None:
    ports = warm(Ports())
    ports.down(0, 3)
    assert not ports.poll()
    assert not ports.poll(4.0)
    (change,) = ports.poll(1.0)
    assert change.symptom.rule == "link_down"
    assert change.symptom.component.name == "mlx5_3/1"
    assert change.symptom.since == ports.now - 5
    assert "phys_state 2 (polling)" in change.symptom.evidence[0].text
    ports.up(0, 3)
    ports.poll(5.0)
    closed = ports.poll()
    assert [(c.symptom.rule, c.opened) for c in closed] == [("link_down", False)]


def test_one_look_that_saw_a_link_down_does_not_hold_until_the_next() -> None:
    """S01: read every 10 s, a link that is down for 3 s is seen down once or never."""
    ports = warm(Ports())
    ports.down(0, 3)
    assert not ports.poll()
    assert not ports.judge(9.0)
    ports.up(0, 3)
    assert not ports.poll(1.0)
    ports.down(0, 4)
    ports.poll()
    assert [c.symptom.component.name for c in ports.poll()] == ["mlx5_4/1"]


def test_a_link_that_is_down_when_its_node_stops_reporting_is_reported() -> None:
    ports = warm(Ports())
    ports.down(0, 3)
    ports.poll()
    assert not ports.judge(14.0)
    assert [c.symptom.rule for c in ports.judge(2.0)] == ["link_down"]


def test_no_hold_tells_at_once() -> None:
    ports = warm(Ports(params={"link_down": link_down.LinkDownParams(hold=Duration(0))}))
    ports.down(0, 0)
    assert [c.symptom.rule for c in ports.poll()] == ["link_down"]


NEVER = {"state": 1.0, "phys_state": 2.0, "rate": math.nan}


@pytest.mark.parametrize("why", ["no sister is up", "another sort", "few sisters", "second ports"])
def test_a_port_that_never_was_up_and_is_not_expected_is_uncabled(why: str) -> None:
    other = {"another sort": {"role": "storage"}, "second ports": {"port": "2"}}.get(why, {})
    ports = Ports(nics=3 if why == "few sisters" else 8, own={(0, 2): other})
    for nic in range(8) if why == "no sister is up" else (2,):
        ports.port[0, nic] |= NEVER
    ports.polls(30)
    assert not ports.told()
    assert not ports.known("link_down", 0, 2)


def test_a_port_that_never_came_up_beside_its_sisters_is_down_after_two_minutes() -> None:
    ports = Ports()
    for nic in (2, 5):
        ports.port[0, nic] |= NEVER
    ports.polls(12)
    assert not ports.told()
    ports.polls(3)
    assert {s.component.name for s in ports.open("link_down")} == {"mlx5_2/1", "mlx5_5/1"}
    assert "it never was up, and most ports of its sort on this host are" in [
        e.text for e in ports.open("link_down")[0].evidence
    ]


def test_ports_that_have_waited_for_a_subnet_manager_since_the_boot_name_it() -> None:
    ports = Ports(nics=2)
    for nic in (0, 1):
        ports.port[0, nic] |= INIT | {"sm_lid": 0.0}
    ports.polls(12)
    assert not ports.told()
    ports.polls(3)
    symptoms = ports.open("link_down")
    assert len(symptoms) == 2
    for symptom in symptoms:
        texts = [e.text for e in symptom.evidence]
        assert "2 ports wait for the subnet manager: suspect it, not the cables" in texts
        assert "it never was up, and its physical link is" in texts
        assert symptom.info["suspect"] == "subnet manager"
    for nic in (0, 1):
        ports.port[0, nic] |= ACTIVE
    ports.polls(3)
    assert not ports.open("link_down")


@pytest.mark.parametrize("labels", [{}, {"swept": "switch"}])
def test_ports_read_once_in_init_by_an_agent_that_falls_silent_are_not_down(labels: dict[str, str]) -> None:
    """A subnet manager takes seconds; what the ports are since is not known, also of ports that a sweep reads."""
    ports = warm(Ports(nics=2, labels={"role": "compute"} | labels), polls=15)
    for nic in (0, 1):
        ports.port[0, nic] |= INIT
    ports.poll()
    ports.silent.add(0)
    ports.polls(12, seconds=5.0)
    assert not ports.open("link_down")


def test_one_port_in_init_accuses_nobody_else() -> None:
    ports = Ports()
    ports.port[0, 3] |= INIT
    ports.polls(15)
    (symptom,) = ports.open("link_down")
    assert symptom.info == {"waits_for": "subnet manager"}


def test_the_same_port_of_most_hosts_of_a_type_is_an_expectation() -> None:
    """Three ports a host, too few sisters: the other hosts decide."""
    ports = Ports(hosts=5, nics=3)
    ports.port[4, 1] |= NEVER
    ports.polls(15)
    (symptom,) = ports.open("link_down")
    assert symptom.component.name == "mlx5_1/1"
    assert "it never was up, and the same port of most hosts of this type is" in [e.text for e in symptom.evidence]


def test_a_boot_gives_ports_that_never_were_up_the_same_time() -> None:
    ports = Ports()
    ports.port[0, 3] |= INIT
    ports.polls(6)
    ports.port[0, 3] |= ACTIVE
    ports.polls(20)
    assert not ports.told()


def test_a_port_that_was_up_before_anybody_looked_is_down() -> None:
    ports = Ports()
    ports.port[0, 5] |= {"state": 1.0, "phys_state": 2.0, "rate": math.nan, "link_downed": 1.0}
    ports.polls(3)
    assert ports.told() == {"link_down"}


def test_a_port_that_an_operator_disabled_is_no_fault() -> None:
    ports = warm(Ports())
    ports.port[0, 1] |= {"state": 1.0, "phys_state": 3.0}
    ports.polls(10)
    assert not ports.told()


def test_an_ethernet_port_without_a_carrier_is_down_whatever_the_bond_says() -> None:
    ports = warm(Ports(layer="Ethernet"))
    ports.port[0, 2] |= {"carrier": 0.0, "operstate": 2.0}  # the RDMA state follows the bond: still active
    ports.polls(3)
    assert ports.told() == {"link_down"}
    assert "no carrier" in ports.open("link_down")[0].evidence[0].text


def test_an_interface_set_down_by_order_is_no_fault() -> None:
    ports = warm(Ports(layer="Ethernet"))
    ports.port[0, 2] |= {"carrier": 0.0, "operstate": 2.0, "admin_up": 0.0, "state": 1.0, "phys_state": 3.0}
    ports.polls(5)
    assert not ports.told()


def test_init_with_a_good_cable_is_the_subnet_manager_s_matter() -> None:
    ports = warm(Ports())
    ports.port[0, 4] |= INIT | {"sm_lid": 0.0}
    ports.polls(2)
    assert not ports.told()
    ports.polls(3)
    (symptom,) = ports.open("link_down")
    assert "no subnet manager" in symptom.evidence[1].text
    assert "none assigned" in symptom.evidence[1].text
    ports.port[0, 4] |= ACTIVE
    ports.polls(3)
    assert not ports.open("link_down")


def test_what_a_subnet_manager_configures_counts_against_what_it_shares_and_changes_nothing_of_itself() -> None:
    """Another subnet manager configures all ports anew: a leaf of which some are down has many that work."""
    ports = warm(Ports())
    state, row = ports.rule_states.by_rule["link_down"], ports.row(0, 4)
    ports.port[0, 4] |= INIT
    ports.poll()
    assert (bool(state.observed()[row]), ports.known("link_down", 0, 4), ports.told()) == (True, False, set())
    ports.port[0, 4]["state"] = math.nan
    ports.poll()
    assert not state.observed()[row]
    ports.up(0, 4)
    ports.down(0, 4)
    ports.poll()
    assert not state.observed()[row], "it may be down"
    ports.polls(2)
    told = len(ports.changes)
    ports.port[0, 4] |= INIT
    ports.polls(2)
    assert [s.component.name for s in ports.open("link_down")] == ["mlx5_4/1"]
    assert len(ports.changes) == told, "it neither closes the symptom nor reads it anew"


def test_an_unknown_state_is_neither_down_nor_up() -> None:
    ports = warm(Ports())
    ports.port[0, 0]["state"] = math.nan
    ports.polls(5)
    assert not ports.told()
    ports.port[0, 0] |= {"state": 1.0, "phys_state": 2.0}
    ports.polls(3)
    ports.port[0, 0]["state"] = math.nan
    ports.polls(10)
    assert len(ports.open("link_down")) == 1


def test_silence_is_no_recovery_and_no_fault() -> None:
    ports = warm(Ports(hosts=2))
    ports.down(0, 0)
    ports.polls(2)
    ports.silent = {0, 1}
    for _ in range(60):
        ports.poll()
    assert len(ports.open("link_down")) == 1
    assert not ports.known("link_down", 0, 0)


def test_ports_that_train_after_a_boot_are_given_time() -> None:
    ports = warm(Ports(hosts=2))
    ports.reboot(1)
    for nic in range(8):
        ports.port[1, nic] |= {"state": 1.0, "phys_state": 4.0}
    ports.polls(11)
    assert not ports.told()
    ports.up(1, 0)
    ports.polls(3)
    assert {s.component.name for s in ports.open("link_down")} == {f"mlx5_{n}/1" for n in range(1, 8)}


# --- link_flapping


def test_the_third_of_five_flaps_raises_once_and_it_clears_half_an_hour_after_the_last() -> None:
    """S01: downs at 0, 90, 150, 300 and 420 s, each with a burst of symbol errors after it."""
    ports = warm(Ports(hosts=4))
    onset, raised, cleared = ports.now, [], []
    for poll in range(400):
        if poll * 10 in (0, 90, 150, 300, 420):
            ports.flap(0, 3)
        if poll * 10 - 10 in (0, 90, 150, 300, 420):
            ports.port[0, 3]["symbol_errors"] += 40
        for change in ports.poll():
            (raised if change.opened else cleared).append(change)
    (up,), (gone,) = raised, cleared
    assert up.symptom.rule == gone.symptom.rule == "link_flapping"
    assert 150 <= up.at - onset <= 170
    assert up.symptom.since == onset + 10
    assert "3 downs" in up.symptom.evidence[0].text
    assert 22 * 60 <= gone.at - (onset + 430) <= 45 * 60
    assert ports.told() == {"link_flapping"}


def test_two_downs_of_one_reboot_of_the_peer_do_not_raise() -> None:
    ports = warm(Ports())
    ports.flap(0, 0)
    ports.poll()
    ports.flap(0, 0)
    ports.polls(50)
    assert not ports.told()


def test_three_downs_in_one_poll_are_three() -> None:
    ports = warm(Ports())
    for _ in range(3):
        ports.flap(0, 0)
    assert [c.symptom.rule for c in ports.poll()] == ["link_flapping"]


def test_one_down_every_six_hours_is_slow_flapping_at_the_third() -> None:
    """S02, and what is told of it says slow."""
    ports = warm(Ports(nics=4))
    for hour in range(30):
        if hour in (0, 6, 12, 18):
            ports.down(0, 1)
            ports.poll(3.0)
            ports.up(0, 1)
        ports.polls(6, seconds=10.0)
        for _ in range(12):
            ports.poll(250.0 - 5.0, traffic=0.0)
        told = [c for c in ports.changes if c.opened]
        assert bool(told) == (hour >= 12), hour
    (change,) = told
    view = ports.view()
    assert link_flapping.RULE.info(view, ports.row(0, 1), link_flapping.LinkFlappingParams()) == {"slow": "true"}
    assert change.symptom.evidence[0].text == "3 separate episodes in 24 h"


def test_a_quick_flap_is_not_reported_as_slow_afterwards() -> None:
    ports = warm(Ports())
    for _ in range(3):
        ports.flap(0, 0)
        ports.polls(9)
    assert len(ports.open("link_flapping")) == 1
    ports.polls(300)
    assert not ports.open("link_flapping")


def test_sources_that_tell_of_the_same_down_are_not_added() -> None:
    """RDMA counter, carrier counter and the state seen, one after the other: two downs, not six."""
    ports = warm(Ports(layer="Ethernet"))
    for _ in range(2):
        ports.port[0, 0] |= {"state": 1.0, "phys_state": 3.0, "carrier": 0.0}
        ports.port[0, 0]["carrier_down_changes"] += 1
        ports.poll(3.0)
        ports.port[0, 0] |= ACTIVE | {"carrier": 1.0}
        ports.port[0, 0]["link_downed"] += 1
        ports.poll(7.0)
    ports.polls(5)
    assert sum(n for _, n in ports.view().tracks.downs.of_row(ports.row(0, 0))) == 2
    assert "link_flapping" not in ports.told()


def test_a_full_counter_leaves_it_to_what_is_seen() -> None:
    ports = Ports()
    for nic in range(8):
        ports.port[0, nic]["link_downed"] = 255.0
    ports.polls(3)
    for _ in range(3):
        ports.port[0, 2] |= {"state": 1.0, "phys_state": 2.0}
        ports.poll(2.0)
        ports.up(0, 2)
        ports.poll(2.0)
    assert [s.component.name for s in ports.open("link_flapping")] == ["mlx5_2/1"]


def test_a_link_that_goes_down_after_its_counters_were_cleared_is_reported_at_once() -> None:
    """All counters begin anew between two polls, less apart than a driver reload takes."""
    ports = Ports()
    ports.port[0, 3] |= {"symbol_errors": 4.0, "link_downed": 9.0}
    warm(ports)
    ports.port[0, 3] |= dict.fromkeys(("symbol_errors", "link_downed", "xmit", "rcv"), 1.0)
    ports.poll()
    assert ports.view().table.reset[ports.row(0, 3)] == ports.now
    ports.down(0, 3)
    ports.polls(2)
    assert [s.component.name for s in ports.open("link_down")] == ["mlx5_3/1"]


@pytest.mark.parametrize("cause", ["boot", "reload", "maintenance"])
def test_downs_that_belong_to_known_work_do_not_count(cause: str) -> None:
    """S21 and S26: a boot, a driver reload (all counters begin anew), announced maintenance."""
    ports = Ports()
    for nic in range(8):
        ports.port[0, nic] |= {"symbol_errors": 4.0, "link_downed": 9.0}
    warm(ports)
    if cause == "boot":
        ports.reboot(0)
        ports.poll()
    elif cause == "maintenance":
        ports.fleet.maintain({"host-000"})
    else:
        for nic in range(8):
            ports.port[0, nic] |= dict.fromkeys(("symbol_errors", "link_downed", "xmit", "rcv"), 1.0)
        ports.poll(RELOAD + 5.0)  # the devices were away
    for _ in range(4):
        ports.flap(0, 0)
        ports.poll()
    assert "link_flapping" not in ports.told()
    assert int(ports.view().tracks.downs.excused[ports.row(0, 0)]) == 4
    ports.fleet.maintain(set())
    ports.polls(12)
    for _ in range(3):
        ports.flap(0, 0)
        ports.poll()
    assert "link_flapping" in ports.told()


def test_downs_during_a_silence_are_counted_at_its_middle() -> None:
    ports = warm(Ports())
    ports.silent = {0}
    ports.polls(360)
    for _ in range(4):
        ports.flap(0, 0)
    ports.silent = set()
    ports.poll()
    assert not ports.open("link_flapping")  # four downs within an hour, an average half an hour ago: 1000 < 2000
    assert sum(n for _, n in ports.view().tracks.downs.of_row(ports.row(0, 0))) == 4


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="clear_at must be below"):
        link_flapping.LinkFlappingParams(raise_at=500.0)


# --- link_degraded


def test_a_link_trained_at_half_its_rail_s_rate_is_reported_after_a_minute() -> None:
    """S15, with expected and actual rate."""
    ports = warm(Ports(hosts=4))
    onset = ports.now
    ports.port[2, 5]["rate"] = NDR / 2
    ports.polls(9)
    (symptom,) = ports.open("link_degraded")
    assert ports.told() == {"link_degraded"}
    (change,) = ports.changes
    assert change.at - onset <= 70
    assert "200 Gb/s" in symptom.evidence[0].text
    assert "400 Gb/s" in symptom.evidence[0].text


def test_split_ports_are_compared_with_their_like() -> None:
    ports = Ports(hosts=4)
    for at in ports.port.values():
        at |= {"rate": NDR / 2, "width": 2.0}
    ports.polls(20)
    assert not ports.told()


def test_the_same_rate_by_other_lanes_is_the_same_rate() -> None:
    ports = Ports(hosts=4)
    ports.port[0, 0]["width"] = 8.0
    ports.polls(20)
    assert not ports.told()


def test_one_host_alone_compares_ports_of_one_role() -> None:
    ports = Ports(hosts=1)
    ports.port[0, 6]["rate"] = NDR / 4
    ports.polls(10)
    assert [s.component.name for s in ports.open("link_degraded")] == ["mlx5_6/1"]


def test_ports_of_unknown_role_on_one_host_are_no_peers() -> None:
    ports = Ports(labels={"role": ""})
    ports.port[0, 6]["rate"] = NDR / 4
    ports.polls(10)
    assert not ports.told()


def test_a_storage_bond_is_no_slow_compute_port() -> None:
    """A node as they are: eight 400G InfiniBand ports and a 200G Ethernet bond, no role known of any."""
    own = {(0, 8): {"link_layer": "Ethernet", "board": "MT_0000000359"}}
    ports = Ports(hosts=1, nics=9, labels={"role": "unknown", "board": "MT_0000000838"}, own=own)
    ports.port[0, 8]["rate"] = NDR / 2
    ports.polls(10)
    assert not ports.told()
    ports.port[0, 3]["rate"] = NDR / 2
    ports.polls(10)
    assert [s.component.name for s in ports.open("link_degraded")] == ["mlx5_3/1"]


def test_an_older_generation_on_the_same_rail_is_no_slow_port() -> None:
    own = {(host, nic): {"board": "MT_0000000223"} for host in range(3) for nic in range(8)}
    ports = Ports(hosts=9, labels={"role": "compute", "board": "MT_0000000838"}, own=own)
    for host, nic in own:
        ports.port[host, nic]["rate"] = NDR / 2
    ports.polls(10)
    assert not ports.told()
    ports.port[1, 4]["rate"] = NDR / 4
    ports.polls(10)
    assert [str(s.component) for s in ports.open("link_degraded")] == [f"{ports.node(1)}/mlx5_4/1"]


def test_a_configured_rate_needs_no_peers() -> None:
    params = {"link_degraded": link_degraded.LinkDegradedParams(expected={"compute": Rate(NDR)})}
    ports = Ports(hosts=1, nics=1, params=params)
    ports.port[0, 0]["rate"] = NDR / 2
    ports.polls(10)
    assert "configured" in ports.open("link_degraded")[0].evidence[0].text


def test_the_rate_of_a_down_port_means_nothing() -> None:
    ports = warm(Ports(hosts=4))
    ports.down(0, 0)
    ports.port[0, 0]["rate"] = 2.5e9 / 8
    ports.polls(12)
    assert ports.told() == {"link_down"}


@pytest.mark.parametrize("rate", [NDR, NDR / 2])
def test_a_link_whose_peers_left_is_compared_with_its_make(rate: float) -> None:
    """Found by the state machine: with its peers forgotten, a link that was mended was slow for ever."""
    ports = Ports(hosts=4, nics=2)
    ports.port[2, 1]["rate"] = NDR / 2
    ports.polls(10)
    assert len(ports.open("link_degraded")) == 1
    for host in (0, 1):
        ports.fleet.forget(ports.node(host))
        del ports.inventories[host]
    ports.port[2, 1]["rate"] = rate
    ports.polls(10)
    assert len(ports.open("link_degraded")) == (rate < NDR)


def test_no_majority_no_verdict() -> None:
    ports = Ports(hosts=4, nics=1)
    for host in (0, 1):
        ports.port[host, 0]["rate"] = NDR / 2
    ports.polls(12)
    assert not ports.told()


@pytest.mark.parametrize("rate", [100e6 / 8, 0.0])
def test_ports_below_the_finest_step_are_as_fast_as_their_peers(rate: float) -> None:
    ports = Ports(hosts=4)
    for port in ports.port.values():
        port["rate"] = rate
    ports.polls(10)
    assert not ports.told()
