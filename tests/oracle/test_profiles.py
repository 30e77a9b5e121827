"""What the comparison with NVIDIA's mocks expects and says, without the mocks (`make oracle` runs them)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.oracle.__main__ import compare
from tests.oracle.profiles import gpu_rows, port_rows


def profile(**changes: Any) -> dict[str, Any]:
    pcie = {"current_link_gen": 5, "max_link_gen": 5, "current_link_width": 16, "max_link_width": 16,
            "replay_counter": 0}  # fmt: skip
    return {
        "system": {"driver_version": "570.0"},
        "device_defaults": {"name": "G", "pcie": pcie, "fabric": {"cluster_uuid": "c", "clique_id": 2}},
        "devices": [{"index": n, "uuid": f"GPU-{n}", "pci": {"bus_id": f"0000:1{n}:00.0"}} for n in range(2)],
        "nvlink": {"version": 5, "links_per_gpu": 3, "bandwidth_per_link_mbps": 53125, "switches": [{"bdf": "x"}]},
        "infiniband": {"hcas_per_gpu": 1, "guid_prefix": "A0:88c2:0300", "link_layer": "InfiniBand", "fw_version": "1",
                       "board_id": "B", "hca_type": "H", "port_state": "ACTIVE", "phys_state": "LinkUp",
                       "rate_gbps": 400},
    } | changes  # fmt: skip


def test_a_profile_in_words_of_our_rows() -> None:
    rows = gpu_rows(profile())
    assert sorted(rows) == ["gpu0", *(f"gpu0/link{n}" for n in range(3)), "gpu1", *(f"gpu1/link{n}" for n in range(3))]
    assert rows["gpu1"]["pci"] == "0000:11:00.0"
    assert (rows["gpu1"]["gpu_fabric_health_verdict"], rows["gpu1"]["clique"]) == (1, "2")
    assert rows["gpu0/link2"]["nvlink_speed"] == 53.125e9
    ports = port_rows(profile(), 2, "n1")
    assert ports["mlx5_1/1"]["rate"] == 50e9
    assert ports["mlx5_1/1"]["guids begin with"] == "a088:c203"


def test_every_difference_is_named_and_explained_ones_are_counted_apart() -> None:
    told = {"a": {"x": 1.0, "more": 5}, "b": {}}
    found = compare({"a": {"x": 1, "y": None, "z": 2, "netdev": None}, "c": {}}, told)
    assert (found.equal, found.only_read, dict(found.explained)) == (3, 1, {})
    assert found.different == ["b: read, and not in the profile", "c: not read", "a z: read None, the profile says 2"]
    assert dict(compare({"a": {"netdev": None}}, {"a": {"netdev": "1"}}).explained) == {"netdev": 1}


def test_without_a_checkout_that_is_built_it_says_what_is_missing(tmp_path: Path) -> None:
    for arguments, words in (([], "use: make oracle MOCK="), ([str(tmp_path)], "libnvidia-ml.so.1 is not built")):
        done = subprocess.run([sys.executable, "-m", "tests.oracle", *arguments], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
