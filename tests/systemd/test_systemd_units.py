"""The unit files are what systemd itself accepts, and as closed as they claim."""

import subprocess
import sys
from pathlib import Path

import pytest

from fabricmon.systemd.units import DROP_INS as INSTALLED_DROP_INS
from fabricmon.systemd.units import PACKAGED

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
DROP_INS = sorted(DEPLOY.glob("fabricmon-agent.*.conf"))
UNITS = sorted(DEPLOY.glob("*.service"))


def installed(unit: Path, tmp_path: Path) -> Path:
    """The unit with a program that exists here in place of the installed one: systemd looks at that too."""
    copy = tmp_path / unit.name
    program = Path(sys.executable).with_name("fabricmon")
    copy.write_text(unit.read_text().replace(PACKAGED, str(program)))
    return copy


def test_there_is_a_unit_for_each_daemon():
    assert [unit.name for unit in UNITS] == ["fabricmon-agent.service", "fabricmon-central.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_has_nothing_to_say_about_the_unit(unit, tmp_path, require):
    tool = require("systemd-analyze")
    # it names unknown keys on stderr and still exits 0: no output is the check
    run = subprocess.run([tool, "verify", installed(unit, tmp_path)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_exposure_is_below_two_of_ten(unit, tmp_path, require):
    tool = require("systemd-analyze")
    command = [tool, "security", "--offline=true", "--threshold=20", "--no-pager", installed(unit, tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    print(run.stdout.strip().splitlines()[-1])
    assert run.returncode == 0, run.stdout


def service(path: Path) -> dict[str, list[str]]:
    """The keys of [Service], each with all its values."""
    keys: dict[str, list[str]] = {}
    for line in path.read_text().split("[Service]")[1].split("[Install]")[0].splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            keys.setdefault(key, []).append(value)
    return keys


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_flags_in_the_unit_exist(unit):
    keys = service(unit)
    start, check = keys["ExecStart"][0].split(), keys["ExecReload"][0].split()
    assert (start[:2], check[:2]) == ([PACKAGED, start[1]], [PACKAGED, start[1]])
    usage = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", start[1], "--help"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert [word for word in start + check if word.startswith("--") and word not in usage] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_unit_gives_nothing_away(unit):
    keys = service(unit)
    assert keys["CapabilityBoundingSet"] == keys["AmbientCapabilities"] == [""]
    assert keys["User"] == [unit.stem]
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "MemoryDenyWriteExecute", "RemoveIPC"):
        assert keys[key] == ["yes"], key


def with_drop_in(drop_in: Path, tmp_path: Path) -> Path:
    """The agent's unit with the drop-in in effect: systemd takes the last word of each key."""
    unit = installed(DEPLOY / "fabricmon-agent.service", tmp_path)
    folder = tmp_path / f"{unit.name}.d"
    folder.mkdir()
    (folder / drop_in.name.split(".", 1)[1]).write_text(drop_in.read_text())
    return unit


def test_every_drop_in_can_be_installed():
    assert [path.name for path in DROP_INS] == sorted(file.source for file in INSTALLED_DROP_INS.values())


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.name.split(".")[1])
def test_systemd_has_nothing_to_say_about_the_drop_in(drop_in, tmp_path, require):
    tool = require("systemd-analyze")
    unit = with_drop_in(drop_in, tmp_path)
    run = subprocess.run([tool, "verify", unit], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_the_drop_ins_open_one_device_each_and_no_more():
    assert service(DEPLOY / "fabricmon-agent.kernel-log.conf") == {
        "CapabilityBoundingSet": ["CAP_SYSLOG"],
        "AmbientCapabilities": ["CAP_SYSLOG"],
        "SystemCallFilter": ["~syslog"],
        "ProtectKernelLogs": ["no"],
        "DeviceAllow": ["/dev/kmsg r"],
    }
    assert service(DEPLOY / "fabricmon-agent.umad.conf") == {
        "SupplementaryGroups": ["rdma"],
        "DeviceAllow": ["char-infiniband_mad rw"],
    }
