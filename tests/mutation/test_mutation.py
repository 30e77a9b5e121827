"""What `make mutate` changes, and that it sees which tests fail."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.mutation import recording
from tests.mutation.__main__ import PACKAGES
from tests.mutation.changes import Change, Statement, changed, changes, marked
from tests.mutation.equivalent import entries
from tests.mutation.recording import Recording, functions_now, keep, kept, modules, own_digest, source
from tests.mutation.session import ROOT, Outcome, Tier
from tests.mutation.verdict import Times, Verdict, decide

EXAMPLE = '''
"""A text with 1 number."""
LIMIT = 3 + 4

class Box:
    size: int = 5

    def __repr__(self) -> str:
        return str(self.size + 1)

    def fits(self, more: int = 6) -> bool:
        """Whether 7 fit."""
        log.info("asked", n=more + 1)
        if more < 0:
            raise ValueError(more - 1)
        return self.size + more <= LIMIT and f"{more + 1}" != "10 - 1"
'''


def test_each_sort_of_change_and_nothing_in_texts() -> None:
    found = [(one.line, one.operator, one.becomes) for one in changes("example", EXAMPLE)]
    assert [one[1:] for one in found if one[0] == 14] == [
        ("boundary", "if more <= 0:"), ("comparison", "if more >= 0:"), ("constant", "if more < 1:"),
    ]  # fmt: skip
    assert [one[1:] for one in found if one[0] == 15] == [("removed statement", "pass")]
    head, tail = "return self.size + more <= LIMIT", "f'{more + 1}' != '10 - 1'"
    assert [one[1:] for one in found if one[0] == 16] == [
        ("returned value", "return None"),
        ("boolean", f"{head} or {tail}"),
        ("boundary", f"return self.size + more < LIMIT and {tail}"),
        ("comparison", f"return self.size + more > LIMIT and {tail}"),
        ("arithmetic", f"return self.size - more <= LIMIT and {tail}"),
        ("comparison", f"{head} and f'{{more + 1}}' == '10 - 1'"),
    ]
    assert {one[0] for one in found} == {14, 15, 16}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("for i in range(n): x = i", {"for i in range(n + 1):"}),
        ("f(a, b)", {"f(b, a)", "pass"}),
        ("f('text', b)", {"pass"}),
        ("x = a[i:j]", {"x = a[i + 1:j]", "x = a[i:j + 1]"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("x = -a", {"x = a"}),
        ("x = a if b else c", {"x = a if not b else c"}),
        ("while not a: break", {"while a:", "pass"}),
        ("a += 1", {"a -= 1", "a += 2", "pass"}),
        ("a.b = True", {"a.b = False", "pass"}),
        ("x = 'a' + b", set()),
        ("del a", set()),
        ("assert a < b", set()),
    ],
)
def test_what_a_statement_becomes(text: str, becomes: set[str]) -> None:
    found = {one.becomes for one in changes("example", f"def f():\n    {text}")}
    assert found == becomes


def test_every_change_of_the_project_compiles() -> None:
    for module in modules(PACKAGES)[::9]:
        for one in changes(module, source(module))[::11]:
            compile(changed(source(module), one.number), module, "exec")


def test_a_mark_stands_before_each_statement_and_the_docstrings_stay() -> None:
    tree, lines = marked(EXAMPLE, lambda number: ast.parse(f"hits.add({number})").body[0])
    hits: set[int] = set()
    names: dict[str, Any] = {"hits": hits, "log": type("Log", (), {"info": staticmethod(lambda *_, **__: None)})}
    exec(compile(tree, "example", "exec"), names)
    assert names["Box"]().fits(1)
    assert [lines[number].line for number in sorted(hits)] == [13, 14, 16]
    assert [(lines[0].function, lines[0].number)] == [("Box.fits", 0)]
    assert names["Box"].fits.__doc__ == "Whether 7 fit."


def test_a_recording_outlives_changes_elsewhere_and_is_wide_where_the_function_changed() -> None:
    def executing(statement: Statement) -> tuple[list[str], bool]:
        tests, imported = recorded.executing("m", statement)
        return [test.name for test in tests], imported

    places = [("m", "f", "1", 0), ("m", "f", "1", 1), ("m", "g", "2", 0), ("other", "f", "1", 0)]
    tests = {"one": (1.0, 2.0, [0, 1]), "two": (1.0, 2.0, [0, 2]), "three": (1.0, 2.0, [3])}
    recorded = Recording({"places": places, "tests": tests, "imported": [2]}, {"m": {"f", "g", "idle"}})
    assert executing(Statement("f", "1", 0, 99)) == (["one", "two"], False)
    assert executing(Statement("f", "1", 1, 99)) == (["one"], False)
    assert executing(Statement("f", "1", 2, 99)) == ([], False)
    assert executing(Statement("f", "changed", 7, 99)) == (["one", "two"], False)
    assert executing(Statement("g", "2", 0, 99)) == (["two"], True)
    assert executing(Statement("new", "3", 0, 99)) == (["one", "two"], True)
    assert executing(Statement("idle", "4", 0, 99)) == ([], False)
    assert recorded.executing("absent", Statement("f", "1", 0, 99)) == ([], False)


def test_quick_and_long_tests_of_a_file_are_recorded_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(recording, "FUNCTIONS", tmp_path / "functions")
    monkeypatch.setattr(recording, "TIER", Tier("quick"))
    file = Path(__file__)
    functions = functions_now(["fabricmon"])
    raw = {"places": [], "tests": {}, "imported": [], "own": own_digest(file), "functions": functions}
    keep(file, raw)
    assert [path for path, _ in kept([file], "quick")] == [file]
    assert list(kept([file], "long")) == []
    keep(file, raw | {"own": "of another text"})
    assert list(kept([file], "quick")) == []


SLOW = Outcome("slow", "Failed: Timeout (>30.0s) from pytest-timeout.", 3)
WRONG = Outcome("wrong", "assert 1 == 2", 4)
FINE = Outcome(passed=1)


@pytest.mark.parametrize(
    ("first", "again", "unchanged", "others", "verdict"),
    [
        (WRONG, SLOW, SLOW, SLOW, WRONG),
        (FINE, SLOW, SLOW, SLOW, FINE),
        (SLOW, SLOW, FINE, FINE, SLOW),
        (SLOW, WRONG, FINE, FINE, WRONG),
        (SLOW, SLOW, SLOW, FINE, RuntimeError),
        (SLOW, FINE, FINE, FINE, FINE),
        (SLOW, FINE, FINE, WRONG, WRONG),
        (SLOW, FINE, FINE, SLOW, RuntimeError),
    ],
)
def test_a_test_that_takes_too_long_counts_only_where_it_does_so_twice_and_not_without_the_change(
    first: Outcome, again: Outcome, unchanged: Outcome, others: Outcome, verdict: object
) -> None:
    def tried(change: Change | None, tests: Times, folder: Path) -> dict[str, object]:
        now = unchanged if change is None else first if len(tests) == 2 else again if "slow" in tests else others
        return asdict(now)

    change = changes("example", "def f(a, b):\n    return a < b")[0]
    found: list[Verdict] = []
    decide([(change, {"slow": (0.1, 0.1), "wrong": (0.1, 0.1)})], tried, 1, lambda _, verdict: found.append(verdict))
    assert found == [verdict] or type(found[0]) is verdict


def test_every_entry_of_the_equivalent_ones_is_a_possible_change_with_a_reason() -> None:
    for entry in entries():
        assert len(entry["why"].split()) >= 5, entry
        found = changes(entry["module"], source(entry["module"]))
        assert any(entry["was"] == one.was and entry["becomes"] == one.becomes for one in found), f"gone: {entry}"


def test_a_change_is_noticed_by_the_test_of_what_it_changes_and_no_file_changes(tmp_path: Path) -> None:
    module = ROOT / "fabricmon/notify/silence.py"
    before = module.read_bytes(), module.stat().st_mtime_ns
    words = ["notify.silence", "--areas", "notify/test_silence.py", "--number", "6", "--seed", "3", "--limit", "10"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *words, "--json", tmp_path / "found.json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found) == 6, run.stdout
    noticed = [one["test"] for one in found if one["verdict"] == "noticed"]
    assert noticed
    assert all(test.startswith("tests/notify/test_silence.py::") for test in noticed)
    assert (module.read_bytes(), module.stat().st_mtime_ns) == before
