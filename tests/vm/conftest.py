"""The test machine is started when the run begins, beside all other tests: it is slow, and most tests only wait.

Its tests come last (tests/conftest.py) and wait for its end. It runs at the lowest priority, on whatever the others
leave.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RIG = ROOT / "tests" / "rigs" / "rdma_vm"
LIMIT = 600  # seconds, boot included; alone it takes three minutes without KVM
SCRIPTS = ("tests/vm/inside_vm.py", "tests/vm/inside_vm_ethernet.py")

_STARTED = pytest.StashKey["tuple[subprocess.Popen[bytes], Path]"]()


def _built() -> bool:
    cache = Path(os.environ.get("FABRICMON_VM_CACHE") or Path.home() / ".cache" / "fabricmon" / "rdma-vm")
    return (cache / "site.squashfs").exists() and shutil.which("qemu-system-x86_64") is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("vm") for item in session.items)
    if wanted and _built() and not session.config.option.collectonly:
        out = Path(tempfile.mkdtemp(prefix="fabricmon-vm-"))
        command = [sys.executable, RIG / "run", "--project", ROOT, "--out", out, "--timeout", str(LIMIT), "--times"]
        with (out / "run.log").open("wb") as log:
            process = subprocess.Popen(
                ["nice", "-n", "19", *command, "--", " && ".join(f"python3 {script}" for script in SCRIPTS)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        session.config.stash[_STARTED] = (process, out)


def pytest_unconfigure(config: pytest.Config) -> None:
    started = config.stash.get(_STARTED, None)
    if started is not None:
        process, out = started
        if process.poll() is None:
            process.terminate()  # tests before it ended the run
            process.wait(30)
        shutil.rmtree(out, ignore_errors=True)


@pytest.fixture(scope="session")
def vm(require: Callable[..., str], request: pytest.FixtureRequest) -> Path:
    """Folder of what the virtual machine reported."""
    require("qemu-system-x86_64", "boots the test machine")
    if not _built():
        require("the test VM", "its build failed or was left out, see tests/setup-peers")
    process, out = request.config.stash[_STARTED]
    code = process.wait(LIMIT + 30)
    told = (out / "run.log").read_text(errors="replace")
    print(told)
    logs = "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in out.glob("agent-*.log"))
    assert code == 0, f"{told}\n{logs}"
    return out
