"""Values of agents from a recording: whole snapshots, or single counters."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Inventory, Sample, Snapshot
from fabricmon.recording.reading import Recording
from fabricmon.replay.records import REPEATED, RecordMark

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def snapshots(recording: Recording | Paths) -> Iterator[tuple[float, str, Snapshot, NDArray[np.bool_]]]:
    """(now, node, all values after a frame, which parts that frame read anew), in the order of arrival.

    `now` is the server's clock. The Snapshot is changed by the node's next frame: copy it to keep it. Frames without a
    matching inventory before them are left out.
    """
    states: dict[str, Snapshot] = {}
    inventories: dict[str, Inventory] = {}
    for given, now, node, thing in _recording(recording).items():
        mark = REPEATED.get(given, given)
        if mark is RecordMark.START and thing.fresh:
            states.clear()
            inventories.clear()
        elif mark is RecordMark.INVENTORY:
            if inventories.get(node) != thing:
                inventories[node] = thing
                states.pop(node, None)
        elif mark is RecordMark.FORGET:
            inventories.pop(node, None)
            states.pop(node, None)
        elif mark is RecordMark.FRAME:
            inventory, state = inventories.get(node), states.get(node)
            repeated = given is RecordMark.KNOWN_FRAME and state is not None
            if inventory is None or inventory.id != thing.inventory or repeated:
                continue
            if thing.index is None:
                if len(thing.values) != inventory.size or len(thing.taken) != len(inventory.parts):
                    continue
                before = np.full(len(thing.taken), np.nan) if state is None else np.asarray(state.taken)
                values = array("d", thing.values.tobytes())
                state = states[node] = Snapshot(inventory, thing.seq, thing.wall, thing.taken.tolist(), values)
            elif state is None or thing.size != inventory.size or len(thing.taken) != len(inventory.parts):
                continue
            else:
                before = np.asarray(state.taken)
                np.frombuffer(state.values, np.float64)[thing.index] = thing.values
                state.seq, state.wall, state.taken = thing.seq, thing.wall, thing.taken.tolist()
            yield now, node, state, (thing.taken != before) & ~np.isnan(thing.taken)


def samples(recording: Recording | Paths) -> Iterator[tuple[float, str, Iterable[Sample]]]:
    """(now, node, every known value of the parts that were read anew), a frame at a time, in the order of arrival.

    The labels of a component are in its inventory (`snapshots`); `catalogue.metric_of(sample.counter)` is its metric.
    """
    for now, node, snapshot, read in snapshots(recording):
        yield now, node, list(_samples(node, snapshot, read))


def _samples(node: str, snapshot: Snapshot, read: NDArray[np.bool_]) -> Iterator[Sample]:
    at = 0
    for part, fresh in zip(snapshot.inventory.parts, read.tolist(), strict=True):
        if fresh:
            values = iter(snapshot.values[at : at + part.size])
            for component in part.components:
                row = ComponentId(part.kind, node, component.name)
                for column in part.columns:
                    value = next(values)
                    if value == value:
                        yield Sample(row, column, value)
        at += part.size


def _recording(given: Recording | Paths) -> Recording:
    if isinstance(given, Recording):
        return given
    return Recording([given] if isinstance(given, str | os.PathLike) else given)
