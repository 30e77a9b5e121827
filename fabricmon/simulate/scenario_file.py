"""Scenario files: YAML into a Scenario; errors with file, line and path."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec

from fabricmon.config import source
from fabricmon.sim.scenarios.scenario import Scenario, ScenarioError
from fabricmon.sim.scenarios.stage import check
from fabricmon.units import Duration

_UNKNOWN = re.compile(r"unknown field `(\w+)`")
_STEP = re.compile(r"\[(\d+)\]|\.?(\w+)")


class ScenarioFileError(Exception):
    """An invalid scenario file. `str()` is one line: file, line, path, error."""


def load(path: Path | str) -> Scenario:
    """The scenario in a file. ScenarioFileError where it cannot be read, is no YAML, or no valid scenario."""
    try:
        text = source.read_text(str(path))
    except source.ConfigError as error:
        raise ScenarioFileError(str(error)) from error
    return parse(text, str(path))


def parse(text: str, name: str = "scenario") -> Scenario:
    """The scenario in a file's text; errors as `load`."""
    try:
        tree = source.parse(text, name)
    except source.ConfigError as error:
        raise ScenarioFileError(str(error.problems[0])) from error
    try:
        scenario = msgspec.convert(tree.plain(), Scenario, dec_hook=_quantity)
    except msgspec.ValidationError as error:
        raise ScenarioFileError(_placed(str(error), tree, name)) from error
    try:
        check(scenario)
    except ScenarioError as error:
        raise ScenarioFileError(f"{name}{_line(tree, error.path)}: {error}") from error
    return scenario


def _quantity(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration(0) if value == 0 else Duration.parse(value)
    raise TypeError(f"{kind.__name__} is not a quantity")


def _placed(message: str, tree: source.Located, name: str) -> str:
    text, _, path = message.partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    text = text.replace("`", "'")
    if unknown := _UNKNOWN.search(message):
        keys = _fields(path)
        near = difflib.get_close_matches(unknown[1], keys, 1, 0.6)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(keys)}"
        path = f"{path}.{unknown[1]}" if path else unknown[1]
        text = f"unknown key, {hint}"
    text = text[:1].lower() + text[1:]
    return f"{name}{_line(tree, path)}: {path}: {text}" if path else f"{name}: {text}"


def _fields(path: str) -> list[str]:
    """Keys of the struct at a path in the file."""
    kind: Any = Scenario
    for _, key in _STEP.findall(path):
        if key:
            found = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}
            kind = _struct_of(found.get(key))
            if kind is None:
                return []
    return [f.encode_name for f in msgspec.structs.fields(kind)]


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    for one in (kind, *getattr(kind, "__args__", ())):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _line(tree: source.Located, path: str) -> str:
    """":12", the line of the deepest part of a path that the file has."""
    for index, key in _STEP.findall(path):
        value = tree.value
        if isinstance(value, list) and index and int(index) < len(value):
            tree = value[int(index)]
        elif isinstance(value, dict) and key in value:
            tree = value[key]
        else:
            break
    return f":{tree.line}" if tree.line else ""
