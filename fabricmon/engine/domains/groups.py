"""Groups of the rows of one table: which link, adapter, host, leaf or rail each row is in. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricmon.topology.groups import Many

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int32]
"""Group numbers of rows, -1 none."""


@dataclass(slots=True)
class Groups:
    """Group ids of the rows of one table. The same domain has one numbering in all tables.

    ids   domain -> int32[n], -1 none
    many  domain -> groups of rows that may be in several of it, as a flow is; such a domain is not in `ids`
    choice  domain of which each group was chosen among others -> float[groups], nats that the choice costs
    """

    ids: Mapping[str, Ids]
    many: Mapping[str, Many] = field(default_factory=dict)
    choice: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        first = next(iter(self.ids.values()), None)
        return len(first) if first is not None else len(next(iter(self.many.values()), ()))

    def __contains__(self, domain: str) -> bool:
        return domain in self.ids or domain in self.many


def mask_of(rows: Ints, n: int) -> Mask:
    found = np.zeros(n, np.bool_)
    found[rows] = True
    return found


def planes_of(groups: Groups, islands: Ids | None) -> Ints:
    """A number for each part of the fabric within which losses of one fault stay: plane, else a leaf that is joined to
    no other, else network, else -1."""
    plane, network = groups.ids["plane"], groups.ids["network"]
    first = int(plane.max(initial=-1)) + 1
    found = np.where(plane >= 0, plane, np.where(network >= 0, first + network, -1)).astype(np.int64)
    return found if islands is None else np.where(islands >= 0, found.max(initial=-1) + 1 + islands, found)
