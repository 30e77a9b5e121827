"""Every command of fabricmon that a document names, in prose as well, exists and has the flags it is given."""

import contextlib
import io
import re
from functools import cache
from pathlib import Path

import pytest

from fabricmon.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def usage(*verb: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as end:
        main([*verb, "--help"])
    assert end.value.code == 0
    return said.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_their_flags_exist(page):
    wrong = []
    for line in re.findall(r"(?:^|[`$] ?|bin/)fabricmon ([a-z][^`\n]*)", page.read_text(), re.MULTILINE):
        words = re.split(r"[#|>]", line)[0].split()
        if words[0] not in COMMANDS:
            wrong.append(f"no command: {line}")
            continue
        asked = [words[0]]
        if len(words) > 1 and re.search(rf"(?<![\w-]){re.escape(words[1])}(?=[,}}|]|  )", usage(words[0])):
            asked.append(words[1])  # a verb below the verb: `silence add`
        wrong += [f"no {flag}: {line}" for flag in re.findall(r"--[a-z.-]+", line) if flag not in usage(*asked)]
    assert wrong == []
