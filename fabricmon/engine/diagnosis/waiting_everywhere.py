"""How often ports wait that no leaf or rail of theirs makes wait (docs/methods.md#priors-and-probabilities). Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import LEAK
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Ids

GROUPS, UNMAPPED = ("rail_traffic", "leaf_traffic"), ("port_name",)
LEAST = 4
"""Active ports of a rail or leaf from which its share counts, as for its verdict (causes.py)."""
MOST = 0.99


def waiting_share(observations: Observations) -> float:
    """Probability that a port is congested without a cause of its own rail or leaf: the lower median, over these, of
    the share of their active ports that are, or what is usual where that is more. Few congested ones do not change it.
    Of rails and leaves the less, as a leaf with ports of all rails makes some of each wait. Where no map shows any, of
    the ports of each name.
    """
    usual, found = LEAK[SymptomType.CONGESTION], observations.get(SymptomType.CONGESTION)
    if found is None:
        return usual
    for domains in (GROUPS, UNMAPPED):
        shares = [_in_most(found, found.groups.ids[domain]) for domain in domains if domain in found.groups.ids]
        if known := [share for share in shares if share is not None]:
            return float(min(MOST, max(usual, min(known))))
    return usual


def _in_most(found: Observation, ids: Ids) -> float | None:
    """The lower median of the share of the observed ports that wait, over groups; None where none is large enough."""
    shows = np.zeros(len(ids), np.bool_)
    shows[found.rows] = True
    active = np.bincount(ids[found.known | shows] + 1)[1:]
    waits = np.bincount(ids[shows] + 1, minlength=len(active) + 1)[1:]
    large = active >= LEAST
    shares = np.sort(waits[large] / active[large])
    return float(shares[(len(shares) - 1) // 2]) if len(shares) else None
