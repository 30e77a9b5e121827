"""State of a link from all sources: RDMA state, physical state, carrier, administrative state. Pure.

On InfiniBand the port's own state decides (docs/methods.md#link-state). RoCE drivers derive theirs from the network
interface, a bonded one follows the bond and EFA is always active: there a missing carrier decides. For a plain
interface its carrier, else its operational state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import Table

UNKNOWN, DOWN, UP, ORDERED, INIT = -1, 0, 1, 2, 3
"""ORDERED: administratively down. INIT: the cable is fine, the subnet manager has not configured the port."""

NAMES = {UNKNOWN: "unknown", DOWN: "down", UP: "up", ORDERED: "administratively down", INIT: "initialising"}

COLUMNS = ("state", "phys_state", "carrier", "operstate", "admin_up")

_LINK_UP, _DISABLED = 5, 3
_BY_STATE = np.array([UNKNOWN, DOWN, INIT, INIT, UP, UP, UNKNOWN, UNKNOWN], np.int8)  # nop down init armed active defer
_BY_OPERSTATE = np.array([UNKNOWN, DOWN, DOWN, DOWN, UNKNOWN, UNKNOWN, UP, UNKNOWN], np.int8)
_NONE = 7  # code of "unknown" in the two tables above


def _code(values: NDArray[np.float64] | None, n: int) -> NDArray[np.int8]:
    """Small state numbers; what is unknown or out of range becomes _NONE."""
    if values is None:
        return np.full(n, _NONE, np.int8)
    return np.where((values >= 0) & (values < _NONE), values, _NONE).astype(np.int8)


def classify(table: Table, infiniband: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The state of each row. `infiniband`: the row's link layer is InfiniBand."""
    n = table.n
    state, phys, carrier, oper, admin = (_code(table.values(name), n) for name in COLUMNS)
    rdma = _BY_STATE[state]
    rdma[(rdma == INIT) & (phys != _LINK_UP) & (phys != _NONE)] = DOWN
    plain = np.where(carrier == 1, np.int8(UP), _BY_OPERSTATE[oper])
    other = np.where(state == _NONE, plain, rdma)
    other[carrier == 0] = DOWN
    other[admin == 0] = ORDERED
    rdma[(rdma == DOWN) & (phys == _DISABLED)] = ORDERED
    return np.where(infiniband, rdma, other)
