"""The limits of a rule as text: name, value and meaning. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon.forms.docstring import fields_in
from fabricmon.rules.rule import Rule
from fabricmon.units import Duration, Rate


class Limit(NamedTuple):
    """One limit. `value` is in force, `default` the rule's own; both in the syntax of the configuration."""

    name: str
    value: str
    default: str
    meaning: str


def limits(rule: Rule, params: Struct | None = None) -> list[Limit]:
    """Every limit of a rule, in the order of its docstring. `params`: the limits in force; None: the defaults."""
    defaults = rule.params()
    own = defaults if params is None else params
    types = {field.name: field.type for field in msgspec.structs.fields(rule.params)}
    return [
        Limit(name, quantity(types[name], getattr(own, name)), quantity(types[name], getattr(defaults, name)), meaning)
        for name, meaning in meanings(rule.params).items()
    ]


def meanings(params: type[Struct]) -> dict[str, str]:
    """Field -> meaning, from the docstrings of a struct and its bases."""
    found: dict[str, str] = {}
    known = {*params.__struct_fields__, *params.__struct_encode_fields__}
    for described in reversed(params.__mro__):
        found |= fields_in(described.__dict__.get("__doc__"))
    return {name: found[name] for name in found if name in known}


def quantity(kind: Any, value: Any) -> str:
    """A value in the syntax of the configuration: 90 s as `1m30s`, 5e10 bytes/s as `400Gb/s`."""
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
