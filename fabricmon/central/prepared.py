"""A configuration with the files it names: read and checked before anything is started or changed."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from fabricmon.central.settings import CentralConfig
from fabricmon.central.targets.discovery import Target, TargetError, parse_target
from fabricmon.central.topology_cache import TopologyCache
from fabricmon.central.topology_plan import TopologyPlan, load_plan
from fabricmon.config import ConfigError, ConfigProblem, Root
from fabricmon.engine.engine import Engine
from fabricmon.engine.symptoms.rule_states import ParamsError
from fabricmon.rules.rule import Scope
from fabricmon.senders import ACTING
from fabricmon.senders.destination import Destination, destination
from fabricmon.topology.graph import Graph
from fabricmon.web.agent_links import load as load_agent_links
from fabricmon.web.loaded import load as load_security


class Prepared(NamedTuple):
    """A configuration, its topology plan, its static targets and its receivers."""

    config: Root
    plan: TopologyPlan
    targets: list[Target]
    destinations: list[Destination]

    @property
    def settings(self) -> CentralConfig:
        """The section `central:`."""
        settings: CentralConfig = self.config.central
        return settings


def prepare(config: Root, nodes: Graph | None = None) -> Prepared:
    """Read what the configuration names; `nodes` is the topology from labels of Kubernetes nodes. ConfigError where it
    cannot be used. A large topology takes seconds."""
    kept = TopologyCache(config.central.state)
    return Prepared(config, load_plan(config, nodes, kept), _targets(config), _destinations(config))


def check(config: Root) -> None:
    """Read everything that a start reads. ConfigError with all problems."""
    settings: CentralConfig = config.central
    problems: list[ConfigProblem] = []
    for read in (
        partial(_check_rules, config),
        partial(_targets, config),
        partial(load_security, settings.web, settings.token_file, "central"),
        partial(load_agent_links, settings.agents),
    ):
        try:
            read()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)


def rules_refused(config: Root, error: ParamsError) -> ConfigError:
    """ConfigError for parameters of rules that the engine rejects."""
    return ConfigError(ConfigProblem(config.path or "command line", 0, "rules", str(error)))


def _check_rules(config: Root) -> None:
    graph = load_plan(config).graph
    try:
        Engine(Scope.FLEET, graph, params=config.rules)
    except ParamsError as error:
        raise rules_refused(config, error) from error


def _targets(config: Root) -> list[Target]:
    problems, found = [], []
    for i, text in enumerate(config.central.targets):
        try:
            found.append(parse_target(text))
        except TargetError as error:
            problems.append(ConfigProblem(config.path or "command line", 0, f"central.targets[{i}]", str(error)))
    if problems:
        raise ConfigError(*problems)
    return found


def _destinations(config: Root) -> list[Destination]:
    links = config.central.as_links()
    notifying = ((name, s) for name, s in config.senders.items() if s.kind not in ACTING)
    return [destination(name, s.kind, s.config, config.notify, links) for name, s in notifying]
