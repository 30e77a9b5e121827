"""Every command of fabricmon that a document names, in prose as well, exists and has the flags it is given."""

import contextlib
import io
import re
from functools import cache
from pathlib import Path

import pytest

from fabricmon.cli import COMMANDS, main
from fabricmon.commands.manual import CODES, ENVIRONMENT
from fabricmon.commands.tree import verbs

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
        below = words[1] if len(words) > 1 and words[1][0] != "-" else None
        if below and re.search(rf"(?<![\w-]){re.escape(below)}(?=[,}}|]|  )", usage(words[0])):
            asked.append(below)  # a verb below the verb: `silence add`
        wrong += [f"no {flag}: {line}" for flag in re.findall(r"--[a-z.-]+", line) if flag not in usage(*asked)]
    assert wrong == []


def test_every_variable_that_an_option_names_is_in_the_manual():
    named = {name for verb in verbs() for option in verb.options for name in re.findall(r"FABRICMON_\w+", option.help)}
    assert named
    assert named - set(re.findall(r"FABRICMON_\w+", " ".join(names for names, _ in ENVIRONMENT))) == set()


DEAD = "--server http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"incidents {DEAD}", 1),
        (f"nodes {DEAD}", 1),
        (f"status {DEAD}", 3),
        (f"topology {DEAD}", 2),
        ("topology show no-such-file", 2),
        ("fabric --device no-such-device", 1),
        ("replay no-such-directory", 2),
        ("scenario run no-such.yaml", 2),
    ],
)
def test_what_cannot_be_done_has_the_exit_code_of_the_manual(line, code):
    """1, or another that the manual gives by the command's name."""
    assert main(line.split()) == code
    assert code == 1 or re.search(rf"\b{line.split()[0]}\b", dict(CODES)[str(code)])


def test_the_command_line_document_names_commands_with_other_exit_codes():
    codes = (ROOT / "docs/cli.md").read_text().partition("\nExit codes: ")[2].partition("\n\n")[0]
    assert main(["topology", *DEAD.split()]) == 2
    assert re.search(r"`topology`.* 2 .*server is unreachable", codes, re.DOTALL)
