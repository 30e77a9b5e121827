"""A counter: one row for collectors, metrics, frames, rules and documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fabricmon.model import Kind

UNNAMED: Mapping[int, str] = {}
"""States of a counter whose numbers have no names."""
YES_NO: Mapping[int, str] = {1: "yes", 0: "no"}
"""States of a question; the counter's help has when it is 1 and when 0."""


class Growth(StrEnum):
    """Growth of a counter; determines the delta arithmetic (docs/methods.md#counter-hygiene)."""

    WRAPS = "wraps"  # monotonic, modulo 2**bits
    SATURATES = "saturates"  # monotonic, stops at 2**bits - 1: its top means "at least"
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
    """One counter of all collectors.

    name    canonical name, the frame column: "symbol_errors". Metric name derives from it.
    kind    table it belongs to.
    unit    base unit word for the metric name: "bytes", "packets", "seconds", "" where the name includes it.
    bits    width at its source; 0 for levels and states.
    growth  see Growth.
    source  "counters", "hw_counters", "port", "netdev", ... (a directory or a request).
    keys    its names there, all vendors: ("symbol_error",).
    scale   exported value = raw x scale (4 for PortXmitData's 4-byte words).
    help    one sentence; `text` adds the names of states, the metric's HELP source and keys.
    wire    sent in frames to the server (else only on /metrics).
    window  the fleet keeps a window of it for rules.
    cost    firmware commands a single-file read costs on the most expensive known driver
            (docs/methods.md#firmware-commands).
    family  where several columns are one metric with different `labels`: what the metric's name derives from instead of
            `name` ("pfc_rx_frames" of the column "pfc_rx_frames_prio3"). All of a family have one unit, growth and help.
            Without labels: the name without its kind, which the metric has anyway ("state" of "nvlink_state").
    labels  the series of the family that this column is: (("priority", "3"),).
    states  names of the numbers of a state: {1: "down", 4: "active"}.
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
    states: Mapping[int, str] = field(default_factory=dict, hash=False)

    @property
    def top(self) -> float:
        """The largest raw value x scale a saturating counter can show; NaN where it cannot saturate."""
        if self.growth not in (Growth.SATURATES, Growth.TICKS) or not self.bits:
            return math.nan
        return float(2**self.bits - 1) * self.scale

    @property
    def text(self) -> str:
        """What it is, with the names of its states: "Logical port state: 1 down, 2 init"."""
        if not self.states or self.states is YES_NO:
            return self.help
        return f"{self.help}: {', '.join(f'{number} {name}' for number, name in self.states.items())}"

    @property
    def metric(self) -> str:
        """Full Prometheus name: fabricmon_port_symbol_errors_total."""
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
