"""Verdicts that have to wait: neighbours may follow, readings are still to come. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.kinds import KINDS
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, ONE_CAUSE
from fabricmon.engine.diagnosis.losses import NEAR
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Floats, Groups, Ints
from fabricmon.engine.domains.learned_groups import TOGETHER
from fabricmon.model import Kind

SETTLE = 12.0
"""Longest wait of a link-down verdict for its neighbours (design choice): a poll of 10 s and a slow read. It ends as
soon as every neighbour was read after the onset and none is turning bad."""
AT_ONCE = 1.0
"""Seconds before the onset within which a neighbour's read counts as simultaneous: the onset is the tick's time, a
little later than the read that showed it."""
HOST_SETTLE = 40.0
"""Longest wait for a host whose links went down or whose frames stopped (design choice): an agent counts as silent
after 30 s (docs/methods.md#agent-silent), which makes it a fault of the host."""
SPREAD = 10.0
"""Seconds by which the GPUs of an NVLink domain that fail for one reason may follow the first (design choice): one
poll."""
SCARCE_SETTLE = 60.0
"""Longest wait of a verdict on a group of which less than half was seen yet, as after a start of the server."""
SCARCE = 0.5
INSIDE = frozenset({"module", "cage", "run_down"})
"""Groups that are part of a leaf or a host, which as a whole may follow."""
FEW = 2
"""Other ports of a leaf that fall with one, so that it may be the leaf that fails (design choice)."""
SOME = 3
"""Hosts of which single faults may explain links that go down together (common_cause.py: from four on they do not)."""
FRAMES_STOPPED = 3.0  # seconds without a frame: agents send about one a second


class Unsettled(NamedTuple):
    """Why a verdict has to wait, "" if not, and for how many seconds at most."""

    reason: str
    seconds: float


SETTLED = Unsettled("", 0.0)


@dataclass(frozen=True, slots=True)
class LastReads:
    """When what was last read; NaN never.

    links       per PORT row, `now` at which its newest link state arrived
    fell        per PORT row that is up again, when it last fell; NaN of others
    gpus        the same of the NVLinks of each GPU row
    last_frame  node -> `now` of its newest frame
    """

    now: float
    links: Floats
    fell: Floats
    gpus: Floats
    last_frame: Callable[[str], float]

    def fell_with(self, rows: Ints, onset: float) -> int:
        """Count of rows that fell at a moment and are up again."""
        return int(np.count_nonzero(np.abs(self.fell[rows[rows < len(self.fell)]] - onset) <= TOGETHER))

    def unread(self, read_at: Floats, rows: Ints, since: float) -> int:
        """Count of rows whose last reading is older than `since`; rows that are not read at all do not count."""
        last = read_at[rows[rows < len(read_at)]]
        return int(np.count_nonzero((last > self.now - SETTLE) & (last < since - AT_ONCE)))


def unsettled(verdict: FaultVerdict, index: SymptomIndex, read: LastReads) -> Unsettled:
    """Whether further readings may change the verdict."""
    if verdict.explained.keys() == {SymptomType.LINK_ERRORS} and read.now - verdict.onset < ONE_CAUSE:
        return Unsettled("bit errors of one cause may begin elsewhere, too", ONE_CAUSE)
    if verdict.gathering:
        return Unsettled("others began at the same time, more may follow", SETTLE)
    if verdict.domain == "gpu":
        return _gpu(verdict, index, read)
    if verdict.explained.keys() == {SymptomType.PCIE_DEGRADED}:
        return Unsettled("PCIe links of other adapters may be slow at their next read", SETTLE)
    if verdict.unseen:
        return Unsettled("peers may lose packets towards its hosts", NEAR)
    if verdict.domain == "link" and verdict.explained.keys() == {SymptomType.LINK_FLAPPING}:
        return _neighbours(verdict, SymptomType.LINK_FLAPPING, index, read)
    if SymptomType.LINK_DOWN not in verdict.explained or KINDS[verdict.mode.kind].at_once:
        return SETTLED
    if verdict.domain == "host":
        if index.shows(SymptomType.AGENT_SILENT, "host", verdict.group):
            return SETTLED
        return Unsettled("the host's agent may stop reporting", HOST_SETTLE)
    if verdict.domain == "together_down" and (stopped := _stopped(verdict, index, read)).reason:
        return stopped
    if verdict.domain in INSIDE and (beside := _neighbours(verdict, SymptomType.LINK_DOWN, index, read)).reason:
        return beside
    return _group(verdict, index) if verdict.domain in GROUPS else _link(verdict, index, read)


def _group(verdict: FaultVerdict, index: SymptomIndex) -> Unsettled:
    """Other members may follow."""
    down, domain, group = SymptomType.LINK_DOWN, verdict.domain, verdict.group
    expected = int(index.domains.about(domain, group).get("ports", "0"))
    turning = index.pending(down, domain, group)
    seen = len(verdict.explained[down]) + verdict.silent.get(down, 0) + turning
    if seen < SCARCE * expected:
        return Unsettled(f"{seen} of {expected} members seen", SCARCE_SETTLE)
    return Unsettled(f"{turning} more members show first symptoms" if turning else "", SETTLE)


def _link(verdict: FaultVerdict, index: SymptomIndex, read: LastReads) -> Unsettled:
    """Its host may have stopped, or its neighbours may follow."""
    rows = verdict.explained[SymptomType.LINK_DOWN]
    if (stopped := _stopped(verdict, index, read)).reason:
        return stopped
    mates = _mates(verdict, rows, index, read)
    for neighbours in mates if read.now - verdict.onset < ONE_CAUSE else ():
        fell = read.fell_with(neighbours, verdict.onset)
        if fell >= FEW:
            return Unsettled(f"{fell} ports of its leaf or near it fell when it did and are up: it may flap", ONE_CAUSE)
    return _neighbours(verdict, SymptomType.LINK_DOWN, index, read, mates)


def _stopped(verdict: FaultVerdict, index: SymptomIndex, read: LastReads) -> Unsettled:
    """Its host, or one of a few, may have stopped."""
    rows = verdict.explained[SymptomType.LINK_DOWN]
    nodes = sorted({index.component(SymptomType.LINK_DOWN, row).node for row in rows.tolist()})
    for node in nodes if len(nodes) <= SOME else ():
        if not read.now - read.last_frame(node) <= FRAMES_STOPPED:
            return Unsettled(f"no frames from {node}", HOST_SETTLE)
    return SETTLED


def _neighbours(
    verdict: FaultVerdict, kind: SymptomType, index: SymptomIndex, read: LastReads, mates: list[Ints] | None = None
) -> Unsettled:
    """The neighbours of a link may follow: one was not read since, or is turning bad. `mates`: `_mates`, if known."""
    rows = verdict.explained[kind]
    mates = _mates(verdict, rows, index, read) if mates is None else mates
    for neighbours in (*mates, *_members(rows, "host", index)):
        if turning := index.pending_of(kind, neighbours):
            return Unsettled(f"{turning} neighbours show first symptoms", SETTLE)
    for neighbours in mates:  # a host's ports are read together
        if unread := read.unread(read.links, neighbours, verdict.onset):
            return Unsettled(f"{unread} neighbours not read since", SETTLE)
    return SETTLED


def _mates(verdict: FaultVerdict, rows: Ints, index: SymptomIndex, read: LastReads) -> list[Ints]:
    """PORT rows of the leaves of some rows of a verdict; while it is fresh, those of no known leaf that may be on one
    with them by their names, too."""
    fresh = read.now - verdict.onset < ONE_CAUSE
    near = index.domains.near_by_name(rows) if fresh else np.empty(0, np.int64)
    return [*_members(rows, "leaf", index), *([near] if len(near) else [])]


def _members(rows: Ints, domain: str, index: SymptomIndex) -> list[Ints]:
    """PORT rows of each group that some are in."""
    groups = _groups(index.domains.port, domain, rows)
    return [index.domains.members(Kind.PORT, domain, group) for group in sorted(groups)]


def _gpu(verdict: FaultVerdict, index: SymptomIndex, read: LastReads) -> Unsettled:
    """The other GPUs of the NVLink domain may follow: one was not read since, or is turning bad."""
    kind, rows = next(iter(verdict.explained.items()))
    if index.table(kind) is not Kind.GPU:
        return SETTLED
    for group in _groups(index.domains.by_table[Kind.GPU], "nvlink_domain", rows):
        if turning := index.pending(kind, "nvlink_domain", group):
            return Unsettled(f"{turning} GPUs of the domain show first symptoms", SETTLE)
        mates = index.domains.members(Kind.GPU, "nvlink_domain", group)
        if unread := read.unread(read.gpus, mates, verdict.onset + SPREAD):
            return Unsettled(f"{unread} GPUs of the domain not read since", SPREAD + SETTLE)
    return SETTLED


def _groups(groups: Groups, domain: str, rows: Ints) -> set[int]:
    return {group for group in groups.ids[domain][rows].tolist() if group >= 0}
