"""Kustomizations as the real program renders them: `kustomize`, or the one in kubectl (1.21 or newer)."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml


@functools.cache
def program() -> list[str] | None:
    """The command that renders a directory; None where there is none."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    # Debian 12's kubectl is of 1.20, whose kustomize knows no components.
    if shutil.which("kubectl"):
        said = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, timeout=120).stdout
        if "Kustomize Version" in said:
            return ["kubectl", "kustomize"]
    return None


def rendered(directory: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization, as `kubectl apply -k` would send them; AssertionError with what went wrong."""
    command = program()
    assert command is not None
    run = subprocess.run([*command, str(directory)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr, run.stderr
    return [document for document in yaml.safe_load_all(run.stdout) if document]
