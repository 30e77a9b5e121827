"""straggler: adapters against their rail peers, over windows (S16, S23, S24)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fabricmon.model import Kind
from tests.rules.bench_of_ports import NDR, Ports


def work(
    ports: Ports, share: np.ndarray, polls: int, rng: np.random.Generator | None = None, noise: float = 0.03
) -> None:
    """`share` float[hosts, nics] of the line rate for so many polls."""
    for _ in range(polls):
        for (host, nic), port in ports.port.items():
            factor = 1.0 if rng is None else 1.0 + noise * float(rng.standard_t(3))
            moved = max(0.0, share[host, nic] * factor) * NDR * 10.0
            port["xmit"] += moved
            port["rcv"] += moved
        ports.poll(traffic=0.0)


def named(ports: Ports) -> list[str]:
    return sorted(str(symptom.component) for symptom in ports.open("straggler"))


def test_s16_one_slow_adapter_is_found_between_two_and_five_minutes_and_is_a_warning() -> None:
    ports, rng = Ports(hosts=12, nics=4), np.random.default_rng(1)
    share = np.full((12, 4), 0.5)
    work(ports, share, 20, rng)
    assert not named(ports)
    share[3, 2] *= 0.6
    began = ports.now
    while not named(ports) and ports.now < began + 400:
        work(ports, share, 1, rng)
    assert 120 <= ports.now - began <= 300
    (symptom,) = ports.open("straggler")
    assert str(symptom.component) == "host-003/mlx5_2/1"
    assert symptom.severity == "warning", "the other ports of its host keep up"
    assert "of the line rate" in symptom.evidence[0].text
    share[3, 2] = 0.5
    work(ports, share, 20, rng)
    assert not named(ports)


@pytest.mark.parametrize(("receives", "rated"), [(True, True), (False, True), (False, False)])
def test_a_port_that_is_slow_from_its_first_window_on_began_where_it_did_no_work_before(
    receives: bool, rated: bool
) -> None:
    """What only receives does no work of a job: others send to it. Of EFA no line rate is known."""
    ports, share = Ports(hosts=12, nics=4), np.full((12, 4), 0.5)
    for port in ports.port.values() if not rated else ():
        port["rate"] = np.nan
    for _ in range(10):
        for port in ports.port.values():
            port["rcv"] += 0.2 * NDR * 10.0 if receives else 0.0
        ports.poll(traffic=0.0)
    share[3, 2] *= 0.4
    work(ports, share, 30)
    (held,) = ports.rule_states.by_rule["straggler"].open.values()
    assert str(held.symptom.component) == "host-003/mlx5_2/1"
    assert held.witnessed


def test_noise_with_heavy_tails_makes_none_in_an_hour() -> None:
    ports, rng = Ports(hosts=10, nics=2), np.random.default_rng(2)
    work(ports, np.full((10, 2), 0.4), 360, rng, noise=0.08)
    assert "straggler" not in ports.told()


def test_idle_ports_are_no_peers_and_no_stragglers() -> None:
    ports = Ports(hosts=16, nics=2)
    share = np.full((16, 2), 0.6)
    share[8:] = 1e-4
    work(ports, share, 30)
    assert not named(ports)


def test_another_job_on_other_hosts_is_no_straggler() -> None:
    ports = Ports(hosts=24, nics=4)
    share = np.full((24, 4), 0.6)
    share[20:] = 0.1
    work(ports, share, 30)
    assert not named(ports)


def test_one_host_that_does_less_on_all_its_ports_is_not_blamed_without_jobs() -> None:
    ports = Ports(hosts=24, nics=4)
    share = np.full((24, 4), 0.6)
    share[20] = 0.1
    work(ports, share, 30)
    assert not named(ports)


def test_with_jobs_a_host_that_is_slow_among_its_own_is_found_and_other_jobs_are_left_alone() -> None:
    ports = Ports(hosts=32, nics=2)
    job_of_sixteen(ports)
    share = np.full((32, 2), 0.6)
    share[16:] = 0.3
    share[20] = 0.15
    work(ports, share, 30)
    assert named(ports) == ["host-020/mlx5_0/1", "host-020/mlx5_1/1"]
    assert "of its job" in ports.open("straggler")[0].evidence[0].text


def job_of_sixteen(ports: Ports) -> None:
    """Hosts 0 to 15 run one job, the others another one."""
    table = ports.fleet.tables[Kind.PORT]
    assert table.domains is not None
    job = (np.array([int(component.node[-3:]) for component in table.ids]) // 16).astype(np.int32)
    table.domains = replace(table.domains, ids={**table.domains.ids, "job": job})


@pytest.mark.parametrize(("slow", "severity"), [([1], "warning"), ([0, 1, 2], "info"), ([0, 1, 2, 3], "info")])
def test_an_adapter_that_is_slow_alone_on_its_host_is_a_warning(slow: list[int], severity: str) -> None:
    ports = Ports(hosts=32, nics=4)
    job_of_sixteen(ports)
    share = np.full((32, 4), 0.6)
    share[5, slow] = 0.3
    work(ports, share, 30)
    assert {(str(s.component)[:8], str(s.severity)) for s in ports.open("straggler")} == {("host-005", severity)}


@pytest.mark.parametrize(("others", "severity"), [(1.0, "warning"), (0.84, "info")])
def test_a_port_that_carries_less_with_its_whole_host_is_information(others: float, severity: str) -> None:
    ports, rng = Ports(hosts=12, nics=4), np.random.default_rng(3)
    share = np.linspace(0.2, 0.7, 48).reshape(4, 12).T  # they differ by more than what changes
    work(ports, share, 40, rng, noise=0.01)
    share[3, [0, 1, 3]] *= others
    share[3, 2] *= 0.68
    work(ports, share, 40, rng, noise=0.01)
    found = {str(s.component): str(s.severity) for s in ports.open("straggler")}
    assert found["host-003/mlx5_2/1"] == severity


@pytest.mark.parametrize("unrated", [12, 2])
def test_ports_without_a_line_rate_are_compared_with_each_other_by_their_bytes(unrated: int) -> None:
    ports, rng = Ports(hosts=12, nics=4), np.random.default_rng(3)
    for (host, _), port in ports.port.items():
        if host < unrated:
            port["rate"] = np.nan
    share = np.full((12, 4), 0.5)
    work(ports, share, 20, rng)
    share[1, 2] *= 0.5
    work(ports, share, 30, rng)
    if unrated < 12:  # the others are compared by their share of the line
        assert not named(ports)
        return
    (symptom,) = ports.open("straggler")
    assert (str(symptom.component), symptom.severity) == ("host-001/mlx5_2/1", "warning")
    assert "Gb/s" in symptom.evidence[0].text
    assert "line rate" not in symptom.evidence[0].text


def test_few_peers_give_no_verdict() -> None:
    ports = Ports(hosts=3, nics=2)
    share = np.full((3, 2), 0.6)
    share[0, 0] = 0.2
    work(ports, share, 30)
    assert not named(ports)


def test_ports_of_rails_with_few_ports_are_compared_with_each_other() -> None:
    ports = Ports(hosts=6, nics=2)
    share = np.full((6, 2), 0.6)
    share[0, 0] = 0.2
    work(ports, share, 30)
    assert named(ports) == ["host-000/mlx5_0/1"]
    assert "12 ports at work on rails of few ports have" in ports.open("straggler")[0].evidence[0].text


def test_ports_of_a_small_job_are_compared_with_those_of_no_job() -> None:
    ports = Ports(hosts=32, nics=2)
    table = ports.fleet.tables[Kind.PORT]
    assert table.domains is not None
    job = np.array([0 if int(component.node[-3:]) < 4 else -1 for component in table.ids], np.int32)
    table.domains = replace(table.domains, ids={**table.domains.ids, "job": job})
    share = np.full((32, 2), 0.6)
    share[2, 1] = 0.2
    work(ports, share, 30)
    assert named(ports) == ["host-002/mlx5_1/1"]


def test_jobs_that_start_and_stop_make_none() -> None:
    ports, rng = Ports(hosts=12, nics=2), np.random.default_rng(3)
    for _ in range(4):
        for load in (0.0, 0.1, 0.6, 0.9, 0.9, 0.9, 0.9, 0.5, 0.0, 0.0):
            ramp = load * rng.uniform(0.3, 1.0, (12, 2)) if load in (0.1, 0.5) else np.full((12, 2), load)
            work(ports, ramp, 3, rng)
    assert "straggler" not in ports.told()


def test_storage_ports_are_not_compared() -> None:
    ports = Ports(hosts=12, nics=2, labels={"role": "storage"})
    share = np.full((12, 2), 0.6)
    share[0, 0] = 0.2
    work(ports, share, 30)
    assert not named(ports)


def test_it_ends_when_the_work_does() -> None:
    ports = Ports(hosts=12, nics=2)
    share = np.full((12, 2), 0.6)
    share[0, 0] = 0.2
    work(ports, share, 30)
    assert named(ports)
    work(ports, np.zeros((12, 2)), 90)
    assert not named(ports)


def test_a_straggler_stands_while_its_node_does_not_report_and_ends_when_it_is_seen_idle() -> None:
    ports = Ports(hosts=12, nics=4)
    share = np.full((12, 4), 0.5)
    share[3, 2] = 0.3
    work(ports, share, 40)
    assert named(ports) == ["host-003/mlx5_2/1"]
    ports.silent.add(3)
    work(ports, share, 80)
    assert named(ports) == ["host-003/mlx5_2/1"]
    assert not ports.known("straggler", 3, 2)
    ports.silent.clear()
    share[3, 2] = 0.0
    work(ports, share, 6)
    assert not named(ports)


def of_jobs(others: tuple[float, ...] = (1.0, 1.0, 1.0)) -> np.ndarray:
    """Shares of 32 hosts whose jobs differ by more than what one port loses; `others` of host 3, its mlx5_2 carries 0.3
    of what they do."""
    share = np.repeat(np.linspace(0.1, 0.9, 32)[::-1, None], 4, axis=1)
    share[3, [0, 1, 3]] *= others
    share[3, 2] *= 0.3
    return share


@pytest.mark.parametrize(
    ("others", "found"), [((1.0, 1.0, 1.0), "warning"), ((0.3, 1.0, 1.0), ""), ((0.3, 0.3, 0.3), "")]
)
def test_a_port_that_carries_less_than_the_others_of_its_host_needs_no_past(
    others: tuple[float, ...], found: str
) -> None:
    """Jobs of different amounts hide it among its rail; half of a host's ports may have a job of their own."""
    ports, rng = Ports(hosts=32, nics=4), np.random.default_rng(4)
    work(ports, of_jobs(others), 30, rng, noise=0.015)
    assert {str(s.severity) for s in ports.open("straggler")} == ({found} if found else set())
    if found:
        assert named(ports) == ["host-003/mlx5_2/1"]
        assert "of what another adapter of its host carries at least" in ports.open("straggler")[0].evidence[1].text


@pytest.mark.parametrize(("more", "found"), [(1.0, []), (0.3, ["host-003/mlx5_1/1"])])
def test_a_port_beside_one_that_carries_more_is_not_slow(more: float, found: list[str]) -> None:
    """Of two adapters one has a third of the other, by less of its own or by more of the other."""
    ports, rng = Ports(hosts=32, nics=2), np.random.default_rng(5)
    share = np.full((32, 2), 0.3)
    share[3] = (0.9, 0.3) if more == 1.0 else (0.3, 0.09)
    work(ports, share, 30, rng)
    assert named(ports) == found


def test_a_port_that_carries_less_than_it_did_and_what_its_peers_do_is_not_slow() -> None:
    ports, rng = Ports(hosts=12, nics=4), np.random.default_rng(3)
    share = np.linspace(0.2, 0.7, 48).reshape(4, 12).T
    work(ports, share, 40, rng, noise=0.01)
    share[11, 2] = np.median(share[:, 2])  # two thirds of it, and of the other ports of its host
    work(ports, share, 40, rng, noise=0.01)
    assert not named(ports)


@pytest.mark.parametrize(("others", "severity"), [((), "warning"), ((5,), "info"), ((5, 6), "info")])
def test_the_only_adapter_of_a_host_is_a_warning_where_no_other_host_has_other_work(
    others: tuple[int, ...], severity: str
) -> None:
    """A job that ends or begins, ends or begins on two hosts at least."""
    ports, share = Ports(hosts=24, nics=1), np.full((24, 1), 0.5)
    work(ports, share, 40)
    share[3] *= 0.4
    share[list(others)] *= 1.5
    work(ports, share, 30)
    (symptom,) = [one for one in ports.open("straggler") if one.component.node == "host-003"]
    assert symptom.severity == severity


@pytest.mark.parametrize("slow", [(2, 3), (2,)])
def test_the_ports_of_an_adapter_that_is_slow_are_one_slow_adapter(slow: tuple[int, ...]) -> None:
    """Of two adapters with two ports each one keeps up: that is all of the others, not two of three ports."""
    ports = Ports(hosts=32, nics=4)
    job_of_sixteen(ports)
    domains = ports.fleet.tables[Kind.PORT].domains
    assert domains is not None
    ids = ports.fleet.tables[Kind.PORT].ids  # host-003/mlx5_2/1
    of_two = [f"{component.node} {int(str(component)[-3]) // 2}" for component in ids]
    domains.ids["nic"] = np.unique(of_two, return_inverse=True)[1].astype(np.int32)
    share = np.full((32, 4), 0.6)
    share[5, list(slow)] = 0.3
    work(ports, share, 30)
    assert {(str(s.component), str(s.severity)) for s in ports.open("straggler")} == {
        (f"host-005/mlx5_{nic}/1", "warning") for nic in slow
    }


def test_a_host_of_one_adapter_with_two_ports_is_no_whole_host() -> None:
    """One adapter is slow on both ports as on its only one: that is no host with other work."""
    ports, share = Ports(hosts=24, nics=2), np.full((24, 2), 0.5)
    domains = ports.fleet.tables[Kind.PORT].domains
    assert domains is not None
    hosts = [component.node for component in ports.fleet.tables[Kind.PORT].ids]
    domains.ids["nic"] = np.unique(hosts, return_inverse=True)[1].astype(np.int32)
    work(ports, share, 40)
    share[3] *= 0.4
    work(ports, share, 30)
    assert {(str(s.component), str(s.severity)) for s in ports.open("straggler")} == {
        (f"host-003/mlx5_{nic}/1", "warning") for nic in range(2)
    }
