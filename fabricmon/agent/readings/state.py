"""The current state of the node: merges readings into one snapshot, numbers inventories and events.

Pure; used from the event loop only.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from fabricmon.model import Event, Identity, Inventory, Part, Reading, Snapshot

Key = tuple[str, str]
"""Collector and device of a session."""


class Accepted(NamedTuple):
    """Effect of a reading. `reshaped`: a new inventory; `urgent`: a value of a fast part changed."""

    reshaped: bool
    urgent: bool


class _Held:
    """The last reading of one session. `size`: values of its parts; `fast`: a change in it is sent at once."""

    __slots__ = ("fast", "parts", "size", "taken", "values")

    def __init__(self, parts: tuple[Part, ...], values: array[float], taken: float) -> None:
        self.parts, self.values, self.taken = parts, values, taken
        self.size = sum(part.size for part in parts)
        self.fast = any(part.fast for part in parts)


class NodeState:
    """Snapshot and event ring of one node.

    `order` is the collectors' order in the inventory. `snapshot` is live: its values change with the next reading;
    `travelling()` is the copy for the server.
    """

    def __init__(self, identity: Identity, order: tuple[str, ...], max_events: int = 1024) -> None:
        self._rank = {name: n for n, name in enumerate(order)}
        self._held: dict[Key, _Held] = {}
        self._places: dict[Key, tuple[int, int]] = {}  # first value, first part
        self.snapshot = Snapshot(Inventory(1, identity, ()), 0, identity.started, [], array("d"))
        self._wired = self.snapshot.inventory
        self._copy: Snapshot | None = None  # the newest for the server
        self._spans: list[tuple[int, int]] = []
        self._events: deque[Event] = deque(maxlen=max_events)
        # Starts at the clock, so that numbers rise over a restart and a server's `after=` stays valid.
        self._event_seq = int(identity.started * 1000)

    @property
    def inventory(self) -> Inventory:
        return self.snapshot.inventory

    def accept(self, key: Key, reading: Reading, wall: float) -> Accepted:
        """Merge one reading. ValueError, without effect, when its values do not fill its parts."""
        held = self._held.get(key)
        if held is None or held.parts is not reading.parts:
            new = _Held(reading.parts, reading.values, reading.taken)
            _check(new.size, reading)
            self._held[key] = new
            if held is None or held.parts != reading.parts:
                self._rebuild(wall)
                return Accepted(True, True)
        else:
            _check(held.size, reading)
            new = held
        s = self.snapshot
        first, part = self._places[key]
        urgent = new.fast and held.values.tobytes() != reading.values.tobytes()  # as numbers NaN would differ from NaN
        new.values, new.taken = reading.values, reading.taken
        s.values[first : first + new.size] = reading.values
        for n in range(part, part + len(reading.parts)):
            s.taken[n] = reading.taken
        s.seq += 1
        s.wall = wall
        return Accepted(False, urgent)

    def unknown(self, key: Key, taken: float, wall: float) -> Accepted:
        """The device could not be read: its rows stay, its values are unknown as of `taken`."""
        held = self._held.get(key)
        if held is None:
            return Accepted(False, False)
        nothing = array("d", [math.nan]) * len(held.values)
        return self.accept(key, Reading(held.parts, nothing, taken), wall)

    def drop(self, key: Key, wall: float) -> Accepted:
        """The device is gone: its rows leave the inventory."""
        if self._held.pop(key, None) is None:
            return Accepted(False, False)
        self._rebuild(wall)
        return Accepted(True, True)

    def travelling(self) -> Snapshot:
        """A copy for the server, without parts that stay on the node (Part.wire). It never changes, and is the same one
        until the next reading. The inventory's id is the same; the inventory object is the same while the shape is."""
        s = self.snapshot
        if self._copy is not None and self._copy.seq == s.seq:
            return self._copy
        if self._wired is s.inventory:
            self._copy = Snapshot(s.inventory, s.seq, s.wall, s.taken[:], s.values[:])
            return self._copy
        values = array("d")
        for first, end in self._spans:
            values.extend(s.values[first:end])
        taken = [taken for part, taken in zip(s.inventory.parts, s.taken, strict=True) if part.wire]
        self._copy = Snapshot(self._wired, s.seq, s.wall, taken, values)
        return self._copy

    def _rebuild(self, wall: float) -> None:
        parts: list[Part] = []
        taken: list[float] = []
        values = array("d")
        self._places = {}
        for key in sorted(self._held, key=lambda k: (self._rank.get(k[0], len(self._rank)), k)):
            held = self._held[key]
            self._places[key] = (len(values), len(parts))
            parts.extend(held.parts)
            taken.extend([held.taken] * len(held.parts))
            values.extend(held.values)
        old = self.snapshot.inventory
        inventory = Inventory(old.id + 1, old.identity, tuple(parts))
        self.snapshot = Snapshot(inventory, self.snapshot.seq + 1, wall, taken, values)
        self._wired, self._spans = _travelling(inventory)

    # --- events

    def event(self, event: Event) -> Event:
        """Number an event and keep it in the ring, instead of the oldest."""
        self._event_seq += 1
        event = msgspec.structs.replace(event, seq=self._event_seq)
        self._events.append(event)
        return event

    @property
    def event_seq(self) -> int:
        """Number of the newest event."""
        return self._event_seq

    def events_after(self, seq: int) -> Iterator[Event]:
        """Kept events after `seq`; all of them where `seq` was never used."""
        return (e for e in tuple(self._events) if e.seq > seq or seq > self._event_seq)


def _travelling(inventory: Inventory) -> tuple[Inventory, list[tuple[int, int]]]:
    """The inventory without parts that stay on the node (the same object where none do); the spans of its values."""
    spans: list[tuple[int, int]] = []
    base = 0
    for part in inventory.parts:
        if part.wire:
            spans.append((base, base + part.size))
        base += part.size
    if len(spans) == len(inventory.parts):
        return inventory, spans
    wired = tuple(part for part in inventory.parts if part.wire)
    return msgspec.structs.replace(inventory, parts=wired), spans


def _check(size: int, reading: Reading) -> None:
    if size != len(reading.values):
        raise ValueError(f"a reading of {len(reading.values)} values for parts of {size}")
