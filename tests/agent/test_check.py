"""`fabricmon check` on real files: what it prints, and the exit code for every verdict, with an agent and without."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fabricmon import cli
from fabricmon.agent.look import look
from fabricmon.agent.node import Settings
from fabricmon.agent.report import CollectorHealth, Health, SymptomHealth, verdict
from fabricmon.agent.settings import AgentConfig
from fabricmon.commands.check import CODES, render
from fabricmon.model import ComponentId, Fault, Kind, Severity, Symptom
from tests.agent.fakes import Config, FakeCollector, FakeHost, FakeSession, Running
from tests.host.trees import build_hca_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    build_hca_tree(tmp_path / "sys", devices=4)
    return tmp_path / "sys"


def port(tree: Path, device: str) -> Path:
    return tree / f"class/infiniband/{device}/ports/1"


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["check", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_healthy_node_passes(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree))
    assert code == 0
    assert out.startswith("PASS ")
    assert "no symptoms; 4 ports read" in out


def test_a_link_that_is_down_is_one_line_with_its_reading(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (port(tree, "mlx5_2") / "state").write_text("1: DOWN\n")
    (port(tree, "mlx5_2") / "phys_state").write_text("2: Polling\n")
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree))
    assert code == 1
    assert out.startswith("WARNING ")
    lines = [line for line in out.splitlines()[1:] if line.startswith("WARNING")]
    assert len(lines) == 1
    assert "mlx5_2/1" in lines[0]
    assert "down" in lines[0]
    code, verbose, _ = check(capsys, "--direct", "--path.sysfs", str(tree), "-v")
    assert " why: " in verbose
    assert " do: " in verbose
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree), "--json")
    assert code == 1
    assert json.loads(out)["symptoms"][0]["component"].endswith("/mlx5_2/1")


def test_a_node_without_any_port_is_unknown_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "class").mkdir()
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tmp_path))
    assert code == 3
    assert out.startswith("UNKNOWN ")


def test_an_agent_that_does_not_answer_is_unknown_when_it_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = check(capsys, "--agent", "127.0.0.1:1")
    assert code == 3
    assert "no agent answers at 127.0.0.1:1" in err
    code, _, err = check(capsys, "--agent", "nonsense")
    assert code == 3
    assert "expected an address" in err


async def test_the_agents_answer_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession("mlx5_0", ("state", "phys_state"))
    session.values = [4.0, 5.0]
    async with Running(FakeCollector(mlx5_0=session), judge=True) as running:
        await running.agent.node.schedule.board.first_round.wait()
        address = str(running.agent.addresses[0])
        code, out, _ = await asyncio.to_thread(check, capsys, "--agent", address)
    assert code == 0
    assert out.startswith(f"PASS host-007 - no symptoms; 1 port read (agent at {address})")


async def test_a_device_that_hangs_is_not_passed_over() -> None:
    good, bad = FakeSession("mlx5_0", ("state",)), FakeSession("mlx5_1", ("state",))
    good.values = [4.0]
    bad.gate.clear()
    settings = Settings(AgentConfig(), {"fake": Config(deadline=0.1)}, {})
    health = await look(settings, FakeHost(), {"fake": FakeCollector(mlx5_0=good, mlx5_1=bad)}, apart=0.2)
    bad.gate.set()
    assert health.status == "unknown"
    assert health.reason == "cannot read mlx5_1 (fake)"
    text = render(health, "direct read")
    assert text.startswith("UNKNOWN host-007: cannot read mlx5_1 (fake)")
    assert "unread    fake mlx5_1: a read hangs since" in text


async def test_a_defect_in_judging_costs_the_verdict_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession("mlx5_0", ("state",))
    session.values = [4.0]
    async with Running(FakeCollector(mlx5_0=session), judge=True) as running:
        node = running.agent.node
        await node.schedule.board.first_round.wait()

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a rule divides")

        with monkeypatch.context() as patch:
            patch.setattr("fabricmon.agent.judge.NodeJudge.tick", broken)
            node.tick()
            assert (node.health().status, node.health().reason) == (
                "unknown", "judging failed: ZeroDivisionError: a rule divides")
        node.tick()
        assert node.health().status == "pass"


def symptom(severity: Severity) -> Symptom:
    return Symptom("r", "k", ComponentId(Kind.PORT, "n", "p"), severity, 0.0, math.nan)


@pytest.mark.parametrize(("severities", "judged", "reason", "status"), [
    ((), 8, "", "pass"),
    ((Severity.INFO,), 8, "", "pass"),
    ((Severity.WARNING, Severity.INFO), 8, "", "warn"),
    ((Severity.WARNING, Severity.CRITICAL), 8, "", "critical"),
    ((), 0, "", "unknown"),
    ((), 8, "cannot read x", "unknown"),
    ((Severity.WARNING,), 8, "cannot read x", "warn"),
])
def test_verdicts(severities: tuple[Severity, ...], judged: int, reason: str, status: str) -> None:
    got, said = verdict([symptom(s) for s in severities], judged, reason)
    assert got == status
    assert (got == "unknown") == bool(said)
    assert got in CODES


def test_every_sort_of_line() -> None:
    faults = tuple(Fault("infiniband", "mlx5_6/1", path, "not a number") for path in ("/sys/x", "/sys/y"))
    collectors = (
        CollectorHealth("infiniband", "mlx5_6", True, "", 90.0, 0.1, None, 2, faults),
        CollectorHealth("infiniband", "mlx5_7", False, "No such device", None, None, None, 1, ()),
    )
    one: dict[str, Any] = {"rule": "link_down", "kind": "link_down", "title": "Link down", "why": "W", "action": "A"}
    symptoms = (
        SymptomHealth(severity=Severity.CRITICAL, component="n/mlx5_3/1", since=0.0, evidence=("1", "down"), **one),
        SymptomHealth(severity=Severity.INFO, component="n/a", since=99.0, evidence=(), **one),
    )
    text = render(Health("n", "0", "critical", "", 0.0, 100.0, 8, collectors, symptoms), "agent", "a note")
    assert text.splitlines() == [
        "CRITICAL n - 1 critical, 1 info; 8 ports read (agent)",
        "CRITICAL  mlx5_3/1  Link down: 1; down (for 100s)",
        "INFO      a         Link down",
        "fault     infiniband mlx5_6: /sys/x: not a number and 1 more",
        "unread    infiniband mlx5_7: No such device",
        "note      a note",
        "note      -v tells why each matters and what to do",
    ]
