"""The dashboard: each query returns data from a real agent and a real centre, and each panel can be understood."""

import itertools
import json
import re
from pathlib import Path

import pytest

from fabricmon.catalogue import CATALOGUE
from tests.rigs.daemons import fetch, wait_for

pytestmark = pytest.mark.peer

DASHBOARD = json.loads((Path(__file__).resolve().parents[2] / "dashboards" / "fabricmon.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(f"{panel['title']} {target['refId']}", target["expr"]) for panel in PANELS for target in panel["targets"]]


def filled_in(expression: str) -> str:
    """As Grafana asks: all nodes, and the range it takes at a scrape interval of one second."""
    return expression.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("${instance:regex}", ".*")


@pytest.mark.parametrize(("title", "expression"), QUERIES, ids=[title for title, _ in QUERIES])
def test_query_returns_data(prometheus, title, expression):
    wait_for(title, lambda: prometheus.query(filled_in(expression)), 40, 0.5)


def test_every_metric_in_it_is_exported(daemons):
    exported = {counter.metric for counter in CATALOGUE.values()}
    for address in daemons:
        page = fetch(f"http://{address}/metrics")
        exported |= {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
    named = set(re.findall(r"\bfabricmon_\w+", json.dumps(DASHBOARD["panels"]) + json.dumps(DASHBOARD["templating"])))
    assert named - exported == set()


def test_panels_do_not_overlap():
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_panel_says_what_bad_looks_like_and_asks_the_chosen_data_source():
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identities) == len(set(identities))
    for panel in PANELS:
        assert panel["title"]
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in itertools.chain([panel], panel["targets"]):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]


def test_rates_follow_the_scrape_interval():
    for title, expression in QUERIES:
        assert re.findall(r"\[(?!\$__rate_interval\])[^\]]*\]", expression) == [], title
