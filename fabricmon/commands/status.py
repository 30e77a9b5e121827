"""The fleet on one screen: nodes, open incidents by severity, what is silent, and how old that is.

The exit code says it too, as of `fabricmon check`: 0 pass, 1 warning, 2 critical, 3 unknown (the centre cannot be asked
or has judged nothing lately, or nodes are silent and nothing worse is known)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from fabricmon.commands import remote
from fabricmon.terminal import console, status
from fabricmon.terminal.words import PRESENCES, wall

EXAMPLES = """\
fabricmon status
fabricmon status --centre https://centre:9791 --token-file ~/.fabricmon-token
fabricmon status --json | jq .reason
fabricmon status --allow-silent 5 >/dev/null || echo "look at the fabric"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remote.add_arguments(parser)
    parser.add_argument(
        "--allow-silent", metavar="N", type=int, default=0, help="nodes that may be silent and it is still a pass (0)"
    )
    console.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0, 1, 2 or 3 as above."""
    try:
        client = remote.Client(args)
        overview, incidents, nodes = look(client)
    except remote.RemoteError as error:
        print(f"fabricmon status: {error}", file=sys.stderr)
        return status.CODES["unknown"]
    word, reason = status.verdict(overview, args.allow_silent)
    if args.json:
        found = {"status": word, "reason": reason, "age": status.age(overview), "centre": client.url}
        print(json.dumps({**found, "overview": overview, "incidents": incidents, "silent": nodes}, indent=2))
    else:
        now = wall(overview.get("at")) or 0.0
        console.show(
            status.screen(overview, incidents, nodes, client.url, console.view(args, now), args.allow_silent)
        )
    return status.CODES[word]


def look(client: remote.Client) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Overview, open incidents and silent nodes, as many as are shown. RemoteError."""
    overview = client.ask("GET", "/overview").body
    incidents = client.ask("GET", f"/incidents?status=firing&limit={status.SHOWN}").body["incidents"]
    nodes: list[dict[str, Any]] = []
    if any(overview["nodes"].get(presence) for presence in PRESENCES):
        nodes = client.ask("GET", f"/nodes?presence=silent&limit={status.SHOWN}").body["nodes"]
    return overview, incidents, nodes
