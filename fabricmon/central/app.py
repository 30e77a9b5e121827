"""Assembly of the central server: targets, streams, engine, store, receivers, listener."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from functools import partial

from fabricmon import __version__
from fabricmon.central.api.doctor import handler as doctor_handler
from fabricmon.central.api.targets import handler as targets_handler
from fabricmon.central.delivery.acting import Actors, configured_actors
from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.documents.overview import sentence
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.http_application import HttpApplication
from fabricmon.central.jobs.feed import JobFeed
from fabricmon.central.metrics import page as metrics
from fabricmon.central.metrics.acting import families as acting_families
from fabricmon.central.metrics.fabric import about
from fabricmon.central.prepared import Prepared, prepare, rules_refused
from fabricmon.central.probing.probing import Probing
from fabricmon.central.prometheus.source import PrometheusSource
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import StoredState
from fabricmon.central.store.store import Store
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.seen_nodes import SeenNodes
from fabricmon.central.targets.discovery import DnsSource, TargetDiscovery, TargetFile, TargetSource
from fabricmon.central.targets.kubernetes_feed import KubernetesFeed
from fabricmon.central.topology_plan import TopologyPlan, with_places
from fabricmon.central.website.history import History
from fabricmon.config import ConfigError, Root
from fabricmon.engine.engine import Engine
from fabricmon.engine.symptoms.rule_states import ParamsError
from fabricmon.notify.pacing import Pacing
from fabricmon.recording.tape import Tape
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.rules import RULES
from fabricmon.rules.evaluator_alerts import EvaluatorAlerts, evaluator_rules
from fabricmon.rules.rule import Scope
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address
from fabricmon.runtime.clock import Clock
from fabricmon.runtime.daemon import serve
from fabricmon.runtime.descriptors import DescriptorReserve, raise_limit
from fabricmon.runtime.exposition import ComputedFamilies, Family
from fabricmon.runtime.garbage import GarbageGrowth, settle
from fabricmon.runtime.http import listen
from fabricmon.runtime.reader import Overdue, Reader
from fabricmon.runtime.registry import process_registry
from fabricmon.runtime.reloads import Reloads
from fabricmon.runtime.sdnotify import Notifier
from fabricmon.topology.graph import Graph
from fabricmon.web.agent_links import AgentLinks, Presented
from fabricmon.web.gate import Gate
from fabricmon.web.loaded import Loaded
from fabricmon.web.watched import Watched

STOP_LIMIT = 10.0  # seconds after a signal by which the process ends
SAVE_PERIOD = 5.0  # seconds between two checks for new or moved nodes
RELOAD_LIMIT = 60.0  # seconds for a reload of configuration and topology
TICK_RETRY = 1.0  # seconds until the next tick after one that failed
STALLED = 30.0  # seconds without a tick after which /-/live fails
AT_START = ("listen", "state", "fabric", "source", "record")  # settings of `central:` that need a restart

Reread = Callable[[], Root]


class Central:
    """The central server. The constructor checks configuration and state; `run` serves until cancelled.

    listening  set when the listener is open, on `addresses`
    """

    def __init__(self, config: Root, reread: Reread | None = None) -> None:
        """`reread` reads the configuration for `reload`. Raises ConfigError and StoreError."""
        self._reread = reread
        self._prepared = prepare(config)
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self._log = logs.get(part="server")
        self._transitions = logs.Transitions(self._log)
        self._clock, self._notify = Clock(), Notifier()
        self._registry = process_registry("central")
        self._reloads, self._reload_error = Reloads("fabricmon_central", self._registry, time.time()), ""
        settings = self._prepared.settings
        self.gate = Gate(settings.web, "central", settings.token_file, settings.external_url)
        raise_limit()
        self._descriptors = self.gate.door.reserve = DescriptorReserve()
        self.agent_links = AgentLinks(settings.agents)
        self.store = Store(settings.state)
        state = self.store.load()
        self.seen_nodes = SeenNodes(self.store, state.nodes, self._clock.now())
        self._places = self._placement(config)
        self._open_engine()
        self._open_outputs(state)
        self._open_inputs()
        self._register_metrics()

    # ---------------------------------------------------------------- parts, in order of construction

    def _open_engine(self) -> None:
        """The engine for `central.source` and `central.record`."""
        settings, rules = self._prepared.settings, self._prepared.config.rules
        graph = with_places(self._prepared.plan.graph, self._places)
        self._alerts = EvaluatorAlerts() if settings.source != "agents" else None
        self._tape: Tape | None = None
        self._recorded: RecordedEngine | None = None
        try:
            if self._alerts is not None:
                rules_used = evaluator_rules(RULES, self._alerts, own=settings.source == "both")
                self.engine = Engine(Scope.FLEET, graph, params=rules, fabric=settings.fabric, rules=rules_used)
            elif settings.record.directory:
                self.engine = self._recorded = self._recorded_engine(graph)
            else:
                self.engine = Engine(Scope.FLEET, graph, params=rules, fabric=settings.fabric)
        except ParamsError as error:
            self._close()
            raise rules_refused(self._prepared.config, error) from error
        except OSError:
            self._close()
            raise

    def _recorded_engine(self, graph: Graph | None) -> RecordedEngine:
        """An engine whose inputs are recorded. ParamsError; OSError where the directory cannot be written."""
        settings, run = self._prepared.settings, secrets.token_hex(4)
        rules = self._prepared.config.rules
        self._tape = Tape(settings.record)
        made = RecordedEngine(self._tape, run, self._clock.now(), graph, rules, settings.fabric)
        self._log.info("recording all input", directory=settings.record.directory, run=run)
        return made

    def _open_outputs(self, state: StoredState) -> None:
        """Evaluation, notifications, actions and history."""
        prepared, now = self._prepared, self._clock.now
        pacing = Pacing(state.sent, state.withheld)
        to = (prepared.destinations, prepared.config.notify, state.backlog, self._registry)
        self.outbox = Outbox(self.store, *to, self._descriptors, pacing, now)
        noted = (self._recorded.planned_by,) if self._recorded is not None else ()
        fabric = prepared.settings.fabric
        parts = (fabric, self.engine, self.store, state, self.outbox)
        self.evaluator = Evaluator(*parts, now, *noted, pacing=pacing, registry=self._registry)
        self.evaluator.receivers = [d.receiver for d in prepared.destinations]
        self.evaluator.replan()
        self.actors = Actors(self.store, self.evaluator.standing, configured_actors(prepared.config))
        self.history = History(self.engine, now)

    def _open_inputs(self) -> None:
        """Inputs of the engine: agents, jobs, a rule evaluator."""
        settings, now = self._prepared.settings, self._clock.now
        self.jobs = JobFeed(settings.jobs, self.engine, now)
        self.rule_evaluator = None
        if self._alerts is not None:
            self.rule_evaluator = PrometheusSource(settings.prometheus, self.engine, self._alerts, RULES, now)
        self.pull = Pull(settings.pull, self.engine, now, self.agent_links, self._registry, self._descriptors)
        self.pull.known = self.seen_nodes.addresses()
        self.probing = Probing(settings.probe, self.engine, self.pull, self.jobs.jobs)
        self._kubernetes = KubernetesFeed(settings.kubernetes) if settings.kubernetes.enabled else None
        self.discovery = self._open_discovery()

    def _open_discovery(self) -> TargetDiscovery:
        """Discovery over the configured sources, starting with their targets from before a restart."""
        settings = self._prepared.settings
        dns = [DnsSource(each) for each in settings.dns]
        sources: list[TargetSource] = [*map(TargetFile, settings.target_files), *dns]
        followers = [self._kubernetes] if self._kubernetes is not None else []
        discovery = TargetDiscovery(
            self._prepared.targets, sources, settings.pull.max_targets, self.pull.follow, self._source_failed, followers
        )
        for name, state in discovery.states.items():
            state.targets = self.seen_nodes.targets(name)
        for source in dns:
            source.expect(target.address for target in discovery.states[source.name].targets)
        for follower in followers:
            follower.expect(discovery.states[follower.name].targets)
        return discovery

    def _register_metrics(self) -> None:
        """Metrics computed at the scrape from the current parts; a reload replaces some of them."""
        computed: tuple[Callable[[], Iterable[Family]], ...] = (
            lambda: metrics.incidents(self.evaluator),
            lambda: metrics.nodes(self.evaluator),
            lambda: metrics.fabric(self.evaluator),
            lambda: metrics.streams(self.pull),
            lambda: metrics.targets(self.pull, self.discovery),
            lambda: metrics.jobs(self.jobs, self.evaluator.now()),
            self.probing.families,
            lambda: metrics.evaluation(self.evaluator, self._clock),
            lambda: metrics.delivery(self.evaluator),
            lambda: metrics.recording(self._tape) if self._tape is not None else (),
            lambda: acting_families(self.actors),
            lambda: about(self._prepared.settings.fabric, self._prepared.settings.external_url),
            self.gate.families,
        )
        for families in computed:
            self._registry.register(ComputedFamilies(families))

    def _close(self) -> None:
        """Close recording, store and reserve."""
        if self._recorded is not None:
            self._recorded.end(self._clock.now())
        if self._tape is not None:
            self._tape.close()
        self.store.close()
        self._descriptors.close()

    # ---------------------------------------------------------------- serving

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be bound."""
        web = self._web()
        asyncio.get_running_loop().set_exception_handler(self._descriptors.refused)
        self.gate.guard(web.app)
        try:
            listener = await listen(web.app, self._prepared.settings.listen, door=self.gate.door)
        except BaseException:
            self._close()
            raise
        self.addresses = listener.addresses
        self._log.info("server listening", version=__version__, addresses=", ".join(map(str, self.addresses)))
        settle()
        try:
            async with asyncio.TaskGroup() as group:
                self._start_tasks(group)
                self.discovery.start()
                self.listening.set()
        finally:
            self._notify.stopping("stopping")
            self.discovery.stop()
            await listener.close()
            self._close()

    def _web(self) -> HttpApplication:
        return HttpApplication(
            self.evaluator,
            self.warnings,
            self._registry,
            self._not_live,
            self._not_ready,
            self.jobs.jobs,
            lambda: self._prepared.settings.as_links(),
            self.gate.access,
            self.history,
            targets_handler(
                self.pull.register.peers.values, lambda peer: self.agent_links.encrypts(peer.target.scheme)
            ),
            doctor_handler(
                self.evaluator, lambda: self._prepared.targets, lambda: self.discovery, self.jobs, self._clock,
                self._prepared.settings.state, lambda: self._prepared.settings.tick, self.warnings,
            ),
        )  # fmt: skip

    def _start_tasks(self, group: asyncio.TaskGroup) -> None:
        tasks = {
            "tick": self._tick(),
            "outbox": self.outbox.run(),
            "actors": self.actors.run(),
            "pull": self.pull.run(),
            "probing": self.probing.run(),
            "gate": self.gate.run(),
            "link": self.agent_links.run(),
            "jobs": self.jobs.run(),
            "history": self.history.run(),
            "remember": self._remember_nodes(),
            "placement": self._follow_placement(),
            "state disk": self.store.watch(),
            "descriptors": self._descriptors.watch(),
        }
        if self.rule_evaluator is not None:
            tasks["rule evaluator"] = self.rule_evaluator.run()
        if self._notify.watchdog:
            tasks["watchdog"] = self._watchdog(self._notify.watchdog)
        for name, task in tasks.items():
            group.create_task(task, name=name)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                least = await self.evaluator.tick()
            except Exception as error:  # `_not_live` reports it where it lasts
                least = TICK_RETRY
                why = f"{type(error).__name__}: {error}"
                self._transitions.note("tick", why, "evaluation failed and is tried again", bad=True, error=why)
            if self.evaluator.ticks.count == 1:
                self._notify.ready(self._sentence())
            due = max(due + max(self._prepared.settings.tick, least), loop.time())
            await asyncio.sleep(due - loop.time())

    async def _watchdog(self, period: float) -> None:
        """Notify systemd while the fleet is evaluated."""
        while True:
            if self._not_live() is None:
                self._notify.alive()
                self._notify.status(self._sentence())
            await asyncio.sleep(period)

    # ---------------------------------------------------------------- known nodes and their location

    async def _remember_nodes(self) -> None:
        """Save known nodes in the store; waits for a disk that hangs."""
        while True:
            await asyncio.sleep(SAVE_PERIOD)
            await self._save_nodes(self._clock.now())

    async def _follow_placement(self) -> None:
        """Follow the number of nodes, and their location in the topology."""
        garbage = GarbageGrowth()
        while True:
            await asyncio.sleep(SAVE_PERIOD)
            garbage.nodes(sum(peer.begun for peer in self.pull.register.peers.values()))
            await self._update_topology(self._clock.now())

    async def _save_nodes(self, now: float) -> None:
        try:
            await self.seen_nodes.save(self.pull.register.peers.values(), now)
            self._transitions.note("memory", "saved", "known nodes are saved again", bad=False)
        except StoreError as error:
            self._transitions.note("memory", "failing", "known nodes cannot be saved", bad=True, error=str(error))

    async def _update_topology(self, now: float) -> None:
        places, plan = self._placement(self._prepared.config), await self._newest_plan()
        if places != self._places or plan is not self._prepared.plan:
            self._places, self._prepared = places, self._prepared._replace(plan=plan)
            self.engine.reconfigure(self._prepared.config.rules, with_places(plan.graph, places), now)

    async def _newest_plan(self) -> TopologyPlan:
        """The plan with the current labels of the Kubernetes nodes; the same object where nothing changed."""
        plan = self._prepared.plan
        nodes = self._kubernetes.placement() if self._kubernetes is not None else None
        if nodes is plan.nodes:
            return plan
        reader = Reader("plan")
        try:
            merged = await reader.call(partial(plan.with_nodes, nodes), RELOAD_LIMIT)
        except Overdue:
            return plan
        finally:
            reader.close()
        return merged if self._prepared.plan is plan else self._prepared.plan  # a reload happened meanwhile

    def _placement(self, config: Root) -> dict[str, dict[str, str]]:
        """Labels of each node's location: from its target, overridden by the configuration."""
        places = self.seen_nodes.places()
        for host, power in config.topology.power.items():
            places.setdefault(host, {})["power"] = power
        return places

    # ---------------------------------------------------------------- reload

    async def reload(self) -> None:
        """Apply the configuration as it is now: rules, topology, targets, receivers. An invalid one changes nothing."""
        self._notify.reloading(time.monotonic_ns() // 1000)
        self._reloads.begun()
        reader = Reader("reload")
        try:
            # In a thread: a large topology takes seconds, a file on a dead mount blocks forever.
            await self._apply(*await reader.call(self._read_again, RELOAD_LIMIT))
        except (ConfigError, Overdue) as error:
            self._refuse(str(error))
        except ParamsError as error:
            self._refuse(f"rules: {error}")
        except Exception as error:  # a reload that fails costs itself
            self._refuse(f"{type(error).__name__}: {error}")
        else:
            self._log.info("configuration reloaded")
        finally:
            reader.close()
        self._notify.ready(self._sentence())

    def _read_again(self) -> tuple[Prepared, Watched[Loaded], Watched[Presented]]:
        """The configuration and the files it names, in the reader thread. ConfigError for an invalid one."""
        config = self._reread() if self._reread else self._prepared.config
        prepared = prepare(config, self._prepared.plan.nodes)
        settings = prepared.settings
        security = self.gate.prepare(settings.web, settings.token_file)
        return prepared, security, self.agent_links.prepare(settings.agents)

    def _refuse(self, problems: str) -> None:
        self._reloads.refused()
        self._reload_error = problems
        self._log.error("configuration rejected; the previous one stays in use", problems=problems)

    async def _apply(self, prepared: Prepared, security: Watched[Loaded], presented: Watched[Presented]) -> None:
        """Apply a configuration part by part. The engine is first: where it rejects the parameters of the rules,
        nothing is changed."""
        self._apply_rules(prepared)
        self._warn_of_restart(prepared)
        self._accept(prepared)
        self._apply_outputs()
        self._apply_inputs()
        self._restart_discovery()
        settings = prepared.settings
        self.gate.adopt(security, settings.web, settings.external_url)
        self.agent_links.adopt(presented, settings.agents)
        await self.jobs.configure(settings.jobs)

    def _apply_rules(self, prepared: Prepared) -> None:
        places = self._placement(prepared.config)
        graph = with_places(prepared.plan.graph, places)
        self.engine.reconfigure(prepared.config.rules, graph, self._clock.now())
        self._places = places

    def _warn_of_restart(self, prepared: Prepared) -> None:
        for name in AT_START:
            if getattr(prepared.settings, name) != getattr(self._prepared.settings, name):
                self._log.warning("setting takes effect after a restart", setting=f"central.{name}")

    def _accept(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._reloads.accepted(time.time())
        self._reload_error = ""
        log = prepared.config.log
        logs.configure(log.format, log.level)

    def _apply_outputs(self) -> None:
        config, destinations = self._prepared.config, self._prepared.destinations
        self.evaluator.receivers = [d.receiver for d in destinations]
        self.outbox.configure(destinations, config.notify)
        self.actors.configure(configured_actors(config))
        self.evaluator.replan()

    def _apply_inputs(self) -> None:
        settings = self._prepared.settings
        self.pull.configure(settings.pull)
        self.probing.configure(settings.probe)
        if self.rule_evaluator is not None and settings.source != "agents":
            self.rule_evaluator.configure(settings.prometheus)
        if self._kubernetes is None or self._kubernetes.config != settings.kubernetes:
            self._kubernetes = KubernetesFeed(settings.kubernetes) if settings.kubernetes.enabled else None

    def _restart_discovery(self) -> None:
        """Restart discovery; sources that remain keep their targets."""
        states = self.discovery.states
        self.discovery.stop()
        self.discovery = self._open_discovery()
        self.discovery.states.update((name, s) for name, s in states.items() if name in self.discovery.states)
        self.discovery.start()

    # ---------------------------------------------------------------- answers

    def _sentence(self) -> str:
        """One line for the service manager: state of the fabric, then problems of the server."""
        return "; ".join([sentence(self.evaluator.current().overview), *self.warnings()])

    def warnings(self) -> list[str]:
        """Problems of the server, one sentence each."""
        found = [
            ("State database was damaged and replaced by an empty one", self.store.damage),
            ("State cannot be saved, no new notifications are sent", self.evaluator.store_error),
            (
                "Recording cannot be written and has a gap",
                self._tape.status.error if self._tape is not None else "",
            ),
            ("Configuration was rejected, the previous one is in use", self._reload_error),
        ]
        return [
            *(f"{what}: {error}" for what, error in found if error),
            *(self.rule_evaluator.warnings() if self.rule_evaluator is not None else ()),
            *self.discovery.warnings(),
            *self.jobs.warnings(),
            *self.actors.warnings(),
            *self.gate.warnings(),
            *self.agent_links.warnings(),
            *self.pull.warnings(),
            *self._descriptors.warnings(),
            *self.evaluator.warnings(),
        ]

    def _source_failed(self, name: str, error: str) -> None:
        if error:
            self._log.warning("targets cannot be read; the previous ones stay in use", source=name, error=error)
        else:
            self._log.info("targets can be read again", source=name)

    def _not_ready(self) -> str | None:
        if not self.evaluator.ticks.count:
            return "no evaluation yet"
        return f"state cannot be saved: {self.evaluator.store_error}" if self.evaluator.store_error else None

    def _not_live(self) -> str | None:
        ticks = self.evaluator.ticks
        if ticks.count and self._clock.now() - ticks.at > STALLED:
            return f"no evaluation for {STALLED:g} s"
        return None

    def stopping(self) -> None:
        self._log.info("server stopping")


async def run(config: Root, reread: Reread | None = None) -> None:
    """Run a central server until SIGTERM or SIGINT; SIGHUP reloads the configuration.

    Raises ConfigError or StoreError before anything was started, OSError when an address cannot be bound.
    """
    await serve(Central(config, reread), STOP_LIMIT)
