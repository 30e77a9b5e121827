"""docs/first-alert.md keeps its form: each path fits a screen, tests its receiver and ends with a real alert."""

from __future__ import annotations

import re

import pytest

from tests.first_alert.__main__ import PATHS, blocks
from tests.rigs.machine import ROOT

SCREEN = 45
TEXT = (ROOT / "docs/first-alert.md").read_text()
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)


def test_there_is_a_path_for_each_place_and_all_but_kubernetes_are_run() -> None:
    assert len(HEADINGS) == len(PATHS) + 1
    assert "Kubernetes" in HEADINGS


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_path_fits_a_screen_and_tests_the_receiver(heading: str) -> None:
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert len(section.splitlines()) <= SCREEN
    assert "fabricmon notify test" in "".join(blocks(heading))
