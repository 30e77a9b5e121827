"""The engine: from frames to incidents, for one node or for the whole fleet. Pure.

A tick is: fleet (what changed) -> rules and judges (symptoms) -> diagnosis (causes) -> situation (incidents). Frames
land when they come and are judged at the next tick: no arriving frame triggers a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fabricmon.engine.affected import Affected, Sight
from fabricmon.engine.beyond import Beyond
from fabricmon.engine.board import TABLES, Board, by_type, facts_of
from fabricmon.engine.case import Case, Key
from fabricmon.engine.causes import NOTED, SYMPTOM_OF
from fabricmon.engine.diagnose import Facts, Verdict, silence_leak
from fabricmon.engine.explain import Moment, case_of
from fabricmon.engine.inside import DOMAINS as INSIDE
from fabricmon.engine.inside import Inside
from fabricmon.engine.judges import Judges
from fabricmon.engine.learned import Learned
from fabricmon.engine.losses import Ports, unwell
from fabricmon.engine.maintenance import Windows
from fabricmon.engine.notices import Notices, Place, maintenance_case
from fabricmon.engine.picture import Picture
from fabricmon.engine.places import Places, power_of
from fabricmon.engine.reach import Reach
from fabricmon.engine.ruled_out import Counts
from fabricmon.engine.search import Floats, Ints
from fabricmon.engine.situation import Situation
from fabricmon.engine.usual import Usual
from fabricmon.engine.verdicts import verdicts_of
from fabricmon.engine.victims import victims, with_victims, without
from fabricmon.fleet.fleet import PRESENCES, Fleet
from fabricmon.fleet.table import Table
from fabricmon.fleet.utilisation import Utilisation, utilisation
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.jobs.model import Jobs
from fabricmon.model import (
    Change,
    ComponentId,
    Event,
    Incident,
    Inventory,
    Kind,
    Maintenance,
    NodeView,
    Presence,
    Symptom,
    SymptomChange,
)
from fabricmon.rules import RULES
from fabricmon.rules.rule import Rule, Scope
from fabricmon.topology.domains import Assigner
from fabricmon.topology.graph import Graph

DIAGNOSE_EVERY = 1.0  # seconds between two diagnoses while no symptom changed
PLACES_ROWS = 20_000  # rows for which assigning the fault domains anew may cost one second's pause
GRACE = 120.0  # seconds after a boot or driver load in which symptoms do not count (detection-methods 3.3)
SPARE_NAMES = 10_000  # names of links that left the fabric that are kept before all are numbered anew
TRAFFIC_SINCE = 60.0  # seconds before its last frame in which a host had traffic that its peers would miss
EVENTS = 4096  # components of which the newest kernel event is kept for the evidence
COUNTS = ("ticks", "diagnoses", "symptoms_opened", "symptoms_closed", "incident_changes")
APART = ("storage", "management")
"""Roles of ports that carry no traffic between the ranks of jobs."""
ANSWERS = frozenset({Presence.REFUSED, Presence.CLONED, Presence.INCOMPATIBLE})
"""The node's kernel answered: only its agent is silent, so it says nothing of its power or its host."""


class Engine:
    """Everything one centre (Scope.FLEET) or one agent (Scope.NODE) concludes.

    params  rule name -> its parameter struct, or a mapping that becomes one
    fabric  name of the fabric; part of every incident's id, the same at all centres that watch it
    rules   the table of rules; those of FLEET scope are left out in an engine of NODE scope

    Raises ParamsError for parameters that no rule understands.
    """

    def __init__(
        self,
        scope: Scope,
        graph: Graph | None = None,
        params: Mapping[str, Any] | None = None,
        fabric: str = "",
        rules: Sequence[Rule] = RULES,
    ) -> None:
        self.scope = scope
        self.fabric = fabric
        self.fleet = Fleet()
        known = [rule for rule in rules if scope is Scope.FLEET or rule.scope is Scope.NODE]
        self.judges = Judges(known, _of_rules(known, rules, params or {}))
        self.situation = Situation(fabric)
        self._rules = tuple(rules)
        self._picture = Picture(graph if scope is Scope.FLEET else None)
        self._power = power_of(self._picture.graph)
        self._assigner = Assigner(self._picture.graph, self._power)
        self._places: Places | None = None
        self._placed: tuple[int, ...] = ()
        self._inside = Inside()
        self._placed_at = -np.inf
        self._windows = Windows()
        self._maintained: dict[str, str] = {}
        self._notices = Notices(fabric)
        self._reach: Reach | None = None
        self._affected = Affected(Sight(self._speaking, self._host_of, self._role_of, self._reach_now))
        self._usual = Usual()
        self._learned = Learned()
        self._beyond = Beyond(fabric, self.judges, self.situation)
        self._events: dict[ComponentId, Event] = {}
        self._since: dict[str, float] = {}
        self._diagnosed_at = -np.inf
        self._now = 0.0
        self._counts = dict.fromkeys(COUNTS, 0)

    # --- what comes in

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        self.fleet.inventory(node, inventory, now)
        self._since.setdefault(node, now)

    def frame(self, node: str, frame: Frame, now: float) -> bool:
        """False when the frame belongs to another inventory than the one known. ValueError when it does not fit it."""
        return self.fleet.frame(node, frame, now)

    def event(self, node: str, event: Event, now: float) -> None:
        """Something the kernel told: kept as a reading for the evidence; counting is the counters' business."""
        component = ComponentId(event.of, node, event.component)
        self._events.pop(component, None)
        self._events[component] = event
        if len(self._events) > EVENTS:
            del self._events[next(iter(self._events))]

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        known = self.fleet.nodes.get(node)
        if known is None or known.presence is not presence:
            self._since[node] = now
        self.fleet.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        """The node is no longer expected: its symptoms close at the next tick."""
        self.fleet.forget(node)
        self._since.pop(node, None)

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """What was known before a restart. Firing ones stay until their parts were seen healthy."""
        known = list(incidents)
        self.situation.restore(known, now)
        self._beyond.restore(known, now)

    def reconfigure(self, params: Mapping[str, Any], graph: Graph | None, now: float) -> None:
        """Other limits, another topology; what is open stays open and is judged by the new ones from the next tick.

        Raises ParamsError and changes nothing when the parameters cannot be used.
        """
        self.judges.configure(_of_rules([judge.rule for judge in self.judges.all], self._rules, params))
        self._picture = Picture(graph if self.scope is Scope.FLEET else None)
        self._power = power_of(self._picture.graph)
        self._assigner = Assigner(self._picture.graph, self._power)
        self._placed = ()
        self._placed_at = self._diagnosed_at = -np.inf

    def maintenance(self, windows: Sequence[Maintenance]) -> None:
        """The announced windows, all of them; they begin and end by the `now` of ticks."""
        self._windows = Windows(windows)
        self._diagnosed_at = -np.inf

    def jobs(self, sources: Sequence[Jobs], now: float) -> None:
        """What every source of jobs said last, all of them; each call replaces the one before."""
        if self._affected.listen(sources):
            self._diagnosed_at = -np.inf
            self._employ()

    # --- the tick

    def tick(self, now: float) -> Change:
        symptoms = self.judge(now)
        incidents: list[Incident] = []
        if symptoms or now - self._diagnosed_at >= DIAGNOSE_EVERY or now < self._diagnosed_at:
            self._diagnosed_at = now
            incidents = self._situate(now)
            self._counts["incident_changes"] += len(incidents)
        return Change(symptoms, incidents)

    def judge(self, now: float) -> list[SymptomChange]:
        """A tick without the diagnosis: for who asks for symptoms only."""
        self._now = now
        self._counts["ticks"] += 1
        maintained = self._windows.hosts(now, self.fleet.nodes)
        if maintained.keys() != self._maintained.keys():
            self.fleet.maintain(maintained.keys())
            self._diagnosed_at = -np.inf
        self._maintained = maintained
        self.fleet.advance(now)
        symptoms, moved = self.judges.run(self.fleet.tables, now)
        for change in symptoms:
            self._counts["symptoms_opened" if change.opened else "symptoms_closed"] += 1
        self._place(now, moved)
        self._learn(symptoms, now)
        return symptoms

    def _place(self, now: float, moved: bool) -> None:
        """Fault domains anew when rows or labels changed; seldom when there are many rows."""
        ports, nodes, flows = (self.fleet.tables[kind] for kind in (Kind.PORT, Kind.NODE, Kind.FLOW))
        inside = [self.fleet.tables[kind] for kind in INSIDE]
        state = (ports.changes, nodes.changes, flows.changes, *(table.changes for table in inside))
        pause = 1.0 + ports.n / PLACES_ROWS
        if state == self._placed or (not moved and 0.0 <= now - self._placed_at < pause):
            return
        if self.scope is Scope.FLEET and self._picture.look(ports.ids, ports.labels, ports.gone, now):
            self._power = power_of(self._picture.graph)
            self._assigner = Assigner(self._picture.graph, self._power)
        domains = self._assigner.assign(list(zip(ports.ids, ports.labels, strict=True)))
        if len(domains.names["link"]) > 2 * ports.n + SPARE_NAMES:  # mostly names of what has left
            self._assigner = Assigner(self._picture.graph, self._power)
            domains = self._assigner.assign(list(zip(ports.ids, ports.labels, strict=True)))
        if self._inside.crowded():
            self._inside.forget()
        groups = {table.kind: self._inside.groups(table.kind, table.ids, table.labels) for table in inside}
        paths = self._assigner.flows(list(zip(flows.ids, flows.labels, strict=True)), domains)
        self._places = Places(domains, self._power, nodes.ids, groups, self._inside.names, self._apart(), paths)
        self._employ()
        self._places.learn(*self._learned.ids(ports.row, ports.n))
        self._reach = None
        self._placed, self._placed_at = state, now

    def _employ(self) -> None:
        """The fleet's domains, and among them the job of each port's host: stragglers are compared within their job."""
        if self._places is None:
            return
        domains = self._places.domains
        jobs = np.array([*self._affected.numbered(domains.names["host"]), -1], np.int32)
        ids = domains.ids if (jobs < 0).all() else {**domains.ids, "job": jobs[domains.ids["host"]]}
        self.fleet.tables[Kind.PORT].domains = replace(domains, ids=ids)

    def _learn(self, symptoms: Iterable[SymptomChange], now: float) -> None:
        """Groups of ports without a known leaf that go down together."""
        if self._places is None or self.scope is not Scope.FLEET:
            return
        ports, leaf = self.fleet.tables[Kind.PORT], self._places.port.ids["leaf"]
        for change in symptoms:
            if change.opened and change.symptom.kind == "link_down":
                row = ports.row(change.symptom.component)
                if row is not None and row < len(leaf) and leaf[row] < 0:
                    self._learned.tell([(change.symptom.component, change.symptom.since)])
        if self._learned.look(now):
            self._places.learn(*self._learned.ids(ports.row, len(leaf)))

    def _apart(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """PORT rows of other networks than that of the jobs."""
        ports = self.fleet.tables[Kind.PORT]
        facts = View(ports, self._now).tracks.facts
        return np.isin(facts.role[: ports.n], [facts.role_names[r] for r in APART if r in facts.role_names])

    def _situate(self, now: float) -> list[Incident]:
        if self._places is None:
            return []
        types = by_type(self.judges.all)
        board = Board(self._places, types, {kind: self.fleet.tables[kind].ids for kind in TABLES})
        aside = {kind: self._set_aside(kind, now) for kind in TABLES}
        yielded = self.judges.yielded()
        facts = facts_of(board, aside, self.situation.claimed, self.situation.onsets(), yielded)
        verdicts: list[Verdict] = []
        held_up: dict[tuple[str, int], Ints] = {}
        if any(len(found.rows) for found in facts.values()):
            self._counts["diagnoses"] += 1
            storms = self.judges.by_rule["pfc_storm"].open if "pfc_storm" in self.judges.by_rule else ()
            held_up = victims(facts, storms)
            facts = without(facts, held_up)
            verdicts = verdicts_of(facts, self._silence(facts, now), self._ports(facts, now), self._moved(), board)
        moment = Moment(
            now=now,
            board=board,
            read_at=self._read_at(now),
            gpus_read_at=now - View(self.fleet.tables[Kind.GPU], now).age("gpu_nvlinks"),
            last_frame=self._last_frame,
            covered=lambda component, hosts: self._windows.covering(now, component, hosts),
            events=self._events,
            counts=Counts(facts),
            topology=self._picture.graph.source if self._picture.graph is not None else "",
        )
        cases = [with_victims(case_of(verdict, moment), verdict, held_up, board) for verdict in verdicts]
        cases += self._notice_cases(cases)
        cases = self._affected.judged(cases, self.situation.impact, now)
        cases = self._beyond.with_others(cases, self._picture.graph, self._parts(), now) + self._maintenance_cases(now)
        changed = self.situation.step(now, cases, self._is_open, self._healthy)
        return self._beyond.after(changed, len(self.fleet.nodes), now)

    def _parts(self) -> dict[str, int]:
        """How many parts of each sort there are, by the word of a component."""
        ports, gpus = self.fleet.tables[Kind.PORT].n, self.fleet.tables[Kind.GPU].n
        return {"link": ports, "nic": ports, "gpu": gpus, "pcie": ports + gpus, "host": len(self.fleet.nodes)}

    def _ports(self, facts: Mapping[str, Facts], now: float) -> Ports:
        """What losses are judged with."""
        assert self._places is not None
        places, tracks = self._places, View(self.fleet.tables[Kind.PORT], now).tracks
        ratio = np.full(len(places.hosts), np.nan)
        if "EL" in facts:
            ratio[facts["EL"].rows] = tracks.losses.ratio(facts["EL"].rows)
        fell = tracks.downs.last[: len(ratio)]
        return Ports(places.port, unwell(facts, places.port, fell, now), ratio, places.near)

    def _moved(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """NODE rows of which a port carried traffic in the minute before their last frame."""
        assert self._places is not None
        hosts, of_nodes = self._places.port.ids["host"], self._places.of[Kind.NODE].ids["host"]
        moved = View(self.fleet.tables[Kind.PORT], self._now).tracks.moved[: len(hosts)]
        newest = np.full(int(max(hosts.max(initial=-1), of_nodes.max(initial=-1))) + 1, -np.inf)
        known = (hosts >= 0) & np.isfinite(moved)
        np.maximum.at(newest, hosts[known], moved[known])
        last = View(self.fleet.tables[Kind.NODE], self._now).value("last_frame")[: len(of_nodes)]
        with np.errstate(invalid="ignore"):
            return np.asarray((of_nodes >= 0) & (last - newest[of_nodes] <= TRAFFIC_SINCE))

    def _set_aside(self, kind: Kind, now: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Rows under maintenance, or whose node or driver began anew a moment ago."""
        if kind is Kind.NODE:
            return self._nodes_set_aside()
        table = self.fleet.tables[kind]
        with np.errstate(invalid="ignore"):
            return np.asarray(table.quiet[: table.n] | (now - table.begun[: table.n] < GRACE))

    def _nodes_set_aside(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """NODE rows under maintenance, or that answer although their agent is silent."""
        table = self.fleet.tables[Kind.NODE]
        presence = View(table, self._now).value("presence")
        return np.asarray(table.quiet[: table.n] | np.isin(presence, [PRESENCES.index(p) for p in ANSWERS]))

    def _silence(self, facts: Mapping[str, Facts], now: float) -> float:
        """The base rate of silent agents."""
        if "AM" not in facts:
            return silence_leak(np.empty(0, np.int32), np.empty(0, np.bool_))
        silent = np.zeros(len(facts["AM"].known), np.bool_)
        silent[facts["AM"].rows] = True
        known = facts["AM"].known
        usual = self._usual.median(float(silent.sum()) / max(1, int(known.sum())), now)
        return silence_leak(np.where(known, facts["AM"].groups.ids["power"], -1).astype(np.int32), silent, usual)

    def _read_at(self, now: float) -> Floats:
        view = View(self.fleet.tables[Kind.PORT], now)
        return np.asarray(now - np.fmin(view.age("state"), view.age("carrier")))

    def _notice_cases(self, told: Sequence[Case]) -> list[Case]:
        """Notices for what no verdict explains: silent agents, and rules the diagnosis does not reason about."""
        claims = {key for case in told for key in case.claims}
        cases: list[Case] = []
        for judge in self.judges.all:
            if SYMPTOM_OF.get(judge.rule.kind, "AM") not in NOTED:
                continue
            left = [
                held.symptom
                for held in judge.open.values()
                if Key(judge.rule.name, held.symptom.component) not in claims
            ]
            cases += self._notices.cases(
                judge.rule, left, len(self.fleet.nodes), self._detail, self._covers_host, self._swept_link
            )
        return cases

    def _swept_link(self, component: ComponentId) -> Place | None:
        row = self._table_of(Kind.PORT).row(component) if component.kind is Kind.PORT else None
        found = self._places.swept_link(row) if self._places is not None and row is not None else None
        if found is None:
            return None
        title, host = found
        return Place(f"link({title})", title, "", frozenset((host,)) if host else frozenset())

    def _last_frame(self, name: str) -> float:
        node = self.fleet.nodes.get(name)
        return node.last_frame if node is not None else np.nan

    def _detail(self, name: str) -> str:
        """The pull's own words about a node that is not live: "connection refused"."""
        node = self.fleet.nodes.get(name)
        return "" if node is None or node.presence is Presence.LIVE else node.detail

    def _covers_host(self, component: str, hosts: frozenset[str]) -> str:
        return self._windows.covering(self._now, component, hosts)

    def _maintenance_cases(self, now: float) -> list[Case]:
        held: dict[str, int] = {}
        for judge in self.judges.all:
            for open_symptom in judge.open.values():
                window = self._maintained.get(open_symptom.symptom.component.node)
                if window is not None:
                    held[window] = held.get(window, 0) + 1
        return [
            maintenance_case(w, [n for n, id in self._maintained.items() if id == w.id], held.get(w.id, 0))
            for w in self._windows.active(now)
        ]

    def _is_open(self, key: Key) -> bool:
        judge = self.judges.by_rule.get(key.rule)
        row = self._table_of(key.component.kind).row(key.component)
        return judge is not None and row is not None and row in judge.open

    def _speaking(self, key: Key) -> list[Symptom]:
        """The open symptoms that say how a claimed component does: the claim's own, and a link that is down now."""
        row = self._table_of(key.component.kind).row(key.component)
        if row is None:
            return []
        rules = (key.rule, "link_down") if key.component.kind is Kind.PORT and key.rule != "link_down" else (key.rule,)
        judges = [self.judges.by_rule[rule] for rule in rules if rule in self.judges.by_rule]
        return [judge.open[row].symptom for judge in judges if row in judge.open]

    def _host_of(self, key: Key) -> str:
        row = self._table_of(Kind.PORT).row(key.component) if key.component.kind is Kind.PORT else None
        if row is None or self._places is None or row >= len(self._places.hosts):
            return key.component.node
        return self._places.host(row)

    def _role_of(self, key: Key) -> str:
        row = self._table_of(Kind.PORT).row(key.component) if key.component.kind is Kind.PORT else None
        return self._table_of(Kind.PORT).labels[row].get("role", "") if row is not None else ""

    def _reach_now(self) -> Reach | None:
        """Whose traffic passes what, as the rows are placed now; None before they are."""
        if self._reach is None and self._places is not None:
            self._reach = Reach(self._places, self._picture.graph)
        return self._reach

    def _healthy(self, part: str, kind: str) -> bool | None:
        node, _, name = part.partition("/")
        for table in (Kind.PORT, Kind.GPU, Kind.PCIE, Kind.FLOW) if name else (Kind.NODE,):
            row = self._table_of(table).row(ComponentId(table, node, name))
            if row is not None:
                return self.judges.healthy(row, table, kind)
        return None

    def _table_of(self, kind: Kind) -> Table:
        return self.fleet.tables[kind]

    # --- what is asked of it

    def incidents(self) -> list[Incident]:
        """Firing ones and those resolved within an hour, firing and most severe first."""
        return self.situation.incidents(self._now)

    def symptoms(self) -> list[Symptom]:
        """Every open symptom, most severe first, explained or not."""
        return self.judges.symptoms()

    def topology(self) -> Graph | None:
        return self._picture.graph

    def utilisation(self) -> Utilisation:
        """How busy the ports are, as of the last tick."""
        return utilisation(View(self.fleet.tables[Kind.PORT], self._now))

    def waiting(self) -> bool:
        """Whether a symptom is about to open or to close: time alone may bring it about at the next tick."""
        return self.judges.waiting()

    def open_by_rule(self) -> dict[str, int]:
        return self.judges.open_by_rule()

    def counters(self) -> dict[str, float]:
        """The engine's own counts since it was made, for /metrics."""
        failures = float(sum(self.judges.failures.values()))
        return {name: float(count) for name, count in self._counts.items()} | {"rule_failures": failures}

    def nodes(self) -> list[NodeView]:
        """Every known node, by name."""
        symptoms: dict[str, int] = {}
        for symptom in self.judges.symptoms():
            symptoms[symptom.component.node] = symptoms.get(symptom.component.node, 0) + 1
        views: list[NodeView] = []
        for name in sorted(self.fleet.nodes):
            node = self.fleet.nodes[name]
            inventory = node.inventory
            views.append(
                NodeView(
                    node=name,
                    presence=node.presence,
                    detail=node.detail,
                    since=self._since.get(name, node.first_seen),
                    last_frame=None if np.isnan(node.last_frame) else node.last_frame,
                    version=inventory.identity.version if inventory else "",
                    boot_id=inventory.identity.boot_id if inventory else "",
                    ports=len(node.rows.get(Kind.PORT, ())),
                    gpus=len(node.rows.get(Kind.GPU, ())),
                    symptoms=symptoms.get(name, 0),
                    maintenance=self._maintained.get(name, ""),
                )
            )
        return views


def _of_rules(known: Sequence[Rule], every: Sequence[Rule], params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the rules that run here. One configuration serves all engines: those of other scope are ignored."""
    elsewhere = {rule.name for rule in every} - {rule.name for rule in known}
    return {name: value for name, value in params.items() if name not in elsewhere}
