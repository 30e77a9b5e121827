"""The list of long tests holds: what it names exists, and most of each file stays in `make test`."""

from __future__ import annotations

from pathlib import Path

from tests.tiers import KEPT, LIMIT_S, LIST, is_long, long_of

TESTS = Path(__file__).resolve().parents[1]
LISTED = LIST.read_text(encoding="utf-8").splitlines()


def _exists(test_id: str) -> bool:
    file, _, function = test_id.partition("[")[0].partition("::")
    name = function.partition("::")[0]
    text = (TESTS / file).read_text(encoding="utf-8") if (TESTS / file).is_file() else ""
    return f"def {name}" in text or f"{name} = " in text  # a state machine is assigned


def test_every_listed_test_exists() -> None:
    assert [test for test in LISTED if not _exists(test)] == []


def test_what_is_kept_exists_and_is_not_listed() -> None:
    assert [start for start in KEPT if not (_exists(start) if "::" in start else (TESTS / start).is_dir())] == []
    assert [test for test in LISTED if test.startswith(tuple(KEPT))] == []


def test_ids_are_matched_as_pytest_gives_them() -> None:
    assert is_long(f"tests/{LISTED[0]}")
    assert not is_long("tests/peers/test_prometheus.py::test_it_scrapes")


def test_the_list_is_what_costs_more_than_the_limit() -> None:
    costs = [("tests/b.py::test_z", LIMIT_S + 0.1), ("tests/b.py::test_y", LIMIT_S)]
    kept = f"tests/{next(iter(KEPT))}t.py::test_"
    assert long_of([*costs, (f"{kept}w", 9.0), (f"{kept}v", 8.0)]) == ["b.py::test_z"]


def test_of_a_file_of_long_tests_the_cheapest_stays() -> None:
    assert long_of([("tests/a.py::test_x", 9.0), ("tests/a.py::test_w", 8.0)]) == ["a.py::test_x"]
    assert long_of([("tests/a.py::test_x", 9.0)]) == []
