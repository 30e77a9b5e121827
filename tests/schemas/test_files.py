"""The JSON Schemas of files and messages agree with the readers and writers of the program."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, FormatChecker

from fabricmon import config
from fabricmon.cli import main
from fabricmon.commands.config import shown
from fabricmon.commands.schemas.command import NAMES
from fabricmon.commands.schemas.tables import SCHEMAS
from fabricmon.jobs.file import parse as parse_jobs
from fabricmon.senders.webhook import body
from fabricmon.sources.formats import cable_plan
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology.names import NodeNames
from tests.senders.incidents import LINKS, leaf, telling

ROOT = Path(__file__).parents[2]
EXAMPLES = [ROOT / "docs" / "fabricmon.yaml", *sorted((ROOT / "deploy" / "systemd").glob("*.yaml")),
            *sorted((ROOT / "deploy" / "kubernetes").glob("**/fabricmon.yaml"))]  # fmt: skip


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((ROOT / "docs" / "schemas" / SCHEMAS[name].file).read_text())
    return Draft202012Validator(schema, format_checker=FormatChecker())


def errors(name: str, data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator(name).iter_errors(data)]


def files_in(path: Path) -> list[Any]:
    """The configurations of a file: itself, or those in ConfigMaps."""
    found = list(yaml.safe_load_all(path.read_text()))
    maps = [doc for doc in found if isinstance(doc, dict) and doc.get("kind") == "ConfigMap"]
    return [yaml.safe_load(text) for doc in maps for text in doc["data"].values()] if maps else found


@pytest.mark.parametrize("name", ["config", "plan", "jobs", "webhook"])
def test_a_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(validator(name).schema)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_configurations_are_valid(path: Path) -> None:
    for data in files_in(path):
        assert errors("config", data) == []


def test_the_defaults_are_valid_and_stand_in_the_schema() -> None:
    assert errors("config", shown(config.load(None))) == []
    schema = validator("config").schema
    assert schema["properties"]["central"]["properties"]["tick"]["default"] == "250ms"
    assert schema["properties"]["collect"]["properties"]["infiniband"]["properties"]["interval"]["default"] == "10s"


def test_every_setting_has_a_description_for_editors() -> None:
    def bare(schema: Any, path: str) -> list[str]:
        found = []
        for key, inner in schema.get("properties", {}).items():
            missing = [] if "description" in inner or "const" in inner else [f"{path}.{key}"]
            found += missing + bare(inner, f"{path}.{key}")
        for inner in (schema.get("items"), schema.get("additionalProperties"), *schema.get("oneOf", ())):
            found += bare(inner, path) if isinstance(inner, dict) else []
        return found

    assert bare(validator("config").schema, "") == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("central: {tick: 10}", "$.central.tick"),
        ("central: {tick: 10 seconds}", "$.central.tick"),
        ("central: {tik: 1s}", "$.central"),
        ("centre: {}", "$"),
        ("agent: {max_streams: 0}", "$.agent.max_streams"),
        ("agent: {listen: ':9790'}", "$.agent.listen"),
        ("collect: {infiniband: {enabled: 'yes'}}", "$.collect.infiniband.enabled"),
        ("rules: {link_down: {holds: 1s}}", "$.rules.link_down"),
        ("senders: {ops: {kind: webhok, url: 'https://ops.example'}}", "$.senders.ops"),
        ("senders: {ops: {kind: webhook}}", "$.senders.ops"),
        ("log: {level: loud}", "$.log.level"),
    ],
)
def test_a_wrong_configuration_is_wrong_for_both(text: str, place: str, tmp_path: Path) -> None:
    assert [found for found in errors("config", yaml.safe_load(text)) if found.startswith(f"{place}: ")] != []
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(config.ConfigError):
        config.load(str(path))


@pytest.mark.parametrize("text", ["central:", "collect: {infiniband: }", "central: {targets: }", "{}"])
def test_an_empty_section_is_valid_for_both(text: str, tmp_path: Path) -> None:
    assert errors("config", yaml.safe_load(text)) == []
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    config.load(str(path))


def test_the_plan_of_the_documents_is_valid_and_another_key_is_not() -> None:
    text = re.search(r"<!-- file: plan.yaml -->\n```yaml\n(.*?)```", (ROOT / "docs/topology.md").read_text(), re.S)
    assert text is not None
    plan = yaml.safe_load(text[1])
    assert errors("plan", plan) == []
    for section, wrong in (("hosts", {"node-1": {"adaptors": []}}), ("links", [{"from": "a/1"}]), ("cabling", {})):
        assert errors("plan", plan | {section: wrong}) != []
        with pytest.raises(SourceError):
            cable_plan.parse(plan | {section: wrong}, "plan.yaml", NodeNames())


def test_a_file_with_every_key_of_a_job_is_valid_and_read() -> None:
    job = {"id": 4711, "name": "train", "user": "mara", "queue": "gpu", "nodes": ["gpu001", "gpu002"],
           "started": "2026-05-04T07:00:00Z", "survives": 30, "failover": False}  # fmt: skip
    assert set(job) == set(validator("jobs").schema["$defs"]["JobEntry"]["properties"])
    data = {"as_of": 1777885000, "jobs": [job, {"id": "1", "nodes": "gpu[003-004]"}]}
    assert errors("jobs", data) == []
    full, least = parse_jobs(json.dumps(data).encode()).jobs
    assert all(getattr(full, name) not in (None, "") for name in full.__struct_fields__)
    assert least.nodes == ("gpu003", "gpu004")
    for wrong in ({"nodes": "gpu1"}, {"id": "1"}, {"id": "1", "nodes": 5}):
        assert errors("jobs", {"jobs": [wrong]}) != []
        assert parse_jobs(json.dumps({"jobs": [wrong]}).encode()).odd_count == 1


def test_the_body_of_a_webhook_is_valid_with_no_field_beside() -> None:
    schema = copy.deepcopy(validator("webhook").schema)
    for part in schema["$defs"].values():
        part.setdefault("additionalProperties", False)
    sent = json.loads(body(telling(leaf()), LINKS))
    closed = Draft202012Validator(schema, format_checker=FormatChecker())
    assert [error.message for error in closed.iter_errors(sent)] == []
    del sent["incidents"][0]["status"]
    assert errors("webhook", sent) != []


def test_the_body_in_the_documents_is_valid() -> None:
    block = re.search(r"```json\n(.*?)```", (ROOT / "docs/webhook.md").read_text(), re.S)
    assert block is not None
    assert errors("webhook", json.loads(block[1])) == []


def test_the_command_prints_each_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(NAMES) == set(SCHEMAS)
    for name in NAMES:
        assert main(["schema", name]) == 0
        assert capsys.readouterr().out == (ROOT / "docs" / "schemas" / SCHEMAS[name].file).read_text()


def test_editors_find_the_schema_of_the_example() -> None:
    first = EXAMPLES[0].read_text().splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found is not None
    assert (EXAMPLES[0].parent / found[1]).is_file()
