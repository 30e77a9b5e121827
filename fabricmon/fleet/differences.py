"""The differences of counting columns, formed once a tick of what was read since the one before. Pure, NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.catalogue.counter import Counter, Growth
from fabricmon.fleet.arithmetic import Mark, fastest, step
from fabricmon.fleet.clocks import ReadTimes
from fabricmon.fleet.row_state import Floats, Numbers, Rows, numbers
from fabricmon.fleet.table import Table

Counting = Sequence[tuple[Counter, int, int]]
"""Columns, each with its number and its row of `rise` and `marks`."""


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
    for counter, column, at in columns:
        before = table.base[at, rows]
        after = table.cells[column, rows]
        lost = (table.marks[at, rows] & np.uint8(Mark.LOST)) != 0
        wide = counter.growth is Growth.WRAPS and counter.bits > 32
        rise, mark = step(
            counter,
            before,
            after,
            dt,
            times.irregular,
            fastest(counter, line_rate),
            lost if lost.any() else None,
            (table.rise[at, rows], times.former_dt) if wide else None,
        )
        table.rise[at, rows] = rise
        table.marks[at, rows] = mark
        if not (mark.any() or rise.any()):
            continue
        changed.append((column, at))
        reset = np.flatnonzero(mark & np.uint8(Mark.RESET))
        if len(reset):
            fallen.append(reset)
    if fallen:
        _restarted(table, numbers(rows, np.unique(np.concatenate(fallen))), columns, now)
    for column, at in changed:
        after = table.cells[column, rows]
        if isinstance(rows, slice):
            np.copyto(table.base[at, rows], after, where=np.isfinite(after))
        else:
            known = np.isfinite(after)
            table.base[at, rows[known]] = after[known]


def _restarted(table: Table, rows: Numbers, columns: Counting, now: float) -> None:
    """Begin a new epoch in rows in which every counter that stood above 0 fell (driver reload, PMA reset)."""
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
        table.begun[rows[anew]] = now
