"""Helm as tests/setup-peers leaves it: on the PATH, or in .cache/helm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "helm" / "helm"


def program() -> str | None:
    """The real helm; None where there is none."""
    return shutil.which("helm") or (str(KEPT) if KEPT.exists() else None)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = program()
    assert command is not None
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=60, check=False)


def rendered(chart: Path, *settings: str) -> list[dict[str, Any]]:
    """The objects that `helm install` would send; AssertionError with what went wrong."""
    sets = [word for setting in settings for word in ("--set", setting)]
    done = run("template", "fabricmon", str(chart), "--namespace", "fabricmon", *sets)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]
