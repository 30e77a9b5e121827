"""One table of the fleet: rows are components of one kind, columns are catalogue names. Pure, NumPy.

Cells lie column by column, so that a rule reads contiguous memory, in one flat vector, so that a node's frame
lands by one index map: `table.flat[map[index]] = values`. Column 0 is where cells land that no row owns.
A row stays where it is until its node is forgotten, or until what left its node is forgotten; `generation` rises when
it is given to something else. A column leaves with the last node that delivers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.ma  # np.unique imports it at its first call, when there may be no free descriptor

from fabricmon.catalogue.counter import Counter
from fabricmon.fleet import freshness
from fabricmon.fleet.arithmetic import NO_RATE, Mark, Marks
from fabricmon.fleet.clocks import PartClocks, ReadTimes
from fabricmon.fleet.row_state import Floats, Numbers, Rows, RowState, numbers, per_row
from fabricmon.model import ComponentId, Kind, SweptId, row_id
from fabricmon.topology.groups import Domains

LARGE = 4096
"""Rows from which on a table grows by half: what is allocated and not used is memory, too."""

MOST_GROWTH = 8
"""A table grows to so many times its size at most when more rows are expected."""

FREE = -1  # node number of a row that is free

Delivery = frozenset[tuple[str, int]]
"""What one node delivers: columns, each with the number of a collector that supplies it."""


class Table(RowState):
    """Rows and columns of one kind.

    n           rows in use, counted from 0; some of them may be free
    ids         what each row is; a free row is ComponentId(kind, "", "")
    labels      static facts of each row
    present     the row is in its node's newest inventory
    node        number of the row's node, FREE for a free row
    generation  raised when a row comes to stand for something else: state kept by row number is void then
    quiet       the row is under maintenance: what happens now does not count
    gone        `now` when the row left its node's inventory, NaN while present and where it may only be unread
    left        the same, also where it may only be unread
    begun       `now` when the row's present epoch began (boot, other device, driver reload), NaN before any
    reset       `now` when counters last began anew without a boot, NaN before any
    changes     raised by each change of rows or labels: fault domains must be assigned again
    expected    rows that it will have when all nodes are there, 0 unknown; asked when it grows, to as many at once
    shape       raised by each change of columns or of the collectors that supply them
    domains     fault domains of the rows, set from the topology
    tracks      state carried from tick to tick (its class: see View), None where the kind has none
    own         columns the fleet itself writes, no part delivers them
    relabelled  rows whose labels changed since `tracks` last took them over
    unplaced    of ports: rows whose component or labels changed since all rows were last placed
    """

    cells = per_row(np.float64, np.nan, 16)
    base = per_row(np.float64, np.nan, 4)
    rise = per_row(np.float64, np.nan, 4)
    marks = per_row(np.uint8, 0, 4)
    part_of = per_row(np.int32, 0, 2)
    present = per_row(np.bool_, False)
    quiet = per_row(np.bool_, False)
    node = per_row(np.int32, FREE)
    generation = per_row(np.int64, 0, forgotten=False)
    gone = per_row(np.float64, np.nan)
    left = per_row(np.float64, np.nan)
    begun = per_row(np.float64, np.nan)
    reset = per_row(np.float64, np.nan)

    def __init__(self, kind: Kind, catalogue: Mapping[str, Counter], clocks: PartClocks) -> None:
        super().__init__(64)
        self.kind = kind
        self.n = 0
        self.version = 0
        self.changes = 0
        self.shape = 0
        self.expected: Callable[[], int] = lambda: 0
        self.ids: list[ComponentId] = []
        self.labels: list[dict[str, str]] = []
        self.domains: Domains | None = None
        self.tracks: RowState | None = None
        self.own: frozenset[str] = frozenset()
        self.relabelled: list[int] = []
        self.unplaced: set[int] = set()
        self.columns: dict[str, int] = {}
        self.sources: dict[str, int] = {}
        self.by_supply: dict[tuple[int, ...], ReadTimes] = {}
        self.clocks = clocks
        self._catalogue = catalogue
        self._supply: dict[str, tuple[int, ...]] = {}
        self._counted: dict[str, int] = {}
        self._deliveries: dict[Delivery, tuple[Delivery, int]] = {}  # the object to keep, nodes that deliver it
        self._spare_columns: list[int] = []
        self._spare_counted: list[int] = []
        self._free: list[int] = []
        self._row: dict[ComponentId, int] = {}
        self._swept: dict[str, dict[int, None]] = {}  # name of a port elsewhere -> rows: several may sweep it
        self.flat = self.cells.reshape(-1)
        self._counting: Mapping[ReadTimes, Sequence[tuple[Counter, int, int]]] = {}
        self._counting_of = -1  # `shape` that it was made of
        self._limits: dict[ReadTimes, Floats] = {}
        self._limits_of: tuple[int, int, int] = 0, 0, 0

    # --- rows

    @property
    def whole(self) -> slice:
        """All rows in use."""
        return slice(0, self.n)

    def row(self, component: ComponentId) -> int | None:
        return self._row.get(component)

    def swept(self, name: str) -> int | None:
        """The first row of those that sweeps have of a port elsewhere, "leaf-3/12": of those that read it now, where
        any does."""
        rows = self._swept.get(name, {})
        return next((row for row in rows if self.present[row]), next(iter(rows), None))

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows, at once."""
        needed = self.n + rows - len(self._free)
        if needed > self.capacity:
            usual = self.capacity * 2 if self.capacity < LARGE else self.capacity * 3 // 2
            foreseen = min(self.expected(), MOST_GROWTH * needed)
            self.resize(max(foreseen if foreseen >= needed else usual, needed + needed // 8))

    def add(self, node: int, components: Sequence[ComponentId], labels: Sequence[dict[str, str]]) -> list[int]:
        """Rows for components of a node that have none yet."""
        self.reserve(len(components))
        rows = list[int]()
        for component, facts in zip(components, labels, strict=True):
            if self._free:
                row = self._free.pop()
                self.labels[row] = facts
            else:
                row = self.n
                self.n += 1
                self.ids.append(component)
                self.labels.append(facts)
            self._name(row, component)
            rows.append(row)
        at = np.array(rows, np.intp)
        self.node[at], self.present[at] = node, True
        self.generation[at] += 1
        if self.tracks is not None:
            self.relabelled += rows
        self._unplace(rows)
        self.changes += 1
        return rows

    def relabel(self, row: int, labels: dict[str, str]) -> None:
        self.labels[row] = labels
        component = row_id(*self.ids[row], labels)
        if type(component) is not type(self.ids[row]):
            self._unname(row)
            self._name(row, component)
        if self.tracks is not None:
            self.relabelled.append(row)
        self._unplace((row,))
        self.changes += 1

    def enter(self, row: int) -> None:
        """The row came into its node's inventory."""
        self.present[row], self.gone[row], self.left[row] = True, np.nan, np.nan
        self.changes += 1

    def leave(self, row: int, now: float, known_absence: bool) -> None:
        """The row left its node's inventory; without `known_absence` it may still exist and only no longer be read."""
        self.present[row], self.gone[row], self.left[row] = False, now if known_absence else np.nan, now
        self.changes += 1

    def rename(self, row: int, component: ComponentId) -> None:
        """Rename hardware: its counters go on, state kept by generation begins anew."""
        self._unname(row)
        self._name(row, component)
        self.generation[row] += 1
        self._unplace((row,))
        self.changes += 1

    def drop(self, rows: Numbers) -> None:
        """Free rows whose node or component is forgotten."""
        for row in rows.tolist():
            self._unname(row)
            self.ids[row], self.labels[row] = ComponentId(self.kind, "", ""), {}
            self._free.append(row)
        self._unplace(rows.tolist())
        self.forget(rows)
        self.generation[rows] += 1
        self.changes += 1

    def _name(self, row: int, component: ComponentId) -> None:
        self.ids[row] = component
        self._row[component] = row
        if isinstance(component, SweptId):
            self._swept.setdefault(component.name, {})[row] = None

    def _unname(self, row: int) -> None:
        component = self.ids[row]
        del self._row[component]
        if isinstance(component, SweptId):
            rows = self._swept[component.name]
            del rows[row]
            if not rows:
                del self._swept[component.name]

    def _unplace(self, rows: Iterable[int]) -> None:
        if self.kind is Kind.PORT:  # the only ones that are placed one by one
            self.unplaced.update(rows)

    def restart(self, rows: Numbers) -> None:
        """A new epoch: the next readings are a new baseline and make no rise."""
        self.base[:, rows] = np.nan

    def resize(self, capacity: int) -> None:
        super().resize(capacity)
        self.flat = self.cells.reshape(-1)
        self.version += 1

    def parts(self) -> Iterator[RowState]:
        yield from self.by_supply.values()
        yield from super().parts()

    # --- columns

    def column(self, name: str) -> int:
        """The column's number, made when it is new."""
        at = self.columns.get(name)
        if at is None:
            # column 0 and those that are in use or free are all there were
            at = self._spare_columns.pop() if self._spare_columns else len(self.columns) + 1
            self.columns[name] = at
            self.shape += 1
            if at == len(self.cells):
                self.deepen("cells")
                self.flat = self.cells.reshape(-1)
            counter = self._catalogue.get(name)
            if counter is not None and counter.kind is self.kind and counter.window and counter.growth.counts:
                self._count(name)
        return at

    def _count(self, name: str) -> None:
        at = self._counted[name] = self._spare_counted.pop() if self._spare_counted else len(self._counted)
        if at == len(self.base):
            self.deepen("base", "rise", "marks")

    def _drop_column(self, name: str) -> None:
        """No node delivers the column any more."""
        at = self.columns.pop(name)
        self.cells[at] = np.nan
        self._spare_columns.append(at)
        counted = self._counted.pop(name, None)
        if counted is not None:
            self.base[counted] = self.rise[counted] = np.nan
            self.marks[counted] = 0
            self._spare_counted.append(counted)

    def source(self, collector: str) -> int:
        at = self.sources.get(collector)
        if at is None:
            at = self.sources[collector] = len(self.sources)
            if at == len(self.part_of):
                self.deepen("part_of")
        return at

    def deliver(self, new: Delivery, old: Delivery) -> Delivery:
        """Note that a node delivers `new` from now on and `old` no more. Returns the one object for `new`."""
        if new == old:
            return old
        if new:
            new, nodes = self._deliveries.get(new, (new, 0))
            if not nodes:
                for column, source in new:
                    self._supply_by(column, source)
            self._deliveries[new] = new, nodes + 1
        if old:
            _, nodes = self._deliveries[old]
            self._deliveries[old] = old, nodes - 1
            if nodes == 1:
                del self._deliveries[old]
                for column, source in old.difference(*self._deliveries):
                    self._supply_by(column, source, ends=True)
        return new

    def _supply_by(self, column: str, source: int, ends: bool = False) -> None:
        """Note that a collector delivers a column on some row, or `ends` to."""
        self.column(column)
        old = self._supply.get(column, ())
        new = tuple(sorted({*old, source} - ({source} if ends else set())))
        if new == old:
            return
        self.shape += 1
        self._supply[column] = new
        if new and new not in self.by_supply:
            times = self.by_supply[new] = ReadTimes(new, self.capacity)
            for former, known in self.by_supply.items():
                if (ends and former == old) or set(former) < set(new):
                    times.seen = np.fmax(times.seen, known.seen)
        if old and old not in self._supply.values():
            del self.by_supply[old]
        if not new:
            del self._supply[column]
            self._drop_column(column)

    def read_times(self, column: str) -> ReadTimes | None:
        return self.by_supply.get(self._supply.get(column, ()))

    def counted(self, column: str) -> int | None:
        """Row of `rise` and `marks` for a column, None where no differences are kept of it."""
        return self._counted.get(column)

    def values(self, column: str) -> Floats | None:
        at = self.columns.get(column)
        return None if at is None else self.cells[at, : self.n]

    def value(self, column: str) -> Floats:
        """Current values, NaN unknown; all of them where there is no such column."""
        at = self.columns.get(column)
        return np.full(self.n, np.nan) if at is None else self.cells[at, : self.n]

    def line_rate(self) -> Floats:
        """Line rate in bytes per second: of the RDMA port, else of the interface; NaN unknown."""
        port, netdev = self.values("rate"), self.values("netdev_rate")
        if port is None:
            return np.full(self.n, np.nan) if netdev is None else netdev
        return port if netdev is None else np.where(np.isnan(port), netdev, port)

    def period(self, times: ReadTimes) -> Floats:
        """Seconds between reads per row: the slowest of the collectors that supply it, NaN where none does."""
        return times.newest(self.clocks.period, self.part_of, self.whole)

    def age_limit(self, times: ReadTimes) -> Floats:
        """Seconds after which a reading of a row is stale (`freshness`). Made again only when rows or parts have
        changed: many rules need it. It is read-only."""
        state = self.changes, self.clocks.version, self.n
        if self._limits_of != state:
            self._limits_of, self._limits = state, {}
        found = self._limits.get(times)
        if found is None:
            found = self._limits[times] = np.fmax(freshness.PERIODS * self.period(times), freshness.LEAST)
            found.flags.writeable = False
        return found

    def received(self, times: ReadTimes) -> Floats:
        """When the newest read of each row arrived, by the receiver's clock; NaN where none did."""
        return times.newest(self.clocks.received, self.part_of, self.whole)

    def marks_of(self, counted: Sequence[int]) -> Marks:
        """All bits of the marks of several columns, by their rows of `marks`."""
        return np.asarray(np.bitwise_or.reduce(self.marks[counted, : self.n], axis=0))

    def last_step(self, column: str) -> tuple[Rows, Floats, Marks] | None:
        """Rows read in this tick, with rise and marks of a counter; None where none was read or none is kept."""
        at, times = self._counted.get(column), self.read_times(column)
        if at is None or times is None or times.rows is None:
            return None
        return times.rows, self.rise[at, times.rows], self.marks[at, times.rows]

    def counting(self) -> Mapping[ReadTimes, Sequence[tuple[Counter, int, int]]]:
        """The counting columns by what supplies them: each with its number and its row of `rise` and `marks`."""
        if self._counting_of == self.shape:
            return self._counting
        steps: dict[ReadTimes, list[tuple[Counter, int, int]]] = {}
        for name, at in self._counted.items():
            times = self.read_times(name)
            if times is not None:
                steps.setdefault(times, []).append((self._catalogue[name], self.columns[name], at))
        self._counting, self._counting_of = steps, self.shape
        return steps

    def delta(self, column: str, rows: Rows | None = None) -> Floats:
        """Counts of the last interval of some rows (None: of all), NaN where no rate may be formed of them."""
        at, rows = self._counted.get(column), slice(0, self.n) if rows is None else rows
        if at is None:
            return np.full(self.n, np.nan)[rows]
        rise, odd = self.rise[at, rows], self.marks[at, rows] & NO_RATE
        return np.where(odd, np.nan, rise) if odd.any() else rise

    def at_least(self, column: str, rows: Rows) -> Floats:
        """As `delta`, but a rise to the top of a counter counts as what it is, a lower bound."""
        at = self._counted.get(column)
        if at is None:
            return np.full(self.n, np.nan)[rows]
        return np.where(self.marks[at, rows] & NO_RATE & ~np.uint8(Mark.FULL), np.nan, self.rise[at, rows])

    def risen(self, column: str) -> tuple[Numbers, Floats]:
        """Rows read in this tick on which a counter rose, and by how much. A rise after a reset is not believed."""
        step = self.last_step(column)
        if step is None:
            return np.zeros(0, np.intp), np.zeros(0)
        rows, rise, marks = step
        some = np.flatnonzero((rise > 0) & ((marks & np.uint8(Mark.RESET)) == 0))
        return numbers(rows, some), rise[some]
