"""Frames without a value, only times of reads: kept as bytes, the newest of each node, until they land together.

Nine of ten frames of a healthy fleet are such ones. Nothing is made of one when it comes; before each tick those of all
nodes land by a few operations on one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple, Protocol

import numpy as np

from fabricmon.central.streams.limits import LIMITS, OverLimit
from fabricmon.central.streams.presence import Peer
from fabricmon.engine.engine import Engine
from fabricmon.frame import HEADER_SIZE, beat_head, beats_of

_CLOCK = LIMITS["clock"].most
_WILD = "a part was read at a time after the start of its node that no clock shows"


class BeatShape(NamedTuple):
    """What heartbeats of one inventory have in common: their beginning, what is behind the clock, their length."""

    head: bytes
    shape: bytes
    length: int


def beat_shape(inventory: int, parts: int, size: int) -> BeatShape:
    return BeatShape(*beat_head(inventory, parts, size), HEADER_SIZE + 8 * parts)


class Beating(Protocol):
    """A stream that feeds the engine. `beat`: the shape of its heartbeats, None while none of it waits."""

    peer: Peer
    beat: BeatShape | None

    def odd(self, data: bytes, error: OverLimit | None) -> None:
        """Its newest heartbeat is none, or has an error."""


class Heartbeats:
    """waiting  stream -> its newest heartbeat, and when that came by the clock `monotonic`"""

    def __init__(self, engine: Engine, now: Callable[[], float]) -> None:
        self._engine, self._now = engine, now
        self.waiting: dict[Beating, tuple[bytes, float]] = {}

    def land(self) -> None:
        """Give the engine what came since the last call."""
        if self.waiting:
            waiting, self.waiting = self.waiting, {}
            self._land(waiting)

    def land_of(self, stream: Beating) -> None:
        """The same for one stream, before another message of it lands."""
        found = self.waiting.pop(stream, None)
        if found is not None:
            self._land({stream: found})

    def _land(self, waiting: dict[Beating, tuple[bytes, float]]) -> None:
        shapes = {stream.beat.shape: None for stream in waiting if stream.beat is not None}
        for shape in shapes:
            alike = waiting if len(shapes) == 1 else {
                stream: beat for stream, beat in waiting.items() if stream.beat and stream.beat.shape == shape}
            self._land_alike(shape, list(alike), *zip(*alike.values(), strict=True))

    def _land_alike(self, shape: bytes, streams: list[Beating], data: Sequence[bytes], came: Sequence[float]) -> None:
        """Heartbeats with as many parts and values."""
        at = np.array(came) + (self._now() - monotonic())
        for stream, last in zip(streams, at.tolist(), strict=True):
            stream.peer.last = last
        inventories, fit, taken = beats_of(data, shape)
        wild = (np.abs(taken) > _CLOCK).any(axis=1)
        good = fit & ~wild
        if not good.all():
            for bad in np.flatnonzero(~good).tolist():
                streams[bad].odd(data[bad], OverLimit("clock", _WILD) if fit[bad] else None)
            streams = [streams[one] for one in np.flatnonzero(good).tolist()]
            inventories, taken, at = inventories[good], taken[good], at[good]
        self._engine.heartbeats([stream.peer.node for stream in streams], inventories, taken, at)
