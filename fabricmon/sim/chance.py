"""Random numbers by row and moment: a row's draw does not depend on what other rows or earlier moments drew. Pure.

Two worlds with one seed, of which one has a fault, draw the same numbers everywhere else, so that their difference is
the effect of the fault. The hash is splitmix64's finaliser, as in `paths.mix`.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.paths import mix
from fabricmon.sim.registers import Floats

Ints = NDArray[np.integer]

FEW = 50.0
"""Mean from which on a Poisson variable is drawn as a rounded normal one."""
_GOLDEN, _ONE, _TWO = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_UNIT = 2.0**-53


class Chance:
    """Draws of one world. `seed`: the world's."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def uniform(
        self, purpose: str, now: float, rows: Ints, least: float = 0.0, most: float = 1.0
    ) -> Floats:
        """One number between `least` and `most` a row; `purpose` separates draws of one moment."""
        key = np.uint64(mix(self._seed, zlib.crc32(purpose.encode()), round(now * 1000)))
        bits = _mixed(np.asarray(rows).astype(np.uint64) * _GOLDEN + key)
        return least + (most - least) * ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT

    def normal(self, purpose: str, now: float, rows: Ints) -> Floats:
        """Standard normal numbers, by Box and Muller."""
        length = np.sqrt(-2 * np.log(self.uniform(purpose + " r", now, rows)))
        return np.asarray(length * np.cos(2 * np.pi * self.uniform(purpose + " a", now, rows)))

    def poisson(self, purpose: str, now: float, rows: Ints, mean: Floats) -> Floats:
        """Whole numbers with these means."""
        found = np.zeros(len(mean))
        many = mean > FEW
        if many.any():
            some = mean[many]
            found[many] = np.maximum(0, np.floor(some + np.sqrt(some) * self.normal(purpose, now, rows[many]) + 0.5))
        few = np.flatnonzero((mean > 0) & ~many)
        if len(few):
            left = self.uniform(purpose, now, rows[few])
            share = np.exp(-mean[few])
            left, count = left - share, 0
            while (mine := (left > 0) & (share > 0)).any():
                count, few = count + 1, few[mine]
                share = share[mine] * mean[few] / count
                left = left[mine] - share
                found[few] = count
        return found

    def binomial(self, purpose: str, now: float, rows: Ints, tries: Floats, share: Floats | float) -> Floats:
        """Successes of so many tries with that chance each: Poisson where the chance or its opposite is small, else
        normal."""
        share = np.broadcast_to(np.asarray(share, float), tries.shape)
        rare = self.poisson(purpose, now, rows, tries * share)
        sure = self.poisson(purpose, now, rows, tries * (1 - share))
        spread = np.sqrt(tries * share * (1 - share)) * self.normal(purpose, now, rows)
        middle = np.floor(tries * share + spread + 0.5)
        found = np.where(share <= 0.1, rare, np.where(share >= 0.9, tries - sure, middle))
        return np.asarray(np.clip(found, 0, tries))


def _mixed(found: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found = (found ^ (found >> np.uint64(30))) * _ONE
    found = (found ^ (found >> np.uint64(27))) * _TWO
    return found ^ (found >> np.uint64(31))
