"""A node of eight mlx5 ports asks its adapters for less than 100 firmware commands in 10 s, by the drivers' sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.cost import firmware
from tests.collect.nodes import build_dgx

ASKS = {
    "InfiniBand": {"infiniband", "infiniband_errors", "infiniband_rare", "infiniband_state", "optics"},
    "Ethernet": {"infiniband", "infiniband_errors", "infiniband_rare", "infiniband_state", "optics", "roce",
                 "ethernet_phy", "qos"},
}  # fmt: skip


@pytest.mark.parametrize("layer", ASKS)
def test_firmware_commands_at_the_defaults(tmp_path: Path, layer: str) -> None:
    build_dgx(tmp_path)
    queries, _ = firmware(tmp_path, layer)
    assert {name for name, number in queries.items() if number} == ASKS[layer], "asked"
    assert sum(queries.values()) <= 100
