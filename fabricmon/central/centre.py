"""What the centre does at each tick: judge, plan what to tell, make both durable together.

An incident's change and the notifications planned from it are one transaction of the store; only then do the outbox
and the API know of them. Where the store fails, what changed is kept and committed later: nothing is told that a
restart would not remember, and nothing that was judged is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fabricmon.central.acknowledgements import Acknowledgements
from fabricmon.central.outbox import Outbox
from fabricmon.central.overview import Overview, overview
from fabricmon.central.silences import Silences
from fabricmon.central.store import State, Store, StoreError
from fabricmon.engine.judges import Judges
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.utilisation import Utilisation
from fabricmon.model import Change, Incident, Maintenance, NodeView, Symptom
from fabricmon.notify import plan
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence
from fabricmon.notify.told import Told
from fabricmon.runtime import logs
from fabricmon.topology.graph import Graph

PLAN_PERIOD = 5.0  # seconds: without a change the plan is made that often, for silences that end and repeats
RETRY = 1.0  # seconds until a failed commit is tried again
LOAD = 5.0  # a tick takes at most one part in that many of the time
MAX_ROUNDS = 50  # plans in a row when more is due than one plan tells


class Engine(Protocol):
    """What the centre asks of the engine (fabricmon.engine.engine.Engine)."""

    fleet: Fleet
    judges: Judges

    def tick(self, now: float) -> Change: ...

    def incidents(self) -> list[Incident]: ...

    def symptoms(self) -> list[Symptom]: ...

    def nodes(self) -> list[NodeView]: ...

    def topology(self) -> Graph | None: ...

    def utilisation(self) -> Utilisation: ...

    def restore(self, incidents: Sequence[Incident], now: float) -> object: ...

    def maintenance(self, windows: list[Maintenance]) -> object: ...

    def counters(self) -> dict[str, float]: ...

    def open_by_rule(self) -> dict[str, int]: ...


@dataclass(slots=True)
class Ticks:
    """How the judging goes: ticks and seconds since the start, the last and the longest one, commits that failed."""

    count: int = 0
    seconds: float = 0.0
    last: float = 0.0
    longest: float = 0.0
    at: float = 0.0
    commit_failures: int = 0


class Centre:
    """The judged state and its durability. All of it is used from the event loop.

    receivers    who is to be told
    store_error  "" or why the last commit failed
    """

    def __init__(
        self,
        fabric: str,
        engine: Engine,
        store: Store,
        state: State,
        outbox: Outbox,
        now: Callable[[], float],
        planned_by: Callable[[Sequence[Receiver], Sequence[Silence], float], None] = lambda *_: None,
    ) -> None:
        """`state` is what the store held: the centre goes on from there. `planned_by` is told of every change of what
        notifications are planned by."""
        self.fabric, self.engine, self.store, self.outbox = fabric, engine, store, outbox
        self.now, self._planned_by = now, planned_by
        self.silences = Silences(store, state)
        self.acknowledgements = Acknowledgements(store, state)
        self.told = Told(state.told)
        self.receivers: Sequence[Receiver] = ()
        self.ticks = Ticks()
        self.store_error = ""
        self._unsaved: dict[str, Incident] = {}
        self._plan_at = 0.0
        self._seen: tuple[float, Overview, list[NodeView], list[Incident]] | None = None
        self._log = logs.get(part="centre")
        self._transitions = logs.Transitions(self._log)
        engine.restore([*state.past, *state.incidents], now())
        engine.maintenance(self.silences.windows(now()))

    def silences_changed(self) -> None:
        """Silences or maintenance windows are others now (and durable)."""
        self.engine.maintenance(self.silences.windows(self.now()))
        self.replan()

    def replan(self) -> None:
        """Receivers or silences changed: plan at the next tick."""
        self._plan_at = 0.0
        self._seen = None
        self._planned_by(self.receivers, self.silences.all(), self.now())

    async def tick(self) -> float:
        """Judge once, commit what changed. Answers the seconds until the next tick is due at the earliest."""
        now = self.now()
        before = time.perf_counter()
        change = self.engine.tick(now)
        took = time.perf_counter() - before
        ticks = self.ticks
        ticks.count, ticks.seconds, ticks.last, ticks.at = ticks.count + 1, ticks.seconds + took, took, now
        ticks.longest = max(took, ticks.longest)
        for incident in change.incidents:
            self._unsaved[incident.id] = incident
            self._say(incident)
        if change.incidents:
            self._seen = None
        if now >= self._plan_at or (change.incidents and not self.store_error):
            await self._settle(now)
        return LOAD * took

    async def _settle(self, now: float) -> None:
        """Plan and commit until nothing more is due; a fault of the store is said once and tried again."""
        try:
            for _ in range(MAX_ROUNDS):
                incidents = self.engine.incidents()
                owed = plan.owed(self.told, incidents, self.receivers)
                if owed:
                    incidents = incidents + await self.store.incidents(owed)
                silences = self.silences.all()
                taken = self.acknowledgements.by_incident
                notes = plan.decide(incidents, self.told, self.receivers, silences, now, self.outbox.full, taken)
                saved = list(self._unsaved.values())
                if not saved and not notes:
                    break
                await self.store.commit(incidents=saved, notifications=notes)
                for incident in saved:
                    if self._unsaved.get(incident.id) is incident:
                        del self._unsaved[incident.id]
                for note in notes:
                    self.told.add(note)
                self.outbox.accept(notes)
                if sum(len(n.incidents) for n in notes) < plan.MAX_TELLINGS:
                    break
        except StoreError as error:
            self.ticks.commit_failures += 1
            self.store_error = str(error)
            self._plan_at = now + RETRY
            said = "state cannot be saved; nothing new is told until it can"
            self._transitions.tell("store", "failing", said, bad=True, error=str(error))
            return
        self.store_error = ""
        self._plan_at = now + PLAN_PERIOD
        self._transitions.tell("store", "working", "state is saved again", bad=False)

    def _say(self, incident: Incident) -> None:
        last = incident.history[-1] if incident.history else None
        self._log.info(
            "incident",
            id=incident.id,
            status=incident.status,
            severity=incident.severity.value,
            kind=incident.kind,
            component=incident.component,
            members=f"{incident.members.bad}/{incident.members.of}",
            change=last.change if last else "",
            title=incident.title,
        )

    # ---------------------------------------------------------------- what pages, API and metrics look at

    def look(self) -> tuple[float, Overview, list[NodeView], list[Incident]]:
        """Wall time, counts, nodes and incidents; made anew at most once a second and after every change."""
        now = self.now()
        if self._seen is None or now - self._seen[0] >= 1.0:
            nodes, incidents = self.engine.nodes(), self.engine.incidents()
            symptoms = sum(self.engine.open_by_rule().values())
            self._seen = (now, overview(self.fabric, nodes, incidents, symptoms, now), nodes, incidents)
        return self._seen
