"""List open incidents, the most severe first. --all adds those resolved within the last hour, --since all that changed
since a time, up to 30 days back. `fabricmon explain ID` shows the details of one; a prefix of its id is enough."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from typing import Any
from urllib.parse import urlencode

from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.terminal import incidents
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.values import stamp

EXAMPLES = """\
fabricmon incidents
fabricmon incidents --all --severity warning
fabricmon incidents --since 2h --host host-007
fabricmon incidents --since yesterday
fabricmon incidents --kind link_flapping --json
fabricmon incidents --watch
"""
SEVERITIES = ("info", "warning", "critical")
WATCH_EVERY = 2.0  # seconds between two requests
MOST = 1000
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_DAYS = {"today": 0, "yesterday": 1}  # days before now, each from 0:00 UTC as all times here are
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="include those resolved within the last hour")
    add("--since", metavar="TIME", help="changed since 30m, 2h, 3d, today, yesterday (0:00 UTC), 2026-01-31T12:00:00Z")
    add("--severity", choices=SEVERITIES, help="this severity or higher")
    add("--kind", metavar="WORD", help="only this kind, such as link_flapping")
    add("--host", metavar="NODE", help="only incidents that involve this node")
    add("--limit", metavar="N", type=int, default=MOST, help="at most N (default %(default)s)")
    add("--long", action="store_true", help="full ids")
    add("--watch", action="store_true", help="keep running, print a line for each that opens, changes or is resolved")
    remote.add_arguments(parser)
    output.add_arguments(parser)


@remote.answered("incidents")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server does not answer."""
    client = remote.CentralClient(args)
    if args.watch:
        return _watch(client, args)
    answer = client.request("GET", f"/incidents?{_query(args, time.time())}")
    found = answer.body["incidents"]
    if args.json:
        remote.print_json(answer.body)
        return 0
    view = output.view(args, answer.at)
    if not found:
        print(f"no {'' if args.all or args.since else 'open '}incidents{_filter_text(args)}")
        return 0
    output.show(incidents.listed(found, view, full=args.long))
    if answer.body["total"] > len(found):
        print(f"{answer.body['total'] - len(found)} more: --limit")
    return 0


def _query(args: argparse.Namespace, now: float) -> str:
    wanted = {"severity": args.severity, "kind": args.kind, "node": args.host, "limit": args.limit}
    query = {name: value for name, value in wanted.items() if value}
    if args.since:
        query["since"] = moment(args.since, now)
    elif not args.all and not args.watch:
        query["status"] = "firing"
    return urlencode(query)


def moment(text: str, now: float) -> str:
    """ "2h" and "yesterday" as seconds since 1970; any other text unchanged, for the server to parse."""
    if text in _DAYS:
        return f"{(now // 86400 - _DAYS[text]) * 86400:.0f}"
    found = _SPAN.fullmatch(text)
    return f"{now - float(found[1]) * _SECONDS[found[2]]:.3f}" if found else text


def _filter_text(args: argparse.Namespace) -> str:
    filters = {"severity": args.severity, "kind": args.kind, "host": args.host}
    words = [f"{name} {value}" for name, value in filters.items() if value]
    filtered = f" with {', '.join(words)}" if words else ""
    return filtered + (f" since {args.since}" if args.since else "")


def _watch(client: remote.CentralClient, args: argparse.Namespace) -> int:
    """Print the open incidents, then a line for each that is new or has changed. A lost and a restored connection are
    each printed once."""
    seen: dict[str, tuple[Any, ...]] = {}
    lost = False
    first = True
    while True:
        try:
            answer = client.request("GET", f"/incidents?{_query(args, time.time())}")
        except remote.RemoteError as error:
            if first or error.status:
                raise
            if not lost:
                print(f"fabricmon incidents: {clean(error)}", file=sys.stderr, flush=True)
            lost = True
            time.sleep(WATCH_EVERY)
            continue
        if lost:
            print(f"fabricmon incidents: the server answers again ({stamp_of(answer.at)})", file=sys.stderr, flush=True)
            lost = False
        view = output.view(args, answer.at)
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
                    output.show([incidents.change_line(incident, view.style)])
        for gone in seen.keys() - {incident["id"] for incident in found}:
            del seen[gone]
        first = False
        time.sleep(WATCH_EVERY)


def stamp_of(wall: float) -> str:
    """A wall time in the format of `--watch`."""
    return stamp(time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(wall)))
