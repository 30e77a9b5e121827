"""Details of one incident: evidence, other possible causes, ruled-out causes, affected jobs, history and next step.

A unique prefix of an id is enough; without an id, the only open incident."""

from __future__ import annotations

import argparse
import sys

from fabricmon.commands import remote
from fabricmon.commands.server.called import MOST, incidents_called
from fabricmon.console import output
from fabricmon.terminal import explain, incidents

EXAMPLES = """\
fabricmon explain 5f1d
fabricmon explain 5f1d6d0f3c2b9a47 --json
fabricmon explain 5f1d --method
fabricmon explain            # if exactly one incident is open
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="incident id, or a prefix of it")
    parser.add_argument("--method", action="store_true", help="also how each piece of evidence is calculated")
    remote.add_arguments(parser)
    output.add_arguments(parser)


@remote.answered("explain")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server does not answer, or if not exactly one incident matches."""
    client = remote.CentralClient(args)
    if args.id:
        several, at = incidents_called(client, args.id)
    else:
        every = client.request("GET", f"/incidents?status=firing&limit={MOST}")
        several, at = every.body["incidents"], every.at
    if len(several) == 1:
        answer = client.request("GET", f"/incidents/{remote.quoted(several[0]['id'])}")
        if args.json:
            remote.print_json(answer.body)
        else:
            output.show(explain.explanation(answer.body, output.view(args, answer.at), client.url, args.method))
        return 0
    view = output.view(args, at)
    if not several:
        error = f"no incident id starts with {args.id!r}" if args.id else "no open incident"
        print(f"fabricmon explain: {error}; `fabricmon incidents --since 30d` lists all incidents", file=sys.stderr)
    elif args.id:
        sys.stderr.writelines(f"{line}\n" for line in explain.ambiguous(args.id, several, view))
    else:
        print("fabricmon explain: several incidents are open; give an ID or a prefix of it:", file=sys.stderr)
        sys.stderr.writelines(f"{line}\n" for line in incidents.listed(several, view))
    return 1
