"""The test machine is built and started when the run begins, beside all other tests: it is slow, most tests only wait.

Its tests come last (tests/conftest.py) and wait for its end. It runs at the lowest priority, on whatever the others
leave. It is built once from Debian packages and then kept; an unchanged recipe costs half a second.
FABRICMON_NO_INSTALL=1 builds nothing: a machine that was built before is used.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RIG = ROOT / "tests" / "rigs" / "rdma_vm"
LIMIT = 600  # seconds, boot included; alone it takes three minutes without KVM
BUILD_LIMIT = 900  # seconds; takes two to four minutes
BUILDS_WITH = ("mmdebstrap", "mksquashfs", "cpio", "unshare")
SCRIPTS = ("tests/vm/inside_vm.py", "tests/vm/inside_vm_ethernet.py")

_STARTED = pytest.StashKey["tuple[subprocess.Popen[bytes], Path]"]()


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


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("vm") for item in session.items)
    if wanted and not _missing() and not session.config.option.collectonly:
        out = Path(tempfile.mkdtemp(prefix="fabricmon-vm-"))
        build = ["timeout", BUILD_LIMIT, RIG / "build", "-r", ROOT / "requirements.lock"]
        run = [sys.executable, RIG / "run", "--project", ROOT, "--out", out, "--timeout", LIMIT, "--times"]
        run += ["--", " && ".join(f"python3 {script}" for script in SCRIPTS)]
        steps = [run] if os.environ.get("FABRICMON_NO_INSTALL") else [build, run]
        with (out / "run.log").open("wb") as log:
            process = subprocess.Popen(
                ["nice", "-n", "19", "bash", "-c", " && ".join(shlex.join(map(str, step)) for step in steps)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # not the virtual environment's pip by chance: the very one that installs for the host
                env={**os.environ, "FABRICMON_VM_PYTHON": sys.executable},
                start_new_session=True,
            )
        session.config.stash[_STARTED] = (process, out)


def pytest_unconfigure(config: pytest.Config) -> None:
    started = config.stash.get(_STARTED, None)
    if started is not None:
        process, out = started
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # tests before it ended the run
            process.wait(30)
        shutil.rmtree(out, ignore_errors=True)


@pytest.fixture(scope="session")
def vm(require: Callable[..., str], request: pytest.FixtureRequest) -> Path:
    """Folder of what the virtual machine reported."""
    if missing := _missing():
        require(missing.split()[0] if "(" not in missing else missing, "builds and boots the test machine")
    process, out = request.config.stash[_STARTED]
    code = process.wait(BUILD_LIMIT + LIMIT + 30)
    told = (out / "run.log").read_text(errors="replace")
    print(told)
    logs = "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in out.glob("agent-*.log"))
    assert code == 0, f"{told}\n{logs}"
    return out
