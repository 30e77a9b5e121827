"""Groups that fail while something is under maintenance that the topology does not know: probably that
(docs/methods.md#maintenance-without-a-map). Pure over `now`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.row_domains import RowDomains

OTHERWISE = 0.25
"""Probability that what fails together in a maintenance window is not the component of that window (design choice): a
window's component fails nearly always, another one in few windows. Below one half, so information."""
FAILING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_FELL})


GROUPS_WITHOUT_A_LEAF = frozenset({"host", "rail", "learned", "together_down", "together_flapping"})
"""Domains of ports that may be a leaf, rail, feed or module which the topology does not know. All links of a host are
on one leaf in some fabrics; and few hosts lose theirs while a component of an unknown name is worked on."""


class UnmappedMaintenance:
    """Which group each such component is taken for. One component explains one group, the first of its window."""

    def __init__(self) -> None:
        self._rows: dict[str, frozenset[int]] = {}

    def displace(self, rows: Iterable[int]) -> None:
        """Forget PORT rows that stand for something else now."""
        gone = frozenset(rows)
        self._rows = {name: taken - gone for name, taken in self._rows.items()} if gone else self._rows

    def applied(
        self, verdicts: Sequence[FaultVerdict], unknown: Mapping[str, float], domains: RowDomains
    ) -> list[FaultVerdict]:
        """The verdicts, with `maintained` and a lower confidence where they are probably what is maintained.

        unknown  component of a window that is active and that the topology does not know -> start of the window
        """
        self._rows = {name: rows for name, rows in self._rows.items() if name in unknown}
        found = list(verdicts)
        free = {at: _rows(v) for at, v in enumerate(found) if unknown and _may_be(v, domains)}
        in_turn = sorted(free, key=lambda at: found[at].onset)
        for name, starts in sorted(unknown.items(), key=lambda each: each[::-1]):
            taken = self._rows.get(name)
            mine = next((
                at for at in in_turn if at in free
                and (found[at].onset >= starts if taken is None else _is_of(free[at], taken))
            ), None)  # fmt: skip
            if mine is not None:
                self._rows[name] = free.pop(mine)
                sure, alone = OTHERWISE * found[mine].confidence, OTHERWISE * found[mine].alone
                found[mine] = replace(found[mine], confidence=sure, alone=alone, maintained=name)
        return found


def _is_of(rows: frozenset[int], taken: frozenset[int]) -> bool:
    """Whether a group is the one that was taken: half of the smaller one's ports."""
    return 2 * len(rows & taken) >= max(1, min(len(rows), len(taken)))


def _rows(verdict: FaultVerdict) -> frozenset[int]:
    return frozenset(row for rows in verdict.explained.values() for row in rows.tolist())


def _may_be(verdict: FaultVerdict, domains: RowDomains) -> bool:
    """Whether a group of ports of which no leaf is known fails."""
    if verdict.domain not in GROUPS_WITHOUT_A_LEAF or not verdict.explained.keys() <= FAILING:
        return False
    leaf = domains.port.ids["leaf"]
    return all((leaf[rows] < 0).all() for rows in verdict.explained.values())


def unknown_components(
    named: Sequence[tuple[str, float]], domains: RowDomains, maintained_as_a_whole: Iterable[str]
) -> dict[str, float]:
    """Of components by their names, with a time each, those of these domains that the topology does not have."""
    known = {domain: frozenset(domains.names[domain]) for domain in maintained_as_a_whole} if named else {}
    found: dict[str, float] = {}
    for name, starts in named:
        word, bracket, inner = name.partition("(")
        if bracket and word in known and "*" not in inner and inner.removesuffix(")") not in known[word]:
            found[name] = min(starts, found.get(name, np.inf))
    return found
