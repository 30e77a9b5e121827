"""An engine whose inputs, in order, and whose changes of each tick are recorded. Pure.

A new segment begins with the state of a restarted server: parameters, topology, open incidents, maintenance windows,
and then, a few nodes a tick so that no tick is long, the state of every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fabricmon import __version__
from fabricmon.engine.engine import Engine
from fabricmon.frame import VERSION as FRAME_VERSION
from fabricmon.frame import Frame
from fabricmon.jobs.model import Jobs
from fabricmon.model import Change, Event, Incident, Inventory, Maintenance, Presence
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence
from fabricmon.replay import records
from fabricmon.replay.records import NotifyPlan, RecordedPresence, RecordMark, Start
from fabricmon.rules.rule import Scope
from fabricmon.topology.graph import Graph

NODES_A_TICK = 50  # whose values are noted after a tick, 40 us each
FRAME = RecordMark.FRAME
FRAME_HEAD = 48  # bytes
INCIDENT = 4096  # bytes that an incident counts for while it waits to be written
BRIEF = 128  # bytes that a short note counts for
JOB = 2048  # bytes that a job counts for
PORT = 512  # bytes that a row of an inventory or a cable of a topology counts for


class Recorder(Protocol):
    """Receiver of the records (`tape.Tape`)."""

    def put(self, mark: RecordMark, now: float, node: str, thing: Any, size: int) -> None: ...

    def begin(self, now: float, start: Start) -> None: ...

    def wants_segment(self) -> bool: ...

    def lost(self) -> int: ...


class RecordedEngine(Engine):
    """An Engine of FLEET scope whose inputs and decisions are recorded.

    INPUTS  the methods that take inputs; each is overridden here
    run     name of this process of the server, in the names of segments: letters and digits
    now     wall time at which the engine begins
    """

    INPUTS = (
        "inventory",
        "frame",
        "heartbeats",
        "event",
        "presence",
        "forget",
        "restore",
        "reconfigure",
        "maintenance",
        "jobs",
        "tick",
    )

    def __init__(
        self,
        recorder: Recorder,
        run: str,
        now: float,
        graph: Graph | None = None,
        params: Mapping[str, Any] | None = None,
        fabric: str = "",
    ) -> None:
        super().__init__(Scope.FLEET, graph, params, fabric)
        self._recorder, self._run, self._first = recorder, run, now
        self._plan_of = NotifyPlan()
        self._recorded_params: Mapping[str, Any] = params or {}
        self._recorded_graph = graph
        self._recorded_windows: tuple[Maintenance, ...] = ()
        self._recorded_jobs: tuple[Jobs, ...] = ()
        self._segments = self._before = self._lost = 0
        self._hand_over = recorder.put
        self._to_repeat: Iterator[str] = iter(())
        self._repeating = False
        self._begin(now)

    def _put(self, mark: RecordMark, now: float, node: str, thing: Any, size: int) -> None:
        self._before += 1
        self._hand_over(mark, now, node, thing, size)

    # --- what comes in

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        rows = sum(len(part.components) for part in inventory.parts)
        self._put(RecordMark.INVENTORY, now, node, inventory, PORT * rows)
        super().inventory(node, inventory, now)

    def frame(self, node: str, frame: Frame, now: float) -> bool:
        self._before += 1  # thousands of times a second: one call less than by _put
        self._hand_over(FRAME, now, node, frame, FRAME_HEAD + 12 * len(frame.values))
        return super().frame(node, frame, now)

    def heartbeats(
        self, nodes: Sequence[str], inventories: NDArray[np.uint32], taken: NDArray[np.float64], at: NDArray[np.float64]
    ) -> None:
        """Recorded as the frames that they are."""
        for node, inventory, times, came in zip(nodes, inventories.tolist(), taken, at.tolist(), strict=True):
            known = self.fleet.nodes.get(node)
            size = known.size if known is not None else 0
            self.frame(node, Frame(inventory, 0, came, times, np.zeros(0, np.uint32), np.zeros(0), size), came)

    def event(self, node: str, event: Event, now: float) -> None:
        self._put(RecordMark.EVENT, now, node, event, BRIEF)
        super().event(node, event, now)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        self._put(RecordMark.PRESENCE, now, node, RecordedPresence(presence, detail), BRIEF)
        super().presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        self._put(RecordMark.FORGET, now, node, None, BRIEF)
        super().forget(node, now)

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        incidents = list(incidents)
        self._put(RecordMark.RESTORE, now, "", incidents, INCIDENT * len(incidents))
        super().restore(incidents, now)

    def reconfigure(self, params: Mapping[str, Any], graph: Graph | None, now: float) -> None:
        super().reconfigure(params, graph, now)  # raises for invalid parameters, and then nothing has changed
        self._recorded_params, self._recorded_graph = params, graph
        self._put_graph(now)
        given = {"params": records.plain_params(params), "graph": graph is not None}
        self._put(RecordMark.RECONFIGURE, now, "", given, BRIEF)

    def maintenance(self, windows: Sequence[Maintenance]) -> None:
        self._recorded_windows = tuple(windows)
        self._put(RecordMark.MAINTENANCE, max(self._now, self._first), "", self._recorded_windows, BRIEF * len(windows))
        super().maintenance(windows)

    def jobs(self, sources: Sequence[Jobs], now: float) -> None:
        self._recorded_jobs = tuple(sources)
        self._put(RecordMark.JOBS, now, "", self._recorded_jobs, JOB * sum(len(source.jobs) for source in sources))
        super().jobs(sources, now)

    def planned_by(self, receivers: Sequence[Receiver], silences: Sequence[Silence], now: float) -> None:
        """Record receivers and silences from now on, by which a replay counts notifications."""
        plan = NotifyPlan(tuple(receivers), tuple(silences))
        if plan != self._plan_of:
            self._plan_of = plan
            self._put(RecordMark.PLAN, now, "", plan, BRIEF * (len(receivers) + len(silences)))

    # --- the tick

    def tick(self, now: float) -> Change:
        if self._recorder.wants_segment():
            self._begin(now)
        change = super().tick(now)
        symptoms, incidents = list(change.symptoms), list(change.incidents)
        self._put(RecordMark.TICK, now, "", Change(symptoms, incidents), 0)
        for symptom in symptoms:
            self._put(RecordMark.SYMPTOM, now, "", symptom, INCIDENT)
        for incident in incidents:
            self._put(RecordMark.INCIDENT, now, "", incident, INCIDENT)
        if self._repeating:
            self._put_nodes(now)
        return change

    def end(self, now: float) -> None:
        """Record that the server stops regularly."""
        self._put(RecordMark.END, now, "", None, 0)

    # --- a new segment

    def _begin(self, now: float) -> None:
        lost = self._recorder.lost()
        start = Start(
            run=self._run,
            index=self._segments,
            before=self._before,
            lost=lost - self._lost,
            fabricmon=__version__,
            frame=FRAME_VERSION,
            fabric=self.fabric,
            params=records.plain_params(self._recorded_params),
            has_graph=self._recorded_graph is not None,
        )
        self._before += 1
        self._recorder.begin(now, start)
        self._lost = lost
        self._put_graph(now)
        first, self._segments = self._segments == 0, self._segments + 1
        if first:
            return
        known = self.situation.incidents(now)
        self._put(RecordMark.KNOWN_INCIDENTS, now, "", known, INCIDENT * len(known))
        self._put(RecordMark.KNOWN_MAINTENANCE, now, "", self._recorded_windows, BRIEF * len(self._recorded_windows))
        jobs = self._recorded_jobs
        self._put(RecordMark.KNOWN_JOBS, now, "", jobs, JOB * sum(len(source.jobs) for source in jobs))
        self._put(RecordMark.PLAN, now, "", self._plan_of, BRIEF)
        self._to_repeat, self._repeating = iter(list(self.fleet.nodes)), True

    def _put_graph(self, now: float) -> None:
        graph = self._recorded_graph
        if graph is not None:
            self._put(RecordMark.GRAPH, now, "", graph, PORT * (len(graph.cables) + len(graph.adapters)))

    def _put_nodes(self, now: float) -> None:
        """Record the state of the next nodes; at the end all names, so that a reader removes other nodes."""
        for _ in range(NODES_A_TICK):
            name = next(self._to_repeat, None)
            if name is None:
                self._repeating = False
                self._put(RecordMark.KNOWN_NODES, now, "", list(self.fleet.nodes), BRIEF * len(self.fleet.nodes))
                return
            node = self.fleet.nodes.get(name)
            if node is None:
                continue
            self._put(RecordMark.KNOWN_PRESENCE, now, name, RecordedPresence(node.presence, node.detail), BRIEF)
            if node.inventory is None:
                continue
            rows = sum(len(part.components) for part in node.inventory.parts)
            self._put(RecordMark.KNOWN_INVENTORY, now, name, node.inventory, PORT * rows)
            frame = self.fleet.newest(name, now)
            if frame is not None:
                self._put(RecordMark.KNOWN_FRAME, now, name, frame, FRAME_HEAD + 8 * len(frame.values))
