"""Generated files: written to a directory, or compared with the files there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write each text under its name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def check(files: Mapping[str, str], folder: Path, command: str) -> int:
    """0; 1 if a file is not current, with the `command` that writes it on stderr."""
    stale = [name for name, text in files.items() if _content(folder / name) != text]
    for name in stale:
        print(f"{folder / name}: not current, run `fabricmon {command} --write {folder}`", file=sys.stderr)
    return 1 if stale else 0


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
