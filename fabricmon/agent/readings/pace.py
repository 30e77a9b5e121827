"""Times of the reads of a session: a grid with an offset, so that sessions and nodes do not read in step. Pure."""

from __future__ import annotations

import math
import zlib

MIN_GAP = 0.05
"""Seconds between the starts of two reads of one session, at least: at most 20 reads a second in a storm of events."""


def offset(node: str, collector: str, interval: float) -> float:
    """Seconds into the interval at which this collector's reads start on this node, the same after every restart.

    The nodes of a fleet spread over the interval, and over the second. The devices of one node are read together, and
    its collectors at the same moment of a second: a wake-up of the process costs as much as a read.
    """
    return math.floor(_share(f"{node}/{collector}") * interval) + _share(node)


def _share(text: str) -> float:
    """A part of 1 that depends on the text only."""
    return zlib.crc32(text.encode("utf-8", "replace")) / 2**32


def next_start(now: float, interval: float, offset: float) -> float:
    """The first point of the grid `offset + k x interval` after `now`; missed points are skipped."""
    start = offset + (math.floor((now - offset) / interval) + 1) * interval
    return start if start > now else start + interval
