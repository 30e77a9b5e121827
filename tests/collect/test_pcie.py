"""PCIe links from sysfs: both ends of each, the way up, and what the kernel counts of their errors."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.collect import COLLECTORS
from fabricmon.collect.machine import pci
from fabricmon.host.live import LiveHost
from fabricmon.host.recorded import RecordedHost
from fabricmon.host.recording import RecordingHost
from fabricmon.model import Reading
from tests.conftest import shared
from tests.host.trees import link, put

pcie = COLLECTORS["pcie"]

ROOT, UP = "0000:15:01.0", "0000:16:00.0"
DOWN_GPU, DOWN_NIC = "0000:17:01.0", "0000:17:02.0"
GPU, NIC = "0000:19:00.0", "0000:1a:00.0"
AER = "".join(f"{name} 0\n" for name in ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr"))


class Machine:
    """A tree of PCI functions below one sysfs root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.at: dict[str, Path] = {}
        (root / "bus/pci/devices").mkdir(parents=True)

    def add(self, path: str, kind: str, speed: str = "32.0", width: str = "16", **more: str) -> Path:
        """`path`: "0000:15:01.0/0000:16:00.0"; speed and width are "now" or "now of at most"."""
        address = path.rsplit("/", 1)[-1]
        at = self.root / "devices/pci0000:15" / path
        self.at[address] = at
        codes = {"nic": "0x020700", "gpu": "0x030200", "bridge": "0x060400", "switch": "0x068000", "bmc": "0x030000"}
        now, _, top = speed.partition(" of ")
        lanes, _, most = width.partition(" of ")
        files = {
            "class": codes[kind],
            "vendor": {"nic": "0x15b3", "bmc": "0x1a03"}.get(kind, "0x10de"),
            "numa_node": "0",
            "current_link_speed": f"{now} GT/s PCIe" if now != "Unknown" else "Unknown",
            "max_link_speed": f"{top or now} GT/s PCIe",
            "current_link_width": lanes,
            "max_link_width": most or lanes,
        } | more
        for name, text in files.items():
            put(at / name, f"{text}\n")
        (at / "driver").mkdir(exist_ok=True)
        if not (self.root / f"bus/pci/devices/{address}").is_symlink():
            link(self.root / f"bus/pci/devices/{address}", at)
        return at

    def errors(self, address: str, severity: str, **counts: int) -> None:
        end = {"correctable": "COR", "fatal": "FATAL", "nonfatal": "NONFATAL"}[severity]
        lines = {**counts, f"TOTAL_ERR_{end}": sum(counts.values())}
        put(self.at[address] / f"aer_dev_{severity}", "".join(f"{name} {n}\n" for name, n in lines.items()))

    def read(self) -> tuple[dict[tuple[str, str], float], Reading]:
        reading = pcie.open(self.host(), pcie.config()).sessions()[""].read()
        return cells(reading), reading

    def host(self) -> LiveHost:
        return LiveHost(str(self.root), str(self.root / "proc"))


def cells(reading: Reading) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    at = 0
    for part in reading.parts:
        for component in part.components:
            for column in part.columns:
                assert (component.name, column) not in found
                found[component.name, column] = reading.values[at]
                at += 1
    assert at == len(reading.values)
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A GPU and an adapter below one switch, whose port to the CPU has 16 lanes."""
    machine = Machine(tmp_path)
    machine.add(ROOT, "bridge")
    machine.add(f"{ROOT}/{UP}", "bridge")
    machine.add(f"{ROOT}/{UP}/{DOWN_GPU}", "bridge")
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}", "bridge")
    machine.add(f"{ROOT}/{UP}/{DOWN_GPU}/{GPU}", "gpu")
    nic = machine.add(f"{ROOT}/{UP}/{DOWN_NIC}/{NIC}", "nic")
    (nic / "infiniband/mlx5_0").mkdir(parents=True)
    return machine


def test_devices_and_the_bridges_above_them(machine: Machine) -> None:
    found, reading = machine.read()
    assert {name for name, _ in found} == {ROOT, UP, DOWN_GPU, DOWN_NIC, GPU, NIC}
    rows = {c.name: (c.labels, part.wire) for part in reading.parts for c in part.components}
    assert rows[NIC] == (
        {"device": NIC, "class": "nic", "owner": "mlx5_0", "rdma": "mlx5_0", "path": f"{ROOT} {UP} {DOWN_NIC}",
         "numa": "0", "nearest": "gpu0", "relation": "PIX"}, True,
    )  # fmt: skip
    assert (rows[GPU][0]["nearest"], rows[GPU][0]["owner"]) == ("mlx5_0", "gpu0")
    assert rows[UP][0]["class"] == "bridge"
    assert rows[UP][1] is False
    assert found[NIC, "pcie_speed"] == found[NIC, "pcie_max_speed"] == 32e9
    assert found[NIC, "pcie_width"] == found[NIC, "pcie_max_width"] == 16
    assert found[NIC, "pcie_path_width"] == found[NIC, "pcie_path_speed"] == found[GPU, "pcie_path_width"] == 1
    assert math.isnan(found[GPU, "pcie_path_speed"])  # it lowers its speed to save power
    assert reading.faults == ()
    assert all(CATALOGUE[c].wire or not part.wire for part in reading.parts for c in part.columns)


def test_an_adapter_that_trained_narrow_is_seen_at_both_ends(machine: Machine) -> None:
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}", "bridge", width="4 of 16")
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}/{NIC}", "nic", width="4 of 16")
    found, _ = machine.read()
    assert found[NIC, "pcie_width"] == found[DOWN_NIC, "pcie_width"] == 4
    assert found[NIC, "pcie_path_width"] == 0.25
    assert found[GPU, "pcie_path_width"] == 1


def test_a_narrow_port_of_the_switch_slows_everything_below_it(machine: Machine) -> None:
    machine.add(ROOT, "bridge", width="8 of 16", speed="16.0 of 32.0")
    machine.add(f"{ROOT}/{UP}", "bridge", width="8 of 16", speed="16.0 of 32.0")
    found, _ = machine.read()
    for device in (NIC, GPU):
        assert found[device, "pcie_width"] == 16
        assert found[device, "pcie_path_width"] == 0.5
    assert found[NIC, "pcie_path_speed"] == 0.5


def test_a_wide_card_in_a_narrow_slot_is_no_fault(machine: Machine) -> None:
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}", "bridge", width="8", speed="16.0")
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}/{NIC}", "nic", width="8 of 16", speed="16.0 of 32.0")
    found, _ = machine.read()
    assert found[NIC, "pcie_max_width"] == 16
    assert found[NIC, "pcie_path_width"] == found[NIC, "pcie_path_speed"] == 1


def test_a_device_without_a_bridge_is_not_compared(machine: Machine) -> None:
    machine.add("0000:16:1e.0", "gpu", width="8 of 16")
    found, _ = machine.read()
    assert found["0000:16:1e.0", "pcie_width"] == 8
    assert math.isnan(found["0000:16:1e.0", "pcie_path_width"])


@pytest.mark.parametrize(("speed", "width"), [("Unknown", "63"), ("Unknown", "255"), ("Unknown", "0")])
def test_a_device_that_does_not_answer_has_no_speed_and_no_width(speed: str, width: str, machine: Machine) -> None:
    machine.add(f"{ROOT}/{UP}/{DOWN_NIC}/{NIC}", "nic", speed=f"{speed} of 32.0", width=f"{width} of 16")
    found, reading = machine.read()
    assert math.isnan(found[NIC, "pcie_speed"])
    assert math.isnan(found[NIC, "pcie_width"])
    assert reading.faults == ()


def test_a_file_that_makes_no_sense_costs_itself_only(machine: Machine) -> None:
    put(machine.at[NIC] / "current_link_width", "wide\n")
    found, reading = machine.read()
    assert math.isnan(found[NIC, "pcie_width"])
    assert found[NIC, "pcie_speed"] == 32e9
    assert [(f.component, f.source.rsplit("/", 1)[1]) for f in reading.faults] == [(NIC, "current_link_width")]
    assert "wide" in reading.faults[0].error


def test_what_is_not_read(machine: Machine) -> None:
    machine.add("0000:16:02.0", "bmc")
    virtual = machine.add("0000:16:03.0", "nic")
    link(virtual / "physfn", machine.at[NIC])
    nvswitch = machine.add("0000:16:04.0", "switch")
    assert nvswitch.is_dir()
    found, reading = machine.read()
    assert {name for name, _ in found} & {"0000:16:02.0", "0000:16:03.0", "0000:16:04.0"} == {"0000:16:04.0"}
    assert {c.labels["class"] for p in reading.parts for c in p.components if c.name == "0000:16:04.0"} == {"nvswitch"}


def test_errors_by_severity_and_by_sort(machine: Machine) -> None:
    machine.errors(DOWN_NIC, "correctable", RxErr=3, BadTLP=4, BadDLLP=0, Rollover=1, Timeout=0, NonFatalErr=0)
    machine.errors(NIC, "correctable", RxErr=0, BadTLP=2)
    machine.errors(NIC, "fatal", DLP=0, TLP=0)
    machine.errors(NIC, "nonfatal", CmpltTO=0, UnsupReq=0)
    host = machine.host()
    session = pcie.open(host, pcie.config()).sessions()[""]
    found = cells(session.read())
    assert found[DOWN_NIC, "pcie_aer_correctable_errors"] == 8
    assert found[DOWN_NIC, "pcie_aer_correctable_BadTLP"] == 4
    assert found[NIC, "pcie_aer_correctable_errors"] == 2
    assert found[NIC, "pcie_aer_fatal_errors"] == found[NIC, "pcie_aer_nonfatal_errors"] == 0
    assert math.isnan(found[GPU, "pcie_aer_correctable_errors"])
    assert (NIC, "pcie_aer_nonfatal_CmpltTO") not in found
    machine.errors(NIC, "nonfatal", CmpltTO=5, UnsupReq=1)
    found = cells(session.read())
    assert found[NIC, "pcie_aer_nonfatal_errors"] == 6
    assert found[NIC, "pcie_aer_nonfatal_CmpltTO"] == 5
    assert found[NIC, "pcie_aer_fatal_DLP"] == 0
    assert math.isnan(found[NIC, "pcie_aer_nonfatal_PCRC_CHECK"])
    parts = session.read().parts
    assert session.read().parts is parts


def test_errors_of_the_bridges_above_are_the_devices_too(machine: Machine) -> None:
    machine.errors(DOWN_NIC, "nonfatal", CmpltTO=2)
    machine.errors(UP, "fatal", DLP=1)
    machine.errors(ROOT, "correctable", RxErr=7)
    machine.errors(NIC, "nonfatal", CmpltTO=50)
    found, _ = machine.read()
    assert found[NIC, "pcie_above_uncorrected_errors"] == 3.0
    assert found[GPU, "pcie_above_uncorrected_errors"] == 1.0
    assert found[NIC, "pcie_above_corrected_errors"] == found[GPU, "pcie_above_corrected_errors"] == 7.0
    put(machine.at[UP] / "aer_dev_fatal", "nonsense\n")
    found, _ = machine.read()
    assert math.isnan(found[NIC, "pcie_above_uncorrected_errors"]), "one that cannot be read is not zero"


def test_a_recording_answers_as_the_machine_did(machine: Machine) -> None:
    machine.errors(NIC, "correctable", RxErr=3)
    recording = RecordingHost(machine.host())
    before = pcie.open(recording, pcie.config()).sessions()[""].read()
    after = pcie.open(RecordedHost(recording.archive), pcie.config()).sessions()[""].read()
    assert after.parts == before.parts
    assert str(after.values) == str(before.values)


def test_no_pci_bus_is_quiet(tmp_path: Path) -> None:
    reading = pcie.open(LiveHost(str(tmp_path)), pcie.config()).sessions()[""].read()
    assert (reading.parts, len(reading.values), reading.faults) == ((), 0, ())


# --- the files


def functions(root: Path) -> Iterator[Path]:
    for folder, _, files in os.walk(root / "devices"):
        if "current_link_speed" in files:
            yield Path(folder)


def test_every_file_of_a_captured_machine(require: Callable[..., str], tmp_path: Path) -> None:
    """Each PCI function of the capture, laid under a bus directory as the kernel has it; every number compared."""
    require("captures")
    root = shared() / "captures/pci-aer/sys"
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    (tmp_path / "devices").symlink_to(root / "devices")
    for at in functions(root):
        (tmp_path / "bus/pci/devices" / at.name).symlink_to(tmp_path / at.relative_to(root))
    found = cells(pcie.open(LiveHost(str(tmp_path)), pcie.config()).sessions()[""].read())
    compared = 0
    for at in functions(root):
        if not (at / "class").read_text().startswith("0x02"):
            continue
        for column, file in (("speed", "current_link_speed"), ("max_speed", "max_link_speed")):
            assert found[at.name, f"pcie_{column}"] == float((at / file).read_text().split()[0]) * 1e9
        for column, file in (("width", "current_link_width"), ("max_width", "max_link_width")):
            assert found[at.name, f"pcie_{column}"] == float((at / file).read_text())
        for severity in ("correctable", "fatal", "nonfatal"):
            for name, count in pci.errors((at / f"aer_dev_{severity}").read_text()):
                total = name.startswith("TOTAL")
                column = f"pcie_aer_{severity}_errors" if total else f"pcie_aer_{severity}_{name}"
                assert column in CATALOGUE
                if total or severity == "correctable":
                    assert found[at.name, column] == count
                compared += 1
    assert compared == 9 + 19 + 19


@pytest.mark.parametrize(
    ("text", "value"),
    [("2.5 GT/s PCIe", 2.5e9), ("8 GT/s", 8e9), ("64.0 GT/s PCIe\n", 64e9), ("Unknown", math.nan),
     ("Unknown speed", math.nan)],
)
def test_speeds(text: str, value: float) -> None:
    assert str(pci.speed(text)) == str(value)


@pytest.mark.parametrize("text", ["", "fast", "GT/s", "-1 GT/s", "32.0 GT/s PCIe x16"])
def test_what_is_no_speed(text: str) -> None:
    with pytest.raises(ValueError, match=r"32\.0 GT/s"):
        pci.speed(text)


@pytest.mark.parametrize("text", ["", "x16", "-1", "1.5", "9999"])
def test_what_is_no_width(text: str) -> None:
    with pytest.raises(ValueError, match="lanes"):
        pci.width(text)


NAMES = st.from_regex(r"[A-Za-z_\[\]0-9]+( [A-Za-z_\[\]0-9]+){0,2}", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 2**64 - 1)))
def test_error_lines_come_back(counts: dict[str, int]) -> None:
    """Names may have spaces: those of older kernels do."""
    assert dict(pci.errors("".join(f"{name} {count}\n" for name, count in counts.items()))) == counts


@given(st.text(max_size=200))
def test_any_text_is_error_lines_or_refused_as_such(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(name and count >= 0 for name, count in pci.errors(text))


@pytest.mark.parametrize(("kind", "unbound"), [("nic", True), ("gpu", True), ("switch", True), ("ethernet", False)])
def test_a_device_that_no_driver_serves_is_told(kind: str, unbound: bool, tmp_path: Path) -> None:
    """An Ethernet adapter may be left alone on purpose."""
    ethernet = {"class": "0x020000"} if kind == "ethernet" else {}
    alone = Machine(tmp_path)
    device = alone.add("0000:15:01.0/0000:16:00.0", "nic" if ethernet else kind, **ethernet)
    (device / "driver").rmdir()
    _, reading = alone.read()
    told = {c.name: c.labels.get("driver", "") for part in reading.parts for c in part.components}
    assert told["0000:16:00.0"] == ("none" if unbound else "")
    (device / "driver").mkdir()
    _, reading = alone.read()
    assert not any("driver" in c.labels for part in reading.parts for c in part.components)
