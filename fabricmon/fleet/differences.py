"""The differences of counting columns, formed once a tick of what was read since the one before. Pure, NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fabricmon.catalogue.counter import Counter, Growth
from fabricmon.fleet.arithmetic import Mark, Marks, fastest, step
from fabricmon.fleet.clocks import ReadTimes
from fabricmon.fleet.row_state import Bools, Floats, Numbers, Rows, numbers
from fabricmon.fleet.table import Table

Counting = Sequence[tuple[Counter, int, int]]
"""Columns, each with its number and its row of `rise` and `marks`."""
RELOAD = 15.0
"""Seconds for which a driver reload takes a device away (docs/methods.md#boot-grace)."""


def advance(table: Table, now: float) -> None:
    """Form the differences of all counting columns on all rows that were read since the last tick."""
    if not table.n:
        return
    for times in table.by_supply.values():
        times.advance(table.clocks, table.part_of, table.n)
    for times, columns in table.counting().items():
        if times.rows is not None:
            _step(table, times, times.rows, columns, now)


def _line_rate(table: Table, rows: Rows) -> Floats:
    for name in ("rate", "netdev_rate"):
        at = table.columns.get(name)
        if at is not None:
            return table.cells[at, rows]
    return np.full(table.n, np.nan)[rows]


def _step(table: Table, times: ReadTimes, rows: Rows, columns: Counting, now: float) -> None:
    dt, line_rate = times.dt[rows], _line_rate(table, rows)
    fallen: list[Numbers] = []
    changed: list[tuple[int, int]] = []  # columns of which not all values are as before
    for some in _batches(columns, len(dt)):
        cells = _cells(rows, [at for _, _, at in some])
        before, after = table.base[cells], table.cells[_cells(rows, [column for _, column, _ in some])]
        lost = (table.marks[cells] & np.uint8(Mark.LOST)) != 0
        rise, mark = _plain(before, after)
        for number in np.flatnonzero(_odd(some, before, after, rise, times.irregular, lost).any(axis=1)).tolist():
            counter, _, own = some[number]
            wide = counter.growth is Growth.WRAPS and counter.bits > 32
            rise[number], mark[number] = step(
                counter,
                before[number],
                after[number],
                dt,
                times.irregular,
                fastest(counter, line_rate),
                lost[number] if lost[number].any() else None,
                (table.rise[own, rows], times.former_dt) if wide else None,
            )
        table.rise[cells], table.marks[cells] = rise, mark
        marked = mark.any(axis=1)
        changed += [some[number][1:] for number in np.flatnonzero(marked | rise.any(axis=1)).tolist()]
        if marked.any():
            fallen += [np.flatnonzero(one & np.uint8(Mark.RESET)) for one in mark[marked]]
    if fallen and len(every := np.unique(np.concatenate(fallen))):
        _restarted(table, numbers(rows, every), dt[every], columns, now)
    for column, at in changed:
        after = table.cells[column, rows]
        if isinstance(rows, slice):
            np.copyto(table.base[at, rows], after, where=np.isfinite(after))
        else:
            known = np.isfinite(after)
            table.base[at, rows[known]] = after[known]


BATCH = 1 << 14
"""Cells of columns that are processed at once: few calls for a small table, and what fits the cache of a large one."""


def _batches(columns: Counting, rows: int) -> Iterator[Counting]:
    size = max(1, BATCH // max(rows, 1))
    return (columns[first : first + size] for first in range(0, len(columns), size))


def _cells(rows: Rows, columns: list[int]) -> tuple[Any, ...]:
    """Index of some rows of several columns."""
    return (columns, rows) if isinstance(rows, slice) else np.ix_(np.array(columns), rows)


def _plain(before: Floats, after: Floats) -> tuple[Floats, Marks]:
    """Differences as they are where nothing is odd."""
    with np.errstate(invalid="ignore", over="ignore"):
        return after - before, np.zeros(after.shape, np.uint8)


def _odd(
    columns: Counting, before: Floats, after: Floats, rise: Floats, irregular: Bools | None, lost: Bools
) -> Bools:
    """Cells, by column and row, that `step` must compute: not those that were unknown and are."""
    tops = [c.top if c.growth in (Growth.SATURATES, Growth.TICKS) else np.nan for c, _, _ in columns]
    odd = ~((rise >= 0) & (rise < np.inf)) | (after == np.array(tops)[:, None]) | lost
    if irregular is not None:
        odd |= irregular
    return np.asarray(odd & ~(np.isnan(before) & np.isnan(after)))


def _restarted(table: Table, rows: Numbers, seconds: Floats, columns: Counting, now: float) -> None:
    """Begin a new epoch in rows in which every counter that stood above 0 fell (driver reload, PMA reset).

    seconds  since the read before. Of two reads within RELOAD the device was there all the time: its counters
             were cleared, and its links train no more than before
    """
    table.reset[rows] = now
    steps = np.array([at for _, _, at in columns], np.intp)
    base = table.base[np.ix_(steps, rows)]
    fell = (table.marks[np.ix_(steps, rows)] & np.uint8(Mark.RESET)) != 0
    stood = base > 0
    anew = (fell.sum(axis=0) >= 2) & ~(stood & ~fell).any(axis=0)
    if anew.any():
        cells = np.ix_(steps, rows[anew])
        table.rise[cells] = np.nan
        table.marks[cells] = Mark.EPOCH
        table.begun[rows[anew & ~(seconds <= RELOAD)]] = now
