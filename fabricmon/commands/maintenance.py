"""Announced work: what it covers makes no incident of warning or higher until it ends."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import quote

from fabricmon.commands import remote
from fabricmon.commands.silence import show

EXAMPLES = """\
fabricmon maintenance add --host host-040 --for 20m --comment "new firmware"
fabricmon maintenance add --host "host-04*" --component "leaf(su1/rail2)" --for 2h
fabricmon maintenance list
fabricmon maintenance end m-0123456789ab
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """add | list | end."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|end")
    add = verbs.add_parser("add", help="announce work")
    add.add_argument("--host", action="append", default=[], metavar="NODE", help="a node; * stands for anything")
    add.add_argument(
        "--component", action="append", default=[], metavar="WORDS", help='as in an incident: "leaf(su1/rail2)"'
    )
    add.add_argument("--for", dest="duration", required=True, metavar="DURATION", help="such as 20m, 2h")
    add.add_argument("--starts", metavar="TIME", help="such as 2026-01-31T22:00:00Z (default: now)")
    add.add_argument("--comment", default="", help="what is done")
    add.add_argument("--author", default=None, help="who (default: you)")
    listed = verbs.add_parser("list", help="windows that are or will be active")
    listed.add_argument("--all", action="store_true", help="ended ones too")
    end = verbs.add_parser("end", help="end windows now")
    end.add_argument("ids", nargs="+", metavar="ID")
    for verb in (add, listed, end):
        remote.add_arguments(verb)


def run(args: argparse.Namespace) -> int:
    """0 if the centre did as asked, 1 if not."""
    try:
        if args.verb == "add":
            body = {
                "hosts": args.host,
                "components": args.component,
                "duration": args.duration,
                "comment": args.comment,
                "author": args.author if args.author is not None else remote.author(),
                **({"starts": args.starts} if args.starts else {}),
            }
            shown = [remote.ask(args, "POST", "/maintenance", body)]
        elif args.verb == "end":
            shown = [remote.ask(args, "DELETE", f"/maintenance/{quote(id, safe='')}") for id in args.ids]
        else:
            shown = remote.ask(args, "GET", "/maintenance" + ("?all=true" if args.all else ""))["maintenance"]
    except remote.RemoteError as error:
        print(f"fabricmon maintenance: {error}", file=sys.stderr)
        return 1
    show(shown, args.json, lambda w: " ".join([*w["hosts"], *w["components"]]), "no maintenance announced")
    return 0
