"""Adapters that carry less because ports that they talk to failed, or are under maintenance. Pure.

Method: docs/methods.md#straggler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.uplinks import with_effects
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.peers import EVERY
from fabricmon.model import Kind


class PastFailures:
    """When each PORT row failed or fell under maintenance last, also where that is over: who had less to do by it is
    seen to be slow minutes later, as the averages of the rule are as long (docs/methods.md#straggler)."""

    def __init__(self) -> None:
        self._failed = self._announced = np.empty(0)
        self._generation = np.empty(0, np.int64)

    def update(
        self, verdicts: Sequence[FaultVerdict], domains: RowDomains, announced: Floats, generation: Ints
    ) -> tuple[Floats, Floats]:
        """Both, with what is so now: by a verdict, and under maintenance.

        generation  of the PORT rows: raised where a row comes to stand for something else
        """
        n = len(generation)
        failed, under = np.full(n, np.nan), np.full(n, np.nan)
        same = self._generation[:n] == generation[: len(self._generation)]
        failed[: len(same)] = np.where(same, self._failed[: len(same)], np.nan)
        under[: len(same)] = np.where(same, self._announced[: len(same)], np.nan)
        for verdict in verdicts:
            rows = _failed_ports(verdict, domains)
            failed[rows[rows < n]] = verdict.onset
        under[: len(announced)] = np.fmax(under[: len(announced)], announced[:n])
        self._failed, self._announced, self._generation = failed, under, generation.copy()
        return failed, under


def with_slowed(
    verdicts: Sequence[FaultVerdict],
    domains: RowDomains,
    jobs: Ids | None,
    announced: Floats | None = None,
    as_usual: Floats | None = None,
    before: Floats | None = None,
) -> list[FaultVerdict]:
    """The verdicts, without adapters that became slow as ports of their rail failed, of their job where it is known:
    who talked to those has less to do. They are effects, or of announced work and failures that are over. Not those
    that the other adapters of their host show to have no part in it (`_spared`).

    jobs       of the PORT rows, -1 none; None: no job is known
    announced  per PORT row when its link fell last under maintenance, NaN never; None: no port is
    as_usual   per PORT row when it carried what it usually does last, NaN never; None: not known of any
    before     per PORT row when it failed last by a verdict, NaN never; None: not known of any
    """
    if not any(_only_slow(verdict) for verdict in verdicts):
        return list(verdicts)
    found, gone = list(verdicts), set[int]()
    failed = [(at, _failed_ports(verdict, domains)) for at, verdict in enumerate(verdicts) if not _only_slow(verdict)]
    rails = domains.rails()
    fell, over = _per_row(announced, len(rails)), _per_row(before, len(rails))
    for at, verdict in enumerate(verdicts):
        if not _only_slow(verdict):
            continue
        slow = verdict.explained[SymptomType.STRAGGLER]
        talks = _talks(slow, rails, jobs)
        spared = partial(_spared, slow, domains=domains, as_usual=as_usual, jobs=jobs)
        after = partial(_after, verdict.onset, began=None if as_usual is None else as_usual[slow])
        for other, rows in failed:
            rows, onset = rows[rows < len(rails)], found[other].onset
            at_once = after(np.array([onset])).any() and talks[rows].any()
            if at_once and not spared(rows, at=onset):
                found[other] = with_effects(found[other], verdict)
                gone.add(at)
                break
        if (talks & after(fell)).any() or _of_past(slow, talks & after(over), over, spared):
            gone.add(at)
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _per_row(times: Floats | None, n: int) -> Floats:
    every = np.full(n, np.nan)
    if times is not None:
        every[: len(times)] = times[:n]
    return every


def _of_past(slow: Ints, failed: Mask, when: Floats, spared: Callable[..., bool]) -> bool:
    """Whether some are slow by a failure that is over: of the ports `failed` at `when`, those of one moment."""
    rows = np.setdiff1d(np.flatnonzero(failed), slow)
    return any(not spared(rows[when[rows] == at], at=at) for at in np.unique(when[rows]).tolist())


def _talks(mine: Ints, rails: Ids, jobs: Ids | None) -> Mask:
    """PORT rows that some ports may talk to: of their rail, and of their job where it is known."""
    alike = np.isin(rails, rails[mine]) & (rails >= 0)
    if jobs is not None and len(jobs) == len(rails) and bool((jobs[mine] >= 0).all()):
        alike |= (rails < 0) | (rails[mine] < 0).all()
        alike &= np.isin(jobs, jobs[mine])
    return np.asarray(alike)


def _spared(
    slow: Ints, failed: Ints, domains: RowDomains, as_usual: Floats | None, jobs: Ids | None, at: float
) -> bool:
    """Whether most other ports of the hosts of some, of rails of which others failed, still carry what they usually do
    when what failed would show. Not where PARTLY other hosts of its job, or of none as it, show the same: a port that
    began to carry less then, beside most that do not. There each adapter of a host talks to hosts of its own."""
    if as_usual is None:
        return False
    n = min(len(as_usual), len(domains.port.ids["host"]))
    hosts, usual = domains.port.ids["host"][:n].astype(np.int64), as_usual[:n]
    near = np.isin(domains.rails()[:n], domains.rails()[failed]) & (hosts >= 0) & np.isfinite(usual)
    less = near & _with(usual, at)
    less[failed[failed < n]] = False
    if jobs is not None and len(jobs) >= n:
        less &= np.isin(jobs[:n], jobs[slow])
    mates = near.copy()
    mates[slow[slow < n]] = False
    size = int(hosts.max(initial=-1)) + 1
    goes_on = np.bincount(hosts[mates & (usual > at + NOTICED + BLUR)], minlength=size)
    every = np.bincount(hosts[mates], minlength=size)
    own = np.unique(hosts[slow[slow < n]])
    if not (2 * goes_on > every)[own[own >= 0]].any():
        return False
    others = np.setdiff1d(hosts[less], own)
    return int((2 * goes_on > every - 1)[others].sum()) < PARTLY  # beside the one that does not


def _after(onset: float, failed: Floats, began: Floats | None) -> Mask:
    """Which failures a port may count as slow by that does from `onset` on. `began`: when each of its rows began to
    carry less, None: not known."""
    if began is None:
        return np.asarray((onset - failed >= SLOWED_BY) & (onset - failed <= SLOWED))
    return np.asarray(np.logical_or.reduce([_with(one, failed) for one in began]))


def _with(began: Floats | float, failed: Floats | float) -> Mask:
    """Whether less work began with a failure."""
    after = np.asarray(began) - np.asarray(failed)
    return np.asarray((after >= -BLUR) & (after <= NOTICED + BLUR))


PARTLY = 2
"""Other hosts with a port that began to carry less by a failure, beside ports that did not, from which that is how work
is divided there (design choice): one may have a slow adapter itself."""
NOTICED = 30.0
"""Seconds after which the queue pairs of a job fail to which no answer comes (NCCL's defaults)."""
BLUR = 2.0 * EVERY
"""Seconds by which the beginning of less work is not known: the window in which it began, and one that was less by
chance."""
SLOWED_BY = 90.0
"""Seconds after a failure from which a port may count as slow by it, where it is not known when it began to carry less:
the least low windows of the rule by default (docs/methods.md#straggler), less a poll. One that counts before was slow
before."""
SLOWED = 300.0
"""Seconds after a failure in which a port that has less to do by it counts as slow, where it is not known when it began
to carry less: the average over the windows of the rule, these windows once more and its hold
(docs/methods.md#straggler), and two polls."""


def _only_slow(verdict: FaultVerdict) -> bool:
    return verdict.explained.keys() == {SymptomType.STRAGGLER}


def _failed_ports(verdict: FaultVerdict, domains: RowDomains) -> Ints:
    """PORT rows that carry nothing by a verdict."""
    rows = [rows for kind, rows in verdict.explained.items() if kind in STOPPING]
    if (silent := verdict.explained.get(SymptomType.AGENT_SILENT)) is not None:
        of_hosts = domains.by_table[Kind.NODE].ids["host"][silent]
        rows.append(np.flatnonzero(np.isin(domains.port.ids["host"], of_hosts[of_hosts >= 0])))
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64)


STOPPING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.NIC_FAULT})
