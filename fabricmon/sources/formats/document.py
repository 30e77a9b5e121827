"""Checks of JSON and YAML data, with the place of an error in the file. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabricmon.forms.decoding import Undecodable, loose_json
from fabricmon.topology.hostlist import MOST_OF_A_PLACEMENT, Expansion

MOST_LINE = 1 << 12
"""Characters of a line of a dump; the time to match some patterns rises with their square."""


class SourceError(ValueError):
    """A file that cannot be used as a topology: `path`, and `where` in it ("line 7", "links[3].to")."""

    def __init__(self, path: str, where: str, text: str) -> None:
        super().__init__(f"{path}: {where}: {text}" if where else f"{path}: {text}")
        self.path, self.where, self.text = path, where, text


def load_json(text: str, path: str) -> Any:
    """The data of a JSON text. SourceError where it is none."""
    try:
        return loose_json(text)
    except Undecodable as error:
        raise SourceError(path, f"line {error.line}" if error.line else "", f"not JSON: {error}") from error


def lines(text: str, path: str, most: int = MOST_LINE) -> Iterator[tuple[int, str]]:
    """(number, line) of a text. SourceError for a line of more than `most` characters."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > most:
            raise SourceError(path, f"line {number}", f"more than {most} characters")
        yield number, line


def _word(data: object) -> str:
    """A name of YAML's data, where numbers need no quotes; ValueError for lists and mappings."""
    if isinstance(data, str | int | float):
        return str(data)
    raise ValueError(f"expected a name, got {type(data).__name__}")


class Document:
    """Checks the data of one file; `where` is a place in it ("links[3].to"). Its host lists stand for `most` names."""

    def __init__(self, path: str, most: int = MOST_OF_A_PLACEMENT) -> None:
        self.path = path
        self.expansion = Expansion(most)

    def wrong(self, where: str, text: str) -> SourceError:
        return SourceError(self.path, where, text)

    def mapping(self, data: object, where: str) -> dict[Any, Any]:
        if not isinstance(data, dict):
            raise self.wrong(where, f"expected a mapping, got {type(data).__name__}")
        return data

    def sequence(self, data: object, where: str) -> list[Any]:
        if not isinstance(data, list):
            raise self.wrong(where, f"expected a list, got {type(data).__name__}")
        return data

    def host_names(self, data: object, where: str) -> list[str]:
        """A host list, or a list of such."""
        try:
            words = [_word(item) for item in (data if isinstance(data, list) else [data])]
            return [name for word in words for name in self.expansion.hostlist(word)]
        except ValueError as error:
            raise self.wrong(where, str(error)) from error
