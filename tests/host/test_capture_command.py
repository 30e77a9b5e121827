"""`fabricmon capture` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.cli import main
from fabricmon.collect import COLLECTORS
from fabricmon.host.recorded import RecordedHost
from tests.host.trees import build_hca_tree

infiniband = COLLECTORS["infiniband"]


def test_a_captured_tree_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = build_hca_tree(tmp_path / "sys", devices=3)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    file = tmp_path / "host.gz"
    roots = ["--path.sysfs", str(tmp_path / "sys"), "--path.procfs", str(tmp_path / "proc")]
    assert main(["capture", "-o", str(file), "--anonymise", *roots]) == 0
    assert str(file) in capsys.readouterr().out
    sessions = infiniband.open(RecordedHost(str(file)), infiniband.config()).sessions()
    assert sorted(sessions) == ["mlx5_0", "mlx5_1", "mlx5_2"]
    reading = sessions["mlx5_2"].read()
    at = reading.parts[0].columns.index("xmit")
    assert reading.values[at] == 4 * values["/sys/class/infiniband/mlx5_2/ports/1/counters/port_xmit_data"]


def test_what_the_configuration_excludes_is_not_touched(tmp_path: Path) -> None:
    build_hca_tree(tmp_path / "sys", devices=2)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("x\n")
    config = tmp_path / "fabricmon.yaml"
    config.write_text("agent: {exclude: [mlx5_0]}\n")
    roots = ["--path.sysfs", str(tmp_path / "sys"), "--path.procfs", str(tmp_path / "proc"), "--config", str(config)]
    assert main(["capture", "-o", str(tmp_path / "host.gz"), *roots]) == 0
    again = RecordedHost(str(tmp_path / "host.gz"))
    asked = [p for p in (*again.archive.numbers, *again.archive.reads) if "mlx5_0/ports/1/counters" in p]
    assert asked == []


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sys").mkdir()
    assert main(["capture", "-o", str(tmp_path / "no/host.gz"), "--path.sysfs", str(tmp_path / "sys")]) == 1
    assert "no/host.gz" in capsys.readouterr().err
