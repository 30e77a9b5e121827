"""The guides for a collector and a rule work as they stand: what they say is done to a copy of the project, and run."""

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
    """Each hunk's new lines go where its other lines stand together, exactly once."""
    (name,) = re.findall(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE)
    path = project / name
    text = path.read_text()
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{name} has not, or not once:\n{before}"
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
import contextlib, io, json, os, pytest
from fabricmon.cli import main

said, result = io.StringIO(), {}
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    result["tests"] = int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"]))
    result["check"] = main(["check", "--direct", "--config", "limits.yaml", "--path.sysfs", os.path.abspath("sys")])
    result["docs"] = main(["docs", "--write", "docs"])
print(json.dumps(result | {"said": said.getvalue()}))
"""
"""One interpreter for all that is run in the copy: importing the program is what takes the time."""


@pytest.fixture(scope="module")
def done(project: Path) -> dict[str, Any]:
    """What came of the tests of the guides, of a check on a node without the module, and of making the documents."""
    (project / "sys/bus/pci/drivers/nvidia/0000:17:00.0").mkdir(parents=True)
    (project / "limits.yaml").write_text("rules: {peermem_missing: {hold: 0s}}\n")
    texts = project / "fabricmon/runbooks/text"
    shutil.copy(texts / "expected_inventory.md", texts / "peermem_missing.md")
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environ["PYTHONPATH"] = str(project)
    run = subprocess.run(
        [sys.executable, "-c", DONE], cwd=project, env=environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def test_the_tests_of_the_guides_pass(done: dict[str, Any]) -> None:
    assert done["tests"] == 0, done["said"]
    assert "5 passed" in done["said"]


def test_a_node_is_judged_by_what_they_added(done: dict[str, Any]) -> None:
    assert "nvidia_peermem is not loaded" in done["said"]


def test_what_they_added_is_documented(done: dict[str, Any], project: Path) -> None:
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
