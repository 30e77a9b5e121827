"""Names written as ranges, "node[01-32,40],login1", as in Slurm and cable plans. Pure."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import NamedTuple

MOST_NAMES = 1 << 20
"""Names that one expression may stand for."""

MOST_OF_A_PLAN = 1 << 22
"""Names of all expressions of a plan of cables: 100,000 hosts with 8 links at either end have 1.7 million."""

MOST_OF_A_PLACEMENT = 1 << 18
"""The same of a file that only places hosts: 100,000 hosts, each below a leaf and in a block, and their switches."""

MOST_OF_JOBS = 1 << 20
"""The same of a list of jobs: 100,000 hosts, each with a job for each of 8 GPUs."""

MOST_CHARACTERS = 64
"""Characters of one of these names, on average: a label of a host name has at most 63 (RFC 1035, section 2.3.4)."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_OUTSIDE = re.compile(r",(?![^\[]*\])")
_NUMBERS = re.compile(r"(\d{1,18})-(\d{1,18})")


class _Listed(NamedTuple):
    """What stands between two commas in brackets: numbers with leading zeros, or a word."""

    numbers: range
    width: int = 0
    word: str = ""

    def words(self) -> list[str]:
        return [self.word] if self.word else [str(number).zfill(self.width) for number in self.numbers]


class Expansion:
    """Expands the expressions of one file, which together may stand for `most` names of MOST_CHARACTERS each.

    Each method raises ValueError for an invalid expression, and for the one that stands for too many.
    """

    def __init__(self, most: int) -> None:
        self._names, self._characters = most, most * MOST_CHARACTERS

    def expand(self, pattern: str) -> list[str]:
        """"node-[01-03]" -> node-01, node-02, node-03."""
        texts, ranges, at = [], [], 0
        for match in _RANGE.finditer(pattern):
            texts.append(pattern[at : match.start()])
            ranges.append([_listed(piece.strip()) for piece in match[1].split(",")])
            at = match.end()
        texts.append(pattern[at:])
        if re.search(r"[\[\]]", "".join(texts)):
            raise ValueError(f"{pattern[:80]!r} has an unmatched bracket")
        size = prod(sum(len(each.numbers) for each in listed) for listed in ranges)
        if size > MOST_NAMES:
            raise ValueError(f"{pattern[:80]!r} stands for more than {MOST_NAMES} names")
        self.spend(size, size * len(pattern))
        parts = [[texts[0]]]
        for listed, text in zip(ranges, texts[1:], strict=True):
            parts += [[word for each in listed for word in each.words()], [text]]
        return ["".join(words) for words in product(*parts)]

    def hostlist(self, text: str) -> list[str]:
        """"a[1-2],b" -> a1, a2, b: Slurm's hostlist expression."""
        found: list[str] = []
        for piece in _OUTSIDE.split(text):
            if piece.strip():
                found += self.expand(piece.strip())
        return found

    def spend(self, names: int, characters: int = 0) -> None:
        """Count names that are made of an expression, as of one that is combined with another."""
        self._names -= names
        self._characters -= characters
        if self._names < 0 or self._characters < 0:
            raise ValueError("the names of the whole file are too many or too long")


def _listed(piece: str) -> _Listed:
    match = _NUMBERS.fullmatch(piece)
    if not match:
        if not piece:
            raise ValueError("an empty name in brackets")
        return _Listed(range(1), word=piece)
    first, last = int(match[1]), int(match[2])
    if not first <= last <= first + MOST_NAMES:
        raise ValueError(f"[{piece}] does not count upwards, or is longer than {MOST_NAMES} names")
    return _Listed(range(first, last + 1), len(match[1]))
