"""Scenario files: YAML into a Scenario, and what is wrong said with file, line and path."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fabricmon.sim.scenario import Scenario, ScenarioError
from fabricmon.sim.scenario_stage import check
from fabricmon.units import Duration

MAX_BYTES = 1 << 20
_UNKNOWN = re.compile(r"unknown field `(\w+)`")
_STEP = re.compile(r"\[(\d+)\]|\.?(\w+)")


class ScenarioFileError(Exception):
    """A file that holds no scenario. `str()` is one line: file, line, path, what is wrong."""


def load(path: Path | str) -> Scenario:
    """Raises ScenarioFileError where the file cannot be read, is no YAML, or says what no scenario can."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ScenarioFileError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"{name}: is not UTF-8 text") from error
    if len(data) > MAX_BYTES:
        raise ScenarioFileError(f"{name}: larger than {MAX_BYTES} bytes")
    return parse(text, name)


def parse(text: str, name: str = "scenario") -> Scenario:
    """As `load`, of the text of a file."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        _single_keys(root, name)
        tree = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioFileError(f"{name}{line}: {error.problem or 'is not YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScenarioFileError(f"{name}: is not YAML: {' '.join(str(error).split())}") from error
    try:
        scenario = msgspec.convert(tree, Scenario, dec_hook=_quantity)
    except msgspec.ValidationError as error:
        raise ScenarioFileError(_placed(str(error), root, name)) from error
    try:
        check(scenario)
    except ScenarioError as error:
        raise ScenarioFileError(f"{name}{_line(root, error.path)}: {error}") from error
    return scenario


def _quantity(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration(0) if value == 0 else Duration.parse(value)
    raise TypeError(f"{kind.__name__} is not a quantity")


def _placed(message: str, root: yaml.Node | None, name: str) -> str:
    text, _, path = message.partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    text = text.replace("`", "'")
    if unknown := _UNKNOWN.search(message):
        keys = _fields(path)
        near = difflib.get_close_matches(unknown[1], keys, 1, 0.6)
        hint = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(keys)}"
        path = f"{path}.{unknown[1]}" if path else unknown[1]
        text = f"unknown key, {hint}"
    text = text[:1].lower() + text[1:]
    return f"{name}{_line(root, path)}: {path}: {text}" if path else f"{name}: {text}"


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


def _line(root: yaml.Node | None, path: str) -> str:
    """":12", the line of the deepest part of a path that the file has."""
    node = root
    line = root.start_mark.line + 1 if root is not None else 0
    for index, key in _STEP.findall(path):
        if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode) and key:
            found = [(k, v) for k, v in node.value if k.value == key]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        else:
            break
    return f":{line}" if line else ""


def _single_keys(node: yaml.Node | None, name: str, depth: int = 0) -> None:
    """A key that stands twice would silently win over the first."""
    if depth > 32:
        raise ScenarioFileError(f"{name}: more than 32 levels")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key.value, str) and key.value in seen:
                raise ScenarioFileError(f"{name}:{key.start_mark.line + 1}: {key.value}: stands twice")
            seen.add(str(key.value))
            _single_keys(value, name, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _single_keys(value, name, depth + 1)
