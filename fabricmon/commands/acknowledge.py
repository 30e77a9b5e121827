"""Take an incident on. Receivers are not reminded of it, those that are next in line (`after`) are not called, and the
page says who has it. It holds until the incident ends or becomes worse."""

from __future__ import annotations

import argparse
import json
import sys
from urllib.parse import quote

from fabricmon.commands import remote
from fabricmon.terminal import console
from fabricmon.terminal.text import clean

EXAMPLES = """\
fabricmon acknowledge 5f1d6d0f3c2b9a47 --comment "cable is ordered"
fabricmon acknowledge 5f1d6d0f3c2b9a47 --withdraw
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="incidents, by their ids")
    parser.add_argument("--comment", default="", help="what you know or do")
    parser.add_argument("--author", default=None, help="who (default: you)")
    parser.add_argument("--withdraw", action="store_true", help="nobody has it any more")
    remote.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 if the centre did as asked, 1 if not."""
    author = args.author if args.author is not None else remote.author()
    try:
        shown = []
        for id in args.ids:
            path = f"/incidents/{quote(id, safe='')}/acknowledgement"
            body = {"author": author, "comment": args.comment}
            shown.append(remote.ask(args, "DELETE", path) if args.withdraw else remote.ask(args, "POST", path, body))
    except remote.RemoteError as error:
        print(f"fabricmon acknowledge: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return 0
    lines = []
    for incident in shown:
        taken = incident.get("acknowledged")
        who = f"taken on by {taken['author']}" if taken else "nobody has it"
        lines.append(f"{incident['id']}  {incident['title']}: {who}")
    console.show(map(clean, lines))
    return 0
