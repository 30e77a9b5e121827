"""Lossy ports that a map has on another leaf than the one that loses packets (docs/methods.md#wrong-topology). Pure.

Each adapter of a host has its leaf (`mlx5_1` of all hosts on the leaf of rail 1). A port with the name of the adapters
of a lossy leaf, on a leaf whose other ports have another name, is recorded at the wrong place sooner than broken when
that leaf is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.lossy_parts import ENDS
from fabricmon.engine.diagnosis.uplinks import with_effects
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.peer_groups import ONE_NAME

LOSS = SymptomType.PACKET_LOSS


def with_misfiled(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """The verdicts, those on single ports that are filed wrongly among the effects of that on the leaf or part which
    loses their packets: at most as many as members of it lose nothing, which are the other halves of wrong records."""
    found, gone = list(verdicts), set[int]()
    groups = [at for at, v in enumerate(verdicts) if LOSS in v.explained and v.domain not in ENDS]
    spare = {at: verdicts[at].silent.get(LOSS, 0) for at in groups}
    for at, verdict in enumerate(verdicts):
        if verdict.domain not in ENDS or LOSS not in verdict.explained or not groups:
            continue
        rows = verdict.explained[LOSS]
        for group in groups:
            if spare[group] >= len(rows) and _is_of(rows, verdicts[group].explained[LOSS], domains):
                spare[group] -= len(rows)
                found[group] = with_effects(found[group], verdict)
                gone.add(at)
                break
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _is_of(rows: Ints, group: Ints, domains: RowDomains) -> bool:
    """Whether some ports are named as nearly all of a group are, and hardly any other port of their leaves is."""
    leaf, names = domains.port.ids["leaf"], domains.devices(rows.tolist())
    if not names or (leaf[rows] < 0).any() or np.isin(leaf[rows], leaf[group]).any():
        return False
    beside = np.setdiff1d(np.flatnonzero(np.isin(leaf, leaf[rows])), rows)
    return _named(names, group, domains) >= ONE_NAME and _named(names, beside, domains) <= 1.0 - ONE_NAME


def _named(names: set[str], rows: Ints, domains: RowDomains) -> float:
    """Share of some ports whose adapters have these names, 1.0 of none."""
    known = [bool(domains.devices([row]) & names) for row in rows.tolist()]
    return sum(known) / len(known) if known else 1.0
