"""Devices that a host lacks are evidence of the incidents that have them, and reported wherever none does."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.engine.diagnosis.causes import ONE_CAUSE
from fabricmon.frame import Frame
from fabricmon.model import Component, Event, Identity, Incident, Inventory, Kind, Part, Presence
from fabricmon.rules.rule import Scope

START = 1_800_000_000.0
NODE = ("node_hcas_found", "node_hcas_lost", "node_hcas_expected", "node_gpus_found", "node_gpus_lost",
        "node_gpus_expected", "node_uverbs_missing")  # fmt: skip
MANY = 8
OTHERS = "telemetry_quality"  # an adapter that is back is read for its state only


class Host:
    """Adapters and GPUs, as many of each as are expected, read every 10 s.

    adapters, gpus  numbers of those that are listed
    counted         whether the agent counts GPUs; else their number is unknown
    seen            adapters that its agent knows of
    switches        whether the PCIe switch of each two adapters is known
    """

    def __init__(self, switches: bool = False) -> None:
        self.switches = switches
        self.engine, self.now, self.number, self.sequence = Engine(Scope.FLEET, None, {}, "test"), START, 0, 0
        self.adapters, self.gpus, self.counted, self.unusable = set(range(MANY)), set(range(MANY)), True, 0
        self.seen = set(self.adapters)
        self._listed: object = None

    def _list(self) -> None:
        self.number, self._listed = self.number + 1, (set(self.adapters), set(self.gpus))
        ports = tuple(
            Component(f"mlx5_{n}/1", {"device": f"mlx5_{n}", "port": "1", "pci": f"0000:0{n}:00.0"})
            for n in sorted(self.adapters)
        )
        functions = tuple(
            Component(f"0000:0{n}:00.0", {"class": "nic", "owner": f"mlx5_{n}", "path": f"0:{n // 2} 1:{n // 2}"})
            for n in sorted(self.adapters)
        )
        gpus = tuple(Component(f"gpu{n}", {"gpu": str(n)}) for n in sorted(self.gpus))
        parts = (
            Part("infiniband_state", Kind.PORT, ("state",), ports, 1.0),
            Part("gpu", Kind.GPU, ("gpu_recovery_action",), gpus, 10.0),
            Part("pcie", Kind.PCIE, ("pcie_width",), functions if self.switches else (), 10.0),
            Part("inventory", Kind.NODE, NODE, (Component(""),), 5.0),
        )
        self.parts = tuple(part for part in parts if part.components)
        identity = Identity("h", "boot", "agent", "1", START - 3600)
        self.engine.inventory("h", Inventory(self.number, identity, self.parts), self.now)
        self.engine.presence("h", Presence.LIVE, "", self.now)

    def restart_agent(self) -> None:
        self.seen = set(self.adapters)

    def restart_server(self) -> None:
        kept = self.engine.incidents()
        self.engine, self._listed = Engine(Scope.FLEET, None, {}, "test"), None
        self.engine.restore(kept, self.now)

    def run(self, seconds: float) -> list[Incident]:
        for _ in range(0, int(seconds), 10):
            self.now, self.sequence = self.now + 10.0, self.sequence + 1
            if self._listed != (self.adapters, self.gpus):
                self._list()
            links = len(self.adapters) if self.switches else 0
            lost = len(self.seen - self.adapters)
            found = float(len(self.gpus)) if self.counted else nan
            node = [len(self.adapters), lost, MANY, found, 0.0, MANY, self.unusable]
            values = np.array([4.0] * len(self.adapters) + [0.0] * len(self.gpus) + [16.0] * links + node)
            taken = np.full(len(self.parts), self.now - START + 1000.0)
            frame = Frame(self.number, self.sequence, self.now, taken, None, values, len(values))
            self.engine.frame("h", frame, self.now)
            self.engine.tick(self.now)
        return [one for one in self.engine.incidents() if one.status == "firing" and one.kind != OTHERS]

    def xid(self, gpu: int) -> None:
        event = Event(1, self.now, "xid", f"gpu{gpu}", "Xid 79", {"xid": 79.0}, of=Kind.GPU)
        self.engine.event("h", event, self.now)


def host(switches: bool = False) -> Host:
    made = Host(switches)
    assert made.run(400) == []
    return made


def kinds(incidents: list[Incident]) -> list[str]:
    return sorted(one.kind for one in incidents)


@pytest.mark.parametrize("seed", range(8))
def test_what_no_incident_has_is_reported_and_nothing_else(seed: int) -> None:
    """Adapters leave, and `apart` seconds later GPUs; some GPUs fell off the bus by their Xid."""
    rng = np.random.default_rng(seed)
    adapters, gpus, fell = ({n for n in range(3) if rng.random() < 0.5} for _ in range(3))
    apart = int(rng.choice([0, 30, 300]))
    one = host()
    one.adapters -= adapters
    one.run(apart)
    for gpu in gpus & fell:
        one.xid(gpu)
    one.gpus -= gpus
    found = one.run(300)
    with_adapters = bool(adapters) and apart <= ONE_CAUSE
    reported = not gpus <= fell and not with_adapters
    assert ("expected_inventory" in kinds(found)) == reported
    assert len(found) == len(adapters) + len(gpus & fell) + reported
    if gpus and not reported:
        assert any(reading.text.startswith("GPUs: expected") for mine in found for reading in mine.evidence)
    one.adapters = set(range(MANY))  # now the adapters have no fault
    found = one.run(300)
    assert kinds(found) == sorted(["gpu_fabric"] * len(gpus & fell) + ["expected_inventory"] * (not gpus <= fell))
    one.gpus = set(range(MANY))
    assert one.run(300) == []


def test_gpus_that_leave_with_an_adapter_are_named_in_its_incident() -> None:
    one = host()
    one.adapters -= {1}
    one.gpus -= {2, 3}
    (found,) = one.run(300)
    assert found.kind == "nic_fault"
    assert "2 GPUs left h within a minute of it: gpu2, gpu3" in [reading.text for reading in found.evidence]
    assert found.labels["gpus_missing"] == "2"


def test_a_pcie_switch_that_is_known_has_the_gpus_that_left_with_its_adapters_until_these_are_back() -> None:
    one = host(switches=True)
    one.adapters -= {4, 5}
    one.gpus -= {4, 5}
    (found,) = one.run(300)
    assert found.component.startswith("pcie_switch(h/")
    assert found.labels["gpus_missing"] == "2"
    one.adapters |= {4, 5}
    assert kinds(one.run(300)) == ["expected_inventory"]


def test_more_missing_than_the_incidents_have_is_reported_with_the_rest() -> None:
    one = host()
    one.xid(0)
    one.gpus -= {0}
    assert kinds(one.run(300)) == ["gpu_fabric"]
    one.gpus -= {1}
    assert kinds(one.run(300)) == ["expected_inventory", "gpu_fabric"]
    one.xid(1)  # of what is not listed nothing is reported; known from before, it may be
    one.gpus |= {1}
    assert kinds(one.run(300)) == ["gpu_fabric"]


def test_devices_that_cannot_be_used_are_news() -> None:
    one = host()
    one.xid(0)
    one.gpus -= {0}
    one.unusable = 1
    assert kinds(one.run(300)) == ["expected_inventory", "gpu_fabric"]


def test_gpus_that_cannot_be_counted_for_a_while_change_nothing() -> None:
    one = host()
    one.xid(0)
    one.gpus -= {0}
    assert kinds(one.run(300)) == ["gpu_fabric"]
    one.counted = False
    assert kinds(one.run(300)) == ["gpu_fabric"]
    one.counted = True
    assert kinds(one.run(300)) == ["gpu_fabric"]


def test_an_adapter_that_the_agent_does_not_know_after_its_restart_is_still_one_fault() -> None:
    one = host()
    one.adapters -= {1}
    assert kinds(one.run(300)) == ["nic_fault"]
    one.restart_agent()
    assert kinds(one.run(300)) == ["nic_fault"]


@pytest.mark.parametrize("adapters", [set(), {1}])
def test_after_a_restart_of_the_server_it_is_the_same_incident_until_that_ends(adapters: set[int]) -> None:
    one = host()
    if not adapters:
        one.xid(0)
    one.adapters -= adapters
    one.gpus -= {0}
    before = one.run(300)
    one.restart_server()
    after = one.run(600)
    assert [one.id for one in after] == [one.id for one in before]
    one.gpus -= {3}
    assert "expected_inventory" in kinds(one.run(300))
    one.gpus |= {0, 3}
    one.adapters = set(range(MANY))
    assert one.run(600) == []
