"""List the expected nodes and their state. With a name: incidents, symptoms, ports with utilisation, and jobs of that
node."""

from __future__ import annotations

import argparse
import sys
from typing import Any
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.commands.server.called import node_called
from fabricmon.console import output
from fabricmon.terminal import nodes
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.values import PRESENCES

EXAMPLES = """\
fabricmon nodes
fabricmon nodes --silent
fabricmon nodes host-007
fabricmon nodes --symptoms --json
"""
MOST = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NODE", help="show the details of this node, by its name or its agent's address")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--silent", action="store_true", help="only nodes that do not report, or report late")
    which.add_argument("--presence", choices=("live", *PRESENCES), help="only nodes in this state")
    add("--symptoms", action="store_true", help="only nodes with open symptoms")
    add("--limit", metavar="N", type=int, default=MOST, help="at most N (default %(default)s)")
    remote.add_arguments(parser)
    output.add_arguments(parser)


@remote.answered("nodes")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server does not answer or the node does not exist."""
    client = remote.CentralClient(args)
    if args.name:
        return _one(client, args)
    query: dict[str, Any] = {"limit": args.limit}
    if args.silent or args.presence:
        query["presence"] = "silent" if args.silent else args.presence
    answer = client.request("GET", f"/nodes?{urlencode(query)}")
    found = answer.body["nodes"]
    if args.symptoms:
        found = [node for node in found if node.get("symptoms")]
    if args.json:
        remote.print_json({**answer.body, "nodes": found})
        return 0
    if not found:
        print("all nodes report" if args.silent and not args.symptoms else "no matching nodes")
        return 0
    view = output.view(args, answer.at)
    output.show(nodes.listed(sorted(found, key=nodes.order) if args.silent else found, view))
    if answer.body["total"] > args.limit:
        print(f"{answer.body['total'] - args.limit} more: --limit")
    return 0


def _one(client: remote.CentralClient, args: argparse.Namespace) -> int:
    answer = client.request("GET", f"/nodes?limit={MOST}")
    known = {node["node"]: node for node in answer.body["nodes"]}
    node = known.get(args.name) or known.get(node_called(client, args.name))
    if node is None:
        near = [n["node"] for n in answer.body["nodes"] if args.name in n["node"]][:5]
        hint = f": did you mean {clean(', '.join(near))}?" if near else "; `fabricmon nodes` lists all nodes"
        print(f"fabricmon nodes: unknown node {args.name!r}{hint}", file=sys.stderr)
        return 1
    name = urlencode({"node": node["node"]})
    incidents = client.request("GET", f"/incidents?status=firing&{name}").body["incidents"]
    symptoms = client.request("GET", f"/symptoms?{name}").body["symptoms"]
    ports = client.request("GET", f"/ports?{name}").body["ports"]
    jobs = client.request("GET", f"/jobs?{name}").body.get("jobs", [])
    if args.json:
        found = {"node": node, "incidents": incidents, "symptoms": symptoms, "ports": ports, "jobs": jobs}
        remote.print_json(found)
        return 0
    output.show(nodes.one(node, incidents, symptoms, ports, jobs, output.view(args, answer.at)))
    return 0
