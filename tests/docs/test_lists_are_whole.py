"""Hand-written lists of the documents are complete: flags, settings that need a restart, rules without
PromQL, labels of alerts, the Kubernetes example, and the output of `make docs`."""

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
from fabricmon.central.reload import AT_START as CENTRAL_AT_START
from fabricmon.model import Impact, Members
from fabricmon.notify.last_notification import face_of
from fabricmon.notify.links import IncidentLinks
from fabricmon.rules import RULES
from fabricmon.senders import CONFIGS as SENDER_KINDS
from fabricmon.senders.alertmanager import OURS, AlertmanagerConfig, alert
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
    named = set(re.findall(r"--[a-z.-]+", "".join(cell for cell, _ in rows(table))))
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert flags - named == {"--config"}
    assert named - flags == set()


def test_settings_that_need_a_restart_are_named() -> None:
    text = section("config.md", "Reload")
    for daemon, row, known in (("central", "central server", CENTRAL_AT_START), ("agent", "agent", AGENT_AT_START)):
        (late,) = re.findall(rf"^\| {row} \| .*? \| (.*) \|$", text, re.MULTILINE)
        named = set(re.findall(rf"`{daemon}\.(\w+)`", late))
        assert named - {"web"} == set(known)


def test_rules_without_promql_are_named() -> None:
    unsaid = {rule.name for rule in RULES if not rule.promql(rule.params()).alerts}
    named = [name for _, names in rows(section("prometheus.md", "Rules without PromQL")) for name in names]
    assert sorted(named) == sorted(unsaid)


def test_every_kind_of_sender_has_its_row() -> None:
    named = re.findall(r"^\| \[`(\w+)`\]", (DOCS / "receivers.md").read_text(), re.MULTILINE)
    assert set(SENDER_KINDS) ^ set(named) == set(), "in the table of docs/receivers.md"


def test_labels_and_annotations_of_alerts_are_documented() -> None:
    text = section("receivers.md", "Alertmanager")
    labels, annotations = (
        {name for _, names in rows(table) for name in names} for table in text.partition("| annotation |")[::2]
    )
    assert labels == set(OURS)
    one = incident(labels={"rack": "r7", "jobs": "train#1"}, impact=Impact("known", "slurm", T0))
    one = replace(one, candidates=("leaf-1",), members=Members(3, 32))
    links = IncidentLinks("http://c", "", "http://grafana", "a")
    made = alert(AlertmanagerConfig(urls=("http://am:9093",)), one, face_of(one), T0, links)
    assert annotations == {re.sub("^label_.*", "label_NAME", name) for name in made["annotations"]}


@pytest.mark.parametrize("name", ["kustomization.yaml", "fabricmon.yaml"])
def test_the_example_of_kubernetes_is_the_one_that_is_there(name: str) -> None:
    shown = [block.text for block in blocks(DOCS / "kubernetes.md") if block.text.startswith(f"# {name}\n")]
    assert [yaml.safe_load(text) for text in shown] == [yaml.safe_load((EXAMPLE / name).read_text())]


def test_components_of_kubernetes_are_all_in_the_table_and_there() -> None:
    named = {name for _, names in rows(section("kubernetes.md", "Overlays")) for name in names}
    there = {path.name for path in (ROOT / "deploy/kubernetes/components").iterdir()}
    assert {name for name in named if "/" not in name} == there
    for name in named - there:
        assert (EXAMPLE / name / "kustomization.yaml").exists()


def test_make_docs_writes_all_that_must_be_current(require, tmp_path: Path) -> None:
    require("make", "lists the commands of `make docs`")
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.replace("\\\n", " ").splitlines()
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
