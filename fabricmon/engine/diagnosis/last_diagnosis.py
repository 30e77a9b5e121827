"""The last diagnosis, kept while what it was made of stays the same. Pure.

An open incident is diagnosed at every tick, and most ticks bring nothing new: the search is the dearest step of a tick.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups


class LastDiagnosis:
    """As `diagnose`, with the hard modes; the verdicts are read-only."""

    def __init__(self) -> None:
        self._made_of: Observations = {}
        self._silence: float | None = None
        self._found: list[FaultVerdict] | None = None

    def clear(self) -> None:
        """Rows stand for something else now: groups may have changed in place."""
        self._found = None

    def of(self, observations: Observations, silence: float) -> list[FaultVerdict]:
        agents = observations.get(SymptomType.AGENT_SILENT)
        rate = silence if agents is not None and len(agents.rows) else None  # else nothing depends on it
        if self._found is None or rate != self._silence or not _same_input(self._made_of, observations):
            self._found = diagnose(observations, silence)
        # what is equal is kept as well: rows in the same place are compared by identity at the next tick
        self._made_of, self._silence = dict(observations), rate
        return list(self._found)


def _same_input(one: Observations, other: Observations) -> bool:
    """The order of the types counts: it decides between equal alternatives."""
    return list(one) == list(other) and all(map(_same, one.values(), other.values()))


def _same(one: Observation, other: Observation) -> bool:
    return (
        _equal(one.rows, other.rows)
        and _equal(one.onset, other.onset)
        and _equal(one.known, other.known)
        and _equal(one.before, other.before)
        and _same_groups(one.groups, other.groups)
    )


def _same_groups(one: Groups, other: Groups) -> bool:
    return one is other or (_all_equal(one.ids, other.ids) and _all_same(one.many, other.many))


def _all_equal(one: Mapping[str, NDArray[np.int32]], other: Mapping[str, NDArray[np.int32]]) -> bool:
    return one.keys() == other.keys() and all(_equal(ids, other[domain]) for domain, ids in one.items())


def _all_same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return one.keys() == other.keys() and all(groups is other[domain] for domain, groups in one.items())


def _equal(one: NDArray[np.generic] | None, other: NDArray[np.generic] | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)
