"""What a running agent imports: memory on every node. Its parts for other tasks come in where they are turned on."""

from __future__ import annotations

import subprocess
import sys

import pytest

AGENT = """
import argparse, os, sys
from fabricmon.commands import agent
parser = argparse.ArgumentParser()
agent.add_arguments(parser)
args = parser.parse_args([])
agent.overrides = lambda args: {"agent.evaluate": %r}
root = agent.load(args)
agent.open_host(root, None).close()
from fabricmon.agent import app
if root.agent.evaluate:
    from fabricmon.agent.readings.evaluation import NodeEvaluator
    NodeEvaluator("host-1", root.rules)
print(*sys.modules)
"""

READS = {
    "agent", "catalogue", "collect", "commands", "config", "fabric", "fleet", "forms", "frame", "host", "model",
    "probe", "runtime", "topology", "units", "web",
}  # fmt: skip
"""Packages of an agent that reads and does not evaluate."""

SINGLE = {
    "commands": {"agent"}, "fabric": {"transport"}, "fleet": {"freshness"}, "probe": {"assignment", "packet"},
    "topology": {"affinity"}, "web": {"settings"},
}  # fmt: skip
"""What it takes of packages that are mostly the server's."""

OTHERS = {"bcrypt", "dns", "markdown", "picows", "pynvml", "pyroute2", "python_socks", "re2", "sqlite3"}
"""Libraries for other tasks; pynvml comes with the first GPU."""


def imported(evaluate: bool) -> set[str]:
    command = [sys.executable, "-c", AGENT % evaluate]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def parts(names: set[str], depth: int) -> set[str]:
    """The part of each module's path at this depth."""
    return {path[depth] for path in (name.split(".") for name in names) if path[0] == "fabricmon" and len(path) > depth}


@pytest.fixture(scope="module")
def without() -> set[str]:
    return imported(False)


def test_an_agent_that_does_not_evaluate_imports_no_numpy_and_little_of_the_server(without: set[str]) -> None:
    assert "numpy" not in without
    assert parts(without, 1) <= READS
    for package, expected in SINGLE.items():
        inside = {name for name in without if name.startswith(f"fabricmon.{package}.")}
        assert parts(inside, 2) <= expected, package


def test_no_agent_imports_the_server_or_its_libraries(without: set[str]) -> None:
    evaluating = imported(True)
    assert "numpy" in evaluating
    for names in (without, evaluating):
        assert not OTHERS & names
        assert not {"central", "notify", "recording", "replay", "senders", "sim", "sources"} & parts(names, 1)
