"""The present state of one cause: input of the situation. Pure data."""

from __future__ import annotations

from msgspec import Struct

from fabricmon.catalogue.kinds import kind_of, of_traffic
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import ComponentId, Evidence, Impact, Members, RuledOut, Severity

LINGER = 120.0
"""Seconds for which a group keeps its claims without evidence for the group (docs/methods.md#boot-grace): a leaf that
comes back trains its links one after the other."""
PARTS = 64  # names of bad members in an incident
FEW = 2
"""Bad members up to which a former group is no group: they have incidents of their own
(docs/design/incidents-one-cause.md)."""


def sharper(family: str, old: str, new: str) -> bool:
    """Whether `new` is above `old` in the family's order, or another kind of a family without an order."""
    before, after = (kind_of(kind).order.get(family) for kind in (old, new))
    if before is None or after is None:
        return new != old
    return after > before


class IncidentDraft(Struct, frozen=True, kw_only=True):
    """One incident as it should be now.

    identity   component without facts that may come later (a link's far end); with `family` it makes the id
    claims     the open symptoms it explains
    effects    those of them that it made on traffic, as lost packets, and missing devices of its host: they end later
               than what made them
    shows      those of them of its kind: while one of them is open, the kind is right
    notice     of symptoms that no cause explains: it makes none of them evidence
    group      a component of several links: it absorbs the incidents of its members
    onset      wall time of the earliest symptom
    wait       most seconds from its first draft for which it does not open while `unsettled`
    unsettled  why it has to wait, "" if not
    linger     seconds for which a group keeps its claims without evidence for the group
    calm       seconds without an open symptom before it is resolved
    series     seconds for which what a group that falls again and again lacks now is a member of it
    covered    id of the maintenance window that covers it, "" for none: it is not opened
    impact     affected jobs, None unknown
    ruled_out  other causes that were considered
    """

    family: str
    identity: str
    component: str
    kind: str
    severity: Severity = Severity.INFO
    confidence: float = 1.0
    title: str
    why: str
    action: str
    evidence: tuple[Evidence, ...]
    members: Members = Members(1, 1)
    claims: frozenset[SymptomKey] = frozenset()
    effects: frozenset[SymptomKey] = frozenset()
    shows: frozenset[SymptomKey] = frozenset()
    onset: float
    labels: dict[str, str] = {}
    candidates: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    notice: bool = False
    group: bool = False
    wait: float = 0.0
    unsettled: str = ""
    linger: float = 0.0
    calm: float = 0.0
    series: float = 0.0
    covered: str = ""
    impact: Impact | None = None
    ruled_out: tuple[RuledOut, ...] = ()

    @property
    def own(self) -> frozenset[SymptomKey]:
        """The claims without its effects on traffic; all of them where it has no others."""
        return self.claims - self.effects or self.claims

    @property
    def passing(self) -> frozenset[SymptomKey]:
        """The effects that do not keep it open without a draft: those of a group, else those on other components."""
        own = frozenset() if self.group else {key.component for key in self.own}
        return frozenset(key for key in self.effects if key.component not in own)

    @property
    def of_traffic(self) -> bool:
        return of_traffic(self.kind, self.labels)

    @property
    def components(self) -> set[ComponentId]:
        """Components of the symptoms that it explains."""
        return {key.component for key in self.claims}
