"""Files below roots, and numbers read again and again from open descriptors."""

from __future__ import annotations

import errno
import math
import os
from array import array
from pathlib import Path

import pytest

from fabricmon.host.bulk import Bulk, Descriptors
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError, Unsupported
from tests.host.trees import build_hca_tree, put


def bulk(root: Path, *names: str, limit: int = 100) -> Bulk:
    return Bulk([f"/sys/{n}" for n in names], [str(root / n) for n in names], Descriptors(limit))


def read(reader: Bulk, count: int) -> tuple[list[float], dict[int, HostError]]:
    out = array("d", [-7.0] * (count + 2))
    bad = dict(reader.read(out, 1))
    assert out[0] == out[-1] == -7.0  # nothing beside the place it was given
    return list(out[1:-1]), bad


@pytest.mark.parametrize(
    ("text", "value"),
    [("0\n", 0), ("15", 15), ("  42 \n", 42), ("18446744073709551614\n", 2**64 - 2), ("007\n", 7)],
)
def test_numbers(tmp_path: Path, text: str, value: int) -> None:
    put(tmp_path / "n", text)
    assert read(bulk(tmp_path, "n"), 1) == ([float(value)], {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("\n", "empty"),
        ("N/A (no PMA)\n", "N/A (no PMA)"),
        ("0x1f\n", "0x1f"),
        ("-1\n", "-1"),
        ("1_000\n", "1_000"),
        ("+5\n", "+5"),
        ("12.5\n", "12.5"),
        ("1 2\n", "1 2"),
        ("18446744073709551615\n", "all 64 bits"),
        ("18446744073709551616\n", "64 bits"),
        ("9" * 400, "64 bits"),
        ("\u0663\n", "not a decimal"),
        ("\x00\xff\n", "not a decimal"),
    ],
)
def test_a_bad_file_costs_its_own_value_and_says_why(tmp_path: Path, text: str, told: str) -> None:
    put(tmp_path / "good", "5\n")
    put(tmp_path / "bad", text)
    values, bad = read(bulk(tmp_path, "good", "bad", "good"), 3)
    assert (values[0], values[2]) == (5.0, 5.0)
    assert math.isnan(values[1])
    assert set(bad) == {1}
    assert bad[1].path == "/sys/bad"
    assert told in bad[1].text


def test_a_directory_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    put(tmp_path / "good", "5\n")
    values, bad = read(bulk(tmp_path, "d", "none", "good"), 3)
    assert values[2] == 5.0
    assert {i: e.errno for i, e in bad.items()} == {0: errno.EISDIR, 1: errno.ENOENT}


def test_values_are_fresh_and_a_file_that_came_back_is_opened_again(tmp_path: Path) -> None:
    put(tmp_path / "n", "1\n")
    reader = bulk(tmp_path, "n", "later")
    assert read(reader, 2)[0][0] == 1.0
    put(tmp_path / "n", "2\n")
    put(tmp_path / "later", "3\n")
    assert read(reader, 2) == ([2.0, 3.0], {})


def test_above_the_limit_of_descriptors_files_are_opened_for_each_read(tmp_path: Path) -> None:
    for n in range(6):
        put(tmp_path / str(n), f"{n}\n")
    limit = Descriptors(4)
    reader = Bulk([str(n) for n in range(6)], [str(tmp_path / str(n)) for n in range(6)], limit)
    before = len(os.listdir("/proc/self/fd"))
    assert read(reader, 6) == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], {})
    assert len(os.listdir("/proc/self/fd")) == before
    reader.close()
    assert limit.left == 4
    assert len(os.listdir("/proc/self/fd")) == before - 4


def test_roots(tmp_path: Path) -> None:
    build_hca_tree(tmp_path / "sys", devices=1)
    put(tmp_path / "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
    host = LiveHost(str(tmp_path / "sys"), str(tmp_path / "proc"))
    assert host.boot_id() == "11111111-2222-3333-4444-555555555555"
    assert host.list("/sys/class/infiniband") == ["mlx5_0"]
    assert host.realpath("/sys/class/infiniband/mlx5_0/device") == "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
    with pytest.raises(HostError) as caught:
        host.read("/sys/class/infiniband/mlx9_0/node_guid")
    assert (caught.value.errno, caught.value.path) == (errno.ENOENT, "/sys/class/infiniband/mlx9_0/node_guid")


def test_netlink_is_not_asked_about_a_tree_of_another_machine(tmp_path: Path) -> None:
    host = LiveHost(str(tmp_path))
    for ask in (host.links, host.rdma_devices, lambda: host.rdma_port(0, 1), lambda: host.watch_links(print)):
        with pytest.raises(Unsupported):
            ask()


def test_this_machine_tells_its_interfaces() -> None:
    host = LiveHost()
    try:
        links = {k.name: k for k in host.links()}
    finally:
        host.close()
    assert links["lo"].mtu == int(Path("/sys/class/net/lo/mtu").read_text())
    assert links["lo"].index == int(Path("/sys/class/net/lo/ifindex").read_text())
    assert sorted(links) == sorted(n for n in os.listdir("/sys/class/net") if n != "bonding_masters")
