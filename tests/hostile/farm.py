"""Agents in a process of their own, so that the server's is measured alone.

    python -m tests.hostile.farm good N     healthy ones; lines "down I" and "up I" of the input break and mend a link
    python -m tests.hostile.farm KIND N     hostile ones, until the input ends

The first line of the output is the addresses.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tests.hostile.good import good_agents, have_link, lose_link
from tests.hostile.kinds import HostileAgent


async def main(kind: str, number: int) -> None:
    good = await good_agents(number, beat=1.0) if kind == "good" else []
    bad = [] if good else [await HostileAgent(kind, f"bad-{n}").start() for n in range(number)]
    print(json.dumps([agent.address for agent in (*good, *bad)]), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().split():
        await {"down": lose_link, "up": have_link}[line[0]](good[int(line[1])])


class Farm:
    """Such a process, as its parent sees it."""

    def __init__(self, kind: str, number: int) -> None:
        self._words = [sys.executable, "-m", "tests.hostile.farm", kind, str(number)]
        self.addresses: list[str] = []

    async def __aenter__(self) -> Farm:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._words, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=2**20
        )
        assert self._process.stdout is not None
        self.addresses = json.loads(await self._process.stdout.readline())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await self._process.wait()

    def ask(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
