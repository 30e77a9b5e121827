"""Runs a scenario: the simulated world, the server's engine with its defaults, and the notifications of one receiver.

Time is simulated, so a run of a day takes as long as its polls and ticks take. Between two polls the engine ticks only
while a symptom is pending, as the server does every second.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
from msgspec import Struct

from fabricmon.engine import Engine
from fabricmon.model import Incident, Notification
from fabricmon.notify.due import owed_resolutions, plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.route import Receiver
from fabricmon.rules.rule import Scope
from fabricmon.sim.scenarios.evaluation import Failure, FoundIncident, Seen, Version, evaluate
from fabricmon.sim.scenarios.scenario import Scenario
from fabricmon.sim.scenarios.stage import START, ScenarioStage

TICKS = 10  # of the engine within one poll while a symptom is pending: every second where nodes are read every 10 s
PLAN_EVERY = 30.0  # seconds between two plans without a change, for repeats
RECEIVER = Receiver("default")


class IncidentSummary(Struct, frozen=True):
    """Last state of an incident of a run. Times are seconds after the scenario's zero; `members` is "32 of 32"."""

    id: str
    kind: str
    component: str
    severity: str
    confidence: float
    members: str
    title: str
    at: float
    ended: float | None


class ScenarioResult(Struct, frozen=True):
    """Result of a scenario with one seed, see RunEvaluation. `seconds` of the run, where the caller measures them."""

    scenario: str
    seed: int
    ok: bool
    required: int
    found: tuple[FoundIncident, ...]
    missed: tuple[Failure, ...]
    late: tuple[Failure, ...]
    wrong: tuple[Failure, ...]
    false: tuple[Failure, ...]
    notified: int
    incidents: tuple[IncidentSummary, ...]
    seconds: float = 0.0


def run(scenario: Scenario, seed: int = 1, progress: Callable[[float], None] = lambda _share: None) -> ScenarioResult:
    """Run a scenario once. The same scenario and seed give the same result.

    progress  called with the share of simulated time that has passed
    ScenarioError for a component that its fabric does not have.
    """
    seen = watch(scenario, seed, progress)
    found = evaluate(scenario.expect, seen)
    return ScenarioResult(
        scenario=scenario.name, seed=seed, ok=found.ok, required=len(scenario.expect.required),
        incidents=_briefs(seen), **msgspec.structs.asdict(found),
    )  # fmt: skip


def watch(scenario: Scenario, seed: int, progress: Callable[[float], None] = lambda _share: None) -> Seen:
    """All results of a run, not evaluated."""
    stage = ScenarioStage(scenario, seed)
    engine = Engine(Scope.FLEET, stage.layout.graph, fabric=scenario.name)
    engine.maintenance(stage.windows())
    log = Log(engine, stage.zero)
    end = stage.zero + scenario.duration
    now = 0.0
    while now <= end:
        stage.poll(engine, now)
        log.tick(now)
        if scenario.expect.rates is not None:
            stage.compare_rates(engine)
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
    """The engine's incidents over time, and the notifications of some receivers, which answer at once."""

    def __init__(self, engine: Engine, zero: float, receivers: tuple[Receiver, ...] = (RECEIVER,)) -> None:
        self.versions: list[Version] = []
        self.notes: list[Notification] = []
        self._engine, self._zero, self._receivers = engine, zero, receivers
        self._sent, self._pacing, self._planned = LastNotifications(), Pacing(), -math.inf
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
        self.versions.append(Version(now - self._zero, incident))

    def _plan(self, wall: float) -> None:
        """Add the notifications that are due, including resolutions of incidents that the engine no longer lists."""
        incidents = self._engine.incidents()
        owed = owed_resolutions(self._sent, incidents, self._receivers, self._pacing)
        incidents += [self._last[id] for id in sorted(owed) if id in self._last]
        plan = plan_notifications(incidents, self._sent, self._receivers, (), wall, pacing=self._pacing)
        self._pacing.withhold(plan.withheld, plan.released)
        for note in plan.notifications:
            self._sent.add(note)
            self._pacing.add(note)
            self._pacing.answered(note, wall)
            self.notes.append(note)

    def finish(self, now: float) -> None:
        """Add the incidents as they are at the end: their texts may have changed."""
        for incident in self._engine.incidents():
            self._note(now, incident)


def _briefs(seen: Seen) -> tuple[IncidentSummary, ...]:
    first: dict[str, float] = {}
    worst: dict[str, Incident] = {}
    ended: dict[str, float | None] = {}
    for version in seen.versions:
        incident = version.incident
        first.setdefault(incident.id, round(version.at, 3))
        known = worst.get(incident.id)
        if known is None or incident.status == "firing" or incident.severity.rank > known.severity.rank:
            worst[incident.id] = incident
        resolved = incident.resolved
        ended[incident.id] = None if resolved is None else round(resolved - seen.zero, 3)
    return tuple(
        IncidentSummary(
            id, i.kind, i.component, i.severity.value, i.confidence, f"{i.members.bad} of {i.members.of}", i.title,
            first[id], ended[id],
        )
        for id, i in worst.items()
    )  # fmt: skip
