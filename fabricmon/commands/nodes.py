"""Nodes that there should be and how they stand; with a name, all that is known of that one: incidents, symptoms,
ports and how busy they are, jobs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.terminal import console, nodes
from fabricmon.terminal.text import clean
from fabricmon.terminal.words import PRESENCES

EXAMPLES = """\
fabricmon nodes
fabricmon nodes --silent
fabricmon nodes host-007
fabricmon nodes --symptoms --json
"""
MOST = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NODE", help="all of this one")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--silent", action="store_true", help="those of which no frames arrive, or too late")
    which.add_argument("--presence", choices=("live", *PRESENCES), help="those that stand so")
    add("--symptoms", action="store_true", help="those with an open symptom")
    add("--limit", metavar="N", type=int, default=MOST, help="at most so many (default %(default)s)")
    remote.add_arguments(parser)
    console.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 where the centre cannot be asked or there is no such node."""
    try:
        client = remote.Client(args)
        if args.name:
            return _one(client, args)
        asked: dict[str, Any] = {"limit": args.limit}
        if args.silent or args.presence:
            asked["presence"] = "silent" if args.silent else args.presence
        answer = client.ask("GET", f"/nodes?{urlencode(asked)}")
    except remote.RemoteError as error:
        print(f"fabricmon nodes: {error}", file=sys.stderr)
        return 1
    found = answer.body["nodes"]
    if args.symptoms:
        found = [node for node in found if node.get("symptoms")]
    if args.json:
        print(json.dumps({**answer.body, "nodes": found}, indent=2, ensure_ascii=False))
        return 0
    if not found:
        print("no such node" if args.presence or args.symptoms else "no node is silent" if args.silent else "no node")
        return 0
    view = console.view(args, answer.at)
    console.show(nodes.listed(sorted(found, key=nodes.order) if args.silent else found, view))
    if answer.body["total"] > args.limit:
        print(f"{answer.body['total'] - args.limit} more: --limit")
    return 0


def _one(client: remote.Client, args: argparse.Namespace) -> int:
    answer = client.ask("GET", f"/nodes?limit={MOST}")
    node = next((node for node in answer.body["nodes"] if node["node"] == args.name), None)
    if node is None:
        near = [n["node"] for n in answer.body["nodes"] if args.name in n["node"]][:5]
        hint = f": did you mean {clean(', '.join(near))}?" if near else "; `fabricmon nodes` lists all"
        print(f"fabricmon nodes: no node {args.name!r}{hint}", file=sys.stderr)
        return 1
    name = urlencode({"node": args.name})
    incidents = client.ask("GET", f"/incidents?status=firing&{name}").body["incidents"]
    symptoms = client.ask("GET", f"/symptoms?{name}").body["symptoms"]
    ports = client.ask("GET", f"/ports?{name}").body["ports"]
    jobs = client.ask("GET", f"/jobs?{name}").body.get("jobs", [])
    if args.json:
        found = {"node": node, "incidents": incidents, "symptoms": symptoms, "ports": ports, "jobs": jobs}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    console.show(nodes.one(node, incidents, symptoms, ports, jobs, console.view(args, answer.at)))
    return 0
