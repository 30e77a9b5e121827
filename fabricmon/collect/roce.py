"""Driver statistics ("ethtool -S"): PFC pause per priority, discards, ECN marks, the physical port.

There is no other source of pause per priority (docs/methods.md#ethernet-counters). One Session an interface.

On mlx5 the names depend on the settings: a priority's pause counters exist only while flow control is enabled on it,
and when it moves from one priority to another their number stays the same. The kernel locks names and values each for
itself. So the names are read directly before the values and again after them; values count only where both are equal.
Names that are known from an earlier read do not do: they may have moved since, and have moved back after the values.
Two changes of the settings between the three questions of one read would still pass.

Most drivers answer from memory. mlx5 sends its firmware some 43 commands: such interfaces are read every `costly`
only, spread over that time, and keep their last reading, with its time, until then.
"""

from __future__ import annotations

import errno
import hashlib
import math
from array import array
from dataclasses import replace

from fabricmon.collect.collector import InterfaceConfig
from fabricmon.collect.cost.firmware import interface_cost
from fabricmon.collect.devices import InterfaceSession
from fabricmon.collect.machine import roce_labels, rows
from fabricmon.collect.machine.interfaces import Interface
from fabricmon.collect.parse import roce_names
from fabricmon.collect.questions import GONE
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Fault, Reading
from fabricmon.units import Duration

NAME = "roce"
_LEFT_OUT = "statistics_left_out"
_TRIES = 3  # reads whose names changed meanwhile, before the values are unknown for this run
_COSTLY = 10  # firmware commands a read, from which on a driver is read every `costly`


class RoceConfig(InterfaceConfig, frozen=True):
    """collect.roce. bnxt_en's values are a second old at best.

    costly  between two reads of an interface whose driver asks its firmware for them: on mlx5 one costs about 43
            commands (docs/methods.md#firmware-commands)
    """

    costly: Duration = Duration(120)


class RoceSession(InterfaceSession[RoceConfig]):
    name = NAME

    def __init__(self, host: Host, config: RoceConfig, interface: Interface) -> None:
        super().__init__(host, config, interface)
        self._names: tuple[str, ...] | None = None
        self._columns: tuple[str, ...] = ()
        self._places: tuple[tuple[int, float], ...] = ()
        self._left_out = 0
        self._labels: dict[str, str] = {}
        self._cost = interface_cost(interface.driver).statistics
        if self._cost >= _COSTLY:
            self._period = max(self._period, float(config.costly))
        self._last: Reading | None = None
        self._due = -math.inf  # node time of the next read, where it is costly

    def read(self) -> Reading:
        start = self._host.monotonic()
        if self._last is not None and start < self._due:
            return replace(self._last, queries=0)
        first = self._due == -math.inf
        self._last = None
        found = self._read(start)
        if self._period > float(self._config.interval) and not found.faults:
            # the first wait is shorter by a share that differs by interface: from then on they take turns
            self._last, self._due = found, start + self._period * (_share(self._interface.row) if first else 1.0)
        return found

    def _read(self, start: float) -> Reading:
        host, name = self._host, self._interface.name
        try:
            before = host.interfaces.statistics_names(name)
        except HostError as error:
            if self._names is None and (isinstance(error, Unsupported) or error.errno == errno.EOPNOTSUPP):
                return Reading((), array("d"), start)
            raise
        for _ in range(_TRIES):
            taken = host.monotonic()
            found = self._values(before)
            taken = (taken + host.monotonic()) / 2
            after = host.interfaces.statistics_names(name)
            if after == before and found is not None:
                return self._reading(after, found, taken)
            before = after
        self._names = None
        why = f"the driver's names changed during each of {_TRIES} reads"
        unknown = array("d", [math.nan]) * len(self._columns)
        return Reading(self._parts, unknown, start, (Fault(NAME, self._interface.row, f"ethtool -S {name}", why),))

    def _values(self, names: tuple[str, ...]) -> tuple[int, ...] | None:
        """None where the driver now has another number of statistics."""
        if not names:
            return ()
        try:
            return self._host.interfaces.statistics(self._interface.name, len(names))
        except HostError as error:
            if error.errno == errno.EAGAIN:
                return None
            if error.errno in GONE:
                self._names = None
            raise

    def _reading(self, names: tuple[str, ...], found: tuple[int, ...], taken: float) -> Reading:
        if self._discovers(taken) or names is not self._names:
            self._shape(names, taken)
        if not self._columns:
            return Reading((), array("d"), taken)
        values = array("d", [found[at] * scale for at, scale in self._places])
        values.append(float(self._left_out))
        return Reading(self._parts, values, taken, (), self._cost)

    def _shape(self, names: tuple[str, ...], now: float) -> None:
        """Lay out the row for these names."""
        if names is not self._names:
            plan = roce_names.plan(names)
            places = {place.column: (place.at, place.scale) for place in plan.places}
            # not sent to the server, so the last column
            self._columns = rows.ordered((*places, _LEFT_OUT) if places else ())
            self._places = tuple(places[column] for column in self._columns if column in places)
            self._left_out = plan.left_out
            self._names = names
        if self._discovers(now):
            device, port = self._interface.device, self._interface.port
            self._labels = roce_labels.labels(self._host, device, port) if device else {}
            self._settle(now)
        self._row_is(self._columns, self._labels)


def _share(row: str) -> float:
    """From 0 to 1, spread evenly also over names that differ in one digit, unlike a cyclic checksum."""
    return int.from_bytes(hashlib.blake2b(row.encode("utf-8", "replace"), digest_size=4).digest(), "big") / 2**32
