"""Plays a story: a quiet beginning in which the engine learns what is usual, then the changes that the story makes."""

from __future__ import annotations

from collections.abc import Callable

from fabricmon.engine import Engine
from fabricmon.model import Event, Presence
from fabricmon.rules.rule import Scope
from fabricmon.sim.scenarios.run import Log
from fabricmon.sim.scenarios.stage import START
from fabricmon.simulate.random_scenarios import DELIVERED
from fabricmon.topology.graph import Graph
from tests.stories.ethernet.agents import Agents
from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.state import stray_symptoms
from tests.stories.ethernet.world import STEP_S, World
from tests.stories.sent import Inbox

QUIET_S = 240.0


class Scene:
    """A cluster with its agents, the server's engine with its defaults, and the changes of one story.

    plan   what the server knows of the cables besides what agents report
    quiet  seconds before the story's first fault; times of changes are seconds after it
    stray  some hosts have symptoms that are no fault
    """

    def __init__(
        self, cluster: Cluster, plan: Graph | None = None, *, quiet: float = QUIET_S, stray: bool = True
    ) -> None:
        self.world = World(cluster)
        if stray:
            stray_symptoms(self.world.state, [cluster.driver(host) for host in range(cluster.hosts)])
        self._engine = Engine(Scope.FLEET, plan, fabric="x")
        self._agents = Agents(self.world, self._engine)
        self._quiet, self._time = quiet, 0.0
        self._changes: list[tuple[float, Callable[[], None]]] = []
        self._each_step: list[Callable[[float], None]] = []

    # What a story changes

    def at(self, after: float) -> Callable[[Callable[[], None]], None]:
        """Decorator: make this change so many seconds after the fault."""
        return lambda change: self._changes.append((after, change))

    def each_step(self, change: Callable[[float], None]) -> None:
        """Decorator: call this with the seconds after the fault, at each step from the fault on."""
        self._each_step.append(change)

    def presence(self, host: int, presence: Presence, detail: str = "") -> None:
        """The server's connection to this host's agent has changed."""
        self._agents.presence(host, presence, detail, self._time)

    def unreachable(self, host: int) -> None:
        self.presence(host, Presence.UNREACHABLE, "no answer")

    def boot(self, host: int) -> None:
        """The host and its agent are back."""
        self._agents.boot(host, self._time)

    def reload_driver(self, host: int) -> None:
        self._agents.reload_driver(host, self._time)

    def rename(self, host: int, old: str, new: str) -> None:
        """The host's inventories call this RDMA device otherwise from now on."""
        names = self.world.cluster.rdma_devices(host)
        self._agents.device_names[host] = [new if name == old else name for name in names]

    def kernel_event(self, host: int, kind: str, component: str, line: str) -> None:
        """The host's agent reports this line of the kernel log, as an error."""
        now = START + self._time
        event = Event(1, now, kind, component, line, {"severity": 2.0})
        self._engine.event(self.world.cluster.node(host), event, now)

    # Playing it

    def play(self, lasts: float) -> Inbox:
        """What a receiver of the default configuration is sent until so many seconds after the fault."""
        log = Log(self._engine, 0.0, (DELIVERED,))
        hosts = range(self.world.cluster.hosts)
        for host in hosts:
            self.presence(host, Presence.LIVE)
        self.world.step(0.0)
        for host in hosts:
            self._agents.describe(host, 0.0)
        while self._time <= self._quiet + lasts:
            self._change(self._time - self._quiet)
            self.world.step(self._time)
            self._agents.report(self._time)
            log.tick(self._time)
            self._time += STEP_S
        log.finish(self._time)
        return Inbox(log, fault=self._quiet)

    def _change(self, after: float) -> None:
        for moment, change in self._changes:
            if moment == after:
                change()
        if after >= 0:
            for step in self._each_step:
                step(after)
