"""The fenced blocks of the documents, and the marks that define what a test does with each.

    ```sh               commands; run by bash, all must succeed
    ```console          commands behind "$ ", with their output below; run, and the output compared
    ```sh hardware      commands that need hardware or tools of vendors: flags are checked where the tool is here
    <!-- not run: … -->     on the line before a fence: why its commands are not run by this test
    <!-- exits 1 3: … -->   on the line before a fence: accepted exit codes besides 0
    <!-- file: plan.yaml -->    on the line before a fence: its text is that file, for the commands of the page

Every fence names its language, so that no command is missed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = frozenset({"sh", "console", "yaml", "json", "python", "promql", "text", "ini", "diff", "html"})

ELSEWHERE = {
    "docs/cli.md": "tests/terminal/documented.py",
    "docs/security.md": "tests/web/test_security_document.py",
}
"""Pages whose commands need another site than the one in this folder -> the test that runs them."""

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>(?:(?!-->).)+?) -->\n)?```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """`line` of the fence; `reason` why it is not run, "" if it is; `exits` the accepted exit codes; `file` the name of
    the file that it is, "" if none."""

    page: Path
    line: int
    language: str
    hardware: bool
    reason: str
    exits: frozenset[int]
    file: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether its commands are run."""
        return self.language in ("sh", "console") and not (self.hardware or self.reason)


def pages() -> list[Path]:
    """Every document of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """The fenced blocks of a page, in order."""
    text, found = page.read_text(), []
    for match in _FENCE.finditer(text):
        language, _, further = match["info"].partition(" ")
        mark = match["mark"] or ""
        codes = re.findall(r"\d+", mark.partition(":")[0]) if mark.startswith("exits ") else []
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start("info")) + 1,
                language=language,
                hardware=further == "hardware",
                reason=mark.removeprefix("not run: ") if mark.startswith("not run: ") else "",
                exits=frozenset({0, *map(int, codes)}),
                file=mark.removeprefix("file: ") if mark.startswith("file: ") else "",
                text=match["text"],
            )
        )
    return tuple(found)


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a `console` block with the output below each."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].rstrip("\n"), ""))
        elif found:
            command, said = found[-1]
            if command.endswith("\\"):
                found[-1] = (f"{command}\n{line.rstrip()}", said)
            else:
                found[-1] = (command, said + line)
    return found
