"""The running median of the share of silent agents over a day (detection-methods 3.9). Pure."""

from __future__ import annotations

from collections import deque
from statistics import median

DAY = 86400.0
SAMPLES = 288  # one every five minutes


class Usual:
    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._taken = float("-inf")

    def median(self, share: float, now: float) -> float:
        """The median of the last day; `share` (0..1) is the share now. 0 in the first hour: too little is known."""
        if now - self._taken >= DAY / SAMPLES:
            self._taken = now
            self._samples.append(share)
        return median(self._samples) if len(self._samples) >= SAMPLES // 24 else 0.0
