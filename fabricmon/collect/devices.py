"""Openers of collectors with a Session for the machine, each interface, each GPU or each RDMA device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from fabricmon.collect.collector import C, Collector, DeviceReader, InterfaceConfig, Session, Watch
from fabricmon.collect.cost.sparing import Spared
from fabricmon.collect.machine import gpus, rdma_device, rows
from fabricmon.collect.machine.interfaces import Interface, interfaces
from fabricmon.host.protocol import Host
from fabricmon.host.protocol.gpus import Gpu
from fabricmon.model import Component, Kind

I = TypeVar("I", bound=InterfaceConfig)  # noqa: E741


class InterfaceSession(Session[I]):
    """A Session of one interface, with one row. `name` is the collector's."""

    name: str

    def __init__(self, host: Host, config: I, interface: Interface) -> None:
        super().__init__(host, config)
        self._interface = interface

    def _row_is(self, columns: Iterable[str], labels: Mapping[str, str] | None = None) -> None:
        """Set the columns of the row, in the order of `rows.ordered`, and `labels` besides those that identify it."""
        component = Component(self._interface.row, self._interface.labels | dict(labels or {}))
        self._shape_is(rows.parts(self.name, Kind.PORT, (component,), columns, self._period))


def whole_machine(session: DeviceReader, watch: Watch | None = None) -> Collector[None]:
    """A collector with one Session."""
    return Collector(lambda: {"": None}, lambda _: session, watch=watch)


def each_machine(make: Callable[[Host, C], DeviceReader]) -> Callable[[Host, C], Collector[None]]:
    """Opens a collector with one Session for the whole machine."""
    return lambda host, config: whole_machine(make(host, config))


def each_interface(
    name: str, make: Callable[[Host, I, Interface], DeviceReader], infiniband: bool = False
) -> Callable[[Host, I], Collector[Interface]]:
    """Opens collector `name` with a Session an interface: a slow driver delays only its own values and is read less
    often. `infiniband`: interfaces of InfiniBand ports, too."""

    def open(host: Host, config: I) -> Collector[Interface]:
        def find() -> dict[str, Interface]:
            return {interface.name: interface for interface in interfaces(host, config.exclude, infiniband)}

        return Collector(find, lambda one: Spared(host, make(host, config, one), name, one.row))

    return open


def each_gpu(make: Callable[[Host, C, Gpu], DeviceReader]) -> Callable[[Host, C], Collector[Gpu]]:
    """Opens a collector with a Session a GPU."""
    return lambda host, config: Collector(lambda: gpus.found(host), lambda gpu: make(host, config, gpu), gpus.same)


def each_rdma_device(make: Callable[[Host, C, str], DeviceReader]) -> Callable[[Host, C], Collector[str]]:
    """Opens a collector with a Session an RDMA device."""
    return lambda host, config: Collector(
        lambda: {name: name for name in rdma_device.devices(host)}, lambda name: make(host, config, name)
    )
