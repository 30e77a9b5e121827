"""Pluggable modules: temperature, voltage, optical power and bias current of each lane, with the module's limits.

From the module's memory where the agent may read it (CAP_NET_ADMIN), else temperatures from hwmon, else a file with
the output of a privileged run of mlxlink. One Session an interface. Reading goes over a slow bus behind the firmware,
so it is rare; passive copper has no monitors, which is not a fault.
"""

from __future__ import annotations

import errno
import math
from array import array

from fabricmon.collect.collector import InterfaceConfig
from fabricmon.collect.cost.firmware import interface_cost
from fabricmon.collect.devices import InterfaceSession
from fabricmon.collect.machine import hwmon, rows
from fabricmon.collect.machine.interfaces import Interface
from fabricmon.collect.parse import mlxlink_text, module_memory
from fabricmon.collect.parse.module_memory import Module, Piece, Values
from fabricmon.collect.questions import GONE
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Fault, Reading
from fabricmon.units import Duration

NAME = "optics"
# no permission, an unknown question, or no module in the cage: not a fault
_CLOSED = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO, errno.ENOENT, 0})
_MOST_TEXT = 16384


class OpticsConfig(InterfaceConfig, frozen=True):
    """collect.optics. On mlx5 a read costs about 6 firmware commands; a module's bus is slow.

    mlxlink  directory with the output of `mlxlink -m` by a privileged timer, in a file named after each interface or
             RDMA device; "" none
    """

    interval: Duration = Duration(120)
    deadline: Duration = Duration(10)
    rediscover: Duration = Duration(600)
    mlxlink: str = ""


class OpticsSession(InterfaceSession[OpticsConfig]):
    name = NAME

    def __init__(self, host: Host, config: OpticsConfig, interface: Interface) -> None:
        super().__init__(host, config, interface)
        self._module: Module | None = None
        self._limits: Values = {}
        self._sensors: hwmon.Sensors = ()

    def read(self) -> Reading:
        start = self._host.monotonic()
        asked = 0
        if self._discovers(start):
            asked = self._discover()
            self._settle(start)
        found, labels, faults = self._limits.copy(), self._labels(), []
        if self._module is not None:
            pieces = module_memory.monitor_pieces(self._module)
            try:
                found |= module_memory.monitors(self._module, self._pieces(pieces))
            except (HostError, ValueError) as error:
                if isinstance(error, HostError) and error.errno in GONE:
                    raise
                self._again = -math.inf  # usually pulled out: discover again
                faults.append(Fault(NAME, self._interface.row, f"module of {self._interface.name}", str(error)))
            asked += len(pieces)
        from_file, words = self._mlxlink() if self._module is None else ({}, {})
        found, labels = found | from_file, labels | words
        found |= {c: v for c, v in hwmon.temperatures(self._host, self._sensors).items() if c not in found}
        cost = interface_cost(self._interface.driver)
        queries = asked * cost.module + len(self._sensors) * cost.temperature
        columns = rows.columns(self._parts) if faults and self._parts else rows.ordered(found)
        self._row_is(columns, labels)
        taken = (start + self._host.monotonic()) / 2
        values = array("d", [found.get(column, math.nan) for column in columns])
        return Reading(self._parts, values, taken, tuple(faults), queries)

    def _discover(self) -> int:
        """Identify the module; returns how many pieces of its memory were read."""
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
            return 1  # invalid memory: nothing to read
        except HostError as error:
            if error.errno in GONE or error.errno not in _CLOSED:
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
        return rows.filled({
            "module_type": module.kind,
            "module_vendor": module.vendor,
            "module_part": module.part,
            "module_serial": module.serial,
        })  # fmt: skip

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
