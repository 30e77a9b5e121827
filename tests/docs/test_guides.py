"""The guides for a collector and a rule work: their steps are applied to a copy of the project and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks

COLLECTOR, RULE = ROOT / "docs" / "write-a-collector.md", ROOT / "docs" / "write-a-rule.md"

pytestmark = pytest.mark.timeout(900)  # the guides are followed in a copy of the whole program


def follow(page: Path, project: Path) -> None:
    """Write the files of a guide and make its changes."""
    for block in blocks(page):
        if block.file:
            path = project / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "diff":
            change(block.text, project)


def change(diff: str, project: Path) -> None:
    """Apply each hunk where its other lines occur together, exactly once."""
    (name,) = re.findall(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE)
    path = project / name
    text = path.read_text()
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{name} does not contain exactly once:\n{before}"
        text = text.replace(before, after)
    path.write_text(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program in which both guides were followed."""
    copy = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "fabricmon", copy / "fabricmon", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    follow(COLLECTOR, copy)
    follow(RULE, copy)
    return copy


DONE = """
import contextlib, faulthandler, io, json, os, pytest
faulthandler.dump_traceback_later(700, exit=True)
from fabricmon.cli import main

output, result = io.StringIO(), {}
with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
    own = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", "temporary"]
    result["tests"] = int(pytest.main([*own, "tests"]))
    result["check"] = main(["check", "--direct", "--config", "limits.yaml", "--path.sysfs", os.path.abspath("sys")])
    result["docs"] = main(["docs", "--write", "docs"])
print(json.dumps(result | {"output": output.getvalue()}))
"""
"""One interpreter for all steps in the copy: importing the program takes most of the time. A step that does not end is
shown with the stack of each thread. The inner tests have their own temporary folder: pytest removes those of others."""


@pytest.fixture(scope="module")
def done(project: Path) -> dict[str, Any]:
    """Results of the guides' tests, of a check on a node without the module, and of generating the documents."""
    (project / "sys/bus/pci/drivers/nvidia/0000:17:00.0").mkdir(parents=True)
    (project / "limits.yaml").write_text("rules: {peermem_missing: {hold: 0s}}\n")
    texts = project / "fabricmon/runbooks/text"
    shutil.copy(texts / "expected_inventory.md", texts / "peermem_missing.md")
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environ["PYTHONPATH"] = str(project)
    run = subprocess.run(
        [sys.executable, "-c", DONE], cwd=project, env=environ, capture_output=True, text=True, timeout=800, check=False
    )
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def test_the_tests_of_the_guides_pass(done: dict[str, Any]) -> None:
    assert done["tests"] == 0, done["output"]
    assert "5 passed" in done["output"]


def test_a_node_is_evaluated_by_the_added_rule(done: dict[str, Any]) -> None:
    assert "nvidia_peermem is not loaded" in done["output"]


def test_the_additions_are_documented(done: dict[str, Any], project: Path) -> None:
    assert done["docs"] == 0
    assert "fabricmon_node_peermem_loaded" in (project / "docs/counters.md").read_text()
    assert "rules.peermem_missing.hold" in (project / "docs/runbooks/peermem_missing.md").read_text()


@pytest.mark.parametrize("page", [COLLECTOR, RULE], ids=lambda page: page.stem)
def test_they_are_written_as_the_project_is(page: Path, project: Path) -> None:
    files = [block.file for block in blocks(page) if block.file.startswith("fabricmon/")]
    assert files
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "-q", *files], cwd=project, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
