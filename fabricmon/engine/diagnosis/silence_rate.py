"""How often agents fall silent for reasons of their own (docs/methods.md#missing-agents). Pure.

Evidence is that a host fell silent, not that it is silent: a host from which nothing ever came is no evidence now.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import ONE_CAUSE
from fabricmon.engine.diagnosis.coincidence import BeginningRate
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Ints

HOUR = 3600.0
BEGINNINGS, HOST_HOURS = 1.0, 500.0
"""Gamma prior of the rate: one beginning in 500 host-hours, the base rate of 0.002 silent agents for a silence of an
hour (design choice)."""
WINDOW = 2 * ONE_CAUSE  # seconds in which a silence would count as evidence for one cause
CUT_OFF = 0.5
"""Share of the hosts that still reported above which the server may be cut off if they fell silent within a MOMENT, and
silence is no evidence about a host or power domain (design choice). Hosts that others show to be dead do not count."""
MOST = 0.99
MOMENT = 10.0
"""Seconds within which silences count as one where it is about one host (design choice): agents that report each second
and end together are some seconds apart, those that end for reasons of their own in a large fleet few times that."""


def server_cut_off(silent: Observation, explained: Ints) -> bool:
    """Whether the server may be cut off from the hosts that fell silent: it receives nothing more from most of those
    that still reported, from one moment on. `explained`: rows that are silent for a known reason: they do not count."""
    order = np.sort(silent.onset[~np.isin(silent.rows, explained)])
    before, reported = np.arange(len(order)), int(silent.known.sum()) - len(explained)
    together = np.searchsorted(order, order + MOMENT, side="right") - before
    return bool((together > CUT_OFF * (reported - before)).any())


class SilenceRate:
    """Learns the rate of beginnings of silence per host."""

    def __init__(self) -> None:
        self._rate = BeginningRate(BEGINNINGS, HOST_HOURS * HOUR, ONE_CAUSE)
        self._rate_of_one = BeginningRate(BEGINNINGS, HOST_HOURS * HOUR, MOMENT)

    def leak(self, observations: Observations, dead: Ints, now: float) -> float:
        """Probability that a host fell silent within WINDOW for a reason of its own, to two digits, more than is
        known of it: it changes seldom (last_diagnosis.py). MOST where the server may be cut off.
        `dead`: rows of hosts that others show to be dead."""
        agents = observations.get(SymptomType.AGENT_SILENT)
        if agents is not None:
            reported = int(agents.known.sum())
            for rate in (self._rate, self._rate_of_one):
                rate.learn([float(at) for at in agents.onset], now, reported)
            if server_cut_off(agents, dead):
                return MOST
        return min(MOST, float(f"{self._rate.mean * WINDOW:.1e}"))

    def besides(self, onset: float) -> float:
        """The same of one host that fell silent then, without its own silence, which may have another reason. What
        hosts have in common may take a minute, so a fleet in which several fall silent in each has a higher rate."""
        return min(MOST, self._rate_of_one.before(onset) * WINDOW)
