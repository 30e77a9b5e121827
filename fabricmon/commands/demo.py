"""Run a simulated rail-optimised fabric with the real agent, server and web page. Needs no hardware and no root.

Simulates a flapping cable, a link with rising BER, a leaf that loses power, and a node reboot (which must open no
incident). Prints a line for each event and each notification. --once runs the timeline once and exits 0 only if exactly
the expected incidents were notified.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from fabricmon.console import output
from fabricmon.console.progress import Progress
from fabricmon.terminal.fitted_text import clean

if TYPE_CHECKING:
    from fabricmon.demo import Demo, EventResult

EXAMPLES = """\
fabricmon demo
fabricmon demo --nodes 16 --speed 4
fabricmon demo --once
"""
OK, FAILED, USAGE = 0, 1, 2
ONCE_SPEED = 8.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", default="", metavar="HOST:PORT",
        help="address of the web page and API (default 127.0.0.1:9791, or another port if that is in use)",
    )  # fmt: skip
    parser.add_argument("--nodes", type=int, default=64, help="simulated hosts, at least 8 (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="random seed, selects the faults (default %(default)s)")
    parser.add_argument("--once", action="store_true", help="run the timeline once, exit 1 unless all is as expected")
    parser.add_argument(
        "--speed", type=float, default=None, metavar="N",
        help=f"run the timeline N times as fast (default 1, with --once {ONCE_SPEED:g}); rule limits stay as they are",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """0 after Ctrl-C, or with --once if exactly the expected incidents came; else 1; 2 for an invalid option."""
    from fabricmon.demo import Demo, DemoOptions

    speed = args.speed if args.speed is not None else ONCE_SPEED if args.once else 1.0
    try:
        options = DemoOptions(args.listen, args.nodes, args.seed, speed, args.once)
        progress = Progress(after=0.0)
        demo = Demo(options, partial(_say, progress), progress.show)
    except (ValueError, OSError) as error:
        print(f"fabricmon demo: {error}", file=sys.stderr)
        return USAGE
    try:
        with progress:
            lines = asyncio.run(_play(demo))
    except (OSError, TimeoutError) as error:
        print(f"fabricmon demo: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return FAILED if args.once else OK
    print()
    for line in lines:
        after = f"{line.after:5.1f} s after the fault" if line.after is not None else ""
        _say(progress, f"  {line.result:<12}  {line.kind:<14}  {line.component}  {after}".rstrip())
    found = sum(line.result == "as expected" for line in lines)
    missing = sum(line.result == "MISSING" for line in lines)
    unexpected = sum(line.result == "UNEXPECTED" for line in lines)
    quiet = [fault.name for fault in demo.faults if not fault.expected]
    print(
        f"\n{found + missing} expected, {found} notified, {missing} missing, {unexpected} unexpected; "
        f"no incident, as expected: {', '.join(quiet) if not unexpected else 'no'}"
    )
    return FAILED if missing or unexpected else OK


async def _play(demo: Demo) -> list[EventResult]:
    """The run; SIGTERM ends it like Ctrl-C, with all its parts."""
    playing = asyncio.ensure_future(demo.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    return await playing


def _say(progress: Progress, text: str) -> None:
    progress.clear()
    output.show([clean(text)])
