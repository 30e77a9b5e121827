"""In which ways things begin together: the table of the unknown common causes (common_cause.py). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import ONE_CAUSE, Mode
from fabricmon.engine.diagnosis.group_modes import TOGETHER_MODES
from fabricmon.engine.domains.learned_groups import TOGETHER
from fabricmon.model import Kind

T = SymptomType


@dataclass(frozen=True, slots=True)
class Phenomenon:
    """One way in which things begin together.

    types   symptom types that show it; a verdict with one of an earlier row belongs there
    within  seconds
    joins   seconds after the first beginning until which later ones join: of a setting at any time
    trails  the same of parts of which no map shows the leaf
    only_groups  single parts show it for reasons of no fault
    without  types that none of it shows: who shows one is of another row
    unmapped  only such parts: where a map locates it, a known cause explains it or it is many
    pairs     two of such parts are enough: they fail at once, or fall together again and again
    local     of what is in one place: what began far from the rest has another cause (neighbours.py)
    moment    of what stops at one moment: what began at another one than most has another cause (moments.py)
    """

    mode: Mode
    types: frozenset[SymptomType]
    within: float
    table: Kind = Kind.PORT
    only_groups: bool = False
    joins: float = 0.0
    trails: float = 0.0
    without: frozenset[SymptomType] = frozenset()
    unmapped: bool = False
    pairs: bool = False
    local: bool = False
    moment: bool = False


FLAPPING = frozenset({T.LINK_FLAPPING, T.LINK_FELL})
FRESH = 600.0
"""Seconds after which a beginning is in no new cause (design choice): flaps show within minutes."""
PHENOMENA: tuple[Phenomenon, ...] = (
    Phenomenon(TOGETHER_MODES[0], frozenset({T.AGENT_SILENT}), TOGETHER, Kind.NODE, pairs=True, local=True,
               moment=True),
    # ports of a switch that flaps show it one after the other, as long as it may take a leaf that restarts
    Phenomenon(TOGETHER_MODES[1], FLAPPING, TOGETHER, trails=FRESH, pairs=True, local=True),
    # no cable and no switch makes an adapter fail
    Phenomenon(TOGETHER_MODES[2], frozenset({T.LINK_DOWN}), TOGETHER, without=frozenset({T.NIC_FAULT}), pairs=True,
               local=True),
    Phenomenon(TOGETHER_MODES[10], frozenset({T.NIC_FAULT}), TOGETHER, local=True),
    # heat makes errors begin over many minutes
    Phenomenon(TOGETHER_MODES[3], frozenset({T.LINK_ERRORS}), ONE_CAUSE, joins=FRESH, pairs=True, local=True),
    Phenomenon(TOGETHER_MODES[4], frozenset({T.CONGESTION}), ONE_CAUSE, only_groups=True),
    Phenomenon(TOGETHER_MODES[5], frozenset({T.PCIE_DEGRADED}), ONE_CAUSE, Kind.PCIE, joins=inf),
    Phenomenon(TOGETHER_MODES[6], frozenset({T.LINK_DEGRADED}), ONE_CAUSE),
    Phenomenon(TOGETHER_MODES[7], frozenset({T.PAUSING}), ONE_CAUSE),
    Phenomenon(TOGETHER_MODES[8], frozenset({T.NVLINK_DOWN, T.NVLINK_ERRORS, T.GPU_FABRIC}), ONE_CAUSE, Kind.GPU),
    Phenomenon(TOGETHER_MODES[9], frozenset({T.FLOW_LOSS}), ONE_CAUSE, Kind.FLOW, trails=FRESH, unmapped=True),
)
