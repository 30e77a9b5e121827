"""The test machine is built and started when the run begins, beside all other tests: it is slow, most tests only wait.

Its tests come last (tests/conftest.py) and wait for its end. It runs at the priority of the others: at a lower one
a busy host starves it, and what its agents read comes too late. It is built once from Debian packages and then kept;
an unchanged recipe costs half a second.
FABRICMON_NO_INSTALL=1 builds nothing: a machine that was built before is used.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CALLERS_NO_PROXY
from tests.rigs.vm_run import CODE, OUT, PID, run_folder

ROOT = Path(__file__).resolve().parents[2]
RIG = ROOT / "tests" / "rigs" / "rdma_vm"
LIMIT = 1500  # seconds, boot included; alone it takes eight minutes without KVM, beside busy tests many times that
BUILD_LIMIT = 900  # seconds; takes two to four minutes
PATIENCE = BUILD_LIMIT + LIMIT + 30  # seconds a test waits for the machine's end
BUILDS_WITH = ("mmdebstrap", "mksquashfs", "cpio", "unshare")
SCRIPTS = ("tests/vm/inside_vm.py", "tests/vm/inside_vm_ethernet.py", "tests/vm/inside_vm_probes.py")


def _cache() -> Path:
    if cache := os.environ.get("FABRICMON_VM_CACHE"):
        return Path(cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabricmon" / "rdma-vm"


def _missing() -> str:
    """Why there can be no test machine here, "" where there can."""
    if shutil.which("qemu-system-x86_64") is None:
        return "qemu-system-x86_64"
    if os.environ.get("FABRICMON_NO_INSTALL"):
        return "" if (_cache() / "site.squashfs").exists() else "the test VM (FABRICMON_NO_INSTALL is set)"
    return " ".join(program for program in BUILDS_WITH if shutil.which(program) is None)


def _environ() -> dict[str, str]:
    """It fetches packages: by the caller's proxy, and by the very pip that installs for the host."""
    direct = os.environ[CALLERS_NO_PROXY]
    return {**os.environ, "no_proxy": direct, "NO_PROXY": direct, "FABRICMON_VM_PYTHON": sys.executable}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever of these tests comes first waits for the machine: all have the time that it may take."""
    for item in items:
        if item.get_closest_marker("vm"):
            item.add_marker(pytest.mark.timeout(PATIENCE + 30))


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("vm") for item in session.items)
    if not wanted or _missing() or session.config.option.collectonly:
        return
    try:
        (run_folder() / OUT).mkdir()
    except FileExistsError:
        return  # the other process of this run (pytest-xdist) has started it
    out = run_folder() / OUT
    locks = (ROOT / "requirements.lock", RIG / "verbs.lock")
    build = ["timeout", BUILD_LIMIT, RIG / "build", *(word for lock in locks for word in ("-r", lock))]
    run = [sys.executable, RIG / "run", "--project", ROOT, "--out", out, "--timeout", LIMIT, "--times"]
    run += ["--", " && ".join(f"python3 {script}" for script in SCRIPTS)]
    steps = [run] if os.environ.get("FABRICMON_NO_INSTALL") else [build, run]
    line = " && ".join(shlex.join(map(str, step)) for step in steps)
    with (run_folder() / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"{line}; echo $? > {shlex.quote(str(run_folder() / CODE))}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environ(),
            start_new_session=True,
        )
    (run_folder() / PID).write_text(str(process.pid))


@pytest.fixture(scope="session")
def vm(require: Callable[..., str]) -> Path:
    """Folder of what the virtual machine reported."""
    if missing := _missing():
        require(missing.split()[0] if "(" not in missing else missing, "builds and boots the test machine")
    code, end = run_folder() / CODE, time.monotonic() + PATIENCE
    while not (code.exists() and code.read_text().endswith("\n")) and time.monotonic() < end:
        time.sleep(0.2)
    out = run_folder() / OUT
    told = (run_folder() / "log").read_text(errors="replace")
    print(told)
    logs = "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in out.glob("agent-*.log"))
    ended = code.read_text().strip() if code.exists() else "never"
    assert ended == "0", f"{told}\n{logs}"
    return out
