"""A change of the composer, the scorer or the world after their freeze is visible: in docs/scenarios.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary.frozen import digest, files

DOCUMENT = Path(__file__).parents[2] / "docs" / "scenarios.md"


@pytest.mark.parametrize("part", sorted(files()))
def test_the_digest_in_the_document_is_that_of_the_files(part: str) -> None:
    paths = files()[part]
    line = f"| {part} | {len(paths)} | `{digest(paths)}` |"
    assert line in DOCUMENT.read_text(encoding="utf-8"), f"{part} changed; name the change and write {line}"


def test_a_digest_depends_on_names_and_text(tmp_path: Path) -> None:
    one, two = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("x")
    two.write_text("x")
    assert digest([one]) != digest([two])
    before = digest([one])
    one.write_text("y")
    assert digest([one]) != before
