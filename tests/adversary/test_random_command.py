"""`fabricmon scenario random`: runs, scores, writes its table, and gives the same whatever the number of processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fabricmon.simulate.random_scenarios import RandomScore, run_random

pytestmark = pytest.mark.timeout(600)  # whole composites are played

SEED = 1  # of development, never scored


def _random(*arguments: str, timeout: float = 280.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fabricmon", "scenario", "random", "--seed", str(SEED), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def _scores(text: str) -> list[RandomScore]:
    found = [msgspec.json.decode(line, type=RandomScore) for line in text.splitlines()]
    return [msgspec.structs.replace(score, seconds=0.0) for score in found]


def test_a_small_run_prints_its_figures_and_writes_its_table(tmp_path: Path) -> None:
    table, kept = tmp_path / "random.md", tmp_path / "kept.jsonl"
    given = ("--count", "1", "--hosts", "40", "--keep", str(kept), "--table", str(table))
    first = _random(*given)
    assert first.returncode == 0, first.stderr
    assert "required found in time" in first.stdout
    text = table.read_text(encoding="utf-8")
    assert "| measure | base |" in text
    assert "scenario random --count 1 --seed 1 --hosts 40" in text
    again = _random(*given)  # all kept: nothing runs
    assert "base 0:" in first.stdout
    assert "base 0:" not in again.stdout
    assert table.read_text(encoding="utf-8") == text


def test_two_processes_give_what_one_gives() -> None:
    two = _random("--count", "2", "--hosts", "30", "--jobs", "2", "--json", "--stress", "silent 10")
    assert two.returncode == 0, two.stderr
    alone = [msgspec.structs.replace(run_random(SEED, n, "silent 10", 30), seconds=0.0) for n in range(2)]
    assert _scores(two.stdout) == alone


def test_wrong_arguments_are_errors(tmp_path: Path) -> None:
    for given in (("--stress", "darkness"), ("--hosts", "5"), ("--count", "0")):
        assert _random(*given).returncode == 2
    missing = _random("--count", "1", "--table", str(tmp_path / "no" / "table.md"))
    assert missing.returncode == 2
    assert "cannot be used" in missing.stderr


@pytest.mark.timeout(1800)
def test_thirty_composites_run_and_are_scored() -> None:
    found = _random("--count", "30", "--hosts", "500", "--jobs", "2", "--json", timeout=1700.0)
    assert found.returncode == 0, found.stderr
    scores = _scores(found.stdout)
    assert [score.number for score in scores] == list(range(30))
    assert any(cause.found for score in scores for cause in score.causes)


def test_a_command_that_is_killed_leaves_no_process() -> None:
    """The scenarios take longer than this test, so none of the processes ends by itself."""
    given = ("--seed", str(SEED), "--count", "50", "--hosts", "200", "--jobs", "2")
    with subprocess.Popen([sys.executable, "-m", "fabricmon", "scenario", "random", *given]) as command:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        own = _until(lambda: [pid for pid in children.read_text().split() if _works(pid)], 2)
        command.kill()
    _until(lambda: [pid for pid in own if _works(pid)], 0)


def _works(pid: str) -> bool:
    try:
        return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def _until(pids: Callable[[], list[str]], number: int) -> list[str]:
    end = time.monotonic() + 60
    while len(found := pids()) != number:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found
