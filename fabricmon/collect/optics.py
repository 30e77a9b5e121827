"""Pluggable modules: temperature, voltage, light and laser current of each lane, with the module's own limits.

From the module's memory where the agent may read it (CAP_NET_ADMIN), else the temperatures that the adapter shows in
hwmon, else what a privileged run of mlxlink left in a file. One Session an interface. Reading goes over a slow bus
behind the firmware, so it is seldom; passive copper has nothing to read, which is no fault.
"""

from __future__ import annotations

import errno
import math
from array import array

from msgspec import Struct

from fabricmon.collect import hwmon, mlxlink_text, module_memory, row_parts
from fabricmon.collect.interface_cost import cost_of
from fabricmon.collect.module_memory import Module, Piece, Values
from fabricmon.collect.physical import Interface, OnePerInterface
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Part, Reading
from fabricmon.units import Duration

NAME = "optics"
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
# no right, no such question, or no module in the cage: none of them is a fault
_CLOSED = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO, errno.ENOENT, 0})
_MOST_TEXT = 16384


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.optics

    enabled     read modules at all
    interval    between two reads. On mlx5 one costs about 6 firmware commands
    deadline    for one interface; a module's bus is slow
    rediscover  between two looks which module there is, and its limits
    exclude     interfaces to leave out, with wildcards
    mlxlink     directory with the output of `mlxlink -m` by a privileged timer, in a file named after each interface or
                RDMA device; "" none
    """

    enabled: bool = True
    interval: Duration = Duration(120)
    deadline: Duration = Duration(10)
    rediscover: Duration = Duration(600)
    exclude: tuple[str, ...] = ()
    mlxlink: str = ""


Collector = OnePerInterface[Config]


def open(host: Host, config: Config) -> Collector:
    return OnePerInterface(host, NAME, config, Session, infiniband=True)


class Session:
    """One interface."""

    def __init__(self, host: Host, config: Config, interface: Interface) -> None:
        self._host, self._config, self._interface = host, config, interface
        self._module: Module | None = None
        self._limits: Values = {}
        self._sensors: hwmon.Sensors = ()
        self._parts: tuple[Part, ...] = ()
        self._again = -math.inf  # node time of the next look which module there is

    def read(self) -> Reading:
        start = self._host.monotonic()
        asked = 0
        if start >= self._again:
            asked = self._discover()
            self._again = start + float(self._config.rediscover)
        found, labels, faults = self._limits.copy(), self._labels(), []
        if self._module is not None:
            pieces = module_memory.monitor_pieces(self._module)
            try:
                found |= module_memory.monitors(self._module, self._pieces(pieces))
            except (HostError, ValueError) as error:
                if isinstance(error, HostError) and error.errno in _GONE:
                    raise
                self._again = -math.inf  # pulled out, mostly: look anew next time
                faults.append(Fault(NAME, self._interface.row, f"module of {self._interface.name}", str(error)))
            asked += len(pieces)
        told, words = self._mlxlink() if self._module is None else ({}, {})
        found, labels = found | told, labels | words
        found |= {c: v for c, v in hwmon.read(self._host, self._sensors).items() if c not in found}
        cost = cost_of(self._interface.driver)
        queries = asked * cost.module + len(self._sensors) * cost.temperature
        columns = row_parts.ordered(found)
        if faults and self._parts:
            columns = tuple(column for part in self._parts for column in part.columns)
        taken = (start + self._host.monotonic()) / 2
        values = array("d", [found.get(column, math.nan) for column in columns])
        return Reading(self._shaped(columns, labels), values, taken, tuple(faults), queries)

    def close(self) -> None:
        """Nothing is open."""

    def _discover(self) -> int:
        """Find out which module there is; returns how many pieces of its memory that took."""
        self._module, self._limits = None, {}
        self._sensors = hwmon.sensors(self._host, self._interface.name)
        try:
            memory = self._pieces((module_memory.IDENTIFIER,))
            first = module_memory.first_pieces(memory[module_memory.IDENTIFIER])
            memory |= self._pieces(first)
            module = module_memory.module_of(memory)
            wanted = module_memory.limit_pieces(module)
            self._limits = module_memory.limits(module, self._pieces(wanted))
        except ValueError:
            return 1  # no memory that makes sense: nothing to read
        except HostError as error:
            if error.errno in _GONE or error.errno not in _CLOSED:
                raise
            return 1
        self._module = module
        return 1 + len(first) + len(wanted)

    def _pieces(self, pieces: tuple[Piece, ...]) -> dict[Piece, bytes]:
        ask, name = self._host.interfaces.module, self._interface.name
        return {p: ask(name, p.page, p.offset, p.length, p.address) for p in pieces}

    def _labels(self) -> dict[str, str]:
        module = self._module
        if module is None:
            return {}
        named = {
            "module_type": module.kind,
            "module_vendor": module.vendor,
            "module_part": module.part,
            "module_serial": module.serial,
        }
        return {name: value for name, value in named.items() if value}

    def _mlxlink(self) -> tuple[Values, dict[str, str]]:
        if not self._config.mlxlink:
            return {}, {}
        for name in filter(None, (self._interface.name, self._interface.device)):
            try:
                text = self._host.read(f"{self._config.mlxlink}/{name}", _MOST_TEXT)
            except HostError:
                continue
            return mlxlink_text.parse(text.decode("utf-8", "replace"))
        return {}, {}

    def _shaped(self, columns: tuple[str, ...], labels: dict[str, str]) -> tuple[Part, ...]:
        component = Component(self._interface.row, self._interface.labels | labels)
        parts = row_parts.parts(NAME, component, columns, float(self._config.interval))
        if parts != self._parts:
            self._parts = parts
        return self._parts
