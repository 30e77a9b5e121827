"""YAML text as data or as nodes with their lines, within bounds; one kind of error.

The text is first read as events, which needs no recursion: a text that is nested too deep would overflow the stack of
libyaml's loader and end the process, and aliases could stand for more values than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from fabricmon.forms.decoding import Undecodable

MOST_DEPTH = 64
MOST_VALUES = 1 << 22
"""Values after aliases are followed; a plan that lists 65,536 cables one by one has 600,000."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BEGIN, _END = (yaml.SequenceStartEvent, yaml.MappingStartEvent), (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class StrictLoader(_LOADER):  # type: ignore[misc]
    """Refuses keys that are written twice, of which YAML silently takes the last, and text that is no Unicode."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    text = f"{key.value!r} is written twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Refuse half of a surrogate pair, written as an escape: it cannot be stored or sent."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            text = "half of a surrogate pair, which is not Unicode text"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        return value


class YamlNodes:
    """The nodes of a text, of which `value` constructs scalars. Undecodable, here and there."""

    def __init__(self, text: str, values: int = MOST_VALUES, depth: int = MOST_DEPTH) -> None:
        with _errors():
            _check(text, values, depth)
            self._loader = StrictLoader(text)
            self.root: yaml.Node | None = self._loader.get_single_node()

    def value(self, node: yaml.Node) -> Any:
        with _errors():
            return self._loader.construct_object(node)


def load(text: str | bytes) -> Any:
    """The data of a text. Undecodable with its line."""
    with _errors():
        _check(text, MOST_VALUES, MOST_DEPTH)
        return yaml.load(text, Loader=StrictLoader)


def _check(text: str | bytes, values: int, depth: int) -> None:
    """Undecodable where it is nested deeper, or stands for more values."""
    stands_for: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []  # anchor of a list or mapping that has begun, and the values before it
    count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in stands_for:
                raise Undecodable(f"the alias {event.anchor!r} stands for nothing before it", line)
            count += stands_for[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                stands_for[event.anchor] = 1
        elif isinstance(event, _BEGIN):
            open_.append((event.anchor, count))
            count += 1
            if event.anchor:
                stands_for.pop(event.anchor, None)  # within it, it would stand for itself
        elif isinstance(event, _END):
            anchor, before = open_.pop()
            if anchor:
                stands_for[anchor] = count - before
        if count > values or len(open_) > depth:
            raise Undecodable(f"more than {values} values or {depth} levels", line)


_RAISED = (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError)


@contextmanager
def _errors() -> Iterator[None]:
    """Within it PyYAML's errors become Undecodable. Its constructors of tags raise what their code happens to: KeyError
    (`!!bool x`), IndexError (`!!int ""`), AttributeError (`!!timestamp x`), TypeError (`!!set [a]`)."""
    try:
        yield
    except Undecodable:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Undecodable(error.problem or "is not YAML", mark.line + 1 if mark else 0) from None
    except _RAISED as error:
        raise Undecodable(" ".join(str(error).split()) or type(error).__name__) from None
