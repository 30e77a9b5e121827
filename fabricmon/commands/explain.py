"""Why an incident is what it is: what speaks for it and against it, what was ruled out, what it could be as well, which
jobs it hits, what happened so far, and what to do.

The first characters of an id are enough where no other id begins so; without an id, the one that is open."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.terminal import console, explain, incidents

EXAMPLES = """\
fabricmon explain 5f1d
fabricmon explain 5f1d6d0f3c2b9a47 --json
fabricmon explain            # where one incident is open
"""
MOST = 20  # incidents that an ambiguous beginning of an id names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="of the incident, or the beginning of it")
    remote.add_arguments(parser)
    console.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 where the centre cannot be asked, or no or more than one incident is meant."""
    try:
        client = remote.Client(args)
        asked = {"id": args.id.strip().lower()} if args.id else {"status": "firing"}
        answer = client.ask("GET", f"/incidents?{urlencode({**asked, 'limit': MOST})}")
        found = _meant(answer.body["incidents"], args.id)
        if found is not None:
            incident = client.ask("GET", f"/incidents/{remote.words(found['id'])}").body
    except remote.RemoteError as error:
        print(f"fabricmon explain: {error}", file=sys.stderr)
        return 1
    view = console.view(args, answer.at)
    if found is not None:
        if args.json:
            print(json.dumps(incident, indent=2, ensure_ascii=False))
        else:
            console.show(explain.told(incident, view, client.url))
        return 0
    several = answer.body["incidents"]
    if not several:
        said = f"no incident has an id that begins with {args.id!r}" if args.id else "no incident is open"
        print(f"fabricmon explain: {said}; `fabricmon incidents --since 30d` lists what is kept", file=sys.stderr)
    elif args.id:
        sys.stderr.writelines(f"{line}\n" for line in explain.ambiguous(args.id, several, view))
    else:
        print("fabricmon explain: which one? Give the beginning of an ID:", file=sys.stderr)
        sys.stderr.writelines(f"{line}\n" for line in incidents.listed(several, view))
    return 1


def _meant(found: list[dict[str, Any]], id: str | None) -> dict[str, Any] | None:
    """The one, or the one whose id is exactly that."""
    if len(found) == 1:
        return found[0]
    return next((incident for incident in found if incident["id"] == id), None)
