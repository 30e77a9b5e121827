"""Configuration text into values with their lines, and problems with file, line and path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fabricmon.forms.decoding import Undecodable
from fabricmon.runtime.strict_yaml import YamlNodes

MAX_BYTES = 1 << 20  # a configuration file; target lists are files of their own
MAX_VALUES = 100_000  # after aliases are followed: an alias bomb stops here
MAX_DEPTH = 32
MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem: file, line (0 unknown), path and text."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.text}" if self.path else f"{where}: {self.text}"


class ConfigError(Exception):
    """All problems of a configuration. `str()` has one line per problem."""

    def __init__(self, *problems: ConfigProblem) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


@contextmanager
def noted(problems: list[ConfigProblem], file: str, path: str) -> Iterator[None]:
    """Within it a ValueError becomes a problem at `path`."""
    try:
        yield
    except ValueError as error:
        problems.append(ConfigProblem(file, 0, path, str(error)))


@dataclass(slots=True)
class Located:
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


def read_text(path: str) -> str:
    """The text of a configuration file. Raises ConfigError where it cannot be read, is too large or is not UTF-8."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(ConfigProblem(path, 0, "", f"cannot be read: {error.strerror}")) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(ConfigProblem(path, 0, "", f"larger than {MAX_BYTES} bytes"))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(ConfigProblem(path, line, "", "is not UTF-8 text")) from error


def join(path: str, key: str) -> str:
    """`key` below `path`, as a path in the file is written."""
    return f"{path}.{key}" if path else key


class _Walk:
    """YAML nodes to Items."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.problems: list[ConfigProblem] = []
        self.nodes = YamlNodes(text, MAX_VALUES, MAX_DEPTH)

    def tree(self) -> Located:
        node = self.nodes.root
        return Located({}, 0) if node is None else self.item(node, "")

    def item(self, node: yaml.Node, path: str) -> Located:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Located(self.mapping(node, path), line)
        if isinstance(node, yaml.SequenceNode):
            return Located([self.item(child, f"{path}[{i}]") for i, child in enumerate(node.value)], line)
        return Located(self.scalar(node, path), line)

    def scalar(self, node: yaml.Node, path: str) -> Any:
        try:
            return self.nodes.value(node)
        except Undecodable as error:
            raise ConfigError(ConfigProblem(self.name, node.start_mark.line + 1, path, str(error))) from error

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Located]:
        found: dict[str, Located] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self.scalar(key_node, path) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                text = f"a key must be text, got {_short(key_node.value)}"
                self.problems.append(ConfigProblem(self.name, line, path, text))
            elif key in found:
                text = f"stands twice, first on line {found[key].line}"
                self.problems.append(ConfigProblem(self.name, line, join(path, key), text))
            else:
                found[key] = Located(self.item(value_node, join(path, key)).value, line)
        return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse(text: str, name: str) -> Located:
    """YAML text into values with their lines; `name` is the file for messages.

    Raises ConfigError for what is not YAML, a key that stands twice, a key that is not text, an alias bomb.
    """
    try:
        walk = _Walk(text, name)
        tree = walk.tree()
    except Undecodable as error:
        raise ConfigError(ConfigProblem(name, error.line, "", str(error))) from error
    if walk.problems:
        raise ConfigError(*walk.problems[:MAX_PROBLEMS])
    return tree


def put(tree: Located, dotted: str, value: object) -> None:
    """Set `value` at a dotted path of a tree, as a command line flag does. Replaces what the file has there."""
    at = tree
    *above, last = dotted.split(".")
    for key in above:
        if not isinstance(at.value, dict):
            return  # the decoder complains of what stands in place of a mapping
        at = at.value.setdefault(key, Located({}, 0))
        if at.value is None:
            at.value = {}
    if isinstance(at.value, dict):
        at.value[last] = _wrap(value)


def _wrap(value: object) -> Located:
    if isinstance(value, Mapping):
        return Located({str(k): _wrap(v) for k, v in value.items()}, 0)
    if isinstance(value, list | tuple):
        return Located([_wrap(v) for v in value], 0)
    return Located(value, 0)
