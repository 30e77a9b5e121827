"""The Ethernet PHY: forward error correction, IEEE 802.3 errors, reason of a link-down.

Three ethtool netlink questions an interface; a dump would wait for the slowest driver. Unsupported questions are asked
again every `rediscover`.
"""

from __future__ import annotations

import math
from array import array

from fabricmon.collect.collector import InterfaceConfig
from fabricmon.collect.cost.firmware import interface_cost
from fabricmon.collect.devices import InterfaceSession
from fabricmon.collect.machine import rows
from fabricmon.collect.machine.interfaces import Interface
from fabricmon.collect.machine.rows import known
from fabricmon.collect.questions import Question, Values, ask
from fabricmon.host.protocol import Host
from fabricmon.host.protocol.interfaces import Fec, LinkState
from fabricmon.model import Reading
from fabricmon.units import Duration

NAME = "ethernet_phy"
_STANDARD = {
    "mac_fcs_errors": "FrameCheckSequenceErrors",
    "mac_alignment_errors": "AlignmentErrors",
    "mac_symbol_errors": "SymbolErrorDuringCarrier",
}


class EthernetPhyConfig(InterfaceConfig, frozen=True):
    """collect.ethernet_phy. On mlx5 a read costs about 6 firmware commands."""

    interval: Duration = Duration(60)


class EthernetPhySession(InterfaceSession[EthernetPhyConfig]):
    name = NAME

    def __init__(self, host: Host, config: EthernetPhyConfig, interface: Interface) -> None:
        super().__init__(host, config, interface)
        asks, name, cost = host.interfaces, interface.name, interface_cost(interface.driver)
        self._all = (
            Question(lambda: fec_values(asks.fec(name)), cost.fec, "ethtool FEC_GET"),
            Question(lambda: link_values(asks.link_state(name)), cost.link_state, "ethtool LINKSTATE_GET"),
            Question(lambda: standard_values(asks.standard_statistics(name)), cost.standard, "ethtool STATS_GET"),
        )
        self._asked: tuple[Question, ...] = self._all
        self._columns: tuple[str, ...] = ()

    def read(self) -> Reading:
        start = self._host.monotonic()
        anew = self._discovers(start)
        answers = ask(NAME, self._interface, self._all if anew else self._asked)
        taken = (start + self._host.monotonic()) / 2
        self._asked = answers.asked
        if anew:
            kept = self._columns if answers.faults else ()  # those of a question that failed this time
            self._columns = rows.ordered((*kept, *(c for c in answers.values if c not in kept)))
            self._row_is(self._columns)
            self._settle(start)
        values = array("d", [answers.values.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, tuple(answers.faults), answers.queries)


def fec_values(fec: Fec) -> Values:
    """The port's totals; lanes are in the driver statistics."""
    return {
        "fec_corrected_blocks": _first(fec.corrected),
        "fec_uncorrectable_blocks": _first(fec.uncorrectable),
        "fec_corrected_bit_errors": _first(fec.corrected_bits),
        "fec_mode": known(fec.active),
    }


def link_values(state: LinkState) -> Values:
    """Drivers give a reason only while the link is down; else it is unknown."""
    return {
        "link_down_reason": known(state.reason),
        "link_down_detail": known(state.detail),
        "phy_link_down_events": known(state.downs),
        "link_quality": known(state.quality),
    }


def standard_values(statistics: dict[str, int]) -> Values:
    return {column: float(statistics[name]) for column, name in _STANDARD.items() if name in statistics}


def _first(values: tuple[int, ...]) -> float:
    return float(values[0]) if values else math.nan
