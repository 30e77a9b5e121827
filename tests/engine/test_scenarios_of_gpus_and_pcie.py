"""NVLinks and PCIe links of whole nodes through the real engine (scenarios S17, S18 and the PCIe half of S09)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Incident, Inventory, Kind, Part, Presence
from fabricmon.rules.rule import Scope

START = 1_800_000_000.0
POLL = 10.0
GPU_COLUMNS = (
    "gpu_nvlinks", "gpu_nvlinks_active", "gpu_nvlinks_to_switch", "gpu_nvlinks_inactive_mask", "gpu_nvlink_worst",
    "gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries", "gpu_nvlink_critical_errors",
    "gpu_nvlink_effective_ber", "gpu_fabric_state",
)  # fmt: skip
PCIE_COLUMNS = (
    "pcie_speed", "pcie_max_speed", "pcie_width", "pcie_max_width", "pcie_path_width", "pcie_path_speed",
    "pcie_aer_correctable_errors", "pcie_aer_nonfatal_errors", "pcie_aer_fatal_errors",
    "pcie_above_uncorrected_errors", "pcie_above_corrected_errors",
)  # fmt: skip


class Nodes:
    """Hosts with 8 GPUs of 18 links each and as many adapters; `gpu[host, n]` and `pcie[host, address]` are what their
    columns show. Counters rise by `rates` a second."""

    def __init__(self, hosts: int = 2, links: int = 18, labels: dict[str, str] | None = None) -> None:
        self.engine = Engine(Scope.FLEET, None, {}, "test")
        self.now = START
        self.hosts = [f"host-{n:03d}" for n in range(hosts)]
        self.labels = labels or {}
        healthy = dict.fromkeys(GPU_COLUMNS, 0.0) | {
            "gpu_nvlinks": links, "gpu_nvlinks_active": links, "gpu_nvlinks_to_switch": links, "gpu_fabric_state": 3.0,
            "gpu_nvlink_critical_errors": math.nan, "gpu_nvlink_effective_ber": math.nan,
        }  # fmt: skip
        full = dict.fromkeys(PCIE_COLUMNS, 0.0) | {
            "pcie_speed": 32e9, "pcie_max_speed": 32e9, "pcie_width": 16.0, "pcie_max_width": 16.0,
            "pcie_path_width": 1.0, "pcie_path_speed": 1.0,
        }  # fmt: skip
        self.gpu = {(host, n): dict(healthy) for host in self.hosts for n in range(8)}
        self.nic = {(host, n): dict(full) for host in self.hosts for n in range(8)}
        self.rates: dict[tuple[str, int], dict[str, float]] = {}
        self.nic_rates: dict[tuple[str, int], dict[str, float]] = {}
        self.silent: set[str] = set()
        self.changed: list[Incident] = []
        for host in self.hosts:
            self.enter(host)
        self.run(150)  # past the time in which links may still train

    def enter(self, host: str) -> None:
        gpus = tuple(
            Component(f"gpu{n}", {"gpu": str(n), "uuid": f"GPU-{host}-{n}", **self.labels}) for n in range(8)
        )
        at = [f"0000:{0x10 + n:02x}:00.0" for n in range(8)]
        nics = tuple(Component(a, {"device": a, "class": "nic", "owner": f"mlx5_{n}"}) for n, a in enumerate(at))
        parts = (
            Part("nvlink", Kind.GPU, GPU_COLUMNS, gpus, POLL),
            Part("pcie", Kind.PCIE, PCIE_COLUMNS, nics, POLL),
        )
        identity = Identity(host, "boot", f"agent-{host}", "1.0", START)
        self.engine.inventory(host, Inventory(1, identity, parts), self.now)
        self.engine.presence(host, Presence.LIVE, "", self.now)

    def run(self, seconds: float, check: Callable[[], bool] | None = None) -> float:
        """Let time pass in halves of a second; returns how long it took until `check` held, or the seconds."""
        began = self.now
        while self.now < began + seconds - 1e-9:
            self.now += 0.5
            for of, every in ((self.gpu, self.rates), (self.nic, self.nic_rates)):
                for at, rates in every.items():
                    for column, rate in rates.items():
                        of[at][column] += rate * 0.5
            for number, host in enumerate(self.hosts):
                if host not in self.silent and (self.now - START + 3.0 * number) % POLL < 0.5:
                    self._frame(host)
            self.changed.extend(self.engine.tick(self.now).incidents)
            if check is not None and check():
                break
        return self.now - began

    def _frame(self, host: str) -> None:
        values = [self.gpu[host, n][column] for n in range(8) for column in GPU_COLUMNS]
        values += [self.nic[host, n][column] for n in range(8) for column in PCIE_COLUMNS]
        taken = np.full(2, self.now - START + 1000.0)
        assert self.engine.frame(host, Frame(1, 1, self.now, taken, None, np.array(values)), self.now)

    def lose_links(self, host: str, gpu: int, links: Iterable[int]) -> None:
        mask = sum(1 << link for link in links)
        row = self.gpu[host, gpu]
        row["gpu_nvlinks_inactive_mask"] = mask
        row["gpu_nvlinks_active"] = row["gpu_nvlinks"] - mask.bit_count()

    def firing(self) -> list[Incident]:
        return [i for i in self.engine.incidents() if i.status == "firing"]

    def kinds(self) -> list[tuple[str, str]]:
        return sorted((i.kind, i.component) for i in self.firing())

    def told(self) -> set[tuple[str, str]]:
        return {(i.kind, i.component) for i in self.changed if i.status == "firing"}


def test_s17_a_single_nvlink_degrades_and_goes_down() -> None:
    nodes = Nodes()
    assert nodes.firing() == []
    nodes.gpu["host-000", 3]["gpu_nvlink_worst"] = 7
    nodes.rates["host-000", 3] = {"gpu_nvlink_crc_errors": 150.0}
    took = nodes.run(60, lambda: bool(nodes.firing()))
    assert nodes.kinds() == [("nvlink_degraded", "gpu(host-000/gpu3)")]
    assert took <= 40
    (first,) = nodes.firing()
    assert first.severity == "warning"
    assert "150 CRC errors a second" in first.evidence[0].text
    assert "link 7" in first.evidence[0].text
    nodes.rates.clear()
    nodes.lose_links("host-000", 3, [7])
    nodes.run(60, lambda: nodes.firing()[0].kind == "nvlink_down")
    (second,) = nodes.firing()
    assert (second.id, second.kind, second.severity) == (first.id, "nvlink_down", "critical")
    assert "17 of 18 NVLinks active; inactive: 7" in second.evidence[0].text
    assert second.parts == ("host-000/gpu3",)
    nodes.run(120)
    assert not [c for k, c in nodes.told() if k == "fault_domain"]
    assert len({i.id for i in nodes.changed}) == 1
    nodes.lose_links("host-000", 3, [])
    nodes.run(120)
    assert nodes.firing() == []


def test_s18_all_gpus_of_a_host_are_one_nvlink_domain() -> None:
    nodes = Nodes()
    for n in range(8):
        nodes.rates["host-001", n] = {"gpu_nvlink_replay_errors": 3.0}
        nodes.run(2)
    took = 16 + nodes.run(60, lambda: bool(nodes.firing()))
    assert took <= 45
    nodes.run(30)
    assert nodes.told() == {("fault_domain", "nvlink_domain(host-001)")}
    (incident,) = nodes.firing()
    assert incident.severity == "critical"
    assert (incident.members.bad, incident.members.of) == (8, 8)
    assert "8 of 8" in incident.title
    nodes.rates.clear()
    nodes.run(200)
    assert nodes.firing() == []


def test_half_a_partition_of_a_rack_is_its_domain() -> None:
    """GPUs of two trays with one cluster and clique are one domain, whatever their hosts."""
    nodes = Nodes(labels={"cluster": "0000-1", "clique": "2"})
    for host in nodes.hosts:
        for n in range(4):
            nodes.lose_links(host, n, [5])
    nodes.run(60)
    (incident,) = nodes.firing()
    assert (incident.kind, incident.component) == ("fault_domain", "nvlink_domain(0000-1.2)")
    assert (incident.members.bad, incident.members.of) == (8, 16)


def test_two_gpus_of_eight_are_two_faults() -> None:
    nodes = Nodes()
    nodes.lose_links("host-000", 1, [0])
    nodes.lose_links("host-000", 6, [0, 1])
    nodes.run(60)
    assert nodes.kinds() == [("nvlink_down", "gpu(host-000/gpu1)"), ("nvlink_down", "gpu(host-000/gpu6)")]


def test_boards_whose_links_are_partly_unused_are_no_fault() -> None:
    nodes = Nodes()
    for row in nodes.gpu.values():
        row |= {"gpu_nvlinks_to_switch": 0.0, "gpu_fabric_state": 0.0, "gpu_nvlinks_active": 6.0}
    nodes.run(60)
    assert nodes.firing() == []
    nodes.gpu["host-000", 2]["gpu_nvlinks_active"] = 4.0
    nodes.run(60)
    assert nodes.kinds() == [("nvlink_down", "gpu(host-000/gpu2)")]


def test_gpus_without_any_active_link_and_without_a_fabric_are_not_evaluated() -> None:
    nodes = Nodes()
    for row in nodes.gpu.values():
        row |= {"gpu_nvlinks_to_switch": 0.0, "gpu_fabric_state": 0.0, "gpu_nvlinks_active": 0.0}
    nodes.run(60)
    assert nodes.firing() == []


def test_links_that_cannot_be_read_are_neither_down_nor_healthy() -> None:
    nodes = Nodes()
    nodes.lose_links("host-000", 3, [7])
    nodes.run(60)
    assert len(nodes.firing()) == 1
    nodes.gpu["host-000", 3]["gpu_nvlinks_active"] = math.nan
    nodes.gpu["host-001", 4]["gpu_nvlinks_active"] = math.nan
    nodes.run(60)
    assert nodes.kinds() == [("nvlink_down", "gpu(host-000/gpu3)")]


@pytest.mark.parametrize(
    ("column", "value"), [("gpu_nvlink_critical_errors", 1.0), ("gpu_nvlink_recoveries", 1.0)]
)
def test_one_error_that_counts_as_a_failure(column: str, value: float) -> None:
    nodes = Nodes()
    for row in nodes.gpu.values():
        row[column] = 40.0
    nodes.run(150)  # a rise of 40 on all of them, forgotten again
    assert nodes.firing() == []
    nodes.gpu["host-001", 5][column] += value
    nodes.run(40)
    assert nodes.kinds() == [("nvlink_degraded", "gpu(host-001/gpu5)")]
    nodes.run(120)
    assert nodes.firing() == []


def test_counters_that_somebody_zeroed_are_no_errors() -> None:
    nodes = Nodes()
    for row in nodes.gpu.values():
        row["gpu_nvlink_replay_errors"] = 1000.0
    nodes.run(60)
    nodes.run(120)
    before = len(nodes.told())
    for n in range(8):
        nodes.gpu["host-000", n]["gpu_nvlink_replay_errors"] = 0.0
    nodes.run(60)
    assert len(nodes.told()) == before


def test_an_adapter_on_four_lanes() -> None:
    nodes = Nodes()
    nodes.nic["host-001", 1] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}
    nodes.run(60)
    (incident,) = nodes.firing()
    assert (incident.kind, incident.component) == ("pcie_degraded", "nic(host-001/mlx5_1)")
    assert "mlx5_1 runs at 4 of 16 lanes" in incident.evidence[0].text
    assert incident.labels["pci"] == "0000:11:00.0"
    nodes.nic["host-001", 1] |= {"pcie_width": 16.0, "pcie_path_width": 1.0}
    nodes.run(40)
    assert nodes.firing() == []


def test_a_link_that_retrains_for_a_moment_is_no_incident() -> None:
    nodes = Nodes()
    nodes.nic["host-001", 1] |= {"pcie_path_width": 0.25}
    nodes.run(10)
    nodes.nic["host-001", 1] |= {"pcie_path_width": 1.0}
    nodes.run(60)
    assert nodes.told() == set()


def test_incidents_of_gpus_outlive_a_restart_of_the_server() -> None:
    nodes = Nodes()
    nodes.lose_links("host-000", 3, [7])
    nodes.run(60)
    kept = nodes.engine.incidents()
    nodes.engine = Engine(Scope.FLEET, None, {}, "test")
    nodes.engine.restore(kept, nodes.now)
    for host in nodes.hosts:
        nodes.enter(host)
    nodes.run(30)
    assert [i.id for i in nodes.firing()] == [i.id for i in kept]
    nodes.lose_links("host-000", 3, [])
    nodes.run(200)
    assert nodes.firing() == []
