"""Hostile agents beside healthy ones, over real sockets: the healthy ones' incidents come, the hostile are named, and
nothing of them stays. `python -m tests.hostile` does the same with 200 healthy agents and one kind at a time."""

import asyncio
import contextlib
import io

import pytest

from fabricmon.runtime import logs
from tests.central.streams import until
from tests.hostile.good import good_agents, lose_link
from tests.hostile.kinds import KINDS, HostileAgent
from tests.hostile.memory import rss
from tests.hostile.server import Server

AT_ONCE = 15  # kinds that attack together
PATIENCE = 90.0  # seconds until a broken test gives up; how quick it is `python -m tests.hostile` shows
GROWTH = 400  # MiB by which they may make the process grow, their own side of the sockets included

GROUPS = [list(KINDS)[at : at + AT_ONCE] for at in range(0, len(KINDS), AT_ONCE)]
AT_FIRST = [
    "thousands_of_parts", "duplicate_names", "too_many_labels", "lone_surrogates", "an_endless_name", "garbage_frames",
    "deep_json", "events_of_megabytes", "a_redirect",
]  # fmt: skip
"""Kinds that the first message names, on a busy machine as well."""


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(AT_FIRST, id="at first"),
        # on a busy machine their own side takes longer than the server's deadlines
        *(pytest.param(kinds, id=kinds[0], marks=pytest.mark.rig) for kinds in GROUPS),
    ],
)
@pytest.mark.timeout(400)
async def test_hostile_agents_cost_themselves_only(kinds):
    log = io.StringIO()
    logs.configure(level="warning", stream=log)
    good = await good_agents(3, beat=0.25)
    mine = [(agent.address, agent.identity.node) for agent in good]
    bad = {kind: await HostileAgent(kind, f"bad-{kind}").start() for kind in kinds}
    try:
        async with Server() as server:
            server.follow(mine)
            await until(lambda: len(server.live()) == len(good))
            await asyncio.sleep(1.0)
            quiet, size = server.holds(), rss()
            server.follow([*mine, *((agent.address, agent.node) for agent in bad.values())])
            await asyncio.sleep(1.0)
            await lose_link(good[1])
            await until(lambda: server.is_open("good-1"), PATIENCE)
            with contextlib.suppress(TimeoutError):
                await until(lambda: not missing(server, bad, log), PATIENCE)
            assert missing(server, bad, log) == {}
            assert server.engine.counters()["rule_failures"] == 0
            assert rss() - size < GROWTH
            server.follow(mine)
            await until(lambda: {key: n for key, n in server.holds().items() if n > quiet[key]} == {}, PATIENCE)
            assert server.live() >= {"good-1", "good-2"}
    finally:
        for agent in [*good, *bad.values()]:
            await agent.stop()
        logs.configure(level="error", stream=io.StringIO())


def missing(server, bad, log):
    """Kinds that their presence or the log does not name -> what their presence says."""
    logged = log.getvalue()
    return {
        kind: server.details.get(agent.node)
        for kind, agent in bad.items()
        if agent.kind.named and not (server.named(agent.kind.named) and agent.address in logged)
    }
