"""What a stranger may get wrong in a scenario file, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.sim.scenarios.scenario import Severity
from fabricmon.simulate.scenario_file import ScenarioFileError, load, parse

GOOD = """\
name: pulled
fabric: {shape: rail-optimised, sizes: {units: 2, hosts: 4}}
duration: 3m
timeline:
  - fault: link_down
    at: 1m30s
    where: host-003/mlx5_1/1
    name: pull
expect:
  required:
    - kind: link_down
      component: link(host-003/mlx5_1/1)
      severity: warning
      of: pull
      by: 30s
  only: true
"""


def test_a_file_becomes_a_scenario() -> None:
    scenario = parse(GOOD)
    assert scenario.duration == 180
    assert scenario.timeline[0].at == 90
    required = scenario.expect.required[0]
    assert (required.fault, required.by, required.severity) == ("pull", 30, Severity.WARNING)


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("duration: 3m", "duration: 3", 3, ["duration", "expected a duration such as"]),
    ("duration: 3m", "durations: 3m", 3, ["durations", "did you mean 'duration'"]),
    ("by: 30s", "by: soon", 15, ["expect.required[0].by", "duration"]),
    ("by: 30s", "bye: 30s", 15, ["expect.required[0].bye", "did you mean 'by'"]),
    ("severity: warning", "severity: urgent", 13, ["expect.required[0].severity"]),
    ("of: pull", "of: push", 14, ["expect.required[0].of", "push"]),
    ("fault: link_down", "fault: link_dawn", 5, ["timeline[0].fault", "did you mean 'link_down'"]),
    ("shape: rail-optimised", "shape: rail-optimized", 2, ["fabric.shape", "rail-optimised"]),
    ("hosts: 4", "hosts: [4]", 2, ["fabric.sizes"]),
    ("name: pull\n", "name: pull\n    with: {lanes: 3}\n", 9, ["timeline[0].with.lanes"]),
    ("  only: true", "  only: true\n  only: false", 17, ["only", "twice"]),
    ("duration: 3m", "duration: [3m", 4, []),
    ("kind: link_down", "kind: [1]", 11, ["expect.required[0].kind"]),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, line: int, words: list[str]) -> None:
    with pytest.raises(ScenarioFileError) as caught:
        parse(GOOD.replace(old, new, 1), "my.yaml")
    said = str(caught.value)
    assert said.startswith(f"my.yaml:{line}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="cannot be read: No such file"):
        load(tmp_path / "absent.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ScenarioFileError, match="UTF-8"):
        load(tmp_path / "bytes.yaml")
    with pytest.raises(ScenarioFileError):
        parse("")
