"""A reload of the configuration: read again in a thread, then applied part by part."""

from __future__ import annotations

import time
from collections.abc import Callable

from fabricmon.central.delivery.acting import configured_actors
from fabricmon.central.parts import CentralParts
from fabricmon.central.prepared import Prepared, prepare
from fabricmon.central.targets.kubernetes_feed import KubernetesFeed
from fabricmon.central.topology_plan import with_places
from fabricmon.config import ConfigError, Root
from fabricmon.engine.symptoms.rule_states import ParamsError
from fabricmon.runtime import logs
from fabricmon.runtime.reader import Overdue, Reader
from fabricmon.runtime.reloads import Reloads
from fabricmon.web.agent_links import Presented
from fabricmon.web.loaded import Loaded
from fabricmon.web.watched import Watched

LIMIT = 60.0  # seconds for a reload of configuration and topology
AT_START = ("listen", "state", "fabric", "source", "record")  # settings of `central:` that need a restart

Reread = Callable[[], Root]


class ConfigurationReload:
    """Applies a changed configuration to the parts of a running server."""

    def __init__(self, parts: CentralParts, reread: Reread | None) -> None:
        """`reread` reads the configuration; without it only the files that it names are read again."""
        self._parts, self._reread = parts, reread
        self._reloads = Reloads("fabricmon_central", parts.registry, time.time())

    async def run(self) -> None:
        """Apply the configuration as it is now: rules, topology, targets, receivers. An invalid one changes nothing."""
        self._parts.notify.reloading(time.monotonic_ns() // 1000)
        self._reloads.begun()
        reader = Reader("reload")
        try:
            # In a thread: a large topology takes seconds, a file on a dead mount blocks forever.
            await self._apply(*await reader.call(self._read_again, LIMIT))
        except (ConfigError, Overdue) as error:
            self._refuse(str(error))
        except ParamsError as error:
            self._refuse(f"rules: {error}")
        except Exception as error:  # a reload that fails costs itself
            self._refuse(f"{type(error).__name__}: {error}")
        else:
            self._parts.log.info("configuration reloaded")
        finally:
            reader.close()
        self._parts.notify.ready(self._parts.sentence())

    def _read_again(self) -> tuple[Prepared, Watched[Loaded], Watched[Presented]]:
        """The configuration and the files it names, in the reader thread. ConfigError for an invalid one."""
        config = self._reread() if self._reread else self._parts.prepared.config
        prepared = prepare(config, self._parts.prepared.plan.nodes)
        settings = prepared.settings
        security = self._parts.gate.prepare(settings.web, settings.token_file)
        return prepared, security, self._parts.agent_links.prepare(settings.agents)

    def _refuse(self, problems: str) -> None:
        self._reloads.refused()
        self._parts.reload_error = problems
        self._parts.log.error("configuration rejected; the previous one stays in use", problems=problems)

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
        self._parts.gate.adopt(security, settings.web, settings.external_url)
        self._parts.agent_links.adopt(presented, settings.agents)
        await self._parts.jobs.configure(settings.jobs)

    def _apply_rules(self, prepared: Prepared) -> None:
        places = self._parts.placement(prepared.config)
        graph = with_places(prepared.plan.graph, places)
        self._parts.engine.reconfigure(prepared.config.rules, graph, self._parts.clock.now())
        self._parts.places = places

    def _warn_of_restart(self, prepared: Prepared) -> None:
        for name in AT_START:
            if getattr(prepared.settings, name) != getattr(self._parts.prepared.settings, name):
                self._parts.log.warning("setting takes effect after a restart", setting=f"central.{name}")

    def _accept(self, prepared: Prepared) -> None:
        self._parts.prepared = prepared
        self._reloads.accepted(time.time())
        self._parts.reload_error = ""
        log = prepared.config.log
        logs.configure(log.format, log.level)

    def _apply_outputs(self) -> None:
        config, destinations = self._parts.prepared.config, self._parts.prepared.destinations
        self._parts.evaluator.receivers = [d.receiver for d in destinations]
        self._parts.outbox.configure(destinations, config.notify)
        self._parts.actors.configure(configured_actors(config))
        self._parts.evaluator.replan()

    def _apply_inputs(self) -> None:
        settings = self._parts.prepared.settings
        self._parts.pull.configure(settings.pull)
        self._parts.probing.configure(settings.probe)
        if self._parts.rule_evaluator is not None and settings.source != "agents":
            self._parts.rule_evaluator.configure(settings.prometheus)
        if self._parts.kubernetes is None or self._parts.kubernetes.config != settings.kubernetes:
            self._parts.kubernetes = KubernetesFeed(settings.kubernetes) if settings.kubernetes.enabled else None

    def _restart_discovery(self) -> None:
        """Restart discovery; sources that remain keep their targets."""
        former = self._parts.discovery
        former.stop()
        discovery = self._parts.discovery = self._parts.open_discovery()
        discovery.states.update((name, s) for name, s in former.states.items() if name in discovery.states)
        discovery.start()
