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
from tests.terminal.stand_in import StandIn

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
NO_NODES = ["fabric --device", "central --fabric", "agent --node", "rules export --rule", "rules export --name"]
ASK_BASH = (
    'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _fabricmon; echo "${COMPREPLY[*]}"; }'
)
MARK = "ran"
"""What a hostile name makes where a shell runs it."""
HOSTILE = [
    "$(touch${IFS}ran)", "`touch\tran`", "a;touch ran", "a\ntouch ran", "a|touch ran", "'$(touch ran)",
    "\x1b[2J$(touch ran)", "--server=http://there", "-x", "~root", "*", "", "a b", "a\\", None, 7, ["host"],
]  # fmt: skip
ORDINARY = ["host-007", "su1_gpu.rack-3.example", "10.0.0.7:9790", "a@b+c"]
ANSWERS = {
    "/nodes": {"nodes": [{"node": name, "presence": "live"} for name in (*HOSTILE, *ORDINARY)]},
    "/incidents": {"incidents": [{"id": id, "title": "a\tb\n$(touch ran)\x1b[2J"} for id in (*HOSTILE, "106c27f8")]},
}
OPENED = {
    "bash": (["bash", "--norc", "--noprofile"], "PS1='ready> '; source {0}/_fabricmon; clear"),
    "fish": (["fish", "--no-config"], "function fish_prompt; echo 'ready> '; end; source {0}/_fabricmon; clear"),
    "zsh": (["zsh", "-f"], "PS1='ready> '; fpath=({0} $fpath); autoload -Uz compinit; compinit -u -D; clear"),
}
"""How a shell starts on a terminal, and what makes it complete fabricmon's words."""


def environment_of(folder, url):
    """`fabricmon` on the path, and a server to ask."""
    (folder / "fabricmon").write_text(f'#!/bin/sh\nexec {sys.executable} -m fabricmon.cli "$@"\n')
    (folder / "fabricmon").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FABRICMON_SERVER": url}


@pytest.fixture
def environment(tmp_path, server):
    return environment_of(tmp_path, server.url)


def asked_in_bash(folder, environment, *typed):
    """What bash offers behind each line, a list of words a line."""
    (folder / "script").write_text(script("bash"))
    asked = "".join(f"ask {words} ''\n" if words.endswith(" ") else f"ask {words}\n" for words in typed)
    said = ran(["bash", "-c", f"cd {folder}\nsource {folder}/script\n{ASK_BASH}\n{asked}"], environment)
    return [line.split() for line in said.splitlines()]


def ran(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    assert done.stderr == ""
    return done.stdout


def test_bash(environment, tmp_path, require):
    require("bash")
    asked = [*ASKED, EXPLAIN, (f"fabricmon config check {tmp_path}/scr", {f"{tmp_path}/script"})]
    found = asked_in_bash(tmp_path, environment, *(typed for typed, _ in asked))
    assert [set(words) for words in found] == [words for _, words in asked]


def test_fish(environment, tmp_path, require):
    require("fish", "completion in fish")
    (tmp_path / "script").write_text(script("fish"))
    for typed, words in [*ASKED, EXPLAIN]:
        said = ran(["fish", "--no-config", "-c", f"source {tmp_path}/script; complete -C '{typed}'"], environment)
        assert {line.split("\t")[0] for line in said.splitlines()} == words


def test_zsh(environment, tmp_path, require):
    require("zsh", "completion in zsh")
    (tmp_path / "_fabricmon").write_text(script("zsh"))
    command, setup = OPENED["zsh"]
    with Terminal(command, 120, 40, **{k: environment[k] for k in ("PATH", "FABRICMON_SERVER")}) as terminal:
        terminal.type(setup.format(tmp_path) + "\n")
        terminal.wait_for(lambda shown: shown.startswith("ready>"))
        for typed, said in IN_ZSH:
            terminal.type(f"\x15{typed}")
            terminal.wait_for(said)


def test_nodes_are_offered_where_a_node_is_meant_and_nowhere_else(environment, tmp_path, require):
    require("bash")
    typed = [f"fabricmon {words} " for words in ("nodes", "incidents --host", *NO_NODES)]
    found = asked_in_bash(tmp_path, environment, *typed)
    assert [len(words) for words in found] == [16, 16] + [0] * len(NO_NODES)


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_name_that_a_shell_would_run_is_not_offered(shell, tmp_path, require):
    require(shell, f"completion in {shell}")
    with StandIn(ANSWERS) as server:
        environment = environment_of(tmp_path, server.url)
        said = ran(["fabricmon", "completion", "nodes"], environment)
        assert said.splitlines() == [f"{name}\tlive" for name in ORDINARY]
        said = ran(["fabricmon", "completion", "ids"], environment)
        assert said.splitlines() == ["106c27f8\ta b $(touch ran) [2J"]
        if shell == "bash":
            found = asked_in_bash(tmp_path, environment, "fabricmon nodes ", "fabricmon explain ")
        else:
            (tmp_path / "script").write_text(script("fish"))
            found = []
            for typed in ("fabricmon nodes ", "fabricmon explain "):
                fish = f"cd {tmp_path}; source {tmp_path}/script; complete -C '{typed}'"
                lines = ran(["fish", "--no-config", "-c", fish], environment).splitlines()
                found.append([line.split("\t")[0] for line in lines])
    assert [sorted(words) for words in found] == [sorted(ORDINARY), ["106c27f8"]]
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("answer", [{}, {"nodes": 1}, {"nodes": [1]}, {"nodes": [{"node": "a"}]}])
def test_an_answer_of_another_form_offers_nothing(answer, tmp_path):
    with StandIn({"/nodes": answer}) as server:
        assert ran(["fabricmon", "completion", "nodes"], environment_of(tmp_path, server.url)) == ""


@pytest.mark.parametrize("name", ["$(touch${IFS}ran)", "`touch${IFS}ran`", "a;touch${IFS}ran"])
@pytest.mark.parametrize("shell", OPENED)
def test_scripts_run_no_name_that_they_are_given_and_insert_it_quoted(shell, name, tmp_path, require):
    """Whatever prints the list: here it leaves nothing out, so the script is alone."""
    require(shell, f"completion in {shell}")
    (tmp_path / "_fabricmon").write_text(script(shell))
    (tmp_path / "name").write_text(f"{name}\tlive\n")
    (tmp_path / "fabricmon").write_text(
        f'#!/bin/sh\n[ "$1" = completion ] && exec cat {tmp_path}/name; printf "got<%s>\\n" "$2"\n'
    )
    (tmp_path / "fabricmon").chmod(0o755)
    command, setup = OPENED[shell]
    with Terminal(command, 200, 40, PATH=f"{tmp_path}:{os.environ['PATH']}", HOME=str(tmp_path)) as terminal:
        terminal.type(f"cd {tmp_path}; {setup.format(tmp_path)}\n")
        terminal.wait_for(lambda shown: shown.startswith("ready>"))
        terminal.type("fabricmon nodes \t")
        terminal.wait_for(lambda shown: "touch" in shown.replace("\n", ""))
        terminal.type("\n")
        terminal.wait_for(f"got<{name}>")
    assert not (tmp_path / MARK).exists()


def test_names_of_files_are_offered_as_they_are(environment, tmp_path, require):
    require("bash")
    for name in ("a b.yaml", "a*.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "script").write_text(script("bash"))
    asked = "COMP_WORDS=(fabricmon config check a); COMP_CWORD=3; _fabricmon; printf '%s\\n' \"${COMPREPLY[@]}\""
    said = ran(["bash", "-c", f"cd {tmp_path}; source ./script; {asked}"], environment)
    assert sorted(said.splitlines()) == ["a b.yaml", "a*.yaml"]


def test_scripts_know_every_command():
    for shell in ("bash", "zsh", "fish"):
        assert all(verb in script(shell) for verb in COMMANDS)


def test_the_manual_is_that_of_this_command_line():
    assert MANUAL.read_text() == page(), "run `make docs`"


def test_the_manual_is_clean_to_who_reads_manuals(require):
    require("mandoc", "the manual page")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", MANUAL], capture_output=True, text=True, timeout=60)
    assert [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line] == []
