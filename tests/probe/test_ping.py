"""`fabricmon ping` through real agents, each in a network namespace, with faults in the switch between them."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.probe.lab import Lab, agents
from tests.rigs.daemons import FABRICMON, wait_for

pytestmark = [pytest.mark.netns, pytest.mark.timeout(400)]

HOSTS, SHORT, LOSSY, DEAF = 5, 1, 2, 3  # and the last has no agent with probes


def ping(lab: Lab, *words: str) -> tuple[int, dict]:
    command = [*lab.inside(0), *FABRICMON, "ping", "--json", "--timeout", "60", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, json.loads(done.stdout or "{}") | {"stderr": done.stderr}


@pytest.fixture
def lab(require, tmp_path):
    require("netns", "makes namespaces")
    require("ip")
    with Lab(tmp_path, HOSTS) as made, agents(made, tmp_path, HOSTS - 1):
        yield made


def test_a_mesh_names_each_fault(lab):
    two = (lab.addresses[0], lab.addresses[1], "--dscp", "26", "--paths", "2")
    # an agent that has just started has not looked at its addresses yet
    code, found = wait_for("ports to probe", lambda: (got := ping(lab, *two))[1]["pairs"] and got)
    assert (code, found["status"]) == (0, "pass"), found
    ends = [(one["source"], one["target"]) for one in found["pairs"]]
    assert ends == [("n0/eth0", "n1/eth0"), ("n1/eth0", "n0/eth0")]
    for one in found["pairs"]:
        assert one["sent"] > 50
        assert (one["lost"], one["packet"], one["dscp"]) == (0, 1500, 26)
        assert 0 < one["rtt"][0] <= one["rtt"][1] <= one["rtt"][2]

    lab.fault({"out": SHORT, "larger": 1000, "loss": 1.0}, {"into": LOSSY, "loss": 0.3}, {"out": DEAF, "loss": 1.0})
    code, found = ping(lab, "--mesh", *lab.addresses)
    assert (code, found["status"]) == (2, "critical"), found
    findings = {(one["source"], one["target"]): " ".join(one["findings"]) for one in found["pairs"]}
    assert "packets of 1500 bytes are not answered" in findings["n0/eth0", f"n{SHORT}/eth0"]
    assert "probes lost" in findings["n0/eth0", f"n{LOSSY}/eth0"]
    assert "no answer" in findings["n0/eth0", f"n{DEAF}/eth0"]
    assert found["unreached"] == [f"n{DEAF}/eth0"]
    assert any(line.startswith(f"n{HOSTS - 1}: its agent offers no port") for line in found["unknown"])
