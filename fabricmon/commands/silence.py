"""Silences: no notifications are sent for incidents that match, for a limited time. They stay visible on the page.

A matcher is NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX; NAME is kind, component, node, severity, id, or a
label of the incident. An incident must match all matchers of a silence."""

from __future__ import annotations

import argparse

from fabricmon.commands import remote
from fabricmon.commands.server import windows

EXAMPLES = """\
fabricmon silence add kind=link_flapping node=host-007 --for 2h --comment "cable is ordered"
fabricmon silence list
fabricmon silence expire s-0123456789ab
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|expire")
    add = verbs.add_parser("add", help="add a silence")
    add.add_argument("matchers", nargs="+", metavar="MATCHER", help="such as kind=link_flapping or node=~host-0.*")
    add.add_argument("--for", dest="duration", required=True, metavar="DURATION", help="duration, such as 30m, 2h, 3d")
    listed = verbs.add_parser("list", help="list active and future silences")
    expire = verbs.add_parser("expire", help="end silences now")
    windows.add_arguments(add, listed, expire, why="the reason")


@remote.answered("silence")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server refused or did not answer."""
    rows = windows.run(args, "silences", lambda: {"matchers": args.matchers})
    return windows.show(rows, args.json, lambda s: " ".join(s["matchers"]), "no silences")
