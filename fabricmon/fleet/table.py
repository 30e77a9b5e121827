"""One table of the fleet: rows are components of one kind, columns are catalogue names. Pure, NumPy.

Cells lie column by column, so that a rule reads contiguous memory, in one flat vector, so that a node's frame
lands by one index map: `table.flat[map[index]] = values`. Column 0 is where cells land that no row owns.
A row stays where it is until its node is forgotten; `generation` tells when it was given to something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.counter import Counter, Growth
from fabricmon.fleet.arithmetic import Mark, fastest, step
from fabricmon.fleet.clocks import PartClocks
from fabricmon.fleet.lane import Lane, Rows
from fabricmon.model import ComponentId, Kind

if TYPE_CHECKING:
    from fabricmon.fleet.losses import FlowTracks
    from fabricmon.fleet.tracks import Tracks
    from fabricmon.topology.domains import Domains

NOBODY = -1  # node number of a row that is free


class Table:
    """Rows and columns of one kind.

    n           rows in use, counted from 0; some of them may be free
    ids         what each row is; a free row is ComponentId(kind, "", "")
    labels      static facts of each row
    present     the row is in its node's newest inventory
    node        number of the row's node, NOBODY for a free row
    generation  raised when a row comes to stand for something else: state kept by row number is void then
    quiet       the row is under announced maintenance: what happens now is not held against it
    gone        `now` when the row left its node's inventory, NaN while present
    begun       `now` when the row's present epoch began (boot, other device, driver reload), NaN before any
    reset       `now` when counters last began anew without a boot, NaN before any
    changes     raised by each change of rows or labels: time to assign fault domains anew
    domains     fault domains of the rows, set by whoever has the topology
    tracks      state carried from tick to tick, None where the kind has none
    own         columns the fleet itself writes, no part delivers them
    relabelled  rows whose labels changed since `tracks` last looked
    """

    def __init__(self, kind: Kind, catalogue: Mapping[str, Counter], clocks: PartClocks) -> None:
        self.kind = kind
        self.n = 0
        self.capacity = 64
        self.version = 0
        self.changes = 0
        self.ids: list[ComponentId] = []
        self.labels: list[dict[str, str]] = []
        self.domains: Domains | None = None
        self.tracks: Tracks | FlowTracks | None = None
        self.own: frozenset[str] = frozenset()
        self.relabelled: list[int] = []
        self.columns: dict[str, int] = {}
        self.sources: dict[str, int] = {}
        self.lanes: dict[tuple[int, ...], Lane] = {}
        self.clocks = clocks
        self._catalogue = catalogue
        self._supply: dict[str, tuple[int, ...]] = {}
        self._counted: dict[str, int] = {}
        self._free: list[int] = []
        self._row: dict[ComponentId, int] = {}
        self.cells = np.full((16, self.capacity), np.nan)
        self.flat = self.cells.reshape(-1)
        self.base = np.full((4, self.capacity), np.nan)
        self.rise = np.full((4, self.capacity), np.nan)
        self.marks = np.zeros((4, self.capacity), np.uint8)
        self.part_of = np.zeros((2, self.capacity), np.int32)
        self.present = np.zeros(self.capacity, np.bool_)
        self.quiet = np.zeros(self.capacity, np.bool_)
        self.node = np.full(self.capacity, NOBODY, np.int32)
        self.generation = np.zeros(self.capacity, np.int64)
        self.gone = np.full(self.capacity, np.nan)
        self.begun = np.full(self.capacity, np.nan)
        self.reset = np.full(self.capacity, np.nan)

    # --- rows

    def row(self, component: ComponentId) -> int | None:
        return self._row.get(component)

    def add(self, component: ComponentId, node: int) -> int:
        """A row for a component that has none yet."""
        if self._free:
            row = self._free.pop()
            self.ids[row], self.labels[row] = component, {}
        else:
            if self.n == self.capacity:
                self._widen()
            row = self.n
            self.n += 1
            self.ids.append(component)
            self.labels.append({})
        self._row[component] = row
        self.node[row] = node
        self.generation[row] += 1
        self.present[row] = True
        self.relabel(row, {})
        return row

    def relabel(self, row: int, labels: dict[str, str]) -> None:
        self.labels[row] = labels
        if self.tracks is not None:
            self.relabelled.append(row)
        self.changes += 1

    def rename(self, row: int, component: ComponentId) -> None:
        """The same hardware under another name: its counters go on, what is judged of it begins anew."""
        del self._row[self.ids[row]]
        self._row[component] = row
        self.ids[row] = component
        self.generation[row] += 1
        self.changes += 1

    def drop(self, rows: NDArray[np.intp]) -> None:
        """Free rows whose node or component is forgotten."""
        for row in rows.tolist():
            del self._row[self.ids[row]]
            self.ids[row], self.labels[row] = ComponentId(self.kind, "", ""), {}
            self._free.append(row)
        self.cells[:, rows] = np.nan
        self.restart(rows)
        self.rise[:, rows] = np.nan
        self.marks[:, rows] = 0
        self.part_of[:, rows] = 0
        self.present[rows] = False
        self.quiet[rows] = False
        self.node[rows] = NOBODY
        self.generation[rows] += 1
        for times in (self.gone, self.begun, self.reset):
            times[rows] = np.nan
        for lane in self.lanes.values():
            lane.forget(rows)
        self.changes += 1

    def restart(self, rows: NDArray[np.intp]) -> None:
        """A new epoch: the next readings are a new baseline and make no rise."""
        self.base[:, rows] = np.nan

    def _widen(self) -> None:
        grown = self.capacity * 2

        def wider(array: NDArray[Any], fill: float | int | bool) -> Any:
            more = np.full((*array.shape[:-1], grown - self.capacity), fill, array.dtype)
            return np.concatenate([array, more], axis=-1)

        self.cells = wider(self.cells, np.nan)
        self.flat = self.cells.reshape(-1)
        self.base = wider(self.base, np.nan)
        self.rise = wider(self.rise, np.nan)
        self.marks = wider(self.marks, 0)
        self.part_of = wider(self.part_of, 0)
        self.present = wider(self.present, False)
        self.quiet = wider(self.quiet, False)
        self.node = wider(self.node, NOBODY)
        self.generation = wider(self.generation, 0)
        self.gone = wider(self.gone, np.nan)
        self.begun = wider(self.begun, np.nan)
        self.reset = wider(self.reset, np.nan)
        for lane in self.lanes.values():
            lane.resize(grown)
        if self.tracks is not None:
            self.tracks.resize(grown)
        self.capacity = grown
        self.version += 1

    # --- columns

    def column(self, name: str) -> int:
        """The column's number, made when it is new."""
        at = self.columns.get(name)
        if at is None:
            at = self.columns[name] = len(self.columns) + 1
            if at == len(self.cells):
                self.cells = np.concatenate([self.cells, np.full_like(self.cells, np.nan)])
                self.flat = self.cells.reshape(-1)
            counter = self._catalogue.get(name)
            if counter is not None and counter.kind is self.kind and counter.window and counter.growth.counts:
                self._count(name)
        return at

    def _count(self, name: str) -> None:
        at = self._counted[name] = len(self._counted)
        if at == len(self.base):
            self.base = np.concatenate([self.base, np.full_like(self.base, np.nan)])
            self.rise = np.concatenate([self.rise, np.full_like(self.rise, np.nan)])
            self.marks = np.concatenate([self.marks, np.zeros_like(self.marks)])

    def source(self, collector: str) -> int:
        at = self.sources.get(collector)
        if at is None:
            at = self.sources[collector] = len(self.sources)
            if at == len(self.part_of):
                self.part_of = np.concatenate([self.part_of, np.zeros_like(self.part_of)])
        return at

    def supply(self, column: str, source: int) -> None:
        """This collector delivers that column on some row."""
        old = self._supply.get(column, ())
        if source in old:
            return
        new = (*old, source)
        self._supply[column] = new
        if new not in self.lanes:
            lane = self.lanes[new] = Lane(new, self.capacity)
            for part in new:
                former = self.lanes.get((part,))
                if former is not None and len(new) > 1:
                    lane.seen = np.fmax(lane.seen, former.seen)

    def lane(self, column: str) -> Lane | None:
        return self.lanes.get(self._supply.get(column, ()))

    def counted(self, column: str) -> int | None:
        """Row of `rise` and `marks` for a column, None where no differences are kept of it."""
        return self._counted.get(column)

    def values(self, column: str) -> NDArray[np.float64] | None:
        at = self.columns.get(column)
        return None if at is None else self.cells[at, : self.n]

    # --- the tick

    def advance(self, now: float) -> None:
        """Differences of all counting columns on all rows that were read since the last tick."""
        if not self.n:
            return
        for lane in self.lanes.values():
            lane.advance(self.clocks, self.part_of, self.n)
        steps: dict[tuple[int, ...], list[tuple[Counter, int, int]]] = {}
        for name, at in self._counted.items():
            supply = self._supply.get(name, ())
            lane_or_none = self.lanes.get(supply)
            if lane_or_none is not None and lane_or_none.rows is not None:
                steps.setdefault(supply, []).append((self._catalogue[name], self.columns[name], at))
        for supply, columns in steps.items():
            self._step(self.lanes[supply], columns, now)

    def _line_rate(self, rows: Rows) -> NDArray[np.float64]:
        for name in ("rate", "netdev_rate"):
            at = self.columns.get(name)
            if at is not None:
                return self.cells[at, : self.n][rows]
        return np.full(self.n, np.nan)[rows]

    def _step(self, lane: Lane, columns: list[tuple[Counter, int, int]], now: float) -> None:
        rows = lane.rows
        assert rows is not None
        n, dt = self.n, lane.dt[rows] if isinstance(rows, np.ndarray) else lane.dt[: self.n]
        line_rate = self._line_rate(rows)
        fallen: list[NDArray[np.intp]] = []
        for counter, column, at in columns:
            before = self.base[at, :n][rows]
            after = self.cells[column, :n][rows]
            lost = (self.marks[at, :n][rows] & np.uint8(Mark.LOST)) != 0
            wide = counter.growth is Growth.WRAPS and counter.bits > 32
            rise, mark = step(
                counter,
                before,
                after,
                dt,
                lane.irregular,
                fastest(counter, line_rate),
                lost if lost.any() else None,
                (self.rise[at, :n][rows], lane.former_dt) if wide else None,
            )
            self.rise[at, :n][rows] = rise
            self.marks[at, :n][rows] = mark
            reset = np.flatnonzero(mark & np.uint8(Mark.RESET))
            if len(reset):
                fallen.append(reset)
        if fallen:
            at_rows = np.arange(n, dtype=np.intp)[rows]
            self._restarted(at_rows[np.unique(np.concatenate(fallen))], columns, now)
        for _, column, at in columns:
            after = self.cells[column, :n][rows]
            if isinstance(rows, slice):
                np.copyto(self.base[at, :n], after, where=np.isfinite(after))
            else:
                known = np.isfinite(after)
                self.base[at, rows[known]] = after[known]

    def _restarted(self, rows: NDArray[np.intp], columns: list[tuple[Counter, int, int]], now: float) -> None:
        """Rows in which every counter that stood above 0 fell: the counting began anew (driver reload, PMA reset)."""
        self.reset[rows] = now
        steps = np.array([at for _, _, at in columns], np.intp)
        base = self.base[np.ix_(steps, rows)]
        fell = (self.marks[np.ix_(steps, rows)] & np.uint8(Mark.RESET)) != 0
        stood = base > 0
        anew = (fell.sum(axis=0) >= 2) & ~(stood & ~fell).any(axis=0)
        if anew.any():
            cells = np.ix_(steps, rows[anew])
            self.rise[cells] = np.nan
            self.marks[cells] = Mark.EPOCH
            self.begun[rows[anew]] = now
