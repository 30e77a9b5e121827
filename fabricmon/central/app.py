"""The centre put together: targets to streams, streams to the engine, its changes to the store and the receivers."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

from fabricmon import __version__
from fabricmon.central import metrics
from fabricmon.central.acting import Actors, acting, standing
from fabricmon.central.api_targets import handler as targets
from fabricmon.central.centre import Centre
from fabricmon.central.clock import Clock
from fabricmon.central.history import History
from fabricmon.central.jobs import JobFeed
from fabricmon.central.kubernetes_feed import KubernetesFeed
from fabricmon.central.memory import Memory
from fabricmon.central.metrics_acting import families as acting_families
from fabricmon.central.metrics_fabric import about
from fabricmon.central.outbox import Outbox
from fabricmon.central.overview import sentence
from fabricmon.central.plan import Plan, load, placed
from fabricmon.central.prometheus_source import PrometheusSource
from fabricmon.central.pull import Pull
from fabricmon.central.settings import CentralConfig
from fabricmon.central.store import Store, StoreError
from fabricmon.central.targets import Discovery, DnsSource, FileSource, Source, Target, TargetError, parse_target
from fabricmon.central.web import Web
from fabricmon.config import ConfigError, Problem, Root
from fabricmon.engine.engine import Engine
from fabricmon.engine.judges import ParamsError
from fabricmon.model import Presence
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.replay.tape import Tape
from fabricmon.rules import RULES
from fabricmon.rules.rule import Scope
from fabricmon.rules.told import Told, told_rules
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address
from fabricmon.runtime.http import listen
from fabricmon.runtime.reader import Overdue, Reader
from fabricmon.runtime.reloads import Reloads
from fabricmon.runtime.sdnotify import Notifier
from fabricmon.senders import ACTING
from fabricmon.senders.destination import Destination, destination
from fabricmon.topology.graph import Graph
from fabricmon.web.gate import Gate
from fabricmon.web.link import Link, Presented
from fabricmon.web.link import load as load_link
from fabricmon.web.loaded import Loaded
from fabricmon.web.loaded import load as load_security
from fabricmon.web.watched import Watched

STOP_LIMIT = 10.0  # seconds after a signal by which the process ends
REMEMBER = 5.0  # seconds between two looks for nodes that are new or have moved
RELOAD_LIMIT = 60.0  # seconds to read configuration and topology again
STALLED = 30.0  # seconds without a tick after which the centre is not alive
AT_START = ("listen", "state", "fabric", "source", "record")  # settings of `central:` that are read at the start only

Reread = Callable[[], Root]


def static_targets(config: Root) -> list[Target]:
    """The targets the configuration itself lists; ConfigError for one that is none."""
    problems, found = [], []
    for i, text in enumerate(config.central.targets):
        try:
            found.append(parse_target(text))
        except TargetError as error:
            problems.append(Problem(config.path or "command line", 0, f"central.targets[{i}]", str(error)))
    if problems:
        raise ConfigError(*problems)
    return found


def destinations(config: Root) -> list[Destination]:
    """Who is told."""
    links = config.central.as_links()
    told = ((name, s) for name, s in config.senders.items() if s.kind not in ACTING)
    return [destination(name, s.kind, s.config, config.notify, links) for name, s in told]


def check(config: Root) -> None:
    """Everything that can be said of a configuration without starting anything: what a start reads is read. ConfigError
    with all that is wrong."""
    settings: CentralConfig = config.central
    problems: list[Problem] = []
    for read in (
        partial(_judged, config),
        partial(static_targets, config),
        partial(load_security, settings.web, settings.token_file, "central"),
        partial(load_link, settings.agents),
    ):
        try:
            read()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)


def _judged(config: Root) -> None:
    """Topology and rules. ConfigError when one of them cannot be used."""
    graph = load(config).graph
    try:
        Engine(Scope.FLEET, graph, params=config.rules)
    except ParamsError as error:
        raise ConfigError(Problem(config.path or "command line", 0, "rules", str(error))) from error


class Central:
    """One centre. `run` serves until cancelled; the constructor checks everything that can be wrong beforehand.

    `addresses` and `listening` say when and where it can be reached.
    """

    def __init__(self, config: Root, reread: Reread | None = None) -> None:
        """`reread` reads the configuration again for `reload`. Raises ConfigError, and StoreError for the state."""
        settings: CentralConfig = config.central
        self.config, self._settings, self._reread = config, settings, reread
        self._plan = load(config)
        self._static = static_targets(config)
        self._sources = _sources(settings)
        self._kubernetes = _kubernetes(settings)
        self._destinations = destinations(config)
        self.gate = Gate(settings.web, "central", settings.token_file, settings.external_url)
        self.link = Link(settings.agents)
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self._log = logs.get(part="centre")
        self._clock = Clock()
        self._notify = Notifier()
        self._reloads = Reloads(succeeded=time.time())
        self._reload_error = ""
        self._transitions = logs.Transitions(self._log)
        self._tape: Tape | None = None
        self._told: Told | None = Told() if settings.source != "agents" else None
        self.store = Store(settings.state)
        state = self.store.load()
        self.memory = Memory(self.store, state.nodes, self._clock.now())
        self._placed = self._places(config)
        try:
            self.engine, self._recorded = self._engine(config, placed(self._plan.graph, self._placed))
        except ParamsError as error:
            self.store.close()
            raise ConfigError(Problem(config.path or "command line", 0, "rules", str(error))) from error
        except OSError:
            self.store.close()
            raise
        self.outbox = Outbox(self.store, self._destinations, config.notify, state.backlog)
        noted = (self._recorded.planned_by,) if self._recorded is not None else ()
        self.centre = Centre(settings.fabric, self.engine, self.store, state, self.outbox, self._clock.now, *noted)
        self.centre.receivers = [d.receiver for d in self._destinations]
        self.centre.replan()
        self.actors = Actors(self.store, lambda: standing(self.centre), acting(config))
        self.jobs = JobFeed(settings.jobs, self.engine, self._clock.now)
        self.ruler = (
            PrometheusSource(settings.prometheus, self.engine, self._told, RULES, self._clock.now)
            if self._told is not None
            else None
        )
        self.pull = Pull(settings.pull, self.engine, self._clock.now, self.link)
        self.pull.known = self.memory.addresses()
        self.history = History(self.engine, self._clock.now)
        self.discovery = self._discover()

    def _engine(self, config: Root, graph: Graph | None) -> tuple[Engine, RecordedEngine | None]:
        """The engine, and the same again where it is recorded. ParamsError, and OSError where it cannot be recorded."""
        settings: CentralConfig = config.central
        if self._told is not None:
            rules = told_rules(RULES, self._told, own=settings.source == "both")
            return Engine(Scope.FLEET, graph, params=config.rules, fabric=settings.fabric, rules=rules), None
        if not settings.record.directory:
            return Engine(Scope.FLEET, graph, params=config.rules, fabric=settings.fabric), None
        self._tape = tape = Tape(settings.record)
        try:
            run = secrets.token_hex(4)
            recorded = RecordedEngine(tape, run, self._clock.now(), graph, config.rules, settings.fabric)
        except ParamsError:
            tape.close()
            raise
        self._log.info("everything that comes in is recorded", directory=settings.record.directory, run=run)
        return recorded, recorded

    def _close(self) -> None:
        """What must be whole when the process ends."""
        if self._recorded is not None and self._tape is not None:
            self._recorded.end(self._clock.now())
            self._tape.close()
        self.store.close()

    def _discover(self) -> Discovery:
        """Discovery over the present sources, which begin with what they gave before a restart."""
        followers = [self._kubernetes] if self._kubernetes is not None else []
        limit, failed = self._settings.pull.max_targets, self._source_failed
        found = Discovery(self._static, self._sources, limit, self.pull.follow, failed, followers)
        for name, state in found.states.items():
            state.targets = self.memory.targets(name)
        for source in self._sources:
            if isinstance(source, DnsSource):
                source.expect(target.address for target in found.states[source.name].targets)
        for follower in followers:
            follower.expect(found.states[follower.name].targets)
        return found

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be had."""
        web = Web(
            self.centre,
            self.warnings,
            lambda wanted: metrics.page(
                self.centre, self.pull, self.discovery, self._clock, self._reloads, wanted, self._tape, self.jobs,
                [*self.gate.families(), *acting_families(self.actors), *about(self._settings)],
            ),
            self._not_live,
            self._not_ready,
            self.jobs.jobs,
            lambda: self._settings.as_links(),
            self.gate.access,
            self.history,
            targets(self.pull.register.peers.values, lambda peer: self.link.encrypts(peer.target.scheme)),
        )
        self.gate.guard(web.app)
        try:
            listener = await listen(web.app, self._settings.listen, door=self.gate.door)
        except BaseException:
            self._close()
            raise
        self.addresses = listener.addresses
        self._log.info("centre listens", version=__version__, addresses=", ".join(map(str, self.addresses)))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick(), name="tick")
                group.create_task(self.outbox.run(), name="outbox")
                group.create_task(self.actors.run(), name="actors")
                group.create_task(self.pull.run(), name="pull")
                group.create_task(self.gate.run(), name="gate")
                group.create_task(self.link.run(), name="link")
                if self.ruler is not None:
                    group.create_task(self.ruler.run(), name="ruler")
                group.create_task(self.jobs.run(), name="jobs")
                group.create_task(self.history.run(), name="history")
                group.create_task(self._remember(), name="remember")
                if self._notify.watchdog:
                    group.create_task(self._watchdog(self._notify.watchdog), name="watchdog")
                self.discovery.start()
                self.listening.set()
        finally:
            self._notify.stopping("stopping")
            self.discovery.stop()
            await listener.close()
            self._close()

    # ---------------------------------------------------------------- children

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            least = await self.centre.tick()
            if self.centre.ticks.count == 1:
                self._notify.ready(self._sentence())
            due = max(due + max(self._settings.tick, least), loop.time())
            await asyncio.sleep(due - loop.time())

    async def _watchdog(self, period: float) -> None:
        """WATCHDOG only while the fleet is judged."""
        while True:
            if self._not_live() is None:
                self._notify.alive()
                self._notify.status(self._sentence())
            await asyncio.sleep(period)

    async def _remember(self) -> None:
        """Keep in the store which nodes there are, and in the topology where they stand."""
        while True:
            await asyncio.sleep(REMEMBER)
            now = self._clock.now()
            try:
                await self.memory.save(self.pull.register.peers.values(), now)
                self._transitions.tell("memory", "saved", "nodes are remembered again", bad=False)
            except StoreError as error:
                self._transitions.tell("memory", "failing", "nodes cannot be remembered", bad=True, error=str(error))
            places, plan = self._places(self.config), await self._planned()
            if places != self._placed or plan is not self._plan:
                self._placed, self._plan = places, plan
                self.engine.reconfigure(self.config.rules, placed(plan.graph, places), now)

    async def _planned(self) -> Plan:
        """The plan as the labels of Kubernetes' nodes are now; the present one where they are the same."""
        plan = self._plan
        nodes = self._kubernetes.placement() if self._kubernetes is not None else None
        if nodes is plan.nodes:
            return plan
        reader = Reader("plan")
        try:
            again = await reader.call(partial(plan.with_nodes, nodes), RELOAD_LIMIT)
        except Overdue:
            return plan
        finally:
            reader.close()
        return again if self._plan is plan else self._plan  # a reload came between

    def _places(self, config: Root) -> dict[str, dict[str, str]]:
        """Where nodes stand: what their targets say, over it what the configuration says."""
        places = self.memory.places()
        for host, power in config.topology.power.items():
            places.setdefault(host, {})["power"] = power
        return places

    # ---------------------------------------------------------------- reading the configuration again

    async def reload(self) -> None:
        """Rules' params, topology, targets and receivers from the configuration as it is now. A bad one changes
        nothing."""
        self._notify.reloading(time.monotonic_ns() // 1000)
        self._reloads.count += 1
        reader = Reader("reload")
        try:
            # A large topology takes seconds to read, a file on a dead mount for ever.
            config, graph, static, gate, link = await reader.call(self._read_again, RELOAD_LIMIT)
            self._apply(config, graph, static, destinations(config))
            self.gate.take(gate, config.central.web, config.central.external_url)
            self.link.take(link, config.central.agents)
            await self.jobs.configure(config.central.jobs)
        except (ConfigError, Overdue) as error:
            self._refused(str(error))
        except ParamsError as error:
            self._refused(f"rules: {error}")
        else:
            self._log.info("configuration read again")
        finally:
            reader.close()
        self._notify.ready(self._sentence())

    def _read_again(self) -> tuple[Root, Plan, list[Target], Watched[Loaded], Watched[Presented]]:
        config = self._reread() if self._reread else self.config
        settings: CentralConfig = config.central
        gate, link = self.gate.prepare(settings.web, settings.token_file), self.link.prepare(settings.agents)
        return config, load(config, self._plan.nodes), static_targets(config), gate, link

    def _refused(self, problems: str) -> None:
        self._reloads.refused()
        self._reload_error = problems
        self._log.error("configuration refused; the one before stays in use", problems=problems)

    def _apply(self, config: Root, plan: Plan, static: list[Target], told: list[Destination]) -> None:
        """The engine first: it refuses parameters it does not understand, and then nothing is changed."""
        settings: CentralConfig = config.central
        places = self._places(config)
        self.engine.reconfigure(config.rules, placed(plan.graph, places), self._clock.now())
        for name in AT_START:
            if getattr(settings, name) != getattr(self._settings, name):
                self._log.warning("takes effect at the next start only", setting=f"central.{name}")
        self._reloads.accepted(time.time())
        self._reload_error = ""
        logs.configure(config.log.format, config.log.level)
        self.config, self._settings, self._plan, self._static = config, settings, plan, static
        self._destinations = told
        self._placed = places
        self.centre.receivers = [d.receiver for d in told]
        self.outbox.configure(told, config.notify)
        self.actors.configure(acting(config))
        self.pull.configure(settings.pull)
        if self.ruler is not None and settings.source != "agents":
            self.ruler.configure(settings.prometheus)
        self.centre.replan()
        states = self.discovery.states
        self.discovery.stop()
        self._sources = _sources(settings)
        if self._kubernetes is None or self._kubernetes.config != settings.kubernetes:
            self._kubernetes = _kubernetes(settings)
        self.discovery = self._discover()
        self.discovery.states.update((name, s) for name, s in states.items() if name in self.discovery.states)
        self.discovery.start()

    # ---------------------------------------------------------------- answers

    def _sentence(self) -> str:
        """One line for the service manager: the fabric, then what is wrong with the centre itself."""
        return "; ".join([sentence(self.centre.look()[1]), *self.warnings()])

    def warnings(self) -> list[str]:
        """What is wrong with the centre itself, for the page."""
        found = []
        if self.store.damage:
            found.append(f"The state was damaged and begun anew: {self.store.damage}")
        if self.centre.store_error:
            found.append(f"The state cannot be saved, so nobody is told anything new: {self.centre.store_error}")
        if self._tape is not None and self._tape.status.error:
            found.append(f"The recording has a gap, it cannot be written: {self._tape.status.error}")
        if self._reload_error:
            found.append(f"The configuration was refused, the one before is in use: {self._reload_error}")
        if self.ruler is not None and self.ruler.error:
            found.append(f"The ruler cannot be asked, what it said before stands: {self.ruler.error}")
        if self.ruler is not None and self.ruler.strange:
            found.append(f"{self.ruler.strange} alerts of the ruler name no rule or component that is known")
        for name, state in self.discovery.states.items():
            if state.error:
                found.append(f"Targets of {name} are those it gave before: {state.error}")
        found += [*self.jobs.warnings(), *self.actors.warnings(), *self.gate.warnings(), *self.link.warnings()]
        if self.discovery.refused:
            found.append(f"{self.discovery.refused} targets are beyond central.pull.max_targets and not followed")
        disputed = self.pull.claims.disputed
        if disputed:
            found.append(f"{len(disputed)} nodes tell GUIDs that others told before: {', '.join(sorted(disputed)[:5])}")
        cloned = self.centre.look()[1].nodes[Presence.CLONED]
        if cloned:
            found.append(f"{cloned} node names are used by two agents each")
        return found

    def _source_failed(self, name: str, error: str) -> None:
        if error:
            self._log.warning("targets cannot be read; those given before stay", source=name, error=error)
        else:
            self._log.info("targets can be read again", source=name)

    def _not_ready(self) -> str | None:
        if not self.centre.ticks.count:
            return "nothing was judged yet"
        return f"state cannot be saved: {self.centre.store_error}" if self.centre.store_error else None

    def _not_live(self) -> str | None:
        ticks = self.centre.ticks
        if ticks.count and self._clock.now() - ticks.at > STALLED:
            return f"nothing was judged for {STALLED:g} s"
        return None


def _sources(settings: CentralConfig) -> Sequence[Source]:
    return [*map(FileSource, settings.target_files), *map(DnsSource, settings.dns)]


def _kubernetes(settings: CentralConfig) -> KubernetesFeed | None:
    return KubernetesFeed(settings.kubernetes) if settings.kubernetes.enabled else None


async def run(config: Root, reread: Reread | None = None) -> None:
    """Run a centre until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    Raises ConfigError or StoreError before anything was started, OSError when an address cannot be had.
    """
    loop = asyncio.get_running_loop()
    central = Central(config, reread)
    serving = asyncio.create_task(central.run())
    stop, again = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)

    async def reloads() -> None:
        await central.listening.wait()
        while True:
            await again.wait()
            again.clear()
            await central.reload()

    stopping, reloading = asyncio.create_task(stop.wait()), asyncio.create_task(reloads())
    await asyncio.wait({serving, stopping, reloading}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, reloading):
        task.cancel()
    if not serving.done():
        logs.get(part="centre").info("centre stops")
        serving.cancel()
        await asyncio.wait({serving}, timeout=STOP_LIMIT)
    if serving.done() and not serving.cancelled():
        serving.result()
