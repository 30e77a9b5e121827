"""Draws of one composite, each from a stream of its own. Pure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Draw:
    """Random choices by seed and words: what one part of a composite draws does not depend on another part."""

    def __init__(self, *seed: int | str) -> None:
        self._seed = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in seed)
        self._random = np.random.default_rng(self._seed)

    def of(self, *words: int | str) -> Draw:
        """The stream of a part."""
        return Draw(*self._seed, *words)

    def chance(self, probability: float) -> bool:
        return float(self._random.random()) < probability

    def uniform(self, least: float, most: float) -> float:
        return float(self._random.uniform(least, most))

    def log(self, least: float, most: float) -> float:
        """Between `least` and `most`, uniform in the logarithm."""
        return math.exp(self.uniform(math.log(least), math.log(most)))

    def number(self, least: int, most: int) -> int:
        """A whole number, both ends included."""
        return int(self._random.integers(least, most + 1))

    def pick(self, among: Sequence[T]) -> T:
        return among[self.number(0, len(among) - 1)]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """A key, by its weight."""
        keys, sizes = list(weights), np.array(list(weights.values()))
        return keys[int(self._random.choice(len(keys), p=sizes / sizes.sum()))]

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """So many different ones, in their own order."""
        order = self._random.permutation(len(among))[: max(0, count)]
        return [among[at] for at in sorted(order.tolist())]

    def events(self, mean: float) -> int:
        """Number of events with this mean (Poisson)."""
        return int(self._random.poisson(mean))
