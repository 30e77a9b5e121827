"""Groups that fail while something is under maintenance that the topology does not know: probably that
(docs/methods.md#maintenance-without-a-map). Pure over `now`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS
from fabricmon.engine.diagnosis.diagnose import FaultVerdict
from fabricmon.engine.domains.row_domains import RowDomains

OTHERWISE = 0.25
"""Probability that what fails together in a maintenance window is not the component of that window (design choice): a
window's component fails nearly always, another one in few windows. Below one half, so information."""
FAILING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_FELL})


class UnmappedMaintenance:
    """Which group each such component is taken for. One component explains one group, the first of its window."""

    def __init__(self) -> None:
        self._rows: dict[str, frozenset[int]] = {}

    def applied(
        self, verdicts: Sequence[FaultVerdict], unknown: Mapping[str, float], domains: RowDomains
    ) -> list[FaultVerdict]:
        """The verdicts, with `maintained` and a lower confidence where they are probably what is maintained.

        unknown  component of a window that is active and that the topology does not know -> start of the window
        """
        self._rows = {name: rows for name, rows in self._rows.items() if name in unknown}
        if not unknown:
            return list(verdicts)
        found = list(verdicts)
        free = sorted((at for at, v in enumerate(found) if _may_be(v, domains)), key=lambda at: found[at].onset)
        for name, starts in sorted(unknown.items(), key=lambda each: each[::-1]):
            mine = next((at for at in free if self._is_of(found[at], name, starts)), None)
            if mine is None:
                continue
            free.remove(mine)
            self._rows[name] = self._rows.get(name, frozenset()) | _rows(found[mine])
            sure, alone = found[mine].confidence, found[mine].alone
            found[mine] = replace(found[mine], confidence=OTHERWISE * sure, alone=OTHERWISE * alone, maintained=name)
        return found

    def _is_of(self, verdict: FaultVerdict, name: str, starts: float) -> bool:
        taken = self._rows.get(name)
        return verdict.onset >= starts if taken is None else bool(taken & _rows(verdict))


def _rows(verdict: FaultVerdict) -> frozenset[int]:
    return frozenset(row for rows in verdict.explained.values() for row in rows.tolist())


def _may_be(verdict: FaultVerdict, domains: RowDomains) -> bool:
    """Whether a group of ports of which no leaf is known fails."""
    if verdict.domain not in GROUPS or not verdict.explained.keys() <= FAILING:
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
