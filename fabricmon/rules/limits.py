"""The limits of a rule as a person reads them: name, value, what it means and where it comes from. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon.rules.rule import Rule
from fabricmon.units import Duration, Rate


class Limit(NamedTuple):
    """One limit. `value` is in force, `default` the rule's own; both as one would write them in the configuration."""

    name: str
    value: str
    default: str
    meaning: str


def limits(rule: Rule, params: Struct | None = None) -> list[Limit]:
    """Every limit of a rule, in the order of its params. `params` are those in force; None: the defaults."""
    defaults = rule.params()
    own = defaults if params is None else params
    said = meanings(rule.params)
    fields = msgspec.structs.fields(rule.params)
    found = [
        Limit(
            field.name,
            quantity(field.type, getattr(own, field.name)),
            quantity(field.type, getattr(defaults, field.name)),
            said.get(field.name, ""),
        )
        for field in fields
    ]
    given = {field.name for field in fields}
    for name in ("hold", "clear"):
        if name not in given:
            value = quantity(Duration, getattr(rule, name))
            found.append(Limit(name, value, value, said.get(name, "")))
    return found


def meanings(params: type[Struct]) -> dict[str, str]:
    """What a params' docstring says of each limit: lines of `name  text`, the text going on in deeper lines."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(params.__dict__.get("__doc__") or "").splitlines():
        if row := re.match(r"(\w+)  +(\S.*)", line):
            name, found[row[1]] = row[1], row[2]
        elif name and line.startswith(" "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def quantity(kind: Any, value: Any) -> str:
    """A value as one would write it in the configuration: 90 s as `1m30s`, 5e10 bytes/s as `400Gb/s`."""
    if value is msgspec.NODEFAULT or value in ({}, ()):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    if isinstance(value, dict):
        return ", ".join(f"`{name}: {quantity(type(one), one)}`" for name, one in value.items())
    writers: dict[Any, Callable[[float], str]] = {Duration: _duration, Rate: _rate}
    for known, write in writers.items():
        if kind is known or isinstance(value, known):
            return write(float(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    if seconds and seconds < 1:
        return f"{seconds * 1000:g}ms"
    text = ""
    for name, size in (("d", 86400), ("h", 3600), ("m", 60)):
        whole, seconds = divmod(seconds, size)
        text += f"{whole:g}{name}" if whole else ""
    return text + (f"{seconds:g}s" if seconds or not text else "")


def _rate(bytes_per_second: float) -> str:
    bits = bytes_per_second * 8
    for name, size in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if bits >= size:
            return f"{bits / size:g}{name}"
    return f"{bits:g}b/s"
