"""Text of a known width on a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

ELLIPSIS = "…"


def clean(text: object) -> str:
    """The text as one line without control characters: names come from nodes and must not control the terminal."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " for c in line)


def width(text: str) -> int:
    """Columns of the text on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """The text cut to this many columns, with an ellipsis."""
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
    """The text padded or cut to exactly this many columns."""
    shown = clip(text, columns)
    blanks = " " * (columns - width(shown))
    return blanks + shown if right else shown + blanks


def bare(text: str) -> str:
    """The text without the colours of `Style`."""
    if "\x1b" not in text:
        return text
    first, *rest = text.split("\x1b[")
    return first + "".join(part.partition("m")[2] for part in rest)


def cut(text: str, columns: int) -> str:
    """A text with colours, cut to this many columns; the colours are closed."""
    if width(bare(text)) <= columns:
        return text
    found, room = [], columns
    for number, part in enumerate(text.split("\x1b[")):
        code, _, plain = part.partition("m") if number else ("", "", part)
        kept = _head(plain, room)
        if width(kept) > room:  # not even one character fits
            kept = ""
        found.append(f"\x1b[{code}m{kept}" if number else kept)
        room = room - width(kept) if kept == plain else 0
    return "".join(found)


def wrapped(text: str, columns: int | None) -> Iterator[str]:
    """Lines of at most this many columns, broken at blanks, longer words anywhere; None: one line."""
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
    """The first characters that fit, at least one."""
    used = 0
    for at, char in enumerate(word):
        used += _columns(char)
        if used > max(columns, 1):
            return word[: max(at, 1)]
    return word
