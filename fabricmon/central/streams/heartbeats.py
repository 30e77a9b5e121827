"""Frames without a value, only times of reads: kept as bytes, the newest of each node, until they land together.

Nine of ten frames of a healthy fleet are such ones. Nothing is made of one when it comes; before each tick those of all
nodes land by a few operations on one vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fabricmon.central.streams.limits import LIMITS, OverLimit
from fabricmon.central.streams.presence import Peer
from fabricmon.engine.engine import Engine
from fabricmon.frame import HEADER_SIZE, NodeBeat, beat_head, beat_times, inventory_of

_CLOCK = LIMITS["clock"].most


class BeatShape(NamedTuple):
    """What heartbeats of one inventory have in common."""

    head: bytes
    shape: bytes
    length: int


def beat_shape(inventory: int, parts: int, size: int) -> BeatShape:
    return BeatShape(*beat_head(inventory, parts, size), HEADER_SIZE + 8 * parts)


class Heartbeats:
    """`wild` is called for a peer with a part that was read at a time that no clock shows."""

    def __init__(self, engine: Engine, wild: Callable[[Peer, OverLimit], None]) -> None:
        self._engine, self._wild = engine, wild
        self.waiting: dict[Peer, tuple[bytes, float]] = {}

    def land(self) -> None:
        """Give the engine what came since the last call."""
        if self.waiting:
            waiting, self.waiting = self.waiting, {}
            self._land(waiting)

    def land_of(self, peer: Peer) -> None:
        """The same for one node, before another message of it lands."""
        found = self.waiting.pop(peer, None)
        if found is not None:
            self._land({peer: found})

    def _land(self, beats: dict[Peer, tuple[bytes, float]]) -> None:
        taken = beat_times(data for data, _ in beats.values())
        if (np.abs(taken) > _CLOCK).any():
            for peer in [p for p, (data, _) in beats.items() if (np.abs(beat_times([data])) > _CLOCK).any()]:
                text = "a part was read at a time after the start of its node that no clock shows"
                self._wild(peer, OverLimit("clock", text))
                del beats[peer]
            return self._land(beats) if beats else None
        self._engine.heartbeats(
            [NodeBeat(p.node, inventory_of(data), (len(data) - HEADER_SIZE) // 8, at)
             for p, (data, at) in beats.items()], taken)  # fmt: skip
