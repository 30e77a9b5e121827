"""Common part of `silence` and `maintenance`: windows that are added, listed and ended."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.forms.readable import count
from fabricmon.terminal.fitted_text import clean


def add_arguments(add: argparse.ArgumentParser, listed: argparse.ArgumentParser, end: argparse.ArgumentParser,
                  *, why: str) -> None:  # fmt: skip
    """Add the options that the commands of both have in common."""
    add.add_argument("--comment", default="", help=why)
    add.add_argument("--author", default=None, help="who (default: your user name)")
    add.add_argument("--anyway", action="store_true", help="accept names that are not known (yet)")
    listed.add_argument("--all", action="store_true", help="include ended ones")
    end.add_argument("ids", nargs="+", metavar="ID")
    for verb in (add, listed, end):
        remote.add_arguments(verb)


def run(args: argparse.Namespace, name: str, new: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    """The windows in the server's answer to `args.verb`. `name`: path in the API; `new`: makes the scope of a new one.
    RemoteError."""
    if args.verb == "add":
        who = {"author": args.author if args.author is not None else remote.author()}
        body = {**new(), "duration": args.duration, "comment": args.comment, "anyway": args.anyway, **who}
        return [remote.request(args, "POST", f"/{name}", body)]
    if args.verb == "list":
        found: list[dict[str, Any]] = remote.request(args, "GET", f"/{name}" + ("?all=true" if args.all else ""))[name]
        return found
    return [remote.request(args, "DELETE", f"/{name}/{remote.quoted(id)}") for id in args.ids]


def show(rows: list[dict[str, Any]], as_json: bool, what: Callable[[dict[str, Any]], str], nothing: str) -> int:
    """Print a line per window: id, state, times, scope, author and comment. 0."""
    if as_json:
        remote.print_json(rows)
        return 0
    lines = []
    for row in rows:
        why = f"  ({row['author']}: {row['comment']})" if row["comment"] else f"  ({row['author']})"
        covers = f"  covers {count(row['covers'], 'open incident')} now" if "covers" in row else ""
        lines.append(f"{row['id']}  {row['state']:<7} {row['starts']} to {row['ends']}  {what(row)}{why}{covers}")
    output.show(map(clean, lines or [nothing]))
    return 0
