"""Each adapter port against its rail peers: who carries less than they do, window after window. Pure.

Method: detection-methods 2.5. Peers are ports of one rail, make and job (where jobs are known) at work in the
window; idle ports are no peers. Of a window's share of the line rate, and of the share of time a port paused others,

    z = (x - median) / max(1.4826 MAD, 2 % of |median|)

is taken; a window is low at z > 3.5 in the bad direction and a gap above 8 %. Synchronous jobs make all equally slow,
so pausing others counts as much as a low rate. The groups take turns, one fortieth every quarter of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link

if TYPE_CHECKING:
    from fabricmon.fleet.table import Table
    from fabricmon.fleet.tracks import Tracks
    from fabricmon.topology.domains import Domains

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]

EVERY = 10.0  # seconds of one window (detection-methods 2.5)
TURNS = 40  # parts into which the groups are divided: one a tick of the centre
WINDOWS = 12  # windows remembered (2.5: 4/5 of the last 12)
LEAST = 8  # active peers of a group (2.5)
ACTIVE = 0.01
"""Share of the line rate from which a port is at work [D]: keep-alives and monitoring are far below, all jobs above."""
Z = 3.5
GAP = 0.08
MINORITY = 0.1
"""Share of a group that may be low at once [D]: more of them are another job's ports and no stragglers."""
PAUSES = 0.05
"""Share of time paused above the median that is pressure at all: "none" ends here (detection-methods 3.1)."""
FORGOTTEN = 300.0
"""Seconds of idleness after which what was seen belongs to another job [D]."""
ROLES = ("", "unknown", "compute")
"""Roles of ports that carry collectives; storage and management are not synchronous."""

_LAST = np.uint16(2**WINDOWS - 1)
_SET_BITS = np.array([bin(i).count("1") for i in range(2**WINDOWS)], np.int8)


class Peers:
    """Per row.

    low       how many of the last WINDOWS windows at work were low
    seen      how many there were
    share     of the line rate, in the last of them
    median    of its peers then
    pausing   share of time it paused others then, and `usual` the median of its peers
    size      peers at work then, itself included
    judged    `now` of the last of them, NaN before the first
    in_job    its peers are those of its own job
    """

    def __init__(self, capacity: int) -> None:
        self._allocate(capacity)
        self._domains: Domains | None = None
        self._changes = -1
        self._turns: list[tuple[Ints, Ints]] = []
        self._next = 0
        self._began = float("nan")

    def _allocate(self, capacity: int) -> None:
        self.low, self.seen = np.zeros(capacity, np.int8), np.zeros(capacity, np.int8)
        self.share, self.median, self.pausing, self.usual = np.full((4, capacity), np.nan, np.float32)
        self.size = np.zeros(capacity, np.int32)
        self.judged = np.full(capacity, np.nan)
        self.in_job = np.zeros(capacity, np.bool_)
        self._windows = np.zeros(capacity, np.uint16)

    def advance(self, table: Table, tracks: Tracks, now: float) -> None:
        if table.domains is not self._domains:
            self._domains = table.domains
            self._arrange(table, tracks)
        if not self._turns:
            return
        age = now - self._began
        if not 0 <= age < 2 * EVERY:  # the first, a clock that stepped, or a long pause
            self._began, self._next, age = now, 0, 0.0
        while self._next < TURNS and age >= self._next * EVERY / TURNS:
            self._compare(*self._turns[self._next], table, tracks, now)
            self._next += 1
        if self._next == TURNS and age >= EVERY:
            self._began, self._next = self._began + EVERY, 0

    def _arrange(self, table: Table, tracks: Tracks) -> None:
        """Rows in the order of their groups, in TURNS pieces of whole groups: (rows, group number from 0)."""
        self._turns = []
        if table.domains is None:
            return
        facts = tracks.facts
        rail = table.domains.ids["rail"]
        n = min(table.n, len(rail))
        rail = rail[:n].astype(np.int64)
        job = table.domains.ids.get("job")
        task = np.full(n, -1, np.int64) if job is None else job[:n].astype(np.int64)
        self.in_job[:n] = task >= 0
        roles = [facts.role_names[name] for name in ROLES if name in facts.role_names]
        rows = np.flatnonzero((rail >= 0) & np.isin(facts.role[:n], roles) & ~facts.swept[:n])
        if not len(rows):
            return
        key = (rail[rows] * (int(task.max()) + 2) + task[rows] + 1) * facts.makes + facts.make[rows]
        order = np.argsort(key, kind="stable")
        rows, key = rows[order], key[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        large = np.bincount(group) >= LEAST
        for turn in range(TURNS):
            first, last = (int(at * len(starts) / TURNS) for at in (turn, turn + 1))
            mine = (group >= first) & (group < last) & large[group]
            self._turns.append((rows[mine], group[mine] - first))

    def _compare(self, rows: Ints, group: Ints, table: Table, tracks: Tracks, now: float) -> None:
        pressure = tracks.pressure
        with np.errstate(invalid="ignore"):
            share = np.fmax(pressure.traffic.latest[0, rows], pressure.traffic.latest[1, rows]).astype(np.float64)
            at_work = (share >= ACTIVE) & (pressure.traffic.until[rows] >= now) & (tracks.link[rows] == link.UP)
        at_work &= table.present[rows]
        rows, group, share = rows[at_work], group[at_work], share[at_work]
        if not len(rows):
            return
        size = np.bincount(group)
        enough = size[group] >= LEAST
        rows, group, share = rows[enough], group[enough], share[enough]
        if not len(rows):
            return
        pausing = np.nan_to_num(pressure.pausing.latest[0, rows].astype(np.float64))
        usual, spread = _middle(group, share)
        if pausing.max() > PAUSES:
            rests, jitter = _middle(group, pausing)
        else:
            rests = jitter = np.zeros(len(rows))
        slow = (usual - share > Z * np.maximum(spread, 0.02 * usual)) & (share < (1.0 - GAP) * usual)
        slow |= pausing - rests > np.maximum(Z * jitter, PAUSES)
        many = np.bincount(group, slow)[group]
        slow &= many <= np.maximum(1.0, MINORITY * size[group])
        with np.errstate(invalid="ignore"):
            stale = ~(now - self.judged[rows] <= FORGOTTEN)
        before = np.where(stale, np.uint16(0), self._windows[rows])
        after = ((before << np.uint16(1)) | slow.astype(np.uint16)) & _LAST
        self._windows[rows] = after
        self.low[rows] = _SET_BITS[after]
        self.seen[rows] = np.minimum(np.where(stale, 0, self.seen[rows]) + 1, WINDOWS)
        self.share[rows], self.median[rows] = share, usual
        self.pausing[rows], self.usual[rows] = pausing, rests
        self.size[rows] = size[group]
        self.judged[rows] = now

    def resize(self, capacity: int) -> None:
        old = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        self._allocate(capacity)
        for name, value in old.items():
            getattr(self, name)[: len(value)] = value

    def forget(self, rows: Ints) -> None:
        self.low[rows] = self.seen[rows] = 0
        self._windows[rows] = 0
        self.size[rows] = 0
        self.judged[rows] = np.nan


def _middle(group: Ints, value: Floats) -> tuple[Floats, Floats]:
    """Per row the median of its group, and 1.4826 times the median distance from it. `group` ascends."""
    count = np.bincount(group)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    low, high = start + (count - 1) // 2, start + count // 2

    def of(values: Floats) -> Floats:
        # one sort for all groups: shares of time and of the line rate are far below the distance of 4
        ordered = np.sort(4.0 * group + np.minimum(values, 3.0)) - 4.0 * group
        filled = count > 0
        found = np.zeros(len(count))
        found[filled] = (ordered[low[filled]] + ordered[high[filled]]) / 2
        return np.asarray(found[group])

    median = of(value)
    return median, 1.4826 * of(np.abs(value - median))
