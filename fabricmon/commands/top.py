"""Live view of the fleet: open incidents, nodes not reporting, rail utilisation, ports by utilisation or waiting.

Keys: q quits, arrows choose an incident, enter explains it, s sorts the ports, space freezes the screen, ? lists all.
With --once, or if the output is not a terminal, it is printed once."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fabricmon.commands import remote
from fabricmon.console import output
from fabricmon.console.arguments import number
from fabricmon.terminal.style import TextView
from fabricmon.terminal.top import SORTS, Data, TopState, follow, lines, press

if TYPE_CHECKING:
    from fabricmon.console.screen import Screen

EXAMPLES = """\
fabricmon top
fabricmon top --interval 10 --sort waiting
fabricmon top --once > now.txt
"""
INCIDENTS, SILENT, PORTS = 200, 20, 40  # entries requested
LEAST_INTERVAL, MOST_INTERVAL = 0.5, 3600.0  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    interval = number(LEAST_INTERVAL, MOST_INTERVAL, " seconds")
    add("--interval", metavar="SECONDS", type=interval, default=2.0, help="between two updates (default %(default)g)")
    add("--sort", choices=SORTS, default=SORTS[0], help="by utilisation, Tx wait, PFC pause sent (default %(default)s)")
    add("--once", action="store_true", help="print it once and exit")
    remote.add_arguments(parser)
    output.add_arguments(parser)


@remote.answered("top")
def run(args: argparse.Namespace) -> int:
    """0; 1 if the server does not answer at the start."""
    state = TopState(sort=args.sort)
    client = remote.CentralClient(args)
    data = fetch(client, state)
    if args.json:
        found = {"overview": data.overview, "incidents": data.incidents, "silent": data.silent}
        remote.print_json({**found, "rails": data.rails, "ports": data.ports})
        return 0
    if args.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        view = output.view(args, data.at)
        output.show(lines(state, data, view, None, data.at)[0])
        return 0
    from fabricmon.console.screen import Screen

    with Screen() as screen:
        _live(screen, Feed(client, data, screen, args.interval), state, args)
    return 0


def _wanted(state: TopState) -> tuple[str, str, str]:
    return state.page, state.chosen_id if state.page == "explain" else "", state.sort


def fetch(client: remote.CentralClient, state: TopState) -> Data:
    """All data of the screen, from a few requests over one connection. RemoteError."""
    overview = client.request("GET", "/overview")
    silent: list[dict[str, Any]] = []
    if sum(overview.body["nodes"].values()) > overview.body["nodes"].get("live", 0):
        silent = client.request("GET", f"/nodes?presence=silent&limit={SILENT}").body["nodes"]
    incident = None
    if state.page == "explain" and state.chosen_id:
        incident = client.request("GET", f"/incidents/{remote.quoted(state.chosen_id)}").body
    return Data(
        overview=overview.body,
        incidents=client.request("GET", f"/incidents?status=firing&limit={INCIDENTS}").body["incidents"],
        silent=silent,
        ports=client.request("GET", f"/ports?sort={state.sort}&limit={PORTS}").body["ports"],
        rails=client.request("GET", "/rails").body["rails"],
        incident=incident,
        at=overview.at,
        where=client.url,
    )


class Feed:
    """Polls the server in a thread, so that keys work while it is slow or down. Keeps the newest answer and wakes the
    screen for each."""

    def __init__(self, client: remote.CentralClient, first: Data, screen: Screen, interval: float) -> None:
        self.data = first
        self._client, self._screen, self._interval = client, screen, interval
        self._state = TopState()
        self._changed = threading.Event()
        threading.Thread(target=self._run, name="server", daemon=True).start()

    def want(self, state: TopState) -> None:
        """Poll for the data that `state` shows; at once if that changed."""
        if _wanted(state) != _wanted(self._state):
            self._state = state
            self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait(self._interval)
            self._changed.clear()
            try:
                self.data = fetch(self._client, self._state)
            except remote.RemoteError as error:
                lost = self.data.lost if self.data.error else time.monotonic()
                self.data = replace(self.data, error=str(error), lost=lost)
            self._screen.wake()


def _live(screen: Screen, feed: Feed, state: TopState, args: argparse.Namespace) -> None:
    data, anew = feed.data, False
    while not state.done:
        if not state.held:
            data = feed.data
        state = follow(state, data)
        columns, height = screen.size()
        style = output.view(args, data.at).style
        shown, state = lines(state, data, TextView(style, columns, data.at), height, time.monotonic())
        screen.draw(shown, anew=anew)
        anew = False
        try:
            pressed = screen.wait(args.interval)
        except (EOFError, OSError):
            return
        for key in pressed:
            anew = anew or key == "redraw"
            state = press(state, key, data, height)
        feed.want(state)
