"""What drivers told is in a recording: the same readings come out of it, the same refusals, and no serial number."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.host import archive_file
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause
from fabricmon.host.recorded import RecordedHost
from fabricmon.host.recording import RecordingHost
from tests.collect.drivers import labels, machine, rows

ethernet_phy = COLLECTORS["ethernet_phy"]
neighbours = COLLECTORS["neighbours"]
optics = COLLECTORS["optics"]
qos = COLLECTORS["qos"]
roce = COLLECTORS["roce"]

EIGHT = (0, 1, 2, 3, 4, 5, 6, 7)
LEAF = {
    "via": "LLDP",
    "chassis": {"secret-leaf": {"id": {"type": "mac", "value": "02:00"}}},
    "port": {"id": {"type": "ifname", "value": "p1"}},
}
COLLECTORS = (roce, ethernet_phy, qos, optics, neighbours)


def memory(page: int, offset: int, length: int, address: int) -> bytes:
    """An OSFP module with a serial number and a temperature."""
    lower, upper = bytearray(128), bytearray(128)
    lower[0], lower[14] = 0x19, 54
    if page == 0:
        upper[1:17], upper[38:54] = b"MAKER".ljust(16), b"SECRET-SERIAL".ljust(16)
    if page == 1:
        upper[31:33] = bytes((1, 0))
    return bytes((lower + upper)[offset : offset + length])


def recorded(tmp_path: Path) -> RecordingHost:
    host, drivers = machine(tmp_path, "eth0", "eth1")
    drivers.counts["eth0"] = {"rx_prio3_pause": 7, "rx_prio3_pause_duration": 5_000_000, "odd one": 3}
    drivers.answers = {
        ("fec", "eth0"): Fec(50, (9, 1), (2,), ()),
        ("link", "eth0"): LinkState(False, None, 4, 1, 3),
        ("standard", "eth0"): {"FrameCheckSequenceErrors": 8},
        ("pause", "eth0"): Pause(True, False, True, 1, 2),
        ("dcb", "eth0"): Dcb(1, 8, 8, 0, True, EIGHT, EIGHT, EIGHT, ((5, 26, 3),), EIGHT, EIGHT, EIGHT),
        ("fec", "eth1"): HostError("FEC_GET", errno.ETIMEDOUT, "no answer"),
        ("neighbours", ""): json.dumps({"lldp": {"interface": {"eth0": LEAF}}}).encode(),
    }  # fmt: skip
    drivers.memory["eth0"] = memory
    return RecordingHost(host)


def everything(host: Host) -> dict[str, tuple[dict, dict, list[str]]]:
    found = {}
    for module in COLLECTORS:
        for key, session in module.open(host, module.config()).sessions().items():
            reading = session.read()
            found[f"{module.name} {key}"] = (rows(reading), labels(reading), [f.error for f in reading.faults])
    return found


def same(one: dict, other: dict) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)  # NaN is equal to NaN there


def test_the_same_readings_come_out_of_a_file(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "sys")
    live = everything(recording)
    assert live["roce eth0"][0]["eth0"]["pfc_rx_pause_prio3"] == 5
    assert live["optics eth0"][1]["eth0"]["module_serial"] == "SECRET-SERIAL"
    assert math.isnan(live["ethernet_phy eth0"][0]["eth0"]["fec_corrected_bit_errors"])
    assert live["ethernet_phy eth1"][2] == ["no answer"]
    archive_file.save(recording.archive, str(tmp_path / "machine"))
    assert same(everything(RecordedHost(str(tmp_path / "machine"))), live)


def test_anonymised_it_names_neither_serial_number_nor_switch(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "sys")
    live = everything(recording)
    hidden = archive_file.anonymised(recording.archive)
    archive_file.save(hidden, str(tmp_path / "machine"))
    found = everything(RecordedHost(str(tmp_path / "machine")))
    assert "SECRET" not in json.dumps(found)
    assert "secret-leaf" not in json.dumps(found)
    assert found["neighbours "] == ({}, {}, [])
    assert found["optics eth0"][1]["eth0"]["module_vendor"] == "MAKER"
    for name in ("roce eth0", "ethernet_phy eth0", "qos eth0"):
        assert same(found[name][0], live[name][0])


def test_what_was_not_asked_is_not_answered(tmp_path: Path) -> None:
    host = RecordedHost(recorded(tmp_path).archive)
    for ask in (host.interfaces.statistics_names, host.interfaces.fec, host.interfaces.dcb, host.interfaces.pause):
        with pytest.raises(Unsupported, match="not in the recording"):
            ask("eth0")
