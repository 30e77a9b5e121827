"""Print the completion script of a shell: commands, options, incident ids and node names.

Ids and names are requested from the server in FABRICMON_SERVER while you type. If it does not answer within a second,
none are offered."""

from __future__ import annotations

import argparse
import re
import sys

SHELLS = ("bash", "zsh", "fish")
LISTS = ("ids", "nodes")
PATIENCE = 1.0  # seconds for the answer: a person waits at the prompt
MOST = 200  # words of a list
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*")
"""A word without meaning to a shell that is not an option: nodes choose their names, and a completed word is run."""

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
        help="the shell; ids and nodes are used by its script: one word and its description per line",
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
    """Print the words of a list that are SAFE. Nothing on an error: a message would end up in the command line."""
    from fabricmon.commands import remote
    from fabricmon.terminal.fitted_text import clean

    parser = argparse.ArgumentParser(exit_on_error=False)
    remote.add_arguments(parser)
    try:
        client = remote.CentralClient(parser.parse_args([]), PATIENCE)
        if what == "ids":
            found = client.request("GET", f"/incidents?limit={MOST}").body["incidents"]
            rows = [(incident["id"], incident["title"]) for incident in found]
        else:
            rows = [(n["node"], n["presence"]) for n in client.request("GET", f"/nodes?limit={MOST}").body["nodes"]]
    except (remote.RemoteError, argparse.ArgumentError, KeyError, TypeError):
        return
    for word, about in rows:
        if isinstance(word, str) and SAFE.fullmatch(word):
            print(f"{word}\t{clean(about)}")
