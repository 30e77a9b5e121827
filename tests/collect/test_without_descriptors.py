"""A process that has no free file descriptor for a moment shows nothing less than there is, whichever file it missed,
and all afterwards."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.collect.collector import Collector
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError
from fabricmon.model import Part
from tests.host.trees import build_hca_tree


class Starved(LiveHost):
    """Opening number `fails` fails for want of a descriptor."""

    opened, fails = 0, -1

    def list(self, path: str) -> list[str]:
        self._open(path)
        return super().list(path)

    def read(self, path: str, limit: int = 65536) -> bytes:
        self._open(path)
        return super().read(path, limit)

    def _open(self, path: str) -> None:
        self.opened += 1
        if self.opened == self.fails:
            raise HostError.from_os(path, OSError(errno.EMFILE, "Too many open files"))


@pytest.mark.parametrize("name", ["infiniband", "infiniband_state", "inventory", "pcie"])
def test_what_could_not_be_opened_is_looked_for_again(name: str, tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    kind, host = COLLECTORS[name], Starved(str(tmp_path))
    whole = shapes(kind.open(host, kind.config()))
    assert whole
    for fails in range(1, host.opened + 1):
        host.opened, host.fails = 0, fails
        collector = kind.open(host, kind.config())
        assert shapes(collector).items() <= whole.items()
        shapes(collector)
        assert shapes(collector) == whole, f"without file {fails}"


def shapes(collector: Collector) -> dict[str, tuple[Part, ...]]:
    """What a collector reads now, by device; nothing where that fails."""
    read: dict[str, tuple[Part, ...]] = {}
    with contextlib.suppress(HostError):
        for device, session in collector.sessions().items():
            with contextlib.suppress(HostError):
                read[device] = session.read().parts
    return read
