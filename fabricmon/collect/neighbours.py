"""LLDP neighbours of Ethernet ports as labels of the port's row.

lldpd is asked through lldpctl, or its JSON is read from a file. Only the first switch is seen. The interface of a bond
or of a virtual function receives no LLDP, and some adapters' firmware consumes the frames (docs/methods.md#lldp): no
neighbour is not a fault.
"""

from __future__ import annotations

from array import array

from fabricmon.collect.collector import InterfaceConfig, Session
from fabricmon.collect.machine.interfaces import Interface, interfaces
from fabricmon.collect.parse import lldp
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "neighbours"
_MOST_BYTES = 4 << 20


class NeighboursConfig(InterfaceConfig, frozen=True):
    """collect.neighbours; a switch sends LLDP every 30 s.

    file  file with the JSON of `lldpctl -f json`; "" runs lldpctl where it is installed
    """

    interval: Duration = Duration(60)
    deadline: Duration = Duration(8)
    file: str = ""


class NeighboursSession(Session[NeighboursConfig]):
    """All neighbours of the machine."""

    def __init__(self, host: Host, config: NeighboursConfig) -> None:
        super().__init__(host, config)
        self._interfaces: list[Interface] = []

    def read(self) -> Reading:
        now = self._host.monotonic()
        path = self._config.file
        try:
            raw = self._host.read(path, _MOST_BYTES) if path else self._host.interfaces.neighbours()
        except Unsupported:
            return Reading((), array("d"), now)
        try:
            found = lldp.parse(raw)
        except ValueError as error:
            raise HostError(path or "lldpctl -f json", 0, str(error)) from None
        if self._discovers(now):
            self._interfaces = interfaces(self._host, self._config.exclude)
            self._settle(now)
        components, values = [], array("d")
        for interface in self._interfaces:
            mine = found.get(interface.name, [])
            components.append(Component(interface.row, interface.labels | (mine[0] if mine else {})))
            values.append(float(len(mine)))
        part = Part(NAME, Kind.PORT, ("lldp_neighbours",), tuple(components), self._period)
        self._shape_is((part,) if components else ())
        left_out = f"more than {lldp.MOST_INTERFACES} interfaces; the rest is left out"
        cut = len(found) >= lldp.MOST_INTERFACES
        return Reading(self._parts, values, now, (Fault(NAME, "", "lldpctl -f json", left_out),) if cut else ())
