"""The dashboards as files: current, well formed, understandable, and bounded however large the fleet is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fabricmon import cli
from fabricmon.catalogue import CATALOGUE
from fabricmon.dashboards import BOARDS, documents
from fabricmon.dashboards.recordings import RECORDINGS
from fabricmon.dashboards.site import Site
from fabricmon.model import Kind
from fabricmon.rules import RULES
from tests.dashboards.ask import panels

FOLDER = Path(__file__).resolve().parents[2] / "dashboards"
DOCUMENTS = {name: json.loads(text) for name, text in documents(Site()).items()}
ALL = pytest.mark.parametrize("name", DOCUMENTS)


def queries(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(panel["title"], target) for panel in panels(document) for target in panel["targets"]]


def test_the_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboards", "--check", str(FOLDER)]) == 0, capsys.readouterr().err
    files = {path.name for path in FOLDER.glob("fabricmon*.json")}
    assert files == set(DOCUMENTS), "left over or missing"


@ALL
def test_panels_lie_side_by_side(name: str) -> None:
    for group in (DOCUMENTS[name]["panels"], *(p.get("panels", []) for p in DOCUMENTS[name]["panels"])):
        cells = [
            (x, y)
            for grid in (panel["gridPos"] for panel in group)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max((x for x, _ in cells), default=0) < 24


@ALL
def test_every_panel_says_what_it_shows_and_asks_the_chosen_data_source(name: str) -> None:
    document = DOCUMENTS[name]
    everything = [*document["panels"], *(p for row in document["panels"] for p in row.get("panels", []))]
    identities = [panel["id"] for panel in everything]
    assert len(identities) == len(set(identities))
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(document):
        assert panel["title"]
        assert len(panel["description"]) > 8, panel["title"]
        assert all(part["datasource"] == chosen for part in (panel, *panel["targets"])), panel["title"]
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)), panel["title"]
    titles = [panel["title"] for panel in panels(document)]
    assert len(titles) == len(set(titles))


@ALL
def test_what_is_empty_in_good_times_says_so(name: str) -> None:
    """A filter leaves nothing where all is well: the panel must not say "No data"."""
    for panel in panels(DOCUMENTS[name]):
        filtered = any(re.search(r"[)}\w] (>|<|>=|==) [\d.]+$", target["expr"]) for target in panel["targets"])
        if panel["type"] == "table" or filtered:
            assert panel["fieldConfig"]["defaults"].get("noValue"), panel["title"]


def test_their_addresses_are_their_own_and_links_lead_to_one_of_them() -> None:
    uids = [document["uid"] for document in DOCUMENTS.values()]
    assert len(uids) == len(set(uids)) == len(BOARDS)
    linked = set(re.findall(r'"/d/([^?/"]+)', json.dumps(DOCUMENTS)))
    assert linked <= set(uids)
    assert "fabricmon-node" in linked
    for document in DOCUMENTS.values():
        assert document["links"][0]["includeVars"]
        assert document["links"][0]["keepTime"]


@ALL
def test_variables_that_are_used_are_there(name: str) -> None:
    document = DOCUMENTS[name]
    defined = {variable["name"] for variable in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", " ".join(target["expr"] for _, target in queries(document))))
    assert used <= defined


@ALL
def test_rates_follow_the_scrape_interval(name: str) -> None:
    for title, target in queries(DOCUMENTS[name]):
        for span in re.findall(r"\b(?:rate|irate)\([^()]*\[([^\]]+)\]", target["expr"]):
            assert span.startswith("$__rate_interval"), title


ROWS = {
    kind: re.compile(rf"\bfabricmon_{kind}_\w+(\{{[^}}]*\}})?")
    for kind in (Kind.PORT, Kind.GPU, Kind.NVLINK, Kind.PCIE)
}


@ALL
def test_no_panel_asks_for_every_port_of_the_fleet(name: str) -> None:
    """Series of single ports and GPUs are asked for of one node, or in recordings that keep the worst."""
    for title, target in queries(DOCUMENTS[name]):
        for pattern in ROWS.values():
            for found in pattern.finditer(target["expr"]):
                assert '"$node' in (found[1] or ""), f"{title}: {found[0]}"
        for found in re.finditer(r"\bfabricmon:(?:port|gpu|pcie):[\w:]+", target["expr"]):
            before = target["expr"][: found.start()]
            assert re.search(r"(topk|bottomk|count|sum|max)\b", target["expr"]), f"{title}: {found[0]} {before}"


def test_recordings_of_single_components_are_bounded() -> None:
    for rule in RECORDINGS:
        if rule.name.split(":")[1] in ("port", "gpu", "pcie") or rule.name.endswith(":nodes"):
            assert rule.expr.startswith(("topk(100, ", "bottomk(100, ")), rule.name
        else:
            assert re.match(r"(sum|count|max|quantile)\b", rule.expr), rule.name


def test_recordings_have_names_of_their_own() -> None:
    ours = [(rule.name, tuple(sorted(rule.labels.items()))) for rule in RECORDINGS]
    assert len(ours) == len(set(ours))
    theirs = {r.name for rule in RULES for r in rule.promql(rule.params()).recordings}
    assert {name for name, _ in ours} & theirs == set()


@ALL
def test_recordings_that_are_shown_are_recorded(name: str) -> None:
    shown = set(re.findall(r"\bfabricmon:[\w:]+", json.dumps(DOCUMENTS[name])))
    assert shown <= {rule.name for rule in RECORDINGS}


def test_every_recording_is_shown() -> None:
    shown = set(re.findall(r"\bfabricmon:[\w:]+", json.dumps(DOCUMENTS)))
    assert {rule.name for rule in RECORDINGS} - shown == set()


def test_every_recording_is_explained() -> None:
    document = (FOLDER.parent / "docs" / "dashboards.md").read_text()
    explained = re.findall(r"^\| `(fabricmon:[\w:]+)` \| (.+) \|$", document, re.MULTILINE)
    assert [name for name, _ in explained] == list(dict.fromkeys(rule.name for rule in RECORDINGS))


def test_counters_are_those_of_the_catalogue() -> None:
    """Names of counters' series on ports, GPUs, NVLinks, PCIe links and nodes that nothing else exports."""
    known = {c.metric for c in CATALOGUE.values()} | {f"fabricmon_{kind}_info" for kind in Kind}
    known |= {"fabricmon_node_symptoms"}
    text = json.dumps(DOCUMENTS) + " ".join(rule.expr for rule in RECORDINGS)
    named = set(re.findall(r"\bfabricmon_(?:port|gpu|nvlink|pcie|node)_\w+\b(?!\()", text))
    assert {name for name in named if not name.endswith("_")} - known == set()


SERIES = re.compile(
    r'"(?:[^"\\]|\\.)*"|((?<![\w:])(?:fabricmon_|fabricmon:|process_)[\w:]+(?:\{[^}]*\})?|\{__name__[^}]*\})'
)


@ALL
def test_every_series_is_of_the_chosen_cluster_also_those_of_incidents(name: str) -> None:
    document = DOCUMENTS[name]
    [incidents] = document["annotations"]["list"]
    asked = [target["expr"] for _, target in queries(document)] + [incidents["expr"], incidents["target"]["expr"]]
    for expr in asked:
        found = [series for series in SERIES.findall(expr) if series]
        assert found
        assert all('cluster=~"$cluster"' in series for series in found), expr
    [cluster] = [one for one in document["templating"]["list"] if one["name"] == "cluster"]
    assert "$cluster" not in cluster["query"]["query"]


def test_from_the_fabric_to_a_rail_a_node_and_a_port() -> None:
    def links(name: str, title: str) -> str:
        [panel] = [panel for panel in panels(DOCUMENTS[f"fabricmon-{name}.json"]) if panel["title"] == title]
        return json.dumps(panel["fieldConfig"])

    kept = "&${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
    assert "/d/fabricmon-rail?var-rail=${__field.labels.rail}" + kept in links("fabric", "Least utilised rails")
    for name, title in (("fabric", "Open incidents"), ("rail", "Open incidents of this rail")):
        assert "/d/fabricmon-node?var-node=${__data.fields.Node}" + kept in links(name, title)
        assert "var-device=${__data.fields.Device}" + kept in links(name, title)
    assert "var-device=${__field.labels.device}" + kept in links("congestion", "PFC pause sent, top ports")


def test_thresholds_are_the_limits_of_the_rules() -> None:
    from fabricmon.rules import congestion

    limits = {"congestion": congestion.CongestionParams(medium=0.33, high=0.66)}
    made = json.loads(documents(Site(rules=limits))["fabricmon-congestion.json"])
    steps = next(p for p in panels(made) if p["title"] == "Tx wait, worst port")["fieldConfig"]["defaults"][
        "thresholds"
    ]
    assert [step["value"] for step in steps["steps"]] == [None, 0.33, 0.66]


def test_a_selector_narrows_every_series_and_a_label_names_nodes() -> None:
    made = documents(Site("node"), 'cluster="east"')
    text = " ".join(target["expr"] for document in made.values() for _, target in queries(json.loads(document)))
    assert len(re.findall(r"\bfabricmon_\w+\{[^}]*cluster=\"east\"", text)) > 100
    assert "instance=~" not in text
    assert 'node=~"$node' in text
