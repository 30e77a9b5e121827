"""Common parts of all collectors: four settings, one Session a device, the class that keeps the Sessions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Event, Part, Reading
from fabricmon.units import Duration

Notify = Callable[[Event | None], None]
Watch = Callable[[Notify], Callable[[], None]]
"""Calls Notify for each live event, from another thread (None: read at once); returns a function that stops it. Without
such events on the host it does nothing."""


class CollectorConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings of every section of `collect:`.

    enabled     run this collector
    interval    between two reads of a device
    deadline    for one read of a device; after it the device's values are unknown until it answers
    rediscover  between two searches for new devices and for the questions that they answer
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)


class InterfaceConfig(CollectorConfig, frozen=True):
    """Settings of a collector of network interfaces.

    exclude  interfaces to leave out, with wildcards
    """

    exclude: tuple[str, ...] = ()


class RdmaConfig(CollectorConfig, frozen=True):
    """Settings of a collector of RDMA devices.

    netlink  ask over RDMA netlink where the kernel has it
    """

    netlink: bool = True


C = TypeVar("C", bound=CollectorConfig)
D = TypeVar("D")


class DeviceReader(Protocol):
    """Reads one device, or the whole machine; called from one thread at a time."""

    def read(self) -> Reading:
        """The device's values now. HostError where the whole device cannot be read."""

    def close(self) -> None: ...


class Session(Generic[C]):
    """A DeviceReader that discovers what the device has, and again after `rediscover`."""

    def __init__(self, host: Host, config: C) -> None:
        self._host, self._config = host, config
        self._period = float(config.interval)
        self._parts: tuple[Part, ...] = ()
        self._again = -math.inf  # node time of the next discovery
        self._missed = HostError.without_descriptors

    def close(self) -> None:
        """Close open files; most Sessions have none."""

    def _discovers(self, now: float) -> bool:
        """Whether to discover what the device has; a read asks this first."""
        self._missed = HostError.without_descriptors
        return now >= self._again

    def _settle(self, now: float) -> None:
        """Schedule the next discovery. HostError, and the next read discovers again, where this one may have missed
        something because a file could not be opened."""
        self._again = -math.inf
        HostError.missed(self._missed)
        self._again = now + float(self._config.rediscover)

    def _shape_is(self, parts: tuple[Part, ...]) -> None:
        """Set the parts of the next readings; the same object while they are equal."""
        if parts != self._parts:
            self._parts = parts


class Collector(Generic[D]):
    """Keeps a Session for each device while that device is present.

    find   the devices to read now, by name
    make   the Session of one
    same   whether two devices found under one name are the same
    watch  live events, where the collector has them
    """

    def __init__(
        self,
        find: Callable[[], Mapping[str, D]],
        make: Callable[[D], DeviceReader],
        same: Callable[[D, D], bool] = operator.eq,
        watch: Watch | None = None,
    ) -> None:
        self._find, self._make, self._same, self.watch = find, make, same, watch
        self._kept: dict[str, tuple[D, DeviceReader]] = {}

    def sessions(self) -> dict[str, DeviceReader]:
        """A Session for each device that is present. HostError where the devices cannot be listed."""
        missed, found = HostError.without_descriptors, self._find()
        HostError.missed(missed)
        kept: dict[str, tuple[D, DeviceReader]] = {}
        for name, device in found.items():
            old = self._kept.get(name)
            kept[name] = old if old is not None and self._same(old[0], device) else (device, self._make(device))
        self._kept = kept
        return {name: session for name, (_, session) in kept.items()}

    def close(self) -> None:
        """Forget the Sessions; their reader closes them."""
        self._kept.clear()


class CollectorKind(NamedTuple):
    """A row of COLLECTORS: section of the configuration and how it is opened; `wide`: it reads more than this node."""

    name: str
    config: type[CollectorConfig]
    open: Callable[[Host, Any], Collector[Any]]
    wide: bool = False
