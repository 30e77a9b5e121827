"""Names in which `*` stands for any characters, matched without backtracking. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class NamePatterns:
    """Patterns of names. `*` matches any characters, also none; all else matches itself.

    Each piece between two stars is searched once, from left to right, so the time is at most linear in the name for
    each piece.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = list(patterns)
        self._names = frozenset(pattern for pattern in patterns if "*" not in pattern)
        self._pieces = [pattern.split("*") for pattern in patterns if "*" in pattern]

    def __bool__(self) -> bool:
        return bool(self._names or self._pieces)

    def match(self, name: str) -> bool:
        return name in self._names or any(_fits(name, pieces) for pieces in self._pieces)


def _fits(name: str, pieces: list[str]) -> bool:
    """Whether the name is the pieces in this order, with anything between two of them."""
    first, *middle, last = pieces
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
