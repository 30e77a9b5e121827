"""One tick of the engine: from the tables to symptoms, causes and incidents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.catalogue.technology import link_layer
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.exchanging import ExchangingHosts
from fabricmon.engine.diagnosis.last_diagnosis import LastDiagnosis
from fabricmon.engine.diagnosis.misfiled_losses import with_misfiled
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.row_conditions import (
    COVERING,
    away,
    away_unread,
    cut_off,
    fell_and_back,
    fell_in_windows,
    flows_through,
    of_components,
    port_health,
    set_aside,
    shows_timeouts,
    silent_before,
    vanishing,
    waiting_ports,
    with_answering,
    with_parts,
)
from fabricmon.engine.diagnosis.runs import LastParts
from fabricmon.engine.diagnosis.silence_rate import SilenceRate
from fabricmon.engine.diagnosis.slowed import PastFailures, with_slowed
from fabricmon.engine.diagnosis.symptom_index import TABLES, SymptomIndex, observations_of, rule_states_by_type
from fabricmon.engine.diagnosis.unmapped_maintenance import UnmappedMaintenance, unknown_components
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.verdicts import (
    of_subnet_managers,
    parts_apart,
    parts_together,
    verdicts_of,
    with_dark_hosts,
)
from fabricmon.engine.diagnosis.victims import victims, without
from fabricmon.engine.diagnosis.warm_air import of_warm_air
from fabricmon.engine.diagnosis.witnesses import DeadHosts, answering, witnesses
from fabricmon.engine.domains.groups import Floats, Ints, Mask
from fabricmon.engine.domains.link_ends import link_reads, link_state_read_at
from fabricmon.engine.domains.placing import Placing
from fabricmon.engine.domains.port_health import PortHealth
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.incidents.claim_lookup import ClaimLookup
from fabricmon.engine.incidents.current_readings import CurrentReadings
from fabricmon.engine.incidents.explain import VerdictContext, draft_of, with_victims
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.job_impacts import JobImpacts
from fabricmon.engine.incidents.maintenance import Windows, maintenance_drafts
from fabricmon.engine.incidents.missing_devices import MissingDevices
from fabricmon.engine.incidents.notices import Notices, SilentHosts
from fabricmon.engine.incidents.places import with_places
from fabricmon.engine.incidents.ruled_out import MemberCounts
from fabricmon.engine.incidents.secondary_drafts import SecondaryDrafts
from fabricmon.engine.incidents.settling import LastReads
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import FlowTracks
from fabricmon.fleet.view import Views
from fabricmon.jobs.model import Jobs
from fabricmon.model import Change, ComponentId, Event, Incident, Kind, Maintenance, SymptomChange

DIAGNOSE_EVERY = 1.0  # seconds between two diagnoses while no symptom changed
Timer = Callable[[], AbstractContextManager[object]]
COUNTS = ("ticks", "diagnoses", "symptoms_opened", "symptoms_closed", "incident_changes")


class Evaluation:
    """Runs the steps of each tick.

    maintained  node -> id of the maintenance window that covers it now
    counts      of COUNTS, since the engine was made
    timer, placing_timer  make what is entered for the time of each diagnosis, and of each placing
    """

    def __init__(
        self,
        fabric: str,
        fleet: Fleet,
        rule_states: RuleStates,
        situation: Situation,
        placing: Placing,
        events: Mapping[ComponentId, Event],
    ) -> None:
        self._fleet, self._rule_states, self._situation, self._placing = fleet, rule_states, situation, placing
        self._fabric = fabric or "the fabric"
        self._events, self._failures = events, rule_states.failures
        self._lookup = ClaimLookup(fleet, rule_states, placing)
        self._silence, self._common_causes, self._dead = SilenceRate(), CommonCauses(), DeadHosts()
        self._exchanging, self._past_failures = ExchangingHosts(), PastFailures()
        self._last_diagnosis, self._parts, self._unmapped = LastDiagnosis(), LastParts(), UnmappedMaintenance()
        self._readings = CurrentReadings(rule_states)
        self._notices = Notices(fabric, fleet, self._lookup, self._readings.of)
        self._missing = MissingDevices(fleet, rule_states, self._readings.of)
        self._impacts = JobImpacts(self._lookup)
        self._secondary = SecondaryDrafts(fabric, fleet, rule_states, situation)
        self._windows = Windows()
        self._views = Views(fleet.tables, -np.inf)
        self._diagnosed_at = -np.inf
        self._seen = SilentHosts()
        self._in_windows: Mask | None = None
        self.maintained: dict[str, str] = {}
        self.counts = dict.fromkeys(COUNTS, 0)
        self.timer: Timer = nullcontext
        self.placing_timer: Timer = nullcontext

    def tick(self, now: float) -> Change:
        symptoms = self.evaluate(now)
        incidents: list[Incident] = []
        if symptoms or now - self._diagnosed_at >= DIAGNOSE_EVERY or now < self._diagnosed_at:
            self._diagnosed_at = now
            with self.timer():
                incidents = self._failures.guard("diagnosis", [], self._situate, now)
            self.counts["incident_changes"] += len(incidents)
        return Change(symptoms, incidents)

    def evaluate(self, now: float) -> list[SymptomChange]:
        """The first half of a tick: the symptoms that changed."""
        self.counts["ticks"] += 1
        self._apply_maintenance(now)
        self._fleet.advance(now)
        self._views = Views(self._fleet.tables, now)
        symptoms, moved = self._rule_states.run(self._views)
        for change in symptoms:
            self.counts["symptoms_opened" if change.opened else "symptoms_closed"] += 1
            part = str(change.symptom.component) if not change.opened else ""
            if self._situation.awaits(part) and self._fleet.find(part) in (None, change.symptom.component):
                self._situation.recovered(part)  # and not the other row of that name
        if any(moved.values()):
            self._situation.drop_claims(self._lookup.exists)
            self._last_diagnosis.clear()
            self._common_causes.displace(moved)
            self._unmapped.displace(moved.get(Kind.PORT, ()))
        self._failures.guard("placing", None, self._place, symptoms, moved, now)
        return symptoms

    def _place(self, symptoms: Sequence[SymptomChange], moved: Mapping[Kind, Sequence[int]], now: float) -> None:
        with self.placing_timer():
            placed = self._placing.place(now, moved)
        if placed:
            self._placing.compare_within_jobs(self._impacts.numbered)
        self._placing.learn(symptoms, now)

    def _situate(self, now: float) -> list[Incident]:
        """The second half: causes of the open symptoms, and the incidents that changed.

        A step that raises costs what it would have added: one verdict its incident of this tick, impacts the jobs.
        """
        domains, graph = self._placing.domains, self._placing.graph
        if domains is None:
            return []
        self._readings.begin(self._views)
        self._lookup.reads = reads = link_reads(self._views.of(Kind.PORT))
        ids = {kind: self._fleet.tables[kind].ids for kind in TABLES}
        index = SymptomIndex(domains, rule_states_by_type(self._rule_states.all), ids, reads)
        verdicts, observations, held_up = self._diagnosed(index, self._observed(index, now), now)
        context = self._context(index, observations, now)
        guard = self._failures.guard
        made = [guard("explanation", None, _draft, verdict, context, held_up, index) for verdict in verdicts]
        drafts = [draft for draft in made if draft is not None]
        drafts, held = guard("missing devices", (drafts, frozenset()), self._with_missing, drafts)
        claims = held.union(*(draft.claims for draft in drafts))
        drafts += guard("notices", [], self._notices.drafts, self._rule_states.all, claims, context.covered, self._seen)
        drafts = guard("impact on jobs", drafts, self._impacts.with_impacts, drafts, self._situation.impact, now)
        drafts = guard(
            "secondary", drafts, self._secondary.added_to, drafts, graph, self._numbers(), self._lookup.expected, now
        )
        active = self._windows.active(now)
        drafts += guard("maintenance", [], maintenance_drafts, active, self.maintained, self._rule_states.all)
        drafts = guard("places", drafts, with_places, drafts, self._fleet.tables[Kind.PORT], self._fleet.nodes)
        since = max(self._situation.restored_at, self._fleet.expected_from)
        changed = self._situation.step(
            now, drafts, self._lookup.is_open, lambda part, kind: self._lookup.part_state(part, kind, since, now), since
        )
        return guard("mass alarm", changed, self._secondary.after_step, changed, now)

    def _with_missing(self, drafts: Sequence[IncidentDraft]) -> tuple[list[IncidentDraft], frozenset[SymptomKey]]:
        """The drafts with the devices that their hosts lack by them, and symptoms that restored incidents have."""
        restored = (record.incident for record in self._situation.firing.values() if record.draft is None)
        return self._missing.joined(drafts, restored, self._views.of(Kind.NODE))

    # --- input of the next ticks

    def diagnose_next(self) -> None:
        """Diagnose at the next tick, whether a symptom changes or not."""
        self._diagnosed_at = -np.inf

    def restore(self, incidents: Sequence[Incident], now: float) -> None:
        self._situation.restore(incidents, now)
        self._secondary.restore(incidents, now)

    def maintenance(self, windows: Sequence[Maintenance]) -> None:
        self._windows = Windows(windows)
        self.diagnose_next()

    def jobs(self, sources: Iterable[Jobs]) -> None:
        if self._impacts.set_jobs(sources):
            self.diagnose_next()
            self._placing.compare_within_jobs(self._impacts.numbered)

    # --- steps of a tick

    def _apply_maintenance(self, now: float) -> None:
        maintained = self._windows.hosts(now, self._fleet.nodes)
        if maintained.keys() != self.maintained.keys():
            self._fleet.maintain(maintained.keys())
            self.diagnose_next()
        self.maintained = maintained

    def _observed(self, index: SymptomIndex, now: float) -> Observations:
        aside = {kind: set_aside(self._fleet.tables[kind], now) for kind in TABLES}
        silences = index.rule_states.get(SymptomType.AGENT_SILENT, ())
        aside[Kind.NODE] |= silent_before(self._fleet.tables[Kind.NODE], silences, now)
        named = self._windows.of_components(now)
        flows = [away(index.domains, self._fleet.tables[Kind.NODE], now)[0]]
        flows += [flows_through(index.domains, named[0])] if named is not None else []
        for some in flows:
            if len(some) == len(aside[Kind.FLOW]):
                aside[Kind.FLOW] = aside[Kind.FLOW] | some
        self._in_windows = self._ports_in_windows(index.domains, now)
        if self._in_windows is not None:
            aside[Kind.PORT][: len(self._in_windows)] |= self._in_windows
        claimed, onsets = self._situation.claimed, self._situation.onsets()
        found = observations_of(index, aside, claimed, onsets, self._rule_states.yielded(), now)
        return with_answering(found, self._fleet.tables[Kind.NODE], now)

    def _ports_in_windows(self, domains: RowDomains, now: float) -> Mask | None:
        """PORT rows of the components that windows name, None where none does."""
        if (named := self._windows.of_components(now)) is None:
            return None
        covers, since = named
        return of_components(domains, covers, self._views.of(Kind.PORT), since, self._placing.measured)

    def _diagnosed(
        self, index: SymptomIndex, observations: Observations, now: float
    ) -> tuple[list[FaultVerdict], Observations, dict[tuple[SymptomType, int], Ints]]:
        """The verdicts, their observations, and the congested ports that a culprit explains."""
        unknown = unknown_components(self._windows.named(now), index.domains, COVERING)
        if not any(len(found.rows) for found in observations.values()):
            self._seen = SilentHosts()
            self._common_causes.clear()
            self._unmapped.applied([], unknown, index.domains)
            return [], observations, {}
        self.counts["diagnoses"] += 1
        storms = self._rule_states.by_rule["pfc_storm"].open if "pfc_storm" in self._rule_states.by_rule else ()
        held_up = victims(observations, storms)
        ports_now = self._views.of(Kind.PORT)
        observations = with_parts(index.domains, without(observations, held_up), ports_now, self._parts)
        _, absent = away(index.domains, self._fleet.tables[Kind.NODE], now)
        if self._in_windows is not None:
            absent = np.fmin(absent, cut_off(ports_now, self._in_windows))
        flows_read = _read(self._fleet.tables[Kind.FLOW])
        ports = port_health(index.domains, observations, ports_now, absent, flows_read, self._placing.transit)
        nodes, silent = self._fleet.tables[Kind.NODE], observations.get(SymptomType.AGENT_SILENT)
        gone = away_unread(nodes, now)
        if silent is not None:
            gone = np.concatenate((gone, vanishing(nodes, silent.rows, now)))
        seen = self._dead.with_earlier(witnesses(observations, ports, gone), observations, ports.ratio)
        silence = self._silence.leak(observations, np.empty(0, np.int64) if seen is None else seen.rows, now)
        verdicts = verdicts_of(observations, seen, silence, ports, index, self._last_diagnosis.of)
        verdicts = verdicts if self._placing.measured else with_misfiled(verdicts, index.domains)
        self._seen = self._silent_hosts(index, observations, ports, seen)
        verdicts = of_warm_air(verdicts, index.domains, ports_now)
        witnessed = partial(index.witnessed, restored=self._situation.together)
        verdicts, managers = of_subnet_managers(verdicts, waiting_ports(ports_now), index.domains, self._fabric)
        parts = parts_apart(verdicts)
        verdicts = self._common_causes.joined(parts, observations, index.domains, witnessed, now)
        verdicts = [*parts_together(verdicts), *managers]
        verdicts = self._without_slowed(with_dark_hosts(verdicts, index.domains), index.domains, absent)
        verdicts = self._unmapped.applied(verdicts, unknown, index.domains)
        return verdicts, observations, held_up

    def _without_slowed(
        self, verdicts: Sequence[FaultVerdict], domains: RowDomains, absent: Floats
    ) -> list[FaultVerdict]:
        """The verdicts, without adapters that carry less as ports that they talk to failed."""
        ports = self._views.of(Kind.PORT)
        placed = ports.table.domains
        jobs = placed.ids.get("job") if placed is not None else None
        announced = fell_in_windows(ports, self._in_windows, absent)
        generation = ports.table.generation[: ports.n]
        failed, announced = self._past_failures.update(verdicts, domains, announced, generation)
        return with_slowed(verdicts, domains, jobs, announced, ports.tracks.peers.as_usual[: ports.n], failed)

    def _silent_hosts(
        self, index: SymptomIndex, observations: Observations, ports: PortHealth, seen: Observation | None
    ) -> SilentHosts:
        timeouts = shows_timeouts(self._views.of(Kind.PORT), len(ports.read))
        going_on = self._exchanging.update(observations, ports, timeouts, self._silence.besides)
        up = np.union1d(going_on.up, answering(observations, seen))
        return SilentHosts(*(index.hosts(SymptomType.AGENT_SILENT, rows) for rows in (up, going_on.pending)))

    def _link_layers(self, rows: Iterable[int]) -> frozenset[str]:
        labels = self._fleet.tables[Kind.PORT].labels
        return frozenset(link_layer(labels[row]) for row in rows)

    def _context(self, index: SymptomIndex, observations: Observations, now: float) -> VerdictContext:
        graph = self._placing.graph
        return VerdictContext(
            index=index,
            read=LastReads(
                now=now,
                links=link_state_read_at(self._views.of(Kind.PORT)),
                fell=fell_and_back(self._views.of(Kind.PORT)),
                gpus=now - self._views.of(Kind.GPU).age("gpu_nvlinks"),
                last_frame=self._fleet.last_frame,
            ),
            covered=lambda component, hosts: self._windows.covering(now, component, hosts),
            events=self._events,
            counts=MemberCounts(observations),
            read_now=self._readings.of,
            layers=self._link_layers,
            topology=graph.source if graph is not None else "",
        )

    def _numbers(self) -> dict[str, int]:
        """Number of parts of each sort, by the word of a component."""
        ports, gpus = self._fleet.tables[Kind.PORT].n, self._fleet.tables[Kind.GPU].n
        return {"link": ports, "nic": ports, "gpu": gpus, "pcie": ports + gpus, "host": len(self._fleet.nodes)}


def _read(flows: Table) -> Floats:
    """`now` at which the newest window of the losses of each flow ended, NaN never."""
    return flows.tracks.losses.ended[: flows.n] if isinstance(flows.tracks, FlowTracks) else np.full(flows.n, np.nan)


def _draft(
    verdict: FaultVerdict,
    context: VerdictContext,
    held_up: Mapping[tuple[SymptomType, int], Ints],
    index: SymptomIndex,
) -> IncidentDraft:
    """The draft of one verdict, with its victims."""
    return with_victims(draft_of(verdict, context), verdict, held_up, index)
