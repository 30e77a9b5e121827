"""From facts to verdicts: hard faults first, then what only loses packets, then what nothing explains. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.board import Board
from fabricmon.engine.causes import MODES, NOTED, SYMPTOM_OF
from fabricmon.engine.diagnose import Facts, Verdict, diagnose, unexplained
from fabricmon.engine.losses import SOFT, Ports, place_losses, witnesses
from fabricmon.engine.search import Ints


def verdicts_of(
    facts: Mapping[str, Facts], silence: float, ports: Ports, moved: NDArray[np.bool_], board: Board
) -> list[Verdict]:
    """Everything that is concluded of the open symptoms.

    silence  base rate of silent agents (`silence_leak`)
    moved    bool[n] of the NODE rows: a port of the host carried traffic shortly before its last frame
    """
    hard = {kind: found for kind, found in facts.items() if kind not in SOFT}
    seen = witnesses(facts, ports, moved)
    found = diagnose(hard | ({"PW": seen} if seen is not None else {}), silence)
    found = [_without_witness(verdict) for verdict in found if set(verdict.explained) != {"PW"}]
    found = _without_cut_off(found, ports)
    found, soft = place_losses(facts, found, ports)
    return found + fallback(board, hard, found) + soft


def _without_cut_off(verdicts: Sequence[Verdict], ports: Ports) -> list[Verdict]:
    """Without dead hosts that merely hang below a leaf that is down: nobody reaches them, whatever they are."""
    leaves = {v.group for v in verdicts if v.domain == "leaf" and v.explained.keys() & {"LD", "LF"}}
    if not leaves:
        return list(verdicts)
    host, leaf = ports.groups.ids["host"], ports.groups.ids["leaf"]

    def cut_off(verdict: Verdict) -> bool:
        mine = leaf[host == verdict.group]
        mine = mine[mine >= 0]
        return len(mine) > 0 and bool(np.isin(mine, sorted(leaves)).mean() >= CUT_OFF)

    return [v for v in verdicts if v.modes[0].name != "host dead" or not cut_off(v)]


CUT_OFF = 0.5
"""Share of a host's ports below leaves that are down from which its silence is theirs [D]."""


def _without_witness(verdict: Verdict) -> Verdict:
    """Witnesses are an argument, no symptom that a row shows: what is told of them are the losses."""
    if "PW" not in verdict.explained and "PW" not in verdict.silent:
        return verdict
    return replace(
        verdict,
        explained={kind: rows for kind, rows in verdict.explained.items() if kind != "PW"},
        silent={kind: count for kind, count in verdict.silent.items() if kind != "PW"},
        seen="PW" in verdict.explained,
    )


def fallback(board: Board, facts: Mapping[str, Facts], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Symptoms of links that no cause explains well enough are still told, as suspicions about their own component;
    those of NOTED are, as notices, until they are a warning."""
    found: list[Verdict] = []
    for kind, rows in unexplained(facts, verdicts).items():
        mode = next((m for m in MODES if SYMPTOM_OF.get(m.kind) == kind and m.domain in ("link", "nic")), None)
        if mode is None:
            continue
        if kind in NOTED:
            warned = [any(s.severity.rank for s in board.symptoms(kind, [row])) for row in rows.tolist()]
            rows = rows[np.array(warned, np.bool_)]
        ids = facts[kind].groups.ids[mode.domain][rows]
        for group in np.unique(ids[ids >= 0]).tolist():
            mine: Ints = rows[ids == group]
            onset = float(facts[kind].onset[np.isin(facts[kind].rows, mine)].min())
            found.append(Verdict((mode,), group, 0.5, 0.5, 0.0, {kind: mine}, onset, {}, (), None))
    return found
