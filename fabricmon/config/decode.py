"""Values of a configuration into msgspec structs; continues after a problem, so that one run reports all."""

from __future__ import annotations

import math
import operator
import re
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fabricmon.config.source import ConfigProblem, Located, join
from fabricmon.forms.nearest import nearest
from fabricmon.units import Duration, Rate

_BOUNDS = (
    ("ge", "at least", operator.ge),
    ("gt", "more than", operator.gt),
    ("le", "at most", operator.le),
    ("lt", "less than", operator.lt),
)
_EXPONENT = re.compile(r"[+-]?\d+[eE][+-]?\d+")


class Decoder:
    """Collects problems in `problems`; an invalid value is None.

    files_matter  named `*_file`s must be readable: set for the sections that the program uses.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[ConfigProblem] = []
        self.files_matter = True

    def complain(self, item: Located, path: str, text: str) -> None:
        """Note a problem at an item."""
        self.problems.append(ConfigProblem(self.file if item.line else "command line", item.line, path, text))

    def unknown(self, item: Located, path: str, word: str, known: Collection[str], what: str) -> None:
        """Note a word that is not one of `known`, with the nearest known word."""
        near = nearest(word, known)
        hint = f"did you mean '{near}'?" if near else f"known here: {', '.join(sorted(known))}"
        self.complain(item, path, f"unknown {what}, {hint}")

    def mapping(self, item: Located, path: str) -> dict[str, Located]:
        """Keys and values. An empty section (`collect:` with all below it commented out) is an empty mapping."""
        if item.value is None:
            return {}
        if isinstance(item.value, dict):
            return item.value
        self.complain(item, path, f"expected keys and values, got {_shown(item.value)}")
        return {}

    def table(self, item: Located, rows: Mapping[str, type[msgspec.Struct]], path: str, what: str) -> dict[str, Any]:
        """One struct a row of a literal table; rows that are not in the file have defaults."""
        found = self.mapping(item, path)
        for key, child in found.items():
            if key not in rows:
                self.unknown(child, join(path, key), key, rows, what)
        return {name: self.struct(found.get(name) or Located({}, 0), tp, join(path, name)) for name, tp in rows.items()}

    def struct(self, item: Located, tp: type[msgspec.Struct], path: str) -> Any:
        """A struct of type `tp`; None where anything in it was wrong."""
        found = self.mapping(item, path)
        fields = {f.encode_name: f for f in msgspec.structs.fields(tp)}
        before = len(self.problems)
        for key, child in found.items():
            if key not in fields:
                self.unknown(child, join(path, key), key, fields, "key")
        values: dict[str, Any] = {}
        for key, info in fields.items():
            if key in found:
                values[info.name] = self.value(found[key], info.type, join(path, key))
            elif info.required:
                self.complain(item, path, f"'{key}' is missing")
        if len(self.problems) > before:
            return None
        try:
            made = tp(**values)
        except (ValueError, TypeError) as error:
            self.complain(item, path, _lower(error))
            return None
        if self.files_matter:
            for key, info in fields.items():
                self._readable(found.get(key, item), key, getattr(made, info.name), join(path, key))
        return made

    def _readable(self, item: Located, key: str, value: object, path: str) -> None:
        if not key.endswith("_file") or not isinstance(value, str) or not value:
            return
        try:
            with Path(value).open("rb") as file:
                file.read(1)
        except OSError as error:
            self.complain(item, path, f"{value} cannot be read: {error.strerror}")

    def value(self, item: Located, tp: Any, path: str) -> Any:
        """A value of any annotated type a settings struct uses."""
        limits: tuple[Any, ...] = ()
        if typing.get_origin(tp) is typing.Annotated:
            limits, tp = tp.__metadata__, tp.__origin__
        origin, args = typing.get_origin(tp), typing.get_args(tp)
        if origin in (typing.Union, types.UnionType):
            others = [a for a in args if a is not type(None)]
            if item.value is None and len(others) < len(args):
                return None
            if len(others) == 1:
                return self.value(item, others[0], path)
        if isinstance(tp, type) and issubclass(tp, msgspec.Struct):
            return self.struct(item, tp, path)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {k: self.value(v, args[1], join(path, k)) for k, v in self.mapping(item, path).items()}
        if isinstance(origin, type) and issubclass(origin, list | tuple | set | frozenset):
            if item.value is not None and not isinstance(item.value, list):
                self.complain(item, path, f"expected a list, got {_shown(item.value)}")
                return None
            return origin(self.value(v, args[0], f"{path}[{i}]") for i, v in enumerate(item.value or []))
        return self._scalar(item, tp, limits, path)

    def _scalar(self, item: Located, tp: Any, limits: tuple[Any, ...], path: str) -> Any:
        try:
            if tp in (Duration, Rate):
                value = tp.parse(item.plain())
            elif tp is float and isinstance(item.value, str) and _EXPONENT.fullmatch(item.value):
                value = float(item.value)  # YAML 1.1 reads 1e-15, without a point, as text
            elif isinstance(item.value, dict | list):
                raise ValueError(f"expected {getattr(tp, '__name__', tp)}, got {_shown(item.value)}")
            else:
                value = msgspec.convert(item.value, tp, strict=True)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"expected a finite number, got {item.value!r}")
            for limit in limits:
                for word, text, within in _BOUNDS:
                    bound = getattr(limit, word, None)
                    if bound is not None and not within(value, bound):
                        raise ValueError(f"expected {text} {bound:g}, got {item.value}")
        except (ValueError, TypeError) as error:
            choices = _choices(tp)
            if choices and isinstance(item.value, str):
                near = nearest(item.value, choices)
                hint = f", did you mean '{near}'?" if near else ""
                self.complain(item, path, f"expected one of {', '.join(choices)}, got {item.value!r}{hint}")
            else:
                self.complain(item, path, _lower(error))
            return None
        return value


def _choices(tp: Any) -> list[str]:
    """The words an enumeration or a Literal allows; empty for other types."""
    if typing.get_origin(tp) is typing.Literal:
        return [str(a) for a in typing.get_args(tp)]
    members = getattr(tp, "__members__", None)
    return [str(m.value) for m in members.values()] if members else []


def _lower(error: Exception) -> str:
    text = str(error).replace("`", "'")
    return text[:1].lower() + text[1:]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "keys and values"
    return "a list" if isinstance(value, list) else repr(value)
