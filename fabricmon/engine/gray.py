"""Loss that only ports tell of, and no hard fault explains: which part of the fabric loses packets? Pure.

A port cannot say where its packets were lost, so the answer is the part whose ports lose and whose neighbours do not,
and never finer than that (detection-methods 4.7). Hypotheses of one network are compared: nothing but background, one
link, a leaf, the spines of a pod, the top switches of a plane, the network as a whole. Under each, ports inside lose
with the probability that the kind of fault gives them, and ports outside with the share that is seen outside: that is
the empirical background of 4.6, which also holds what the fault does to peers elsewhere. How much is lost decides
between parts that contain each other: all that a port of a gray leaf sends goes through that leaf, and only some of
what ports elsewhere send. One verdict a network and window at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.causes import GRAY_MODES, PEERS, Mode
from fabricmon.engine.diagnose import AMBIGUOUS, Alternative, Facts, Verdict
from fabricmon.engine.search import Floats, Ints

Mask = NDArray[np.bool_]

WEAK = 1e-5
"""Share of packets from which a loss may be of the fabric (3.5): timers that fire without one tell of dead peers."""
BACKGROUND = 1e-3
"""Share of lossy ports that may be mere background: ten times the false rate of the detector [D]."""
LEAST = {"link": 1, "leaf": 2, "pod": 3, "plane": 3, "network": 6}
"""Lossy ports from which a part is considered [D]."""
SHARE = {"link": 1.0, "leaf": 0.6, "pod": 0.03, "plane": 0.02, "network": 0.05}
"""Share of the observed ports of a part that must lose: all traffic of a port goes through its leaf; of its few flows
one or none goes through a given switch above [D]."""
STANDS_OUT = 1.25
"""Times the loss elsewhere that the loss inside a part should be, so that it is this part and not what is above it [D]:
a port elsewhere sends only some of its packets into a part, at most half where there are two parts."""
LINK_STANDS_OUT = 3.0
"""The same of one port: its peers lose only what they send to it [D]."""
WEIGHT = 30.0
"""Nats per e-fold of that ratio, within +-MOST [D]: shares of packets are counted from hundreds of losses."""
MOST = 25.0


@dataclass(slots=True)
class _Hypothesis:
    mode: Mode
    group: int
    score: float
    rows: Ints


def gray(lossy: Facts, ratio: Floats) -> list[Verdict]:
    """At most one verdict for each network.

    lossy  of EL on PORT rows, less what hard faults explain
    ratio  per row share of packets lost
    """
    ids = {domain: np.asarray(lossy.groups.ids[domain]) for domain in ("link", "leaf", "pod", "plane", "network")}
    bad = np.zeros(len(lossy.known), np.bool_)
    with np.errstate(invalid="ignore"):
        bad[lossy.rows] = ratio[lossy.rows] >= WEAK
    found: list[Verdict] = []
    for network in np.unique(ids["network"][bad]).tolist():
        inside = np.flatnonzero((ids["network"] == network) & (lossy.known | bad))
        if network >= 0:
            verdict = _of_network(lossy, inside, bad, {d: of[inside] for d, of in ids.items()}, ratio[inside])
            found += [verdict] if verdict is not None else []
    return found


def _of_network(
    lossy: Facts, rows: Ints, bad: Mask, ids: dict[str, NDArray[np.int32]], ratio: Floats
) -> Verdict | None:
    """rows  observed PORT rows of the network; ids and ratio are theirs"""
    shows = bad[rows]
    ratio = np.where(shows, np.nan_to_num(ratio), 0.0)
    count, size = int(shows.sum()), len(rows)
    nothing = _log(count, size, BACKGROUND)
    hypotheses: list[_Hypothesis] = []
    for mode in GRAY_MODES:
        groups = ids[mode.domain]
        for group in np.unique(groups[shows]).tolist():
            mine = groups == group
            if group < 0 or (mode.domain == "network" and not _several(ids["plane"], shows)):
                continue
            k, m = int(shows[mine].sum()), int(mine.sum())
            if k < LEAST[mode.domain] or k < SHARE[mode.domain] * m:
                continue
            outside = _log(count - k, size - m, _elsewhere(mode, count - k, size - m, k))
            within = _log(k, m, max(mode.q["EL"], k / m) if mode.domain in ("link", "leaf") else k / m)
            score = within + outside - mode.cost + _contrast(mode, mine, ids, shows, ratio) - nothing
            hypotheses.append(_Hypothesis(mode, group, score, rows[mine & shows]))
    if not hypotheses:
        return None
    hypotheses.sort(key=lambda h: (-h.score, h.mode.name, h.group))
    best = hypotheses[0]
    if best.score <= 0.0:
        return None
    top = best.score
    total = exp(-top) + sum(exp(h.score - top) for h in hypotheses)
    near = [h for h in hypotheses if h.score >= top - AMBIGUOUS]
    others = tuple(Alternative(h.mode, h.group, h.score) for h in hypotheses[1:])
    explained = best.rows
    began = lossy.onset[np.isin(lossy.rows, explained)]
    inside = lossy.rows[np.isin(lossy.rows, rows)]
    return Verdict(
        modes=(best.mode,),
        group=best.group,
        confidence=min(1.0, sum(exp(h.score - top) for h in near) / total),
        alone=min(1.0, 1.0 / total),
        gain=best.score,
        explained={"EL": explained},
        onset=float(began.min()),
        silent={"EL": int((ids[best.mode.domain] == best.group).sum()) - len(explained)},
        rivals=tuple(Alternative(h.mode, h.group, h.score) for h in near[1:]),
        best_other=others[0] if others else None,
        effects={"EL": np.setdiff1d(inside, explained)},
    )


def _log(count: int, size: int, p: float) -> float:
    """Log-likelihood of `count` lossy ports among `size` that each lose with probability p."""
    p = min(max(p, BACKGROUND), 1.0 - 1e-3)
    return count * log(p) + (size - count) * log(1.0 - p)


def _elsewhere(mode: Mode, count: int, size: int, inside: int) -> float:
    """Share of ports elsewhere that lose: what is seen, at most what the peers of those inside can make."""
    if not size:
        return BACKGROUND
    most = min(1.0, 2.0 * PEERS * inside / size) if mode.domain == "link" else 1.0
    return min(count / size, most)


def _several(plane: NDArray[np.int32], shows: Mask) -> bool:
    """A network is blamed as a whole where it has no planes, or where several of them lose."""
    return bool((plane < 0).all()) or len(np.unique(plane[shows & (plane >= 0)])) > 1


def _contrast(
    mode: Mode, mine: Mask, ids: dict[str, NDArray[np.int32]], shows: Mask, ratio: Floats
) -> float:
    """Nats by which the amounts speak for this part, rather than for what is around it."""
    if mode.domain not in ("link", "leaf"):
        return 0.0
    around = ids["plane"] == ids["plane"][mine][0] if (ids["plane"][mine] >= 0).any() else np.ones(len(mine), np.bool_)
    rest = around & ~mine & shows
    if not rest.any():
        return 0.0
    inside = float(np.median(ratio[mine & shows]))
    if mode.domain == "link":
        outside, needed = float(ratio[rest].max()), LINK_STANDS_OUT
    else:
        parts = ids[mode.domain][rest]
        outside = max(float(np.median(ratio[rest][parts == part])) for part in np.unique(parts).tolist())
        needed = STANDS_OUT
    if outside <= 0.0 or inside <= 0.0:
        return 0.0
    return float(np.clip(WEIGHT * (log(inside / outside) - log(needed)), -MOST, MOST))
