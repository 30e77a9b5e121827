"""`fabricmon topology show` for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabricmon.cli import main
from fabricmon.sim.dump import write
from fabricmon.sim.fabric import Fabric, Shape


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.txt"
    path.write_text(write(Fabric(Shape(nodes=16, rails=4, unit=8, spines=4)).graph))
    return path


def test_a_person_reads_counts_rails_and_that_nothing_is_odd(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "--strict", str(dump)]) == 0
    out = capsys.readouterr().out
    assert "12 switches, 16 hosts, 64 adapters, 128 links" in out
    assert "adapter-0  64     64 x 400 Gb/s" in out
    assert "su1   8      4       0 1 2 3" in out
    assert "nothing odd" in out


def test_a_program_reads_the_graph(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "--json", str(dump)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["version"] == 1
    assert len(said["adapters"]) == 64
    assert len(said["cables"]) == 128
    assert said["shape"]["kind"] == "rail-optimised"
    assert said["shape"]["confidence"] == 1.0
    assert {key: said["summary"][key] for key in ("switches", "hosts", "adapters", "links", "levels")} == {
        "switches": 12, "hosts": 16, "adapters": 64, "links": 128, "levels": {"0": 8, "1": 4},
    }  # fmt: skip
    assert said["summary"]["tiers"]["adapter-0"] == {"links": 64, "rates": {"400 Gb/s": 64}}
    assert said["summary"]["units"]["su1"]["rails"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    (origin,) = said["origins"]
    assert (origin["kind"], origin["path"], origin["role"]) == ("ibnetdiscover", str(dump), "live")


def test_several_files_are_one_fabric(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racks = tmp_path / "racks.yaml"
    racks.write_text("hosts:\n  host-[000-015]: {rack: r1}\n")
    assert main(["topology", "show", "--json", str(racks), str(dump)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [origin["kind"] for origin in said["origins"]] == ["ibnetdiscover", "yaml"]
    assert said["hosts"]["host-003"] == {"rack": "r1", "unit": "su0"}
    assert said["findings"] == []
    assert main(["topology", "show", str(racks), str(dump)]) == 0
    assert "16 hosts, 64 adapters, 128 links" in capsys.readouterr().out


def test_a_person_reads_the_shape(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(dump)]) == 0
    assert "rail-optimised two-level fat tree, single ToR: 100% sure" in capsys.readouterr().out


def test_a_bad_file_costs_itself_only(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.write_text("nothing\n")
    assert main(["topology", "show", str(bad), str(dump)]) == 2
    captured = capsys.readouterr()
    assert f"{bad}: not a topology" in captured.err
    assert "64 adapters" in captured.out


def test_strict_fails_on_a_finding(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump.write_text(dump.read_text().replace('"host-003 mlx5_1"', '"MT4129 ConnectX7   Mellanox Technologies"'))
    assert main(["topology", "show", str(dump)]) == 0
    assert main(["topology", "show", "--strict", str(dump)]) == 1
    assert "unnamed_adapter: 1 of 64 adapters" in capsys.readouterr().out
