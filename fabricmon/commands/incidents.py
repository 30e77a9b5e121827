"""Open incidents, the severest first; with --all those that ended within the hour, with --since all that changed since,
up to 30 days back. `fabricmon explain ID` tells all of one: the first characters of its id are enough."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from typing import Any
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.terminal import console, incidents
from fabricmon.terminal.text import clean
from fabricmon.terminal.words import stamp

EXAMPLES = """\
fabricmon incidents
fabricmon incidents --all --severity warning
fabricmon incidents --since 2h --host host-007
fabricmon incidents --kind link_flapping --json
fabricmon incidents --watch
"""
SEVERITIES = ("info", "warning", "critical")
WATCH_EVERY = 2.0  # seconds between two questions
MOST = 1000
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="those that were resolved within the hour, too")
    add("--since", metavar="TIME", help="all that changed since: 30m, 2h, 3d, or 2026-01-31T12:00:00Z; open or ended")
    add("--severity", choices=SEVERITIES, help="that or worse")
    add("--kind", metavar="WORD", help="of this kind only, such as link_flapping")
    add("--host", metavar="NODE", help="that name this node, or one of its parts")
    add("--limit", metavar="N", type=int, default=MOST, help="at most so many (default %(default)s)")
    add("--long", action="store_true", help="ids in full")
    add("--watch", action="store_true", help="go on and print a line for each that opens, changes or ends; Ctrl-C ends")
    remote.add_arguments(parser)
    console.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 where the centre cannot be asked."""
    try:
        client = remote.Client(args)
        if args.watch:
            return _watch(client, args)
        answer = client.ask("GET", f"/incidents?{_query(args, time.time())}")
    except remote.RemoteError as error:
        print(f"fabricmon incidents: {error}", file=sys.stderr)
        return 1
    found = answer.body["incidents"]
    if args.json:
        print(json.dumps(answer.body, indent=2, ensure_ascii=False))
        return 0
    view = console.view(args, answer.at)
    if not found:
        print(f"no {'' if args.all or args.since else 'open '}incident{_of_what(args)}")
        return 0
    console.show(incidents.listed(found, view, full=args.long))
    if answer.body["total"] > len(found):
        print(f"{answer.body['total'] - len(found)} more: --limit")
    return 0


def _query(args: argparse.Namespace, now: float) -> str:
    wanted = {"severity": args.severity, "kind": args.kind, "node": args.host, "limit": args.limit}
    asked = {name: value for name, value in wanted.items() if value}
    if args.since:
        asked["since"] = moment(args.since, now)
    elif not args.all and not args.watch:
        asked["status"] = "firing"
    return urlencode(asked)


def moment(text: str, now: float) -> str:
    """ "2h" as seconds since 1970; a time as it is, for the centre to read."""
    found = _SPAN.fullmatch(text)
    return f"{now - float(found[1]) * _SECONDS[found[2]]:.3f}" if found else text


def _of_what(args: argparse.Namespace) -> str:
    asked = {"severity": args.severity, "kind": args.kind, "host": args.host, "since": args.since}
    words = [f"{name} {value}" for name, value in asked.items() if value]
    return f" with {', '.join(words)}" if words else ""


def _watch(client: remote.Client, args: argparse.Namespace) -> int:
    """A line an incident that is new or another; first those that are open. A centre that does not answer for a while
    is said once, and once when it does again."""
    seen: dict[str, tuple[Any, ...]] = {}
    lost = False
    first = True
    while True:
        try:
            answer = client.ask("GET", f"/incidents?{_query(args, time.time())}")
        except remote.RemoteError as error:
            if first or error.status:
                raise
            if not lost:
                print(f"fabricmon incidents: {clean(error)}", file=sys.stderr, flush=True)
            lost = True
            time.sleep(WATCH_EVERY)
            continue
        if lost:
            print(f"fabricmon incidents: the centre answers again ({stamp_of(answer.at)})", file=sys.stderr, flush=True)
            lost = False
        view = console.view(args, answer.at)
        found = sorted(answer.body["incidents"], key=lambda i: (i.get("updated") or "", i.get("id")))
        for incident in found:
            face = (incident.get("status"), incident.get("revision"), len(incident.get("history") or ()))
            if seen.get(incident["id"]) == face:
                continue
            known = incident["id"] in seen
            seen[incident["id"]] = face
            if known or not first or incident.get("status") == "firing" or args.all or args.since:
                if args.json:
                    print(json.dumps(incident, ensure_ascii=False), flush=True)
                else:
                    console.show([incidents.told(incident, view.style)])
        for gone in seen.keys() - {incident["id"] for incident in found}:
            del seen[gone]
        first = False
        time.sleep(WATCH_EVERY)


def stamp_of(wall: float) -> str:
    """A wall time as lines of `--watch` have it."""
    return stamp(time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(wall)))
