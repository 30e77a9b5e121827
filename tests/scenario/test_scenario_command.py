"""`fabricmon scenario` as a person uses it, and every example of its document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fabricmon import cli
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import SHAPES
from fabricmon.sim.scenarios.run import run
from fabricmon.sim.traffic import PATTERNS
from fabricmon.simulate.scenario_file import parse

DOCUMENT = Path(__file__).parents[2] / "docs" / "scenarios.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
PULLED = EXAMPLES[0]


@pytest.mark.parametrize("example", EXAMPLES, ids=[text.split()[1] for text in EXAMPLES])
def test_every_example_of_the_document_comes_out_as_it_says(example: str) -> None:
    result = run(parse(example))
    assert result.ok, result


@pytest.mark.parametrize("names", [FAULTS, SHAPES, PATTERNS], ids=["faults", "shapes", "patterns"])
def test_the_document_knows_every_name_that_a_file_may_use(names: dict[str, object]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_a_run_prints_a_line_and_a_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pulled.yaml").write_text(PULLED)
    assert cli.main(["scenario", "run", str(tmp_path / "pulled.yaml"), "--seeds", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out[:2]] == ["ok   cable-pulled seed 1", "ok   cable-pulled seed 2"]
    assert out[2].startswith("2 of 2 runs as expected: 2 of 2 required found, 0 missed")


def test_json_is_one_object_a_run_and_a_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pulled.yaml").write_text(PULLED)
    assert cli.main(["scenario", "run", str(tmp_path / "pulled.yaml"), "--json", "--seed", "3"]) == 0
    result, total = map(json.loads, capsys.readouterr().out.splitlines())
    assert (result["scenario"], result["seed"], result["ok"], len(result["found"])) == ("cable-pulled", 3, True, 1)
    assert total["runs"] == total["ok"] == 1


def test_a_run_that_was_broken_off_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pulled.yaml").write_text(PULLED)
    command = ["scenario", "run", str(tmp_path / "pulled.yaml"), "--keep", str(tmp_path / "runs.jsonl")]
    assert cli.main([*command, "--seeds", "1"]) == 0
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"scenario": "cable-pulled", "se')  # killed while it wrote
    capsys.readouterr()
    assert cli.main([*command, "--seeds", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out] == ["ok   cable-pulled seed 2", out[1].split(":")[0]]
    assert out[1].startswith("2 of 2 runs as expected")


def test_what_is_not_as_expected_is_exit_1_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(PULLED.replace("component: link(host-003", "component: link(host-002"))
    assert cli.main(["scenario", "run", str(file)]) == 1
    out = capsys.readouterr().out
    assert "MISSED link_down link(host-002/mlx5_1/1): never opened; instead: link_down link(host-003/mlx5_1/1" in out
    assert "FALSE nothing else: link_down link(host-003/mlx5_1/1" in out


def test_a_file_that_cannot_be_used_is_exit_2_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pulled.yaml").write_text(PULLED)
    (tmp_path / "place.yaml").write_text(PULLED.replace("where: host-003", "where: host-903"))
    assert cli.main(["scenario", "run", str(tmp_path / "pulled.yaml"), str(tmp_path / "absent.yaml")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "absent.yaml: cannot be read" in captured.err
    assert cli.main(["scenario", "run", str(tmp_path / "place.yaml")]) == 2
    assert "timeline[0]" in capsys.readouterr().err


def test_the_table_says_how_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pulled.yaml").write_text(PULLED)
    table = tmp_path / "accuracy.md"
    assert cli.main(["scenario", "run", str(tmp_path / "pulled.yaml"), "--table", str(table)]) == 0
    text = table.read_text()
    assert f"fabricmon scenario run {tmp_path / 'pulled.yaml'} --seed 1 --table {table}" in text
    assert "| cable-pulled | 1 of 1 | 1 of 1 |" in text
    capsys.readouterr()


def test_one_seed_gives_one_result(tmp_path: Path) -> None:
    scenario = parse(PULLED)
    first, again, other = run(scenario, 1), run(scenario, 1), run(scenario, 2)
    assert first.incidents == again.incidents
    assert first.incidents != other.incidents


def test_the_packages_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scenario", "list"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) >= 28
    assert out[0].startswith("s01-single-cable-flap: One cable drops")
