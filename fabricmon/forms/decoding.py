"""Text and bytes from elsewhere as data: JSON, MessagePack, XML. Pure.

The libraries raise errors of several unrelated types for invalid input (DecodeError, UnicodeDecodeError, RecursionError
of deep nesting, ParseError). Everything goes through here and raises Undecodable only; ruff's `banned-api` in
pyproject.toml refuses their decoders elsewhere. YAML: `runtime/strict_yaml.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fabricmon.forms.plain_json import Undecodable, loose_json

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = [
    "Undecodable", "any_json", "converted", "json_decoder", "json_value", "loose_json", "msgpack_decoder",
    "msgpack_value", "xml_root",
]  # fmt: skip

_T = TypeVar("_T")
_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def json_value(data: Any, type: type[_T]) -> _T:
    """JSON (bytes, text or `msgspec.Raw`) as a value of this type. Undecodable."""
    try:
        return msgspec.json.decode(data, type=type)
    except _ERRORS as error:
        raise Undecodable(_words(error)) from None


def any_json(data: Any) -> Any:
    """JSON as dictionaries, lists, text and numbers. Undecodable."""
    return json_value(data, Any)


def json_decoder(type: Any) -> Callable[[Any], Any]:
    """`json_value` of one type, prepared for many messages."""
    return _quiet(msgspec.json.Decoder(type).decode)


def msgpack_decoder(type: Any) -> Callable[[Any], Any]:
    """MessagePack as values of one type. Undecodable."""
    return _quiet(msgspec.msgpack.Decoder(type).decode)


def msgpack_value(data: bytes, type: type[_T]) -> _T:
    """MessagePack as a value of this type. Undecodable."""
    try:
        return msgspec.msgpack.decode(data, type=type)
    except _ERRORS as error:
        raise Undecodable(_words(error)) from None


def converted(data: Any, type: type[_T]) -> _T:
    """Data that was decoded already, as a value of this type. Undecodable."""
    try:
        return msgspec.convert(data, type=type)
    except _ERRORS as error:
        raise Undecodable(_words(error)) from None


def xml_root(text: str, most: int) -> Element:
    """The root of an XML text of at most `most` characters without entities of its own, which could make it arbitrarily
    large; a document type that is only named (nvidia-smi) is not read. Undecodable with its line."""
    if len(text) > most:
        raise Undecodable(f"more than {most} characters")
    from xml.etree import ElementTree as ET  # half a MiB, which an agent does not need

    if re.search(r"<!ENTITY|<!DOCTYPE[^>]*\[", text, re.IGNORECASE):
        raise Undecodable("declares entities or a document type of its own")
    try:
        return ET.fromstring(text)
    except ET.ParseError as error:
        raise Undecodable(f"not XML: {error}", error.position[0]) from None
    except (ValueError, LookupError) as error:
        raise Undecodable(f"not XML: {error}") from None


def _quiet(decode: Callable[[Any], _T]) -> Callable[[Any], _T]:
    def decoded(data: Any) -> _T:
        try:
            return decode(data)
        except _ERRORS as error:
            raise Undecodable(_words(error)) from None

    return decoded


def _words(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)
