"""Counts, kinds and confidence as text. Pure."""

from __future__ import annotations

import math
import re


def count(n: int, word: str) -> str:
    """ "1 node", "2 nodes", "1,024 ports"."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def kind_words(kind: str) -> str:
    """ "link_flapping" -> "link flapping"."""
    return kind.replace("_", " ")


def certainty(confidence: float) -> str:
    """ "97%"; "over 99%" instead of 100%."""
    if confidence >= 0.995:
        return "over 99%"
    return f"{confidence:.0%}"


def share_text(share: float) -> str:
    """A share of time or packets: "98%", "0.012%"; "1.7e-07" below one in a million; "unknown" for NaN."""
    if math.isnan(share):
        return "unknown"
    if 0.0 < share < 1e-6:
        return f"{share:.2g}"
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def first_step(text: str, most: int = 160) -> str:
    """The sentences that fit `most` characters, at least the first: the beginning of a next step, for a phone."""
    first, *more = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text.strip())
    for sentence in more:
        if len(first) + 1 + len(sentence) > most:
            break
        first = f"{first} {sentence}"
    return first
