"""JSON Schema of the configuration, from the settings themselves: the same types, limits, defaults and docstrings that
`config.load` uses."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from fabricmon import config
from fabricmon.commands.config import shown_value
from fabricmon.forms.docstring import summary
from fabricmon.rules.limits import meanings
from fabricmon.units import DURATION, MOST_TEXT, RATE, Duration, Rate

Schema = dict[str, Any]

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    # YAML 1.1 reads 1e-15, without a point, as text; so does the configuration
    float: {"type": ["number", "string"], "pattern": r"^[+-]?\d+[eE][+-]?\d+$"},
    Duration: {"type": "string", "maxLength": MOST_TEXT, "pattern": rf"^\s*{DURATION}$"},
    Rate: {"type": "string", "maxLength": MOST_TEXT, "pattern": f"^{RATE}$"},
}
_SECTIONS = {
    "collect": "What the agent reads, one collector each",
    "rules": "Limits of the rules, one rule each",
    "senders": "Receivers of notifications by name",
}


def configuration() -> Schema:
    """The whole file. An empty section is the same as none."""
    sections = {name: _section(name) for name in config.ORDER}
    return _object(sections, "Configuration of fabricmon: agent and central server (docs/config.md)")


def _section(name: str) -> Schema:
    if name in config.SECTIONS:
        return _struct(config.struct_of(name), msgspec.NODEFAULT)
    rows = config.structs_of(name)
    if name != "senders":
        return _object({row: _struct(tp, msgspec.NODEFAULT) for row, tp in rows.items()}, _SECTIONS[name])
    kinds = [_sender(kind, tp) for kind, tp in rows.items()]
    return {"type": ["object", "null"], "description": _SECTIONS[name], "additionalProperties": {"oneOf": kinds}}


def _sender(kind: str, tp: type[msgspec.Struct]) -> Schema:
    made = _struct(tp, msgspec.NODEFAULT)
    made["properties"] = {"kind": {"const": kind}, **made["properties"]}
    return {**made, "type": "object", "required": ["kind", *made.get("required", ())]}


def _object(properties: Mapping[str, Schema], description: str) -> Schema:
    made = {"type": ["object", "null"], "properties": dict(properties), "additionalProperties": False}
    return {"description": description, **made} if description else made


def _struct(tp: type[msgspec.Struct], default: Any) -> Schema:
    """A struct; `default` has the values of keys that are left out, NODEFAULT: the struct's own."""
    meaning, properties = meanings(tp), {}
    for field in msgspec.structs.fields(tp):
        of_field = _default(field) if default is msgspec.NODEFAULT else getattr(default, field.name)
        made = _value(field.type, of_field)
        if text := meaning.get(field.encode_name):
            made = {**made, "description": text}
        properties[field.encode_name] = made
    found = _object(properties, summary(tp.__doc__))
    required = [field.encode_name for field in msgspec.structs.fields(tp) if field.required]
    return {**found, "required": required, "type": "object"} if required else found


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _value(tp: Any, default: Any) -> Schema:
    """A value of any type that a settings struct uses, as `config.decode` reads it."""
    made, inner = _type(tp), tp.__origin__ if typing.get_origin(tp) is typing.Annotated else tp
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return _struct(inner, default)
    return made if default is msgspec.NODEFAULT else {**made, "default": shown_value(default, inner)}


def _type(tp: Any) -> Schema:
    if typing.get_origin(tp) is typing.Annotated:
        limits = {key: getattr(meta, word, None) for meta in tp.__metadata__ for word, key in _BOUNDS.items()}
        return {**_type(tp.__origin__), **{key: bound for key, bound in limits.items() if bound is not None}}
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if origin in (typing.Union, types.UnionType):
        (other,) = (arg for arg in args if arg is not type(None))
        return {"anyOf": [_type(other), {"type": "null"}]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": ["object", "null"], "additionalProperties": _type(args[1])}
    if isinstance(origin, type) and issubclass(origin, list | tuple | set | frozenset):
        return {"type": ["array", "null"], "items": _type(args[0])}
    if isinstance(tp, type) and issubclass(tp, msgspec.Struct):
        return _struct(tp, msgspec.NODEFAULT)
    if isinstance(tp, type) and issubclass(tp, Enum):
        return {"enum": [member.value for member in tp]}
    return dict(_SCALARS[tp])
