"""tests/setup-peers says what it leaves out and why, and never stops the tests that can run."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_missing_programs_are_named_with_the_reason(tmp_path):
    for tool in ("bash", "dirname", "sort", "id"):
        os.symlink(shutil.which(tool), tmp_path / tool)
    run = subprocess.run(
        [ROOT / "tests" / "setup-peers"],
        env={"PATH": str(tmp_path), "FABRICMON_NO_INSTALL": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0
    assert "left out prometheus: FABRICMON_NO_INSTALL is set" in run.stdout
    assert "left out qemu-system-x86: FABRICMON_NO_INSTALL is set; tests that need it skip" in run.stdout


def test_every_package_it_installs_is_one_that_tests_may_ask_for():
    text = (ROOT / "tests" / "setup-peers").read_text()
    wanted = dict(line.split() for line in text.split('wanted="\n')[1].split('"')[0].splitlines())
    known = (ROOT / "tests" / "conftest.py").read_text()
    assert [program for program, package in wanted.items() if f'"{program}": "{package}"' not in known] == []
