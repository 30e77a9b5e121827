"""Numbers with their unit, as people read them. Pure.

Units are those of the catalogue ("ratio", "seconds", "bytes_per_second") and words that need no conversion ("nats").
"""

from __future__ import annotations

from collections.abc import Callable

_SHOWN: dict[str, Callable[[float], str]] = {
    "ratio": lambda value: f"{100 * value:.4g} %",
    "seconds": lambda value: _time(value),
    "bytes": lambda value: _prefixed(value, "B"),
    "bytes_per_second": lambda value: _prefixed(value * 8, "b/s"),
    "transfers_per_second": lambda value: _prefixed(value, "T/s"),
    "celsius": lambda value: f"{value:.4g} °C",
    "bit errors per bit": lambda value: f"{value:.4g}",
}


def quantity(value: float, unit: str) -> str:
    """ "25 %", "0.5 ms", "400 Gb/s", "12 nats", "2000"."""
    shown = _SHOWN.get(unit)
    return shown(value) if shown is not None else f"{value:.4g} {unit}".rstrip()


def _prefixed(value: float, unit: str) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _time(seconds: float) -> str:
    if seconds == 0 or abs(seconds) >= 1:
        return f"{seconds:.4g} s"
    return f"{1e3 * seconds:.4g} ms" if abs(seconds) >= 1e-3 else f"{1e6 * seconds:.4g} us"
