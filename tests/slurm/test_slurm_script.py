"""The script for Slurm's HealthCheckProgram and Prolog: only what is known to be bad drains a node.

It runs as Slurm runs it, with a stand-in `scontrol` on the path that keeps what it was told, and once with the real
`fabricmon check` against an agent's answer over HTTP; else that program's own words stand in a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from fabricmon.agent.readings.report import Health, SymptomHealth
from fabricmon.commands import check
from fabricmon.model import Severity

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "fabricmon-slurm"
PROGRAM = Path(sys.executable).with_name("fabricmon")
PROLOG = {"SLURM_JOB_ID": "7", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}

SCONTROL = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$*" in
*"show node"*) echo "NodeName=node-7 Arch=x86_64 State=$STATE ThreadsPerCore=1 Reason=x" ;;
*) [ -z "$REFUSES" ] || { echo "slurm_update error: $REFUSES" >&2; exit 1; } ;;
esac
"""


def symptom(severity: Severity, component: str, title: str) -> SymptomHealth:
    evidence = ('state is "Down"',)
    return SymptomHealth("link_down", severity, "link", f"node-7/{component}", title, 0.0, evidence, "", "")


class Node:
    """One node: what its agent says, what Slurm thinks of it, and what Slurm was told."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.folder, self.status, self.symptoms = folder, "pass", ()
        self.agent, self.settings = agent, [f"FABRICMON={folder / 'fabricmon'}"]
        self.state, self.refuses = "IDLE", ""
        (folder / "scontrol").write_text(SCONTROL)
        (folder / "scontrol").chmod(0o755)
        (folder / "logger").write_text("#!/bin/sh\n")
        (folder / "logger").chmod(0o755)

    def health(self) -> Health:
        return Health("node-7", "1", self.status, "", 0.0, 60.0, (), (), False, (), tuple(self.symptoms))

    def run(self, **environ: str) -> tuple[int, str]:
        settings, answer, program = (self.folder / name for name in ("settings", "answer", "fabricmon"))
        settings.write_text("\n".join(self.settings) + "\n")
        answer.write_text(check.render(self.health(), "agent"))
        program.write_text(f"#!/bin/sh\ncat {answer}\nexit {check.CODES[self.status]}\n")
        program.chmod(0o755)
        done = subprocess.run(
            [SCRIPT], capture_output=True, text=True, timeout=60,
            env={"PATH": f"{self.folder}:{os.environ['PATH']}", "FABRICMON_SLURM_SETTINGS": str(settings),
                 "ASKED": str(self.folder / "asked"), "STATE": self.state, "REFUSES": self.refuses,
                 "SLURMD_NODENAME": "node-7", **environ},
        )  # fmt: skip
        return done.returncode, done.stderr

    @property
    def updates(self) -> list[str]:
        asked = self.folder / "asked"
        return [line for line in asked.read_text().splitlines() if "update" in line] if asked.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = msgspec.json.encode(one.health())
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    one = Node(tmp_path, f"127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield one
    server.shutdown()
    server.server_close()


def ill(node: Node) -> None:
    node.status = "critical"
    node.symptoms = (
        symptom(Severity.CRITICAL, "mlx5_1/1", "link is down"),
        symptom(Severity.CRITICAL, "mlx5_2/1", "link is down"),
        symptom(Severity.WARNING, "mlx5_3/1", "link errors"),
    )


def test_a_critical_node_is_drained_with_the_reason(node: Node) -> None:
    ill(node)
    node.settings = [f"FABRICMON={PROGRAM}", f"FABRICMON_AGENT={node.agent}"]
    code, said = node.run()
    assert node.updates == [
        "update NodeName=node-7 State=DRAIN Reason=fabricmon check: CRITICAL mlx5_1/1 link is down: state is Down "
        "(for 60s) (and 1 more)"
    ]
    assert code == 0  # slurmd repeats a health check at its start until it ends with 0
    assert "drained node-7" in said


def test_a_prolog_on_a_critical_node_sends_the_job_elsewhere(node: Node) -> None:
    ill(node)
    assert node.run(**PROLOG)[0] == 1
    assert len(node.updates) == 1
    assert node.run(SLURM_JOB_ID="7")[0] == 1  # as Slurm before 21.08 calls it


@pytest.mark.parametrize("role", [{}, PROLOG], ids=["health", "prolog"])
@pytest.mark.parametrize("status", ["pass", "warn", "unknown"])
def test_nothing_less_drains(node: Node, status: str, role: dict[str, str]) -> None:
    node.status = status
    node.symptoms = (symptom(Severity.WARNING, "mlx5_3/1", "link errors"),) if status == "warn" else ()
    code, said = node.run(**role)
    assert (code, node.updates) == (0, [])
    assert ("not evaluated" in said) == (status == "unknown")


def test_a_site_may_drain_on_warnings(node: Node) -> None:
    node.status, node.symptoms = "warn", (symptom(Severity.WARNING, "mlx5_3/1", "link errors"),)
    node.settings.append("FABRICMON_DRAIN_ON=warning")
    assert node.run()[0] == 0
    assert "Reason=fabricmon check: WARNING mlx5_3/1 link errors" in node.updates[0]


def test_no_agent_no_program_and_no_answer_drain_nothing(node: Node) -> None:
    ill(node)
    kept = list(node.settings)
    sleeps, breaks = node.folder / "sleeps", node.folder / "breaks"
    sleeps.write_text("#!/bin/sh\nsleep 30\n")
    breaks.write_text("#!/bin/sh\necho 'usage: fabricmon' >&2\nexit 2\n")
    for program in (sleeps, breaks):
        program.chmod(0o755)
    for role, change, word in (
        (PROLOG, [f"FABRICMON={PROGRAM}", "FABRICMON_AGENT=127.0.0.1:1"], "no answer from an agent"),
        ({}, ["FABRICMON=/nonexistent/fabricmon"], "exit 127"),
        (PROLOG, ["FABRICMON=/nonexistent/fabricmon"], "exit 127"),
        ({}, [f"FABRICMON={sleeps}", "FABRICMON_LIMIT=0.2"], "no result within 0.2 s"),
        (PROLOG, [f"FABRICMON={breaks}"], "usage: fabricmon"),
    ):
        node.settings = kept + change
        code, said = node.run(**role)
        assert (code, node.updates) == (0, []), change
        assert "not drained" in said
        assert word in said


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "MIXED+DRAIN", "DOWN*", "FAIL"])
def test_a_node_that_is_drained_or_down_is_left_as_it_is(node: Node, state: str) -> None:
    ill(node)
    node.state = state
    assert node.run()[0] == 0
    assert node.run(**PROLOG)[0] == 1
    assert node.updates == []


def test_a_drain_that_slurm_refuses_is_an_error(node: Node) -> None:
    ill(node)
    node.refuses = "Invalid user id"
    code, said = node.run()
    assert code == 1
    assert "cannot drain node-7 (slurm_update error: Invalid user id)" in said


def test_a_dry_run_says_what_it_would_do(node: Node) -> None:
    ill(node)
    node.settings.append("FABRICMON_DRY_RUN=yes")
    for role in ({}, PROLOG):
        code, said = node.run(**role)
        assert code == 0
        assert "would drain node-7: fabricmon check: CRITICAL mlx5_1/1" in said
    assert node.updates == []
