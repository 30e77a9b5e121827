"""`fabricmon doctor`: of each collector what is read, what is missing, why, and what to do about it."""

from __future__ import annotations

import json
import math
import time
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabricmon import cli
from fabricmon.catalogue import remedies
from fabricmon.collect import COLLECTORS
from fabricmon.commands import doctor
from fabricmon.host.live import LiveHost
from fabricmon.model import Component, Kind, Part, Reading
from tests.collect.test_captured_machines import tree
from tests.host.trees import build_hca_tree
from tests.rigs.spoilt_files import spoil

PORT = "class/infiniband/mlx5_1/ports/1"


def examined(root: Path) -> dict[str, doctor.CollectorFinding]:
    return {one.collector: one for one in doctor.examine(LiveHost(str(root), str(root / "proc")), {})}


@pytest.mark.parametrize(("name", "read"), [
    ("ib-h100-ndr", {"infiniband": 9, "infiniband_errors": 9, "infiniband_rare": 9, "infiniband_state": 9}),
    ("ib-connectx3-dual-port", {"infiniband": 1, "infiniband_errors": 1, "infiniband_rare": 1, "infiniband_state": 1}),
    ("pci-aer", {}),
    ("sysfs-good.json", {"infiniband_state": 8}),
])  # fmt: skip
def test_a_captured_machine(name: str, read: dict[str, int], tmp_path: Path) -> None:
    found = examined(tree(name, tmp_path))
    assert list(found) == list(COLLECTORS)
    assert {n: one.devices for n, one in found.items() if n in read} == read
    assert {one.state for n, one in found.items() if n in read} <= {"read", "partly"}
    assert found["fabric"].state == "off"
    assert found["gpu"].state == found["nvlink"].state == "nothing"
    assert found["kernel_log"].missing[0].why == "not available"
    for one in found.values():
        assert one.state == "read" or all(each.why and each.do for each in one.missing)


def test_every_collector_and_error_has_an_answer() -> None:
    assert set(remedies.SOUGHT) == set(COLLECTORS)
    for words, do in remedies.REMEDIES:
        assert remedies.remedy(f"x {words}: y") == do, words
    assert remedies.remedy("something else") == remedies.ELSE


@pytest.mark.parametrize(("how", "do"), [("EIO", "does not answer"), ("EACCES", "as root")])
def test_what_cannot_be_read_is_told_with_its_remedy(how: str, do: str, tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    spoil(tmp_path / PORT / "state", how)
    found = examined(tmp_path)["infiniband_state"]
    assert (found.state, found.devices) == ("partly", 2)
    (missing,) = found.missing
    assert "mlx5_1/1" in missing.source
    assert do in missing.do
    text = "\n".join(doctor.report((found,)))
    assert "mlx5_1/1" in text
    assert do in text


def test_the_report_says_once_what_is_missing_and_counts_the_collectors(tmp_path: Path) -> None:
    lines = list(doctor.report(tuple(examined(tmp_path).values())))
    assert sum("without any counters" in line for line in lines) == 1
    states = [line.split()[0] for line in lines[:-1] if line[0] != " "]
    assert states == sorted(states, key=list(doctor.STATES).index)
    assert [line.split()[1] for line in lines if "counters of RDMA devices" in line] == [
        "infiniband", "infiniband_errors", "infiniband_rare"]  # fmt: skip
    n = len(COLLECTORS)
    assert lines[-1] == f"{n} collectors: 1 partly read, 1 read, {n - 3} with nothing to read, 1 off"


def test_a_device_that_reports_none_of_its_values_is_nothing_to_read() -> None:
    part = Part("ethernet_phy", Kind.PORT, ("fec_corrected", "fec_uncorrectable"), (Component("eth0"),))
    blank = Reading((part,), array("d", [math.nan] * 2), 0.0)
    kind = SimpleNamespace(
        config=COLLECTORS["ethernet_phy"].config,
        open=lambda *_: SimpleNamespace(watch=None, sessions=lambda: {"eth0": SimpleNamespace(read=lambda: blank)}),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fabricmon.collect.COLLECTORS", {"ethernet_phy": kind})
        (found,) = doctor.examine(SimpleNamespace(), {})
    assert (found.state, found.devices, found.unknown) == ("nothing", 1, 2)
    assert "none of 2 values of 1 device is reported" in "\n".join(doctor.report((found,)))


def test_a_collector_that_hangs_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_hca_tree(tmp_path, devices=1)
    hanging = SimpleNamespace(config=COLLECTORS["pcie"].config, open=lambda *_: time.sleep(60))
    monkeypatch.setattr("fabricmon.collect.COLLECTORS", {"pcie": hanging, "inventory": COLLECTORS["inventory"]})
    host: Any = LiveHost(str(tmp_path), str(tmp_path / "proc"))
    stuck, after = doctor.examine(host, {}, limit=0.3)
    assert (stuck.state, after.state) == ("failed", "read")
    assert "no answer within" in stuck.missing[0].why


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_hca_tree(tmp_path, devices=2)
    roots = ("--path.sysfs", str(tmp_path), "--path.procfs", str(tmp_path / "proc"))
    assert cli.main(["doctor", *roots]) == 1  # the kernel log is not that of a tree of files
    text = capsys.readouterr().out
    assert "read    infiniband " in text
    assert "why /dev/kmsg: not available" in text
    assert cli.main(["doctor", "--json", *roots]) == 1
    told = {one["collector"]: one for one in json.loads(capsys.readouterr().out)}
    assert (told["infiniband"]["state"], told["infiniband"]["devices"]) == ("read", 2)
    assert cli.main(["doctor", "--host", str(tmp_path / "none")]) == 2
