"""Input of the diagnosis: rows that show a symptom, rows that could, and their groups. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.domains.groups import Floats, Groups, Ints, Mask


@dataclass(slots=True)
class Observation:
    """The rows of one symptom type.

    groups  of the table's rows
    rows    int[k], rows that show the symptom, each once
    onset   float[k], wall time at which it began
    known   bool[n], rows that would show it if they had it; the rest is unobserved and no evidence
    before  float[k], wall time from which on it may have begun: its row was last seen without it; None: at `onset`
    place   int[orders, k], of hosts in each order of their names, -1 unknown; None: of none
    alike   int[k], of links that flap a number that those share which fell together again and again, -1 none; None: of
            none
    beside  float[k], of links that flap the chance that others fell with them for reasons of their own; None: 1.0
    """

    groups: Groups
    rows: Ints
    onset: Floats
    known: Mask
    before: Floats | None = None
    place: Ints | None = None
    alike: Ints | None = None
    beside: Floats | None = None


Observations = Mapping[SymptomType, Observation]
