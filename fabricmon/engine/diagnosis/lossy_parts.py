"""The parts of a network that may make its ports lose packets, and how likely each is (gray.py chooses). Pure.

Method: docs/methods.md#gray-loss; the numbers are design choices. Flows go both ways, so of the ports that a part
above them makes lose, half are inside it as long as it has enough of them, and the others talk to those. Without such a
part they are spread as the ports that have traffic are: the background within which a finer part has to stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GRAY_MODES, LEAK, PEERS, UNMAPPED_LOSS, Mode
from fabricmon.engine.diagnosis.loss_amounts import (
    LINK_STANDS_OUT,
    STANDS_OUT,
    are_alike,
    contrast,
    may_lose_all,
    most_alike,
    of_all_ports,
    of_half,
    single_peers,
)
from fabricmon.engine.diagnosis.rails_of_losses import SMALLEST, in_common, mixed, on_one_rail, shared, spread
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.transit import LeafCables

NO_PEER = 0.5
"""Share of packets from which connections cannot live: at one half one packet in 256 is lost with all of 7 retries
(RDMA's most), so they end within seconds. Who loses so much for longer sends to a peer that is gone, and is no evidence
for a part above the leaves, through which only some of its packets go (docs/methods.md#gray-loss)."""
STRONG = 5e-3
"""Share of packets of a strong loss (docs/methods.md#packet-loss)."""
BACKGROUND = 5e-4
"""Share of lossy ports that may be mere background: five times the false rate of the detector."""
FALSE = 0.01
"""Share of false ones among all ports that the detector finds lossy (docs/methods.md#packet-loss, `discovery`)."""
LASTS = -log(5 * FALSE)
"""Nats of that: FALSE of what a detection finds is by error, five times that with room for misreadings. Once, however
long it lasts: a misreading may last, too."""
LEAST = {"link": 1, "nic": 2, "leaf": 2, "pod": 3, "plane": 2, "network": 6, UNMAPPED_LOSS.domain: 6}
"""Lossy ports from which a part is considered."""
NOMINAL = 1e-4
"""Share of lossy ports by the detector's own false rate. Evidence of places and amounts counts up to the evidence
of so many lossy ports against it."""
INSIDE = 0.6
"""Share of the lossy flows' ends that are inside a pod that makes them lose: one half by symmetry, and those that
talk with one another inside."""
SHARES = tuple(0.05 + 0.1 * step for step in range(10))
"""Shares of the senders and of the receivers of the lossy flows that may be inside a leaf, of its uplinks and of a part
of it: all are taken as equally likely."""
PART_LEAST = 3
"""A leaf of which a part loses packets has one in so many of the lossy ports of its plane; with fewer its uplinks
explain them as well."""
DISTINCT = {"leaf": 0.25, "pod": 0.4}
"""A part that has a larger share of its plane's ports cannot be separated from the plane by places: of two leaves,
either is at one end of every flow that crosses. A leaf all of whose ports lose may be so by amounts."""
CERTAIN = 40.0
"""The same of a share of those inside."""
ALL = 0.9
"""Probability that a port below a gray leaf loses packets, from which it is all of the leaf (causes.py)."""
GRAY_LEAST = 8
"""Lossy ports of a gray leaf, or all that it has: a few may be one job that talks to another leaf only."""
GRAY_FEW = 3
"""The same where they lose LINK_STANDS_OUT times what others lose, which no fault above both leaves does."""
GRAY_LEAF = 0.8
"""Share of a leaf's ports, rounded down, that lose when the leaf itself is gray, and not something above it. They
lose alike, too."""
BOTH_ENDS = 0.95
"""Chance that packets to a lossy port are seen to be lost, too, where that is seen of any port (design choice); of
a port that only talks to it one half, as flows have two ends."""
ABOVE = ("pod", "plane")
"""Domains above the leaves."""
WHOLE = ("plane", "network", UNMAPPED_LOSS.domain)
WITHIN_A_RAIL = ("link", "nic", "leaf")
"""Domains below one leaf, whose traffic stays in their rail where leaves have one rail each."""
ENDS = ("link", "nic")
"""One port: its losses do not separate its cable from its adapter."""
TO_ITS_PORT = next(mode for mode in GRAY_MODES if mode.name == "link losing packets to its port")
"""A link of which only the port's peers lose packets: one way, the other end of what `link losing packets` is."""

BETWEEN_LEAVES = next(mode for mode in GRAY_MODES if mode.name == "cable between leaves losing packets")
OF_A_LEAF = next(mode for mode in GRAY_MODES if mode.name == "leaf losing packets")


@dataclass(slots=True)
class LossyPart:
    """A part that may make ports lose packets: its mode and group; the nats by which it is likelier than background,
    less those of its prior; and the PORT rows of it that lose: none where only packets to it are lost."""

    mode: Mode
    group: int
    score: float
    rows: Ints


@dataclass(slots=True)
class PortsInPlace:
    """The observed ports of one network: PORT rows, whether they lose, how much, and their groups; of every leaf how
    many ports it has, observed or not; to which of the ports packets were lost; their rails; the share of all ports
    that may be found lossy by error; whether the network is one leaf, through which all their packets go; which ports
    have lost packets for long; which ports are in the map; which are known to be at work; whether any on another such
    leaf has a strong loss; and the cables between leaves, where no switch is above these."""

    rows: Ints
    shows: Mask
    ratio: Floats
    ids: dict[str, NDArray[np.int32]]
    sizes: Ints
    towards: Mask
    rails: Ids
    false: float
    island: bool
    lasts: Mask
    mapped: Mask
    works: Mask
    strong_beyond: bool = False
    transit: LeafCables | None = None


def lossy_parts(here: PortsInPlace) -> list[LossyPart]:
    """Those that are likelier than background, the likeliest first."""
    planes = here.ids["plane"]
    with_losses = np.unique(planes[here.shows & here.mapped]).tolist()
    found = [h for plane in with_losses for h in _of_plane(here, (planes == plane) & here.mapped)]
    if not here.island and (len(with_losses) > 1 or (planes < 0).all()):
        found += _whole(here) + _between_leaves(here)
    best: dict[tuple[str, int], LossyPart] = {}  # a port that the map lacks may be of any plane
    for h in sorted(found, key=lambda h: (-h.score, h.mode.name, h.group)):
        best.setdefault((h.mode.name, h.group), h)
    return [h for h in best.values() if h.score > 0.0]


def _between_leaves(here: PortsInPlace) -> list[LossyPart]:
    """Cables between leaves that all lossy flows may go through, where no switch is above these, and such leaves: those
    with lossy ports of their own, which they explain, and others, which only compete."""
    shows = here.shows & here.mapped & ~(here.ratio >= NO_PEER)
    leaf, every = here.ids["leaf"], here.mapped & (here.ids["leaf"] >= 0)
    got, count, size = _receivers(here, every, shows), int(shows.sum()), int(here.mapped.sum())
    if (cables := _cables(here)) is None or not count or not got.any():
        return []
    again, mode = _again(here, shows), BETWEEN_LEAVES
    surprise = again + _surprise(count, size, min(BACKGROUND, 5 * here.false))
    sure = _no_error(mode, here, shows, shows)
    most = max(again + _surprise(count, size, min(NOMINAL, here.false)), sure)
    if count == 1 and got.sum() == 1:  # a flow does not separate the cables that it goes through
        most = min(most, _of_one_port(here, shows, shows, size))
    well = np.bincount(leaf[every & here.works & ~shows & ~got], minlength=len(cables.switch))
    several = len(np.unique(leaf[shows & every])) > 1  # what may stay below one leaf is not lost on its way through it

    def possible(group: int) -> bool:
        mine = leaf == group
        return not (shows & mine).any() or (several and may_lose_all(here.ratio, shows & mine, shows & ~mine))

    common = in_common(cables, leaf, every, shows & every, got, possible)
    weights = [1.0 if one.domain == "link" else max((1.0 - ALL) ** int(well[one.group]), SMALLEST) for one in common]
    found: list[LossyPart] = []
    for one, where, weight in zip(common, mixed([one.where for one in common], weights), weights, strict=True):
        part, mine = (mode, shows) if one.domain == "link" else (OF_A_LEAF, shows & (leaf == one.group))
        score = max(surprise, sure) + min(where, most) + log(weight) - part.cost
        found.append(LossyPart(part, one.group, score, here.rows[mine & (mine.sum() >= LEAST[part.domain])]))
    return found


def _cables(here: PortsInPlace) -> LeafCables | None:
    """Its cables between leaves, if no switch is above these."""
    return None if (here.ids["plane"][here.mapped] >= 0).any() else here.transit


def _surprise(count: int, size: int, background: float) -> float:
    """Nats by which so many lossy ports among so many are more than background."""
    share = min(count / size, 1.0 - 1e-3)
    if share <= background:
        return 0.0
    return count * log(share / background) + (size - count) * log((1.0 - share) / (1.0 - background))


def _again(here: PortsInPlace, shows: Mask) -> float:
    """Nats by which ports that lose packets for long are none that the detector found by error; the reading of one
    alone may mislead for long."""
    count = int((here.lasts & shows).sum())
    return count * LASTS if count > 1 else 0.0


def _whole(here: PortsInPlace) -> list[LossyPart]:
    """All of a network; without a map any part of more than one port, which has no name."""
    shows, network = here.shows & here.mapped & ~(here.ratio >= NO_PEER), int(here.ids["network"].max())
    count = int(shows.sum())
    mode = next(mode for mode in GRAY_MODES if mode.domain == "network") if network >= 0 else UNMAPPED_LOSS
    least = "leaf" if network < 0 or _cables(here) is not None else "network"
    if count < LEAST[least]:
        return []
    surprise = _surprise(count, int(here.mapped.sum()), min(BACKGROUND, 5 * here.false)) + _again(here, shows)
    score = max(surprise, _no_error(mode, here, shows, shows)) - mode.cost
    return [LossyPart(mode, max(network, 0), score, here.rows[shows])]


def _of_plane(here: PortsInPlace, plane: Mask) -> list[LossyPart]:
    """Parts of a plane; a port that the map lacks may be the lossy one, or a peer of it."""
    found: list[LossyPart] = []
    for mode in GRAY_MODES:
        scope = plane | ~here.mapped if mode.domain in ENDS else plane
        every, some = here.shows & scope, here.shows & scope & ~(here.ratio >= NO_PEER)
        whole = mode.domain == "leaf" and here.island
        shows = some if whole or mode.domain in ABOVE or mode.q[SymptomType.PACKET_LOSS] < ALL else every
        count, size = int(shows.sum()), int(scope.sum())
        if mode.domain == "network" or mode is BETWEEN_LEAVES or count < LEAST[mode.domain]:
            continue
        again = _again(here, shows)
        surprise = again + _surprise(count, size, min(BACKGROUND, 5 * here.false))
        most = again + _surprise(count, size, min(NOMINAL, here.false))
        got = _receivers(here, scope, shows)
        ends = got & ~here.shows if mode is TO_ITS_PORT else shows | got if mode.domain == "leaf" else shows
        for group in np.unique(here.ids[mode.domain][ends]).tolist():
            if group < 0:
                continue
            mine = (here.ids[mode.domain] == group) & scope
            where = _where(mode, here, mine, scope, shows)
            if where is not None:
                if mode.domain in WITHIN_A_RAIL:
                    where += on_one_rail(here.rails, mine & ends, plane, shows & plane)
                sure = _no_error(mode, here, mine, shows)
                score = max(surprise, sure) + min(where, max(most, sure)) - mode.cost
                found.append(LossyPart(mode, group, score, here.rows[shows if mode is TO_ITS_PORT else mine & shows]))
    return found


def _no_error(mode: Mode, here: PortsInPlace, mine: Mask, shows: Mask) -> float:
    """Nats of losses that are no errors of the detector, of ports that have not lost their peers: of several strong
    ones; of a strong one for the link of its port, or of the port that it sends to; so of the only lossy port where its
    loss lasts."""
    strong = here.shows & (here.ratio >= STRONG) & ~(here.ratio >= NO_PEER)
    explained = shows if mode is TO_ITS_PORT else mine & shows
    alone = mode.domain == "link" and not here.strong_beyond and not (here.ratio[~explained] >= STRONG).any()
    count = int((strong & (explained if alone else shows)).sum())
    if count > 1 or (count and alone):
        return count * log(ALL / LEAK[SymptomType.LINK_ERRORS])
    lasts = alone and shows.sum() == 1 and bool((here.lasts & explained & ~(here.ratio >= NO_PEER)).any())
    return log(ALL / min(BACKGROUND, 5 * here.false)) + LASTS if lasts else 0.0


def _where(mode: Mode, here: PortsInPlace, mine: Mask, scope: Mask, shows: Mask) -> float | None:
    """Nats of evidence, by places and amounts of the losses, for a part against any part of its plane; None where they
    cannot be separated."""
    if mode.domain == "plane":
        return 0.0
    if mode.domain == "leaf":
        return _of_leaf(mode, here, mine, scope, shows)
    k, m, count, size = int((shows & mine).sum()), int(mine.sum()), int(shows.sum()), int(scope.sum())
    if mode is TO_ITS_PORT:
        elsewhere = (_receivers(here, scope, shows) & ~mine).any()
        return None if elsewhere or count > 2 * PEERS else _of_one_receiver(count, size)
    if mode.domain in ENDS:
        if k < LEAST[mode.domain] or count - k > 2 * PEERS * k:
            return None
        where = _of_one_port(here, mine & shows, shows, size)
        return where if where >= 0.0 else None  # it does not stand out
    if k < LEAST[mode.domain] or m > DISTINCT[mode.domain] * size:
        return None
    inside, parts = _inside(k, m, count - k, size - m, INSIDE), here.ids[mode.domain]
    where = shared((k, count - k), (inside, 1.0 - inside), CERTAIN)
    return where + spread(parts, scope & ~mine, shows) - spread(parts, scope, shows)


def _of_leaf(mode: Mode, here: PortsInPlace, mine: Mask, scope: Mask, shows: Mask) -> float | None:
    """The same for all of a leaf, a part of it, or an uplink."""
    partly = mode.q[SymptomType.PACKET_LOSS] < ALL
    if here.island:  # it is what all flows have in common, and has no uplinks
        return None if partly else 0.0
    # what a switch that carries others' packets, too, makes lose is not around it
    if partly and not (here.ids["plane"][mine] >= 0).any():
        return None
    k, m, got = int((shows & mine).sum()), int(mine.sum()), _receivers(here, scope, shows)
    large = m > DISTINCT["leaf"] * int(scope.sum())
    ends = max(k, int((got & mine).sum())) if mode.word == "uplinks" else k
    if ends < LEAST["leaf"] or (large and partly):
        return None
    uplink, inner = _of_flows(here.ids["leaf"], mine, scope, shows, got)
    if partly:
        return uplink if mode.word == "uplinks" else _of_a_part(here, mine, shows, uplink, inner)
    amounts = _of_all_its_ports(here, mine, shows)
    if amounts is None or (large and amounts <= 0.0):
        return None
    return amounts if large else max(inner, 0.0) + amounts


def _of_all_its_ports(here: PortsInPlace, mine: Mask, shows: Mask) -> float | None:
    """Nats of a leaf all of whose ports lose, by how much they lose; None where they are too few, or unlike."""
    k, least = int((shows & mine).sum()), GRAY_LEAST
    if contrast(here.ratio, mine & shows, shows & ~mine, LINK_STANDS_OUT) > 0.0:
        least = GRAY_FEW
    elif (ports := int(here.sizes[int(here.ids["leaf"][mine][0])])) < least:
        least = ports
    if k < least or k < int(GRAY_LEAF * int(mine.sum())) or not are_alike(here.ratio[mine & shows]):
        return None
    return of_all_ports(here.ratio, mine & shows, shows & ~mine)


def _of_a_part(here: PortsInPlace, mine: Mask, shows: Mask, uplink: float, inner: float) -> float | None:
    """Nats of a leaf that loses some of its packets, given those of its uplinks and of flows that may have both ends
    inside; or by many ports that lose alike, and more than others; the greater of the two."""
    inside = shows & mine
    found: list[float] = []
    alike = inside & most_alike(here.ratio, inside)
    if alike.sum() >= GRAY_LEAST:
        clear = contrast(here.ratio, alike, shows & ~mine, STANDS_OUT)
        found += [max(uplink, 0.0) + clear] if clear > 0.0 else []
    if inside.sum() * PART_LEAST >= shows.sum():
        found.append(inner)
    return max(found, default=None)


def _receivers(here: PortsInPlace, scope: Mask, shows: Mask) -> Mask:
    """Ports of a plane to which packets were lost, of the rails on which some were."""
    return here.towards & scope & np.isin(here.rails, here.rails[shows])


def _of_flows(parts: Ids, mine: Mask, scope: Mask, senders: Mask, receivers: Mask) -> tuple[float, float]:
    """Nats by which the lossy flows are lost on an uplink of a leaf, and in a part of the leaf, rather than above the
    leaves, by the places of the ports that send and receive them.

    A flow over an uplink has one end inside, so both shares add up to 1, whether it loses packets one way or both, and
    where some are sent from inside there are receivers outside, and so on. With flows inside they add up to more. By
    the plane as many are sent from inside as to it; so by the others if packets are lost both ways, as likely as one
    way or any mixture. Where no receiver is known, senders alone count.
    """
    ports, rest, either = int(mine.sum()), int((scope & ~mine).sum()), senders | receivers
    there = [(int((end & mine).sum()), int((end & scope & ~mine).sum())) for end in (senders, receivers, either)]
    sent, got, ends = ([_ends_inside(k, out, ports, rest, even) for even in SHARES] for k, out in there)
    size = len(SHARES)
    where = spread(parts, scope & ~mine, either) - spread(parts, scope, either)
    both_ways = [s + g for s, g in zip(sent, got, strict=True)]
    half = [_ends_inside(*end, ports, rest, 0.5) for end in there[:2]]
    uplink = _log_mean([sum(half), _log_mean([s + g for s, g in zip(sent, reversed(got), strict=True)])])
    part = _log_mean([sent[at] + got[other] for at in range(size) for other in range(size - at, size)])
    part = _log_mean([_log_mean(both_ways[size // 2 :]), part])
    above = _log_mean(both_ways) - _log_mean(ends)
    (from_inside, from_outside), (to_inside, to_outside), _ = there
    unpaired = bool(from_inside) != bool(to_outside) or bool(from_outside) != bool(to_inside)
    unpaired = unpaired and bool(receivers.any())
    return where + uplink - above + (log(1.0 - BOTH_ENDS) if unpaired else 0.0), where + part - above


def _ends_inside(k: int, outside: int, ports: int, rest: int, even: float) -> float:
    """Log-likelihood of so many ports at one end of the lossy flows, of which the share `even` is inside."""
    share = _inside(k, ports, outside, rest, even) if k else even
    return shared((k, outside), (share, 1.0 - share), CERTAIN)


def _of_one_port(here: PortsInPlace, mine: Mask, shows: Mask, size: int) -> float:
    """Nats for one port or adapter against any part above the leaves.

    Each lossy flow has it at one end. So no more than its peers lose, what they lose together is about what it loses
    itself, or it loses LINK_STANDS_OUT times what each of them does; and packets are lost to it as well as from it:
    surely so where others lose packets, which then are lost on their way to it.
    """
    k, others = int(mine.sum()), shows & ~mine
    where = max(0.0, log((size + 1) / (2 * PEERS * k + 1)))  # uniform over its peers, not over the plane
    if others.any():
        share = float(here.ratio[mine].sum() / here.ratio[shows].sum())
        half = of_half(share, int(others.sum()))
        where += max(half, contrast(here.ratio, mine, others, LINK_STANDS_OUT))
        where -= single_peers(here.ratio, mine, others)
    ends = _receivers(here, np.ones(len(shows), np.bool_), mine) if others.any() else here.towards & shows
    if ends.any():
        where += log((BOTH_ENDS if here.towards[mine].any() else 1.0 - BOTH_ENDS) / 0.5)
    return where


def _of_one_receiver(senders: int, size: int) -> float:
    """Nats for the port that all lossy flows end at against any part above the leaves: by the number of its peers, as
    above, and by chance each sender would lose packets to another one of its own."""
    return max(0.0, log((size + 1) / (2 * PEERS + 1))) + (senders - 1) * log(PEERS)


def _inside(k: int, m: int, outside: int, rest: int, even: float) -> float:
    """Share of the lossy ports that are inside a part of `m` ports of which `k` lose, if the part makes them lose.

    As many flows leave it as enter it, so the shares are alike until its few ports are hit several times each: from `k`
    of `m` hit ports follows how many flows hit them (occupancy), and from those how many of the `rest` are hit. Of a
    part all of whose ports lose the number of flows is known from below only; above it is that of all their peers.
    """
    least, most = (_flows(k - 0.5, m), _flows(k + 0.5, m)) if k < m else (_flows(m - 0.5, m), float(m * PEERS))
    there = [rest * -expm1(-flows * (1.0 - even) / even / max(rest, 1)) for flows in (least, max(least, most))]
    return k / (k + min(max(outside, there[0]), there[1]))


def _flows(hit: float, ports: int) -> float:
    """Flows that hit so many of so many ports, on average, where each hits one by chance."""
    return -ports * log1p(-min(hit, ports - 0.25) / ports)


def _log_mean(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + log(sum(exp(each - most) for each in logs) / len(logs))
