"""link_errors, telemetry_quality, nic_fault and agent_silent over scenarios (S13, S20, S25 to S28)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.model import Kind, Presence, Severity
from fabricmon.rules import agent_silent, link_errors, nic_fault, telemetry_quality
from tests.rules.bench_of_ports import COUNTS, Ports

HOUR = 3600.0
BITS = 4e12  # of a poll at 400 Gb/s


def settle(ports: Ports, polls: int = 6) -> Ports:
    ports.polls(polls)
    assert not ports.changes
    return ports


# --- link_errors


def test_a_degrading_optic_is_a_warning_before_1e_11_and_critical_by_1e_10() -> None:
    """S13: 1e-15 to 1e-10 within six hours, log-linear, Poisson; told by the ratio that was reached."""
    ports, rng = settle(Ports(nics=2)), np.random.default_rng(3)
    onset, ratio_at = ports.now, {}
    while ports.now <= onset + 6 * HOUR + 120:
        ratio = 10 ** (-15 + 5 * min((ports.now - onset) / HOUR, 6.0) / 6)
        errors = ports.port[0, 1]["symbol_errors"] + float(rng.poisson(ratio * 2 * BITS))
        ports.port[0, 1]["symbol_errors"] = min(errors, 65535.0)
        for change in ports.poll(20.0):
            if change.opened and change.symptom.rule == "link_errors":
                ratio_at[change.symptom.severity] = ratio
    assert ratio_at[Severity.WARNING] < 1e-11
    assert ratio_at[Severity.CRITICAL] <= 1e-10
    assert ports.told() <= {"link_errors", "link_degrading", "telemetry_quality"}


def test_an_error_now_and_then_is_background() -> None:
    ports = settle(Ports(nics=4))
    for hour in range(4):
        ports.port[0, hour % 4]["symbol_errors"] += 1
        ports.polls(120, seconds=30.0)
    assert not ports.told()


def test_one_burst_is_no_onset() -> None:
    ports = settle(Ports(nics=2))
    ports.port[0, 0]["symbol_errors"] += 500
    ports.polls(60)
    assert not ports.told()


@pytest.mark.parametrize(("before", "told"), [(0.0, True), (32_768.0, False)])
def test_a_reading_that_fills_half_of_a_counter_counts_though_no_later_one_can_show_more(
    before: float, told: bool
) -> None:
    ports = Ports(nics=2)
    ports.port[0, 0]["symbol_errors"] = before
    settle(ports)
    ports.port[0, 0]["symbol_errors"] = 65535.0
    ports.polls(60)
    assert ("link_errors" in ports.told()) == told
    assert [s.severity for s in ports.open("link_errors")] == [Severity.WARNING] * told, "it does not end unseen"
    ports.port[0, 0]["symbol_errors"] = 0.0
    ports.polls(120)
    assert not ports.open("link_errors"), "cleared, and none since"


def test_errors_of_training_after_a_down_are_left_out() -> None:
    ports = settle(Ports(nics=2))
    for _ in range(3):
        ports.flap(0, 0)
        ports.port[0, 0]["symbol_errors"] += 60
        ports.poll()
        ports.port[0, 0]["symbol_errors"] += 60
        ports.polls(30)
    assert "link_errors" not in ports.told()


def test_a_steady_rate_is_found_with_its_bounds_and_ends_when_it_is_over() -> None:
    ports = settle(Ports(nics=2))
    for _ in range(30):
        ports.port[0, 0]["symbol_errors"] += 4
        ports.poll()
    (symptom,) = ports.open("link_errors")
    claim = link_errors.claim(ports.view(), ports.row(0, 0), link_errors.LinkErrorsParams())
    assert claim.word == "bad"
    assert claim.low < 4 / BITS < claim.high
    assert symptom.evidence[0].limit is not None
    assert any("nats" in e.formula and "nats" not in e.text for e in symptom.evidence)
    ports.polls(240)
    assert not ports.open("link_errors")
    assert (
        link_errors.claim(ports.view(), ports.row(0, 1), link_errors.LinkErrorsParams()).word == "not enough bits yet"
    )
    ports.polls(600)
    assert link_errors.claim(ports.view(), ports.row(0, 1), link_errors.LinkErrorsParams()).word == "healthy"


def unrated(errors: int) -> Ports:
    """Two ports, the first without a line rate, which shows so many errors in each of 30 polls."""
    ports = Ports(nics=2)
    ports.port[0, 0]["rate"] = math.nan
    settle(ports)
    for _ in range(30):
        ports.port[0, 0]["symbol_errors"] += errors
        ports.poll()
    return ports


def test_errors_at_an_unknown_line_rate_are_found_if_they_are_too_many_for_the_fastest_port() -> None:
    ports = unrated(errors=40)  # 5e-12 at 800 Gb/s; the limit of lanes of unknown speed is 1e-12
    (symptom,) = ports.open("link_errors")
    assert "line rate unknown" in symptom.evidence[0].text
    ports.polls(240)
    assert not ports.open("link_errors")


def test_errors_that_the_fastest_port_may_have_are_unknown_at_an_unknown_line_rate() -> None:
    ports = unrated(errors=4)  # 5e-13 at 800 Gb/s, 4e-11 at 10 Gb/s
    assert not ports.told()
    assert not ports.known("link_errors", 0, 0)


def test_a_link_of_unknown_line_rate_is_healthy_only_if_the_slowest_port_were() -> None:
    ports = unrated(errors=0)
    assert ports.known("link_errors", 0, 0)  # 3.00 / (10 Gb/s x 330 s) is below the limit of 1e-12
    view, row = ports.view(), ports.row(0, 0)
    assert link_errors.claim(view, row, link_errors.LinkErrorsParams()).word == "not enough bits yet"
    ports.polls(280)  # and now below the target of 1e-13
    assert link_errors.claim(ports.view(), row, link_errors.LinkErrorsParams()).word == "healthy"


def test_hard_errors_in_three_of_five_polls_are_critical() -> None:
    ports = settle(Ports(nics=2))
    for hit in (True, False, True, False):
        ports.port[0, 0]["link_error_recoveries"] += hit
        ports.poll()
    assert not ports.told()
    ports.port[0, 0]["link_error_recoveries"] += 1
    (change,) = ports.poll()
    assert change.symptom.severity is Severity.CRITICAL
    assert "3 of the last 5 polls" in " ".join(e.text for e in change.symptom.evidence)


def test_a_full_error_counter_is_reported_as_such_and_neither_bad_nor_healthy() -> None:
    """S25 c."""
    ports = Ports(nics=2)
    ports.port[0, 0]["symbol_errors"] = 65535.0
    ports.polls(40)
    assert ports.told() == {"telemetry_quality"}
    (symptom,) = ports.open("telemetry_quality")
    assert "65535" in symptom.evidence[0].text
    assert not ports.known("link_errors", 0, 0)
    assert ports.known("link_errors", 0, 1)


def test_cleared_counters_are_information() -> None:
    """S25 b."""
    ports = Ports(nics=4)
    for nic in range(4):
        ports.port[0, nic] |= {"symbol_errors": 300.0, "rcv_errors": 12.0, "link_downed": 3.0}
    settle(ports)
    for nic in range(2):
        ports.port[0, nic] |= dict.fromkeys(COUNTS, 0.0)
    ports.polls(10)
    assert ports.told() == {"telemetry_quality"}
    assert {s.info["problem"] for s in ports.open("telemetry_quality")} == {"reset"}
    assert {s.severity for s in ports.open("telemetry_quality")} == {Severity.INFO}
    ports.polls(40)
    assert not ports.open("telemetry_quality")


# --- telemetry_quality


def test_a_counter_that_cannot_be_read_any_more() -> None:
    ports = settle(Ports(nics=2))
    ports.port[0, 0]["rcv_errors"] = math.nan
    ports.polls(6)
    (symptom,) = ports.open("telemetry_quality")
    assert symptom.evidence[0].text == "rcv_errors is no longer readable"


def test_counters_that_stand_still_while_the_others_move_are_frozen() -> None:
    ports = settle(Ports(nics=8))
    frozen = ports.port[0, 5]
    held = {name: frozen[name] for name in ("xmit", "rcv")}
    for _ in range(70):
        frozen |= {name: value - 1e10 for name, value in held.items()}
        ports.poll()
        frozen |= held
    (symptom,) = ports.open("telemetry_quality")
    assert (symptom.component.name, symptom.info["problem"]) == ("mlx5_5/1", "frozen")


def test_an_idle_host_is_not_frozen() -> None:
    ports = settle(Ports(nics=8))
    ports.polls(100, traffic=0.0)
    assert not ports.told()


def test_a_full_wait_counter_is_nothing_to_tell() -> None:
    params = telemetry_quality.TelemetryQualityParams()
    assert "xmit_wait_ticks" in params.ignore


# --- nic_fault


def test_an_adapter_that_vanishes_from_a_running_host() -> None:
    """S20: expected 8, found 7."""
    ports = settle(Ports(hosts=2))
    onset = ports.now
    ports.nics[0].remove(3)
    ports.enter(0)
    ports.polls(3)
    (symptom,) = ports.open("nic_fault")
    assert symptom.severity is Severity.CRITICAL
    assert symptom.component.name == "mlx5_3/1"
    assert "expected 8, found 7" in symptom.evidence[0].text
    assert ports.changes[0].at - onset <= 30
    assert ports.told() == {"nic_fault"}
    ports.polls(500)
    assert len(ports.open("nic_fault")) == 1
    ports.nics[0].append(3)
    ports.enter(0)
    ports.polls(2)
    assert not ports.open("nic_fault")


def test_a_driver_reload_is_no_fault() -> None:
    """S26: all devices gone for 15 s, two downs each, counters from 0."""
    ports = Ports(hosts=3)
    for at in ports.port.values():
        at |= {"link_downed": 4.0, "symbol_errors": 20.0}
    settle(ports)
    for host in range(3):
        held, ports.nics[host] = ports.nics[host], []
        ports.enter(host)
        ports.polls(2)
        ports.nics[host] = held
        for nic in held:
            ports.port[host, nic] |= dict.fromkeys(COUNTS, 0.0) | {"link_downed": 2.0}
        ports.enter(host)
    ports.polls(30)
    assert ports.told() <= {"telemetry_quality"}


@pytest.mark.parametrize(("adapters", "after"), [(("mlx5_0", "mlx5_0"), 30.0), (("mlx5_0", "mlx5_1"), 130.0)])
def test_a_single_adapter_that_is_gone_is_no_driver_reload_whatever_ports_it_has(
    adapters: tuple[str, str], after: float
) -> None:
    """Of two adapters that vanish at once the driver may be reloaded."""
    ports = settle(Ports(hosts=2, nics=2))
    domains = ports.fleet.tables[Kind.PORT].domains
    assert domains is not None
    domains.ids["nic"][:2] = [int(adapter[-1]) for adapter in adapters]
    domains.ids["nic"][2:] = [2, 3]
    ports.nics[0] = []
    ports.enter(0)
    ports.fleet.tables[Kind.PORT].domains = domains
    gone = ports.now
    while not ports.open("nic_fault") and ports.now - gone < 300.0:
        ports.poll()
    assert ports.now - gone <= after
    assert (ports.now - gone > 100.0) is (len(set(adapters)) == 2)


def test_all_adapters_gone_for_good_is_a_fault() -> None:
    ports = settle(Ports(hosts=2))
    ports.nics[0] = []
    ports.enter(0)
    ports.polls(11)
    assert not ports.told()
    ports.polls(3)
    assert len(ports.open("nic_fault")) == 8


def test_a_boot_that_brings_fewer_adapters_is_judged_after_its_grace() -> None:
    ports = settle(Ports(hosts=2))
    ports.nics[1].remove(0)
    ports.reboot(1)
    ports.polls(11)
    assert not ports.told()
    ports.polls(3)
    assert ports.told() == {"nic_fault"}


def test_a_vanished_virtual_interface_is_nothing() -> None:
    ports = Ports(hosts=1)
    row = ports.row(0, 0)
    ports.fleet.tables[Kind.PORT].relabel(row, {"netdev": "veth0"})
    settle(ports)
    ports.nics[0].remove(0)
    ports.enter(0)
    ports.polls(10)
    assert "nic_fault" not in ports.told()


def test_an_adapter_that_counts_errors_it_cannot_recover_from() -> None:
    """S14: the device says so itself; it ends when it has not said so for five minutes."""
    ports = Ports(hosts=2)
    for at in ports.port.values():
        at |= {"unrecoverable_error": 3.0}  # of long ago
    settle(ports)
    onset = ports.now
    ports.port[0, 5]["unrecoverable_error"] += 2
    ports.polls(3)
    (symptom,) = ports.open("nic_fault")
    assert symptom.severity is Severity.CRITICAL
    assert symptom.component.name == "mlx5_5/1"
    assert "2 unrecoverable errors" in symptom.evidence[0].text
    assert ports.changes[0].at - onset <= 30
    ports.polls(26)
    assert ports.open("nic_fault")
    ports.polls(6)
    assert ports.told() == {"nic_fault"}
    assert not ports.open("nic_fault")


@pytest.mark.parametrize(("ends", "open_then"), [("works", False), ("hangs", True), ("reboots", False)])
def test_an_adapter_that_carries_nothing_since_such_an_error_has_not_recovered(ends: str, open_then: bool) -> None:
    """Nothing shows that it works, however long ago the error is."""
    ports = Ports(hosts=2)
    settle(ports)
    ports.port[0, 5]["unrecoverable_error"] += 1
    for poll in range(60):
        if ends == "hangs" or (ends == "reboots" and poll < 40):
            for column in ("xmit", "rcv"):  # each poll adds to them
                ports.port[0, 5][column] -= 1e10
        if ends == "reboots" and poll == 40:
            assert ports.open("nic_fault")
            ports.reboot(0)
        ports.poll()
    assert [symptom.component.name for symptom in ports.open("nic_fault")] == (["mlx5_5/1"] if open_then else [])
    (evidence,) = nic_fault.evidence(ports.view(), ports.row(0, 5), nic_fault.NicFaultParams())
    assert ("; it has carried no traffic since" in evidence.text) == open_then


# --- agent_silent


def test_silence_is_reported_after_thirty_seconds_and_says_how() -> None:
    """S27 and S28: a restart below 30 s is nothing, silence is information and nothing else."""
    ports = settle(Ports(hosts=3))
    ports.silent = {0}
    ports.polls(2)
    ports.silent = set()
    ports.polls(2)
    assert not ports.told()
    ports.silent = {1}
    ports.fleet.presence("host-001", Presence.REFUSED, "connection refused", ports.now)
    ports.polls(40)
    (symptom,) = ports.open("agent_silent")
    assert ports.told() == {"agent_silent"}
    assert symptom.severity is Severity.INFO
    assert symptom.info == {"presence": "refused"}
    assert "connection refused" in symptom.evidence[0].text
    ports.silent = set()
    ports.fleet.presence("host-001", Presence.LIVE, "", ports.now)
    ports.polls(2)
    assert not ports.open("agent_silent")


def test_a_node_that_never_came_is_silent() -> None:
    ports = Ports()
    ports.fleet.presence("host-900", Presence.NEVER, "", ports.now)
    ports.polls(4)
    (symptom,) = ports.open("agent_silent")
    assert symptom.component.node == "host-900"
    assert "never seen" in symptom.evidence[0].text


def test_a_cloned_node_is_reported_at_once() -> None:
    ports = settle(Ports())
    ports.fleet.presence("host-000", Presence.CLONED, "two agents", ports.now)
    ports.poll()
    assert ports.open("agent_silent")[0].info == {"presence": "cloned"}
    assert agent_silent.RULE.severity is Severity.INFO
    assert nic_fault.RULE.severity is Severity.CRITICAL
