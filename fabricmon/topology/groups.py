"""Groups of rows by fault domain: one group a row and domain, or many. Pure, NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

DOMAINS = (
    "link", "nic", "host", "leaf", "rail", "power", "tier", "pod", "plane", "network", "spine", "core",
    "module", "cage", "feed", "firmware", "board",
)  # fmt: skip
"""Domains of ports. No port is in a group of "spine" or "core": these come from the path of a flow. Of shared parts:
docs/methods.md#shared-parts."""


@dataclass(slots=True)
class Domains:
    """For n rows, per domain a group id.

    ids    domain -> int32[n], -1 where the row is in no known group of that domain
    names  domain -> names by group id: "host-007/mlx5_3/1, leaf-3/12" for a link, "su1/rail2" for a leaf
    about  domain -> per group id its details; for a leaf {"switch": "leaf-3", "guid": "0x...", "ports": number of its
           adapters, where cables are known}; above leaves see stages.py
    swept  bool[n]: the row is from a sweep of the fabric
    socket int32[n]: port number of the leaf that a row's cable ends at, -1 unknown
    """

    ids: dict[str, NDArray[np.int32]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    about: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    swept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    socket: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def group(self, domain: str, row: int) -> int:
        """The group of a row; -1 for none, also of a row that came later."""
        ids = self.ids.get(domain)
        return int(ids[row]) if ids is not None and row < len(ids) else -1

    def name(self, domain: str, row: int) -> str:
        """The name of that group, "" for none."""
        found = self.group(domain, row)
        return self.names[domain][found] if found >= 0 else ""

    def rail(self, row: int) -> str:
        """The rail of a row in all units: "3" where `name` is "su1/3"."""
        found = self.group("rail", row)
        return self.about["rail"][found].get("rail", self.names["rail"][found]) if found >= 0 else ""


class GroupNumbers:
    """Numbers the groups of one domain in the order they are met."""

    def __init__(self) -> None:
        self.ids = np.full(64, -1, np.int32)
        self.names: list[str] = []
        self.about: list[dict[str, str]] = []
        self._number: dict[object, int] = {}

    def number(self, key: object, name: str, about: dict[str, str] | None = None) -> int:
        """The number of a group, which may have no row yet."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.names)
            self.names.append(name)
            self.about.append(about or {})
        return number

    def put(self, row: int, key: object, name: str, about: dict[str, str] | None = None) -> None:
        self.ids[row] = self.number(key, name, about)

    def widen(self, rows: int) -> None:
        if rows > len(self.ids):
            more = np.full(max(rows, 2 * len(self.ids)) - len(self.ids), -1, np.int32)
            self.ids = np.concatenate((self.ids, more))


class Many:
    """Groups of n rows that may be in several of one domain, by compressed rows: those of row r are
    group[start[r]:start[r + 1]]."""

    def __init__(self, start: Ints, group: NDArray[np.int32]) -> None:
        self.start = start
        self.group = group

    def __len__(self) -> int:
        """Rows."""
        return len(self.start) - 1

    @cached_property
    def _members(self) -> tuple[Ints, Ints]:
        """Per group its rows: (start, row)."""
        row = np.repeat(np.arange(len(self)), np.diff(self.start))
        order = np.argsort(self.group, kind="stable")
        many = int(self.group.max(initial=-1)) + 1
        return np.searchsorted(self.group[order], np.arange(many + 1)), row[order]

    def members(self, group: int) -> Ints:
        start, row = self._members
        return row[start[group] : start[group + 1]] if 0 <= group < len(start) - 1 else row[:0]

    def groups_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The groups of some rows: (position in `rows`, group), one entry a pair."""
        at, entries = spans(self.start, rows)
        return at, self.group[entries].astype(np.int64)

    def without(self, rows: Ints) -> Many:
        """The same with some rows in no group; rows beyond the last are left out."""
        length = np.diff(self.start)
        keep = np.ones(len(self), np.bool_)
        keep[rows[rows < len(self)]] = False
        start = np.concatenate(([0], np.cumsum(np.where(keep, length, 0))))
        return Many(start, self.group[np.repeat(keep, length)])

    def count(self, groups: Ints, known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Number of known members of each of some groups."""
        start, row = self._members
        inside = (groups >= 0) & (groups < len(start) - 1)  # there may be no group with members
        at, entries = spans(start, groups[inside])
        found = np.zeros(len(groups))
        found[inside] = np.bincount(at, known[row[entries]], int(inside.sum()))
        return found


def spans(start: Ints, picked: Ints) -> tuple[Ints, Ints]:
    """Entries of some spans of a compressed array: (position in `picked`, entry)."""
    begin, length = start[picked], start[picked + 1] - start[picked]
    at = np.repeat(np.arange(len(picked)), length)
    shift = np.repeat(begin - np.concatenate(([0], np.cumsum(length)[:-1])), length) if len(picked) else begin
    return at, np.arange(int(length.sum())) + shift
