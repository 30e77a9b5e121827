"""The Ethernet PHY in the kernel's words: forward error correction, standard errors, why a link is down.

Three questions over ethtool netlink, of one interface at a time: a dump would let one driver that answers late hold up
all others. What a driver cannot answer is asked again when the interface is looked at anew.
"""

from __future__ import annotations

import errno
import math
from array import array
from collections.abc import Callable

from msgspec import Struct

from fabricmon.collect import row_parts
from fabricmon.collect.interface_cost import cost_of
from fabricmon.collect.physical import Interface, OnePerInterface
from fabricmon.host.interfaces import Fec, LinkState
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Part, Reading
from fabricmon.units import Duration

NAME = "ethernet_phy"
_NEVER = frozenset({errno.EOPNOTSUPP, errno.EINVAL})  # this driver, or this kernel, does not answer that
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
_STANDARD = {
    "mac_fcs_errors": "FrameCheckSequenceErrors",
    "mac_alignment_errors": "AlignmentErrors",
    "mac_symbol_errors": "SymbolErrorDuringCarrier",
}
Values = dict[str, float]
Question = tuple[Callable[[str], Values], int, str]  # asks, firmware commands, what it is called


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.ethernet_phy

    enabled     ask for FEC, standard errors and link-down reasons at all
    interval    between two reads. On mlx5 one costs about 6 firmware commands
    deadline    for one interface; after it its values are unknown until its driver answers
    rediscover  between two looks for new interfaces and for what their drivers answer
    exclude     interfaces to leave out, with wildcards
    """

    enabled: bool = True
    interval: Duration = Duration(60)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    exclude: tuple[str, ...] = ()


Collector = OnePerInterface[Config]


def open(host: Host, config: Config) -> Collector:
    return OnePerInterface(host, NAME, config, Session)


class Session:
    """One interface."""

    def __init__(self, host: Host, config: Config, interface: Interface) -> None:
        self._host, self._config, self._interface = host, config, interface
        cost = cost_of(interface.driver)
        asks = host.interfaces
        self._all: tuple[Question, ...] = (
            (lambda name: fec_values(asks.fec(name)), cost.fec, "FEC_GET"),
            (lambda name: link_values(asks.link_state(name)), cost.link_state, "LINKSTATE_GET"),
            (lambda name: standard_values(asks.standard_statistics(name)), cost.standard, "STATS_GET"),
        )
        self._asked: tuple[Question, ...] = self._all
        self._columns: tuple[str, ...] = ()
        self._parts: tuple[Part, ...] = ()
        self._again = -math.inf  # node time of the next look at what the driver answers

    def read(self) -> Reading:
        start = self._host.monotonic()
        anew = start >= self._again
        found: Values = {}
        faults: list[Fault] = []
        answered, queries = [], 0
        for question in self._all if anew else self._asked:
            ask, cost, what = question
            try:
                found |= ask(self._interface.name)
            except HostError as error:
                if error.errno in _GONE:
                    raise
                if isinstance(error, Unsupported) or error.errno in _NEVER:
                    continue
                faults.append(Fault(NAME, self._interface.row, f"ethtool {what} {self._interface.name}", error.text))
            answered.append(question)
            queries += cost
        taken = (start + self._host.monotonic()) / 2
        self._asked = tuple(answered)
        if anew:
            self._shape(tuple(found), bool(faults))
            self._again = start + float(self._config.rediscover)
        values = array("d", [found.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, tuple(faults), queries)

    def close(self) -> None:
        """Nothing is open."""

    def _shape(self, columns: tuple[str, ...], faulty: bool) -> None:
        """The columns of what was answered; a question that failed this once keeps those it had."""
        if faulty:
            columns = (*self._columns, *(c for c in columns if c not in self._columns))
        self._columns = row_parts.ordered(columns)
        component = Component(self._interface.row, self._interface.labels)
        parts = row_parts.parts(NAME, component, self._columns, float(self._config.interval))
        if parts != self._parts:
            self._parts = parts


def fec_values(fec: Fec) -> Values:
    """The port's totals; lanes are in the driver's own statistics where it has them."""
    return {
        "fec_corrected_blocks": _first(fec.corrected),
        "fec_uncorrectable_blocks": _first(fec.uncorrectable),
        "fec_corrected_bit_errors": _first(fec.corrected_bits),
        "fec_mode": _known(fec.active),
    }


def link_values(state: LinkState) -> Values:
    """A reason is told only of a link that is down: of any other it is unknown."""
    return {
        "link_down_reason": _known(state.reason),
        "link_down_detail": _known(state.detail),
        "phy_link_down_events": _known(state.downs),
        "link_quality": _known(state.quality),
    }


def standard_values(statistics: dict[str, int]) -> Values:
    return {column: float(statistics[name]) for column, name in _STANDARD.items() if name in statistics}


def _first(values: tuple[int, ...]) -> float:
    return float(values[0]) if values else math.nan


def _known(value: int | None) -> float:
    return math.nan if value is None else float(value)
