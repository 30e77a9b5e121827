"""How many firmware commands a question to an interface's driver costs. Pure.

From counters-roce.md section 3.1 for mlx5's statistics, the rest from what each answer is made of in Linux 6.12; not
measured. A driver that is not here answers from memory or registers, as bnxt_en, ice and ionic do, or is software.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """Firmware commands for the answer to each question of `host.interfaces`, and for one file of hwmon.

    statistics  the values, and the names once: mlx5 asks its PFC and pause settings for "how many", names and values
    dcb         mlx5 asks class, group and bandwidth of each of eight classes one by one
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


_COSTS = {
    "mlx5_core": Cost(41, 2, 3, 1, 2, 30, 3, 1),
    "ena": Cost(statistics=1),
    "bnxt_en": Cost(link_state=1, module=1, temperature=1),
    "hns3": Cost(statistics=1, module=1),
    "ice": Cost(fec=1, module=8),
}


def cost_of(driver: str) -> Cost:
    return _COSTS.get(driver, Cost())
