"""Firmware commands of questions to RDMA devices and interfaces, by driver. Pure.

Derived from the drivers' sources in Linux 6.12, not measured, except mlx5's statistics
(docs/methods.md#firmware-commands).
"""

from __future__ import annotations

from typing import NamedTuple


class AdapterCost(NamedTuple):
    """Firmware commands for: one file of counters/; all hw_counters of a port; a port's state, asked once."""

    counter_file: int
    hw_refresh: int
    port_ib: int
    port_ethernet: int

    def port(self, link_layer: str) -> int:
        return self.port_ib if link_layer == "InfiniBand" else self.port_ethernet


_MLX5 = AdapterCost(1, 3, 5, 2)
_ADAPTERS = {
    "mlx5_core": _MLX5,
    "mlx4_core": AdapterCost(1, 1, 1, 1),
    "efa": AdapterCost(0, 5, 0, 0),
    "bnxt_en": AdapterCost(1, 2, 0, 0),
    "irdma": AdapterCost(0, 1, 0, 0),
    "ice": AdapterCost(0, 1, 0, 0),
    "erdma": AdapterCost(0, 1, 0, 0),
    "mana": AdapterCost(0, 1, 0, 0),
    "ionic": AdapterCost(0, 1, 0, 0),
    "hns3": AdapterCost(0, 1, 0, 0),
    "hfi1": AdapterCost(0, 0, 0, 0),
    "software": AdapterCost(0, 0, 0, 0),
}


def adapter_cost(driver: str) -> AdapterCost:
    """Unknown drivers count as mlx5, the most expensive one."""
    return _ADAPTERS.get(driver, _MLX5)


class InterfaceCost(NamedTuple):
    """Firmware commands for the answer to each question of `host.interfaces`, and for one file of hwmon.

    statistics  the values, and the names twice: mlx5 reads its PFC and pause settings for each count, names and values
    dcb         mlx5 reads class, group and bandwidth of each of eight classes one by one
    module      one piece of 128 bytes; mlx5 fetches 48 a command
    """

    statistics: int = 0
    standard: int = 0
    fec: int = 0
    link_state: int = 0
    pause: int = 0
    dcb: int = 0
    module: int = 0
    temperature: int = 0


_INTERFACES = {
    "mlx5_core": InterfaceCost(43, 2, 3, 1, 2, 30, 3, 1),
    "ena": InterfaceCost(statistics=1),
    "bnxt_en": InterfaceCost(link_state=1, module=1, temperature=1),
    "hns3": InterfaceCost(statistics=1, module=1),
    "ice": InterfaceCost(fec=1, module=8),
}


def interface_cost(driver: str) -> InterfaceCost:
    """Unknown drivers count as free: most answer from memory or registers, as bnxt_en and ionic do, or are software."""
    return _INTERFACES.get(driver, InterfaceCost())
