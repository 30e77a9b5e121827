"""`fabricmon demo`: a simulated fabric, a real agent of this machine, a centre with its page, and four events.

Everything between the counters and the webhook is the product itself: streams over loopback sockets, fleet, rules,
diagnosis, store, outbox, a webhook receiver. Only the counters of the fabric are simulated; the first host runs the
real agent on simulated files, the others speak its protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from fabricmon import config
from fabricmon.agent.app import Agent
from fabricmon.agent.pages import Pages
from fabricmon.central.app import Central
from fabricmon.host.live import LiveHost
from fabricmon.runtime import logs
from fabricmon.runtime.address import parse_address
from fabricmon.sim.dump import write
from fabricmon.sim.fabric import Fabric, Shape
from fabricmon.sim.host import SimulatedHost
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import Fault, Step
from fabricmon.sim.serve import Agents
from fabricmon.sim.timeline import PATIENCE, TAIL, timeline
from fabricmon.sim.world import World

LOOPBACK = "127.0.0.1"
START_LIMIT = 30.0
"""Seconds until centre, agents and receiver must listen, and until every node must be live."""
STEADY = 3.0
"""Seconds of a quiet fabric that the centre sees before the first event."""
MAX_BODY = 4 << 20
"""Bytes of one notification the receiver takes."""
MOST_HOSTS = 2048
"""Each simulated host has a listening socket; more would need another limit of descriptors on most systems."""


@dataclass(frozen=True)
class Options:
    """What the command line says. `speed` divides the timeline's times; `once` ends after it and judges the run."""

    listen: str = f"{LOOPBACK}:9791"
    nodes: int = 64
    seed: int = 1
    speed: float = 1.0
    once: bool = False


@dataclass
class Told:
    """An incident as the receiver knows it: the newest telling, and when the first came (seconds of the simulation)."""

    id: str
    kind: str
    component: str
    severity: str
    status: str
    first: float


@dataclass(frozen=True)
class Line:
    """One line of the result: what was expected or came, and how it ended."""

    result: str  # "as expected", "MISSING", "UNEXPECTED"
    kind: str
    component: str
    after: float | None = None  # seconds from the fault's first step to the first telling


def compare(faults: tuple[Fault, ...], told: list[Told]) -> list[Line]:
    """Expected incidents against those that were told, each at most once; quiet events have no line of their own."""
    rest = list(told)
    lines = []
    for fault in faults:
        for expected in fault.expected:
            match = next((one for one in rest if expected.matches(one.kind, one.component)), None)
            if match is None:
                lines.append(Line("MISSING", expected.kind, expected.component))
            else:
                rest.remove(match)
                lines.append(Line("as expected", match.kind, match.component, match.first - fault.steps[0].at))
    return lines + [Line("UNEXPECTED", one.kind, one.component) for one in rest]


@dataclass
class Receiver:
    """The webhook receiver: keeps what it was told, and says each change in a line."""

    say: Callable[[str], None]
    now: Callable[[], float]
    told: dict[str, Told] = field(default_factory=dict)

    async def post(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        for incident in body["incidents"]:
            self._take(incident)
        return web.Response(status=204)

    def _take(self, incident: dict[str, Any]) -> None:
        known = self.told.get(incident["id"])
        if known is None:
            known = self.told[incident["id"]] = Told(incident["id"], "", "", "", "", self.now())
        known.kind, known.component = incident["kind"], incident["component"]
        known.severity, known.status = incident["severity"], incident["status"]
        members = incident["members"]
        self.say(
            f"{incident['status'].upper():<8}  {incident['severity']:<8}  {incident['kind']} {incident['component']}"
            f"  ({members['bad']} of {members['of']}, confidence {incident['confidence']:.2f})  {incident['title']}"
        )


class Demo:
    """All parts of one run. `say` prints a line for the person who watches."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        if options.nodes > MOST_HOSTS:
            raise ValueError(f"at most {MOST_HOSTS} nodes, got {options.nodes}")
        if not 0 < options.speed <= 20:
            raise ValueError(f"speed must be above 0 and at most 20, got {options.speed:g}")
        self.options, self._say = options, say
        self.shape = Shape(nodes=options.nodes, unit=min(32, -(-options.nodes // 2)))
        self.layout = Layout.of(Fabric(self.shape).graph, storage=0)
        self.faults = timeline(self.layout, options.seed, options.speed, spare=1)
        self.interval = max(1.0, 10.0 / options.speed)
        self.world = World(self.layout, options.seed, self.interval)
        self.agents = Agents(
            self.world, address=LOOPBACK, interval=self.interval, on_step=self._step, without=(0,), page=Pages()
        )
        self.receiver = Receiver(self._event, lambda: self.agents.seconds)
        self.address = free_address(options.listen)

    async def run(self) -> list[Line]:
        """Play the timeline; with `once` the judgement of the run, otherwise it goes on until cancelled.

        OSError where a socket cannot be had, TimeoutError where a part does not come up.
        """
        logs.configure(level="error")
        with tempfile.TemporaryDirectory(prefix="fabricmon-demo-") as directory:
            async with contextlib.AsyncExitStack() as stack:
                await self._start(stack, Path(directory))
                self._say(f"page: http://{self.address}/   (metrics and API at the same address)")
                self._say(
                    f"{self.options.nodes} simulated hosts x {self.shape.rails} ports and GPUs, "
                    f"{len(self.layout.leaves)} leaves, {self.shape.spines} spines, and this machine"
                )
                await asyncio.sleep(STEADY)
                self.agents.play(self.faults)
                await self._follow()
                if self.options.once:
                    return compare(self.faults, self._simulated())
                self._say("the timeline has ended; the page stays up, Ctrl-C ends the demo")
                while True:
                    await asyncio.sleep(1.0)
                    self._check()

    async def _follow(self) -> None:
        """Wait until the last step and what may come of it have come."""
        end = self.agents.script.ends + TAIL
        while self.agents.seconds < end or (self.agents.seconds < end + PATIENCE and self._missing()):
            await asyncio.sleep(0.2)
            self._check()

    def _missing(self) -> bool:
        return any(line.result == "MISSING" for line in compare(self.faults, self._simulated()))

    def _check(self) -> None:
        if self.agents.failed is not None:
            raise self.agents.failed
        for task in self._tasks:
            if task.done():
                task.result()

    def _simulated(self) -> list[Told]:
        """What was told of the simulated fabric; this machine's own troubles are real and not the run's business."""
        own = self._here.name
        return [one for one in self.receiver.told.values() if own not in words(one.component)]

    # --- parts

    async def _start(self, stack: contextlib.AsyncExitStack, directory: Path) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        hook = await self._hook(stack)
        await self.agents.start()
        stack.push_async_callback(self.agents.stop)
        self._here = LiveHost()
        root = config.load(None, {"agent.listen": [f"{LOOPBACK}:0"]}, uses=("agent", "collect", "rules"))
        own, first = Agent(root, self._here), Agent(root, SimulatedHost(self.world, 0))
        for name, agent in (("agent of this machine", own), ("agent of the first host", first)):
            await self._child(stack, name, agent.run(), agent.listening)
        targets = {**self.agents.targets, self.layout.hosts[0]: str(first.addresses[0])}
        if self._here.name not in targets:
            targets[self._here.name] = str(own.addresses[0])
        central = Central(self._centre(directory, targets, hook))
        await self._child(stack, "centre", central.run(), central.listening)
        end = time.monotonic() + START_LIMIT
        while sum(node.presence == "live" for node in central.engine.nodes()) < len(targets):
            self._check()
            if time.monotonic() > end:
                raise TimeoutError("not every agent is followed by the centre")
            await asyncio.sleep(0.1)

    def _centre(self, directory: Path, targets: dict[str, str], hook: str) -> config.Root:
        """The configuration a site would write for this fabric."""
        graph = self.layout.graph
        plan, found = directory / "ibnetdiscover.txt", directory / "agents.json"
        plan.write_text(write(graph))
        groups = [
            {"targets": [address], "labels": {"node": node, **_power(graph.hosts.get(node, {}))}}
            for node, address in targets.items()
        ]
        found.write_text(json.dumps(groups))
        return config.load(
            None,
            {
                "central.listen": [self.address],
                "central.state": str(directory / "state"),
                "central.fabric": "demo",
                "central.target_files": [str(found)],
                "central.external_url": f"http://{self.address}",
                "topology.file": str(plan),
                "senders.demo": {"kind": "webhook", "url": hook},
            },
        )

    async def _hook(self, stack: contextlib.AsyncExitStack) -> str:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/", self.receiver.post)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        return f"http://{LOOPBACK}:{runner.addresses[0][1]}/"

    async def _child(
        self, stack: contextlib.AsyncExitStack, name: str, work: Any, listening: asyncio.Event
    ) -> None:
        """Run a part beside the others; returns when it listens, raises what ended it before."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        stack.push_async_callback(_end, task)
        ready = asyncio.create_task(listening.wait())
        await asyncio.wait({task, ready}, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            task.result()
        if not listening.is_set():
            raise TimeoutError(f"{name} does not listen after {START_LIMIT:g} s")

    # --- what is said

    def _step(self, step: Step) -> None:
        if step.text:
            self._event(f"event     {step.text}")

    def _event(self, text: str) -> None:
        self._say(f"{self.agents.seconds:6.1f} s  {text}")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _power(labels: dict[str, str]) -> dict[str, str]:
    return {"power": labels["power"]} if "power" in labels else {}


def words(component: str) -> set[str]:
    """The host and switch names in an incident's component: "link(a/mlx5_0/1, leaf/3)" -> a, leaf."""
    inside = component.partition("(")[2].removesuffix(")") or component
    return {end.strip().partition("/")[0] for end in inside.split(",")}


def free_address(wanted: str) -> str:
    """`wanted`, or the same host with another port where that one is busy. OSError where the host is not ours."""
    address = parse_address(wanted)
    host = address.host or LOOPBACK
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (address.port, 0):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                if port == 0:
                    raise
                continue
            number = probe.getsockname()[1]
            return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    raise AssertionError("unreachable")
