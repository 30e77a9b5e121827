"""A server after a bad morning, whose clock stands still: its answers are the same each time."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from pathlib import Path

import aiohttp
import pytest

from fabricmon.central import parts
from fabricmon.model import Presence
from fabricmon.runtime.clock import Clock
from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage
from tests.page.views import jobs_file

NOW = 1_790_000_000.0


async def answers(folder: Path, addresses: list[str]) -> dict[str, str]:
    """What the server answers to each address, in order; `{kind}` is the id of the first incident of this kind."""
    numbers = itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: NOW)
        patch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        patch.setattr(parts, "Clock", lambda: Clock(lambda: NOW, lambda: 0.0))
        stage = await _stage(folder)
        async with aiohttp.ClientSession() as session:

            async def ask(method: str, address: str, **sent: object) -> str:
                async with session.request(method, stage.url + address, **sent) as answer:
                    assert answer.status < 300, (address, answer.status, await answer.text())
                    return (await answer.text()).replace(str(folder), "FOLDER")

            found = {i.kind: i.id for i in reversed(stage.central.engine.incidents())}
            for address, body in _done(found):
                await ask("POST", f"api/v1/{address}", json=body)
            for _ in range(2):
                await stage.central.evaluator.tick()
            made = {address: await ask("GET", address.format(**found)) for address in addresses}
        await stage.__aexit__()
    return made


async def _stage(folder: Path) -> Stage:
    stage = Stage(folder, 16, past=1000, tick="10s", jobs=jobs_file(folder, 16))
    layout, port = stage.layout, stage.layout.port_name
    stage.then = {
        900.0: [
            FAULTS["link_flap"](layout, port(9 * 8 + 1), 0.0, (0.0, 12.0, 24.0), 3.0),
            FAULTS["link_errors"](layout, port(5 * 8 + 3)),
            FAULTS["link_down"](layout, port(10 * 8 + 1), 0.0, 100.0),
        ],
        600.0: [
            FAULTS["pcie_retrain"](layout, port(3 * 8 + 4)),
            FAULTS["nvlink_errors"](layout, "host-004/gpu2"),
            FAULTS["slow_link"](layout, port(12 * 8 + 6)),
            FAULTS["incast"](layout, port(14 * 8 + 2), 0.0, 10, 1200.0),
        ],
        300.0: [
            FAULTS["leaf_down"](layout, layout.leaf_name(layout.leaves[2])),
            FAULTS["nic_lost"](layout, port(8 + 7)),
            FAULTS["counters_frozen"](layout, port(6 * 8)),
        ],
        100.0: [FAULTS["link_down"](layout, port(13 * 8 + 5)), FAULTS["host_crash"](layout, layout.hosts[11])],
    }
    stage.live_through()
    stage.central.engine.presence("host-007", Presence.SLOW, "no frame for 5 s", NOW)
    await stage.serve()
    async with asyncio.timeout(30):
        while not stage.central.evaluator.ticks.count or any(jobs.as_of is None for jobs in stage.central.jobs.jobs()):
            await asyncio.sleep(0.01)
    return stage


def _done(found: dict[str, str]) -> list[tuple[str, dict[str, object]]]:
    """What people did in the morning."""
    who = {"author": "mara", "comment": "cable is ordered"}
    return [
        (f"incidents/{found['link_errors']}/acknowledgement", who),
        ("silences", {"matchers": ["kind=pcie_degraded"], "duration": "2h", **who}),
        ("silences", {"matchers": ["node=host-003"], "starts": NOW + 60, "ends": NOW + 3600, **who}),
        ("maintenance", {"hosts": ["host-012"], "components": ["leaf(su0/rail2)"], "duration": "1h", **who}),
    ]


def shown(html: str) -> str:
    """HTML with a line for each row, box and paragraph."""
    begins = r"(?:tr|li|dt|div|p|h\d|rect|line|path|article|section|option|/tbody)\b|code title"
    return re.sub(rf"\s*\n\s*|(?=<(?:{begins}))", "\n", html)
