"""Hook of mkdocs: links to files of the project that are no documents become names: every link of the site works."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(
    r"\[(?P<text>[^\]]*)\]\((?:\.\./)+(?P<path>(?:README|CONTRIBUTING|CHANGELOG)\.md|(?:deploy|dashboards)\b[^)]*)\)"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page, with the links out of docs/ as names."""
    return OUTSIDE.sub(lambda link: f"{link['text']} (`{link['path']}`)", markdown)
