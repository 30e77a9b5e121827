"""Load and errors of ports on the map: one character per cell, in the order of the layout. Pure.

"." no port, "?" unknown, else the level: the number of limits that the value has reached.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.central.page.map_layout import FabricMap
from fabricmon.fleet.row_state import Floats

LIMITS = {"load": (0.01, 0.25, 0.5, 0.75, 0.9), "errors": (1.0, 10.0, 100.0, 1000.0)}
"""Lower limits of the levels 1, 2, ...: the higher of Rx and Tx utilisation; errors counted in the present and the last
five minutes, by powers of ten."""

WORDS = {
    "load": ("below 1 %", "1 to 25 %", "25 to 50 %", "50 to 75 %", "75 to 90 %", "90 % and more"),
    "errors": ("no errors", "1 to 9", "10 to 99", "100 to 999", "1,000 and more"),
}
"""Words of the levels, for the legend."""


def map_levels(plan: FabricMap, generation: NDArray[np.int64], load: Floats, errors: Floats) -> dict[str, Any]:
    """As JSON. `load` and `errors` are of all PORT rows, NaN unknown; `generation` of the table."""
    moved = (plan.rows >= 0) & (plan.generation != np.append(generation, -1)[plan.rows])
    found = {}
    for name, values in (("load", load), ("errors", errors)):
        known = np.full(len(generation) + 1, np.nan)
        known[: min(len(values), len(generation))] = values[: len(generation)]
        cells = known[plan.rows]
        levels = np.searchsorted(LIMITS[name], cells, side="right") + ord("0")
        levels[np.isnan(cells) | moved] = ord("?")
        levels[plan.rows < 0] = ord(".")
        found[name] = levels.astype(np.uint8).tobytes().decode()
    return found
