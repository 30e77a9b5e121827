"""Single limits that did not hold: each of these was a false alarm, or a fault that nobody was told of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fabricmon.engine.incidents.offences import Offences
from fabricmon.engine.incidents.short_downs import TOGETHER, ShortDowns
from fabricmon.fleet.view import View
from fabricmon.model import Kind, Presence, Severity
from fabricmon.rules import packet_loss
from fabricmon.rules.repeat_offender import RepeatOffenderParams
from tests.rules.bench_of_ports import Ports
from tests.rules.bench_of_pressure import RATE, Pressed, quiet
from tests.rules.test_packet_loss import Hosts

DAY = 86_400.0


# --- incast by marks alone


@pytest.mark.parametrize("load", [0.2, 0.4, 0.7])
def test_marks_at_a_load_like_that_of_the_peers_are_no_incast(load: float) -> None:
    """ECN marks of congestion elsewhere on the path; a third of the ports are marked more than the rest."""
    ports = Pressed()
    ports.work(ports.rates, load)
    for n, port in enumerate(ports.rates):
        share = 0.12 if n % 3 == 0 else 0.01
        packets = load * RATE / 4096
        ports.rate([port], rdma_rx_packets=packets, ecn_marked_rx=share * packets)
    ports.polls(20)
    ports.rate(ports.rates, cnp_handled=500.0)
    ports.polls(15)
    assert quiet(ports)


# --- loss of devices that count packets sent again, and a timer


def test_what_is_sent_again_counts_where_a_timer_is_counted_too() -> None:
    """EFA: the timer hid the packets, so a loss of 1e-3 was taken for one of 3e-7."""
    hosts = Hosts(columns=("rdma_tx_packets", "ack_timeout", "retrans_packets"))
    for _ in range(4):
        hosts.poll()
    for _ in range(3):
        hosts.poll(ack_timeout={"host-007": 15.0}, retrans_packets={"host-007": 5e4})
    assert hosts.lossy() == ["host-007"]
    share = float(packet_loss.evidence(hosts.view(), 7, packet_loss.PacketLossParams())[0].value or 0.0)
    assert share == pytest.approx(1e-3, rel=0.01)


def test_a_timer_of_a_device_that_counts_no_packets_of_loss_is_a_lost_packet() -> None:
    hosts = Hosts(columns=("rdma_tx_packets", "ack_timeout"))
    for _ in range(4):
        hosts.poll()
    for _ in range(2):
        hosts.poll(ack_timeout={"host-007": 6.0})
    assert hosts.lossy() == ["host-007"]
    assert hosts.view().losses.lost[0, 7] == 6.0


# --- speed of idle PCIe devices


def test_the_pcie_speed_of_idle_adapters_does_not_count_and_that_of_busy_ones_does() -> None:
    ports = Pressed()
    ports.work(ports.rates, 0.0)
    ports.speed = dict.fromkeys(ports.speed, 0.25)
    ports.polls(20)
    assert quiet(ports)
    ports.work([(3, 1)], 0.4)
    ports.polls(10)
    (symptom,) = [held.symptom for held in ports.rule_states.by_rule["pcie_degraded"].open.values()]
    assert symptom.component.node == "host-003"
    assert symptom.component.name == "0000:11:00.0"


@pytest.mark.parametrize(
    ("slow", "busy", "down", "told"),
    [
        (1, False, False, 1),
        (2, False, False, 2),
        (3, False, False, 0),  # fewer are at full speed: this host may save power
        (1, True, False, 0),  # those at full speed work
        (1, False, True, 0),  # no link: nothing to be ready for
    ],
)
def test_the_pcie_speed_of_an_idle_adapter_counts_beside_idle_ones_at_full_speed(
    slow: int, busy: bool, down: bool, told: int
) -> None:
    ports = Pressed(nics=4)
    ports.work(ports.rates, 0.0)
    for nic in range(slow):
        ports.speed[3, nic] = 0.25
        if down:
            ports.down.add((3, nic))
    if busy:
        ports.work([(3, nic) for nic in range(slow, 4)], 0.4)
    ports.polls(20)
    held = [one.symptom for one in ports.rule_states.by_rule["pcie_degraded"].open.values()]
    assert [one.component.node for one in held] == ["host-003"] * told
    assert all("others of its kind on its host are idle, too" in one.evidence[-1].text for one in held)


@pytest.mark.parametrize(
    ("hosts", "slow", "busy", "told"), [(101, 1, 0, 1), (90, 1, 0, 0), (150, 2, 0, 0), (101, 1, 20, 0)]
)
def test_the_pcie_speed_of_the_only_idle_adapter_of_its_host_counts_where_it_is_one_of_a_hundred(
    hosts: int, slow: int, busy: int, told: int
) -> None:
    ports = Pressed(hosts=hosts, nics=1)
    ports.work(ports.rates, 0.0)
    ports.work([(host, 0) for host in range(10, 10 + busy)], 0.4)
    for host in range(3, 3 + slow):
        ports.speed[host, 0] = 0.25
    ports.polls(20)
    held = [one.symptom for one in ports.rule_states.by_rule["pcie_degraded"].open.values()]
    assert [one.component.node for one in held] == ["host-003"] * told


def test_the_width_of_an_idle_adapter_is_judged() -> None:
    ports = Pressed()
    ports.work(ports.rates, 0.0)
    ports.lanes[3, 1] = 8.0
    ports.polls(10)
    assert len(ports.rule_states.by_rule["pcie_degraded"].open) == 1


# --- telemetry that nobody was told of


def frozen(load: float, others: float | None = None, polls: int = 75) -> Severity | None:
    """Of a port that carried `load` and stands still while the others carry `others`."""
    ports = Pressed(nics=8, layer="InfiniBand")
    ports.work(ports.rates, load if others is None else others)
    ports.work([(3, 5)], load)
    ports.polls(40)
    ports.work([(3, 5)], 0.0)
    ports.polls(polls)
    held = [held.symptom for held in ports.rule_states.by_rule["telemetry_quality"].open.values()]
    if not held:
        return None
    assert [symptom.info["problem"] for symptom in held] == ["frozen"]
    return held[0].severity


@pytest.mark.parametrize("load", [0.02, 0.1, 0.8])
def test_counters_that_stand_still_while_the_others_carry_on_are_a_warning(load: float) -> None:
    assert frozen(load, polls=17) is Severity.WARNING


def test_counters_that_stand_still_at_one_moment_on_two_hosts_are_information() -> None:
    ports = Pressed(nics=8, layer="InfiniBand")
    ports.polls(40)
    ports.work([(3, 5), (6, 5)], 0.0)
    ports.polls(17)
    assert not ports.rule_states.by_rule["telemetry_quality"].open
    ports.polls(60)
    held = ports.rule_states.by_rule["telemetry_quality"].open.values()
    assert [one.symptom.severity for one in held] == [Severity.INFO] * 2


def test_counters_that_stand_still_as_a_link_of_their_rail_goes_down_are_information() -> None:
    ports = Pressed(nics=8, layer="InfiniBand")
    ports.polls(40)
    ports.work([(3, 5), (6, 5)], 0.0)
    ports.down.add((6, 5))
    ports.polls(17)
    assert not ports.rule_states.by_rule["telemetry_quality"].open


def test_counters_that_stand_still_minutes_apart_on_two_hosts_are_warnings() -> None:
    ports = Pressed(nics=8, layer="InfiniBand")
    ports.polls(40)
    ports.work([(3, 5)], 0.0)
    ports.polls(8)
    ports.work([(6, 5)], 0.0)
    ports.polls(17)
    held = ports.rule_states.by_rule["telemetry_quality"].open.values()
    assert [one.symptom.severity for one in held] == [Severity.WARNING] * 2


@pytest.mark.parametrize(
    ("jobs", "still", "others", "told"),
    [
        (1, {(3, 0)}, 0.1, True),
        (0, {(3, 0)}, 0.1, False),  # no job is known
        (4, {(3, 0)}, 0.1, False),  # of two hosts each
        (1, {(3, 0), (3, 1)}, 0.1, False),  # the host stands still
        (1, {(3, 0)}, 0.3, False),  # the others of the job carried more
        (1, {(3, 0), (6, 0)}, 0.1, False),  # two hosts at one moment
    ],
)
def test_counters_that_stand_still_while_the_same_port_of_its_job_s_other_hosts_carries_on_are_a_warning(
    jobs: int, still: set[tuple[int, int]], others: float, told: bool
) -> None:
    ports = Pressed(nics=2, layer="InfiniBand")
    ports.work(ports.rates, others)
    ports.work([(3, 0), (3, 1), *still], 0.1)
    ports.polls(40)
    if jobs:
        table = ports.fleet.tables[Kind.PORT]
        assert table.domains is not None
        host = np.array([int(component.node[-3:]) for component in table.ids], np.int32)
        table.domains = replace(table.domains, ids={**table.domains.ids, "job": host * jobs // 8})
    ports.work(still, 0.0)
    ports.polls(20)
    held = [one.symptom for one in ports.rule_states.by_rule["telemetry_quality"].open.values()]
    assert [(str(one.component), one.severity) for one in held] == [("host-003/mlx5_0/1", Severity.WARNING)] * told
    assert all("on other hosts of its job do" in one.evidence[0].text for one in held)


@pytest.mark.parametrize("others", [0.04, 0.25])
def test_counters_of_a_port_with_work_of_its_own_that_stand_still_are_information(others: float) -> None:
    assert frozen(0.1, others, polls=17) is None
    assert frozen(0.1, others) is Severity.INFO


@pytest.mark.parametrize(("sender", "lost", "told"), [(3, 0.0, True), (2, 0.0, True), (3, 1e3, False), (4, 0.0, False)])
def test_counters_that_stand_still_under_connections_that_deliver_packets_are_a_warning(
    sender: int, lost: float, told: bool
) -> None:
    """The connection of host 3 and the one to it, whatever its other ports do; a port that loses all it sends is no
    such."""
    ports = Pressed(nics=2, layer="InfiniBand", sent={(sender, 1): 1e3})
    ports.polls(40)
    ports.work([(3, 0), (3, 1)], 0.0)
    ports.lost[sender, 1] = lost
    ports.polls(20)
    held = [one.symptom for one in ports.rule_states.by_rule["telemetry_quality"].open.values()]
    assert [(str(one.component), one.severity) for one in held] == [("host-003/mlx5_1/1", Severity.WARNING)] * told
    assert all("it has stopped counting" in one.evidence[0].text for one in held)


def test_packets_that_were_delivered_before_counters_stood_still_and_read_later_show_nothing() -> None:
    """A host whose agent did not report for minutes, as in maintenance: its job stood still meanwhile."""
    ports = Pressed(nics=2, layer="InfiniBand", sent={(2, 1): 1e3})
    ports.polls(40)
    ports.unread[2] = ports.taken
    ports.polls(2)
    ports.work([(3, 0), (3, 1)], 0.0)
    ports.sent[2, 1] = 0.0
    ports.polls(20)
    ports.unread.clear()
    ports.polls(5)
    assert not ports.rule_states.by_rule["telemetry_quality"].open


def test_counters_that_are_not_read_any_more_do_not_stand_still() -> None:
    """The collector hangs; the agent reports, and the connections of its host go on."""
    ports = Pressed(nics=2, layer="InfiniBand", sent={(2, 1): 1e3, (3, 1): 1e3})
    ports.polls(40)
    ports.work([(3, 0), (3, 1)], 0.0)
    ports.late[3] = ports.taken
    ports.polls(30)
    held = [one.symptom for one in ports.rule_states.by_rule["telemetry_quality"].open.values()]
    assert {(one.info["problem"], one.severity) for one in held} == {("not refreshed", Severity.INFO)}


@pytest.mark.parametrize(("layer", "told"), [("InfiniBand", True), ("RDMA only", False)])
def test_probes_are_counted_by_every_adapter_of_infiniband_and_not_by_every_one_of_roce(layer: str, told: bool) -> None:
    ports = Pressed(nics=2, layer=layer, sent={(3, 1): 10.0}, probes=True)
    ports.polls(40)
    ports.work([(3, 0), (3, 1)], 0.0)
    ports.polls(20)
    assert len(ports.rule_states.by_rule["telemetry_quality"].open) == told


def test_a_warning_about_one_port_is_none_about_all_whose_counters_were_cleared() -> None:
    ports = Pressed(hosts=24, nics=4, layer="InfiniBand")
    ports.polls(40)
    ports.work([(3, 1)], 0.0)
    ports.polls(13)
    for host in range(5, 24):
        for nic in range(4):
            ports.count[host, nic] |= dict.fromkeys(("rcv", "xmit"), 0.0)
    ports.polls(5)
    told = {i.component: (i.severity, i.members.bad) for i in ports.engine.incidents() if i.kind == "telemetry_quality"}
    assert told == {"host(host-003)": (Severity.WARNING, 1), "network(test)": (Severity.INFO, 19)}


def test_two_agents_under_one_name_are_a_warning_and_a_silent_agent_is_none() -> None:
    ports = Ports(hosts=2)
    ports.polls(13)
    ports.fleet.presence("host-000", Presence.CLONED, "two agents", ports.now)
    ports.fleet.presence("host-001", Presence.REFUSED, "connection refused", ports.now)
    ports.silent.add(1)
    ports.polls(6)
    severities = {symptom.component.node: symptom.severity for symptom in ports.open("agent_silent")}
    assert severities == {"host-000": Severity.WARNING, "host-001": Severity.INFO}


# --- a leg of a bond


def test_a_leg_of_a_bond_says_that_the_others_carry_on() -> None:
    ports = Ports(nics=4, layer="Ethernet", own={(0, n): {"bond": f"bond{n // 2}"} for n in range(4)})
    ports.polls(13)
    ports.port[0, 2]["carrier"] = 0.0
    ports.polls(3)
    (symptom,) = ports.open("link_down")
    assert symptom.info == {"bond": "bond1", "legs_up": "1 of 2"}
    assert "leg of bond1: 1 of its 1 other legs up (mlx5_3/1)" in symptom.evidence[1].text
    ports.port[0, 3]["carrier"] = 0.0
    ports.polls(3)
    second = next(s for s in ports.open("link_down") if s.component.name == "mlx5_3/1")
    assert second.info["legs_up"] == "0 of 2"


# --- downs that were too short for an incident


def short_downs(ports: Any, days: int, *, also: int = 0) -> list[tuple[str, str]]:
    """What the repeat offenders are after one short down a day of one link, and of `also` others with it."""
    downs, offences = ShortDowns(ports.fleet), Offences()
    downs.alone(ports.now)
    for _ in range(days):
        ports.now += DAY
        ports.taken += DAY
        ports.poll()
        for nic in range(1 + also):
            ports.flap(0, nic)
        for _ in range(6):
            ports.poll()
            offences.note_downs(downs.alone(ports.now), ports.now)
    parts = {"link": 4000, "host": 500}
    found = offences.drafts(parts, RepeatOffenderParams(), ports.now)
    return [(draft.component, draft.labels["incidents"]) for draft in found]


def test_a_link_with_short_downs_days_apart_is_a_repeat_offender() -> None:
    ports = Ports()
    ports.polls(13)
    assert short_downs(ports, 6) == [("link(host-000/mlx5_0/1)", "6")]
    assert "link_down" not in ports.told()


def test_links_that_go_down_together_have_a_cause_that_they_share() -> None:
    ports = Ports()
    ports.polls(13)
    assert TOGETHER >= 10.0
    assert short_downs(ports, 6, also=2) == []


def test_a_view_of_another_table_has_no_adapters() -> None:
    ports = Ports()
    ports.polls(1)
    with pytest.raises(ValueError, match="PCIe"):
        View(ports.fleet.tables[Kind.PORT], ports.now).adapter_work(0)
    assert np.isnan(ports.fleet.tables[Kind.PORT].tracks.pressure.worked[0])
