"""When a session is read next: a grid of its own, so that neither sessions nor nodes read in step. Pure functions."""

from __future__ import annotations

import math
import zlib

MIN_GAP = 0.05
"""Seconds between the starts of two reads of one session: a storm of link events costs at most 20 reads a second."""


def offset(node: str, collector: str, interval: float) -> float:
    """Seconds into the interval at which this collector's reads start on this node, the same after every restart.

    Nodes of a fleet spread over the interval. The devices of one node are read together: each wake-up of a process
    costs as much as reading a device.
    """
    return zlib.crc32(f"{node}/{collector}".encode("utf-8", "replace")) / 2**32 * interval


def next_start(now: float, interval: float, offset: float) -> float:
    """The first point of the grid `offset + k x interval` after `now`. Missed points are skipped, never caught up."""
    start = offset + (math.floor((now - offset) / interval) + 1) * interval
    return start if start > now else start + interval
