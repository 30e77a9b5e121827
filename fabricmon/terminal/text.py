"""Text of a known width on a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

ELLIPSIS = "…"


def clean(text: object) -> str:
    """One line without control characters: what a node or a person named must not steer the terminal."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else " " for c in said)


def width(text: str) -> int:
    """Columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """At most so many columns; what is cut off is an ellipsis."""
    if columns <= 0:
        return ""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + ELLIPSIS


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Exactly so many columns, cut off where it has more."""
    shown = clip(text, columns)
    blanks = " " * (columns - width(shown))
    return blanks + shown if right else shown + blanks


def bare(text: str) -> str:
    """Without the colours of `Style`."""
    if "\x1b" not in text:
        return text
    first, *rest = text.split("\x1b[")
    return first + "".join(part.partition("m")[2] for part in rest)


def cut(text: str, columns: int) -> str:
    """A text with colours, of at most so many columns; the colours end with it."""
    if width(bare(text)) <= columns:
        return text
    found, room = [], columns
    for number, part in enumerate(text.split("\x1b[")):
        code, _, said = part.partition("m") if number else ("", "", part)
        kept = _head(said, room) if room > 0 else ""
        found.append(f"\x1b[{code}m{kept}" if number else kept)
        room = room - width(kept) if kept == said else 0
    return "".join(found)


def wrapped(text: str, columns: int | None) -> Iterator[str]:
    """Lines of at most so many columns, broken at blanks, a word that is longer anywhere; None: one line."""
    if columns is None:
        yield text
        return
    columns = max(columns, 8)
    line, used = "", 0
    for word in text.split():
        long = width(word)
        if line and used + 1 + long > columns:
            yield line
            line, used = "", 0
        while long > columns:
            head = _head(word, columns - used - bool(line))
            yield f"{line} {head}" if line else head
            line, used, word = "", 0, word[len(head) :]
            long = width(word)
        line, used = (f"{line} {word}", used + 1 + long) if line else (word, long)
    yield line


def _head(word: str, columns: int) -> str:
    """The first letters that fit, at least one."""
    used = 0
    for at, char in enumerate(word):
        used += _columns(char)
        if used > max(columns, 1):
            return word[: max(at, 1)]
    return word
