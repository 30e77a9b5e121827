"""deploy/compose: its files agree with the compose specification, with each other, and run without containers.

compose-spec.json is `schema/compose-spec.json` of github.com/compose-spec/compose-spec at 170098ba07d9 (Apache-2.0).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from fabricmon.cli import main
from tests.rigs.daemons import Daemon, fetch, fetch_json, free_port

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((HERE / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def mounts(service: str) -> dict[str, Path]:
    """Path in the container -> file here."""
    found = (volume.split(":") for volume in SERVICES[service]["volumes"])
    return {inside: (HERE / outside).resolve() for outside, inside, _ in found}


def test_it_agrees_with_the_compose_specification() -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(COMPOSE)] == []
    wrong = COMPOSE | {"services": {"fabricmon": {"image": "fabricmon", "comand": []}}}
    assert not Draft7Validator(schema).is_valid(wrong)


def test_every_file_is_there_and_every_image_is_pinned() -> None:
    assert (HERE / SERVICES["fabricmon"]["build"] / "Dockerfile").is_file()
    for name, service in SERVICES.items():
        assert all(path.exists() for path in mounts(name).values()) if "volumes" in service else True
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_grafana_and_prometheus_refer_to_what_is_there() -> None:
    grafana = mounts("grafana")
    (provider,) = yaml.safe_load((HERE / "grafana/dashboards.yaml").read_text())["providers"]
    folder = grafana[provider["options"]["path"]]
    assert sorted(path.name for path in folder.glob("*.json"))
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (folder / home.name).is_file()
    (source,) = yaml.safe_load((HERE / "grafana/datasources.yaml").read_text())["datasources"]
    assert source["url"].rpartition(":")[2] in {port.rpartition(":")[2] for port in SERVICES["fabricmon"]["ports"]}
    settings = yaml.safe_load((HERE / "prometheus.yml").read_text())
    assert set(settings["rule_files"]) <= set(mounts("prometheus"))


def test_the_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (SERVICES["fabricmon"]["command"], SERVICES["fabricmon"]["healthcheck"]["test"][2:]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0
    assert "--address" in capsys.readouterr().out


@pytest.fixture
def processes(require: Any, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The same processes with the same files, on free ports."""
    prometheus = require("prometheus", "scrapes the simulated fabric")
    page, scraper = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = (HERE / "prometheus.yml").read_text().replace("127.0.0.1:9791", page).replace("15s", "2s")
    for inside, outside in mounts("prometheus").items():
        config = config.replace(inside, str(outside))
    (tmp_path / "prometheus.yml").write_text(config)
    words = [page if word == "0.0.0.0:9791" else "8" if word == "32" else word
             for word in SERVICES["fabricmon"]["command"]]  # fmt: skip
    demo = Daemon(tmp_path / "demo.log", [sys.executable, "-m", "fabricmon", *words])
    run = [prometheus, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
           f"--web.listen-address={scraper}", "--log.level=warn"]  # fmt: skip
    with demo:
        demo.wait_until("demo", lambda: fetch(f"http://{page}/-/ready"))
        with Daemon(tmp_path / "prometheus.log", run):
            yield f"http://{page}", f"http://{scraper}"


@pytest.mark.peer
def test_the_same_processes_without_containers(processes: tuple[str, str]) -> None:
    page, prometheus = processes

    def count(expression: str) -> float:
        try:
            found = fetch_json(f"{prometheus}/api/v1/query?query={expression}")["data"]["result"]
        except OSError:
            return 0.0
        return float(found[0]["value"][1]) if found else 0.0

    nodes = len(fetch_json(f"{page}/api/v1/targets"))
    assert nodes >= 8
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if count('sum(up{job="fabricmon-agent"})') == nodes and count("count(fabricmon_central_nodes)"):
            break
        time.sleep(0.5)
    assert count('sum(up{job="fabricmon-agent"})') == nodes
    assert count('sum(up{job="fabricmon-central"})') == 1
    rules = fetch_json(f"{prometheus}/api/v1/rules")["data"]["groups"]
    assert [rule["lastError"] for group in rules for rule in group["rules"] if rule.get("lastError")] == []
    alive = [sys.executable, "-m", "fabricmon", *SERVICES["fabricmon"]["healthcheck"]["test"][2:]]
    address = page.removeprefix("http://")
    words = [address if word == "127.0.0.1:9791" else word for word in alive]
    assert subprocess.run(words, timeout=60, check=False).returncode == 0
