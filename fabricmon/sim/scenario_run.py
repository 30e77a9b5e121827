"""Runs a scenario: the simulated world, the centre's engine with its defaults, and the plan of what would be told.

Time is simulated, so a run of a day takes as long as its polls and ticks take. Between two polls the engine ticks as
well while a symptom is turning, as the centre does every second; else at each poll only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from msgspec import Struct

from fabricmon.engine import Engine
from fabricmon.model import Incident, Notification
from fabricmon.notify import plan
from fabricmon.notify.route import Receiver
from fabricmon.notify.told import Told
from fabricmon.rules.rule import Scope
from fabricmon.sim.scenario import Scenario
from fabricmon.sim.scenario_judge import Failure, Found, Judgement, Seen, Version, judge
from fabricmon.sim.scenario_stage import START, Stage

TICKS = 10  # of the engine within one poll while a symptom is turning: every second where nodes are read every 10 s
PLAN_EVERY = 30.0  # seconds after which the plan is looked at without news, for repeats
RECEIVER = Receiver("default")


class Brief(Struct, frozen=True):
    """An incident of a run as it was last. Times are seconds after the scenario's zero; `members` is "32 of 32"."""

    id: str
    kind: str
    component: str
    severity: str
    confidence: float
    members: str
    title: str
    at: float
    ended: float | None


class Result(Struct, frozen=True):
    """What a run of a scenario with one seed gave; see Judgement. `seconds` of real time that it took."""

    scenario: str
    seed: int
    ok: bool
    required: int
    found: tuple[Found, ...]
    missed: tuple[Failure, ...]
    late: tuple[Failure, ...]
    wrong: tuple[Failure, ...]
    false: tuple[Failure, ...]
    told: int
    incidents: tuple[Brief, ...]
    seconds: float


def run(scenario: Scenario, seed: int = 1, progress: Callable[[float], None] = lambda _share: None) -> Result:
    """Run it once. The same scenario and seed give the same result, apart from `seconds`.

    progress  called now and then with the share of simulated time that has passed
    ScenarioError where the scenario cannot be: a place that its fabric has not.
    """
    began = time.perf_counter()
    seen = watch(scenario, seed, progress)
    judgement = judge(scenario.expect, seen)
    return _result(scenario, seed, judgement, seen, time.perf_counter() - began)


def watch(scenario: Scenario, seed: int, progress: Callable[[float], None] = lambda _share: None) -> Seen:
    """Everything that comes of a run, not yet held against anything."""
    stage = Stage(scenario, seed)
    engine = Engine(Scope.FLEET, stage.layout.graph, fabric=scenario.name)
    engine.maintenance(stage.windows())
    log = Log(engine, stage.zero)
    end = stage.zero + scenario.duration
    now = 0.0
    while now <= end:
        stage.poll(engine, now)
        log.tick(now)
        if scenario.expect.rates is not None:
            stage.look_at_rates(engine)
        upto = min(now + scenario.poll, end)
        step = max(1.0, scenario.poll / TICKS if scenario.tick is None else scenario.tick)
        between = now + step
        while between < upto - step / 2 and engine.waiting():
            log.tick(between)
            between += step
        progress(now / max(end, 1.0))
        now += scenario.poll
    log.finish(end)
    return Seen(
        versions=tuple(log.versions),
        notes=tuple(log.notes),
        zero=START + stage.zero,
        first_poll=stage.first_poll,
        begins={h.name: float(h.at) for h in scenario.timeline if h.name},
        rates_off=stage.rates_off,
    )


class Log:
    """What the engine says over time, and what one receiver would be told of it."""

    def __init__(self, engine: Engine, zero: float) -> None:
        self.versions: list[Version] = []
        self.notes: list[Notification] = []
        self._engine, self._zero = engine, zero
        self._told, self._planned = Told(), -math.inf
        self._last: dict[str, Incident] = {}

    def tick(self, now: float) -> None:
        changed = self._engine.tick(START + now).incidents
        for incident in changed:
            self._note(now, incident)
        if changed or now - self._planned >= PLAN_EVERY:
            self._planned = now
            self._plan(START + now)

    def _note(self, now: float, incident: Incident) -> None:
        self._last[incident.id] = incident
        self.versions.append(Version(round(now - self._zero, 3), incident))

    def _plan(self, wall: float) -> None:
        """As the centre does it: an incident that the engine no longer lists is looked up."""
        incidents = self._engine.incidents()
        owed = plan.owed(self._told, incidents, (RECEIVER,))
        incidents += [self._last[id] for id in sorted(owed) if id in self._last]
        for note in plan.decide(incidents, self._told, (RECEIVER,), (), wall):
            self._told.add(note)
            self.notes.append(note)

    def finish(self, now: float) -> None:
        """The incidents as they are at the end: wording may have changed without news."""
        for incident in self._engine.incidents():
            self._note(now, incident)


def _result(scenario: Scenario, seed: int, judgement: Judgement, seen: Seen, seconds: float) -> Result:
    return Result(
        scenario=scenario.name,
        seed=seed,
        ok=judgement.ok,
        required=len(scenario.expect.required),
        found=judgement.found,
        missed=judgement.missed,
        late=judgement.late,
        wrong=judgement.wrong,
        false=judgement.false,
        told=judgement.told,
        incidents=_briefs(seen),
        seconds=round(seconds, 3),
    )


def _briefs(seen: Seen) -> tuple[Brief, ...]:
    first: dict[str, float] = {}
    worst: dict[str, Incident] = {}
    ended: dict[str, float | None] = {}
    for version in seen.versions:
        incident = version.incident
        first.setdefault(incident.id, version.at)
        known = worst.get(incident.id)
        if known is None or incident.status == "firing" or incident.severity.rank > known.severity.rank:
            worst[incident.id] = incident
        resolved = incident.resolved
        ended[incident.id] = None if resolved is None else round(resolved - seen.zero, 3)
    return tuple(
        Brief(
            id, i.kind, i.component, i.severity.value, i.confidence, f"{i.members.bad} of {i.members.of}", i.title,
            first[id], ended[id],
        )
        for id, i in worst.items()
    )  # fmt: skip
