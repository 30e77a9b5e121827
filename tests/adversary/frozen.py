"""Digests of the files that random scenarios are made with. `python -m tests.adversary.frozen` prints them."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2] / "fabricmon"
SCORER = ("names", "score", "statistics", "table", "truth")


def files() -> dict[str, list[Path]]:
    """Name of a part -> its files: the composer, the scorer, and the simulated world that both stand on."""
    adversary = sorted((ROOT / "adversary").glob("*.py"))
    return {
        "composer": [path for path in adversary if path.stem not in SCORER],
        "scorer": [path for path in adversary if path.stem in SCORER],
        "world": sorted([*(ROOT / "sim").glob("*.py"), *(ROOT / "sim" / "shapes").glob("*.py")]),
    }


def digest(paths: list[Path]) -> str:
    """The first 16 digits of a hash of the names and the text of some files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


if __name__ == "__main__":
    for part, paths in files().items():
        print(f"| {part} | {len(paths)} | `{digest(paths)}` |")
