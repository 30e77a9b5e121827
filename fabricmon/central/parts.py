"""Assembly of the central server: its parts, in the order of their construction."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from fabricmon.central.delivery.acting import Actors, configured_actors
from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.documents.overview import sentence
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.jobs.feed import JobFeed
from fabricmon.central.metrics import page as metrics
from fabricmon.central.metrics.acting import families as acting_families
from fabricmon.central.metrics.fabric import about
from fabricmon.central.prepared import prepare, rules_refused
from fabricmon.central.probing.probing import Probing
from fabricmon.central.prometheus.source import PrometheusSource
from fabricmon.central.store.records import StoredState
from fabricmon.central.store.store import Store
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.seen_nodes import SeenNodes
from fabricmon.central.targets.discovery import DnsSource, TargetDiscovery, TargetFile, TargetSource
from fabricmon.central.targets.kubernetes_feed import KubernetesFeed
from fabricmon.central.topology_plan import with_places
from fabricmon.central.website.history import History
from fabricmon.config import Root
from fabricmon.engine.engine import Engine
from fabricmon.engine.symptoms.rule_states import ParamsError
from fabricmon.notify.pacing import Pacing
from fabricmon.recording.tape import Tape
from fabricmon.replay.recorded import RecordedEngine
from fabricmon.rules import RULES
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, evaluator_rules
from fabricmon.rules.rule import Scope
from fabricmon.runtime import logs
from fabricmon.runtime.clock import Clock
from fabricmon.runtime.descriptors import DescriptorReserve, raise_limit
from fabricmon.runtime.exposition import ComputedFamilies, Family
from fabricmon.runtime.registry import process_registry
from fabricmon.runtime.sdnotify import Notifier
from fabricmon.topology.graph import Graph
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.gate import Gate


class CentralParts:
    """The parts of a central server. A reload replaces some of them."""

    def __init__(self, config: Root) -> None:
        """Raises ConfigError and StoreError."""
        self.prepared = prepare(config)
        self.log = logs.get(part="server")
        self.transitions = logs.Transitions(self.log)
        self.clock, self.notify = Clock(), Notifier()
        self.registry = process_registry("central")
        self.reload_error = ""
        settings = self.prepared.settings
        self.gate = Gate(settings.web, "central", settings.token_file, settings.external_url)
        raise_limit()
        self.descriptors = self.gate.door.reserve = DescriptorReserve()
        self.agent_links = AgentLinks(settings.agents)
        self.store = Store(settings.state)
        state = self.store.load()
        self.seen_nodes = SeenNodes(self.store, state.nodes, self.clock.now())
        self.places = self.placement(config)
        self._open_engine()
        self._open_outputs(state)
        self._open_inputs()
        self._register_metrics()

    def _open_engine(self) -> None:
        """The engine for `central.source` and `central.record`."""
        settings, rules = self.prepared.settings, self.prepared.config.rules
        graph = with_places(self.prepared.plan.graph, self.places)
        self.alerts = EvaluatorAlerts() if settings.source != "agents" else None
        self.tape: Tape | None = None
        self.recorded: RecordedEngine | None = None
        try:
            if self.alerts is not None:
                rules_used = evaluator_rules(RULES, self.alerts, own=settings.source == "both")
                self.engine = Engine(Scope.FLEET, graph, params=rules, fabric=settings.fabric, rules=rules_used)
            elif settings.record.directory:
                self.engine = self.recorded = self._recorded_engine(graph)
            else:
                self.engine = Engine(Scope.FLEET, graph, params=rules, fabric=settings.fabric)
        except ParamsError as error:
            self.close()
            raise rules_refused(self.prepared.config, error) from error
        except OSError:
            self.close()
            raise

    def _recorded_engine(self, graph: Graph | None) -> RecordedEngine:
        """An engine whose inputs are recorded. ParamsError; OSError where the directory cannot be written."""
        settings, run = self.prepared.settings, secrets.token_hex(4)
        rules = self.prepared.config.rules
        self.tape = Tape(settings.record)
        made = RecordedEngine(self.tape, run, self.clock.now(), graph, rules, settings.fabric)
        self.log.info("recording all input", directory=settings.record.directory, run=run)
        return made

    def _open_outputs(self, state: StoredState) -> None:
        """Evaluation, notifications, actions and history."""
        prepared, now = self.prepared, self.clock.now
        pacing = Pacing(state.sent, state.withheld)
        to = (prepared.destinations, prepared.config.notify, state.backlog, self.registry)
        self.outbox = Outbox(self.store, *to, self.descriptors, pacing, now)
        noted = (self.recorded.planned_by,) if self.recorded is not None else ()
        fabric = prepared.settings.fabric
        parts = (fabric, self.engine, self.store, state, self.outbox)
        self.evaluator = Evaluator(*parts, now, *noted, pacing=pacing, registry=self.registry)
        self.evaluator.receivers = [d.receiver for d in prepared.destinations]
        self.evaluator.replan()
        self.actors = Actors(self.store, self.evaluator.standing, configured_actors(prepared.config))
        self.history = History(self.engine, now, self.store, state.days)

    def _open_inputs(self) -> None:
        """Inputs of the engine: agents, jobs, a rule evaluator."""
        settings, now = self.prepared.settings, self.clock.now
        self.jobs = JobFeed(settings.jobs, self.engine, now)
        self.rule_evaluator = None
        if self.alerts is not None:
            self.rule_evaluator = PrometheusSource(settings.prometheus, self.engine, self.alerts, RULES, now)
        self.pull = Pull(settings.pull, self.engine, now, self.agent_links, self.registry, self.descriptors)
        self.pull.known = self.seen_nodes.addresses()
        self.probing = Probing(settings.probe, self.engine, self.pull, self.jobs.jobs)
        self.kubernetes = KubernetesFeed(settings.kubernetes) if settings.kubernetes.enabled else None
        self.discovery = self.open_discovery()

    def open_discovery(self) -> TargetDiscovery:
        """Discovery over the configured sources, starting with their targets from before a restart."""
        settings = self.prepared.settings
        dns = [DnsSource(each) for each in settings.dns]
        sources: list[TargetSource] = [*map(TargetFile, settings.target_files), *dns]
        followers = [self.kubernetes] if self.kubernetes is not None else []
        discovery = TargetDiscovery(
            self.prepared.targets, sources, settings.pull.max_targets, self.pull.follow, self._source_failed, followers
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
            lambda: metrics.evaluation(self.evaluator, self.clock),
            lambda: metrics.delivery(self.evaluator),
            lambda: metrics.recording(self.tape) if self.tape is not None else (),
            lambda: acting_families(self.actors),
            lambda: about(self.prepared.settings.fabric, self.prepared.settings.external_url),
            self.gate.families,
        )
        for families in computed:
            self.registry.register(ComputedFamilies(families))

    def close(self) -> None:
        """Close recording, store and reserve."""
        if self.recorded is not None:
            self.recorded.end(self.clock.now())
        if self.tape is not None:
            self.tape.close()
        self.store.close()
        self.descriptors.close()

    def placement(self, config: Root) -> dict[str, dict[str, str]]:
        """Labels of each node's location: from its target, overridden by the configuration."""
        places = self.seen_nodes.places()
        for host, power in config.topology.power.items():
            places.setdefault(host, {})["power"] = power
        return places

    def sentence(self) -> str:
        """One line for the service manager: state of the fabric, then problems of the server."""
        return "; ".join([sentence(self.evaluator.current().overview), *self.warnings()])

    def warnings(self) -> list[str]:
        """Problems of the server, one sentence each."""
        found = [
            ("State database was damaged and replaced by an empty one", self.store.damage),
            ("State cannot be saved, no new notifications are sent", self.evaluator.store_error),
            (
                "Recording cannot be written and has a gap",
                self.tape.status.error if self.tape is not None else "",
            ),
            ("Configuration was rejected, the previous one is in use", self.reload_error),
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
            *self.descriptors.warnings(),
            *self.evaluator.warnings(),
        ]

    def _source_failed(self, name: str, error: str) -> None:
        if error:
            self.log.warning("targets cannot be read; the previous ones stay in use", source=name, error=error)
        else:
            self.log.info("targets can be read again", source=name)
