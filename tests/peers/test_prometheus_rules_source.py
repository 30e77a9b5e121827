"""A real agent, a real Prometheus that evaluates the exported rules, and a centre that asks it instead of the agent."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.host.trees import build_hca_tree
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for

pytestmark = pytest.mark.peer

LIMITS = "rules:\n  link_down: {hold: 1s, clear: 2s, grace: 1s}\n"


class Stack:
    """Agent, Prometheus and centre; one port of the agent can be taken down and up again."""

    def __init__(self, folder, program) -> None:
        self.folder = folder
        self.sysfs = folder / "sys"
        build_hca_tree(self.sysfs, devices=4)
        self.agent_at, self.centre_at, self.ruler_at = (f"127.0.0.1:{free_port()}" for _ in range(3))
        (folder / "limits.yaml").write_text(LIMITS)
        rules = [*FABRICMON, "rules", "export", "--config", folder / "limits.yaml", "-o", folder / "rules.yml"]
        subprocess.run([str(word) for word in rules], check=True, timeout=30)
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
        source = {"url": f"http://{self.ruler_at}", "interval": "1s", "inventory": "2s", "retry_max": "2s"}
        (folder / "centre.yaml").write_text(
            LIMITS + json.dumps({"central": {"source": "prometheus", "prometheus": source}})[1:-1] + "\n"
        )
        self._program = program
        self.ruler = self.start_ruler()
        self.agent = Daemon(folder / "agent.log", [*FABRICMON, "agent", "--listen", self.agent_at, "--node", "node-1",
                                                   "--path.sysfs", self.sysfs])  # fmt: skip
        follow = [*FABRICMON, "central", "--config", folder / "centre.yaml", "--listen", self.centre_at]
        self.centre = Daemon(folder / "centre.log", [*follow, "--state", folder / "state"])

    def start_ruler(self) -> Daemon:
        return Daemon(
            self.folder / "prometheus.log",
            [self._program, f"--config.file={self.folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={self.folder / 'tsdb'}", f"--web.listen-address={self.ruler_at}",
             "--log.level=warn"],
        )  # fmt: skip

    def stop(self) -> None:
        for daemon in (self.centre, self.agent, self.ruler):
            daemon.stop()

    def link(self, state: str, phys: str) -> None:
        port = self.sysfs / "class/infiniband/mlx5_3/ports/1"
        (port / "state").write_text(f"{state}\n")
        (port / "phys_state").write_text(f"{phys}\n")

    def firing(self) -> list[tuple[str, str]]:
        found = fetch_json(f"http://{self.centre_at}/api/v1/incidents")
        incidents = found["incidents"] if isinstance(found, dict) else found
        return [(i["kind"], i["component"]) for i in incidents if i["status"] == "firing"]

    def node(self) -> str:
        return fetch(f"http://{self.centre_at}/api/v1/nodes")


@pytest.fixture
def stack(require, tmp_path):
    found = Stack(tmp_path, require("prometheus", "evaluates the exported rules"))
    yield found
    found.stop()


def test_symptoms_of_a_ruler_become_incidents_and_its_silence_ends_none(stack):
    stack.centre.wait_until("the node at the centre", lambda: '"live"' in stack.node(), 60)
    assert stack.firing() == []
    stack.link("1: DOWN", "2: Polling")
    stack.centre.wait_until("the incident", stack.firing, 90)
    assert stack.firing() == [("link_down", "link(node-1/mlx5_3/1)")]
    # the ruler goes away while the link comes up again: nobody says so, so it stands
    stack.ruler.stop()
    stack.link("4: ACTIVE", "5: LinkUp")
    warned = f"http://{stack.centre_at}/"
    stack.centre.wait_until("the warning", lambda: "ruler cannot be asked" in fetch(warned), 30)
    assert stack.firing() == [("link_down", "link(node-1/mlx5_3/1)")]
    stack.ruler = stack.start_ruler()
    stack.centre.wait_until("the end", lambda: not stack.firing(), 90)
    # the agent dies: told as such, and nothing of its ports
    stack.agent.stop()
    wait_for("the node is gone", lambda: '"unreachable"' in stack.node(), 60)
