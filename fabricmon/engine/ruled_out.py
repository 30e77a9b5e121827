"""What else it could have been, and why it is not: the other half of a verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import e, log10

import numpy as np

from fabricmon.engine.board import Board
from fabricmon.engine.diagnose import Alternative, Facts, Verdict
from fabricmon.model import Kind, RuledOut

MOST = 6
"""Entries of one incident: one for each sort of domain that a person would think of, and what is left."""

WIDER: Mapping[Kind, tuple[str, ...]] = {
    Kind.PORT: ("nic", "host", "leaf", "rail"),
    Kind.NODE: ("power",),
    Kind.GPU: ("host", "nvlink_domain"),
    Kind.PCIE: ("host",),
    Kind.FLOW: (),
}
"""Fault domains that a person suspects first of what a row shows, from the narrow to the wide; they are the words of an
incident's component, too."""


class Counts:
    """Members of fault domains that were observed and that show a symptom; each is counted once for one diagnosis."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self.facts = facts
        self._made: dict[tuple[str, str], tuple[list[int], list[int]]] = {}

    def of(self, kind: str, domain: str, group: int) -> tuple[int, int]:
        """Observed members of a group, and those of them that show the symptom."""
        if (kind, domain) not in self._made:
            facts = self.facts[kind]
            ids = facts.groups.ids[domain]
            shows = ids[facts.rows]
            self._made[kind, domain] = (
                np.bincount(ids[facts.known & (ids >= 0)]).tolist(),
                np.bincount(shows[shows >= 0]).tolist(),
            )
        observed, shown = self._made[kind, domain]
        return _at(observed, group), _at(shown, group)


def _at(counts: list[int], group: int) -> int:
    return counts[group] if group < len(counts) else 0


def ruled_out(verdict: Verdict, possible: Iterable[str], counts: Counts, board: Board) -> tuple[RuledOut, ...]:
    """Other causes of what a verdict explains, the narrow ones first; none where nothing was compared. `possible` are
    the component itself and what the evidence cannot tell apart from it.

    A wider domain is ruled out by its members that are well, a single cause beside it by the odds, many causes at once
    by the odds that each came by itself.
    """
    kept = {*possible, *(_name(rival, board) for rival in verdict.rivals)}
    odds = {_name(one, board): one.gain for one in verdict.unlikely}
    found: dict[str, RuledOut] = {}
    if verdict.apart is not None:
        number, behind = verdict.apart
        text = f"each would have to fail by itself, at the same time; {_times(behind)} less likely"
        found[""] = RuledOut(f"{number} separate faults", text, round(behind, 1))
    for name, reason in _wider(verdict, counts, board):
        if name not in kept:
            nats = verdict.gain - odds.pop(name) if name in odds else None
            found[name] = RuledOut(name, reason, None if nats is None else round(nats, 1))
    for name, gain in odds.items():
        if name not in kept and name not in found:
            behind = verdict.gain - gain
            found[name] = RuledOut(name, f"it would explain the same, but is {_times(behind)} less likely",
                                   round(behind, 1))  # fmt: skip
    return tuple(found.values())[:MOST]


def _wider(verdict: Verdict, counts: Counts, board: Board) -> list[tuple[str, str]]:
    """Domains that hold all that is explained, and members that show nothing of it."""
    kind = next(iter(verdict.explained), "")
    facts = counts.facts.get(kind)
    if facts is None:
        return []
    rows, found = verdict.explained[kind], []
    for domain in WIDER[board.table(kind)]:
        if domain == verdict.domain or domain not in facts.groups.ids or not len(rows):
            continue
        groups = facts.groups.ids[domain][rows]
        group = int(groups[0])
        if group < 0 or (groups != group).any():
            continue
        observed, shown = counts.of(kind, domain, group)
        if well := observed - shown:
            text = f"{well} of its {observed} observed members {'shows' if well == 1 else 'show'} no sign of it"
            found.append((f"{domain}({board.places.names[domain][group]})", text))
    return found


def _name(alternative: Alternative, board: Board) -> str:
    return f"{alternative.mode.word}({board.places.names[alternative.mode.domain][alternative.group]})"


def _times(nats: float) -> str:
    """ "25 times", "10^14 times"."""
    power = nats * log10(e)
    return f"{10**power:,.0f} times" if power < 4 else f"10^{power:.0f} times"
