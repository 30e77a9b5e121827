"""Maintenance windows: components in a window open no incident above info until it ends."""

from __future__ import annotations

import argparse

from fabricmon.commands import remote
from fabricmon.commands.server import windows

EXAMPLES = """\
fabricmon maintenance add --host host-004 --for 20m --comment "new firmware"
fabricmon maintenance add --host "host-04*" --component "leaf(su1/rail2)" --for 2h
fabricmon maintenance list
fabricmon maintenance end m-0123456789ab
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|end")
    add = verbs.add_parser("add", help="add a window")
    add.add_argument("--host", action="append", default=[], metavar="NODE", help="node name, * matches any characters")
    add.add_argument(
        "--component", action="append", default=[], metavar="NAME", help='as in an incident, such as "leaf(su1/rail2)"'
    )
    add.add_argument("--for", dest="duration", required=True, metavar="DURATION", help="duration, such as 20m, 2h")
    add.add_argument("--starts", metavar="TIME", help="start, such as 2026-01-31T22:00:00Z (default: now)")
    listed = verbs.add_parser("list", help="list active and future windows")
    end = verbs.add_parser("end", help="end windows now")
    windows.add_arguments(add, listed, end, why="the planned work")


@remote.answered("maintenance")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server refused or did not answer."""
    starts = {"starts": args.starts} if args.verb == "add" and args.starts else {}
    rows = windows.run(args, "maintenance", lambda: {"hosts": args.host, "components": args.component, **starts})
    nothing = "no maintenance windows"
    return windows.show(rows, args.json, lambda w: " ".join([*w["hosts"], *w["components"]]), nothing)
