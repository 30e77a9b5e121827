"""The word that was meant by a wrong one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most similar, "" where none is."""
    from difflib import get_close_matches  # late: a running program does without it

    return next(iter(get_close_matches(word, list(known), 1, 0.6)), "")
