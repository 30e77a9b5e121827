"""How a node's inventory becomes rows, columns and the index map its frames land by. Pure.

Components of several collectors meet in one row by name. What left the inventory keeps its row, marked as gone:
its absence is something a rule can see. What stays keeps its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import Table
from fabricmon.model import ComponentId, Part


class Placed(NamedTuple):
    """A part of an inventory: its number in the clocks, where its values begin in a frame, and what it is."""

    number: int
    offset: int
    part: Part

    @property
    def end(self) -> int:
        return self.offset + self.part.size


IDENTITY = ("port_guid", "node_guid", "uuid")
"""Labels that name hardware whatever the system calls it, the finest first."""


def serial(labels: dict[str, str]) -> str:
    """What hardware a row stands for, "" where no label tells."""
    for label in IDENTITY:
        if labels.get(label):
            return f"{labels[label]}/{labels.get('port') or labels.get('link', '')}"
    return ""


def enter(
    table: Table,
    node: str,
    number: int,
    mine: dict[str, int],
    parts: Sequence[Placed],
    now: float,
    known_absence: bool,
) -> bool:
    """Bring the table in line with one node's parts of its kind.

    mine           rows of that node by component name; changed in place
    known_absence  what is missing now is missing indeed (else it may be that nobody looks any more)

    Returns whether hardware came back or was changed.
    """
    labels: dict[str, dict[str, str]] = {}
    for part in (placed.part for placed in parts):
        for component in part.components:
            merged = labels.setdefault(component.name, {})
            merged.update((k, v) for k, v in component.labels.items() if v)

    _follow_names(table, node, mine, labels)
    former = np.array(list(mine.values()), np.intp)
    renewed = False
    for name, facts in labels.items():
        row = mine.get(name)
        if row is None:
            row = mine[name] = table.add(ComponentId(table.kind, node, name), number)
        elif _epoch(table, row, facts):
            renewed = True
            table.restart(np.array([row]))
            table.begun[row] = table.reset[row] = now
        if not table.present[row]:
            table.present[row] = True
            table.gone[row] = np.nan
            table.changes += 1
        if table.labels[row] != facts:
            table.relabel(row, facts)

    rows = np.array(list(mine.values()), np.intp)
    table.part_of[:, rows] = 0
    for name, row in mine.items():
        if name and name not in labels and table.present[row]:  # the row "" is the node itself
            table.present[row] = False
            table.gone[row] = now if known_absence else np.nan
            table.changes += 1
    for placed in parts:
        source = table.source(placed.part.collector)
        for column in placed.part.columns:
            table.column(column)
            table.supply(column, source)
        table.part_of[source, [mine[c.name] for c in placed.part.components]] = placed.number
    if len(former):
        _clear_unowned(table, former, landing(table, mine, parts, max((p.end for p in parts), default=0)))
    return renewed


def _follow_names(table: Table, node: str, mine: dict[str, int], labels: dict[str, dict[str, str]]) -> None:
    """Hardware that came back under another name keeps its row."""
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
    """Other hardware or firmware, or the same one back after it was gone: its counters began anew."""
    if not table.present[row]:
        return True
    before = table.labels[row]
    return any(
        before.get(label) and facts.get(label) and before[label] != facts[label] for label in (*IDENTITY, "firmware")
    )


def landing(table: Table, mine: dict[str, int], parts: Sequence[Placed], size: int) -> NDArray[np.int64]:
    """Where each of a node's `size` values lands in `table.flat`; 0 (a cell nobody reads) for those of other tables.

    A cell that several parts deliver belongs to the part that is read most often, the first of equals.
    """
    lands = np.zeros(size, np.int64)
    period = np.full(size, np.inf)
    for placed in parts:
        part, at = placed.part, slice(placed.offset, placed.offset + placed.part.size)
        rows = np.array([mine[c.name] for c in part.components], np.int64)
        columns = np.array([table.columns[name] for name in part.columns], np.int64)
        # a part lies row by row: component after component, each with all its columns
        lands[at] = (columns[None, :] * table.capacity + rows[:, None]).reshape(-1)
        period[at] = part.period
    columns_told = [name for placed in parts for name in set(placed.part.columns)]
    if len(columns_told) == len(set(columns_told)):
        return lands
    order = np.lexsort((np.arange(size), period))
    _, first = np.unique(lands[order], return_index=True)
    owner = np.zeros(size, np.bool_)
    owner[order[first]] = True
    return np.where(owner, lands, 0)


def _clear_unowned(table: Table, rows: NDArray[np.intp], lands: NDArray[np.int64]) -> None:
    """Cells of these rows that no part delivers any more are unknown."""
    columns = np.array([at for name, at in table.columns.items() if name not in table.own], np.int64)
    cells = (columns[:, None] * table.capacity + rows[None, :]).reshape(-1)
    table.flat[np.setdiff1d(cells, lands)] = np.nan
