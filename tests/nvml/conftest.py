"""The stand-in for libnvidia-ml: built once, loaded once, told by a file what to play.

The dynamic loader finds a library that is loaded already by its soname, so the bindings get the stand-in. It stays
loaded for the rest of the process; outside these tests it says that no driver is loaded.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")


class Plan:
    """What the stand-in plays from now on. `say` adds lines, `only` begins anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.only()

    def only(self, *lines: str) -> None:
        self.lines = list(lines)
        self._write()

    def say(self, *lines: str) -> None:
        self.lines += lines
        self._write()

    def _write(self) -> None:
        beside = self.path.with_suffix(".part")
        beside.write_text("".join(f"{line}\n" for line in self.lines))
        beside.replace(self.path)


@pytest.fixture(scope="session")
def library(require: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, as a file named as the real one is."""
    built = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    gcc = require("gcc", "builds the stand-in for libnvidia-ml")
    subprocess.run(
        [gcc, "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1",
         "-o", built, SOURCE],
        check=True, timeout=100,
    )  # fmt: skip
    return built


@pytest.fixture(scope="session")
def loaded(library: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture
def plan(loaded: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    path = tmp_path / "plan"
    monkeypatch.setenv("FAKE_NVML", str(path))
    return Plan(path)
