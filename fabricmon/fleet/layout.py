"""What follows from the shape of an inventory alone, the same for all nodes of one make: kept by that shape. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import Delivery, Table
from fabricmon.model import Kind, Part

Landing = NDArray[np.int32] | NDArray[np.int64]
_INT32 = 2**31 - 1
LAYOUTS, LARGEST = 256, 2**17
"""Layouts that are kept, and bytes of the largest such one: 8 a value or column, 64 a component, 128 a part, 1 a
character. One of 8 adapters and 8 GPUs has about half of that."""

PartShape = tuple[str, Kind, float, tuple[str, ...], tuple[str, ...]]
"""Collector, kind, period, columns, names of components."""


class PlacedPart(NamedTuple):
    """A part: its number, where its values begin in a frame, and its shape."""

    number: int
    offset: int
    collector: str
    period: float
    columns: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.columns) * len(self.names)


class KindLayout:
    """The parts of one kind.

    numbers    of them in their inventory
    names      of their components, each once
    delivered  columns, and by which collectors
    sources    per component of each part that has columns: its collector
    supplied   the same: index in `names`
    clocks     the same: number of the part
    """

    def __init__(self, table: Table, parts: Sequence[PlacedPart]) -> None:
        self._parts = parts
        self._landing: tuple[int, LandingShape] | None = None  # for `table.shape`
        self.numbers = [part.number for part in parts]
        index: dict[str, int] = {}
        for part in parts:
            for name in part.names:
                index.setdefault(name, len(index))
        self.names = tuple(index)
        supply = [part for part in parts if any(part.columns)]
        source = {part.collector: table.source(part.collector) for part in supply}
        self.delivered: Delivery = frozenset(
            (column, source[collector]) for collector, columns in {(part.collector, part.columns) for part in supply}
            for column in columns if column)  # fmt: skip
        self.sources = np.array([source[part.collector] for part in supply for _ in part.names], np.intp)
        self.supplied = np.array([index[name] for part in supply for name in part.names], np.intp)
        self.clocks = np.array([part.number for part in supply for _ in part.names], np.int32)

    def rows(self, mine: Mapping[str, int]) -> NDArray[np.intp]:
        """The rows of `names`. `mine`: of all components of their node."""
        return np.array([mine[name] for name in self.names], np.intp)

    def landing(self, table: Table) -> LandingShape:
        """Where their values land; of a kind with parts."""
        if self._landing is None or self._landing[0] != table.shape:
            self._landing = table.shape, landing_shape(table, self._parts)
        return self._landing[1]


class InventoryLayout:
    """Of an inventory.

    size      its values
    periods   of its parts; `interval`: the shortest, NaN without any
    kinds     those that have parts
    """

    def __init__(self, tables: Mapping[Kind, Table], shapes: Sequence[PartShape]) -> None:
        self.size, placed = 0, dict[Kind, list[PlacedPart]]()
        for number, (collector, kind, period, columns, names) in enumerate(shapes):
            placed.setdefault(kind, []).append(PlacedPart(number, self.size, collector, period, columns, names))
            self.size += len(columns) * len(names)
        self.periods = np.array([max(period, 1e-3) for _, _, period, _, _ in shapes])
        self.interval = float(min(self.periods, default=np.nan))
        self.kinds = {kind: KindLayout(tables[kind], parts) for kind, parts in placed.items()}


class Layouts:
    """The layouts of all nodes of one fleet."""

    def __init__(self, tables: Mapping[Kind, Table]) -> None:
        self._tables = tables
        self._known: dict[tuple[PartShape, ...], InventoryLayout] = {}
        self.none = {kind: KindLayout(table, ()) for kind, table in tables.items()}

    def of(self, parts: Sequence[Part]) -> InventoryLayout:
        """Of an inventory with these parts; one that is not too large is kept for other nodes."""
        shapes = tuple([(p.collector, p.kind, p.period, p.columns, tuple([c.name for c in p.components]))
                        for p in parts])  # fmt: skip
        known = self._known.get(shapes)
        if known is None:
            known = InventoryLayout(self._tables, shapes)
            if 8 * known.size + sum(map(_bytes, shapes)) <= LARGEST:
                if len(self._known) >= LAYOUTS:
                    self._known.clear()
                self._known[shapes] = known
        return known


def _bytes(shape: PartShape) -> int:
    """What a part and its words take."""
    collector, _, _, columns, names = shape
    words = sum(8 + len(column) for column in columns) + sum(64 + len(name) for name in names)
    return 128 + len(collector) + words


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


def landing_shape(table: Table, parts: Sequence[PlacedPart]) -> LandingShape:
    """The shape of these parts, at least one; it holds as long as `table.shape`.

    A cell that several parts deliver belongs to the part that is read most often, the first of equals.
    """
    first, size = parts[0].offset, parts[-1].offset + parts[-1].size - parts[0].offset
    columns, components, period = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size)
    number: dict[str, int] = {}
    for placed in parts:
        at = slice(placed.offset - first, placed.offset - first + placed.size)
        names = [number.setdefault(name, len(number)) for name in placed.names]
        # a part lies row by row: component after component, each with all its columns
        columns[at] = np.tile([table.columns[name] if name else 0 for name in placed.columns], len(names))
        components[at] = np.repeat(names, len(placed.columns))
        period[at] = placed.period
    order = np.lexsort((np.arange(size), period))
    _, owners = np.unique(columns[order] * np.int64(len(number) + 1) + components[order], return_index=True)
    owner = np.zeros(size, np.bool_)
    owner[order[owners]] = True
    columns[~owner] = 0
    return LandingShape(first, first + size, tuple(number), columns, components)
