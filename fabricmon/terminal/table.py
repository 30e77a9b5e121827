"""Tables that fit the terminal: the widest columns shrink first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fabricmon.terminal.fitted_text import clip, pad, width
from fabricmon.terminal.style import Style

GAP = 2  # blanks between two columns


class Column(NamedTuple):
    """least  minimum width in terminal columns; 0: never shrinks
    drop   order of removal if the table still does not fit, the highest first, equal ones together; 0: never removed
    """

    head: str
    least: int = 0
    right: bool = False
    drop: int = 0


class Cell(NamedTuple):
    text: str
    manner: str = ""


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], style: Style, limit: int | None = None,
          indent: int = 0) -> Iterator[str]:  # fmt: skip
    """The head and a line per row, of at most `limit` terminal columns; None: unlimited."""
    kept = list(range(len(columns)))
    widths = [
        max([width(column.head), *(width(row[at].text) for row in rows)])
        for at, column in enumerate(columns)
    ]
    kept = [at for at in kept if widths[at] and (not rows or any(row[at].text for row in rows))]
    if limit is not None:
        kept = _fit(columns, widths, kept, limit - indent)
    margin = " " * indent
    titles = [pad(columns[at].head, widths[at], right=columns[at].right) for at in kept]
    yield margin + style((" " * GAP).join(titles).rstrip(), "head")
    for row in rows:
        yield margin + _line(columns, widths, kept, row, style)


def _line(
    columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int], row: Sequence[Cell], style: Style
) -> str:
    parts = []
    for place, at in enumerate(kept):
        cell = row[at]
        last = place == len(kept) - 1 and not columns[at].right
        text = clip(cell.text, widths[at]) if last else pad(cell.text, widths[at], right=columns[at].right)
        bare = text.strip()
        parts.append(text.replace(bare, style(bare, cell.manner), 1) if bare else text)
    return (" " * GAP).join(parts).rstrip()


def _fit(columns: Sequence[Column], widths: list[int], kept: list[int], limit: int) -> list[int]:
    """The columns kept; `widths` is reduced to fit."""
    while True:
        least = sum(min(columns[at].least or widths[at], widths[at]) for at in kept) + GAP * (len(kept) - 1)
        given = [at for at in kept if columns[at].drop]
        if least <= limit or not given:
            break
        worst = max(columns[at].drop for at in given)
        kept = [at for at in kept if columns[at].drop != worst]
    over = sum(widths[at] for at in kept) + GAP * (len(kept) - 1) - limit
    while over > 0:
        shrinking = [at for at in kept if columns[at].least and widths[at] > columns[at].least]
        if not shrinking:
            break
        widest = max(shrinking, key=lambda at: widths[at])
        widths[widest] -= 1
        over -= 1
    if over > 0 and kept:  # a very narrow terminal: shrink the widest column
        widest = max(kept, key=lambda at: widths[at])
        widths[widest] = max(1, widths[widest] - over)
    return kept
