"""Acknowledge incidents: receivers get no reminders, receivers with `after` (escalation) are not notified, the page
shows who acknowledged. Ends when the incident is resolved or its severity rises."""

from __future__ import annotations

import argparse

from fabricmon.commands import remote
from fabricmon.commands.server.called import incident_called
from fabricmon.console import output
from fabricmon.terminal.fitted_text import clean

EXAMPLES = """\
fabricmon acknowledge 5f1d --comment "cable is ordered"
fabricmon acknowledge 5f1d6d0f3c2b9a47 --withdraw
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="incident ids, or prefixes of them")
    parser.add_argument("--comment", default="", help="cause or action, shown with the acknowledgement")
    parser.add_argument("--author", default=None, help="who acknowledges (default: your user name)")
    parser.add_argument("--withdraw", action="store_true", help="remove the acknowledgement")
    remote.add_arguments(parser)


@remote.answered("acknowledge")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server refused or did not answer."""
    author = args.author if args.author is not None else remote.author()
    method, body = ("DELETE", None) if args.withdraw else ("POST", {"author": author, "comment": args.comment})
    client = remote.CentralClient(args)
    ids = [incident_called(client, id) for id in args.ids]  # all of them before the first is changed
    shown = [client.request(method, f"/incidents/{remote.quoted(id)}/acknowledgement", body).body for id in ids]
    if args.json:
        remote.print_json(shown)
        return 0
    lines = []
    for incident in shown:
        by = incident.get("acknowledged")
        state = f"acknowledged by {by['author']}" if by else "acknowledgement removed"
        lines.append(f"{incident['id']}  {incident['title']}: {state}")
    output.show(map(clean, lines))
    return 0
