"""What a counter is: one row from which collectors, metrics, frames, rules and documents derive everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fabricmon.model import Kind


class Growth(StrEnum):
    """How a counter moves; decides the delta arithmetic (detection-methods 0.1)."""

    WRAPS = "wraps"  # monotonic, modulo 2**bits
    SATURATES = "saturates"  # monotonic, stops at 2**bits - 1: at its top it says "at least"
    LEVEL = "level"  # a gauge
    STATE = "state"  # an enumerated state; numbers are names
    TICKS = "ticks"  # monotonic in device ticks of unknown length, saturating

    @property
    def counts(self) -> bool:
        return self in (Growth.WRAPS, Growth.SATURATES, Growth.TICKS)


class Category(StrEnum):
    TRAFFIC = "traffic"
    ERROR = "error"
    CONGESTION = "congestion"
    RETRANSMISSION = "retransmission"
    STATE = "state"
    CONFIGURATION = "configuration"
    MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter, whoever reads it.

    name    canonical name, the frame column: "symbol_errors". Metric name derives from it.
    kind    table it belongs to.
    unit    base unit word for the metric name: "bytes", "packets", "seconds", "" where the name says it.
    bits    width at its source; 0 where width has no meaning (levels, states).
    growth  how it moves.
    source  where it comes from: "counters", "hw_counters", "port", "netdev", ... (a directory or a question).
    keys    names it has there, all vendors: ("symbol_error",).
    scale   exported value = raw x scale (4 for PortXmitData's 4-byte words).
    help    one sentence; the metric's HELP adds source and keys.
    wire    travels in frames to the centre (else only on /metrics).
    window  the fleet keeps a window of it for rules.
    cost    firmware commands a single-file read costs on the most expensive known driver (counters-ib.md 5.1).
    family  where several columns are one metric told apart by `labels`: what the metric's name derives from instead of
            `name` ("pfc_rx_frames" of the column "pfc_rx_frames_prio3"). All of a family have one unit, growth and help.
            Without labels: the name without its kind, which the metric has anyway ("state" of "nvlink_state").
    labels  the series of the family that this column is: (("priority", "3"),).
    """

    name: str
    kind: Kind
    unit: str
    bits: int
    growth: Growth
    category: Category
    source: str
    keys: tuple[str, ...]
    help: str
    scale: float = 1.0
    wire: bool = True
    window: bool = False
    cost: int = 0
    family: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def top(self) -> float:
        """The largest raw value x scale a saturating counter can show; NaN where it cannot saturate."""
        if self.growth not in (Growth.SATURATES, Growth.TICKS) or not self.bits:
            return math.nan
        return float(2**self.bits - 1) * self.scale

    @property
    def metric(self) -> str:
        """Prometheus name without exporter prefix logic left to anybody else: fabricmon_port_symbol_errors_total."""
        name = self.family or self.name
        parts = [f"fabricmon_{self.kind}_{name}"]
        if self.unit and not name.endswith(self.unit):
            parts.append(self.unit)
        if self.growth.counts:
            parts.append("total")
        return "_".join(parts)

    @property
    def type(self) -> str:
        return "counter" if self.growth.counts else "gauge"
