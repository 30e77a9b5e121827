"""The base rate of silent agents without a fault (docs/methods.md#missing-agents). Pure."""

from __future__ import annotations

from collections import deque
from statistics import median

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import SILENCE_FLOOR
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.domains.groups import Mask

DAY = 86400.0
SAMPLES = 288  # one every five minutes


class SilenceRate:
    """Follows the share of silent agents over a day."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._taken = float("-inf")

    def base_rate(self, observations: Observations, now: float) -> float:
        agents = observations.get(SymptomType.AGENT_SILENT)
        if agents is None:
            return SILENCE_FLOOR
        silent = np.zeros(len(agents.known), np.bool_)
        silent[agents.rows] = True
        usual = self._median(float(silent.sum()) / max(1, int(agents.known.sum())), now)
        return silence_leak(np.where(agents.known, agents.groups.ids["power"], -1).astype(np.int32), silent, usual)

    def _median(self, share: float, now: float) -> float:
        """The median of the last day with the share of now; 0 in the first hour."""
        if now - self._taken >= DAY / SAMPLES:
            self._taken = now
            self._samples.append(share)
        return median(self._samples) if len(self._samples) >= SAMPLES // 24 else 0.0


def silence_leak(power: NDArray[np.int32], silent: Mask, usual: float = 0.0) -> float:
    """Base rate of silent agents: the running median of the share (`usual`), or the (lower) median share of the
    power domains now if that is more (docs/methods.md#missing-agents), never below SILENCE_FLOOR.

    The median of the domains follows a silence of the whole fabric and ignores a single dark domain.

    power   int32[n], power domain of each node, -1 none
    silent  bool[n]
    """
    placed = power >= 0
    rate = max(SILENCE_FLOOR, usual)
    if placed.any():
        size = np.bincount(power[placed])
        dark = np.bincount(power[placed], silent[placed], len(size))
        shares = np.sort((dark / np.maximum(size, 1))[size > 0])
        rate = max(rate, float(shares[(len(shares) - 1) // 2]))
    return min(rate, 0.99)
