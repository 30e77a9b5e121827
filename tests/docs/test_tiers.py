"""The table of long tests holds: what it names exists, and each has its shorter companion in `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import LONG, is_long

TESTS = Path(__file__).resolve().parents[1]


def exists(test_id: str) -> bool:
    file, _, function = test_id.partition("[")[0].partition("::")
    return (TESTS / file).is_file() and f"def {function}" in (TESTS / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("left_out", LONG)
def test_a_long_test_and_its_short_companion_exist(left_out: str) -> None:
    assert exists(left_out)
    assert exists(LONG[left_out])
    assert not is_long(LONG[left_out])


def test_ids_are_matched_as_pytest_gives_them() -> None:
    assert is_long("tests/peers/test_prometheus_rules_source.py::test_symptoms")
    assert not is_long("tests/peers/test_prometheus.py::test_it_scrapes")
