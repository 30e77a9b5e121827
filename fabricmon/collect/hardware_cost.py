"""How many firmware commands a question costs, by driver. Pure.

Derived from the drivers' sources in Linux 6.12, not measured (counters-ib.md 5.1). A driver that is not here is
reckoned as mlx5, the most expensive one.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """Firmware commands for: one file of counters/; all hw_counters of a port; a port's state, asked once."""

    counter_file: int
    hw_refresh: int
    port_ib: int
    port_ethernet: int

    def port(self, link_layer: str) -> int:
        return self.port_ib if link_layer == "InfiniBand" else self.port_ethernet


_MLX5 = Cost(1, 3, 5, 2)
_COSTS = {
    "mlx5_core": _MLX5,
    "mlx4_core": Cost(1, 1, 1, 1),
    "efa": Cost(0, 5, 0, 0),
    "bnxt_en": Cost(1, 2, 0, 0),
    "irdma": Cost(0, 1, 0, 0),
    "ice": Cost(0, 1, 0, 0),
    "erdma": Cost(0, 1, 0, 0),
    "mana": Cost(0, 1, 0, 0),
    "ionic": Cost(0, 1, 0, 0),
    "hns3": Cost(0, 1, 0, 0),
    "hfi1": Cost(0, 0, 0, 0),
    "software": Cost(0, 0, 0, 0),
}


def cost_of(driver: str) -> Cost:
    return _COSTS.get(driver, _MLX5)
