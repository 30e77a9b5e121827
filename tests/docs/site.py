"""The site of the documents, for the test of their commands: `python -m tests.docs.site DIRECTORY`.

Eight simulated hosts, the real agent on the first of them, and a central server that streams from all, records, and
reports a link that is down. Prints all addresses in one line of JSON once that incident is open, and serves until
standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from aiohttp import web

from fabricmon import config
from fabricmon.agent.app import Agent
from fabricmon.central.app import Central
from fabricmon.runtime import logs
from fabricmon.sim.dump import write
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import Layout
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.world import World
from fabricmon.simulate.agents import Agents
from fabricmon.simulate.host import SimulatedHost
from tests.rigs.served import serve

LOOPBACK = "127.0.0.1"
READY = 60.0  # seconds


async def site(folder: Path) -> None:
    logs.configure(level="error")
    layout = Layout.from_graph(rail_fabric(nodes=8, unit=4), storage=0)
    world = World(layout, seed=1, poll=1.0)
    agents = Agents(world, interval=1.0, without=(0,))
    (folder / "etc").mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "ibnetdiscover.txt").write_text(write(layout.graph))
    hook = await _receiver()
    await agents.start()
    agent = Agent(config.load(None, {"agent.listen": [f"{LOOPBACK}:0"]}), SimulatedHost(world, 0))
    tasks = [asyncio.create_task(agent.run())]
    await asyncio.wait_for(agent.listening.wait(), READY)
    targets = {**agents.targets, layout.hosts[0]: str(agent.addresses[0])}
    (folder / "etc" / "targets.json").write_text(
        json.dumps([{"targets": [address], "labels": {"node": node}} for node, address in targets.items()])
    )
    root = config.load(
        None,
        {
            "central.listen": [f"{LOOPBACK}:0"],
            "central.state": str(folder / "var"),
            "central.target_files": [str(folder / "etc" / "targets.json")],
            "central.record.directory": str(folder / "var" / "recording"),
            "topology.file": str(folder / "etc" / "ibnetdiscover.txt"),
            "rules.link_down.hold": "0s",
            "senders.ops": {"kind": "webhook", "url": hook},
        },
    )
    central = Central(root)
    tasks.append(asyncio.create_task(central.run()))
    await asyncio.wait_for(central.listening.wait(), READY)
    while sum(node.presence == "live" for node in central.engine.nodes()) < len(targets):
        await asyncio.sleep(0.1)
    agents.play((FAULTS["link_down"](layout, f"{layout.hosts[3]}/mlx5_1/1", 1.0),))
    while not any(incident.kind == "link_down" for incident in central.engine.incidents()):
        await asyncio.sleep(0.1)
    said = {
        "server": str(central.addresses[0]), "agent": str(agent.addresses[0]), "hosts": layout.hosts,
        "incident": next(i.id for i in central.engine.incidents() if i.kind == "link_down"),
    }  # fmt: skip
    print(json.dumps(said), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=5)
    await agents.stop()


async def _receiver() -> str:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", take)
    return f"{(await serve(app)).url}/"


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(site(Path(sys.argv[1])), 600))
