"""Completion in the shells themselves, and the manual by who reads manuals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fabricmon.commands.completion_scripts import script
from fabricmon.commands.manual import page
from fabricmon.commands.table import COMMANDS
from tests.terminal.ptys import Terminal

MANUAL = Path(__file__).resolve().parents[2] / "fabricmon/manual/fabricmon.1"
ASKED = [
    ("fabricmon sil", {"silence"}),
    ("fabricmon silence ", {"add", "list", "expire"}),
    ("fabricmon silence add --f", {"--for"}),
    ("fabricmon incidents --severity ", {"info", "warning", "critical"}),
    ("fabricmon nodes --presence ref", {"refused"}),
    ("fabricmon top --colour a", {"auto", "always"}),
]
EXPLAIN = ("fabricmon explain 106", {"106c27f8e9a4f92f"})
IN_ZSH = [
    ("fabricmon sil\t", "fabricmon silence"),
    ("fabricmon silence \t\t", "end silences now"),
    ("fabricmon explain 106\t", "106c27f8e9a4f92f"),
]
ASK_BASH = (
    'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _fabricmon; echo "${COMPREPLY[*]}"; }'
)


@pytest.fixture
def environment(tmp_path, centre):
    """`fabricmon` on the path, and a centre to ask."""
    (tmp_path / "fabricmon").write_text(f'#!/bin/sh\nexec {sys.executable} -m fabricmon.cli "$@"\n')
    (tmp_path / "fabricmon").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FABRICMON_CENTRE": centre.url}


def ran(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    assert done.stderr == ""
    return done.stdout


def test_bash(environment, tmp_path, require):
    require("bash")
    (tmp_path / "script").write_text(script("bash"))
    asked = [*ASKED, EXPLAIN, (f"fabricmon config check {tmp_path}/scr", {"script"})]
    typed = "".join(f"ask {words} ''\n" if words.endswith(" ") else f"ask {words}\n" for words, _ in asked)
    said = ran(["bash", "-c", f"source {tmp_path}/script\n{ASK_BASH}\n{typed}"], environment)
    found = [set(line.replace(f"{tmp_path}/", "").split()) for line in said.splitlines()]
    assert found == [words for _, words in asked]


def test_fish(environment, tmp_path, require):
    require("fish", "completion in fish")
    (tmp_path / "script").write_text(script("fish"))
    for typed, words in [*ASKED, EXPLAIN]:
        said = ran(["fish", "--no-config", "-c", f"source {tmp_path}/script; complete -C '{typed}'"], environment)
        assert {line.split("\t")[0] for line in said.splitlines()} == words


def test_zsh(environment, tmp_path, require):
    require("zsh", "completion in zsh")
    (tmp_path / "_fabricmon").write_text(script("zsh"))
    with Terminal(["zsh", "-f"], 120, 40, **{k: environment[k] for k in ("PATH", "FABRICMON_CENTRE")}) as terminal:
        terminal.type(f"PS1='ready> '; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; clear\n")
        terminal.wait_for(lambda shown: shown.startswith("ready>"))
        for typed, said in IN_ZSH:
            terminal.type(f"\x15{typed}")
            terminal.wait_for(said)


def test_scripts_know_every_command():
    for shell in ("bash", "zsh", "fish"):
        assert all(verb in script(shell) for verb in COMMANDS)


def test_the_manual_is_that_of_this_command_line():
    assert MANUAL.read_text() == page(), "run `make docs`"


def test_the_manual_is_clean_to_who_reads_manuals(require):
    require("mandoc", "the manual page")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", MANUAL], capture_output=True, text=True, timeout=60)
    assert [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line] == []
