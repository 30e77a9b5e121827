"""Columns of plain text, as wide as their widest cell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def text_table(rows: Iterable[Sequence[str]], margin: str = "") -> Iterator[str]:
    """A line per row; the first row is the head."""
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield margin + "  ".join(cells).rstrip()
