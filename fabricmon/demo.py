"""`fabricmon demo`: a simulated fabric, the real agent of this machine, a server with its page, and four events.

Only the counters of the fabric are simulated. Streams over loopback sockets, rules, diagnosis, store, outbox and
webhook are those of the product. The first host runs the real agent on simulated files, the other hosts implement its
protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from fabricmon import config
from fabricmon.agent.app import Agent
from fabricmon.agent.metrics.pages import Pages
from fabricmon.central.app import Central
from fabricmon.forms.decoding import loose_json
from fabricmon.forms.readable import certainty
from fabricmon.host.live import LiveHost
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address, parse_address
from fabricmon.sim.dump import write
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault, Step
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.world import World
from fabricmon.simulate.agents import Agents
from fabricmon.simulate.host import SimulatedHost
from fabricmon.simulate.timeline import PATIENCE, TAIL, timeline

LOOPBACK = "127.0.0.1"
USUAL_PORT = 9791
START_LIMIT = 30.0
"""Seconds for each part to listen, and for all nodes to become live."""
STEADY = 3.0
"""Seconds without faults before the first event."""
MAX_BODY = 4 << 20
"""Bytes of one notification, at most."""
MOST_HOSTS = 2048
"""Each simulated host has a listening socket: the usual limit of file descriptors."""


@dataclass(frozen=True)
class DemoOptions:
    """Options of the command line. `speed` divides the times of the timeline, `once` ends the run after it. `listen`
    "": the usual address, or another port if that is in use."""

    listen: str = ""
    nodes: int = 64
    seed: int = 1
    speed: float = 1.0
    once: bool = False


@dataclass
class NotifiedIncident:
    """An incident at the receiver: state of the newest notification, and time of the first (simulated seconds)."""

    id: str
    kind: str
    component: str
    severity: str
    status: str
    first: float


@dataclass(frozen=True)
class EventResult:
    """One line of the result: an expected or notified incident."""

    result: str  # "as expected", "MISSING", "UNEXPECTED"
    kind: str
    component: str
    after: float | None = None  # seconds from the first step of the fault to the first notification


def compare(faults: tuple[InjectedFault, ...], notified: list[NotifiedIncident]) -> list[EventResult]:
    """A result for each expected and each unexpected incident; events that expect none have no line."""
    rest = list(notified)
    lines = []
    for fault in faults:
        for expected in fault.expected:
            match = next((one for one in rest if expected.matches(one.kind, one.component)), None)
            if match is None:
                lines.append(EventResult("MISSING", expected.kind, expected.component))
            else:
                rest.remove(match)
                lines.append(EventResult("as expected", match.kind, match.component, match.first - fault.steps[0].at))
    return lines + [EventResult("UNEXPECTED", one.kind, one.component) for one in rest]


@dataclass
class WebhookReceiver:
    """The webhook receiver: keeps the incidents and prints a line per change."""

    output: Callable[[str], None]
    now: Callable[[], float]
    notified: dict[str, NotifiedIncident] = field(default_factory=dict)

    async def post(self, request: web.Request) -> web.Response:
        body = loose_json(await request.read())
        for incident in body["incidents"]:
            self._take(incident)
        return web.Response(status=204)

    def _take(self, incident: dict[str, Any]) -> None:
        known = self.notified.get(incident["id"])
        if known is None:
            known = self.notified[incident["id"]] = NotifiedIncident(incident["id"], "", "", "", "", self.now())
        known.kind, known.component = incident["kind"], incident["component"]
        known.severity, known.status = incident["severity"], incident["status"]
        hit = ", ".join(job["name"] for job in (incident["impact"] or {}).get("jobs", ()))
        self.output(
            f"{incident['status'].upper():<8}  {incident['severity']:<8}  {incident['title']}; "
            f"confidence {certainty(incident['confidence'])}"
            f"{f'; affected jobs: {hit}' if hit else ''}"
        )


class Demo:
    """All parts of one run. `output` prints a line, `progress` shows what is starting."""

    def __init__(
        self, options: DemoOptions, output: Callable[[str], None], progress: Callable[[str], None] = lambda _: None
    ) -> None:
        if options.nodes > MOST_HOSTS:
            raise ValueError(f"at most {MOST_HOSTS} nodes, got {options.nodes}")
        if not 0 < options.speed <= 20:
            raise ValueError(f"speed must be above 0 and at most 20, got {options.speed:g}")
        self.options, self._output, self._progress = options, output, progress
        self.layout = Layout.from_graph(rail_fabric(options.nodes, unit=min(32, -(-options.nodes // 2))), storage=0)
        self.faults = timeline(self.layout, options.seed, options.speed, spare=1)
        rebooting = {fault.steps[0].text.partition(":")[0] for fault in self.faults if not fault.expected}
        self.jobs = played_jobs(self.layout.hosts, rebooting)
        self.interval = max(1.0, 10.0 / options.speed)
        self.world = World(self.layout, options.seed, self.interval)
        self.agents = Agents(
            self.world, address=LOOPBACK, interval=self.interval, on_step=self._step, without=(0,), page=Pages()
        )
        self.receiver = WebhookReceiver(self._event, lambda: self.agents.seconds)
        self._held, self.address = held_address(options.listen)

    async def run(self) -> list[EventResult]:
        """Run the timeline. With `once` return its results, else continue until cancelled.

        OSError for a socket that cannot be opened, TimeoutError for a part that does not start.
        """
        logs.configure(level="error")
        with tempfile.TemporaryDirectory(prefix="fabricmon-demo-") as directory:
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(self._held)
                if self._elsewhere:
                    self._output(f"port {USUAL_PORT} of {LOOPBACK} is in use, so this demo takes "
                                 f"{parse_address(self.address).port}; to choose one: --listen HOST:PORT, or "
                                 "make run DEMO=\"--listen HOST:PORT\"")  # fmt: skip
                self._output(f"starting {self.options.nodes} simulated hosts, the server and this machine's agent ...")
                central = await self._start(stack, Path(directory))
                self._output(f"page: http://{self.address}/   (metrics and API at the same address)")
                self._output(self._shown(central))
                await asyncio.sleep(STEADY)
                self.agents.play(self.faults)
                await self._follow()
                if self.options.once:
                    return compare(self.faults, self._simulated())
                self._output("end of the timeline; the page stays up, Ctrl-C ends the demo")
                for line in next_steps(self.receiver.notified.values(), self.address if self._elsewhere else ""):
                    self._output(line)
                while True:
                    await asyncio.sleep(1.0)
                    self._check()

    async def _follow(self) -> None:
        """Wait for the last step and its incidents."""
        end = self.agents.script.ends + TAIL
        while self.agents.seconds < end or (
            self.agents.seconds < end + PATIENCE
            and any(line.result == "MISSING" for line in compare(self.faults, self._simulated()))
        ):
            await asyncio.sleep(0.2)
            self._check()

    def _check(self) -> None:
        if self.agents.failed is not None:
            raise self.agents.failed
        for task in self._tasks:
            if task.done():
                task.result()

    def _simulated(self) -> list[NotifiedIncident]:
        """Notified incidents of the simulated fabric, without those of this machine, which are real."""
        own = self._here.name
        return [one for one in self.receiver.notified.values() if own not in words(one.component)]

    @property
    def _elsewhere(self) -> bool:
        """Whether the usual port is in use and no other was asked for."""
        return not self.options.listen and parse_address(self.address).port != USUAL_PORT

    def _shown(self, central: Central) -> str:
        """What the page counts at the start."""
        nodes, leaves = central.engine.nodes(), len(self.layout.leaves)
        return (
            f"{self.options.nodes} simulated hosts and this machine, {sum(node.ports for node in nodes)} ports, "
            f"{sum(node.gpus for node in nodes)} GPUs, {leaves} leaves, {len(self.layout.switches) - leaves} spines, "
            f"{len(self.jobs)} jobs"
        )

    async def _start(self, stack: contextlib.AsyncExitStack, directory: Path) -> Central:
        self._tasks: list[asyncio.Task[None]] = []
        hook = await self._hook(stack)
        await self.agents.start()
        stack.push_async_callback(self.agents.stop)
        self._here = LiveHost()
        given = {"agent.listen": [f"{LOOPBACK}:0"], "collect.inventory.none_expected": True}
        root = config.load(None, given, uses=("agent", "collect", "rules"))
        own, first = Agent(root, self._here), Agent(root, SimulatedHost(self.world, 0))
        for name, agent in (("agent of this machine", own), ("agent of the first host", first)):
            await self._child(stack, name, agent.run(), agent.listening)
        targets = {**self.agents.targets, self.layout.hosts[0]: str(first.addresses[0])}
        if self._here.name not in targets:
            targets[self._here.name] = str(own.addresses[0])
        central = Central(self._central_config(directory, targets, hook))
        await self._child(stack, "server", central.run(), central.listening)
        end = time.monotonic() + START_LIMIT
        while (live := sum(node.presence == "live" for node in central.engine.nodes())) < len(targets):
            self._check()
            self._progress(f"starting: {live} of {len(targets)} agents connected")
            if time.monotonic() > end:
                raise TimeoutError(f"only {live} of {len(targets)} agents are connected after {START_LIMIT:g} s")
            await asyncio.sleep(0.1)
        return central

    def _central_config(self, directory: Path, targets: dict[str, str], hook: str) -> config.Root:
        """The configuration of the server for this fabric."""
        graph = self.layout.graph
        plan, found, jobs = (directory / name for name in ("ibnetdiscover.txt", "agents.json", "jobs.json"))
        plan.write_text(write(graph))
        groups = [
            {"targets": [address], "labels": {"node": node, **_power(graph.hosts.get(node, {}))}}
            for node, address in targets.items()
        ]
        found.write_text(json.dumps(groups))
        jobs.write_text(json.dumps({"jobs": self.jobs}))
        return config.load(
            None,
            {
                "central.listen": [self.address],
                "central.state": str(directory / "state"),
                "central.fabric": "demo",
                "central.target_files": [str(found)],
                "central.external_url": f"http://{self.address}",
                "central.jobs.files": [str(jobs)],
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
        """Start a part and wait until it listens; raises the error that ended it before."""
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

    def _step(self, step: Step) -> None:
        if step.text:
            self._event(f"event     {step.text}")

    def _event(self, text: str) -> None:
        self._output(f"{self.agents.seconds:6.1f} s  {text}")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def played_jobs(hosts: Sequence[str], idle: Container[str]) -> list[dict[str, Any]]:
    """Jobs on all hosts but those of `idle`, as in a jobs file: two of a half each, of which the first is large enough
    to have nodes below every leaf of its half."""
    middle = len(hosts) // 2
    given = (("4711", "train-70b", "mara", hosts[:middle]), ("4712", "eval", "jon", hosts[middle:]))
    return [
        {"id": id, "name": name, "user": user, "nodes": [host for host in part if host not in idle]}
        for id, name, user, part in given
    ]


def next_steps(notified: Iterable[NotifiedIncident], server: str) -> list[str]:
    """What to try in another terminal. `server`: the address where it is not the usual one."""
    there = f" --server http://{server}" if server else ""
    firing = [one for one in notified if one.status == "firing"]
    some = firing[0].id[:6] if firing else "ID"
    return [
        "try next, in another terminal:",
        f"  fabricmon top{there}",
        f"  fabricmon incidents --all{there}",
        f"  fabricmon explain {some}{there}",
        f'  fabricmon acknowledge {some} --comment "cable is ordered"{there}',
        "on your own machines: docs/install.md; what each page shows: docs/page.md",
    ]


def _power(labels: dict[str, str]) -> dict[str, str]:
    return {"power": labels["power"]} if "power" in labels else {}


def words(component: str) -> set[str]:
    """The host and switch names in an incident's component: "link(a/mlx5_0/1, leaf/3)" -> a, leaf."""
    inside = component.partition("(")[2].removesuffix(")") or component
    return {end.strip().partition("/")[0] for end in inside.split(",")}


def held_address(wanted: str) -> tuple[socket.socket, str]:
    """`wanted`, or a free port of this machine's loopback for "". OSError for an address that cannot be used.

    Until the socket is closed no other socket gets the port by chance; the server may listen on it meanwhile.
    """
    address = parse_address(wanted) if wanted else Address(LOOPBACK, USUAL_PORT)
    host = address.host or LOOPBACK
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host, address.port))
    except OSError as error:
        if wanted:
            held.close()
            in_use = f"port {address.port} of {host} is in use: choose another one with --listen"
            other = f"cannot listen on {wanted}: {error.strerror} (--listen)"
            raise OSError(in_use if error.errno == errno.EADDRINUSE else other) from error
        held.bind((host, 0))
    return held, str(Address(host, held.getsockname()[1]))
