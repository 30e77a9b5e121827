"""Parts of a switch that fail together: neighbouring ports, or every fourth one. Pure.

Which ports share a pipe, a quadrant or a line card is seldom known, so the best run of ports is looked for, and its
mode pays for the choice (docs/methods.md#parts-of-a-switch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask

LEAST = 3  # ports of a part; two neighbours are one module
INTERLEAVED = 4  # every so-manyth port belongs to the same quadrant
ALONE = 7.6  # nats that a port costs outside the part: the prior of a single cable (causes.py)
MOST_SHOWN = 1024  # ports of one switch that show something; of more no part is looked for


@dataclass(frozen=True, slots=True)
class PartOfSwitch:
    """rows of the part, whether they show anything or not; text: "ports 9-16"."""

    rows: Ints
    text: str


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
            mask, text = part
            found[group] = PartOfSwitch(rows[mask], text)
    return found


def _best(sockets: Ids, shows: Mask) -> tuple[Mask, str] | None:
    """The best run or quadrant of the ports of one switch, in the order of their numbers; None: the whole of it."""
    whole = float(log_marginal(shows.sum(), len(shows)))
    first, last, gain = _best_run(shows)
    run = np.zeros(len(shows), np.bool_)
    run[first : last + 1] = True
    choices = [(gain, run, f"ports {sockets[first]}-{sockets[last]}")]
    for residue in range(INTERLEAVED):
        mine = sockets % INTERLEAVED == residue
        inside = int(shows[mine].sum())
        score = float(log_marginal(inside, int(mine.sum()))) - ALONE * int(shows[~mine].sum())
        choices.append((score, mine, f"every {INTERLEAVED}th port from {residue or INTERLEAVED}"))
    best, mask, text = max(choices, key=lambda choice: choice[0])
    if best - choice_cost(len(shows)) <= whole or mask.all() or shows[mask].sum() < LEAST:
        return None
    return mask, text


def choice_cost(ports: int) -> float:
    """Nats for the choice of one run among those of a switch of so many ports."""
    return float(np.log(max(1, ports * (ports + 1) // 2)))


def _best_run(shows: Mask) -> tuple[int, int, float]:
    """First and last position of the run with the best score, and that."""
    at = np.flatnonzero(shows)
    i, j = np.triu_indices(len(at))
    inside, size = j - i + 1, at[j] - at[i] + 1
    score: Floats = log_marginal(inside, size) - ALONE * (len(at) - inside)
    best = int(np.argmax(score))
    return int(at[i[best]]), int(at[j[best]]), float(score[best])
