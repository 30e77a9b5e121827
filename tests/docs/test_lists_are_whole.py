"""Lists that people wrote into the documents have all that the code has: flags, settings read at the start, rules that
PromQL cannot say, labels of alerts, an example of Kubernetes, and what `make docs` writes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from fabricmon.agent.app import AT_START as AGENT_AT_START
from fabricmon.central.app import AT_START as CENTRAL_AT_START
from fabricmon.model import Members
from fabricmon.notify.links import Links
from fabricmon.notify.told import face
from fabricmon.rules import RULES
from fabricmon.senders.alertmanager import OURS, Config, alert
from tests.docs.blocks import ROOT, blocks
from tests.notify.made import T0, incident

DOCS = ROOT / "docs"
EXAMPLE = ROOT / "deploy/kubernetes/overlays/example"


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    text = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no heading {heading!r}"
    return found[1]


def rows(text: str, names: str = r"`([^`]+)`") -> list[tuple[str, list[str]]]:
    """The rows of the tables in a text: the first cell, and what stands in backticks in it."""
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return [(cell, re.findall(names, cell)) for cell in cells if "`" in cell]


@pytest.mark.parametrize("daemon", ["agent", "central"])
def test_every_flag_of_a_daemon_has_its_row(daemon: str) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"fabricmon.commands.{daemon}").add_arguments(parser)
    (table,) = re.findall(rf"^\| `fabricmon {daemon}` \|.*?\n\n", section("config.md", "Flags") + "\n", re.M | re.S)
    told = set(re.findall(r"--[a-z.-]+", "".join(cell for cell, _ in rows(table))))
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert flags - told == {"--config"}
    assert told - flags == set()


def test_settings_that_are_read_at_the_start_are_named() -> None:
    text = section("config.md", "Reading it again")
    for daemon, row, known in (("central", "centre", CENTRAL_AT_START), ("agent", "agent", AGENT_AT_START)):
        (late,) = re.findall(rf"^\| {row} \| .*? \| (.*) \|$", text, re.MULTILINE)
        told = set(re.findall(rf"`{daemon}\.(\w+)`", late))
        assert told - {"web"} == set(known)


def test_rules_that_promql_cannot_say_are_named() -> None:
    unsaid = {rule.name for rule in RULES if not rule.translation(rule.params()).alerts}
    told = [name for _, names in rows(section("prometheus.md", "What a ruler cannot say")) for name in names]
    assert sorted(told) == sorted(unsaid)


def test_labels_and_annotations_of_alerts_are_told() -> None:
    text = section("receivers.md", "Alertmanager")
    labels, annotations = (
        {name for _, names in rows(table) for name in names} for table in text.partition("| annotation |")[::2]
    )
    assert labels == set(OURS)
    one = replace(incident(labels={"rack": "r7", "jobs": "train#1"}), candidates=("leaf-1",), members=Members(3, 32))
    made = alert(Config(urls=("http://am:9093",)), one, face(one), T0, Links("http://c", "", "http://grafana"))
    assert annotations == {re.sub("^label_.*", "label_NAME", name) for name in made["annotations"]}


@pytest.mark.parametrize("name", ["kustomization.yaml", "fabricmon.yaml"])
def test_the_example_of_kubernetes_is_the_one_that_is_there(name: str) -> None:
    shown = [block.text for block in blocks(DOCS / "kubernetes.md") if block.text.startswith(f"# {name}\n")]
    assert [yaml.safe_load(text) for text in shown] == [yaml.safe_load((EXAMPLE / name).read_text())]


def test_components_of_kubernetes_are_all_in_the_table_and_there() -> None:
    told = {name for _, names in rows(section("kubernetes.md", "An overlay")) for name in names}
    there = {path.name for path in (ROOT / "deploy/kubernetes/components").iterdir()}
    assert {name for name in told if "/" not in name} == there
    for name in told - there:
        assert (EXAMPLE / name / "kustomization.yaml").exists()


def test_make_docs_writes_all_that_must_be_current(require, tmp_path: Path) -> None:
    require("make", "says what `make docs` runs")
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    told = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    lines = told.stdout.replace("\\\n", " ").splitlines()
    steps = [line for line in lines if line.startswith(".venv/bin/fabricmon ")]
    for folder in ("docs", "fabricmon/manual", "deploy/kubernetes/components/prometheus-rules"):
        (tmp_path / folder).mkdir(parents=True)
    script = "\n".join(step.replace(".venv/bin/fabricmon", f"{sys.executable} -m fabricmon.cli", 1) for step in steps)
    subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    must = {"docs/rules.md", "docs/counters.md", "docs/runbooks/index.md", "fabricmon/manual/fabricmon.1",
            "deploy/kubernetes/components/prometheus-rules/rules.yaml", "dashboards/recording-rules.yml",
            *(str(path.relative_to(ROOT)) for path in (ROOT / "dashboards").glob("*.json"))}  # fmt: skip
    assert must - made == set()
    assert [name for name in sorted(made) if (tmp_path / name).read_text() != (ROOT / name).read_text()] == []
