"""What probes show, per FLOW row and for the PORT row that they go to, turn by turn. Pure, NumPy.

Method: docs/methods.md#probes. A turn is 10 s, as the windows of agents. Of flows that are no probes nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.pooled_losses import LEAST, pooled
from fabricmon.fleet.row_state import Bools, Floats, RowState, per_row
from fabricmon.fleet.table import Table
from fabricmon.model import rows_by_name
from fabricmon.topology.groups import Many

TURN = 10.0
TURNS = 6
"""Turns whose losses are taken together: a minute (design choice)."""
SILENT_TURNS = 2
"""Turns without any answer from which a port is not reached."""
SILENT_PROBES = 10
"""Probes of a turn, all without an answer, from which a port is silent and not lossy: by chance alone they need a loss
of more than half (docs/methods.md#unreachable)."""
BESIDE = 2
"""Turns before and after a silence that may be partly silent: windows of agents do not end together."""
STARTING = 60.0
"""Seconds of an agent's new run in which lost probes towards it show nothing: its peers still ask where it was, and
windows of before are counted (docs/methods.md#unreachable)."""
COUNTED, VOID = "probe_packets", "probe_void_windows"
LEARN = 30
"""Turns after which the usual round trip of a flow is known: 5 min."""
MEMORY = 360.0
"""Turns; time constant of a usual round trip: an hour (design choice)."""


class FlowEnds(NamedTuple):
    """PORT rows that flows go from and to, and the FLOW row of the way back; -1 unknown."""

    near: NDArray[np.intp]
    far: NDArray[np.intp]
    back: NDArray[np.intp]


class Reach(RowState):
    """Per PORT row, of the last SILENT_TURNS turns.

    asked, answered    probes towards it
    flows              that asked it
    sent, returned     its own probes, and those that were answered
    at                 `now` of the last turn in which it was asked, NaN never
    began              `now` of the turn from which on its agent runs; `counted`: all probes of this run
    void               windows that its agent left out in this run, as it was late itself
    """

    asked = per_row(np.float32)
    answered = per_row(np.float32)
    flows = per_row(np.float32)
    sent = per_row(np.float32)
    returned = per_row(np.float32)
    at = per_row(np.float64, np.nan)
    began = per_row(np.float64, np.nan)
    counted = per_row(np.float64, np.nan)
    void = per_row(np.float64, np.nan)

    def late(self, void: Floats) -> Bools:
        """Rows whose agent was late since the last turn, so that it answered late, too. void: windows that it left out
        since it began."""
        n = len(void)
        late = void > self.void[:n]
        self.void[:n] = void
        return np.asarray(late)

    def note_runs(self, counted: Floats, now: float) -> None:
        """counted: probes that the agents have sent since they began; fewer than before: another run."""
        n = len(counted)
        self.began[:n][~(counted >= self.counted[:n])] = now
        self.counted[:n] = counted

    def settled(self, counted: Floats, now: float) -> Bools:
        """Rows whose agent runs for STARTING at least. counted: as above, now."""
        n = len(counted)
        return np.asarray((now - self.began[:n] >= STARTING) & (counted >= self.counted[:n]))


class Probes(RowState):
    """Per FLOW row.

    lost, sent   probes of the last TURNS turns, the newest first
    at           `now` of the last turn with probes, NaN never
    bad, clean   see pooled_losses.PooledLosses
    usual        its own usual round trip, s, NaN unknown; `seen`: turns that it was learned from
    rtts         median round trips of the last three turns, s, the newest first; `apart`: it is between two leaves
    reached      its peer answers other flows
    back         share of the probes of the flow back from its peer that are answered, NaN without one
    """

    lost = per_row(np.float32, 0, TURNS)
    sent = per_row(np.float32, 0, TURNS)
    at = per_row(np.float64, np.nan)
    bad = per_row(np.bool_, False)
    clean = per_row(np.bool_, False)
    usual = per_row(np.float64, np.nan)
    seen = per_row(np.int32)
    rtts = per_row(np.float64, np.nan, 3)
    apart = per_row(np.bool_, False)
    reached = per_row(np.bool_, False)
    back = per_row(np.float32, np.nan)
    _silent = per_row(np.bool_, False, BESIDE + 1)
    _beside = per_row(np.bool_, False, TURNS)
    _falling = per_row(np.bool_, False)
    _sent_at = per_row(np.float64, np.nan)
    _lost_at = per_row(np.float64, np.nan)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.many: Mapping[str, Many] = {}
        self.class_usual = {False: float("nan"), True: float("nan")}
        self._began = float("nan")
        self._ends: tuple[int, FlowEnds] | None = None

    def of_probes(self, n: int) -> Bools:
        """Rows that had probes within the last minute."""
        return np.asarray(self.sent[:, :n].sum(axis=0) > 0)

    def advance(self, flows: Table, ports: Table, reach: Reach, now: float) -> None:
        if "flow_late" not in flows.columns or 0 <= now - self._began < TURN:
            return
        self._began = now
        n = flows.n
        self._count(flows, n, now)
        self._set_reach(flows, ports, reach, n, now)
        counted = self._counted(n)
        lost, sent = (np.where(counted, ring[:, :n], 0.0).astype(float) for ring in (self.lost, self.sent))
        found = pooled(lost, sent.sum(axis=0), self.many)
        self.bad[:n], self.clean[:n] = found.bad, found.clean
        self._learn(flows, n)

    def _count(self, flows: Table, n: int, now: float) -> None:
        lost, sent = flows.value("flow_lost"), flows.value("flow_packets")
        of_probes = np.isfinite(flows.value("flow_late")) & flows.present[:n]
        with np.errstate(invalid="ignore"):
            more, gone = sent - self._sent_at[:n], lost - self._lost_at[:n]
            fit = of_probes & (more >= 0) & (gone >= 0) & (gone <= more)
        for ring, new in ((self.lost, gone), (self.sent, more)):
            ring[1:, :n] = ring[:-1, :n]
            ring[0, :n] = np.where(fit, new, 0.0)
        self._sent_at[:n], self._lost_at[:n] = sent, lost
        self.at[:n][self.sent[0, :n] > 0] = now

    def _counted(self, n: int) -> Bools:
        """Turns whose losses count: a silence is no loss, nor is what an agent that was late did not answer; turns
        beside these are partly so, and whether the newest one is the beginning of a silence shows in the next
        (docs/methods.md#unreachable)."""
        apart = self._beside[:, :n].copy()
        apart[0] |= self._falling[:n]
        return np.asarray(~apart)

    def _set_reach(self, flows: Table, ports: Table, reach: Reach, n: int, now: float) -> None:
        near, far, back = self.ends(flows, ports)
        recent_sent = self.sent[:SILENT_TURNS, :n].sum(axis=0)
        recent_back = recent_sent - self.lost[:SILENT_TURNS, :n].sum(axis=0)
        size = ports.n
        reach.note_runs(ports.value(COUNTED), now)
        for row, sent, returned in ((far, reach.asked, reach.answered), (near, reach.sent, reach.returned)):
            known = row >= 0
            sent[:size] = np.bincount(row[known], recent_sent[known], size)
            returned[:size] = np.bincount(row[known], recent_back[known], size)
        asking = (far >= 0) & (recent_sent > 0)
        reach.flows[:size] = np.bincount(far[asking], minlength=size)
        reach.at[:size][reach.asked[:size] > 0] = now
        for ring in (self._silent, self._beside):
            ring[1:, :n] = ring[:-1, :n]
            ring[0, :n] = False
        self._falling[:n] = self.reached[:n] = False
        late = reach.late(ports.value(VOID))
        if not size:
            return
        self._silent[0, :n] = (far >= 0) & late[far]
        self._note_silence(near, far, (reach.asked[:size] > 0) & (reach.answered[:size] == 0), n)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.back[:n] = np.where((back >= 0) & (far >= 0), (recent_back / recent_sent)[back], np.nan)

    def _note_silence(self, near: NDArray[np.intp], far: NDArray[np.intp], unreached: Bools, n: int) -> None:
        """Of the newest turn: flows from and to silent ports, those that may be about to be, and peers that others
        reach. unreached: per PORT row, in SILENT_TURNS turns."""
        sent, lost, known = self.sent[0, :n], self.lost[0, :n], far >= 0
        asked, unanswered = (np.bincount(far[known], of[known], len(unreached)) for of in (sent, lost))
        silent = unreached | ((asked >= SILENT_PROBES) & (unanswered == asked))
        none = lost == sent
        self._silent[0, :n] |= none & ((known & silent[far]) | ((near >= 0) & silent[near]))
        self._beside[: BESIDE + 1, :n] |= self._silent[0, :n]
        self._beside[0, :n] |= self._silent[1:, :n].any(axis=0)
        alone = none & (sent >= LEAST)
        perhaps = np.bincount(far[alone & known], minlength=len(unreached)) > 0
        self._falling[:n] = alone | (known & perhaps[far]) | ((near >= 0) & perhaps[near])
        others = known & ((asked - unanswered)[far] > sent - lost)
        self.reached[:n] = others & ~self._silent[:, :n].any(axis=0)

    def ends(self, flows: Table, ports: Table) -> FlowEnds:
        """Of each flow, found anew where rows or labels changed."""
        state = hash((flows.changes, ports.changes))
        if self._ends is None or self._ends[0] != state:
            at = rows_by_name(ports.ids)
            near = [at.get(f"{c.node}/{flows.labels[row].get('port', '')}", -1) for row, c in enumerate(flows.ids)]
            far = [at.get(labels.get("peer", ""), -1) for labels in flows.labels]
            of_pair = {pair: row for row, pair in enumerate(zip(near, far, strict=True))}
            back = [of_pair.get(pair, -1) for pair in zip(far, near, strict=True)]
            self._ends = state, FlowEnds(*(np.array(rows, np.intp) for rows in (near, far, back)))
        return self._ends[1]

    def _learn(self, flows: Table, n: int) -> None:
        """Usual round trips: of each flow slowly, of its class the median of all flows within and between leaves."""
        rtt = flows.value("flow_rtt")
        self.rtts[1:, :n] = self.rtts[:-1, :n]
        self.rtts[0, :n] = np.where(self.sent[0, :n] > 0, rtt, np.nan)
        leaf = self.many.get("leaf")
        if leaf is not None:
            length = np.diff(leaf.start)
            self.apart[: min(n, len(length))] = (length > 1)[:n]
        known = np.isfinite(self.rtts[0, :n])
        first = known & np.isnan(self.usual[:n])
        self.usual[:n][first] = self.rtts[0, :n][first]
        weight = np.maximum(1.0 / np.maximum(self.seen[:n] + 1, 1), 1.0 / MEMORY)
        usual = self.usual[:n]
        with np.errstate(invalid="ignore"):
            # a slow time teaches little: at most its limit, so that it stays visible for long
            step = np.minimum(self.rtts[0, :n], 2 * usual) - usual
        usual[known] += (weight * step)[known]
        self.seen[:n][known] += 1
        for apart in (False, True):
            mine = (self.seen[:n] > 0) & (self.apart[:n] == apart)
            self.class_usual[apart] = float(np.median(usual[mine])) if mine.any() else float("nan")


