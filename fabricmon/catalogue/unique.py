"""Tables whose rows have names: each name stands once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


Row = TypeVar("Row", bound=Named)


def by_name(rows: Iterable[Row], table: str) -> dict[str, Row]:
    """The rows by their names, in their order. ValueError names a row that stands twice and its table."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.name in found:
            raise ValueError(f"{row.name!r} stands twice in {table}")
        found[row.name] = row
    return found
