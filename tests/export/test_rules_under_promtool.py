"""The exported rules on promtool: what must fire fires, what must not does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fabricmon.model import Kind
from fabricmon.rules import RULES, Rule
from fabricmon.rules.prometheus.rulefile import RulefileOptions, alert_name, groups
from tests.export.cases import CASES, FLOW, GPU, NODE, PCIE, PORT, promtool

OF = {Kind.PORT: PORT, Kind.GPU: GPU, Kind.PCIE: PCIE, Kind.NODE: NODE, Kind.FLOW: FLOW}
SAID = [rule for rule in RULES if rule.promql(rule.params()).alerts]


@pytest.mark.parametrize("rule", SAID, ids=lambda rule: rule.name)
def test_fires_on_the_fault_and_not_on_its_look_alike(rule: Rule, require, tmp_path: Path) -> None:
    tool = require("promtool", "tests rule files")
    cases = tuple(case for case in CASES if case.rule == rule.name)
    assert any(case.firing for case in cases), f"a case of {rule.name} that must fire, in tests/export/cases.py"
    assert any(not case.firing for case in cases), f"a case of {rule.name} that must not fire, in tests/export/cases.py"
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": groups([rule], {}, RulefileOptions())}))
    tests = promtool(cases, "rules.yml", alert_name(rule.name), OF[rule.table])
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    done = subprocess.run(
        [tool, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
