"""The folder in which one run of the tests keeps its test machine: made once, shared by all processes of the run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

OUT, CODE, PID = "out", "code", "pid"
"""In the folder: what the machine reported; its exit code, once it ended; the process that builds and boots it."""
_NAME = "FABRICMON_VM_RUN"
PATIENCE = 10.0  # seconds for it to end when it is told to


def begin() -> None:
    """In the process that begins the run; those that it starts (pytest-xdist) inherit the name."""
    os.environ[_NAME] = tempfile.mkdtemp(prefix="fabricmon-vm-")


def run_folder() -> Path:
    return Path(os.environ[_NAME])


def end() -> None:
    """In the process that began the run: end the machine if it still runs, take the folder away."""
    folder = run_folder()
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / PID).read_text())
        until = time.monotonic() + PATIENCE
        while not (folder / CODE).exists() and time.monotonic() < until:
            os.killpg(pid, signal.SIGTERM)
            time.sleep(0.2)
            with contextlib.suppress(ChildProcessError):  # another process may have begun it
                os.waitpid(pid, os.WNOHANG)
    shutil.rmtree(folder, ignore_errors=True)
