"""The site lists every document of docs/ (`make site` builds it, and fails at a broken link)."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT


def test_each_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w-]+\.md", (ROOT / "packaging/site/mkdocs.yml").read_text().partition("\nnav:")[2])
    assert sorted({*listed}) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
