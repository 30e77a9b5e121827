"""The rows of a node from its inventory. Pure.

Components of several collectors meet in one row by name. A component that left the inventory keeps its row, marked as
gone, so that rules see its absence; one that the node lists as removed on purpose keeps none. A column without a name
lands nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.layout import KindLayout, Landing
from fabricmon.fleet.table import Table
from fabricmon.model import Kind, Part, row_id

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
    table: Table, node: str, number: int, mine: dict[str, int], parts: Sequence[Part], layout: KindLayout, start: int,
    now: float, known_absence: bool, removed: frozenset[str] = frozenset(),
) -> bool:
    """Bring the table in line with one node's parts of its kind.

    mine           rows of that node by component name; changed in place
    layout         of these parts, the first of which has the clock `start`
    known_absence  a missing component is gone (False: perhaps its collector was only turned off)
    removed        devices that were removed on purpose

    Returns whether hardware came back or was changed.
    """
    labels = _facts(parts)
    former = _compare(table, node, mine, labels, now, known_absence, removed) if mine else ()
    renewed = _renew(table, mine, [name for name in former if name in labels], labels, now)
    new = [name for name in labels if name not in mine] if former else list(labels)
    if new:
        kind = table.kind
        mine.update(zip(new, table.add(number, [row_id(kind, node, name, labels[name]) for name in new],
                                       [labels[name] for name in new]), strict=True))  # fmt: skip
    if former:
        table.part_of[:, np.array(list(mine.values()), np.intp)] = 0
    if parts:
        rows = layout.rows(mine)
        table.part_of[layout.sources, rows[layout.supplied]] = layout.clocks + start
    if former:
        lands = layout.landing(table).cells(table, mine) if parts else np.zeros(0, np.int64)
        _clear_unowned(table, np.array([mine[name] for name in former], np.intp), lands)
    return renewed


def _compare(
    table: Table, node: str, mine: dict[str, int], labels: Mapping[str, dict[str, str]], now: float,
    known_absence: bool, removed: frozenset[str],
) -> tuple[str, ...]:
    """Rename and leave the rows that the node had before. Returns the names of those that it still has."""
    _follow_names(table, node, mine, labels)
    # What left goes first, so that its rows are there for what came: names that always change need no more rows.
    for name, row in mine.items():
        if name and name not in labels and table.present[row]:  # the row "" is the node itself
            table.leave(row, now, known_absence)
    drop(table, mine, [n for n, row in mine.items() if n not in labels and is_removed(n, table.labels[row], removed)])
    _forget_oldest(table, mine)
    return tuple(mine)


def _renew(
    table: Table, mine: Mapping[str, int], names: Sequence[str], labels: Mapping[str, dict[str, str]], now: float
) -> bool:
    """Give rows that the node had before the labels of now. Returns whether counters of some began anew."""
    renewed = [mine[name] for name in names if _epoch(table, mine[name], labels[name])]
    if renewed:
        rows = np.array(renewed, np.intp)
        table.restart(rows)
        table.begun[rows] = table.reset[rows] = now
    for name in names:
        row, facts = mine[name], labels[name]
        if not table.present[row]:
            table.enter(row)
        if table.labels[row] != facts:
            table.relabel(row, dict(facts) if table.kind is Kind.NODE else facts)  # a node's presence is added
    return bool(renewed)


def _facts(parts: Sequence[Part]) -> dict[str, dict[str, str]]:
    """Labels of each component, of all its parts: those of one part where it has them all, which other nodes share."""
    found: dict[str, dict[str, str]] = {}
    for component in (component for part in parts for component in part.components):
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


def _follow_names(table: Table, node: str, mine: dict[str, int], labels: Mapping[str, dict[str, str]]) -> None:
    """Rename the rows of hardware that came back under another name."""
    lost = {serial(table.labels[row]): name for name, row in mine.items() if name not in labels}
    lost.pop("", None)
    if not lost:
        return
    for name, facts in labels.items():
        former = lost.get(serial(facts)) if name not in mine else None
        if former is not None and former in mine:
            row = mine[name] = mine.pop(former)
            table.rename(row, row_id(table.kind, node, name, facts))


def _epoch(table: Table, row: int, facts: dict[str, str]) -> bool:
    """Whether a row's counters began anew: other hardware or firmware, or the same one back after it was gone."""
    if not table.present[row]:
        return True
    before = table.labels[row]
    return any(
        before.get(label) and facts.get(label) and before[label] != facts[label] for label in (*IDENTITY, "firmware")
    )


def _clear_unowned(table: Table, rows: NDArray[np.intp], lands: Landing) -> None:
    """Set the cells of these rows that no part delivers any more to unknown."""
    columns = np.array([at for name, at in table.columns.items() if name not in table.own], np.int64)
    if not len(columns):
        return
    cells = (columns[:, None] * table.capacity + rows[None, :]).reshape(-1)
    table.flat[np.setdiff1d(cells, lands)] = np.nan
