"""The stage of a scenario: its layout, its world with jobs and noise, its faults, its maintenance windows. Pure."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from fabricmon.engine import Engine
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import ComponentId, Kind, Maintenance
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import SHAPES, Layout
from fabricmon.sim.scenarios.scenario import Scenario, ScenarioError, Work
from fabricmon.sim.script import InjectedFault, Script
from fabricmon.sim.traffic import PATTERNS, TrafficJob, place
from fabricmon.sim.world import World
from fabricmon.units import Duration, Rate

START = 1_800_000_000.0
"""Wall time of the first poll."""
_LAYOUT = frozenset(inspect.signature(Layout.from_graph).parameters) - {"graph"}
_GIVEN = {"layout", "start"}  # parameters of a fault that are not in `with`
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?[eE][+-]?\d+")
RATE_FLOOR = 0.05
"""Least share of the line rate that a deviation is relative to."""
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def check(scenario: Scenario) -> None:
    """ScenarioError for unknown names: of shapes, faults, their arguments, patterns, entries."""
    shape = scenario.fabric.shape
    if shape not in SHAPES:
        raise ScenarioError("fabric.shape", _unknown(shape, SHAPES, "shape"))
    sizes = _LAYOUT | set(inspect.signature(SHAPES[shape]).parameters)
    for name, value in scenario.fabric.sizes.items():
        if name not in sizes:
            raise ScenarioError(f"fabric.sizes.{name}", _unknown(name, sizes, f"size of {shape}"))
        if not isinstance(value, int | float | str | bool):
            raise ScenarioError(f"fabric.sizes.{name}", f"expected a number, got {value!r}")
    for at, work in enumerate(scenario.traffic):
        if work.pattern not in PATTERNS:
            raise ScenarioError(f"traffic[{at}].pattern", _unknown(work.pattern, PATTERNS, "pattern"))
        if isinstance(work.hosts, str) and work.hosts != "*" and not _SHARE.fullmatch(work.hosts):
            raise ScenarioError(f"traffic[{at}].hosts", f"expected names, a number or a share, got {work.hosts!r}")
    names: set[str] = set()
    for at, happening in enumerate(scenario.timeline):
        where = f"timeline[{at}]"
        if happening.fault not in FAULTS:
            raise ScenarioError(f"{where}.fault", _unknown(happening.fault, FAULTS, "fault"))
        place_, arguments, musts = _parameters(happening.fault)
        for name in happening.arguments:
            if name not in arguments:
                raise ScenarioError(f"{where}.with.{name}", _unknown(name, arguments, f"argument of {happening.fault}"))
        if place_ in musts and happening.where == "":
            raise ScenarioError(f"{where}.where", f"{happening.fault} needs a component")
        if missing := musts - {place_, *happening.arguments}:
            raise ScenarioError(where, f"{happening.fault} needs 'with: {{{', '.join(sorted(missing))}: ...}}'")
        if not place_ and happening.where != "":
            raise ScenarioError(f"{where}.where", f"{happening.fault} takes no component")
        if happening.name in names:
            raise ScenarioError(f"{where}.name", f"duplicate name {happening.name!r}")
        names |= {happening.name} - {""}
    for at, required in enumerate(scenario.expect.required):
        if required.fault and required.fault not in names:
            text = _unknown(required.fault, names, "name of a timeline entry")
            raise ScenarioError(f"expect.required[{at}].of", text)


def layout_of(scenario: Scenario) -> Layout:
    """The scenario's layout. ScenarioError for invalid sizes."""
    try:
        return Layout.named(scenario.fabric.shape, **scenario.fabric.sizes)
    except (ValueError, TypeError) as error:
        raise ScenarioError("fabric", str(error)) from error


class ScenarioStage:
    """One run of a scenario with one seed.

    zero       the scenario's zero, in seconds after the first poll: anywhere between two polls
    rates_off  the largest share by which a port's measured rate was off the true one so far, and the port; None: no
               rate was compared
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.layout = layout_of(scenario)
        random = np.random.default_rng((seed, 0x5CE7A210))
        self.zero = _grid(scenario.warmup, scenario.poll) + float(random.uniform(0.0, scenario.poll))
        self.rates_off: tuple[float, str] | None = None
        try:
            jobs = self._jobs(scenario.traffic, seed)
            steady = {} if scenario.steady is None else {"steady": scenario.steady}
            self.world = World(
                self.layout, seed, scenario.poll, jobs=jobs, flows=scenario.flows, spray=scenario.spray,
                background=scenario.noise, **steady,
            )  # fmt: skip
        except ValueError as error:
            raise ScenarioError("traffic", str(error)) from error
        self._script = Script([*self._faults()], self.zero)
        self._inlet = BulkInlet(self.world)
        self._running: tuple[Job, ...] = ()
        self._rows: dict[ComponentId, int] = {}
        self._before = 0.0, self.world.sent.copy(), np.zeros(self.layout.ports, np.bool_)

    def windows(self) -> list[Maintenance]:
        return [
            Maintenance(
                id=f"window-{number}",
                starts=START + self.zero + window.starts,
                ends=START + self.zero + window.starts + window.lasts,
                hosts=window.hosts,
                components=window.components,
                comment=self.scenario.name,
            )
            for number, window in enumerate(self.scenario.maintenance, 1)
        ]

    def first_poll(self, at: float) -> float:
        """First poll at or after `at`; both in seconds after the zero."""
        return _grid(self.zero + at, self.scenario.poll) - self.zero

    def poll(self, engine: Engine, now: float) -> None:
        """Advance the world to `now` seconds after the first poll, and feed its values into the engine."""
        self._script.play(self.world, now)
        self._inlet.poll(engine, START + now)
        if self.scenario.scheduler:
            running = [job for job in self.world.traffic.jobs if job.running(now)]
            if [job.name for job in running] != [job.id for job in self._running]:
                self._running = tuple(Job(j.name, "", "", j.hosts, started=START + j.starts) for j in running)
            engine.jobs([Jobs("scheduler", START + now, self._running)], START + now)

    def compare_rates(self, engine: Engine) -> None:
        """Compare the engine's rates of the last poll with the true ones, of links that were up all the time; a rate
        above the line rate always counts."""
        before, sent, was_up = self._before
        world, now = self.world, self.world.now
        up = world.links.active & world.present & ~world.hosts.silent[self.layout.host_of]
        self._before = now, world.sent.copy(), up
        if now <= before:
            return
        true = (world.sent - sent) / (now - before) / world.links.rate
        table, shares = engine.fleet.tables[Kind.PORT], engine.utilisation().transmit
        for at in np.flatnonzero(np.isfinite(shares)).tolist():
            row = self._row(table.ids[at])
            measured = float(shares[at])
            off = 0.0 if 0.0 <= measured <= 1.0 + RATE_FLOOR else abs(measured)
            if was_up[row] and up[row]:
                off = max(off, abs(measured - true[row]) / max(float(true[row]), RATE_FLOOR))
            if self.rates_off is None or off > self.rates_off[0]:
                self.rates_off = off, str(table.ids[at])

    def _row(self, component: ComponentId) -> int:
        row = self._rows.get(component)
        if row is None:
            row = self._rows[component] = self.layout.port(f"{component.node}/{component.name}")
        return row

    # --- jobs and faults

    def _jobs(self, traffic: Iterable[Work], seed: int) -> list[TrafficJob]:
        works = list(traffic)
        every = self.layout.hosts
        sizes = [_count(work.hosts, len(every)) for work in works]
        placed = iter(place(self.layout, [size for size in sizes if size], seed))
        jobs = []
        for number, (work, size) in enumerate(zip(works, sizes, strict=True)):
            hosts = next(placed) if size else _matching(work.hosts, every)
            if not hosts:
                raise ScenarioError(f"traffic[{number}].hosts", f"no host matches {work.hosts}")
            jobs.append(
                TrafficJob(
                    work.name or f"job-{number}",
                    hosts,
                    work.pattern,
                    0.0 if work.at is None else self.zero + work.at,
                    math.inf if work.until is None else self.zero + work.until,
                    work.scale,
                    work.checkpoint_every,
                    work.checkpoint_lasts,
                    work.peers,
                )
            )
        return jobs

    def _faults(self) -> Iterable[InjectedFault]:
        for at, happening in enumerate(self.scenario.timeline):
            given = {name: _value(value) for name, value in happening.arguments.items()}
            place_, _, _ = _parameters(happening.fault)
            where = [happening.where] if place_ and happening.where != "" else []
            try:
                yield FAULTS[happening.fault](self.layout, *where, start=float(happening.at), **given)
            except (ValueError, TypeError) as error:
                raise ScenarioError(f"timeline[{at}]", f"{happening.fault}: {error}") from error


def _parameters(fault: str) -> tuple[str, set[str], set[str]]:
    """Of a fault: the parameter of its component, "" for none; its other arguments; the required ones."""
    parameters = list(inspect.signature(FAULTS[fault]).parameters.values())[1:]
    place_ = "" if parameters[0].name in _GIVEN else parameters[0].name
    others = {p.name for p in parameters} - _GIVEN - {place_}
    return place_, others, {p.name for p in parameters if p.default is inspect.Parameter.empty}


def _grid(at: float, poll: float) -> float:
    """The first multiple of `poll` that is not before `at`."""
    return math.ceil(at / poll - 1e-9) * poll


def _value(value: Any) -> Any:
    """Quantities of a file as the simulator's functions take them: seconds, bytes per second."""
    if isinstance(value, list):
        return tuple(_value(one) for one in value)
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return float(value)  # in YAML 1.1 1e-15, without a point, is text
        for kind in (Duration, Rate):
            try:
                return float(kind.parse(value))
            except ValueError:
                continue
    return value


def _count(hosts: int | str | tuple[str, ...], of: int) -> int:
    """Number of hosts to choose by the seed; 0 where they are named."""
    if isinstance(hosts, int):
        return hosts
    share = _SHARE.fullmatch(hosts) if isinstance(hosts, str) else None
    return max(1, round(of * float(share[1]) / 100)) if share else 0


def _matching(names: int | str | tuple[str, ...], hosts: Iterable[str]) -> tuple[str, ...]:
    patterns = (names,) if isinstance(names, str) else names if isinstance(names, tuple) else ()
    every = [re.compile(".*".join(map(re.escape, pattern.split("*")))) for pattern in patterns]
    return tuple(host for host in hosts if any(one.fullmatch(host) for one in every))


def _unknown(word: str, known: Iterable[str], what: str) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(word, names, 1, 0.6)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names) or 'none'}"
    return f"unknown {what} {word!r}, {hint}"
