"""docs/cli.md: every `$ fabricmon ...` of its console blocks is run against the fixed server, and its output stands
below it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.rigs.daemons import FABRICMON

PAGE = Path(__file__).resolve().parents[2] / "docs/cli.md"
BLOCK = re.compile(r"```console\n\$ fabricmon ([^\n]*)\n.*?```", re.DOTALL)
COLUMNS = 100


def run(url: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the program as a person starts it; nothing of the caller's own settings is in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FABRICMON_") and k not in ("COLUMNS", "NO_COLOR")}
    return subprocess.run(
        [*FABRICMON, *words], capture_output=True, text=True, timeout=60,
        env={**kept, "FABRICMON_SERVER": url, **environment},
    )  # fmt: skip


def page(url: str) -> str:
    """The page with the output of today."""

    def block(found: re.Match[str]) -> str:
        done = run(url, *shlex.split(found[1]), COLUMNS=str(COLUMNS))
        said = done.stdout.replace(url, "http://127.0.0.1:9791")
        return f"```console\n$ fabricmon {found[1]}\n{said}```"

    return BLOCK.sub(block, PAGE.read_text())
