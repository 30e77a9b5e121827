"""Print a script by which a shell completes fabricmon's commands and options, incidents and nodes.

Incidents and nodes are asked of the centre that FABRICMON_CENTRE names, while you type; where it does not answer at
once, nothing is offered."""

from __future__ import annotations

import argparse
import re
import sys

SHELLS = ("bash", "zsh", "fish")
LISTS = ("ids", "nodes")
PATIENCE = 1.0  # seconds for the centre while somebody waits at the prompt
MOST = 200  # words of a list
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*")
"""A word that means nothing to a shell, and is no option. Nodes name themselves, and what is completed is run."""

EXAMPLES = """\
source <(fabricmon completion bash)
fabricmon completion bash > /etc/bash_completion.d/fabricmon
fabricmon completion zsh > /usr/local/share/zsh/site-functions/_fabricmon
fabricmon completion fish > ~/.config/fish/completions/fabricmon.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=(*SHELLS, *LISTS),
        help="the shell; or ids, nodes: what its script asks for, a word and what it is a line",
    )


def run(args: argparse.Namespace) -> int:
    """0."""
    if args.what in LISTS:
        _list(args.what)
        return 0
    from fabricmon.commands import completion_scripts

    sys.stdout.write(completion_scripts.script(args.what))
    return 0


def _list(what: str) -> None:
    """Nothing at all where the centre cannot be asked: a message would land in somebody's command line. Nor a word that
    is not SAFE."""
    from fabricmon.commands import remote
    from fabricmon.terminal.text import clean

    parser = argparse.ArgumentParser()
    remote.add_arguments(parser)
    try:
        client = remote.Client(parser.parse_args([]), PATIENCE)
        if what == "ids":
            found = client.ask("GET", f"/incidents?limit={MOST}").body["incidents"]
            rows = [(incident["id"], incident["title"]) for incident in found]
        else:
            rows = [(n["node"], n["presence"]) for n in client.ask("GET", f"/nodes?limit={MOST}").body["nodes"]]
    except (remote.RemoteError, KeyError, TypeError):
        return
    for word, about in rows:
        if isinstance(word, str) and SAFE.fullmatch(word):
            print(f"{word}\t{clean(about)}")
