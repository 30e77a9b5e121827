"""Rows, columns and the index map of a node's frames from its inventory. Pure.

Components of several collectors meet in one row by name. A component that left the inventory keeps its row, marked as
gone, so that rules see its absence; one that the node lists as removed on purpose keeps none. A column without a name
lands nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import Delivery, Table
from fabricmon.model import ComponentId, Kind, Part


class Placed(NamedTuple):
    """A part of an inventory: its number in the clocks, where its values begin in a frame, and what it is."""

    number: int
    offset: int
    part: Part


Landing = NDArray[np.int32] | NDArray[np.int64]
_INT32 = 2**31 - 1

GONE_ROWS = 256
"""Rows of one node and kind that are kept after they left its inventory; the oldest go first."""

GONE_TIME = 604_800.0
"""Seconds for which they are kept: longer than most repairs wait (design choice)."""

REMOVED = "removed"
"""Label of a node with the devices that were removed on purpose, separated by ", " (collect.inventory.removed)."""

DEVICES = ("device", "pci", "netdev", "owner")
"""Labels of a row with a name of its device."""

IDENTITY = ("port_guid", "node_guid", "uuid")
"""Labels that name hardware independently of its device name, the finest first."""


def serial(labels: dict[str, str]) -> str:
    """The hardware behind a row, "" where no label names it."""
    for label in IDENTITY:
        if labels.get(label):
            return f"{labels[label]}/{labels.get('port') or labels.get('link', '')}"
    return ""


def removed_devices(parts: Sequence[Part]) -> frozenset[str]:
    """The devices that a node lists as removed on purpose."""
    listed = (c.labels.get(REMOVED, "") for part in parts if part.kind is Kind.NODE for c in part.components)
    return frozenset(name for text in listed for name in text.split(", ") if name)


def is_removed(name: str, labels: Mapping[str, str], removed: frozenset[str]) -> bool:
    """Whether a component that is not in its node's inventory is of a device that was removed on purpose."""
    return bool(removed) and not removed.isdisjoint(
        (name, name.partition("/")[0], *(labels.get(label, "") for label in DEVICES))
    )


def enter(
    table: Table, node: str, number: int, mine: dict[str, int], parts: Sequence[Placed], now: float,
    known_absence: bool, removed: frozenset[str] = frozenset(),
) -> bool:
    """Bring the table in line with one node's parts of its kind.

    mine           rows of that node by component name; changed in place
    known_absence  a missing component is gone (False: perhaps its collector was only turned off)
    removed        devices that were removed on purpose

    Returns whether hardware came back or was changed.
    """
    labels = _facts(parts)
    _follow_names(table, node, mine, labels)
    # What left goes first, so that its rows are there for what came: names that always change need no more rows.
    for name, row in mine.items():
        if name and name not in labels and table.present[row]:  # the row "" is the node itself
            table.leave(row, now, known_absence)
    drop(table, mine, [n for n, row in mine.items() if n not in labels and is_removed(n, table.labels[row], removed)])
    _forget_oldest(table, mine)
    former = np.array(list(mine.values()), np.intp)
    renewed = [mine[name] for name, facts in labels.items() if name in mine and _epoch(table, mine[name], facts)]
    if renewed:
        rows = np.array(renewed, np.intp)
        table.restart(rows)
        table.begun[rows] = table.reset[rows] = now
    table.reserve(len(labels.keys() - mine.keys()))
    for name, facts in labels.items():
        row = mine[name] = mine[name] if name in mine else table.add(ComponentId(table.kind, node, name), number)
        if not table.present[row]:
            table.enter(row)
        if table.labels[row] != facts:
            table.relabel(row, dict(facts) if table.kind is Kind.NODE else facts)  # a node's presence is added
    _note_parts(table, mine, parts)
    if len(former):
        lands = landing_shape(table, parts).cells(table, mine) if parts else np.zeros(0, np.int64)
        _clear_unowned(table, former, lands)
    return bool(renewed)


def _facts(parts: Sequence[Placed]) -> dict[str, dict[str, str]]:
    """Labels of each component, of all its parts: those of one part where it has them all, which other nodes share."""
    found: dict[str, dict[str, str]] = {}
    for component in (component for placed in parts for component in placed.part.components):
        known, more = found.get(component.name), component.labels
        if known is None:
            found[component.name] = more if all(more.values()) else {k: v for k, v in more.items() if v}
        elif known is not more and not more.items() <= known.items():
            merged = known | {k: v for k, v in more.items() if v}
            found[component.name] = next((each for each in (known, more) if each == merged), merged)
    return found


def _forget_oldest(table: Table, mine: dict[str, int]) -> None:
    """Keep GONE_ROWS of the rows that left."""
    if len(mine) <= GONE_ROWS:
        return
    gone = [(float(table.left[row]), name) for name, row in mine.items() if not table.present[row]]
    drop(table, mine, [name for _, name in sorted(gone)[: max(len(gone) - GONE_ROWS, 0)]])


def drop(table: Table, mine: dict[str, int], names: Sequence[str]) -> None:
    """Free the rows of these components of a node."""
    if names:
        table.drop(np.array([mine.pop(name) for name in names], np.intp))


def delivery(table: Table, parts: Sequence[Placed]) -> Delivery:
    """Which columns these parts deliver, and by which collectors."""
    kinds = {(placed.part.collector, placed.part.columns) for placed in parts if any(placed.part.columns)}
    sources = {collector: table.source(collector) for collector, _ in kinds}
    return frozenset((column, sources[collector]) for collector, columns in kinds for column in columns if column)


def _note_parts(table: Table, mine: dict[str, int], parts: Sequence[Placed]) -> None:
    """Note which part supplies the node's rows, by collector."""
    table.part_of[:, np.array(list(mine.values()), np.intp)] = 0
    sources, rows, numbers = list[int](), list[int](), list[int]()
    for number, _, part in parts:
        if any(part.columns):
            source = table.source(part.collector)
            for component in part.components:
                sources.append(source)
                rows.append(mine[component.name])
                numbers.append(number)
    table.part_of[sources, rows] = numbers


def _follow_names(table: Table, node: str, mine: dict[str, int], labels: dict[str, dict[str, str]]) -> None:
    """Rename the rows of hardware that came back under another name."""
    lost = {serial(table.labels[row]): name for name, row in mine.items() if name not in labels}
    lost.pop("", None)
    if not lost:
        return
    for name, facts in labels.items():
        former = lost.get(serial(facts)) if name not in mine else None
        if former is not None and former in mine:
            row = mine[name] = mine.pop(former)
            table.rename(row, ComponentId(table.kind, node, name))


def _epoch(table: Table, row: int, facts: dict[str, str]) -> bool:
    """Whether a row's counters began anew: other hardware or firmware, or the same one back after it was gone."""
    if not table.present[row]:
        return True
    before = table.labels[row]
    return any(
        before.get(label) and facts.get(label) and before[label] != facts[label] for label in (*IDENTITY, "firmware")
    )


class LandingShape(NamedTuple):
    """Where values land in a table, the same for all nodes with the same parts.

    first, last  the table's own values lie between them in a frame
    names        of the components
    columns      int32 per value: its column, 0 (unused cells) for none and for a value that another part delivers
    components   int32 per value: index in `names`
    """

    first: int
    last: int
    names: tuple[str, ...]
    columns: NDArray[np.int32]
    components: NDArray[np.int32]

    def cells(self, table: Table, mine: Mapping[str, int]) -> Landing:
        """Where the values of the node with these rows land in `table.flat`; 0 (an unused cell) for none."""
        rows = np.array([*(mine[name] for name in self.names), 0], np.int64)  # one even where only others' values are
        cells = np.where(self.columns > 0, self.columns * np.int64(table.capacity) + rows[self.components], 0)
        return cells.astype(np.int32) if table.flat.size <= _INT32 else cells


def landing_shape(table: Table, parts: Sequence[Placed]) -> LandingShape:
    """The shape of these parts, at least one; it holds as long as `table.shape`.

    A cell that several parts deliver belongs to the part that is read most often, the first of equals.
    """
    first, size = parts[0].offset, parts[-1].offset + parts[-1].part.size - parts[0].offset
    columns, components, period = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size)
    number: dict[str, int] = {}
    for placed in parts:
        part, at = placed.part, slice(placed.offset - first, placed.offset - first + placed.part.size)
        names = [number.setdefault(component.name, len(number)) for component in part.components]
        # a part lies row by row: component after component, each with all its columns
        columns[at] = np.tile([table.columns[name] if name else 0 for name in part.columns], len(names))
        components[at] = np.repeat(names, len(part.columns))
        period[at] = part.period
    order = np.lexsort((np.arange(size), period))
    _, owners = np.unique(columns[order] * np.int64(len(number) + 1) + components[order], return_index=True)
    owner = np.zeros(size, np.bool_)
    owner[order[owners]] = True
    columns[~owner] = 0
    return LandingShape(first, first + size, tuple(number), columns, components)


def _clear_unowned(table: Table, rows: NDArray[np.intp], lands: Landing) -> None:
    """Set the cells of these rows that no part delivers any more to unknown."""
    columns = np.array([at for name, at in table.columns.items() if name not in table.own], np.int64)
    if not len(columns):
        return
    cells = (columns[:, None] * table.capacity + rows[None, :]).reshape(-1)
    table.flat[np.setdiff1d(cells, lands)] = np.nan
