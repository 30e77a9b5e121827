"""What an operator excludes is found by no collector, by name or by PCI address."""

from pathlib import Path

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol.hidden import Hidden
from tests.host.trees import build_hca_tree

infiniband = COLLECTORS["infiniband"]
infiniband_errors = COLLECTORS["infiniband_errors"]
infiniband_rare = COLLECTORS["infiniband_rare"]
infiniband_state = COLLECTORS["infiniband_state"]


def address(root: Path, device: str) -> str:
    return (root / f"class/infiniband/{device}/device").resolve().name


@pytest.mark.parametrize("by", ["name", "address", "wildcard"])
def test_an_excluded_adapter_is_found_by_no_collector(tmp_path: Path, by: str) -> None:
    build_hca_tree(tmp_path, devices=3)
    hide = {"name": "mlx5_1", "address": address(tmp_path, "mlx5_1"), "wildcard": "mlx5_[1]"}[by]
    host = LiveHost(str(tmp_path), hide=[hide])
    for module in (infiniband, infiniband_errors, infiniband_rare, infiniband_state):
        assert sorted(module.open(host, module.config()).sessions()) == ["mlx5_0", "mlx5_2"]
    assert address(tmp_path, "mlx5_0")
    assert "mlx5_1" not in host.list("/sys/class/infiniband/")


def test_other_directories_are_listed_whole(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = LiveHost(str(tmp_path), hide=["*"])
    assert host.list("/sys/class/infiniband") == []
    assert "counters" in host.list("/sys/class/infiniband/mlx5_0/ports/1")


def test_a_function_is_hidden_below_its_driver_too() -> None:
    hidden = Hidden(["0000:05:00.*"])
    names = ["0000:05:00.0", "0000:05:00.1", "0000:06:00.0", "bind"]
    assert hidden.keep("/sys/bus/pci/drivers/mlx5_core", names, lambda _: "") == ["0000:06:00.0", "bind"]
    assert hidden.keep("/sys/bus/pci/devices", names[:3], lambda _: "") == ["0000:06:00.0"]
