"""Adapters that carry less because ports that they talk to failed, or are under maintenance. Pure.

Method: docs/methods.md#straggler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.uplinks import with_effects
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.peers import EVERY
from fabricmon.model import Kind


def with_slowed(
    verdicts: Sequence[FaultVerdict],
    domains: RowDomains,
    jobs: Ids | None,
    announced: Floats | None = None,
    as_usual: Floats | None = None,
) -> list[FaultVerdict]:
    """The verdicts, without adapters that became slow after ports of their rail failed, of their job where it is known:
    who talked to those has less to do. They are effects; of announced work they are none of a fault. Not where the
    other adapters of their host, of whose rails ports failed as well, carry what they did.

    jobs       of the PORT rows, -1 none; None: no job is known
    announced  per PORT row under maintenance when its link fell last, NaN the others; None: no port is
    as_usual   per PORT row when it carried what it usually does last, NaN never; None: not known of any
    """
    if not any(_only_slow(verdict) for verdict in verdicts):
        return list(verdicts)
    found, gone = list(verdicts), set[int]()
    failed = [(at, _failed_ports(verdict, domains)) for at, verdict in enumerate(verdicts) if not _only_slow(verdict)]
    rails = domains.rails()
    fell = np.full(len(rails), np.nan)
    if announced is not None:
        fell[: len(announced)] = announced[: len(rails)]
    for at, verdict in enumerate(verdicts):
        if not _only_slow(verdict):
            continue
        slow = verdict.explained[SymptomType.STRAGGLER]
        talks = _talks(slow, rails, jobs)
        began = None if as_usual is None else as_usual[slow]
        if (talks & _before(verdict.onset, fell) & _with(began, fell)).any():
            gone.add(at)
            continue
        for other, rows in failed:
            rows = rows[rows < len(rails)]
            at_once = _before(verdict.onset, found[other].onset) and _with(began, found[other].onset).any()
            if at_once and talks[rows].any() and not _spared(slow, rows, domains, as_usual, found[other].onset):
                found[other] = with_effects(found[other], verdict)
                gone.add(at)
                break
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _talks(mine: Ints, rails: Ids, jobs: Ids | None) -> Mask:
    """PORT rows that some ports may talk to: of their rail, and of their job where it is known."""
    alike = np.isin(rails, rails[mine]) & (rails >= 0)
    if jobs is not None and len(jobs) == len(rails) and bool((jobs[mine] >= 0).all()):
        alike |= (rails < 0) | (rails[mine] < 0).all()
        alike &= np.isin(jobs, jobs[mine])
    return np.asarray(alike)


def _spared(slow: Ints, failed: Ints, domains: RowDomains, as_usual: Floats | None, at: float) -> bool:
    """Whether most other ports of the hosts of some, of rails of which others failed, still carry what they usually do
    when what failed would show."""
    if as_usual is None:
        return False
    hosts, rails = domains.port.ids["host"], domains.rails()
    mates = np.flatnonzero(np.isin(hosts, hosts[slow]) & (hosts >= 0) & np.isfinite(as_usual[: len(hosts)]))
    mates = np.setdiff1d(mates[np.isin(rails[mates], rails[failed])], slow)
    return len(mates) > 0 and bool(2 * (as_usual[mates] > at + NOTICED + BLUR).sum() > len(mates))


def _before(onset: float, failed: Floats | float) -> Mask:
    """Which failures are so long before that a port may count as slow by them."""
    return np.asarray((onset - failed >= SLOWED_BY) & (onset - failed <= SLOWED))


def _with(began: Floats | None, failed: Floats | float) -> Mask:
    """Which failures came as a port began to carry less."""
    failed = np.asarray(failed, np.float64)
    if began is None:
        return np.ones(failed.shape, np.bool_)
    after = began[:, None] - failed.reshape(1, -1)
    return np.asarray(((after >= -BLUR) & (after <= NOTICED + BLUR)).any(axis=0).reshape(failed.shape))


NOTICED = 30.0
"""Seconds after which the queue pairs of a job fail to which no answer comes (NCCL's defaults)."""
BLUR = 2.0 * EVERY
"""Seconds by which the beginning of less work is not known: the window in which it began, and one that was less by
chance."""
SLOWED_BY = 90.0
"""Seconds after a failure from which a port may count as slow by it: the least low windows of the rule by default
(docs/methods.md#straggler), less a poll. One that counts before was slow before."""
SLOWED = 300.0
"""Seconds after a failure in which a port that has less to do by it counts as slow: the average over the windows of the
rule, these windows once more and its hold (docs/methods.md#straggler), and two polls."""


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
