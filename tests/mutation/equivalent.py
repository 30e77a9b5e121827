"""Changes that no behaviour can show, each with the reason that a person wrote down in `equivalent.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


def entries() -> list[dict[str, str]]:
    """module, function, was, becomes, why."""
    return list(tomllib.loads(FILE.read_text(encoding="utf-8"))["change"])


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """(module, function, statement before, statement after) -> why nothing can differ."""
    return {(one["module"], one["function"], one["was"], one["becomes"]): one["why"] for one in entries()}
