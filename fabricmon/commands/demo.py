"""A simulated rail-optimised fabric, this machine's own agent, a centre and its page. Needs no hardware and no root.

Plays one flapping cable, one degrading link, one dead leaf and one node reboot (which must stay quiet) and prints a
line for each event and each incident that reaches the webhook. --once plays it fast and exits 0 only if exactly the
incidents came that should.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from fabricmon.terminal import console
from fabricmon.terminal.text import clean

if TYPE_CHECKING:
    from fabricmon.demo import Demo, Line

EXAMPLES = """\
fabricmon demo
fabricmon demo --nodes 16 --speed 4
fabricmon demo --once
"""
OK, FAILED, USAGE = 0, 1, 2
ONCE_SPEED = 8.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", default="127.0.0.1:9791", metavar="ADDR",
        help="where the page is served; another port where it is busy (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--nodes", type=int, default=64, help="simulated hosts, 8 at least (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="chooses where the faults are (default %(default)s)")
    parser.add_argument("--once", action="store_true", help="play the timeline once, judge the run, exit 0 or 1")
    parser.add_argument(
        "--speed", type=float, default=None, metavar="N",
        help=f"play the timeline N times as fast (default 1, with --once {ONCE_SPEED:g}); limits and holds stay",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """0: ended by Ctrl-C, or with --once exactly the expected incidents; 1 otherwise; 2 a bad option."""
    from fabricmon.demo import Demo, Options

    speed = args.speed if args.speed is not None else ONCE_SPEED if args.once else 1.0
    try:
        demo = Demo(Options(args.listen, args.nodes, args.seed, speed, args.once), _say)
    except (ValueError, OSError) as error:
        print(f"fabricmon demo: {error}", file=sys.stderr)
        return USAGE
    try:
        lines = asyncio.run(_play(demo))
    except (OSError, TimeoutError) as error:
        print(f"fabricmon demo: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return FAILED if args.once else OK
    print()
    for line in lines:
        after = f"{line.after:5.1f} s after it began" if line.after is not None else ""
        _say(f"  {line.result:<12}  {line.kind:<14}  {line.component}  {after}".rstrip())
    found = sum(line.result == "as expected" for line in lines)
    missing = sum(line.result == "MISSING" for line in lines)
    unexpected = sum(line.result == "UNEXPECTED" for line in lines)
    quiet = [fault.name for fault in demo.faults if not fault.expected]
    print(
        f"\n{found + missing} expected, {found} came, {missing} missing, {unexpected} unexpected; "
        f"quiet as it should be: {', '.join(quiet) if not unexpected else 'no'}"
    )
    return FAILED if missing or unexpected else OK


async def _play(demo: Demo) -> list[Line]:
    """The run, which SIGTERM ends as Ctrl-C does: everything it started goes with it."""
    playing = asyncio.ensure_future(demo.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    return await playing


def _say(text: str) -> None:
    console.show([clean(text)])
