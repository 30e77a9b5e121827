"""The fleet live: open incidents, silent nodes, how busy rails are, the ports that are busiest or most held up.

Keys: q quits, arrows choose an incident, enter explains it, s orders the ports, space holds the screen, ? tells all.
With --once, and where the output is no terminal, it is printed once."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fabricmon.commands import remote
from fabricmon.terminal import console
from fabricmon.terminal.top import SORTS, Data, State, follow, lines, press
from fabricmon.terminal.view import View

if TYPE_CHECKING:
    from fabricmon.terminal.screen import Screen

EXAMPLES = """\
fabricmon top
fabricmon top --interval 10 --sort waiting
fabricmon top --once > now.txt
"""
INCIDENTS, SILENT, PORTS = 200, 20, 40  # entries that are asked for
LEAST_INTERVAL, MOST_INTERVAL = 0.5, 3600.0  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--interval", metavar="SECONDS", type=_interval, default=2.0, help="between two looks (default %(default)g)")
    add("--sort", choices=SORTS, default=SORTS[0], help="order of the ports (default %(default)s)")
    add("--once", action="store_true", help="print it once and end")
    remote.add_arguments(parser)
    console.add_arguments(parser)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not LEAST_INTERVAL <= seconds <= MOST_INTERVAL:
        raise argparse.ArgumentTypeError(f"expected {LEAST_INTERVAL:g} to {MOST_INTERVAL:g} seconds, got {text}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """0; 1 where the centre cannot be asked when it begins."""
    state = State(sort=args.sort)
    try:
        client = remote.Client(args)
        data = look(client, state)
    except remote.RemoteError as error:
        print(f"fabricmon top: {error}", file=sys.stderr)
        return 1
    if args.json:
        found = {"overview": data.overview, "incidents": data.incidents, "silent": data.silent}
        print(json.dumps({**found, "rails": data.rails, "ports": data.ports}, indent=2, ensure_ascii=False))
        return 0
    if args.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        view = console.view(args, data.at)
        console.show(lines(state, data, view, None, data.at)[0])
        return 0
    from fabricmon.terminal.screen import Screen

    with Screen() as screen:
        _live(screen, Feed(client, data, screen, args.interval), state, args)
    return 0


def look(client: remote.Client, state: State) -> Data:
    """All that the screen shows, from a few questions over one connection. RemoteError."""
    overview = client.ask("GET", "/overview")
    silent: list[dict[str, Any]] = []
    if sum(overview.body["nodes"].values()) > overview.body["nodes"].get("live", 0):
        silent = client.ask("GET", f"/nodes?presence=silent&limit={SILENT}").body["nodes"]
    incident = None
    if state.page == "explain" and state.chosen_id:
        incident = client.ask("GET", f"/incidents/{remote.words(state.chosen_id)}").body
    return Data(
        overview=overview.body,
        incidents=client.ask("GET", f"/incidents?status=firing&limit={INCIDENTS}").body["incidents"],
        silent=silent,
        ports=client.ask("GET", f"/ports?sort={state.sort}&limit={PORTS}").body["ports"],
        rails=client.ask("GET", "/rails").body["rails"],
        incident=incident,
        at=overview.at,
        where=client.url,
    )


class Feed:
    """Asks the centre in a thread of its own, so that keys are answered while it is slow or gone. It keeps one answer,
    the newest, and wakes the screen when there is another."""

    def __init__(self, client: remote.Client, first: Data, screen: Screen, interval: float) -> None:
        self.data = first
        self._client, self._screen, self._interval = client, screen, interval
        self._state = State()
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="centre", daemon=True).start()

    def want(self, state: State) -> None:
        """What is to be looked at from now on; at once where that is another thing."""
        asked = (state.page, state.chosen_id if state.page == "explain" else "", state.sort)
        before = self._state
        if asked != (before.page, before.chosen_id if before.page == "explain" else "", before.sort):
            self._state = state
            self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait(self._interval)
            self._wanted.clear()
            try:
                self.data = look(self._client, self._state)
            except remote.RemoteError as error:
                lost = self.data.lost if self.data.error else time.monotonic()
                self.data = replace(self.data, error=str(error), lost=lost)
            self._screen.wake()


def _live(screen: Screen, feed: Feed, state: State, args: argparse.Namespace) -> None:
    data, anew = feed.data, False
    while not state.done:
        if not state.held:
            data = feed.data
        state = follow(state, data)
        columns, height = screen.size()
        style = console.view(args, data.at).style
        shown, state = lines(state, data, View(style, columns, data.at), height, time.monotonic())
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
