"""Details of one incident: evidence, other possible causes, ruled-out causes, affected jobs, history and next step.

A unique prefix of an id is enough; without an id, the only open incident."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.terminal import explain, incidents

EXAMPLES = """\
fabricmon explain 5f1d
fabricmon explain 5f1d6d0f3c2b9a47 --json
fabricmon explain            # if exactly one incident is open
"""
MOST = 20  # incidents listed for an ambiguous prefix


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="incident id, or a prefix of it")
    remote.add_arguments(parser)
    output.add_arguments(parser)


@remote.answered("explain")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server does not answer, or if not exactly one incident matches."""
    client = remote.CentralClient(args)
    query = {"id": args.id.strip().lower()} if args.id else {"status": "firing"}
    answer = client.request("GET", f"/incidents?{urlencode({**query, 'limit': MOST})}")
    several = answer.body["incidents"]
    found = several[0] if len(several) == 1 else next((i for i in several if i["id"] == args.id), None)
    view = output.view(args, answer.at)
    if found is not None:
        incident = client.request("GET", f"/incidents/{remote.quoted(found['id'])}").body
        if args.json:
            remote.print_json(incident)
        else:
            output.show(explain.explanation(incident, view, client.url))
        return 0
    if not several:
        error = f"no incident id starts with {args.id!r}" if args.id else "no open incident"
        print(f"fabricmon explain: {error}; `fabricmon incidents --since 30d` lists all incidents", file=sys.stderr)
    elif args.id:
        sys.stderr.writelines(f"{line}\n" for line in explain.ambiguous(args.id, several, view))
    else:
        print("fabricmon explain: several incidents are open; give an ID or a prefix of it:", file=sys.stderr)
        sys.stderr.writelines(f"{line}\n" for line in incidents.listed(several, view))
    return 1
