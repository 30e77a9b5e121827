"""The exported rules on promtool: what must fire fires, what must not does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fabricmon.model import Kind
from fabricmon.rules import RULES, Rule
from fabricmon.rules.rulefile import Options, alert_name, groups
from tests.export.cases import CASES, FLOW, GPU, NODE, PCIE, PORT, promtool

OF = {Kind.PORT: PORT, Kind.GPU: GPU, Kind.PCIE: PCIE, Kind.NODE: NODE, Kind.FLOW: FLOW}
SAID = [rule for rule in RULES if rule.translation(rule.params()).alerts]


@pytest.mark.parametrize("rule", SAID, ids=lambda rule: rule.name)
def test_fires_on_the_fault_and_not_on_its_look_alike(rule: Rule, require, tmp_path: Path) -> None:
    tool = require("promtool", "tests rule files")
    cases = tuple(case for case in CASES if case.rule == rule.name)
    assert any(case.firing for case in cases), "no case that must fire"
    assert any(not case.firing for case in cases), "no case that must not fire"
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": groups([rule], {}, Options())}))
    tests = promtool(cases, "rules.yml", alert_name(rule.name), OF[rule.table])
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    done = subprocess.run(
        [tool, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
