"""A machine recorded and read back says the same; a bad archive says why; an anonymised one keeps every counter."""

from __future__ import annotations

import errno
import gzip
import json
import math
from pathlib import Path

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.commands.capture import record
from fabricmon.host import archive_file
from fabricmon.host.archive import Archive, ArchiveError
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import Host, HostError, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.recorded import RecordedHost
from fabricmon.host.recording import RecordingHost
from tests.host.trees import build_hca_tree, put

CONFIGS = {name: module.config() for name, module in COLLECTORS.items()}
Cells = dict[tuple[str, str, str], float]


class Machine(LiveHost):
    """A tree with a kernel that answers RDMA netlink for its first device."""

    def rdma_devices(self) -> list[RdmaDevice]:
        return [RdmaDevice(3, "mlx5_0", 1, "28.41.1000", "0200:0000:0000:0000", "ib")]

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        return RdmaPort(4, 5, 16, 1, "ib0")

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        return {"np_cnp_sent": 2**63, "rp_cnp_handled": 9}

    def links(self) -> list[Link]:
        return [Link(10, "ib0", "up", True, 1, 2, 1, 2044, None, "", "80:00:02:ab:fe:80", "0000:11:00.0", "", {})]


def everything(host: Host) -> Cells:
    """{(collector, row, column): value} of all collectors."""
    found: Cells = {}
    for name, module in COLLECTORS.items():
        if not CONFIGS[name].enabled:
            continue
        for session in module.open(host, CONFIGS[name]).sessions().values():
            reading = session.read()
            at = 0
            for part in reading.parts:
                for component in part.components:
                    for column in part.columns:
                        found[name, component.name, column] = reading.values[at]
                        at += 1
    return found


def same(one: Cells, other: Cells) -> bool:
    return one.keys() == other.keys() and all(
        v == other[k] or (math.isnan(v) and math.isnan(other[k])) for k, v in one.items()
    )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    root = tmp_path / "sys"
    build_hca_tree(root, devices=2)
    put(root / "class/infiniband/mlx5_1/ports/1/counters/symbol_error", "N/A (no PMA)")
    put(tmp_path / "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
    put(tmp_path / "proc/net/route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "ib1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n")  # fmt: skip
    return Machine(str(root), str(tmp_path / "proc"), "host-007")


def recorded(machine: Machine) -> Archive:
    recording = RecordingHost(machine)
    counts = record(recording, CONFIGS)
    assert counts.faults == 1
    return recording.archive


def test_a_recorded_machine_says_the_same(machine: Machine, tmp_path: Path) -> None:
    path = str(tmp_path / "host.gz")
    archive_file.save(recorded(machine), path)
    again = RecordedHost(path)
    assert same(everything(machine), everything(again))
    assert (again.name, again.boot_id()) == ("host-007", "11111111-2222-3333-4444-555555555555")
    labels = COLLECTORS["infiniband"].open(again, CONFIGS["infiniband"]).sessions()["mlx5_1"].read().parts[0].components
    assert labels[0].labels["role"] == "management"


def test_errors_are_recorded_too(machine: Machine) -> None:
    again = RecordedHost(recorded(machine))
    session = COLLECTORS["infiniband"].open(again, CONFIGS["infiniband"]).sessions()["mlx5_1"]
    (fault,) = session.read().faults
    assert "no PMA" in fault.error
    with pytest.raises(HostError) as caught:
        again.read("/sys/never/asked")
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(Unsupported):
        again.watch_links(print)
    with pytest.raises(Unsupported):
        RecordedHost(Archive("fabricmon-host", 1, "", "x", 0.0, 0.0)).links()


def test_the_clock_of_a_recording_goes_on(machine: Machine) -> None:
    again = RecordedHost(Archive("fabricmon-host", 1, "", "x", 0.0, 1000.0))
    first = again.monotonic()
    assert first >= 1000.0
    assert again.monotonic() >= first


def test_anonymised_keeps_counters_and_what_belongs_together(machine: Machine, tmp_path: Path) -> None:
    plain = recorded(machine)
    path = str(tmp_path / "host.gz")
    archive_file.save(archive_file.anonymised(plain), path)
    text = gzip.decompress(Path(path).read_bytes()).decode()
    secrets = ("host-007", "0200:0000:0000:000", "80:00:02:ab", "11111111-2222", "0101A8C0", machine.machine_id())
    for secret in filter(None, secrets):
        assert secret not in text, secret
    again = RecordedHost(path)
    assert same(everything(machine), everything(again))
    before = RecordedHost(plain).read("/sys/class/infiniband/mlx5_1/node_guid").strip()
    labels = COLLECTORS["infiniband"].open(again, CONFIGS["infiniband"]).sessions()["mlx5_1"].read().parts[0].components
    found = labels[0].labels
    assert found["node_guid"] == found["port_guid"] == found["sys_image_guid"] != before.decode()
    assert len(found["node_guid"]) == 19
    assert again.rdma_devices()[0].node_guid != "0200:0000:0000:0000"
    assert archive_file.anonymised(plain, b"k") == archive_file.anonymised(plain, b"k")
    assert archive_file.anonymised(plain) != archive_file.anonymised(plain)


def test_bad_archives_say_what_is_wrong(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "host.gz"

    def error(data: bytes, most: int = 1 << 20) -> str:
        path.write_bytes(data)
        with pytest.raises(ArchiveError) as caught:
            archive_file.load(str(path), most)
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "gzip" in error(b"not gzip at all")
    assert "more than" in error(gzip.compress(b" " * 5000), 4999)
    assert "not a recorded machine" in error(gzip.compress(b"{}"))
    assert "version 99" in error(gzip.compress(json.dumps({"format": "fabricmon-host", "version": 99}).encode()))
    assert "name" in error(gzip.compress(b'{"format":"fabricmon-host","version":1,"fabricmon":"0"}'))
    archive_file.save(recorded(machine), str(path))
    whole = path.read_bytes()
    for cut in (1, 20, len(whole) // 2, len(whole) - 1):
        error(whole[:cut])
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0x55
    error(bytes(damaged))
    with pytest.raises(FileNotFoundError):
        archive_file.load(str(tmp_path / "none"))


def test_a_save_that_fails_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        archive_file.save(recorded(machine), str(tmp_path / "no/such/host.gz"))
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match=r"directory|exists"):
        archive_file.save(recorded(machine), str(tmp_path / "taken"))
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
