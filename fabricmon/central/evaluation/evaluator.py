"""One tick: evaluate, plan notifications, commit both.

Changed incidents and the notifications planned from them are one transaction; only then the outbox gets them. Where the
store fails, changes are kept and committed later: no notification is sent that a restart would forget, and no
evaluation is lost. Where it hangs, evaluation continues beside the commit, and nothing is planned until that commit is
answered: planned twice, it could be sent under two keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram

from fabricmon.central.delivery.acknowledgements import Acknowledgements
from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.delivery.silences import MaintenanceWindows, Silences
from fabricmon.central.documents.overview import Overview, overview
from fabricmon.central.evaluation.probed_pairs import ProbedPairs
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import StoredState
from fabricmon.central.store.store import Store
from fabricmon.engine.engine import Engine
from fabricmon.model import Incident, NodeView, Presence
from fabricmon.notify.due import NotificationPlan, owed_resolutions, plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, SilenceMatches
from fabricmon.runtime import logs
from fabricmon.senders.acting import Standing

PLAN_PERIOD = 5.0  # seconds between plans without a change, for ending silences and reminders
RETRY = 1.0  # seconds until a failed commit is tried again
COMMIT_WAIT = 1.0  # seconds that a tick waits for its commit; then evaluation continues beside it
DURATIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms, seconds. Beyond 0.0125 s (a `pace.USUAL`-th of the default `central.tick`) ticks
without events come more seldom; after 30 s the watchdog takes the server for dead."""
MAX_WARNINGS = 5  # of one kind, on the page
MAX_ROUNDS = 50  # plans in a row when more is due than one plan may send


@dataclass(slots=True)
class Ticks:
    """Evaluations: number and seconds since the start, duration of the last and the longest one."""

    count: int = 0
    seconds: float = 0.0
    last: float = 0.0
    longest: float = 0.0
    at: float = 0.0


class CurrentState(NamedTuple):
    """Data of page, API and metrics, as of `at` (wall)."""

    at: float
    overview: Overview
    nodes: list[NodeView]
    incidents: list[Incident]


class Evaluator:
    """Evaluation with its durable state. Used from the event loop only.

    receivers    of notifications
    """

    def __init__(
        self,
        fabric: str,
        engine: Engine,
        store: Store,
        state: StoredState,
        outbox: Outbox,
        now: Callable[[], float],
        planned_by: Callable[[Sequence[Receiver], Sequence[Silence], float], None] = lambda *_: None,
        *,
        pacing: Pacing | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`state` is the state from before a restart. `planned_by` is called with receivers and silences whenever they
        change. `pacing` is the outbox's."""
        self.fabric, self.engine, self.store, self.outbox = fabric, engine, store, outbox
        self.now, self._planned_by = now, planned_by
        self.silences = Silences(store, state)
        self.maintenance = MaintenanceWindows(store, state)
        self.acknowledgements = Acknowledgements(store, state)
        self.notified = LastNotifications(state.notified)
        self.pacing = pacing or Pacing(state.sent, state.withheld)
        self.receivers: Sequence[Receiver] = ()
        self.ticks = Ticks()
        self.pairs = ProbedPairs(engine)
        self._measure(registry)
        self._commit_error = ""
        self._settling: asyncio.Task[None] | None = None
        self._unsaved: dict[str, Incident] = {}
        self._matches = SilenceMatches()
        self._plan_at = self._placing = 0.0
        self._seen: CurrentState | None = None
        self._log = logs.get(part="server")
        self._transitions = logs.Transitions(self._log)
        engine.restore([*state.past, *state.incidents], now())
        engine.maintenance(self.maintenance.open(now()))

    def _measure(self, registry: CollectorRegistry | None) -> None:
        """Create the metrics that are counted here."""
        self._tick_duration = Histogram(
            "fabricmon_central_tick_duration_seconds", "Duration of one evaluation of the whole fleet",
            unit="seconds", registry=registry, buckets=DURATIONS,
        )  # fmt: skip
        diagnosis_duration = Histogram(
            "fabricmon_central_diagnosis_duration_seconds",
            "Duration of the diagnosis of open symptoms, a part of a tick: once a second and when a symptom changes",
            unit="seconds", registry=registry, buckets=DURATIONS,
        )  # fmt: skip
        self.engine.time_steps(diagnosis_duration.time, self._time_placing)
        self._commit_failures = Counter(
            "fabricmon_central_commit_failures", "Commits to the state directory that failed and were tried again",
            registry=registry,
        )  # fmt: skip

    @contextmanager
    def _time_placing(self) -> Iterator[None]:
        before = time.thread_time()
        try:
            yield
        finally:
            self._placing += time.thread_time() - before

    def silences_changed(self) -> None:
        """Apply changed silences and maintenance windows."""
        self.engine.maintenance(self.maintenance.open(self.now()))
        self.replan()

    def replan(self) -> None:
        """Receivers or silences changed: plan at the next tick."""
        self._plan_at = 0.0
        self._seen = None
        self._planned_by(self.receivers, self.silences.all(), self.now())

    async def tick(self) -> float:
        """Evaluate once and commit what changed. Returns the processor seconds that ticks need, a placing left
        out: it comes when rows change, and has a pause of its own."""
        now, self._placing = self.now(), 0.0
        before, spent = time.perf_counter(), time.thread_time()
        change = self.engine.tick(now)
        work, took = time.thread_time() - spent - self._placing, time.perf_counter() - before
        self._tick_duration.observe(took)
        ticks = self.ticks
        ticks.count, ticks.seconds, ticks.last, ticks.at = ticks.count + 1, ticks.seconds + took, took, now
        ticks.longest = max(took, ticks.longest)
        for incident in change.incidents:
            self._unsaved[incident.id] = incident
            self._log_incident(incident)
        if change.incidents:
            self._seen = None
        if self._settling is None and (now >= self._plan_at or (self._unsaved and not self.store_error)):
            self._settling = asyncio.create_task(self._settle())
            await asyncio.wait({self._settling}, timeout=COMMIT_WAIT)
        self._note_store()
        if self._settling is not None and self._settling.done():
            done, self._settling = self._settling, None
            done.result()
        return work

    @property
    def store_error(self) -> str:
        """"" or why nothing can be saved now."""
        return self.store.trouble or self._commit_error

    def _note_store(self) -> None:
        error = self.store_error
        text = "state cannot be saved; no new notifications until it can" if error else "state is saved again"
        reason = {"error": error} if error else {}
        self._transitions.note("store", "failing" if error else "working", text, bad=bool(error), **reason)

    async def _settle(self) -> None:
        """Plan and commit until nothing is due; an error of the store is retried."""
        now = self.now()
        try:
            for _ in range(MAX_ROUNDS):
                now = self.now()
                plan, saved = await self._plan(now), list(self._unsaved.values())
                if not saved and not any(plan):
                    break
                queued = await self.store.commit(
                    incidents=saved,
                    notifications=plan.notifications,
                    withheld=plan.withheld,
                    released=plan.released,
                )
                for incident in saved:
                    if self._unsaved.get(incident.id) is incident:
                        del self._unsaved[incident.id]
                self._accept(plan, queued)
                if not plan.full:
                    break
        except StoreError as error:
            self._commit_failures.inc()
            self._commit_error = str(error)
            self._plan_at = now + RETRY
            return
        self._commit_error = ""
        self._plan_at = now + PLAN_PERIOD

    def _incidents(self) -> list[Incident]:
        """Those of the engine, and changes that the store has not: it would return them as they were before."""
        listed = self.engine.incidents()
        known = {incident.id for incident in listed}
        return listed + [incident for id, incident in self._unsaved.items() if id not in known]

    async def _plan(self, now: float) -> NotificationPlan:
        incidents = self._incidents()
        owed = owed_resolutions(self.notified, incidents, self.receivers, self.pacing)
        if owed:
            incidents = incidents + await self.store.incidents(owed)
        silences, full, taken = self.silences.all(), self.outbox.full, self.acknowledgements.by_incident
        return plan_notifications(
            incidents, self.notified, self.receivers, silences, now, full, taken, self.pacing, self._matches
        )

    def _accept(self, plan: NotificationPlan, queued: Container[str]) -> None:
        """A plan was committed, its notifications with these keys for the first time."""
        for note in plan.notifications:
            self.notified.add(note)
            self.pacing.add(note)
        self.pacing.withhold(plan.withheld, plan.released)
        self.outbox.accept([note for note in plan.notifications if note.key in queued])

    def _log_incident(self, incident: Incident) -> None:
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

    # ---------------------------------------------------------------- data of page, API and metrics

    def current(self) -> CurrentState:
        """Wall time, counts, nodes and incidents; cached for a second, or until a change."""
        now = self.now()
        if self._seen is None or now - self._seen.at >= 1.0:
            nodes, incidents = self.engine.nodes(), self.engine.incidents()
            symptoms = sum(self.engine.open_by_rule().values())
            self._seen = CurrentState(now, overview(self.fabric, nodes, incidents, symptoms, now), nodes, incidents)
        return self._seen

    def present_incident(self, id: str) -> Incident | None:
        """An incident that fires or was resolved within the hour."""
        return next((i for i in self.current().incidents if i.id == id), None)

    async def incident(self, id: str) -> Incident | None:
        """An incident by its id, also one of the last 30 days."""
        return self.present_incident(id) or next(iter(await self.store.incidents([id])), None)

    def standing(self) -> Standing | None:
        """Current incidents for the senders that act; None before the first evaluation."""
        if not self.ticks.count:
            return None
        at, _, nodes, incidents = self.current()
        silences = self.silences.active(at)
        silenced = frozenset(i.id for i in incidents if any(s.covers(i) for s in silences))
        return Standing(at, incidents, silenced, nodes)

    def warnings(self) -> list[str]:
        """Duplicate node names, disabled silences and failed steps of the evaluation, one sentence each."""
        cloned = self.current().overview.nodes[Presence.CLONED]
        found = [f"{cloned} duplicate node names: each is used by two agents"] if cloned else []
        disabled = [(s.id, s.disabled) for s in self.silences.open(self.now()) if s.disabled]
        found += [f"Silence {id} is disabled: {why}" for id, why in disabled[:MAX_WARNINGS]]
        failed = list(self.engine.failures().items())[:MAX_WARNINGS]
        return found + [f"Step {step} of the evaluation failed and was skipped: {why}" for step, why in failed]
