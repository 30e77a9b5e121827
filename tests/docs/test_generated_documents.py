"""The generated documents are what the code's tables say now."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.cli import main
from fabricmon.commands.docs import documents
from fabricmon.rules import RULES
from fabricmon.rules.limits import meanings, quantity
from fabricmon.units import Duration, Rate

DOCS = Path(__file__).resolve().parents[2] / "docs"


MADE = documents()


@pytest.mark.parametrize("name", MADE)
def test_document_is_current(name):
    assert (DOCS / name).read_text() == MADE[name], "run `make docs`"


def test_check_names_the_document_that_is_not_current(tmp_path, capsys):
    assert main(["docs", "--write", str(tmp_path)]) == 0
    assert main(["docs", "--check", str(tmp_path)]) == 0
    (tmp_path / "rules.md").write_text("old")
    assert main(["docs", "--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "rules.md" in said
    assert "counters.md" not in said


def test_every_counter_and_every_rule_is_reported():
    text = MADE
    assert set(re.findall(r"^\| `(fabricmon_\w+)`", text["counters.md"], re.MULTILINE)) == {
        counter.metric for counter in CATALOGUE.values()
    }
    assert re.findall(r"^## (\w+)", text["rules.md"], re.MULTILINE) == [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_limit_is_explained(rule):
    assert [name for name in msgspec.structs.fields(rule.params) if name.name not in meanings(rule.params)] == []


@given(st.integers(min_value=0, max_value=40 * 86400))
def test_duration_is_written_as_the_configuration_reads_it(seconds):
    assert Duration.parse(quantity(Duration, Duration(seconds))) == seconds


@given(st.integers(min_value=1, max_value=3200))
def test_rate_is_written_as_the_configuration_reads_it(gigabits):
    assert Rate.parse(quantity(Rate, Rate(gigabits * 1e9 / 8))) == pytest.approx(gigabits * 1e9 / 8)
