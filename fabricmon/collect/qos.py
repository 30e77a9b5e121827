"""Settings that the ports of a lossless fabric must agree on: values and one fingerprint. One Session an interface.

PFC, ETS, priorities of traffic and receive buffers over dcbnl, global pause over ethtool, ECN and the MTU from files.
What the rule config_drift compares is in COMPARED; the fingerprint is of these values and of nothing else, so that two
ports differ in it exactly where they differ in one of them.
"""

from __future__ import annotations

import errno
import hashlib
import math
import struct
from array import array
from collections.abc import Callable, Iterable

from msgspec import Struct

from fabricmon.catalogue.qos import COMPARED
from fabricmon.collect import rdma_device, row_parts
from fabricmon.collect.interface_cost import cost_of
from fabricmon.collect.physical import NET, Interface, OnePerInterface
from fabricmon.host.interfaces import Dcb, Pause
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Part, Reading
from fabricmon.units import Duration

NAME = "qos"
_NEVER = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_GONE = frozenset({errno.ENODEV, errno.ENXIO})
_DSCP = 5  # IEEE_8021QAZ_APP_SEL_DSCP
Values = dict[str, float]


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.qos

    enabled     read PFC, ETS, priorities, pause, ECN and MTU at all
    interval    between two reads. On mlx5 one costs about 32 firmware commands
    deadline    for one interface; after it its values are unknown until its driver answers
    rediscover  between two looks for new interfaces
    exclude     interfaces to leave out, with wildcards
    """

    enabled: bool = True
    interval: Duration = Duration(300)
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
        self._parts: tuple[Part, ...] = ()

    def read(self) -> Reading:
        start = self._host.monotonic()
        asks, name, cost = self._host.interfaces, self._interface.name, cost_of(self._interface.driver)
        found: Values = {}
        faults: list[Fault] = []
        queries = 0
        questions: tuple[tuple[Callable[[], Values], int, str], ...] = (
            (lambda: dcb_values(asks.dcb(name)), cost.dcb, "dcbnl IEEE_GET"),
            (lambda: pause_values(asks.pause(name)), cost.pause, "ethtool PAUSE_GET"),
        )
        for ask, price, what in questions:
            try:
                found |= ask()
            except HostError as error:
                if error.errno in _GONE:
                    raise
                if isinstance(error, Unsupported) or error.errno in _NEVER:
                    continue
                faults.append(Fault(NAME, self._interface.row, f"{what} {name}", error.text))
            queries += price
        if not found and not faults:
            return Reading((), array("d"), start)  # a driver without such settings: nothing to compare
        found |= file_values(self._host, name)
        found["qos_fingerprint"] = math.nan if faults else fingerprint(found.get(c, math.nan) for c in COMPARED)
        taken = (start + self._host.monotonic()) / 2
        columns = row_parts.ordered(self._kept(found) if faults else found)
        values = array("d", [found.get(column, math.nan) for column in columns])
        return Reading(self._shaped(columns), values, taken, tuple(faults), queries)

    def close(self) -> None:
        """Nothing is open."""

    def _kept(self, found: Values) -> tuple[str, ...]:
        """While a question fails, the columns it had stay, unknown."""
        had = self._columns()
        return (*had, *(column for column in found if column not in had))

    def _shaped(self, columns: tuple[str, ...]) -> tuple[Part, ...]:
        if self._columns() != columns:
            component = Component(self._interface.row, self._interface.labels)
            self._parts = row_parts.parts(NAME, component, columns, float(self._config.interval))
        return self._parts

    def _columns(self) -> tuple[str, ...]:
        return tuple(column for part in self._parts for column in part.columns)


def dcb_values(dcb: Dcb) -> Values:
    """The columns of a port's DCB settings; those that the driver does not tell are unknown."""
    found = {
        "pfc_enabled": _known(dcb.pfc_enabled),
        "pfc_classes": _known(dcb.pfc_classes),
        "pfc_cable_delay": _known(dcb.delay),
        "dcbx_mode": _known(dcb.dcbx),
        "ets_willing": _known(dcb.willing),
    }
    found |= {f"ets_bandwidth_class{n}": share / 100 for n, share in enumerate(dcb.bandwidth)}
    found |= {f"ets_algorithm_class{n}": float(which) for n, which in enumerate(dcb.algorithm)}
    found |= {f"ets_class_prio{n}": float(which) for n, which in enumerate(dcb.class_of)}
    if dcb.class_of:
        found["ets_fingerprint"] = fingerprint((*dcb.bandwidth, *dcb.algorithm, *dcb.class_of, *dcb.max_rate))
    if dcb.apps is not None:
        found["app_entries"] = float(len(dcb.apps))
        found["dscp_trusted"] = float(any(selector == _DSCP for selector, _, _ in dcb.apps))
        found["app_fingerprint"] = fingerprint(number for entry in dcb.apps for number in entry)
    if dcb.buffers:
        found["buffer_fingerprint"] = fingerprint((*dcb.buffer_of, *dcb.buffers))
    return found


def pause_values(pause: Pause) -> Values:
    return {"pause_rx_enabled": _known(pause.receives), "pause_tx_enabled": _known(pause.sends)}


def file_values(host: Host, name: str) -> Values:
    """The MTU, and ECN per priority where the vendor's own driver package shows it (counters-roce.md section 4)."""
    found: Values = {}
    mtu = rdma_device.text(host, f"{NET}/{name}/mtu")
    if mtu.isascii() and mtu.isdigit():
        found["qos_mtu"] = float(mtu)
    for column, side in (("ecn_marks_answered", "roce_np"), ("ecn_rate_reduced", "roce_rp")):
        directory = f"{NET}/{name}/ecn/{side}/enable"
        try:
            priorities = host.list(directory)
        except HostError:
            continue
        enabled = (int(p) for p in priorities if p in "01234567" and rdma_device.text(host, f"{directory}/{p}") == "1")
        found[column] = float(sum(1 << p for p in enabled))
    return found


def fingerprint(values: Iterable[float]) -> float:
    """A whole number below 2**52 that stands for these numbers, in this order; unknown ones count as such.

    The same at every agent of every version: 52 bits of BLAKE2b over the values as little-endian float64.
    """
    data = b"".join(struct.pack("<d", math.nan if v != v else v) for v in values)
    return float(int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 12)


def _known(value: int | bool | None) -> float:
    return math.nan if value is None else float(value)
