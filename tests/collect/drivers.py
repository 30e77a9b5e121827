"""Interfaces whose drivers answer what a test says: a tree of files beside a stand-in for ethtool and dcbnl."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause
from fabricmon.host.protocol.not_asked import NotAsked
from fabricmon.model import Reading
from tests.host.trees import build_netdev, link


class Drivers(NotAsked):
    """`statistics` of each interface by name; what is not set is EOPNOTSUPP, as a driver says it."""

    def __init__(self) -> None:
        super().__init__("not set by the test")
        self.counts: dict[str, dict[str, int]] = {}
        self.answers: dict[tuple[str, str], object] = {}
        self.memory: dict[str, Callable[[int, int, int, int], bytes]] = {}
        self.between: list[Callable[[], None]] = []
        """Done one by one, each after names were asked for and before anything else is."""
        self.after_values: list[Callable[[], None]] = []
        self.asked: list[str] = []
        self._last: dict[str, tuple[str, ...]] = {}

    def statistics_names(self, name: str) -> tuple[str, ...]:
        self.asked.append("names")
        found = tuple(self._of(self.counts, name))
        if found != self._last.get(name):
            self._last[name] = found
        found = self._last[name]
        if self.between:
            self.between.pop(0)()
        return found

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        self.asked.append("values")
        found = tuple(self._of(self.counts, name).values())
        if len(found) != count:
            raise HostError("GSTATS", errno.EAGAIN, "another number")
        if self.after_values:
            self.after_values.pop(0)()
        return found

    def standard_statistics(self, name: str) -> dict[str, int]:
        return self._of(self.answers, ("standard", name))

    def fec(self, name: str) -> Fec:
        return self._of(self.answers, ("fec", name))

    def link_state(self, name: str) -> LinkState:
        return self._of(self.answers, ("link", name))

    def pause(self, name: str) -> Pause:
        return self._of(self.answers, ("pause", name))

    def dcb(self, name: str) -> Dcb:
        return self._of(self.answers, ("dcb", name))

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        return self._of(self.memory, name)(page, offset, length, address)

    def neighbours(self) -> bytes:
        return self._of(self.answers, ("neighbours", ""))

    @staticmethod
    def _of(answers, key):
        found = answers.get(key)
        if found is None:
            raise HostError(str(key), errno.EOPNOTSUPP, "Operation not supported")
        if isinstance(found, HostError):
            raise found
        return found


def machine(root: Path, *names: str, driver: str = "mlx5_core") -> tuple[LiveHost, Drivers]:
    """A host with physical interfaces of these names, each with an adapter of its own."""
    (root / f"bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
    for n, name in enumerate(names):
        function = root / f"devices/pci0000:80/0000:{0x81 + n:02x}:00.0"
        function.mkdir(parents=True)
        link(function / "driver", root / f"bus/pci/drivers/{driver}")
        (build_netdev(root, function, name, n + 2) / "type").write_text("1\n")
    host, drivers = LiveHost(str(root), str(root / "proc")), Drivers()
    host.interfaces = drivers
    return host, drivers


def rdma_port(root: Path, device: str, netdev: str, port: int = 1) -> Path:
    """An RDMA device of an interface that is there. Returns its port's directory."""
    at = root / f"devices/virtual/infiniband/{device}/ports/{port}"
    (at / "gid_attrs/ndevs").mkdir(parents=True)
    (at / "gid_attrs/ndevs/0").write_text(f"{netdev}\n")
    link(root / f"class/infiniband/{device}", root / f"devices/virtual/infiniband/{device}")
    return at


def rows(reading: Reading) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    at = 0
    for part in reading.parts:
        for component in part.components:
            cells = dict(zip(part.columns, reading.values[at : at + len(part.columns)], strict=True))
            found.setdefault(component.name, {}).update(cells)
            at += len(part.columns)
    assert at == len(reading.values)
    return found


def labels(reading: Reading) -> dict[str, dict[str, str]]:
    return {c.name: c.labels for p in reading.parts for c in p.components}
