"""A real agent, a ruler that evaluates the exported rules, and a server that asks it instead of the agent.

The ruler is Prometheus, or VictoriaMetrics with vmalert.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.host.trees import build_hca_tree
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for

pytestmark = pytest.mark.peer

LIMITS = "rules:\n  link_down: {hold: 1s, clear: 2s, grace: 1s}\n"


class Stack:
    """Agent, Prometheus and server; one port of the agent can be taken down and up again."""

    def __init__(self, folder, kind, programs) -> None:
        self.folder, self.kind, self.programs = folder, kind, programs
        self.sysfs = folder / "sys"
        build_hca_tree(self.sysfs, devices=4)
        self.agent_at, self.server_at, self.ruler_at = (f"127.0.0.1:{free_port()}" for _ in range(3))
        (folder / "limits.yaml").write_text(LIMITS)
        rules = [*FABRICMON, "rules", "export", "--config", folder / "limits.yaml", "-o", folder / "rules.yml"]
        rules += ["--no-keep-firing-for"] if kind == "victoria-metrics" else []
        subprocess.run([str(word) for word in rules], check=True, timeout=120)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [{
                "job_name": "fabricmon",
                "static_configs": [{"targets": [self.agent_at]}],
                "relabel_configs": [{"target_label": "instance", "replacement": "node-1"}],
            }],
        }  # fmt: skip
        (folder / "prometheus.yml").write_text(json.dumps(config))
        config.pop("rule_files")
        config["global"].pop("evaluation_interval")
        (folder / "scrape.yml").write_text(json.dumps(config))
        source = {"url": f"http://{self.ruler_at}", "interval": "1s", "inventory": "2s", "retry_max": "2s"}
        (folder / "server.yaml").write_text(
            LIMITS + json.dumps({"central": {"source": "prometheus", "prometheus": source}})[1:-1] + "\n"
        )
        self.ruler = self.start_ruler()
        self.agent = Daemon(folder / "agent.log", [*FABRICMON, "agent", "--listen", self.agent_at, "--node", "node-1",
                                                   "--path.sysfs", self.sysfs])  # fmt: skip
        follow = [*FABRICMON, "central", "--config", folder / "server.yaml", "--listen", self.server_at]
        self.server = Daemon(folder / "server.log", [*follow, "--state", folder / "state"])

    def start_ruler(self) -> list[Daemon]:
        """The programs that scrape and evaluate, ready or not."""
        folder, url = self.folder, f"http://{self.ruler_at}"
        if self.kind == "prometheus":
            command = [
                self.programs[0], f"--config.file={folder / 'prometheus.yml'}", "--log.level=warn",
                f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={self.ruler_at}",
            ]  # fmt: skip
            return [Daemon(folder / "prometheus.log", command)]
        database = [
            self.programs[0], f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr={self.ruler_at}",
            f"-promscrape.config={folder / 'scrape.yml'}", "-search.latencyOffset=1s", "-retentionPeriod=1d",
        ]  # fmt: skip
        evaluates = [
            self.programs[1], f"-rule={folder / 'rules.yml'}", f"-datasource.url={url}", f"-remoteWrite.url={url}",
            f"-remoteRead.url={url}", f"-httpListenAddr=127.0.0.1:{free_port()}", "-evaluationInterval=1s",
            f"-notifier.url=http://127.0.0.1:{free_port()}", "-remoteWrite.flushInterval=200ms",
        ]  # fmt: skip
        first = Daemon(folder / "victoria-metrics.log", database)
        first.wait_until("VictoriaMetrics", lambda: fetch(f"{url}/health"))
        return [Daemon(folder / "vmalert.log", evaluates), first]

    def stop(self) -> None:
        for daemon in (self.server, self.agent, *self.ruler):
            daemon.stop()

    def link(self, state: str, phys: str) -> None:
        port = self.sysfs / "class/infiniband/mlx5_3/ports/1"
        (port / "state").write_text(f"{state}\n")
        (port / "phys_state").write_text(f"{phys}\n")

    def firing(self) -> list[tuple[str, str]]:
        found = fetch_json(f"http://{self.server_at}/api/v1/incidents")
        incidents = found["incidents"] if isinstance(found, dict) else found
        return [(i["kind"], i["component"]) for i in incidents if i["status"] == "firing"]

    def node(self) -> str:
        return fetch(f"http://{self.server_at}/api/v1/nodes")


@pytest.fixture(params=["prometheus", "victoria-metrics"])
def stack(request, require, tmp_path):
    names = ("prometheus",) if request.param == "prometheus" else ("victoria-metrics", "vmalert")
    found = Stack(tmp_path, request.param, [require(name, "evaluates the exported rules") for name in names])
    yield found
    found.stop()


def test_symptoms_of_a_ruler_become_incidents_and_its_silence_ends_none(stack):
    stack.server.wait_until("the node at the server", lambda: '"live"' in stack.node())
    assert stack.firing() == []
    stack.link("1: DOWN", "2: Polling")
    stack.server.wait_until("the incident", stack.firing)
    assert stack.firing() == [("link_down", "link(node-1/mlx5_3/1)")]
    # the ruler goes away while the link comes up again: nobody says so, so it stands
    for daemon in stack.ruler:
        daemon.stop()
    stack.link("4: ACTIVE", "5: LinkUp")
    warned = f"http://{stack.server_at}/"
    stack.server.wait_until("the warning", lambda: "Rule evaluator cannot be queried" in fetch(warned))
    assert stack.firing() == [("link_down", "link(node-1/mlx5_3/1)")]
    stack.ruler = stack.start_ruler()
    stack.server.wait_until("the end", lambda: not stack.firing())
    # the agent dies: told as such, and nothing of its ports
    stack.agent.stop()
    wait_for("the node is gone", lambda: '"unreachable"' in stack.node())
