"""Every citation leads to a section of docs/methods.md, and the limits on that page are those of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from fabricmon.rules import RULES, Rule
from fabricmon.rules.limits import limits
from tests.docs.blocks import ROOT

METHODS = ROOT / "docs/methods.md"
ELSEWHERE = re.compile(
    r"detection[- ]methods|link-health|counters-(?:ib|roce|nvlink)|node-inventory|peer-thresholds|common-causes"
    r"|(?:kernel-log|netlink|topologies|conventions|scenarios)(?:\.md)?,? (?:sections? )?\d"
    r"|\b(?:kernel-log|netlink)\.md"
    r"| \[[DPASRKVMGH]\](?=[ .,;:)\"]|$)|(?: \(|#[\w-]+, )(?:2\.[1-6]|3\.(?:\d|10)|4\.(?:\d|10))\)",
    re.MULTILINE,
)
"""Names of notes outside the repository, numbers of their sections and their marks for how sure a fact is."""

TEXTS = frozenset({".py", ".md", ".yaml", ".yml", ".json", ".js", ".css", ".html", ".1", ".toml", ".service"})


def prose(text: str) -> str:
    """A page without what stands between fences."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections() -> dict[str, str]:
    """Text of each section of the page by its anchor."""
    parts = re.split(r"^#+ (.+)\n", prose(METHODS.read_text()), flags=re.MULTILINE)[1:]
    return {anchor(heading): text for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def texts() -> list[Path]:
    """Whatever of the project a person may read."""
    folders = (ROOT / name for name in ("fabricmon", "docs", "dashboards", "deploy", "tests"))
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXTS and path.is_file()]
    return sorted([*found, *ROOT.glob("*.md")])


def name(rule: Rule) -> str:
    return rule.name


def test_headings_have_anchors_of_their_own() -> None:
    headings = re.findall(r"^#+ (.+)$", prose(METHODS.read_text()), re.MULTILINE)
    assert len(sections()) == len(headings)


def test_every_citation_leads_to_a_section() -> None:
    known = sections().keys()
    lost = {
        f"{path.relative_to(ROOT)}: {cited}"
        for path in texts()
        for cited in re.findall(r"methods\.md#([\w-]+)", path.read_text())
        if cited not in known
    }
    assert lost == set(), "no such section in docs/methods.md"
    assert set(re.findall(r"\(#([\w-]+)\)", METHODS.read_text())) - known == set()


def test_no_source_outside_the_repository_is_cited() -> None:
    mine = Path(__file__)
    found = {
        f"{path.relative_to(ROOT)}: {cited.strip()}"
        for path in texts()
        if path != mine
        for cited in ELSEWHERE.findall(path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_a_rule_cites_its_section_and_that_has_its_limits(rule: Rule) -> None:
    section = rule.method.partition("#")[2]
    assert section in sections(), "a section of this name in docs/methods.md"
    found = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*) \|$", sections()[section], re.MULTILINE)
    assert {limit: default for limit, default, _ in found} == {limit.name: limit.default for limit in limits(rule)}
    module = import_module(f"fabricmon.rules.{rule.name}")
    assert rule.method in Path(str(module.__file__)).read_text()
