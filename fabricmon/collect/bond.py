"""Bonds and their legs: which leg is dead, which stands by, which LACP left out.

The state of an RDMA port on a bond follows the bond, and so does the bond's own carrier: a dead leg shows nowhere else.
Files of the bonding driver below /sys/class/net; the kernel answers from memory.
"""

from __future__ import annotations

import math
from array import array

from msgspec import Struct

from fabricmon.collect.physical import NET, rdma_ports
from fabricmon.collect.rdma_device import row_name, text
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "bond"
_LEG = ("bond_leg_up", "bond_leg_active", "bond_leg_failures", "bond_leg_aggregated")
_BOND = ("bond_legs", "bond_legs_up")
_MOST_BONDS, _MOST_LEGS = 64, 16


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.bond

    enabled     read bonds at all
    interval    between two reads
    deadline    for one read
    rediscover  between two looks which RDMA port an interface belongs to
    """

    enabled: bool = True
    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)
    rediscover: Duration = Duration(300)


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def close(self) -> None:
        pass


class Session:
    """All bonds of the machine."""

    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._parts: tuple[Part, ...] = ()
        self._ports: dict[str, tuple[str, int]] = {}
        self._again = -math.inf

    def read(self) -> Reading:
        now = self._host.monotonic()
        bonds = text(self._host, f"{NET}/bonding_masters").split()[:_MOST_BONDS]
        if not bonds:
            return Reading((), array("d"), now)
        if now >= self._again:
            self._ports = rdma_ports(self._host)
            self._again = now + float(self._config.rediscover)
        whole: list[tuple[Component, list[float]]] = []
        legs: list[tuple[Component, list[float]]] = []
        for bond in bonds:
            names = text(self._host, f"{NET}/{bond}/bonding/slaves").split()[:_MOST_LEGS]
            in_use = text(self._host, f"{NET}/{bond}/bonding/ad_aggregator")
            mine = [(self._component(name, {"bond": bond}), self._leg(name, in_use)) for name in names]
            states = [values[0] for _, values in mine]
            legs += mine
            up = math.nan if any(map(math.isnan, states)) else sum(states)
            whole.append((self._component(bond, {}), [float(len(names)), up]))
        period = float(self._config.interval)
        parts = tuple(
            Part(NAME, Kind.PORT, columns, tuple(component for component, _ in rows), period)
            for columns, rows in ((_LEG, legs), (_BOND, whole))
            if rows
        )
        if parts != self._parts:
            self._parts = parts
        values = array("d", [value for _, row in (*legs, *whole) for value in row])
        return Reading(self._parts, values, (now + self._host.monotonic()) / 2)

    def close(self) -> None:
        """Nothing is open."""

    def _component(self, name: str, labels: dict[str, str]) -> Component:
        port = self._ports.get(name)
        if not port:
            return Component(name, {"netdev": name} | labels)
        return Component(row_name(*port), {"netdev": name, "device": port[0], "port": str(port[1])} | labels)

    def _leg(self, name: str, in_use: str) -> list[float]:
        at = f"{NET}/{name}/bonding_slave"
        aggregate = self._text(f"{at}/ad_aggregator_id")
        failures = self._text(f"{at}/link_failure_count")
        return [
            _is(self._text(f"{at}/mii_status"), "up"),
            _is(self._text(f"{at}/state"), "active"),
            float(failures) if failures.isascii() and failures.isdecimal() else math.nan,
            # no aggregator: the bond does not speak LACP
            _is(aggregate, in_use) if in_use.isdecimal() and aggregate.isdecimal() else math.nan,
        ]

    def _text(self, path: str) -> str:
        try:
            return self._host.read(path, 64).decode("ascii", "replace").strip()
        except HostError:
            return ""


def _is(word: str, wanted: str) -> float:
    return float(word == wanted) if word else math.nan
