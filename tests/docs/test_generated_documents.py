"""The generated documents are what the code's tables say now."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.commands.docs import documents
from fabricmon.rules import RULES
from fabricmon.rules.limits import meanings, quantity
from fabricmon.units import Duration, Rate

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", documents())
def test_document_is_current(name):
    assert (DOCS / name).read_text() == documents()[name], "run `make docs`"


def test_check_names_the_document_that_is_not_current(tmp_path):
    command = [sys.executable, "-m", "fabricmon.cli", "docs"]
    subprocess.run([*command, "--write", tmp_path], check=True, timeout=60)
    assert subprocess.run([*command, "--check", tmp_path], timeout=60).returncode == 0
    (tmp_path / "rules.md").write_text("old")
    run = subprocess.run([*command, "--check", tmp_path], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "rules.md" in run.stderr
    assert "counters.md" not in run.stderr


def test_every_counter_and_every_rule_is_told():
    text = documents()
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
