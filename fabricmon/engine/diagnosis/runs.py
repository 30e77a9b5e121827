"""Parts of a switch that fail together: neighbouring ports, or every fourth one. Pure.

Which ports share a pipe, a quadrant or a line card is seldom known, so the best run of ports is looked for, and its
mode pays for the choice (docs/methods.md#parts-of-a-switch). Where no map shows the leaves, the ports of one name in
the order of their hosts take the place of a switch's ports (docs/methods.md#neighbours-that-wait).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import LEAK, MODES, WAITING_RUN
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.row_domains import BY_NAME, RowDomains

LEAST = 3  # ports of a part; two neighbours are one module
INTERLEAVED = 4  # every so-manyth port belongs to the same quadrant
ARRANGEMENTS = 2  # neighbouring ports, or interleaved ones: as likely, as no source states which
ALONE = 7.6  # nats that a port costs outside the part: the prior of a single cable (causes.py)
WAITS_ALONE = -log(LEAK[SymptomType.CONGESTION])  # the same of a port that waits for reasons of its own
ALL_WAIT = 0.5
"""Share of a host's other ports that wait, too, from which it is the host, or its job, that waits (design choice)."""
NEIGHBOURS = next(mode for mode in MODES if mode.domain == WAITING_RUN)
PLACES = 2  # runs of a name, as two leaves
SPARSE = 2  # hosts of a run for each that is known to work: others between them are no neighbours
MOST_WAITING = 256
"""Ports of one name that wait; of more none is looked for. No leaf has so many."""
MOST_SHOWN = 1024  # ports of one switch that show something; of more no part is looked for


@dataclass(frozen=True, slots=True)
class PartOfSwitch:
    """rows of the part, whether they show anything or not; text: "ports 9-16"; choice: nats that it costs to have
    chosen it among the parts that the switch may have; score: log likelihood of what the switch shows."""

    rows: Ints
    text: str
    choice: float
    score: float = 0.0


class LastParts:
    """As `parts`, for several sorts of parts; each is looked for again only in other input."""

    def __init__(self) -> None:
        self._made_of: dict[str, tuple[Ids | Mask, ...]] = {}
        self._found: dict[str, Mapping[int, PartOfSwitch]] = {}

    def of(
        self, sort: str, leaf: Ids, socket: Ids, shows: Mask, known: Mask, alone: float = ALONE,
        residues: int = INTERLEAVED, most: int = MOST_SHOWN,
    ) -> Mapping[int, PartOfSwitch]:  # fmt: skip
        made_of = leaf, socket, shows, known
        last = self._made_of.get(sort)
        if last is None or not all(map(np.array_equal, last, made_of)):
            self._found[sort] = parts(leaf, socket, shows, known, alone, residues, most)
            self._made_of[sort] = tuple(array.copy() for array in made_of)  # groups may change in place
        return self._found[sort]


def divide_waiting(domains: RowDomains, waiting: Observation | None, last: LastParts) -> None:
    """Make WAITING_RUN groups of the ports of no known leaf: of each name those on runs of hosts of which they wait.

    Not of hosts that wait as a whole, or have one such port: their job may do that.
    """
    named, names = domains.port.ids["port_name"], domains.names["port_name"]
    ids, choice = np.full(len(named), -1, np.int32), np.zeros(len(names))
    if waiting is not None and (named[waiting.rows] >= 0).any():
        shows = np.zeros(len(named), np.bool_)
        shows[waiting.rows] = True
        host, every = domains.hosts, (waiting.known | shows) & (domains.hosts >= 0)
        hosts = int(host.max()) + 1
        each, waits = (np.bincount(host[some], minlength=hosts)[host] - some for some in (every, every & shows))
        every &= (named >= 0) & (each > 0) & (waits <= ALL_WAIT * each)
        for turn in range(PLACES):
            for group, part in _best_runs(domains, shows & every, every, last, turn).items():
                ids[part.rows], every[part.rows] = group, False
                choice[group] += part.choice
    domains.divide(WAITING_RUN, ids, list(names), choice=choice)


def _best_runs(
    domains: RowDomains, shows: Mask, known: Mask, last: LastParts, turn: int
) -> Mapping[int, PartOfSwitch]:  # fmt: skip
    """Of the ports of each name the run that fits best, in either order of names, where most of its hosts are known."""
    found: dict[int, PartOfSwitch] = {}
    named = domains.port.ids["port_name"]
    alone = WAITS_ALONE * np.bincount(named[shows], minlength=1)
    for number, order in enumerate(domains.orders_of_hosts()[:BY_NAME]):
        place = order[domains.hosts].astype(np.int32)
        sort = f"{WAITING_RUN} {turn} {number}"
        for group, part in last.of(sort, named, place, shows, known, WAITS_ALONE, 0, MOST_WAITING).items():
            least, span = int(shows[part.rows].sum()) >= NEIGHBOURS.least, int(np.ptp(place[part.rows])) + 1
            better = part.score > (found[group].score if group in found else NEIGHBOURS.cost - alone[group])
            if least and span <= SPARSE * len(part.rows) and better:
                found[group] = part
    return found


def parts(
    leaf: Ids, socket: Ids, shows: Mask, known: Mask, alone: float = ALONE, residues: int = INTERLEAVED,
    most: int = MOST_SHOWN,
) -> Mapping[int, PartOfSwitch]:  # fmt: skip
    """The part of each leaf that explains its rows with a symptom best; none where that is the whole leaf.

    leaf, socket  int[n], -1 unknown; shows, known  bool[n]
    alone         nats that a port costs outside the part; residues: interleaved parts that there may be; most: ports
                  with a symptom, of more no part is looked for
    """
    placed = (leaf >= 0) & (socket >= 0) & (known | shows)
    count = np.bincount(leaf[placed & shows], minlength=1)
    found: dict[int, PartOfSwitch] = {}
    for group in np.flatnonzero((count >= LEAST) & (count <= most)).tolist():
        rows = np.flatnonzero(placed & (leaf == group))
        rows = rows[np.argsort(socket[rows], kind="stable")]
        if (part := _best(socket[rows], shows[rows], alone, residues)) is not None:
            mask, text, choice, score = part
            found[group] = PartOfSwitch(rows[mask], text, choice, score)
    return found


def _best(sockets: Ids, shows: Mask, alone: float, residues: int) -> tuple[Mask, str, float, float] | None:
    """The best run or quadrant of the ports of one switch, in the order of their numbers, what its choice costs, and
    its score; None: the whole of it."""
    first, last = _best_run(shows, alone)
    run = np.zeros(len(shows), np.bool_)
    run[first : last + 1] = True
    parts = [(run, f"ports {sockets[first]}-{sockets[last]}", _choice_of_run(shows, first, last))]
    for residue in range(residues):
        text = f"every {INTERLEAVED}th port from {residue or INTERLEAVED}"
        parts.append((sockets % INTERLEAVED == residue, text, log(ARRANGEMENTS * INTERLEAVED)))
    best, at = max((_score(shows, mask, alone) - choice, -at) for at, (mask, _, choice) in enumerate(parts))
    mask, text, choice = parts[-at]
    if best <= _score(shows, shows | True, alone) or mask.all() or shows[mask].sum() < LEAST:
        return None
    return mask, text, choice, best


def _score(shows: Mask, part: Mask, alone: float) -> float:
    """Log likelihood of what shows something if it is this part, and single ports outside it."""
    inside = int(shows[part].sum())
    if inside < LEAST:
        return -inf
    return float(log_marginal(inside, int(part.sum()), LEAST)) - alone * int(shows[~part].sum())


def _choice_of_run(shows: Mask, first: int, last: int) -> float:
    """Nats by which the runs with these ports that show something, and no others, are together less likely than the
    shortest of them would be if it were known to be the part."""
    ports, inside, shortest = len(shows), int(shows[first : last + 1].sum()), last - first + 1
    if inside < LEAST or ports <= LEAST:
        return inf
    before, after = np.flatnonzero(shows[:first]), np.flatnonzero(shows[last + 1 :])
    left = first - int(before[-1]) if len(before) else first + 1  # places where such a run may begin
    right = int(after[0]) + 1 if len(after) else ports - last  # and where it may end
    longer = np.arange(min(left + right - 1, ports - shortest))  # all of the switch is no part of it
    if not len(longer):
        return inf
    many = np.minimum(np.minimum(longer + 1, left + right - 1 - longer), min(left, right))
    weight = np.log(many) + log_marginal(inside, shortest + longer, LEAST)
    runs = (ports - 1) * (ports - 2) // 2 - 1  # of LEAST ports or more
    together = float(np.logaddexp.reduce(weight)) - log(ARRANGEMENTS * runs)
    return float(log_marginal(inside, shortest, LEAST)) - together


def _best_run(shows: Mask, alone: float) -> tuple[int, int]:
    """First and last position of the run that fits best by itself."""
    at = np.flatnonzero(shows)
    i, j = np.triu_indices(len(at))
    inside, size = j - i + 1, at[j] - at[i] + 1
    score: Floats = log_marginal(inside, size) - alone * (len(at) - inside)
    best = int(np.argmax(score))
    return int(at[i[best]]), int(at[j[best]])
