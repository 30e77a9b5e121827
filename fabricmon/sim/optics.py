"""The pluggable modules of the ports: Rx power, temperature, and the modules' own limits. Pure.

Levels of an NDR module by data sheets: about 1 mW on each of four lanes, alarms at 0.1 mW and 75 degrees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.chance import Chance
from fabricmon.sim.registers import Floats

LANES = 4
LIMITS = {
    "module_temperature_limit_high_alarm": 75.0,
    "module_temperature_limit_high_warning": 70.0,
    "module_rx_power_limit_low_alarm": 1e-4,
    "module_rx_power_limit_low_warning": 2e-4,
}
"""Degrees Celsius, watts."""
COLUMNS = ("module_temperature", *(f"module_rx_power_lane{lane}" for lane in range(LANES)), *LIMITS)
JITTER = 0.01
"""Relative noise of one reading."""


class Optics:
    """Rx power and temperature of each port's module; `drift` changes both linearly (Rx power in dB)."""

    def __init__(self, n: int, random: np.random.Generator, chance: Chance) -> None:
        self._light = random.normal(1e-3, 5e-5, (LANES, n))
        self._heat = random.normal(48.0, 2.0, n)
        self._chance = chance
        self._fainter, self._warmer = np.zeros(n), np.zeros(n)
        self._since, self._until = np.zeros(n), np.zeros(n)

    def _noise(self, name: str, now: float) -> Floats:
        """The factor by which a reading at this moment is off."""
        return 1 + JITTER * self._chance.normal(name, now, np.arange(len(self._heat)))

    def drift(
        self, rows: NDArray[np.integer], decibels: float, degrees: Floats | float, seconds: float, now: float
    ) -> None:
        """Change Rx power by so many dB and the temperature by so many degrees, from now on in that time."""
        self._fainter[rows], self._warmer[rows] = decibels, degrees
        self._since[rows], self._until[rows] = now, now + seconds

    @property
    def drifts(self) -> bool:
        """Whether any module is not as it was."""
        return bool(self._fainter.any() or self._warmer.any())

    def value(self, name: str, now: float) -> Floats:
        """A column of the ports' rows."""
        if name in LIMITS:
            return np.full(len(self._heat), LIMITS[name])
        span = self._until - self._since
        done = np.clip(np.divide(now - self._since, span, out=np.ones_like(span), where=span > 0), 0, 1)
        if name == "module_temperature":
            return (self._heat + self._warmer * done) * self._noise(name, now)
        lane = int(name.removeprefix("module_rx_power_lane"))
        return np.asarray(self._light[lane] * 10 ** (self._fainter * done / 10) * self._noise(name, now))
