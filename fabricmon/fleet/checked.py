"""Which components of each node were checked, and which could not be: their state or all their errors are unread.

What decides about a component has to be read lately (docs/methods.md#checked-components). Pure, NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue import CATALOGUE, Category
from fabricmon.catalogue.inventory import NONE_EXPECTED
from fabricmon.catalogue.technology import NUMBER, TECHNOLOGIES
from fabricmon.fleet import link
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.row_state import Bools, Numbers
from fabricmon.fleet.table import Table
from fabricmon.fleet.view import View
from fabricmon.model import Checked, CheckedNode, Kind, Unchecked

MAX_NAMED = 16
"""Components of one node that are named; all are counted."""

CARRIER_CHANGES = frozenset({"carrier_down_changes", "carrier_up_changes"})

_LAYER, _STATE, _ERRORS, _FILES, _REFUSED, _UNBOUND = 1, 2, 4, 8, 16, 32
_WORDS = {
    _LAYER: "link layer not read", _STATE: "state not read", _ERRORS: "no error counter read",
    _FILES: "speed or width not read", _UNBOUND: "no driver",
    _REFUSED: "reads of its counters are refused (permissions, else agent.exclude leaves it out)",
}  # fmt: skip
_SOURCES = tuple(TECHNOLOGIES.values())
_KINDS = len(_SOURCES)


class _Found(NamedTuple):
    """Components of one table: their rows, numbers of technologies, bits of _WORDS (0: checked), and how many links
    each of them stands for."""

    table: Table
    rows: Numbers
    technology: Numbers
    why: Numbers
    links: Numbers


def checked(fleet: Fleet, now: float) -> dict[str, CheckedNode]:
    """Every known node; one without components of a fabric has no counts."""
    found = [_ports(fleet, now), _gpus(fleet, now), _pcie(fleet, now)]
    size = _KINDS * (1 + max((node.number for node in fleet.nodes.values()), default=-1))
    known, unknown, links = (np.zeros(size, np.int64) for _ in range(3))
    unread: dict[int, list[Unchecked]] = {}
    for part in found:
        place = part.table.node[part.rows].astype(np.int64) * _KINDS + part.technology
        read = part.why == 0
        known += np.bincount(place[read], minlength=size)
        unknown += np.bincount(place[~read], minlength=size)
        np.add.at(links, place[read], part.links[read])
        for number, one in _named(part):
            unread.setdefault(number, []).append(one)
    by_node = np.stack([known, unknown, links], axis=1).reshape(-1, _KINDS, 3)
    data, width, alike = by_node.tobytes(), by_node.itemsize * _KINDS * 3, dict[bytes, tuple[Checked, ...]]()

    def counts(number: int) -> tuple[Checked, ...]:
        """Most nodes have the same ones."""
        key = data[number * width : (number + 1) * width]
        if key not in alike:
            alike[key] = _counted(by_node[number].tolist())
        return alike[key]

    named = {number: tuple(sorted(those)[:MAX_NAMED]) for number, those in unread.items()}
    labels = fleet.tables[Kind.NODE].labels
    return {
        name: CheckedNode(counts(node.number), named.get(node.number, ()), NONE_EXPECTED in labels[node.row])
        for name, node in fleet.nodes.items()
    }


def _counted(counts: Iterable[list[int]]) -> tuple[Checked, ...]:
    return tuple(
        Checked(technology.name, known, unknown, links)
        for technology, (known, unknown, links) in zip(_SOURCES, counts, strict=True) if known or unknown
    )  # fmt: skip


def _named(part: _Found) -> Iterator[tuple[int, Unchecked]]:
    """Node number and description of each component that was not checked."""
    for at in np.flatnonzero(part.why).tolist():
        row, why = int(part.rows[at]), int(part.why[at])
        words = ", ".join(text for bit, text in _WORDS.items() if why & bit)
        technology = _SOURCES[int(part.technology[at])].name
        yield int(part.table.node[row]), Unchecked(part.table.ids[row].name, technology, words)


def _ports(fleet: Fleet, now: float) -> _Found:
    """An RDMA port is checked by its own state, an interface by its carrier."""
    view = View(fleet.tables[Kind.PORT], now)
    n, facts = view.n, view.tracks.facts
    rows = np.flatnonzero(view.present & (facts.technology[:n] >= 0))
    technology = facts.technology[rows].astype(np.intp)
    of_interface = technology == NUMBER["ethernet"]
    carrier = _read(view, "carrier") | _read(view, "operstate")
    state = np.where(of_interface, carrier[rows], _read(view, "state")[rows])
    state &= view.tracks.link[rows] != link.UNKNOWN
    errors = np.zeros(len(rows), np.bool_)
    for number in np.unique(technology).tolist():
        mine = technology == number
        errors[mine] = _any_error(view, _SOURCES[number].sources)[rows[mine]]
    refused = view.value("supported")[rows] == 0
    why = np.where(facts.layered[rows], 0, _LAYER) + np.where(state, 0, _STATE)
    why += np.where(errors, 0, np.where(refused, _REFUSED, _ERRORS))
    return _Found(view.table, rows, technology, why, np.ones(len(rows), np.intp))


def _gpus(fleet: Fleet, now: float) -> _Found:
    """GPUs with NVLinks, also where their number is not known any more, and others whose driver reports faults."""
    view = View(fleet.tables[Kind.GPU], now)
    count = view.value("gpu_nvlinks")
    linked = (count > 0) | (np.isnan(count) & np.isfinite(view.age("gpu_nvlinks")))
    reports = _read(view, "gpu_recovery_action") | _read(view, "gpu_xid_events")
    rows = np.flatnonzero(view.present & (linked | reports))
    errors = _any_error(view, TECHNOLOGIES["nvlink"].sources)
    of_links = np.where(_read(view, "gpu_nvlinks_active"), 0, _STATE) + np.where(errors, 0, _ERRORS)
    why = np.where(linked, of_links, 0)
    links = np.nan_to_num(count[rows]).astype(np.intp)
    return _Found(view.table, rows, np.full(len(rows), NUMBER["nvlink"]), why[rows], links)


def _pcie(fleet: Fleet, now: float) -> _Found:
    """Links of which the machine shows speed or width; many virtual machines show neither. A device without a driver
    is unknown whatever its link."""
    view = View(fleet.tables[Kind.PCIE], now)
    n, of_fabric, unbound = view.n, fleet.pcie.technology[: view.n] >= 0, fleet.pcie.unbound[: view.n]
    shown = np.isfinite(view.value("pcie_path_width")) | np.isfinite(view.value("pcie_path_speed"))
    unread = (view.value("pcie_unread_files") > 0) | ~view.fresh("pcie_path_width")
    rows = np.flatnonzero(view.present & of_fabric & (shown | unread | unbound))
    why = np.where(unbound, _UNBOUND, np.where(unread, _FILES, 0))
    return _Found(view.table, rows, np.full(len(rows), NUMBER["pcie"]), why[rows], np.ones(n, np.intp)[rows])


def _read(view: View, column: str) -> Bools:
    """Rows with a recent value."""
    return np.isfinite(view.value(column)) & view.fresh(column)


def _any_error(view: View, sources: frozenset[str]) -> Bools:
    """Rows with a recent value of an error counter; changes of a carrier are states, not errors."""
    together: dict[int, list[str]] = {}  # columns that are read at the same times
    for column in view.table.columns:
        counter = CATALOGUE.get(column)
        if counter is not None and counter.source in sources and counter.category is Category.ERROR:
            together.setdefault(id(view.table.read_times(column)), []).append(column)
    found = np.zeros(view.n, np.bool_)
    for columns in together.values():
        numbers = np.logical_or.reduce([np.isfinite(view.value(c)) for c in columns if c not in CARRIER_CHANGES])
        found |= numbers & view.fresh(columns[0])
    return found

