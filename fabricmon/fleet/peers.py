"""Each adapter port against its rail peers: which carry less, window after window. Pure.

Method: docs/methods.md#peer-comparison. Peers are ports of one rail, make and job (where jobs are known) at work in the
window; idle ports are no peers. Of a window's share of the line rate, and of the share of time a port sent PFC pause,

    z = (x - median) / max(1.4826 MAD, 2 % of |median|)

is taken; a window is low at z > 3.5 in the bad direction and a gap above 8 %. The same is done with x / median of the
last minutes divided by what it usually is for the port, as ports that differ among each other hide one that changes,
and with x divided by what the other adapters of the host carry, which hardly depends on the job.
Synchronous jobs make all equally slow, so pausing counts as much as a low rate. The groups take turns, one fortieth
every quarter of a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.facts import Facts
from fabricmon.fleet.link_states import LinkStates
from fabricmon.fleet.peer_groups import adapters_of, middle_of, of_few, of_other_rails
from fabricmon.fleet.pressure import Pressure
from fabricmon.fleet.row_state import Bools, Floats, Numbers, RowState, per_row
from fabricmon.fleet.siblings import Siblings
from fabricmon.fleet.table import Table
from fabricmon.topology.groups import Domains

EVERY = 10.0  # seconds of one window (docs/methods.md#peer-comparison)
TURNS = 40  # parts into which the groups are divided: one a tick
WINDOWS = 12  # windows remembered
LEAST = 8  # active peers of a group
ACTIVE = 0.01
"""Share of the line rate from which a port is at work (design choice): keep-alives and monitoring are far below, all
jobs above."""
Z = 3.5
Z_OWN = 6.0
"""Of an average over WINDOWS windows, which hang together, so that many low ones are no better evidence than one: 1e-9
by the normal distribution, one false port in ten days of 100,000 (docs/methods.md#peer-comparison)."""
GAP = 0.08
GAP_OWN = 0.25
"""Least loss against its own past that counts (design choice): the work of a port changes by less all the time, a link
that loses lanes or a generation by a half."""
LEAST_HOSTS = 24
"""Active peers of which the share of what their hosts carry is known, and ALIKE the most that it may differ by."""
ALIKE = 0.05
"""Of normal noise a port is low by it in at most 3e-5 of such groups' ports (docs/methods.md#peer-comparison)."""
PAUSES = 0.05
"""Share of time paused above the median that is pressure at all: "none" ends here (docs/methods.md#stall-share)."""
FORGOTTEN = 300.0
"""Seconds of idleness after which what was seen belongs to another job (design choice)."""
CHANGED = 0.2
"""Share by which a port carries more or less than usual when the work of its host changed (design choice): it shows
nothing about others then."""
PAUSED = 1.5
"""Windows without work from which on it paused: one of them at least, as windows are EVERY apart but for a tick."""
SWING = 3
"""Windows over which a port that carries less than usual must carry less than its peers, too (design choice): loads go
up and down within half a minute, so that one of three windows may reach what peers carry. Few, as it must end soon."""
USUAL = 360
"""Windows over which the usual share of a port is averaged, an hour: a lasting change of the work is the usual share
after that, while fail-slow episodes last minutes (docs/methods.md#straggler)."""
RECENT = 2.0 / (WINDOWS + 1)
"""Weight of a window in an exponential average that is as long as WINDOWS windows."""
ROLES = ("", "unknown", "compute")
"""Roles of ports that carry collectives; storage and management are not synchronous."""

_LAST = np.uint16(2**WINDOWS - 1)
_SET_BITS = np.array([bin(i).count("1") for i in range(2**WINDOWS)], np.int8)


class Read(NamedTuple):
    """What was read of the ports by a moment."""

    table: Table
    links: LinkStates
    pressure: Pressure
    now: float

    def of_line(self, rows: Numbers) -> Floats:
        """Share of the line rate in the busier direction, NaN unknown."""
        traffic = self.pressure.traffic.latest
        return np.fmax(traffic[0, rows], traffic[1, rows]).astype(np.float64)

    def carried(self, rows: Numbers, unrated: Bools) -> Floats:
        """That share; of rows of which the line rate is not known, of the fastest link's."""
        return np.where(unrated, self.pressure.unrated.latest[0, rows], self.of_line(rows))

    def at_work(self, rows: Numbers, share: Floats) -> Bools:
        """Which send and receive: of a job that stands still others may send to its ports still."""
        traffic = self.pressure.traffic.latest
        one_way = np.fmin(traffic[0, rows], traffic[1, rows]) < ACTIVE
        found = (share >= ACTIVE) & ~one_way & (self.pressure.traffic.until[rows] >= self.now)
        return np.asarray(found & (self.links.link[rows] == link.UP) & self.table.present[rows])


class Peers(RowState):
    """Per row.

    low       how many of the last WINDOWS windows at work were low
    seen      how many there were
    share     of the line rate, in the last of them; where it is not known, of the fastest link's
    median    of its peers then
    own       x / median as it usually is; it counts from WINDOWS windows on
    of_own    x / median over the last WINDOWS windows as a share of that; 1 before
    of_host   x / the least that another adapter of the host carries, divided by the median of that of its peers, over
              the last WINDOWS windows; 1 unknown
    low_on_host  how many of the last WINDOWS windows were low by that; 0 where it has the part of its host's work that
              it had before
    as_usual  `now` of the window before it began to carry less: where the sum of what is missing was nought last
              (docs/methods.md#peer-comparison)
    lone      no other port of its group carries other than usual, by CHANGED
    pausing   share of time it sent PFC pause then, and `usual` the median of its peers
    size      ports at work then, this one included
    evaluated `now` of the last of them, NaN before the first
    adapter   number of its adapter; below -1 of one of its own, as it is not known; -1 not compared
    in_job    its peers are those of its own job
    across    its rail has few ports: its peers are those of all such rails
    """

    low = per_row(np.int8)
    seen = per_row(np.int8)
    share = per_row(np.float32, np.nan)
    median = per_row(np.float32, np.nan)
    pausing = per_row(np.float32, np.nan)
    usual = per_row(np.float32, np.nan)
    size = per_row(np.int32)
    evaluated = per_row(np.float64, np.nan)
    in_job = per_row(np.bool_, False)
    across = per_row(np.bool_, False)
    own = per_row(np.float32, np.nan)
    of_own = per_row(np.float32, 1.0)
    of_host = per_row(np.float32, 1.0)
    low_on_host = per_row(np.int8)
    as_usual = per_row(np.float64, np.nan)
    lone = per_row(np.bool_, False)
    adapter = per_row(np.int64, -1)
    _windows = per_row(np.uint16)
    _beside_windows = per_row(np.uint16)
    _recent = per_row(np.float32, np.nan)
    _past = per_row(np.float32, np.nan)  # x as it usually is, and over the last WINDOWS windows
    _lately = per_row(np.float32, np.nan)
    _learned = per_row(np.int16)
    _part = per_row(np.float32)  # x / the least of another adapter, as it usually is and over the last WINDOWS windows
    _part_lately = per_row(np.float32)
    _parts = per_row(np.int16)
    _ratio = per_row(np.float32, np.nan)  # x / median over the last SWING windows
    _missing = per_row(np.float32)
    _missing_before = per_row(np.float32)  # a window ago
    _task = per_row(np.int64, -1)
    _mean = per_row(np.float32, np.nan)  # x / median on average, also since it began to carry less

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._domains: Domains | None = None
        self._rows = self._group = self._turn = np.zeros(0, np.intp)  # in the order of their turns
        self._siblings: Siblings | None = None
        self._next = 0
        self._began = float("nan")

    def advance(self, table: Table, links: LinkStates, pressure: Pressure, now: float) -> None:
        if table.domains is not self._domains:
            self._domains = table.domains
            self._arrange(table, links.facts)
        if not len(self._rows):
            return
        age = now - self._began
        if not 0 <= age < 2 * EVERY:  # the first, a clock that stepped, or a long pause
            self._began, self._next, age = now, 0, 0.0
        first = self._next
        while self._next < TURNS and age >= self._next * EVERY / TURNS:
            self._next += 1
        due = slice(*np.searchsorted(self._turn, (first, self._next)).tolist())
        self._compare(self._rows[due], self._group[due], self._turn[due], Read(table, links, pressure, now))
        if self._next == TURNS and age >= EVERY:
            self._began, self._next = self._began + EVERY, 0

    def _arrange(self, table: Table, facts: Facts) -> None:
        """Rows in the order of their groups, with the number of the group and its turn, both from 0."""
        self._rows = self._group = self._turn = np.zeros(0, np.intp)
        if table.domains is None:
            return
        rail = table.domains.ids["rail"]
        n = min(table.n, len(rail))
        rail = rail[:n].astype(np.int64)
        job = table.domains.ids.get("job")
        task = np.full(n, -1, np.int64) if job is None else job[:n].astype(np.int64)
        roles = [facts.role_names[name] for name in ROLES if name in facts.role_names]
        rows = np.flatnonzero((rail >= 0) & np.isin(facts.role[:n], roles) & ~facts.swept[:n])
        if not len(rows):
            return
        others = of_other_rails(rail[rows] * facts.makes + facts.make[rows], facts.place[rows], table.node[rows])
        rows = rows[~others]
        adapter = table.domains.ids.get("nic", np.arange(n, dtype=np.int32))
        self._siblings = Siblings(rows, table.node[:n], adapter[:n])
        key = self._keys(rows, rail, task, facts)
        self.in_job[:n] = task >= 0
        moved = self._task[:n] != task  # their peers are others: they were low, or usual, among those that they had
        counts = (self.low, self.low_on_host, self.seen)
        for kept in (*counts, self._learned, self._parts, self._windows, self._beside_windows):
            kept[:n][moved] = 0
        self._task[:n] = task
        self.adapter[rows] = np.where(adapter[rows] >= 0, adapter[rows], -2 - rows)  # unknown: one of its own
        order = np.lexsort((self.adapter[rows], key))  # the ports of an adapter side by side
        rows, key = rows[order], key[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        large = np.bincount(group) >= LEAST
        bounds = [int(turn * len(starts) / TURNS) for turn in range(TURNS + 1)]
        mine = large[group]
        self._rows, self._group = rows[mine], group[mine]
        self._turn = np.searchsorted(bounds, self._group, side="right") - 1

    def _keys(self, rows: Numbers, rail: NDArray[Any], task: NDArray[Any], facts: Facts) -> Numbers:
        """A number for each group: rail, job and make of some rows.

        Ports of a job that has fewer than LEAST on a rail are compared with those of no job (`task` becomes -1), those
        of a smaller rail with all of such rails (`across`)."""
        tasks, make = int(task.max()) + 2, facts.make[rows]
        task[rows[_small((rail[rows] * tasks + task[rows] + 1) * facts.makes + make)]] = -1
        few = _small((rail[rows] * tasks + task[rows] + 1) * facts.makes + make)
        self.across[rows] = few
        return np.asarray((np.where(few, 0, rail[rows] + 1) * tasks + task[rows] + 1) * facts.makes + make)

    def _compare(self, rows: Numbers, group: Numbers, turn: Numbers, read: Read) -> None:
        share = read.carried(rows, _unrated(group, read.of_line(rows)))
        kept = np.flatnonzero(read.at_work(rows, share))
        size = np.bincount(group[kept])
        kept = kept[size[group[kept]] >= LEAST]
        rows, group, turn, share = rows[kept], group[kept], turn[kept], share[kept]
        if not len(rows):
            return
        adapter = self.adapter[rows]
        now, pressure = read.now, read.pressure
        pausing = np.nan_to_num(pressure.pausing.latest[0, rows].astype(np.float64))
        usual, spread = middle_of(group, share)
        stale = ~(now - self.evaluated[rows] <= FORGOTTEN)
        against, own, recent = self._against_own(rows, share / usual, stale)
        paused = np.unique(turn[pausing > PAUSES])  # of the groups of other turns no medians are needed
        rests, jitter = np.zeros(len(rows)), np.zeros(len(rows))
        if len(paused):
            here = np.isin(turn, paused)
            rests[here], jitter[here] = middle_of(group[here], pausing[here])
        self._sum_up(rows, np.where(self._learned[rows] >= WINDOWS, share / usual / own, 1.0), stale, now)
        slower, fell = self._slower(rows, share / usual), self._fell(rows, share)
        beside = self._beside(rows, group, share, stale, fell, read)
        beside = of_few(beside & (slower | (fell & (against < 1.0 - CHANGED))), group, adapter)
        changed = slower & fell & _low(against, *middle_of(group, against), Z_OWN, GAP_OWN)
        of_late = slower & _low(recent, *middle_of(group, recent), Z_OWN, GAP_OWN) & (fell | self._always(rows, own))
        slow = of_few(_low(share, usual, spread), group, adapter) | of_few(of_late, group, adapter)
        other = np.abs(against - 1.0) > CHANGED
        slow |= changed & of_few(other, group, adapter, every=True)
        self.lone[rows] = adapters_of(other, group, adapter)[group] <= other
        slow |= of_few(pausing - rests > np.maximum(Z * jitter, PAUSES), group, adapter)
        self._learn(rows[~stale], share[~stale], (share / usual)[~stale], (slow | beside)[~stale])
        remembered = _remember(self._beside_windows, rows, beside, stale)
        beside_windows = np.where(self._lost(rows, fell), remembered, np.uint16(0))
        self.low[rows] = _SET_BITS[_remember(self._windows, rows, slow, stale) | beside_windows]
        self.low_on_host[rows] = _SET_BITS[beside_windows]
        self.seen[rows] = np.minimum(np.where(stale, 0, self.seen[rows]) + 1, WINDOWS)
        self.share[rows], self.median[rows] = share, usual
        self.pausing[rows], self.usual[rows] = pausing, rests
        self.size[rows], self.of_own[rows] = size[group], against
        self.evaluated[rows] = now

    def _beside(
        self, rows: Numbers, group: Numbers, share: Floats, stale: Bools, fell: Bools, read: Read
    ) -> Bools:
        """Which carry less than the other adapters of their host, as their peers do not; these alike, or it is known
        what part it had. Or, of those that carry less than they usually do, less of what these carry than they had."""
        low, ratio = np.zeros(len(rows), np.bool_), np.ones(len(rows))
        if self._siblings is not None:
            near = self._siblings.of(rows)
            carried = read.carried(near, np.isnan(read.of_line(near)))
            found, alike = self._siblings.shares(rows, share, near, carried, read.at_work(near, carried))
            known = np.isfinite(found)
            at = np.flatnonzero(known & (np.bincount(group, known)[group] >= LEAST_HOSTS))
            if len(at):
                middle, spread = middle_of(group[at], found[at])
                low[at] = _low(found[at], middle, spread, Z_OWN, GAP_OWN) & (spread <= ALIKE * middle)
                ratio[at] = found[at] / middle
            less = fell & self._less_part(rows, group, known & ~stale)  # else only what the others carry changed
            self._learn_part(rows, found, low | less, stale)
            low = less | (low & (alike | (self._parts[rows] >= WINDOWS)))
        recent = np.where(stale, ratio, self.of_host[rows])
        self.of_host[rows] = recent + (ratio - recent) * RECENT
        return low

    def _less_part(self, rows: Numbers, group: Numbers, known: Bools) -> Bools:
        """Which had lately less of what their host carries than they usually have, as their peers had not."""
        low = np.zeros(len(rows), np.bool_)
        known = known & (self._parts[rows] >= WINDOWS)
        at = np.flatnonzero(known & (np.bincount(group, known)[group] >= LEAST_HOSTS))
        if len(at):
            part = (self._part_lately[rows[at]] / self._part[rows[at]]).astype(np.float64)
            low[at] = _low(part, *middle_of(group[at], part), Z_OWN, GAP_OWN)
        return low

    def _learn_part(self, rows: Numbers, part: Floats, low: Bools, stale: Bools) -> None:
        """Take over the part that each has of what its host carries; as usual it counts where it is not low by it."""
        self._parts[rows[stale]] = 0
        at = np.flatnonzero(np.isfinite(part))
        rows, part, usual = rows[at], part[at], ~low[at]
        lately = np.where(self._parts[rows] > 0, self._part_lately[rows], part)
        self._part_lately[rows] = lately + (part - lately) * RECENT
        rows, part = rows[usual], part[usual]
        self._parts[rows] = count = np.minimum(self._parts[rows] + 1, USUAL)
        self._part[rows] += (part - self._part[rows]) / count

    def _lost(self, rows: Numbers, fell: Bools) -> Bools:
        """Which carry less than they did, also of what their host carries, or have had no part for WINDOWS windows that
        was not low: of one that has the part that it had only the peers changed, of one that carries what it did only
        the host."""
        less = fell & (self._part_lately[rows] < (1.0 - GAP_OWN) * self._part[rows])
        return np.asarray(less | (self._parts[rows] < WINDOWS))

    def _sum_up(self, rows: Numbers, carried: Floats, stale: Bools, now: float) -> None:
        """Page's sum of what each carries less than usual (1), and when it was nought last. Of a pause of the work the
        windows before and after it, which are in part idle, do not count."""
        paused = ~stale & (now - self.evaluated[rows] > PAUSED * EVERY)
        before = np.where(paused, self._missing_before[rows], np.where(stale, 0.0, self._missing[rows]))
        missing = np.maximum(0.0, before + np.where(paused, 0.0, (1.0 - GAP_OWN / 2) - carried))
        self._missing_before[rows], self._missing[rows] = before, missing
        as_usual = np.where(stale, np.nan, self.as_usual[rows])
        self.as_usual[rows] = np.where(missing == 0.0, now, as_usual)

    def _against_own(self, rows: Numbers, ratio: Floats, stale: Bools) -> tuple[Floats, Floats, Floats]:
        """Share divided by median over the last WINDOWS windows, as a share of what it usually is, and that; 1 while
        unknown. And that of the last WINDOWS windows by itself."""
        self._learned[rows[stale]] = 0
        learned = self._learned[rows]
        recent = np.where(learned > 0, self._recent[rows], ratio).astype(np.float64)
        self._recent[rows] = recent = recent + (ratio - recent) * RECENT
        known = learned >= WINDOWS
        own = np.where(known, self.own[rows], 1.0).astype(np.float64)
        return np.where(known, recent / own, 1.0), own, recent

    def _slower(self, rows: Numbers, ratio: Floats) -> Bools:
        """Which carry less than their peers over the last windows, SWING of them: the load of one goes up and down."""
        before = np.where(self._learned[rows] > 0, self._ratio[rows], ratio).astype(np.float64)
        self._ratio[rows] = lately = before + (ratio - before) * (2.0 / (SWING + 1))
        return np.asarray(lately < 1.0 - GAP)

    def _always(self, rows: Numbers, own: Floats) -> Bools:
        """Which carry so much less than their peers as long as is known, or of which nothing is known yet: of others
        that carry what they did only the peers changed."""
        return np.asarray((self._learned[rows] < WINDOWS) | (own < 1.0 - GAP_OWN))

    def _fell(self, rows: Numbers, share: Floats) -> Bools:
        """Which carry less than they usually do, whatever their peers do: where the median rose they do not."""
        lately = np.where(self._learned[rows] > 0, self._lately[rows], share).astype(np.float64)
        self._lately[rows] = lately = lately + (share - lately) * RECENT
        return np.asarray((self._learned[rows] >= WINDOWS) & (lately < (1.0 - GAP) * self._past[rows]))

    def _learn(self, rows: Numbers, share: Floats, ratio: Floats, slow: Bools) -> None:
        """Take over what share divided by median is now. Of a row that is low, or carries more or less than usual, it
        counts as one of USUAL windows: else a burst of minutes would be usual, and what follows it low. Once a row
        begins to carry less, what is usual is what it was before."""
        learned = np.minimum(self._learned[rows] + 1, USUAL)
        own, mean = (np.where(learned > 1, of[rows], ratio) for of in (self.own, self._mean))
        odd = slow | ((learned > WINDOWS) & (np.abs(self._recent[rows] / own - 1.0) > CHANGED))
        weight = 1.0 / np.where(odd, USUAL, learned)
        self._mean[rows] = mean = mean + (ratio - mean) * weight
        settled = (learned <= WINDOWS) | (self._missing[rows] == 0.0)
        self.own[rows] = np.where(settled, mean, own + (mean - own) / USUAL)
        past = np.where(learned > 1, self._past[rows], share)
        self._past[rows] = past + (share - past) * weight
        self._learned[rows] = learned


def _remember(windows: NDArray[np.uint16], rows: Numbers, slow: Bools, stale: Bools) -> NDArray[np.uint16]:
    """Which of the last WINDOWS windows were low, a bit each, this one included."""
    before = np.where(stale, np.uint16(0), windows[rows])
    windows[rows] = after = ((before << np.uint16(1)) | slow.astype(np.uint16)) & _LAST
    return np.asarray(after)


def _low(value: Floats, middle: Floats, spread: Floats, z: float = Z, gap: float = GAP) -> Bools:
    return (middle - value > z * np.maximum(spread, 0.02 * middle)) & (value < (1.0 - gap) * middle)


def _unrated(group: Numbers, share: Floats) -> Bools:
    """Rows without a share of the line rate, of groups in which no row has one: shares of two kinds are not alike."""
    unknown = np.isnan(share)
    if not unknown.any():
        return unknown
    return np.asarray(unknown & (np.bincount(group, ~unknown)[group] == 0))


def _small(key: Numbers) -> Bools:
    """Entries of groups of fewer than LEAST."""
    _, at, size = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(size[at] < LEAST)
