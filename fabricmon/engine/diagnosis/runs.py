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
from fabricmon.engine.diagnosis.causes import LEAK
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
MOST_SHOWN = 1024  # ports of one switch that show something; of more no part is looked for


@dataclass(frozen=True, slots=True)
class PartOfSwitch:
    """rows of the part, whether they show anything or not; text: "ports 9-16"; choice: nats that it costs to have
    chosen it among the parts that the switch may have."""

    rows: Ints
    text: str
    choice: float


class LastParts:
    """As `parts`, for several sorts of parts; each is looked for again only in other input."""

    def __init__(self) -> None:
        self._made_of: dict[str, tuple[Ids | Mask, ...]] = {}
        self._found: dict[str, Mapping[int, PartOfSwitch]] = {}

    def of(
        self, sort: str, leaf: Ids, socket: Ids, shows: Mask, known: Mask, alone: float = ALONE,
        residues: int = INTERLEAVED,
    ) -> Mapping[int, PartOfSwitch]:  # fmt: skip
        made_of = leaf, socket, shows, known
        last = self._made_of.get(sort)
        if last is None or not all(map(np.array_equal, last, made_of)):
            self._found[sort] = parts(leaf, socket, shows, known, alone, residues)
            self._made_of[sort] = tuple(array.copy() for array in made_of)  # groups may change in place
        return self._found[sort]


def divide_waiting(domains: RowDomains, waiting: Observation | None, parts: LastParts) -> None:
    """Make "run_congested" groups of the ports of no known leaf: of each name the run of hosts of which they wait.

    Not of hosts that wait as a whole, or have one such port: their job may do that.
    """
    named, known = domains.port.ids["port_name"], domains.names["port_name"]
    ids, names, choice = np.full(len(named), -1, np.int32), list[str](), np.zeros(0)
    if waiting is not None and (named[waiting.rows] >= 0).any():
        names, choice = list(known), np.zeros(len(known))
        shows = np.zeros(len(named), np.bool_)
        shows[waiting.rows] = True
        host, counts = domains.hosts, (waiting.known | shows) & (named >= 0)
        hosts = int(host.max()) + 1
        each, waits = (np.bincount(host[some], minlength=hosts)[host] - some for some in (counts, counts & shows))
        counts &= (each > 0) & (waits <= ALL_WAIT * each)
        for number, order in enumerate(domains.orders_of_hosts()[:BY_NAME]):
            sort, place = f"run_congested {number}", order[host].astype(np.int32)
            for group, part in parts.of(sort, named, place, shows & counts, counts, WAITS_ALONE, 0).items():
                if not choice[group]:
                    ids[part.rows], choice[group] = group, part.choice
                    ends = [domains.host(row) for row in part.rows[[0, -1]].tolist()]
                    names[group] = f"{names[group]}, {' to '.join(ends)}"
    domains.divide("run_congested", ids, names, choice=choice)


def parts(
    leaf: Ids, socket: Ids, shows: Mask, known: Mask, alone: float = ALONE, residues: int = INTERLEAVED
) -> Mapping[int, PartOfSwitch]:
    """The part of each leaf that explains its rows with a symptom best; none where that is the whole leaf.

    leaf, socket  int[n], -1 unknown; shows, known  bool[n]
    alone         nats that a port costs outside the part; residues: interleaved parts that there may be
    """
    placed = (leaf >= 0) & (socket >= 0) & (known | shows)
    count = np.bincount(leaf[placed & shows], minlength=1)
    found: dict[int, PartOfSwitch] = {}
    for group in np.flatnonzero((count >= LEAST) & (count <= MOST_SHOWN)).tolist():
        rows = np.flatnonzero(placed & (leaf == group))
        rows = rows[np.argsort(socket[rows], kind="stable")]
        if (part := _best(socket[rows], shows[rows], alone, residues)) is not None:
            mask, text, choice = part
            found[group] = PartOfSwitch(rows[mask], text, choice)
    return found


def _best(sockets: Ids, shows: Mask, alone: float, residues: int) -> tuple[Mask, str, float] | None:
    """The best run or quadrant of the ports of one switch, in the order of their numbers, and what its choice costs;
    None: the whole of it."""
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
    return mask, text, choice


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
