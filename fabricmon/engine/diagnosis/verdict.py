"""What the diagnosis finds of one broken component. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import LOSSES, Mode
from fabricmon.engine.domains.groups import Ints

DECIBAN = 10.0 / log(10.0)  # decibans per nat


@dataclass(frozen=True, slots=True)
class Alternative:
    mode: Mode
    group: int
    gain: float


@dataclass(frozen=True, slots=True)
class FaultVerdict:
    """A broken component.

    modes       its active modes, the one with the greatest gain first
    confidence  all modes of the component and of its ambiguity group together
    alone       the component's share of it
    gain        nats by which the first mode improves the hypothesis
    explained   symptom type -> rows
    onset       earliest onset among them
    silent      symptom type -> observed members without it, the counter-evidence
    rivals      ambiguity group, best first: other components within ln 10
    best_other  the best alternative of another component, near or not
    unlikely    other components that would explain all of it, beyond ln 10; best first, at most UNLIKELY
    apart       number of single members that would explain it together, and nats by which that is worse; None without
    seen        peers lose packets towards it
    unseen      whether peers lose packets towards it is not known yet and would separate it from a rival
    gathering   others began at the same time; more may follow and have a common cause
    effects     symptom type -> rows outside the component with effects of this cause
    cables      of a switch that loses packets on some of its cables, these (groups of "link"), ...
    observed    ... and how many of its cables are observed
    maintained  a component under maintenance that the topology does not know and that this probably is; "" none
    some        of losses that ports alone see: probability that there is a fault at all, whichever it is
    series      other cables through which all goes that a lossy one explains, and as probable: it is one of them all
    within      of a plane or network that loses packets, the few parts of it that are likely, best first; () where it
                may be all of it, or many
    apiece      of several parts of a switch without a common port a verdict on each, the first with the greatest gain
    warmer      degrees by which the modules of its members are hotter than the median of all, 0 not or unknown
    """

    modes: tuple[Mode, ...]
    group: int
    confidence: float
    alone: float
    gain: float
    explained: Mapping[SymptomType, Ints]
    onset: float
    silent: Mapping[SymptomType, int]
    rivals: tuple[Alternative, ...]
    best_other: Alternative | None
    effects: Mapping[SymptomType, Ints] = field(default_factory=dict)
    seen: bool = False
    unseen: bool = False
    unlikely: tuple[Alternative, ...] = ()
    apart: tuple[int, float] | None = None
    gathering: bool = False
    cables: tuple[int, ...] = ()
    observed: int = 0
    maintained: str = ""
    warmer: float = 0.0
    some: float = 0.0
    within: tuple[Alternative, ...] = ()
    series: tuple[int, ...] = ()
    apiece: tuple[FaultVerdict, ...] = ()

    @property
    def mode(self) -> Mode:
        return self.modes[0]

    @property
    def domain(self) -> str:
        return self.modes[0].domain

    @property
    def only_losses(self) -> bool:
        """Loss is its only evidence."""
        return self.explained.keys() <= LOSSES

    @property
    def odds_text(self) -> str:
        """Its gain: "gain 12.3 nats (53 decibans, odds 10^5)"."""
        return f"gain {self.gain:.1f} nats ({self.gain * DECIBAN:.0f} decibans, odds 10^{self.gain / log(10.0):.0f})"
