"""expected_inventory through the real collectors, frames and engine: what is missing, who says so, what stays quiet."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.collect.inventory import ExpectedHardware
from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError
from fabricmon.model import Identity, Incident, Inventory, Part, Presence
from fabricmon.rules.rule import Scope
from tests.collect.nodes import build_dgx, build_efa, name_machine

infiniband_state = COLLECTORS["infiniband_state"]
inventory = COLLECTORS["inventory"]

START = 1_800_000_000.0
POLL = 10.0


class Nodes:
    """Agents' collectors on trees, and an engine that is fed by them every POLL seconds."""

    def __init__(self, *roots: Path, scope: Scope = Scope.FLEET, **config: Any) -> None:
        self.now = START
        self.engine = Engine(scope, None, {}, "test")
        self.sessions: dict[str, list[Any]] = {}
        self.parts: dict[str, tuple[Part, ...]] = {}
        self.known: dict[str, int] = {}
        self.ids = 0
        self.config = inventory.config(**config)
        for root in roots:
            self.add(root)

    def add(self, root: Path) -> None:
        host = LiveHost(str(root), str(root / "proc"), root.name)
        state = infiniband_state.open(host, infiniband_state.config(rediscover=0.0))
        own = inventory.open(host, self.config).sessions()
        self.sessions[root.name] = [state, *own.values()]

    def poll(self) -> None:
        self.now += POLL
        for node, (state, *others) in self.sessions.items():
            readings = [s.read() for s in (*state.sessions().values(), *others)]
            parts = tuple(part for reading in readings for part in reading.parts)
            if parts != self.parts.get(node):
                self.ids += 1
                self.parts[node] = parts
                identity = Identity(node, "boot", f"agent-{node}", "1", START)
                self.engine.inventory(node, Inventory(self.ids, identity, parts), self.now)
                self.engine.presence(node, Presence.LIVE, "", self.now)
                self.known[node] = self.ids
            values = np.concatenate([np.array(reading.values) for reading in readings])
            taken = np.full(len(parts), self.now - START)
            self.engine.frame(node, Frame(self.known[node], 1, self.now, taken, None, values), self.now)
        self.engine.tick(self.now)

    def run(self, seconds: float) -> list[Incident]:
        for _ in range(int(seconds / POLL)):
            self.poll()
        return [i for i in self.engine.incidents() if i.status == "firing"]


def test_an_adapter_that_was_never_there_is_missed_by_the_type(tmp_path: Path) -> None:
    build_dgx(tmp_path / "host-001", adapters=7)
    (incident,) = Nodes(tmp_path / "host-001").run(200)
    assert (incident.kind, incident.component, incident.severity) == ("expected_inventory", "host(host-001)", "warning")
    assert incident.evidence[0].text == "adapters: expected 8, found 7 (machine type DGX H100)"
    assert (incident.evidence[0].value, incident.evidence[0].limit) == (7, 8)


def test_its_own_agent_says_the_same(tmp_path: Path) -> None:
    build_dgx(tmp_path / "host-001", gpus=7)
    nodes = Nodes(tmp_path / "host-001", scope=Scope.NODE)
    nodes.run(200)
    (symptom,) = nodes.engine.symptoms()
    assert symptom.rule == "expected_inventory"
    assert symptom.evidence[1].text == "GPUs: expected 8, found 7 (machine type DGX H100)"


def test_a_node_whose_devices_cannot_be_listed_gains_and_loses_no_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = False

    def refuse(self: LiveHost, path: str) -> list[str]:
        if refused and path.startswith("/sys/bus/pci/drivers/"):
            raise HostError(path, errno.EMFILE, "Too many open files")
        return whole(self, path)

    whole = LiveHost.list
    monkeypatch.setattr(LiveHost, "list", refuse)
    build_dgx(tmp_path / "host-001", gpus=7)
    build_dgx(tmp_path / "host-002")
    nodes = Nodes(tmp_path / "host-001", tmp_path / "host-002")
    assert [incident.component for incident in nodes.run(200)] == ["host(host-001)"]
    refused = True
    assert [incident.component for incident in nodes.run(600)] == ["host(host-001)"]


def test_adapters_that_cannot_be_listed_are_not_named_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LiveHost, path: str) -> list[str]:
        if path == "/sys/class/infiniband" and self.name == "host-000":
            raise HostError(path, errno.EACCES, "Permission denied")
        return whole(self, path)

    whole = LiveHost.list
    monkeypatch.setattr(LiveHost, "list", refuse)
    roots = [tmp_path / f"host-00{n}" for n in range(5)]
    for n, root in enumerate(roots):
        build_dgx(root, gpus=7 if n == 0 else 8)
    nodes = Nodes(*roots[1:])
    host = LiveHost(str(roots[0]), str(roots[0] / "proc"), roots[0].name)
    nodes.sessions[roots[0].name] = [_NoDevices(), *inventory.open(host, nodes.config).sessions().values()]
    (incident,) = nodes.run(300)
    texts = [evidence.text for evidence in incident.evidence]
    assert any(text.startswith("GPUs: expected 8, found 7") for text in texts)
    assert not any("missing" in text for text in texts)
    assert "missing" not in incident.labels


class _NoDevices:
    """A collector of RDMA devices that has none."""

    def sessions(self) -> dict[str, Any]:
        return {}


def test_a_whole_machine_and_an_unknown_one_are_quiet(tmp_path: Path) -> None:
    build_dgx(tmp_path / "host-001")
    build_dgx(tmp_path / "host-002", adapters=3, gpus=0, product="R760")
    assert Nodes(tmp_path / "host-001", tmp_path / "host-002").run(300) == []


def test_it_waits_until_drivers_have_loaded_and_ends_when_the_device_comes(tmp_path: Path) -> None:
    root = tmp_path / "host-001"
    build_dgx(root)
    device = root / "class/infiniband/mlx5_7"
    device.rename(root / "unplugged")
    nodes = Nodes(root)
    assert nodes.run(100) == []
    (root / "unplugged").rename(device)
    assert nodes.run(300) == []
    device.unlink()
    found = {incident.kind for incident in nodes.run(300)}
    assert found == {"nic_fault"}, "what vanished under the agent's eyes is told once, as an adapter fault"


def test_peers_tell_what_an_unknown_build_should_have_and_name_it(tmp_path: Path) -> None:
    roots = [tmp_path / f"host-00{n}" for n in range(5)]
    for root in roots:
        build_dgx(root, adapters=6, gpus=0, product="R760")
    (roots[3] / "class/infiniband/mlx5_2").unlink()
    (incident,) = Nodes(*roots).run(300)
    assert (incident.component, incident.severity) == ("host(host-003)", "warning")
    assert [e.text for e in incident.evidence] == [
        "adapters: expected 6, found 5 (as most nodes of this build)", "missing: 0000:21:00.0",
    ]  # fmt: skip
    assert incident.labels["missing"] == "0000:21:00.0"


def test_peers_that_do_not_agree_and_peers_of_another_build_say_nothing(tmp_path: Path) -> None:
    roots = [tmp_path / f"host-00{n}" for n in range(6)]
    for n, root in enumerate(roots):
        build_dgx(root, adapters=(2, 4, 2, 4, 2, 8)[n], gpus=0, product="R760" if n < 5 else "R960")
    assert Nodes(*roots).run(300) == []


def test_a_template_that_attaches_fewer_efa_devices_is_no_fault_of_its_nodes(tmp_path: Path) -> None:
    """32 is the upper bound of a p5: what all peers have is what the site wants; one node with less stands out."""
    roots = [tmp_path / f"host-00{n}" for n in range(5)]
    for n, root in enumerate(roots):
        build_efa(root, {f"rdmap{d}s0": 1 for d in range(15 if n == 2 else 16)})
    found = Nodes(*roots).run(300)
    of_adapters = [e.text for i in found for e in i.evidence if e.text.startswith("adapters") and e.for_it]
    assert of_adapters == ["adapters: expected 16, found 15 (as most nodes of this build)"]


def test_one_instance_alone_with_fewer_than_its_type_may_have_is_information(tmp_path: Path) -> None:
    build_efa(tmp_path / "host-001", {f"rdmap{d}s0": 1 for d in range(16)}, product="trn1.32xlarge")
    assert Nodes(tmp_path / "host-001").run(300) == []
    build_efa(tmp_path / "host-002", {f"rdmap{d}s0": 1 for d in range(7)}, product="trn1.32xlarge")
    (incident,) = Nodes(tmp_path / "host-002").run(300)
    assert (incident.kind, incident.severity) == ("expected_inventory", "info")


def test_the_configuration_decides(tmp_path: Path) -> None:
    root = tmp_path / "host-001"
    build_dgx(root, adapters=6, gpus=6)
    assert Nodes(root, expect=ExpectedHardware(hcas=6, gpus=6)).run(300) == []
    (incident,) = Nodes(root, expect=ExpectedHardware(hcas=7, gpus=6)).run(300)
    assert incident.evidence[0].text == "adapters: expected 7, found 6 (configured)"


def test_an_idle_plane_is_not_evaluated(tmp_path: Path) -> None:
    root = tmp_path / "host-001"
    build_dgx(root)
    name_machine(root, "", "")
    quiet = Nodes(root, roles={"idle": ("mlx5_3",)})
    quiet.run(30)
    (root / "class/infiniband/mlx5_3/ports/1/state").write_text("1: DOWN\n")
    (root / "class/infiniband/mlx5_3/ports/1/phys_state").write_text("2: Polling\n")
    assert quiet.run(200) == []
    (root / "class/infiniband/mlx5_4/ports/1/state").write_text("1: DOWN\n")
    (root / "class/infiniband/mlx5_4/ports/1/phys_state").write_text("2: Polling\n")
    (incident,) = quiet.run(200)
    assert incident.component == "link(host-001/mlx5_4/1)"
