"""Every query of every dashboard, and every recording rule, asked of a real Prometheus that scraped agent and server.

Whether each returns data is for `python -m tests.dashboards`, which plays faults for minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from fabricmon.catalogue import CATALOGUE
from fabricmon.dashboards import documents
from fabricmon.dashboards.recordings import RECORDINGS, WORST, groups
from fabricmon.dashboards.site import Site
from tests.dashboards.ask import Asker, panels
from tests.rigs.daemons import fetch, wait_for

pytestmark = pytest.mark.peer

DOCUMENTS = {name: json.loads(text) for name, text in documents(Site()).items()}


@pytest.fixture(scope="module")
def asker(prometheus):
    wait_for("the incident is scraped", lambda: prometheus.query("fabricmon_incidents > 0"))
    return Asker(prometheus.url, 30.0, prometheus.interval)


def filled(prometheus, name, *titles):
    """Title -> answer of a dashboard's panels, once each of these has data: a scrape may have failed."""

    def look():
        asker = Asker(prometheus.url, 30.0, prometheus.interval)
        answers.update({answer.title: answer for answer in asker.ask(DOCUMENTS[name])})
        return all(answers[title].points for title in titles)

    answers = {}
    wait_for(f"data in all of {', '.join(titles)}", look, 120.0)
    return answers


@pytest.mark.parametrize("name", DOCUMENTS)
def test_prometheus_understands_every_query(asker, name):
    answers = asker.ask(DOCUMENTS[name])
    assert {answer.title: answer.error for answer in answers if answer.error} == {}
    assert {answer.title: answer.missing for answer in answers if answer.missing} == {}


def test_the_node_is_found_by_its_name_and_its_panels_have_data(asker, prometheus):
    values = asker.variables(DOCUMENTS["fabricmon-node.json"])
    assert re.fullmatch(r"127\.0\.0\.1", values["node"]), "the port is no part of a name"
    shown = ("Ports active", "Port state", "Port inventory", "Collectors", "Agent")
    assert filled(prometheus, "fabricmon-node.json", *shown)["Port state"].series == 8


def test_what_the_server_tells_fills_the_overview(prometheus):
    shown = ("Critical", "Warning", "Nodes live", "Links down", "Open incidents", "Nodes by state",
             "Links not up", "Duration of an evaluation")  # fmt: skip
    filled(prometheus, "fabricmon-fabric.json", *shown)


def test_every_recording_rule_can_be_evaluated(asker):
    for rule in RECORDINGS:
        asker.get("query", query=rule.expr)  # ValueError with what Prometheus says


def test_every_metric_is_exported(daemons):
    exported = {counter.metric for counter in CATALOGUE.values()}
    for address in daemons:
        page = fetch(f"http://{address}/metrics")
        exported |= {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
        exported |= {f"{line.split()[2]}_bucket" for line in page.splitlines() if line.endswith(" histogram")}
    texts = [target["expr"] for document in DOCUMENTS.values() for p in panels(document) for target in p["targets"]]
    texts += [rule.expr for rule in RECORDINGS]
    named = set(re.findall(r"\bfabricmon_[a-z0-9_]+(?![a-z0-9_]|\.|\()", " ".join(texts)))
    # of machines and settings that these two have not
    elsewhere = {"fabricmon_central_record_lost_total", "fabricmon_pcie_info"}
    elsewhere |= {f"fabricmon_central_targets_source_{word}" for word in ("success", "targets")}
    groups_of = {f"fabricmon_{word}_" for word in ("rail", "tier")}
    missing = {name for name in named if not name.endswith("_")} - exported - elsewhere
    assert {name for name in missing if not name.startswith(tuple(groups_of))} == set()


def test_recordings_keep_the_worst_and_sum_all(require, tmp_path: Path):
    """promtool: 150 ports with errors; the worst WORST are kept, the sum is of all."""
    tool = require("promtool", "evaluates the recording rules")
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": groups('job="fabricmon-agent"')}))
    ports = [
        {"series": f'fabricmon_port_symbol_errors_total{{job="{job}",instance="n{n}",device="mlx5_0",port="1"}}',
         "values": f"0+{60 * (n + 1)}x20"}
        for job, count in (("fabricmon-agent", 150), ("another", 3)) for n in range(count)
    ]  # fmt: skip
    kept, whole = "fabricmon:port:errors:rate5m", "fabricmon:fleet:errors:rate5m"
    of = '{counter="symbol_errors"}'
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": ports,
            "promql_expr_test": [
                {"expr": f"count({kept}{of})", "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": WORST}]},
                {"expr": f"max({kept}{of})", "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": 150}]},
                {"expr": f"sum({whole}{of})", "eval_time": "15m",
                 "exp_samples": [{"labels": "{}", "value": 150 * 151 / 2}]},
            ],
        }],
    }  # fmt: skip
    (tmp_path / "test.yml").write_text(json.dumps(test))
    run = subprocess.run([tool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
