"""What drivers count by themselves ("ethtool -S"): pause per priority, discards, marks, the physical port.

There is no other source of pause per priority (counters-roce.md section 2). One Session an interface.

On mlx5 the names depend on the settings: those of a priority's pause are there only while flow control is enabled on
it, and when it moves from one priority to another their number stays the same. So the names are asked for again after
the values; values are taken only where the names before and after them are the same.

Most drivers answer from memory. mlx5 asks its firmware some 41 times: such interfaces are read every `costly` only,
each at a moment of its own, and until then their last reading stands with its own time.
"""

from __future__ import annotations

import errno
import hashlib
import math
from array import array
from dataclasses import replace

from msgspec import Struct

from fabricmon.collect import roce_labels, roce_names, row_parts
from fabricmon.collect.interface_cost import cost_of
from fabricmon.collect.physical import Interface, OnePerInterface
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Part, Reading
from fabricmon.units import Duration

NAME = "roce"
_LEFT_OUT = "statistics_left_out"
_TRIES = 3  # reads of values whose names moved meanwhile, before they are unknown for this run
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
_COSTLY = 10  # firmware commands a read, from which on a driver is read seldom


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.roce

    enabled     read the drivers' own statistics at all
    interval    between two reads. bnxt_en's values are a second old at best
    costly      between two reads of an interface whose driver asks its firmware for them: on mlx5 one costs about 41
                commands (counters-roce.md 3.1)
    deadline    for one interface; after it its values are unknown until its driver answers
    rediscover  between two looks for new interfaces
    exclude     interfaces to leave out, with wildcards
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    costly: Duration = Duration(120)
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
        self._names: tuple[str, ...] | None = None
        self._columns: tuple[str, ...] = ()
        self._places: tuple[tuple[int, float], ...] = ()
        self._left_out = 0
        self._parts: tuple[Part, ...] = ()
        self._labels: dict[str, str] = {}
        self._again = -math.inf  # node time of the next look at the labels
        self._cost = cost_of(interface.driver).statistics
        self._period = float(config.interval)
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
            # the first wait is shorter by a share that is each interface's own: they take turns from then on
            self._last, self._due = found, start + self._period * (_share(self._interface.row) if first else 1.0)
        return found

    def _read(self, start: float) -> Reading:
        host, name = self._host, self._interface.name
        before = self._names
        if before is None:
            try:
                before = host.interfaces.statistics_names(name)
            except HostError as error:
                if isinstance(error, Unsupported) or error.errno == errno.EOPNOTSUPP:
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

    def close(self) -> None:
        """Nothing is open."""

    def _values(self, names: tuple[str, ...]) -> tuple[int, ...] | None:
        """None where the driver has another number of statistics by now."""
        if not names:
            return ()
        try:
            return self._host.interfaces.statistics(self._interface.name, len(names))
        except HostError as error:
            if error.errno == errno.EAGAIN:
                return None
            if error.errno in _GONE:
                self._names = None
            raise

    def _reading(self, names: tuple[str, ...], found: tuple[int, ...], taken: float) -> Reading:
        if names is not self._names or taken >= self._again:
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
            # what was left out stays on the node, so it is the last column
            self._columns = row_parts.ordered((*places, _LEFT_OUT) if places else ())
            self._places = tuple(places[column] for column in self._columns if column in places)
            self._left_out = plan.left_out
            self._names = names
        if now >= self._again:
            self._labels = self._interface.labels | self._rdma_labels()
            self._again = now + float(self._config.rediscover)
        component = Component(self._interface.row, self._labels)
        parts = row_parts.parts(NAME, component, self._columns, self._period)
        if parts != self._parts:
            self._parts = parts

    def _rdma_labels(self) -> dict[str, str]:
        if not self._interface.device:
            return {}
        return roce_labels.labels(self._host, self._interface.device, self._interface.port)


def _share(row: str) -> float:
    """From 0 to 1, spread evenly over names that differ in one digit, which a cyclic checksum leaves side by side."""
    return int.from_bytes(hashlib.blake2b(row.encode("utf-8", "replace"), digest_size=4).digest(), "big") / 2**32
