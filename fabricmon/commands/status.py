"""Summary of the fleet: nodes, open incidents by severity, nodes that do not report, time of the last evaluation.

Exit code: 0 OK, 1 warning, 2 critical, 3 unknown (no answer from the server, no evaluation in the last 30 s, or nodes
do not report and nothing worse is known)."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.forms.times import wall_time
from fabricmon.terminal import status
from fabricmon.terminal.values import PRESENCES

EXAMPLES = """\
fabricmon status
fabricmon status --server https://fabricmon:9791 --token-file ~/.fabricmon-token
fabricmon status --json | jq .reason
fabricmon status --allow-silent 5 >/dev/null || echo "fabric is not OK"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remote.add_arguments(parser)
    parser.add_argument(
        "--allow-silent", metavar="N", type=int, default=0, help="still OK with up to N nodes not reporting (default 0)"
    )
    output.add_arguments(parser)


@remote.answered("status", status.CODES["unknown"])
def run(args: argparse.Namespace) -> int:
    """Print the summary; 0, 1, 2 or 3 as above."""
    client = remote.CentralClient(args)
    overview, incidents, nodes = fetch(client)
    word, reason = status.verdict(overview, args.allow_silent)
    if args.json:
        found = {"status": word, "reason": reason, "age": status.age(overview), "server": client.url}
        print(json.dumps({**found, "overview": overview, "incidents": incidents, "silent": nodes}, indent=2))
    else:
        now = wall_time(overview.get("at")) or 0.0
        output.show(status.screen(overview, incidents, nodes, client.url, output.view(args, now), args.allow_silent))
    return status.CODES[word]


def fetch(client: remote.CentralClient) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Overview, the open incidents and the nodes not reporting that are shown. RemoteError."""
    overview = client.request("GET", "/overview").body
    incidents = client.request("GET", f"/incidents?status=firing&limit={status.SHOWN}").body["incidents"]
    nodes: list[dict[str, Any]] = []
    if any(overview["nodes"].get(presence) for presence in PRESENCES):
        nodes = client.request("GET", f"/nodes?presence=silent&limit={status.SHOWN}").body["nodes"]
    return overview, incidents, nodes
