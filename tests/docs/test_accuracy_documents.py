"""The accuracy documents take hours to compute, so their figures are kept; their prose is that of their generators."""

import re
from pathlib import Path

import pytest

from fabricmon.sim.scenarios.run import ScenarioResult
from fabricmon.sim.scenarios.table import table
from tests.accuracy.table import document

DOCS = Path(__file__).resolve().parents[2] / "docs"


def prose(text: str) -> list[str]:
    """The lines above the first row of figures, numbers left out: those of a run are in one of them."""
    before = re.split(r"^(?:## |\| ---)", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.sub(r"\d+", "N", before).splitlines()


@pytest.mark.parametrize(("name", "seeds"), [("accuracy-catalogue.md", [1, 20]), ("accuracy-quiet-day.md", [1])])
def test_the_prose_of_the_scenario_tables_is_current(name: str, seeds: list[int]) -> None:
    written = (DOCS / name).read_text()
    made = re.search(r"<!-- Written by `([^`]+)`", written)
    assert made is not None
    results = [ScenarioResult("s01", seed, True, 0, (), (), (), (), (), 0, ()) for seed in seeds]
    assert prose(written) == prose(table(results, (), made[1]))


def test_the_prose_of_the_table_of_random_faults_is_current() -> None:
    assert prose((DOCS / "accuracy-random.md").read_text()) == prose(document((), 200, 303))
