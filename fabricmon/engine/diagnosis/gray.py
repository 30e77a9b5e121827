"""Loss on ports that no hard fault explains: the part of the fabric that loses packets (docs/methods.md#gray-loss).
Which parts may, and how likely each is: lossy_parts.py. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import UNMAPPED_LOSS
from fabricmon.engine.diagnosis.diagnose import AMBIGUOUS, IN_SERIES
from fabricmon.engine.diagnosis.lossy_parts import (
    ABOVE,
    BETWEEN_LEAVES,
    ENDS,
    FALSE,
    LEAST,
    NO_PEER,
    STRONG,
    WHOLE,
    LossyPart,
    PortsInPlace,
    lossy_parts,
)
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.rails_of_losses import accounted
from fabricmon.engine.diagnosis.verdict import Alternative, FaultVerdict
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.transit import LeafCables

WEAK = 1e-5
"""Share of packets from which a loss may be of the fabric: timeouts below it are of dead peers."""
LASTING = 60.0
"""Seconds, six windows, after which a loss that goes on has been detected again, twice over."""
PARTS = 4
"""Most parts of a plane that an incident names: the two ends of a few cables (design choice)."""
PLACES = ("link", "nic", "leaf", "pod", "plane", "network")
SURE = 0.9  # docs/methods.md#confidence


def gray(
    lossy: Observation, ratio: Floats, towards: Mask, rails: Ids | None = None, islands: Ids | None = None,
    read: Floats | None = None, transit: LeafCables | None = None, works: Mask | None = None,
) -> list[FaultVerdict]:  # fmt: skip
    """At most one verdict for each network and leaf that is joined to no other, or for all ports where no map shows
    one; another one for rails that have nothing to do with a lossy port.

    lossy    losses of PORT rows, less what hard faults explain
    ratio    per row share of packets lost
    towards  rows to which packets were lost
    rails    per row the number of its rail, the same in all units, -1 unknown
    islands  per row the leaf that all its packets stay below, -1 none
    read     per row wall time of the newest window of its losses, NaN unknown
    transit  cables between leaves
    works    rows that are known to be at work
    """
    every = replace(_in_place(lossy, ratio, towards, rails, read), transit=transit)
    every = every if works is None else replace(every, works=works)
    bad, ids = every.shows, every.ids
    first = int(ids["network"].max(initial=-1)) + 1  # islands are numbered after the networks
    apart = ids["network"] if islands is None else np.where(islands >= 0, first + islands, ids["network"])
    found: list[FaultVerdict] = []
    mapped = bool((ids["network"][lossy.known | bad] >= 0).any())
    if (bad & (apart < 0)).any() and len(np.unique(apart[apart >= 0])) == 1:  # of the only network
        every = _with_unmapped(every, apart >= 0)
        apart = np.full_like(apart, apart.max())
    for network in np.unique(apart[bad]).tolist():
        rows = np.flatnonzero((apart == network) & (lossy.known | bad))
        if network < 0:  # a part above may be of some rails only; beside a map these are too few
            rows = rows[:0] if mapped else rows[np.isin(every.rails[rows], every.rails[bad])]
        while bad[rows].any():
            here = _part(every, rows, network >= first)
            if (verdict := _verdict(lossy, here)) is None:
                break
            if verdict.domain in (*ABOVE, *WHOLE) or (here.island and verdict.domain == "leaf"):
                verdict = _with_receivers(verdict, ids[verdict.domain] == verdict.group, towards, every.rails)
            rows = _elsewhere(verdict, here)
            found.append(_of_its_rails(verdict, rows))
    return found


def _in_place(
    lossy: Observation, ratio: Floats, towards: Mask, rails: Ids | None, read: Floats | None
) -> PortsInPlace:
    """All ports, of whatever network."""
    bad = np.zeros(len(lossy.known), np.bool_)
    with np.errstate(invalid="ignore"):
        bad[lossy.rows] = ratio[lossy.rows] >= WEAK
    ids = {domain: np.asarray(lossy.groups.ids[domain]) for domain in PLACES}
    ids[UNMAPPED_LOSS.domain] = np.zeros(len(bad), np.int32)
    return PortsInPlace(
        np.arange(len(bad)), bad, ratio, ids, np.bincount(ids["leaf"] + 1)[1:], towards[: len(bad)],
        np.full(len(bad), -1, np.int32) if rails is None else rails, _false(lossy, bad), False, _lasting(lossy, read),
        np.ones(len(bad), np.bool_), np.zeros(len(bad), np.bool_),
    )  # fmt: skip


def _with_unmapped(every: PortsInPlace, mapped: Mask) -> PortsInPlace:
    """The ports, some of which a map lacks: their rails are unknown, unless mapped ports have rails of such names."""
    comparable = mapped | np.isin(every.rails, every.rails[mapped])
    return replace(every, mapped=mapped, rails=np.where(comparable, every.rails, -1).astype(np.int32))


def _false(lossy: Observation, bad: Mask) -> float:
    """Share of all ports that the detector may find lossy by error."""
    return FALSE * int(bad.sum()) / max(1, int((lossy.known | bad).sum()))


def _lasting(lossy: Observation, read: Floats | None) -> Mask:
    """Rows that have lost packets for LASTING, by their last reading."""
    found = np.zeros(len(lossy.known), np.bool_)
    if read is not None:
        with np.errstate(invalid="ignore"):
            found[lossy.rows] = read[lossy.rows] - lossy.onset >= LASTING
    return found


def _elsewhere(verdict: FaultVerdict, here: PortsInPlace) -> Ints:
    """Rows of other rails than that of a lossy port whose peers on its rail account for it: who else loses packets
    loses them by something else."""
    mine = np.isin(here.rows, verdict.explained[SymptomType.PACKET_LOSS])
    if verdict.domain in ENDS and verdict.confidence >= SURE and accounted(here.rails, here.ratio, mine, here.shows):
        return here.rows[~np.isin(here.rails, here.rails[mine])]
    return np.empty(0, np.int64)


def _of_its_rails(verdict: FaultVerdict, elsewhere: Ints) -> FaultVerdict:
    effects = np.setdiff1d(verdict.effects[SymptomType.PACKET_LOSS], elsewhere)
    return replace(verdict, effects={SymptomType.PACKET_LOSS: effects}) if len(elsewhere) else verdict


def _part(every: PortsInPlace, rows: Ints, island: bool) -> PortsInPlace:
    """What `every` is of all ports, of some of them. Ports of several islands that have lost their peers have lost a
    host, which is on all of them: none of their links."""
    beyond = every.shows.copy()
    beyond[rows] = False
    gone = every.ratio >= NO_PEER
    shows = every.shows[rows] & ~gone[rows] if island and gone[beyond].any() else every.shows[rows]
    return replace(
        every, rows=rows, shows=shows, ratio=every.ratio[rows],
        ids={domain: of[rows] for domain, of in every.ids.items()}, towards=every.towards[rows],
        rails=every.rails[rows], island=island, lasts=every.lasts[rows], mapped=every.mapped[rows],
        works=every.works[rows], strong_beyond=island and bool((every.ratio[beyond] >= STRONG).any()),
    )  # fmt: skip


def _verdict(lossy: Observation, here: PortsInPlace) -> FaultVerdict | None:
    hypotheses = lossy_parts(here)
    if not any(len(h.rows) for h in hypotheses):
        return None
    top = hypotheses[0].score
    total = exp(-top) + _mass(hypotheses, top)
    best, mine, sure, near = _chosen(hypotheses, total)
    if len(best.rows) < LEAST[best.mode.domain]:
        return None
    series = [h for h in sure if h.group != best.group and h.mode.domain == best.mode.domain == "link"]
    series = [h for h in series if h.score >= best.score - log(2)][: IN_SERIES - 1]
    alternatives = tuple(Alternative(h.mode, h.group, h.score) for h in hypotheses if h not in (*mine, *series))
    inside, members = here.rows[here.shows], int((here.ids[best.mode.domain] == best.group).sum())
    return FaultVerdict(
        modes=(best.mode,),
        group=best.group,
        confidence=min(1.0, _mass(sure, top) / total),
        alone=min(1.0, _mass(mine, top) / total),
        gain=best.score,
        some=1.0 - exp(-top) / total,
        explained={SymptomType.PACKET_LOSS: best.rows},
        onset=float(lossy.onset[np.isin(lossy.rows, best.rows)].min()),
        silent={SymptomType.PACKET_LOSS: max(0, members - len(best.rows))},
        rivals=alternatives[: sum(h not in series for h in near)],
        best_other=alternatives[0] if alternatives else None,
        effects={SymptomType.PACKET_LOSS: np.setdiff1d(inside, best.rows)},
        within=_likely_parts(best, mine) if best.mode.domain in WHOLE else (),
        series=tuple(h.group for h in series),
    )


def _chosen(
    hypotheses: Sequence[LossyPart], total: float
) -> tuple[LossyPart, list[LossyPart], list[LossyPart], list[LossyPart]]:
    """The part that is named, those that its name covers, those that it is sure with, and those as probable."""
    top = hypotheses[0].score
    # never finer than the evidence: a part that cannot be separated from the plane is the plane
    own = [h for h in hypotheses if len(h.rows)]
    best = next((h for h in own if h.mode.domain == "plane" and h.score >= top - AMBIGUOUS), own[0])
    best, mine = _named(best, hypotheses, SURE * total, top)
    near = [h for h in hypotheses if h not in mine and h.score >= top - AMBIGUOUS]
    ends = [h for h in near if h.mode.domain in ENDS and best.mode.domain in ENDS]
    if any(h.mode is BETWEEN_LEAVES for h in (best, *ends)):  # no cable is sure with more than are named
        ends = [h for h in ends if h.score >= best.score - log(2)][: IN_SERIES - 1]
    same_end = mine + [h for h in ends if np.array_equal(h.rows, best.rows)]
    if _mass(same_end, top) < SURE * total:
        # of many parts of a plane none is likely, but that it is one of them is
        whole = [h for h in hypotheses if h.mode.domain in WHOLE and len(h.rows) >= LEAST[h.mode.domain]]
        wide = max(whole, key=lambda h: h.score, default=best)
        above = [h for h in hypotheses if h.mode.domain not in ENDS or h.mode is BETWEEN_LEAVES]
        above = [h for h in above if np.isin(h.rows, wide.rows).all()]
        others = [h for h in above if h not in same_end]
        if best.mode.domain not in ENDS or _mass(same_end, top) < _mass(others, top):
            best, near = wide, []
            mine = above if best.mode.domain in WHOLE else [best]
    return best, mine, mine if best.mode.domain in WHOLE else same_end, near


def _likely_parts(whole: LossyPart, covered: Sequence[LossyPart]) -> tuple[Alternative, ...]:
    """The parts of a plane or network that have SURE of its probability together, the likeliest first; none where it
    may be the plane itself, or where they are more than PARTS.

    covered  the plane and the parts that its name stands for
    """
    top = max(h.score for h in covered)
    if whole.score >= top - AMBIGUOUS:
        return ()
    left, found, total = list(covered), list[LossyPart](), _mass(covered, top)
    while _mass(left, top) > (1.0 - SURE) * total:
        best, mine = _named(max(left, key=lambda h: h.score), left, SURE * total, top)
        found.append(best)
        left = [h for h in left if h not in mine]
    few = len(found) <= PARTS and whole not in found
    return tuple(Alternative(h.mode, h.group, h.score) for h in found) if few else ()


def _mass(hypotheses: Sequence[LossyPart], top: float) -> float:
    """Probability of any of them, relative to that of one with the score `top`."""
    return sum(exp(h.score - top) for h in hypotheses)


def _named(
    best: LossyPart, hypotheses: Sequence[LossyPart], sure: float, top: float
) -> tuple[LossyPart, list[LossyPart]]:
    """The hypothesis that names a part, and those that its name covers: `uplinks` of a leaf also the leaf itself, which
    is named where it alone is sure."""
    part = [h for h in hypotheses if (h.mode.domain, h.group) == (best.mode.domain, best.group)]
    mine = [h for h in part if h.mode.word == best.mode.word]
    wider = [h for h in part if h.mode.word == "uplinks"]
    if best.mode.word == "leaf" and wider and _mass(mine, top) < sure:
        return wider[0], part
    return best, part if best.mode.word == "uplinks" else mine


def _with_receivers(verdict: FaultVerdict, inside: Mask, towards: Mask, rails: Ids) -> FaultVerdict:
    """What is above the leaves touches both ends of a flow: the port that sends again, and the one it sends to, which
    is on a rail on which others send again."""
    losing, before = verdict.explained[SymptomType.PACKET_LOSS], verdict.effects[SymptomType.PACKET_LOSS]
    ends = inside & towards[: len(inside)] & np.isin(rails, rails[losing])
    rows = np.setdiff1d(np.flatnonzero(ends), losing)
    return replace(verdict, effects={SymptomType.PACKET_LOSS: np.union1d(before, rows)})
