"""Compares what is made with a recorded file. FABRICMON_GOLDEN=write writes the files anew: read the difference."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec

GOLDEN = Path(__file__).with_name("golden")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?%?")


def compare(name: str, made: str, folder: Path = GOLDEN) -> None:
    """Fails where the file of this name has another text."""
    file = folder / name
    if os.environ.get("FABRICMON_GOLDEN") == "write":
        file.write_text(made)
    assert made == file.read_text(), f"{name} has another text now; FABRICMON_GOLDEN=write writes it anew"


def plain(value: Any) -> Any:
    """As JSON, with floats of five digits: the last ones differ between machines."""
    value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and math.isfinite(value) and abs(value) < 1e9:  # moments are whole
        return float(f"{value:.5g}")
    return value


def numbers(text: str) -> str:
    """The numbers of a text: its words may change."""
    return " ".join(_NUMBER.findall(text))


def lines(values: list[Any]) -> str:
    """One line of JSON a value."""
    return "".join(json.dumps(plain(value), ensure_ascii=False) + "\n" for value in values)
