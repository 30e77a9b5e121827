"""Parts of a switch that fail together: neighbouring ports, or every fourth one. Pure.

Which ports share a pipe, a quadrant or a line card is seldom known, so the best run of ports is looked for, and its
mode pays for the choice (docs/methods.md#parts-of-a-switch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log

import numpy as np

from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask

LEAST = 3  # ports of a part; two neighbours are one module
INTERLEAVED = 4  # every so-manyth port belongs to the same quadrant
ARRANGEMENTS = 2  # neighbouring ports, or interleaved ones: as likely, as no source states which
ALONE = 7.6  # nats that a port costs outside the part: the prior of a single cable (causes.py)
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

    def of(self, sort: str, leaf: Ids, socket: Ids, shows: Mask, known: Mask) -> Mapping[int, PartOfSwitch]:
        made_of = leaf, socket, shows, known
        last = self._made_of.get(sort)
        if last is None or not all(map(np.array_equal, last, made_of)):
            self._found[sort] = parts(leaf, socket, shows, known)
            self._made_of[sort] = tuple(array.copy() for array in made_of)  # groups may change in place
        return self._found[sort]


def parts(leaf: Ids, socket: Ids, shows: Mask, known: Mask) -> Mapping[int, PartOfSwitch]:
    """The part of each leaf that explains its rows with a symptom best; none where that is the whole leaf.

    leaf, socket  int[n], -1 unknown; shows, known  bool[n]
    """
    placed = (leaf >= 0) & (socket >= 0) & (known | shows)
    count = np.bincount(leaf[placed & shows], minlength=1)
    found: dict[int, PartOfSwitch] = {}
    for group in np.flatnonzero((count >= LEAST) & (count <= MOST_SHOWN)).tolist():
        rows = np.flatnonzero(placed & (leaf == group))
        rows = rows[np.argsort(socket[rows], kind="stable")]
        if (part := _best(socket[rows], shows[rows])) is not None:
            mask, text, choice = part
            found[group] = PartOfSwitch(rows[mask], text, choice)
    return found


def _best(sockets: Ids, shows: Mask) -> tuple[Mask, str, float] | None:
    """The best run or quadrant of the ports of one switch, in the order of their numbers, and what its choice costs;
    None: the whole of it."""
    first, last = _best_run(shows)
    run = np.zeros(len(shows), np.bool_)
    run[first : last + 1] = True
    parts = [(run, f"ports {sockets[first]}-{sockets[last]}", _choice_of_run(shows, first, last))]
    for residue in range(INTERLEAVED):
        text = f"every {INTERLEAVED}th port from {residue or INTERLEAVED}"
        parts.append((sockets % INTERLEAVED == residue, text, log(ARRANGEMENTS * INTERLEAVED)))
    best, at = max((_score(shows, mask) - choice, -at) for at, (mask, _, choice) in enumerate(parts))
    mask, text, choice = parts[-at]
    if best <= _score(shows, shows | True) or mask.all() or shows[mask].sum() < LEAST:
        return None
    return mask, text, choice


def _score(shows: Mask, part: Mask) -> float:
    """Log likelihood of what shows something if it is this part, and single ports outside it."""
    inside = int(shows[part].sum())
    if inside < LEAST:
        return -inf
    return float(log_marginal(inside, int(part.sum()), LEAST)) - ALONE * int(shows[~part].sum())


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


def _best_run(shows: Mask) -> tuple[int, int]:
    """First and last position of the run that fits best by itself."""
    at = np.flatnonzero(shows)
    i, j = np.triu_indices(len(at))
    inside, size = j - i + 1, at[j] - at[i] + 1
    score: Floats = log_marginal(inside, size) - ALONE * (len(at) - inside)
    best = int(np.argmax(score))
    return int(at[i[best]]), int(at[j[best]])
