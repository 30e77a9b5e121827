"""Silences: incidents that nobody is told of for a while. They stay on the page.

A matcher is NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX; names are kind, component, node, severity, id, or a
label of the incident. All matchers of a silence must hold."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

from fabricmon.commands import remote
from fabricmon.terminal import console
from fabricmon.terminal.text import clean

EXAMPLES = """\
fabricmon silence add kind=link_flapping node=host-007 --for 2h --comment "cable is ordered"
fabricmon silence list
fabricmon silence expire s-0123456789ab
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """add | list | expire."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|expire")
    add = verbs.add_parser("add", help="silence what meets all matchers")
    add.add_argument("matchers", nargs="+", metavar="MATCHER", help="such as kind=link_flapping or node=~host-0.*")
    add.add_argument("--for", dest="duration", required=True, metavar="DURATION", help="such as 30m, 2h, 3d")
    add.add_argument("--comment", default="", help="why")
    add.add_argument("--author", default=None, help="who (default: you)")
    listed = verbs.add_parser("list", help="silences that are or will be active")
    listed.add_argument("--all", action="store_true", help="ended ones too")
    expire = verbs.add_parser("expire", help="end silences now")
    expire.add_argument("ids", nargs="+", metavar="ID")
    for verb in (add, listed, expire):
        remote.add_arguments(verb)


def run(args: argparse.Namespace) -> int:
    """0 if the centre did as asked, 1 if not."""
    try:
        if args.verb == "add":
            body = {
                "matchers": args.matchers,
                "duration": args.duration,
                "comment": args.comment,
                "author": args.author if args.author is not None else remote.author(),
            }
            shown = [remote.ask(args, "POST", "/silences", body)]
        elif args.verb == "expire":
            shown = [remote.ask(args, "DELETE", f"/silences/{quote(id, safe='')}") for id in args.ids]
        else:
            shown = remote.ask(args, "GET", "/silences" + ("?all=true" if args.all else ""))["silences"]
    except remote.RemoteError as error:
        print(f"fabricmon silence: {error}", file=sys.stderr)
        return 1
    show(shown, args.json, lambda s: " ".join(s["matchers"]), "no silences")
    return 0


def show(rows: list[dict[str, Any]], as_json: bool, what: Any, nothing: str) -> None:
    """A line each: id, state, until when, what, who and why."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    lines = []
    for row in rows:
        why = f"  ({row['author']}: {row['comment']})" if row["comment"] else f"  ({row['author']})"
        lines.append(f"{row['id']}  {row['state']:<7} {row['starts']} to {row['ends']}  {what(row)}{why}")
    console.show(map(clean, lines or [nothing]))
