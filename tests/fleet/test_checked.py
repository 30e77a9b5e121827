"""Which components of a node count as checked: by technology, from frames as agents send them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Checked, CheckedNode, Component, Identity, Inventory, Kind, Part, Unchecked
from fabricmon.rules.rule import Scope

NOW = 1_800_000_000.0
NAN = math.nan
IB = {"device": "mlx5_0", "port": "1", "link_layer": "InfiniBand"}
ROCE = IB | {"link_layer": "Ethernet"}
EFA = IB | {"link_layer": "Unspecified", "driver": "efa"}
NIC = {"netdev": "eth1", "pci": "0000:17:00.0", "driver": "ice", "role": "unknown"}


def seen(kind: Kind, labels: dict[str, str], values: dict[str, float], after: float = 0.0) -> CheckedNode:
    """What a server says of a node with one row, so long after its only frame."""
    engine = Engine(Scope.FLEET)
    part = Part("test", kind, tuple(values), (Component("row", labels),), 10.0)
    engine.inventory("n1", Inventory(1, Identity("n1", "boot", "agent", "1", NOW), (part,)), NOW)
    engine.frame("n1", Frame(1, 1, NOW, np.array([100.0]), None, np.array(list(values.values()))), NOW)
    engine.tick(NOW)
    return engine.checked(NOW + after)["n1"]


PORT = {"state": 4.0, "phys_state": 5.0, "symbol_errors": 0.0}


@pytest.mark.parametrize(("labels", "values", "technology", "why"), [
    (IB, PORT, "infiniband", ""),
    (IB, PORT | {"state": 1.0, "phys_state": 2.0}, "infiniband", ""),
    (IB, PORT | {"state": NAN}, "infiniband", "state not read"),
    (IB, PORT | {"state": NAN, "carrier": 1.0}, "infiniband", "state not read"),
    (IB, PORT | {"state": 0.0}, "infiniband", "state not read"),  # nop
    (IB, PORT | {"symbol_errors": NAN, "req_cqe_error": 0.0}, "infiniband", ""),
    # of the IPoIB interface, and of the kernel log: they say nothing about the port's own errors
    (IB, PORT | {"symbol_errors": NAN, "netdev_rx_errors": 0.0, "log_firmware_faults": 0.0}, "infiniband",
     "no error counter read"),
    (IB, PORT | {"symbol_errors": NAN, "xmit": 1.0, "link_downed": NAN}, "infiniband", "no error counter read"),
    (IB, PORT | {"symbol_errors": NAN, "supported": 0.0}, "infiniband",
     "reads of its counters are refused (permissions, else agent.exclude leaves it out)"),
    ({"device": "mlx5_0", "port": "1"}, PORT, "rdma", "link layer not read"),
    (ROCE, {"state": 4.0, "carrier": 1.0, "req_cqe_error": 0.0}, "roce", ""),
    (ROCE, {"state": 4.0, "carrier": 1.0, "mac_fcs_errors": 0.0}, "roce", ""),
    (ROCE, {"state": NAN, "carrier": 1.0, "req_cqe_error": 0.0}, "roce", "state not read"),
    (ROCE, {"state": 4.0, "carrier": 1.0, "netdev_rx_errors": 0.0}, "roce", "no error counter read"),
    (EFA, {"state": 4.0, "rdma_rx_drops": 0.0}, "efa", ""),
    (EFA, {"state": 4.0, "rdma_rx_drops": NAN}, "efa", "no error counter read"),
    (NIC, {"carrier": 1.0, "netdev_rx_errors": 0.0}, "ethernet", ""),
    (NIC, {"carrier": NAN, "operstate": 6.0, "netdev_rx_errors": 0.0}, "ethernet", ""),
    (NIC, {"carrier": NAN, "operstate": NAN, "netdev_rx_errors": 0.0}, "ethernet", "state not read"),
    (NIC, {"carrier": 1.0, "carrier_down_changes": 0.0}, "ethernet", "no error counter read"),
])  # fmt: skip
def test_ports(labels: dict[str, str], values: dict[str, float], technology: str, why: str) -> None:
    found = seen(Kind.PORT, labels, values)
    assert found.counts == (Checked(technology, int(not why), int(bool(why)), int(not why)),)
    assert found.unread == ((Unchecked("row", technology, why),) if why else ())


@pytest.mark.parametrize("labels", [
    IB | {"swept": "true"},
    IB | {"role": "idle"},
    NIC | {"role": "management"},
    NIC | {"driver": "virtio_net"},
    {"netdev": "bond0"},
])  # fmt: skip
def test_rows_that_are_no_component_of_the_nodes_fabric(labels: dict[str, str]) -> None:
    assert seen(Kind.PORT, labels, PORT | {"carrier": 1.0, "netdev_rx_errors": 0.0}).counts == ()


@pytest.mark.parametrize(("values", "count", "why"), [
    ({"gpu_nvlinks": 18.0, "gpu_nvlinks_active": 18.0, "gpu_nvlink_critical_errors": 0.0}, 18, ""),
    ({"gpu_nvlinks": 18.0, "gpu_nvlinks_active": NAN, "gpu_nvlink_critical_errors": 0.0}, 0, "state not read"),
    ({"gpu_nvlinks": 18.0, "gpu_nvlinks_active": 18.0, "gpu_nvlink_critical_errors": NAN}, 0, "no error counter read"),
    ({"gpu_nvlinks": NAN, "gpu_nvlinks_active": NAN}, 0, "state not read, no error counter read"),
])
def test_gpus_with_nvlinks(values: dict[str, float], count: int, why: str) -> None:
    found = seen(Kind.GPU, {"gpu": "0"}, values)
    assert found.counts == (Checked("nvlink", int(not why), int(bool(why)), count),)
    assert [one.why for one in found.unread] == ([why] if why else [])


def test_a_gpu_without_nvlinks_is_no_component() -> None:
    assert seen(Kind.GPU, {"gpu": "0"}, {"gpu_nvlinks": 0.0}).counts == ()
    assert seen(Kind.GPU, {"gpu": "0"}, {"gpu_pcie_width": 16.0}).counts == ()


GPU = {"device": "row", "class": "gpu"}


@pytest.mark.parametrize(("labels", "values", "counts"), [
    (GPU, {"pcie_path_width": 1.0, "pcie_path_speed": NAN, "pcie_unread_files": 0.0}, (1, 0)),
    (GPU, {"pcie_path_width": 1.0, "pcie_path_speed": NAN, "pcie_unread_files": 1.0}, (0, 1)),
    (GPU, {"pcie_path_width": NAN, "pcie_path_speed": NAN, "pcie_unread_files": 2.0}, (0, 1)),
    # a virtual machine that shows no link, and an agent that does not count unread files yet
    (GPU, {"pcie_path_width": NAN, "pcie_path_speed": NAN, "pcie_unread_files": 0.0}, None),
    (GPU, {"pcie_path_width": 1.0, "pcie_path_speed": NAN}, (1, 0)),
    ({"device": "row", "class": "nic", "owner": "mlx5_0", "rdma": "mlx5_0"}, {"pcie_path_width": 1.0}, (1, 0)),
    ({"device": "row", "class": "nic", "owner": "eth0"}, {"pcie_path_width": 1.0}, None),
    # a driver that is not loaded, or did not start: the link alone is no evidence
    (GPU | {"driver": "none"}, {"pcie_path_width": 1.0, "pcie_unread_files": 0.0}, (0, 1)),
    ({"device": "row", "class": "nic", "driver": "none"}, {"pcie_path_width": NAN}, (0, 1)),
])  # fmt: skip
def test_pcie_links(labels: dict[str, str], values: dict[str, float], counts: tuple[int, int] | None) -> None:
    found = seen(Kind.PCIE, labels, values)
    assert [(one.checked, one.unknown) for one in found.counts] == ([counts] if counts else [])


def test_what_was_read_long_ago_is_unchecked_line() -> None:
    assert seen(Kind.PORT, IB, PORT, after=29.0).checked == 1
    late = seen(Kind.PORT, IB, PORT, after=31.0)
    assert (late.checked, late.unknown, late.unread[0].why) == (0, 1, "state not read, no error counter read")


def test_many_unread_components_are_counted_and_some_are_named() -> None:
    engine = Engine(Scope.FLEET)
    ports = tuple(Component(f"mlx5_{n:02}/1", IB | {"device": f"mlx5_{n:02}"}) for n in range(40))
    part = Part("test", Kind.PORT, ("state",), ports, 10.0)
    engine.inventory("n1", Inventory(1, Identity("n1", "boot", "agent", "1", NOW), (part,)), NOW)
    engine.frame("n1", Frame(1, 1, NOW, np.array([100.0]), None, np.full(40, NAN)), NOW)
    engine.tick(NOW)
    found = engine.checked(NOW)["n1"]
    assert (found.unknown, len(found.unread), found.unread[0].component) == (40, 16, "mlx5_00/1")
