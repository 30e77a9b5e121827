"""The unit files are what systemd itself accepts, and as closed as they claim."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNITS = sorted(DEPLOY.glob("*.service"))


def installed(unit: Path, tmp_path: Path) -> Path:
    """The unit with a program that exists here in place of the installed one: systemd looks at that too."""
    copy = tmp_path / unit.name
    program = Path(sys.executable).with_name("fabricmon")
    copy.write_text(unit.read_text().replace("/opt/fabricmon/bin/fabricmon", str(program)))
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


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_daemon_flags_in_the_unit_exist(unit):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str
    parser.read(unit)
    words = parser["Service"]["ExecStart"].split()
    verb = words[1]
    usage = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", verb, "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert [word for word in words[2:] if word.startswith("--") and word not in usage] == []


def with_drop_in(tmp_path: Path) -> Path:
    """The agent's unit with the drop-in for the kernel log in effect: systemd takes the last word of each key."""
    unit = installed(DEPLOY / "fabricmon-agent.service", tmp_path)
    folder = tmp_path / f"{unit.name}.d"
    folder.mkdir()
    (folder / "kernel-log.conf").write_text((DEPLOY / "fabricmon-agent.kernel-log.conf").read_text())
    return unit


def test_systemd_has_nothing_to_say_about_the_drop_in_for_the_kernel_log(tmp_path, require):
    tool = require("systemd-analyze")
    run = subprocess.run([tool, "verify", with_drop_in(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_the_drop_in_for_the_kernel_log_opens_one_device_and_no_more():
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters="=")
    parser.optionxform = str
    parser.read(DEPLOY / "fabricmon-agent.kernel-log.conf")
    assert dict(parser["Service"]) == {
        "CapabilityBoundingSet": "CAP_SYSLOG",
        "AmbientCapabilities": "CAP_SYSLOG",
        "SystemCallFilter": "~syslog",
        "ProtectKernelLogs": "no",
        "DeviceAllow": "/dev/kmsg r",
    }
