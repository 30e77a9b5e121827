"""The fields that a docstring explains: lines of `name  text`, continued in deeper lines. Pure."""

from __future__ import annotations

import inspect
import re


def fields_in(docstring: str | None) -> dict[str, str]:
    """Field -> meaning, in the order of the lines."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        if row := re.match(r"(\w+)  +(\S.*)", line):
            name, found[row[1]] = row[1], row[2]
        elif name and line.startswith(" "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def summary(docstring: str | None) -> str:
    """The first paragraph as one line."""
    return " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
