"""A GB200 whose driver reports a fault of its NVLink fabric: NVML's answers through the collectors to an incident."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.gpu import CONFIGURATIONS, HEALTH_BITS
from fabricmon.collect import gpu
from fabricmon.collect.gpu import GpuConfig
from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.host.archive import FORMAT, VERSION, Archive, FieldAnswer
from fabricmon.host.protocol.gpus import Gpu, GpuFabric, GpuPcie
from fabricmon.host.recorded import RecordedHost
from fabricmon.model import Identity, Incident, Inventory, Presence
from fabricmon.rules.rule import Scope

START = 1_800_000_000.0
CLUSTER, CLIQUE = "1a2b3c4d-0000-4000-8000-00000000abcd", 32766
RECOVERY_FIELD = "230/0"
HEALTHY = GpuFabric(3, 0, CLUSTER, CLIQUE, 0, 1)


def mask(**bits: int) -> int:
    """A health mask: 2 (false) in every field but those given, the partition assigned, configuration 1 (none)."""
    fields = dict.fromkeys(HEALTH_BITS, 2) | {"gpu_fabric_partition_assigned": 1}
    fields |= {f"gpu_fabric_{name}": value for name, value in bits.items() if name != "configuration"}
    found = sum(value << HEALTH_BITS[column] for column, value in fields.items())
    return found | bits.get("configuration", 1) << 8


def tray(faulty: dict[int, tuple[GpuFabric, int]]) -> RecordedHost:
    """A compute tray of four GPUs; those given answer so: fabric information, recovery action."""
    archive = Archive(FORMAT, VERSION, "tray-01", "1", START, 1000.0)
    archive.gpus = [
        Gpu(n, f"GPU-{n}", f"000{n}:01:00.0", "NVIDIA GB200", "570.124", "1821325191344", "7", "3", str(n + 1))
        for n in range(4)
    ]
    for n in range(4):
        fabric, action = faulty.get(n, (HEALTHY, 0))
        fabric = GpuFabric(*(getattr(fabric, f) if f != "health" or fabric.health else mask()
                             for f in GpuFabric.__struct_fields__))  # fmt: skip
        archive.gpu_fabrics[str(n)] = fabric
        archive.gpu_fields[str(n)] = {RECOVERY_FIELD: FieldAnswer(float(action), 0)}
        archive.gpu_pcie[str(n)] = GpuPcie(5, 16, 5, 16)
    return RecordedHost(archive)


def incidents(faulty: dict[int, tuple[GpuFabric, int]], params: dict[str, object] | None = None) -> list[Incident]:
    """The open incidents of a server that has seen the tray healthy for ten minutes, and then so for two."""
    engine = Engine(Scope.FLEET, None, params or {}, "test")
    now = START
    for number, (of, seconds) in enumerate((({}, 600), (faulty, 120)), 1):
        host = tray(of)
        sessions = gpu.open(host, GpuConfig(xid=False)).sessions().values()
        readings = [session.read() for session in sessions]
        assert [reading.faults for reading in readings] == [()] * 4
        parts = tuple(part for reading in readings for part in reading.parts if part.wire)
        travelling = np.concatenate(
            [np.array(r.values)[: sum(p.size for p in r.parts if p.wire)] for r in readings]
        )  # the columns that travel come first
        engine.inventory("tray-01", Inventory(number, Identity("tray-01", "boot", "agent", "1", START), parts), now)
        engine.presence("tray-01", Presence.LIVE, "", now)
        for step in range(0, seconds, 10):
            taken = np.full(len(parts), now + step - START + 1000.0)
            assert engine.frame("tray-01", Frame(number, step, now + step, taken, None, travelling), now + step)
            engine.tick(now + step)
        now += seconds
    return [i for i in engine.incidents() if i.status == "firing"]


def fabric(state: int = 3, status: int | None = 0, summary: int = 1, health: int | None = None) -> GpuFabric:
    return GpuFabric(state, status, CLUSTER, CLIQUE, mask() if health is None else health, summary)


CASES: dict[str, tuple[GpuFabric, int, str, str]] = {
    "unhealthy": (fabric(summary=2), 0, "critical", "fabric unhealthy"),
    "limited capacity": (fabric(summary=3), 0, "warning", "fabric has limited capacity"),
    "degraded bandwidth": (fabric(health=mask(degraded_bandwidth=1)), 0, "warning", "NVLink bandwidth degraded"),
    "route unhealthy": (fabric(health=mask(route_unhealthy=1)), 0, "critical", "routes unhealthy"),
    "route recovery": (fabric(health=mask(route_recovery=1)), 0, "warning", "routes being recovered"),
    "access timeout": (fabric(health=mask(access_timeout_recovery=1)), 0, "warning",
                       "recovering from an access timeout"),
    "registration failed": (fabric(status=999), 0, "critical",
                            "registration with the NVLink fabric failed, NVML error 999"),
    "not started": (fabric(state=1, status=None), 0, "warning", "registration with the NVLink fabric not started"),
    "in progress": (fabric(state=2, status=None), 0, "warning", "registration still in progress"),
    **{f"configuration {number}": (fabric(health=mask(configuration=number)), 0, "critical",
                                   f"incorrect configuration: {words}")
       for number, words in CONFIGURATIONS.items() if number >= 2},
    "reset": (fabric(), 1, "critical", "GPU needs a reset"),
    "reboot": (fabric(), 2, "critical", "node needs a reboot"),
    "drain P2P": (fabric(), 3, "warning", "peer-to-peer traffic must be drained"),
    "drain and reset": (fabric(), 4, "critical", "GPU must be drained and reset"),
    "IMEX": (fabric(), 5, "warning", "IMEX domain must be recovered"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_of_the_driver_is_an_incident_with_its_domain(case: str) -> None:
    answer, action, severity, words = CASES[case]
    (incident,) = incidents({2: (answer, action)})
    assert (incident.kind, incident.component, incident.severity) == ("gpu_fabric", "gpu(tray-01/gpu2)", severity)
    assert f"{words} (NVLink domain {CLUSTER}.{CLIQUE})" in [e.text for e in incident.evidence if e.for_it]
    assert incident.labels["nvlink_domain"] == f"{CLUSTER}.{CLIQUE}"


def test_a_healthy_tray_and_one_without_a_partition_have_no_incident() -> None:
    assert incidents({}) == []
    assert incidents({1: (fabric(health=mask(partition_assigned=2)), 0)}) == []


def test_several_verdicts_are_one_incident_of_the_highest_severity() -> None:
    (incident,) = incidents({0: (fabric(summary=3, health=mask(route_unhealthy=1, degraded_bandwidth=1)), 0)})
    assert incident.severity == "critical"
    assert [e.text.split(" (")[0] for e in incident.evidence if e.for_it][:3] == [
        "routes unhealthy", "fabric has limited capacity", "NVLink bandwidth degraded"
    ]


def test_half_of_a_domain_is_one_incident_of_the_domain() -> None:
    (incident,) = incidents(dict.fromkeys(range(4), (fabric(summary=2), 0)))
    assert (incident.kind, incident.component) == ("fault_domain", f"nvlink_domain({CLUSTER}.{CLIQUE})")
    assert (incident.members.bad, incident.members.of, incident.severity) == (4, 4, "critical")


def test_a_column_that_is_ignored_is_not_evaluated() -> None:
    faulty = {2: (fabric(health=mask(degraded_bandwidth=1)), 0)}
    assert incidents(faulty, {"gpu_fabric": {"ignore": ["gpu_fabric_degraded_bandwidth"]}}) == []
