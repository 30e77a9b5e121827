"""A simulated hour, recorded twice: what this engine concludes of it, and what a Prometheus would have scraped.

Every STEP seconds all nodes' values go to an engine and, by the agent's own page, into series. So both judge the same
readings taken at the same moments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fabricmon.agent.metrics.hardware import MetricsPage
from fabricmon.engine.engine import Engine
from fabricmon.model import ComponentId
from fabricmon.rules import RULES
from fabricmon.rules.promql import UP
from fabricmon.rules.rule import Scope
from fabricmon.runtime.exposition import Format
from fabricmon.sim.layout import Layout
from fabricmon.sim.machine import SimulatedNode, columns
from fabricmon.sim.script import InjectedFault, Script
from fabricmon.sim.world import World
from tests.sim.frames import FrameInlet

STEP = 15.0
NAME = re.compile(r"fabricmon_\w+")


@dataclass(slots=True)
class Episode:
    """One open symptom: seconds of the recording at which it opened and closed, None while it is open."""

    rule: str
    component: ComponentId
    severity: str
    opened: float
    closed: float | None = None


@dataclass(slots=True)
class Recording:
    """series: as text with all labels -> value at each step, as text, "" where there was none."""

    steps: int = 0
    series: dict[str, list[str]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)

    def put(self, series: str, step: int, value: str) -> None:
        values = self.series.setdefault(series, [])
        values.extend([""] * (step - len(values)))
        values.append(value)

    def inputs(self) -> list[dict[str, str]]:
        """For promtool: a sample that ends is stale, as after a failed scrape."""
        found = []
        for series, values in self.series.items():
            words, before = [], ""
            for value in [*values, *[""] * (self.steps - len(values))]:
                words.append(value or ("stale" if before else "_"))
                before = value
            found.append({"series": series, "values": " ".join(words)})
        return found


def used() -> frozenset[str]:
    """Metrics that some rule's expression names."""
    texts = [UP]
    for rule in RULES:
        said = rule.promql(rule.params())
        texts += [alert.expr for alert in said.alerts] + [recording.expr for recording in said.recordings]
    return frozenset(name for text in texts for name in NAME.findall(text))


def record(
    layout: Layout, faults: Callable[[Layout], Sequence[InjectedFault]], seconds: float, seed: int = 1
) -> Recording:
    """Play faults in a fabric and record."""
    world = World(layout, seed)
    script = Script(faults(layout))
    engine = Engine(Scope.FLEET, layout.graph)
    frames, wanted = FrameInlet(world), used()
    machines = [SimulatedNode(world, host, staggered=False) for host in range(len(layout.hosts))]
    pages: dict[int, MetricsPage] = {}
    found, wall = Recording(int(seconds / STEP) + 1), 1_000_000.0
    open_now: dict[tuple[str, ComponentId], Episode] = {}
    for step in range(found.steps):
        now = step * STEP
        script.play(world, now)
        every = columns(world)
        for host, machine in enumerate(machines):
            silent = bool(world.hosts.silent[host])
            base = f'job="fabricmon",instance="{machine.name}"'
            found.put(f"up{{{base}}}", step, "0" if silent else "1")
            if silent:
                continue
            snapshot = machine.take_snapshot(every, wall + now)
            if host not in pages or pages[host].inventory is not snapshot.inventory:
                pages[host] = MetricsPage(snapshot.inventory)
            newest = float(np.nanmax(snapshot.taken))
            for line in b"".join(pages[host].render(snapshot, newest, Format.TEXT)).decode().splitlines():
                name = line.partition(" ")[0].partition("{")[0]
                if name in wanted:
                    series, _, value = line.rpartition(" ")
                    own = series.partition("{")[2].rstrip("}")
                    found.put(f"{name}{{{base}{',' if own else ''}{own}}}", step, value)
        frames.poll(engine, wall + now)
        for change in engine.tick(wall + now).symptoms:
            key = (change.symptom.rule, change.symptom.component)
            if change.opened and key not in open_now:
                episode = Episode(*key, change.symptom.severity.value, now)
                open_now[key] = episode
                found.episodes.append(episode)
            elif not change.opened and key in open_now:
                open_now.pop(key).closed = now
    return found
