"""Active probing with real agents and a real server: assignments and results over their streams, and a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.probe.lab import Lab, agents
from tests.rigs.daemons import FABRICMON, Daemon, wait_for

pytestmark = [pytest.mark.netns, pytest.mark.timeout(700)]

HOSTS, CUT = 5, 3
GET = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=30).read().decode())"


class Site:
    """The server on host 0 and what it answers."""

    def __init__(self, lab: Lab, folder: Any) -> None:
        self.lab, self.config = lab, folder / "central.yaml"
        self.settings(enabled=True)
        command = (
            *FABRICMON, "central", "--config", self.config, "--listen", "127.0.0.1:9791", "--state", folder / "state",
        )  # fmt: skip
        self.server = Daemon(folder / "central.log", command, lab.inside(0))

    def settings(self, *, enabled: bool) -> None:
        targets = [f"{address}:9790" for address in self.lab.addresses]
        central = {"targets": targets, "probe": {"enabled": enabled, "dscp": 26}}
        self.config.write_text(yaml.safe_dump({"central": central}))

    def get(self, path: str) -> str:
        command = [*self.lab.inside(0), sys.executable, "-c", GET, f"http://127.0.0.1:9791{path}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    def samples(self, name: str) -> list[float]:
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith((name + " ", name + "{"))]
        return [float(line.rpartition(" ")[2]) for line in lines]

    def incidents(self) -> dict[str, str]:
        found = json.loads(self.get("/api/v1/incidents") or "{}").get("incidents", [])
        open_ = [one for one in found if one["severity"] != "info" and one["status"] == "firing"]
        return {one["component"]: one["kind"] for one in open_}


def test_a_port_that_no_probe_reaches_is_named_and_a_reload_stops_all(require, tmp_path):
    require("netns", "makes namespaces")
    require("ip")
    with Lab(tmp_path, HOSTS) as lab, agents(lab, tmp_path, HOSTS):
        site = Site(lab, tmp_path)
        with site.server:
            wait_for("all ports in the plan", lambda: site.samples("fabricmon_central_probe_ports") == [HOSTS])
            agent = [*lab.inside(0), sys.executable, "-c", GET, f"http://{lab.addresses[1]}:9790/metrics"]

            def sent() -> float:
                page = subprocess.run(agent, capture_output=True, text=True, timeout=60, check=False).stdout
                lines = [line for line in page.splitlines() if line.startswith("fabricmon_probe_packets_total")]
                return sum(float(line.rpartition(" ")[2]) for line in lines)

            wait_for("results of a window", lambda: sent() > 30)
            assert site.incidents() == {}
            lab.fault({"into": CUT, "loss": 1.0}, {"out": CUT, "loss": 1.0})  # probes only: the agent still answers
            # windows in which a busy machine kept an agent waiting are void: they show nothing
            found = wait_for("the incident", site.incidents, 300)
            assert found == {f"host(n{CUT})": "unreachable"}
            lab.fault()
            wait_for("its end", lambda: not site.incidents())

            site.settings(enabled=False)
            site.server.process.send_signal(1)
            wait_for("no assignment", lambda: site.samples("fabricmon_central_probe_nodes") == [0.0])
