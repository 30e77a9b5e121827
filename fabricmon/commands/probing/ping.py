"""Probe between adapters by hand: loss, round trip, path MTU and DSCP between two nodes, or among several before a job.

Both ends probe through their agents (agent.probe.enabled), for 10 seconds. Exit code: 0 OK, 1 warning (losses, a
changed DSCP), 2 critical (no answer, on one path or at all, or not for large packets), 3 unknown (nothing worse is
known, and something could not be probed)."""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from fabricmon import config
from fabricmon.commands import own_agent
from fabricmon.console import output
from fabricmon.probe import mesh
from fabricmon.probe.assignment import LONGEST, PortProbes
from fabricmon.probe.mesh import PairResult, Status, WantedEnd
from fabricmon.probe.windows import WATERMARK, WINDOW
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.text_table import text_table
from fabricmon.web.settings import WebConfig

if TYPE_CHECKING:
    from fabricmon.commands.probing.streams import ProbeStream

EXAMPLES = """\
fabricmon ping node-1 node-2
fabricmon ping node-1/mlx5_0 node-2/mlx5_3 --seconds 60
fabricmon ping --mesh node-1 node-2 node-3 node-4 --dscp 26
fabricmon ping node-1 node-2 --json
"""
CODES: dict[Status, int] = {"pass": 0, "warn": 1, "critical": 2, "unknown": 3}
WORDS: dict[Status, str] = {"pass": "OK", "warn": "WARNING", "critical": "CRITICAL", "unknown": "UNKNOWN"}
MOST_NODES = 256
PORT = ":9790"
READY = 0.5
"""Seconds from the moment that all responders are assigned to the first question."""
SPARE = 5.0
"""Seconds in which the results of the last window arrive."""


class MeshReport(Struct, frozen=True):
    """The result of `fabricmon ping --json`. unreached: ports that no other reaches and that reach no other;
    unknown: what could not be probed, and why."""

    status: Status
    pairs: tuple[PairResult, ...]
    unreached: tuple[str, ...]
    unknown: tuple[str, ...]


Ports = tuple[PortProbes, ...]


class _Named(NamedTuple):
    """One argument: address of the agent, and the adapter, "" all."""

    agent: str
    adapter: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="+", metavar="NODE[/ADAPTER]", type=_named,
                        help="name or HOST:PORT of an agent (port 9790), and one of its adapters or ports; "
                             "without one, all adapters, each with that of the same name")  # fmt: skip
    parser.add_argument("--mesh", action="store_true", help="more than two nodes: each adapter probes up to "
                        f"{mesh.NEIGHBOURS} others of its name")  # fmt: skip
    parser.add_argument("--seconds", type=_seconds, default=WINDOW, metavar="S",
                        help=f"how long, in windows of {WINDOW:g} s, at most {LONGEST - 2 * WINDOW:g} "
                             "(default %(default)g)")  # fmt: skip
    parser.add_argument("--paths", type=_within(1, 8), metavar="N",
                        help="source ports for each pair; switches choose a path by them (default 4, with --mesh 1)")
    parser.add_argument("--dscp", type=_within(0, 63), default=0, metavar="N",
                        help="traffic class: that of the jobs, to take their queues (default %(default)s)")  # fmt: skip
    own_agent.add_arguments(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0,
                        help="time for an agent to answer (default 5)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="with --mesh: print pairs without findings, too")


def _named(text: str) -> _Named:
    match = re.fullmatch(r"((?:https?://)?(?:\[[^\]/]+\]|[^\[\]:/]+))(:\d{1,5})?(?:/(.+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected NODE, HOST:PORT or NODE/ADAPTER, got {text!r}")
    return _Named(f"{match[1]}{match[2] or PORT}", match[3] or "")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= LONGEST - 2 * WINDOW:
        raise argparse.ArgumentTypeError(f"expected up to {LONGEST - 2 * WINDOW:g} seconds, got {text}")
    return value


def _within(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, got {text}")
        return int(text)

    return number


def run(args: argparse.Namespace) -> int:
    """Probe and print; the exit code is that of the worst pair."""
    named: list[_Named] = args.node
    if not args.mesh and len(named) != 2:
        print(f"fabricmon ping: expected two nodes, or --mesh, got {len(named)}", file=sys.stderr)
        return 2
    if not 2 <= len(named) <= MOST_NODES:
        print(f"fabricmon ping: expected 2 to {MOST_NODES} nodes, got {len(named)}", file=sys.stderr)
        return 2
    try:
        report = asyncio.run(_measure(named, args))
    except (config.ConfigError, ValueError, OSError) as error:
        print(clean(f"UNKNOWN: {error}"), file=sys.stderr)
        return CODES["unknown"]
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    else:
        output.show(map(clean, _text(report, every=args.verbose or not args.mesh)))
    return CODES[report.status]


async def _measure(named: Sequence[_Named], args: argparse.Namespace) -> MeshReport:
    from fabricmon.commands.probing.streams import client_session, open_all

    ways = {one.agent: own_agent.way(one.agent, WebConfig(), args) for one in named}
    async with client_session() as session:
        opened, failed = await open_all(session, ways, args.timeout)
        try:
            return await _probe(named, opened, failed, args)
        finally:
            await asyncio.gather(*(stream.close() for stream in opened.values()), return_exceptions=True)


async def _probe(
    named: Sequence[_Named], opened: Mapping[str, ProbeStream], failed: Mapping[str, str], args: argparse.Namespace
) -> MeshReport:
    streams = {stream.inventory.identity.node: stream for stream in opened.values()}
    wanted = [WantedEnd(opened[one.agent].inventory.identity.node, one.adapter) for one in named if one.agent in opened]
    pairs, missing = mesh.pairs_of(wanted, {node: mesh.ports_of(s.inventory) for node, s in streams.items()})
    paths, first = args.paths or (1 if args.mesh else 4), secrets.randbelow(4096)
    answering, asking = (mesh.assignments(pairs, paths, first, asks) for asks in (False, True))
    windows, nonce = math.ceil(args.seconds / WINDOW), secrets.token_hex(16)
    sent = ((streams[node], answering[node], asking[node]) for node in asking)
    ended = await asyncio.gather(*(_one_end(*each, windows, nonce, args.dscp) for each in sent))
    unknown = [*(f"{agent}: {why}" for agent, why in failed.items()), *missing, *(why for why in ended if why)]
    results = mesh.pair_results(pairs, {node: streams[node].results for node in asking}, args.dscp)
    status = mesh.worst((*(one.status for one in results), "unknown" if unknown or not results else "pass"))
    return MeshReport(status, tuple(results), tuple(mesh.unreached(results)), tuple(unknown))


async def _one_end(
    stream: ProbeStream, answering: Ports, asking: Ports, windows: int, nonce: str, dscp: int
) -> str:
    """Let one agent answer, then ask, and wait for its results; why they are missing, "" where they are not."""
    from fabricmon.commands.probing.streams import ProbeStreamError

    whole = windows * WINDOW + WATERMARK + SPARE
    try:
        await stream.assign(1, nonce, whole, dscp, answering)
        await asyncio.sleep(READY)
        await stream.assign(2, nonce, whole, dscp, asking)
        async with asyncio.timeout(whole):
            await stream.receive(2, windows)
    except ProbeStreamError as error:
        return f"{stream.inventory.identity.node}: {error}"
    except TimeoutError:
        return f"{stream.inventory.identity.node}: no results in time"
    return ""


def _text(report: MeshReport, *, every: bool) -> Iterator[str]:
    bad = [one for one in report.pairs if one.status != "pass"]
    shown = sorted(report.pairs if every else bad, key=lambda one: -mesh.RANKS.index(one.status))
    if shown:
        yield from text_table([_HEAD, *map(_row, shown)])
    for name in report.unreached:
        yield f"{name}: reaches no other, and no other reaches it: its adapter, cable or address"
    for why in report.unknown:
        yield f"not probed: {why}"
    sent, lost = (sum(getattr(one, of) for one in report.pairs) for of in ("sent", "lost"))
    yield f"{WORDS[report.status]}: {len(report.pairs)} pairs, {len(bad)} with findings; {lost} of {sent} probes lost"


_HEAD = ("FROM", "TO", "SENT", "LOST", "ROUND TRIP us", "P99", "LONGEST", "OWN HOST", "PEER HOST", "PACKET", "DSCP", "")


def _row(one: PairResult) -> tuple[str, ...]:
    times = (*one.rtt, one.own, one.peer)
    return (
        one.source, one.target, str(one.sent), str(one.lost), *("-" if t is None else f"{t * 1e6:.0f}" for t in times),
        *("-" if value is None else str(value) for value in (one.packet, one.dscp)),
        f"{WORDS[one.status]}{': ' if one.findings else ''}{'; '.join(one.findings)}",
    )  # fmt: skip
