"""`python -m tests.hostile [KIND ...] [--good 200] [--hostile 1 5]`: what hostile agents of each kind cost the others.

For each kind and number one line: seconds from a healthy node's lost link to its incident (quiet: before any attack),
the longest tick, by how much the process grew, seconds until the culprits were named, and what was left of them after
they were forgotten. Exit status 1 where an incident came more than LATER seconds later than in quiet, the process grew
by more than GROWTH MiB, a culprit was not named within NAMED seconds, or something was left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import math
import statistics
import sys
import time

from fabricmon.runtime import logs
from tests.central.streams import until
from tests.hostile.farm import Farm
from tests.hostile.kinds import KINDS
from tests.hostile.memory import rss
from tests.hostile.server import Server

ATTACK = 1.0  # seconds of attack before a healthy node loses its link
PATIENCE = 40.0  # seconds until a run gives up on an incident or a name
LATER, NAMED, GROWTH = 1.0, 30.0, 100.0
LEFTOVERS = 60.0  # seconds after which nothing is left of nodes that were forgotten


async def _latency(server: Server, farm: Farm, node: int) -> float:
    """Seconds from a lost link to the incident; infinity where it did not come."""
    begin = time.monotonic()
    farm.ask(f"down {node}")
    try:
        await until(lambda: server.is_open(f"good-{node}"), PATIENCE)
    except TimeoutError:
        return math.inf
    finally:
        farm.ask(f"up {node}")
    return time.monotonic() - begin


async def _attack(
    server: Server, farm: Farm, kind: str, number: int, node: int, calm: float
) -> tuple[str, bool]:
    """The line of one kind, and whether all was as it should."""
    mine = [(address, f"good-{n}") for n, address in enumerate(farm.addresses)]
    await until(lambda: len(server.live()) >= len(mine), 60)
    quiet, size, said = server.holds(), rss(), KINDS[kind].named
    server.forget_words()
    server.longest = 0.0
    async with Farm(kind, number) as bad:
        names = {f"bad-{n}" for n in range(number)}
        begin = time.monotonic()
        server.follow([*mine, *((address, f"bad-{n}") for n, address in enumerate(bad.addresses))])
        naming = asyncio.create_task(until(lambda: not said or len(server.named(said)) >= (
            1 if kind == "another_nodes_name" else len(names)), PATIENCE))  # fmt: skip
        named = asyncio.create_task(_duration(naming, begin))
        await asyncio.sleep(ATTACK)
        latency = await _latency(server, farm, node)
        seconds = await named
    grown, longest = rss() - size, server.longest
    server.follow(mine)
    left: dict[str, int] = {}
    with contextlib.suppress(TimeoutError):
        await until(lambda: not _left(server, quiet), LEFTOVERS)
    left = _left(server, quiet)
    wrong = (
        latency > calm + LATER or grown > GROWTH or (bool(said) and seconds > NAMED) or bool(left)
        or server.engine.failures() != {}
    )  # fmt: skip
    told = f"{seconds:8.2f}" if said else "       -"
    words = ", ".join([f"{n} {what}" for what, n in left.items()] or ["nothing"]) + _failed(server)
    return f"{kind:36}{number:4}{latency:10.2f}{longest:10.3f}{grown:9.1f}{told}   {words}", not wrong


def _failed(server: Server) -> str:
    """Steps of the evaluation that raised since the start."""
    return "".join(f"; {step}: {error}" for step, error in server.engine.failures().items())


async def _duration(task: asyncio.Task[None], begin: float) -> float:
    try:
        await task
    except TimeoutError:
        return math.inf
    return time.monotonic() - begin


def _left(server: Server, quiet: dict[str, int]) -> dict[str, int]:
    return {what: n - quiet[what] for what, n in server.holds().items() if n > quiet[what]}


async def main(good: int, hostile: list[int], kinds: list[str]) -> int:
    log = io.StringIO()
    logs.configure(level="warning", stream=log)
    nodes, failed = itertools.cycle(range(1, good)), 0  # the first may be impersonated
    async with Farm("good", good) as farm, Server(log) as server:
        server.follow((address, f"good-{n}") for n, address in enumerate(farm.addresses))
        await until(lambda: len(server.live()) == good, 120)
        await asyncio.sleep(3)
        calm = [await _latency(server, farm, next(nodes)) for _ in range(5)]
        print(f"{good} healthy agents, 8 ports each; quiet: link lost to incident {statistics.median(calm):.2f} s "
              f"(worst of 5: {max(calm):.2f} s), longest tick {server.longest:.3f} s, {rss():.0f} MiB")  # fmt: skip
        print("{:36}{:>4}{:>10}{:>10}{:>9}{:>8}   {}".format(
            "kind of hostile agent", "many", "incident s", "tick s", "MiB more", "named s", "left"))  # fmt: skip
        for kind, number in itertools.product(kinds, hostile):
            line, well = await _attack(server, farm, kind, number, next(nodes), max(calm))
            failed += not well
            print(line + ("" if well else "   WRONG"), flush=True)
        print(f"at the end {rss():.0f} MiB; {failed} of {len(kinds) * len(hostile)} runs were not as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.hostile")
    parser.add_argument("--good", type=int, default=200)
    parser.add_argument("--hostile", type=int, nargs="+", default=[1, 5])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    args = parser.parse_args()
    sys.exit(asyncio.run(main(args.good, args.hostile, args.kinds or list(KINDS))))
