"""What adapters and the kernel have counted since the host started."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.stories.ethernet.state import Flags, Floats


class Counters:
    """Name -> array [hosts, ports] or [hosts, legs]. Each begins at a random value, as hosts are in use."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.values: dict[str, Floats] = {}
        self._carrier: Flags | None = None

    def add(self, name: str, increase: NDArray[Any]) -> None:
        if name not in self.values:
            scale = 1e6 if increase.max(initial=0) > 1e5 else 1
            self.values[name] = np.floor(self._rng.uniform(0, 1e4, increase.shape) * scale)
        self.values[name] += increase

    def carrier(self, links: Flags) -> Flags:
        """Count the changes of the legs' carrier; returns the legs that lost it."""
        if self._carrier is None:
            self._carrier = links.copy()
            downs = self._rng.integers(1, 4, links.shape).astype(float)
            self.values |= {"carrier_down": downs, "carrier_up": downs + 1, "link_down": downs - 1}
        fell, rose = self._carrier & ~links, ~self._carrier & links
        self.values["carrier_down"] += fell
        self.values["carrier_up"] += rose
        self.values["link_down"] += fell
        self._carrier = links.copy()
        return fell

    def restart(self, host: int, carrier_downs: int) -> None:
        """Begin at zero, as a driver does when it is loaded; the carrier has been lost so many times since."""
        for values in self.values.values():
            values[host] = 0
        self.values["carrier_down"][host] = carrier_downs
        self.values["carrier_up"][host] = carrier_downs + 1
