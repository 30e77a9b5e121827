"""The pluggable modules of the ports: light that arrives, temperature, and the modules' own limits. Pure.

Levels of an NDR module as data sheets have them: about 1 mW on each of four lanes, alarms at 0.1 mW and 75 degrees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    """Light and temperature of each port's module; both drift in a straight line (light in decibels) where told to."""

    def __init__(self, n: int, random: np.random.Generator) -> None:
        self._light = random.normal(1e-3, 5e-5, (LANES, n))
        self._heat = random.normal(48.0, 2.0, n)
        self._random = random
        self._fainter, self._warmer = np.zeros(n), np.zeros(n)
        self._since, self._until = np.zeros(n), np.zeros(n)
        self._noise = np.zeros((LANES + 1, n))

    def look(self) -> None:
        """The next reading has another noise."""
        self._noise = self._random.normal(0.0, JITTER, self._noise.shape)

    def drift(self, rows: NDArray[np.integer], decibels: float, degrees: float, seconds: float, now: float) -> None:
        """From now on the light changes by so many decibels in that time, and the temperature by so many degrees."""
        self._fainter[rows], self._warmer[rows] = decibels, degrees
        self._since[rows], self._until[rows] = now, now + seconds

    def value(self, name: str, now: float) -> Floats:
        """A column of the ports' rows."""
        if name in LIMITS:
            return np.full(len(self._heat), LIMITS[name])
        span = self._until - self._since
        done = np.clip(np.divide(now - self._since, span, out=np.ones_like(span), where=span > 0), 0, 1)
        if name == "module_temperature":
            return (self._heat + self._warmer * done) * (1 + self._noise[LANES])
        lane = int(name.removeprefix("module_rx_power_lane"))
        return np.asarray(self._light[lane] * 10 ** (self._fainter * done / 10) * (1 + self._noise[lane]))
