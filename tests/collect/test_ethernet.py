"""The ethernet collector: which interfaces, under which names, and events."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.collect.ethernet import EthernetSession
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import Link
from fabricmon.model import Event, Reading
from tests.host.trees import build_hca_tree, build_netdev, link, put

ethernet = COLLECTORS["ethernet"]


def function(root: Path, address: str, driver: str = "mlx5_core") -> Path:
    at = root / f"devices/pci0000:80/{address}"
    at.mkdir(parents=True)
    (root / f"bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
    link(at / "driver", root / f"bus/pci/drivers/{driver}")
    return at


def rows(reading: Reading) -> dict[str, dict[str, float]]:
    found = {}
    at = 0
    for part in reading.parts:
        for component in part.components:
            found[component.name] = dict(zip(part.columns, reading.values[at : at + len(part.columns)], strict=True))
            at += len(part.columns)
    return found


def labels(reading: Reading) -> dict[str, dict[str, str]]:
    return {c.name: c.labels for p in reading.parts for c in p.components}


def session(host: LiveHost, **config: object) -> EthernetSession:
    return ethernet.open(host, ethernet.config(**config)).sessions()[""]


def test_the_netdev_of_an_rdma_port_has_the_ports_row(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    reading = session(LiveHost(str(tmp_path))).read()
    found = rows(reading)
    assert sorted(found) == ["mlx5_0/1", "mlx5_1/1"]
    assert found["mlx5_0/1"] == {
        "carrier": 1, "operstate": 6, "admin_up": 1, "carrier_down_changes": 1, "carrier_up_changes": 2,
        "netdev_rate": 50e9, "mtu": 4092, "netdev_rx": 1000, "netdev_tx": 2000, "netdev_rx_packets": 10,
        "netdev_tx_packets": 20, "netdev_rx_errors": 1, "netdev_tx_errors": 2, "netdev_rx_dropped": 3,
        "netdev_tx_dropped": 4, "netdev_rx_crc_errors": 5,
    }  # fmt: skip
    assert labels(reading)["mlx5_0/1"] == {"netdev": "ib0", "device": "mlx5_0", "port": "1"}


def test_physical_interfaces_are_rows_and_virtual_ones_only_when_wanted(tmp_path: Path) -> None:
    build_netdev(tmp_path, function(tmp_path, "0000:81:00.0", "ice"), "eth0", 2)
    vf = function(tmp_path, "0000:81:00.1", "iavf")
    (vf / "physfn").mkdir()
    build_netdev(tmp_path, vf, "eth0v0", 3)
    representor = build_netdev(tmp_path, function(tmp_path, "0000:81:00.2"), "eth0r0", 9)
    put(representor / "phys_port_name", "pf0vf3\n")
    for index, name in enumerate(("lo", "veth1234", "docker0", "dummy0"), 4):
        build_netdev(tmp_path, None, name, index)
    put(tmp_path / "class/net/bonding_masters", "\n")
    reading = session(LiveHost(str(tmp_path), str(tmp_path / "proc"))).read()
    assert list(rows(reading)) == ["eth0"]
    assert labels(reading)["eth0"] == {"netdev": "eth0", "link_layer": "Ethernet", "pci": "0000:81:00.0",
                                       "driver": "ice", "role": "unknown"}  # fmt: skip
    wanted = rows(session(LiveHost(str(tmp_path)), include=("veth*", "dummy0")).read())
    assert sorted(wanted) == ["dummy0", "eth0", "veth1234"]


def test_a_bond_of_an_rdma_port_and_its_legs(tmp_path: Path) -> None:
    """State of the RDMA port follows the bond: only a leg shows that it is down
    (docs/methods.md#port-attributes)."""
    legs = [function(tmp_path, f"0000:81:00.{n}") for n in (0, 1)]
    device = legs[0] / "infiniband/mlx5_bond_0"
    put(device / "ports/1/gid_attrs/ndevs/0", "bond0\n")
    link(device / "device", legs[0])
    link(tmp_path / "class/infiniband/mlx5_bond_0", device)
    bond = build_netdev(tmp_path, None, "bond0", 9)
    (bond / "bonding").mkdir()
    for n, leg in enumerate(legs):
        netdev = build_netdev(tmp_path, leg, f"eth{n}", n + 2, up=n == 0)
        put(netdev / "master/ifindex", "9\n")
    reading = session(LiveHost(str(tmp_path))).read()
    found = rows(reading)
    assert sorted(found) == ["eth0", "eth1", "mlx5_bond_0/1"]
    assert labels(reading)["eth1"]["bond"] == "bond0"
    assert labels(reading)["mlx5_bond_0/1"]["netdev"] == "bond0"
    assert (found["eth0"]["carrier"], found["eth1"]["carrier"], found["mlx5_bond_0/1"]["carrier"]) == (1, 0, 1)


def test_speed_is_unknown_without_carrier_and_odd_speeds_cost_themselves(tmp_path: Path) -> None:
    netdev = build_netdev(tmp_path, function(tmp_path, "0000:81:00.0"), "eth0", 2, up=False)
    one = session(LiveHost(str(tmp_path)))
    assert math.isnan(rows(one.read())["eth0"]["netdev_rate"])
    for text, rate in (("-1", math.nan), ("4294967295", math.nan), ("400000", 50e9), ("fast", math.nan)):
        put(netdev / "carrier", "0\n")
        one.read()
        put(netdev / "carrier", "1\n")
        put(netdev / "speed", f"{text}\n")
        reading = one.read()
        assert rows(reading)["eth0"]["netdev_rate"] == pytest.approx(rate, nan_ok=True)
        assert len(reading.faults) == (text == "fast")


def test_unreadable_files_are_unknown(tmp_path: Path) -> None:
    netdev = build_netdev(tmp_path, function(tmp_path, "0000:81:00.0"), "eth0", 2)
    (netdev / "carrier").unlink()
    put(netdev / "carrier_down_count", "many\n")
    put(netdev / "operstate", "sideways\n")
    found = rows(session(LiveHost(str(tmp_path))).read())["eth0"]
    assert math.isnan(found["carrier"])
    assert math.isnan(found["carrier_down_changes"])
    assert found["operstate"] == 0  # the kernel's own word for unknown
    assert found["carrier_up_changes"] == 2


def test_no_network_class_is_no_fault(tmp_path: Path) -> None:
    reading = session(LiveHost(str(tmp_path))).read()
    assert (reading.parts, len(reading.values), reading.faults) == ((), 0, ())


ETH0 = Link(2, "eth0", "up", True, 1, 2, 1, 1500, None, "", "", "0000:81:00.0", "", {"rx_bytes": 5})


class Kernel(LiveHost):
    """rtnetlink that a test speaks for."""

    found: list[Link] = [ETH0]
    notify: Callable[[Link | None], None]

    def links(self) -> list[Link]:
        return self.found

    def watch_links(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        self.notify = notify
        return lambda: None


def changed(link: Link, **fields: object) -> Link:
    return Link(**{name: fields.get(name, getattr(link, name)) for name in Link.__struct_fields__})  # type: ignore[arg-type]


def test_a_change_of_shape_is_seen_in_the_same_run(tmp_path: Path) -> None:
    build_netdev(tmp_path, function(tmp_path, "0000:81:00.0"), "eth0", 2)
    host = Kernel(str(tmp_path))
    one = session(host, include=("veth*",))
    first = one.read()
    assert one.read().parts is first.parts
    host.found = [ETH0, changed(ETH0, index=3, name="veth0", kind="veth", parent="")]
    assert list(rows(one.read())) == ["eth0", "veth0"]
    host.found = [ETH0]
    assert list(rows(one.read())) == ["eth0"]


def test_events_name_the_row_and_say_what_happened(tmp_path: Path) -> None:
    build_netdev(tmp_path, function(tmp_path, "0000:81:00.0"), "eth0", 2)
    host = Kernel(str(tmp_path))
    collector = ethernet.open(host, ethernet.config())
    collector.sessions()[""].read()
    events: list[Event | None] = []
    collector.watch(events.append)
    down = changed(ETH0, carrier=0, operstate="down", carrier_down_count=2)
    for message in (ETH0, down, down, changed(down, stats={"rx_bytes": 6}), ETH0, changed(ETH0, admin_up=False), None):
        host.notify(message)
    assert [e.text if e else None for e in events] == [
        "eth0 has carrier", "eth0 lost carrier", "eth0 has carrier", "eth0 was set down", None,
    ]  # fmt: skip
    assert events[1] is not None
    assert (events[1].component, events[1].kind) == ("eth0", "link")
    assert events[1].fields == {"carrier": 0, "admin_up": 1, "carrier_down_changes": 2, "carrier_up_changes": 2}


def test_an_interface_nobody_reads_makes_no_noise_and_a_new_one_a_look(tmp_path: Path) -> None:
    build_netdev(tmp_path, function(tmp_path, "0000:81:00.0"), "eth0", 2)
    host = Kernel(str(tmp_path))
    collector = ethernet.open(host, ethernet.config(include=("bond*",)))
    collector.sessions()[""].read()
    events: list[Event | None] = []
    collector.watch(events.append)
    host.notify(changed(ETH0, index=7, name="veth7", kind="veth"))
    assert events == []
    host.notify(changed(ETH0, index=8, name="bond3", kind="bond"))
    assert events == [None]


def test_without_events_watching_does_nothing(tmp_path: Path) -> None:
    stop = ethernet.open(LiveHost(str(tmp_path)), ethernet.config()).watch(print)
    stop()
