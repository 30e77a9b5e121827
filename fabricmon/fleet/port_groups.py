"""Ports by rail and by tier, the groups of a fabric's figures. Pure, NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.fleet.row_state import Bools, Floats, Numbers
from fabricmon.fleet.view import View
from fabricmon.forms.natural import natural

ADAPTERS = "adapter"
"""Name of the tier of hosts' own ports; those of cables between switches are named by their levels: "0-1"."""

Group = tuple[str, Numbers]
"""Name and rows, of ports that are present; there is one at least."""


class GroupSums:
    """Figures of many groups at once, from one value a row of the view; in the order of the groups."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.rows = np.concatenate([rows for _, rows in groups])
        self.sizes = [len(rows) for _, rows in groups]
        self._starts = np.cumsum([0, *self.sizes[:-1]])

    def total(self, of: Floats | Bools) -> Floats:
        return np.add.reduceat(of[self.rows].astype(np.float64), self._starts)

    def known(self, of: Floats) -> Floats:
        """The sum of what is known, NaN where nothing is."""
        known = np.isfinite(of)
        return np.where(self.total(known) > 0, self.total(np.where(known, of, 0.0)), np.nan)

    def mean(self, of: Floats) -> Floats:
        return self.known(of) / np.maximum(self.total(np.isfinite(of)), 1.0)

    def most(self, of: Floats) -> Floats:
        return np.asarray(np.fmax.reduceat(of[self.rows], self._starts))


def rails(view: View) -> list[Group]:
    """By name. Hosts' own ports only: a sweep's rows of the far ends would count each cable twice."""
    return _by_domain(view, "rail", ~_swept(view))


def tiers(view: View) -> list[Group]:
    """Hosts' ports that are on a rail or leaf, then the ports of cables between levels of switches by name."""
    placed = (view.group("rail") >= 0) | (view.group("leaf") >= 0)
    own = np.flatnonzero(placed & ~_swept(view) & view.present)
    return ([(ADAPTERS, own)] if len(own) else []) + _by_domain(view, "tier", _swept(view))


def _swept(view: View) -> Bools:
    return view.tracks.facts.swept[: view.n]


def _by_domain(view: View, domain: str, among: Bools) -> list[Group]:
    groups = view.group(domain)
    rows = np.flatnonzero(among & view.present & (groups >= 0))
    if not len(rows):
        return []
    rows = rows[np.argsort(groups[rows], kind="stable")]
    parts = np.split(rows, np.flatnonzero(np.diff(groups[rows])) + 1)
    named = ((view.group_name(domain, int(groups[part[0]])), part) for part in parts)
    return sorted(named, key=lambda group: natural(group[0]))
