"""deploy/slurm/fabricmon-prolog: what it decides for a job, with the short PATH that slurmctld gives it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/slurm/fabricmon-prolog"
FOUND = "CRITICAL: 2 pairs, 1 with findings; 18 of 185 probes lost"

Prolog = Callable[..., tuple[int, str]]


@pytest.fixture
def prolog(tmp_path: Path) -> Prolog:
    """Runs it for a job; the exit code, and what is in the log. `program` is the script in place of fabricmon."""

    def put(name: str, script: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def run(program: str, nodes: str = "echo n0; echo n1", *settings: str) -> tuple[int, str]:
        put("scontrol", nodes)
        put("logger", f'echo "$@" >> {tmp_path}/log')
        lines = (f"FABRICMON={put('opt-fabricmon', program)}", "FABRICMON_PING_LIMIT=2", *settings)
        (tmp_path / "settings").write_text("\n".join(lines))
        done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=60, check=False, env={
            "PATH": f"{tmp_path}:/usr/bin:/bin", "FABRICMON_SLURM_SETTINGS": str(tmp_path / "settings"),
            "SLURM_JOB_NODELIST": "n[0-1]", "SLURM_JOB_ID": "4711"})  # fmt: skip
        log = tmp_path / "log"
        return done.returncode, log.read_text() if log.exists() else ""

    return run


def test_a_critical_finding_requeues_the_job_and_the_log_has_the_report(prolog: Prolog) -> None:
    code, log = prolog(f'[ "$*" = "ping --mesh n0 n1" ] && echo "{FOUND}"; exit 2')
    assert code == 1
    assert f"job 4711: requeued: {FOUND}" in log


@pytest.mark.parametrize("program", [
    "echo 'WARNING: 2 pairs'; exit 1",
    "echo 'UNKNOWN: 0 pairs'; exit 3",
    "echo 'fabricmon ping: error: unrecognized arguments' >&2; exit 2",
    "exec no-such-program",
    "exec sleep 9",
])  # fmt: skip
def test_nothing_less_holds_a_job_up_and_the_log_says_why(prolog: Prolog, program: str) -> None:
    code, log = prolog(program)
    assert code == 0
    assert "the job starts" in log


def test_a_healthy_mesh_and_a_job_of_one_node_leave_no_word(prolog: Prolog) -> None:
    assert prolog("exit 0") == prolog("exit 2", "echo n0") == (0, "")


def test_nodes_that_slurm_does_not_name_are_in_the_log(prolog: Prolog) -> None:
    code, log = prolog("exit 2", "echo 'no such command'; exit 127")
    assert (code, "scontrol: no such command" in log) == (0, True)


def test_a_dry_run_only_logs_and_arguments_are_passed_on(prolog: Prolog) -> None:
    code, log = prolog(f'echo "{FOUND}: $*"; exit 2', "echo n0; echo n1", "FABRICMON_DRY_RUN=1",
                       "FABRICMON_PING_ARGS='--seconds 3'")  # fmt: skip
    assert (code, "ping --seconds 3 --mesh n0 n1" in log) == (0, True)
