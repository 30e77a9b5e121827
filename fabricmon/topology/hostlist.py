"""Names written as ranges: "node[01-32,40],login1" as Slurm and our own cable plan write them. Pure."""

from __future__ import annotations

import re
from itertools import product

EXPANDED_MOST = 1 << 20
"""Names one expression may stand for."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_OUTSIDE = re.compile(r",(?![^\[]*\])")


def expand(pattern: str) -> list[str]:
    """"node-[01-03]" -> node-01, node-02, node-03. ValueError for a range that makes no sense."""
    parts: list[list[str]] = []
    size, at = 1, 0
    for match in _RANGE.finditer(pattern):
        parts.append([pattern[at : match.start()]])
        words = [word for piece in match[1].split(",") for word in _range(piece.strip())]
        size *= len(words)
        if size > EXPANDED_MOST:
            raise ValueError(f"{pattern!r} stands for more than {EXPANDED_MOST} names")
        parts.append(words)
        at = match.end()
    parts.append([pattern[at:]])
    if re.search(r"[\[\]]", "".join(part[0] for part in parts[::2])):
        raise ValueError(f"{pattern!r} has a bracket without its partner")
    return ["".join(words) for words in product(*parts)]


def hostlist(text: str) -> list[str]:
    """"a[1-2],b" -> a1, a2, b: Slurm's hostlist expression. ValueError where it makes no sense."""
    found: list[str] = []
    for piece in _OUTSIDE.split(text):
        if piece.strip():
            found += expand(piece.strip())
        if len(found) > EXPANDED_MOST:
            raise ValueError(f"{text[:40]!r}... stands for more than {EXPANDED_MOST} names")
    return found


def _range(piece: str) -> list[str]:
    match = re.fullmatch(r"(\d+)-(\d+)", piece)
    if not match:
        if not piece:
            raise ValueError("an empty name in brackets")
        return [piece]
    first, last = int(match[1]), int(match[2])
    if not first <= last <= first + EXPANDED_MOST:
        raise ValueError(f"[{piece}] does not count upwards, or too far")
    return [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
