"""The PHY in the kernel's words, settings of lossless ports, bonds and neighbours."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.collect import COLLECTORS
from fabricmon.collect.parse import lldp
from fabricmon.collect.qos import fingerprint
from fabricmon.host.protocol import HostError
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause
from tests.collect.drivers import labels, machine, rdma_port, rows
from tests.host.trees import build_netdev, put

bond = COLLECTORS["bond"]
ethernet_phy = COLLECTORS["ethernet_phy"]
neighbours = COLLECTORS["neighbours"]
qos = COLLECTORS["qos"]


def phy(host, name="eth0"):
    return ethernet_phy.open(host, ethernet_phy.config()).sessions()[name]


def test_what_the_driver_answers_and_nothing_else(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    drivers.answers = {
        ("fec", "eth0"): Fec(50, (900, 1, 2), (3,), ()),
        ("link", "eth0"): LinkState(False, None, 4, 0, 17),
    }
    found = phy(host).read()
    values = rows(found)["eth0"]
    assert values.pop("fec_corrected_bit_errors") != values.pop("link_quality")  # both unknown
    assert values == {
        "fec_corrected_blocks": 900, "fec_uncorrectable_blocks": 3, "fec_mode": 50,
        "link_down_reason": 4, "link_down_detail": 0, "phy_link_down_events": 17,
    }  # fmt: skip
    assert found.queries == 4
    assert set(values) <= set(CATALOGUE)


def test_a_question_that_fails_costs_its_values_only_and_keeps_the_shape(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0")
    fec, standard = ("fec", "eth0"), ("standard", "eth0")
    drivers.answers = {fec: Fec(50, (900,), (3,), (5,)), standard: {"FrameCheckSequenceErrors": 7}}
    session = phy(host)
    first = session.read()
    drivers.answers[fec] = HostError("FEC_GET", errno.ETIMEDOUT, "no answer")
    second = session.read()
    assert second.parts is first.parts
    assert [f.source for f in second.faults] == ["ethtool FEC_GET eth0"]
    found = rows(second)["eth0"]
    assert math.isnan(found["fec_corrected_blocks"])
    assert found["mac_fcs_errors"] == 7
    drivers.answers[fec] = HostError("FEC_GET", errno.ENODEV, "gone")
    with pytest.raises(HostError, match="gone"):
        session.read()


def test_a_driver_that_answers_nothing_is_no_fault(tmp_path: Path) -> None:
    host, _ = machine(tmp_path, "eth0", driver="virtio_net")
    for module in (ethernet_phy, qos):
        found = module.open(host, module.config()).sessions()["eth0"].read()
        assert (found.parts, len(found.values), found.faults, found.queries) == ((), 0, (), 0)


SETTINGS = Dcb(
    dcbx=9, pfc_classes=8, pfc_enabled=0b1000, delay=100, willing=False,
    bandwidth=(0, 0, 0, 50, 0, 50, 0, 0), algorithm=(0, 0, 0, 2, 0, 2, 0, 0), class_of=(0, 1, 2, 3, 4, 5, 6, 7),
    apps=((5, 26, 3), (5, 48, 6)), max_rate=(0,) * 8, buffer_of=(0, 0, 0, 1, 0, 0, 0, 0),
    buffers=(1000, 2000, 0, 0, 0, 0, 0, 0),
)  # fmt: skip
UNPAUSED = Pause(False, False, False)


def settings(tmp_path: Path, name: str = "eth0", dcb: Dcb = SETTINGS, pause: Pause = UNPAUSED):
    host, drivers = machine(tmp_path, name)
    drivers.answers = {("dcb", name): dcb, ("pause", name): pause}
    return host, drivers, qos.open(host, qos.config()).sessions()[name]


def test_settings_as_values(tmp_path: Path) -> None:
    _, _, session = settings(tmp_path)
    for prio in range(8):
        put(tmp_path / f"class/net/eth0/ecn/roce_np/enable/{prio}", "1\n" if prio in (3, 5) else "0\n")
    found = rows(session.read())["eth0"]
    assert found["pfc_enabled"] == 8
    assert found["ets_bandwidth_class3"] == 0.5
    assert found["ets_algorithm_class5"] == 2
    assert found["ets_class_prio7"] == 7
    assert (found["app_entries"], found["dscp_trusted"]) == (2, 1)
    assert found["ecn_marks_answered"] == 0b101000
    assert "ecn_rate_reduced" not in found
    assert (found["qos_mtu"], found["pause_rx_enabled"]) == (4092, 0)
    assert set(found) <= set(CATALOGUE)


@pytest.mark.parametrize(
    "change",
    [{"pfc_enabled": 16}, {"bandwidth": (0, 0, 0, 60, 0, 40, 0, 0)}, {"class_of": (0,) * 8}, {"apps": ((5, 26, 3),)},
     {"apps": ()}, {"delay": 7}, {"dcbx": 4}, {"buffers": (1,) * 8}, {"max_rate": (1,) + (0,) * 7}, {"willing": True}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_every_setting_is_in_the_fingerprint(tmp_path: Path, change: dict) -> None:
    import msgspec

    _, _, one = settings(tmp_path / "a")
    _, _, same = settings(tmp_path / "b")
    _, _, other = settings(tmp_path / "c", dcb=msgspec.structs.replace(SETTINGS, **change))
    marks = [rows(session.read())["eth0"]["qos_fingerprint"] for session in (one, same, other)]
    assert marks[0] == marks[1] != marks[2]
    assert all(mark == int(mark) and 0 <= mark < 2**53 for mark in marks)


def test_pause_and_mtu_are_in_the_fingerprint_too(tmp_path: Path) -> None:
    _, _, one = settings(tmp_path / "a")
    _, _, paused = settings(tmp_path / "b", pause=Pause(False, True, False))
    _, _, small = settings(tmp_path / "c")
    put(tmp_path / "c/class/net/eth0/mtu", "1500\n")
    assert len({rows(session.read())["eth0"]["qos_fingerprint"] for session in (one, paused, small)}) == 3


def test_a_question_that_fails_makes_the_fingerprint_unknown(tmp_path: Path) -> None:
    _, drivers, session = settings(tmp_path)
    before = session.read()
    drivers.answers["dcb", "eth0"] = HostError("IEEE_GET", errno.ETIMEDOUT, "no answer")
    after = session.read()
    found = rows(after)["eth0"]
    assert after.parts is before.parts
    assert math.isnan(found["qos_fingerprint"])
    assert math.isnan(found["pfc_enabled"])
    assert found["qos_mtu"] == 4092
    assert after.faults[0].source == "dcbnl IEEE_GET eth0"


@given(st.lists(st.floats(allow_nan=True), max_size=30))
def test_a_fingerprint_is_whole_exact_and_depends_on_the_order(values: list[float]) -> None:
    mark = fingerprint(values)
    assert mark == float(int(mark))
    assert 0 <= mark < 2**52
    assert mark == fingerprint(list(values))
    assert mark != fingerprint([*values, 1.0])


# --- bonds


def bonded(root: Path, mode_lacp: bool = True):
    host, _ = machine(root, "eth0", "eth1")
    put(root / "class/net/bonding_masters", "bond0\n")
    whole = build_netdev(root, None, "bond0", 9)
    put(whole / "bonding/slaves", "eth0 eth1\n")
    if mode_lacp:
        put(whole / "bonding/ad_aggregator", "1\n")
    for n in (0, 1):
        at = root / f"class/net/eth{n}/bonding_slave"
        put(at / "mii_status", "up\n")
        put(at / "state", "active\n")
        put(at / "link_failure_count", f"{n}\n")
        put(at / "ad_aggregator_id", "1\n" if mode_lacp else "N/A\n")
    rdma_port(root, "mlx5_bond_0", "bond0")
    return bond.open(host, bond.config()).sessions()[""]


def test_a_dead_leg_is_seen_on_the_leg_and_counted_on_the_bond(tmp_path: Path) -> None:
    session = bonded(tmp_path)
    first = session.read()
    assert rows(first) == {
        "eth0": {"bond_leg_up": 1, "bond_leg_active": 1, "bond_leg_failures": 0, "bond_leg_aggregated": 1},
        "eth1": {"bond_leg_up": 1, "bond_leg_active": 1, "bond_leg_failures": 1, "bond_leg_aggregated": 1},
        "mlx5_bond_0/1": {"bond_legs": 2, "bond_legs_up": 2},
    }
    assert labels(first)["eth1"]["bond"] == "bond0"
    put(tmp_path / "class/net/eth1/bonding_slave/mii_status", "down\n")
    put(tmp_path / "class/net/eth1/bonding_slave/ad_aggregator_id", "2\n")
    put(tmp_path / "class/net/eth1/bonding_slave/link_failure_count", "2\n")
    second = session.read()
    assert second.parts is first.parts
    assert rows(second)["eth1"] == {
        "bond_leg_up": 0, "bond_leg_active": 1, "bond_leg_failures": 2, "bond_leg_aggregated": 0,
    }  # fmt: skip
    assert rows(second)["mlx5_bond_0/1"] == {"bond_legs": 2, "bond_legs_up": 1}


def test_a_bond_without_lacp_and_a_leg_without_files(tmp_path: Path) -> None:
    session = bonded(tmp_path, mode_lacp=False)
    (tmp_path / "class/net/eth0/bonding_slave/mii_status").unlink()
    found = rows(session.read())
    assert math.isnan(found["eth1"]["bond_leg_aggregated"])
    assert math.isnan(found["eth0"]["bond_leg_up"])
    assert math.isnan(found["mlx5_bond_0/1"]["bond_legs_up"])
    host, _ = machine(tmp_path / "plain", "eth0")
    assert bond.open(host, bond.config()).sessions()[""].read().parts == ()


# --- neighbours


def entry(chassis: object, kind: str = "ifname", port: str = "swp12s0", descr: str = "") -> dict[str, object]:
    about: dict[str, object] = {"id": {"type": kind, "value": port}}
    if descr:
        about["descr"] = descr
    return {"via": "LLDP", "chassis": chassis, "port": about}


LEAF = {"leaf-1": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}}


@pytest.mark.parametrize(
    ("interface", "wanted"),
    [
        ([{"eth0": entry(LEAF)}, {"eth1": entry(LEAF)}], {"eth0": "swp12s0", "eth1": "swp12s0"}),
        ({"eth0": entry(LEAF)}, {"eth0": "swp12s0"}),  # one entry: an object, no list
        ({"eth0": entry(LEAF), "eth1": entry(LEAF)}, {"eth0": "swp12s0", "eth1": "swp12s0"}),
        ([{"eth0": entry(LEAF, "mac", "02:00:00:00:00:99", "Ethernet7")}], {"eth0": "Ethernet7"}),
        ([{"eth0": entry(LEAF, "mac", "02:00:00:00:00:99")}], {"eth0": "02:00:00:00:00:99"}),
        ([{"eth0": entry(LEAF, "local", "xe-0/0/1", "to host")}], {"eth0": "xe-0/0/1"}),
        ([{"eth0": {"via": "CDPv2", "chassis": LEAF, "port": {}}}], {}),
        ({}, {}),
        (None, {}),
        (["eth0", 7, {"eth1": "text"}], {}),
    ],
)
def test_the_forms_lldpd_gives(interface: object, wanted: dict[str, str]) -> None:
    found = lldp.parse(json.dumps({"lldp": {"interface": interface}}).encode())
    assert {name: of[0]["lldp_port"] for name, of in found.items()} == wanted
    assert all(of[0]["lldp_chassis"] == "leaf-1" for of in found.values())


def test_a_switch_without_a_name_is_called_by_its_id() -> None:
    raw = json.dumps({"lldp": {"interface": {"eth0": entry({"id": {"type": "mac", "value": "02:00"}})}}}).encode()
    (found,) = lldp.parse(raw)["eth0"]
    assert found == {"lldp_chassis": "02:00", "lldp_chassis_id": "02:00", "lldp_port": "swp12s0"}


@pytest.mark.parametrize("enabled", [True, False])
def test_what_forwards_comes_before_the_adapters_own_agent(enabled: bool) -> None:
    own: dict[str, object] = {"id": {"type": "mac", "value": "02:99"}}
    switch = {"leaf-1": {**LEAF["leaf-1"], "capability": {"type": "Bridge", "enabled": enabled}}}
    raw = json.dumps({"lldp": {"interface": [{"eth0": entry(own)}, {"eth0": entry(switch)}]}}).encode()
    first, second = lldp.parse(raw)["eth0"]
    named = [first["lldp_chassis"], second["lldp_chassis"]]
    assert named == (["leaf-1", "02:99"] if enabled else ["02:99", "leaf-1"])


words = st.sampled_from(["lldp", "interface", "eth0", "chassis", "port", "id", "type", "value", "via", "descr"])
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
documents = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner))


@given(documents)
def test_no_document_breaks_the_reader(document: object) -> None:
    for form in (document, {"lldp": document}, {"lldp": {"interface": document}}):
        try:
            found = lldp.parse(json.dumps(form).encode())
        except ValueError:
            continue
        assert all(isinstance(value, str) for of in found.values() for one in of for value in one.values())


def test_neighbours_are_labels_of_the_ports_row(tmp_path: Path) -> None:
    host, drivers = machine(tmp_path, "eth0", "eth1")
    rdma_port(tmp_path, "mlx5_0", "eth0")
    drivers.answers["neighbours", ""] = json.dumps({"lldp": {"interface": [{"eth0": entry(LEAF)}]}}).encode()
    session = neighbours.open(host, neighbours.config()).sessions()[""]
    first = session.read()
    assert rows(first) == {"mlx5_0/1": {"lldp_neighbours": 1}, "eth1": {"lldp_neighbours": 0}}
    assert labels(first)["mlx5_0/1"] == {
        "netdev": "eth0", "device": "mlx5_0", "port": "1", "lldp_chassis": "leaf-1", "lldp_port": "swp12s0",
        "lldp_chassis_id": "02:00:00:00:00:01",
    }  # fmt: skip
    assert session.read().parts is first.parts
    drivers.answers["neighbours", ""] = b"lldpctl: not running"
    with pytest.raises(HostError, match="JSON"):
        session.read()


def test_neighbours_from_a_file(tmp_path: Path) -> None:
    host, _ = machine(tmp_path, "eth0")
    file = tmp_path / "lldp.json"
    file.write_text(json.dumps({"lldp": {"interface": {"eth0": entry(LEAF)}}}))
    found = neighbours.open(host, neighbours.config(file=str(file))).sessions()[""].read()
    assert labels(found)["eth0"]["lldp_port"] == "swp12s0"
