"""Configuration text into values that know their line, and what is wrong said with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 1 << 20  # a configuration file; target lists are files of their own
MAX_VALUES = 100_000  # after aliases are followed: an alias bomb stops here
MAX_DEPTH = 32
MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: in which file, at which line (0 unknown), at which path, and what."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.text}" if self.path else f"{where}: {self.text}"


class ConfigError(Exception):
    """Everything wrong with a configuration, at once. `str()` is one line a problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


@dataclass(slots=True)
class Item:
    """A value of the file with the line it stands on (0: the command line)."""

    value: Any  # scalar, dict[str, Item] or list[Item]
    line: int

    def plain(self) -> Any:
        """The bare value, without lines."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.value


def read(path: str) -> str:
    """The text of a configuration file. Raises ConfigError where it cannot be read, is too large or is not UTF-8."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(Problem(path, 0, "", f"cannot be read: {error.strerror}")) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(Problem(path, 0, "", f"larger than {MAX_BYTES} bytes"))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(Problem(path, line, "", "is not UTF-8 text")) from error


def join(path: str, key: str) -> str:
    """`key` below `path`, as a path in the file is written."""
    return f"{path}.{key}" if path else key


class _Walk:
    """YAML nodes to Items; keeps to MAX_VALUES and MAX_DEPTH however the aliases point."""

    def __init__(self, text: str, name: str) -> None:
        self.name, self.count = name, 0
        self.problems: list[Problem] = []
        self.loader = yaml.SafeLoader(text)

    def tree(self) -> Item:
        node = self.loader.get_single_node()
        return Item({}, 0) if node is None else self.item(node, "", 0)

    def item(self, node: yaml.Node, path: str, depth: int) -> Item:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            raise ConfigError(Problem(self.name, line, path, f"more than {MAX_VALUES} values or {MAX_DEPTH} levels"))
        if isinstance(node, yaml.MappingNode):
            return Item(self.mapping(node, path, depth), line)
        if isinstance(node, yaml.SequenceNode):
            return Item([self.item(child, f"{path}[{i}]", depth + 1) for i, child in enumerate(node.value)], line)
        return Item(self.loader.construct_object(node), line)

    def mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self.loader.construct_object(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                text = f"a key must be text, got {_short(key_node.value)}"
                self.problems.append(Problem(self.name, line, path, text))
            elif key in found:
                text = f"stands twice, first on line {found[key].line}"
                self.problems.append(Problem(self.name, line, join(path, key), text))
            else:
                found[key] = Item(self.item(value_node, join(path, key), depth + 1).value, line)
        return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse(text: str, name: str) -> Item:
    """YAML text into values with their lines; `name` is the file in what is said.

    Raises ConfigError for what is not YAML, a key that stands twice, a key that is not text, an alias bomb.
    """
    try:
        walk = _Walk(text, name)
        tree = walk.tree()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(Problem(name, mark.line + 1 if mark else 0, "", error.problem or "is not YAML")) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(Problem(name, 0, "", f"is not YAML: {' '.join(str(error).split())}")) from error
    if walk.problems:
        raise ConfigError(*walk.problems[:MAX_PROBLEMS])
    return tree


def put(tree: Item, dotted: str, value: object) -> None:
    """Set `value` at a dotted path of a tree, as a command line flag does. Replaces what the file has there."""
    at = tree
    *above, last = dotted.split(".")
    for key in above:
        if not isinstance(at.value, dict):
            return  # the decoder complains of what stands in place of a mapping
        at = at.value.setdefault(key, Item({}, 0))
        if at.value is None:
            at.value = {}
    if isinstance(at.value, dict):
        at.value[last] = _wrap(value)


def _wrap(value: object) -> Item:
    if isinstance(value, Mapping):
        return Item({str(k): _wrap(v) for k, v in value.items()}, 0)
    if isinstance(value, list | tuple):
        return Item([_wrap(v) for v in value], 0)
    return Item(value, 0)
