"""Interfaces of the machine this process runs on, and those of none."""

from __future__ import annotations

from typing import NoReturn

from fabricmon.host import lldpctl
from fabricmon.host.dcbnl import DcbNetlink
from fabricmon.host.ethtool import EthtoolNetlink
from fabricmon.host.ethtool_statistics import DriverStatistics
from fabricmon.host.interfaces import Dcb, Fec, LinkState, Pause
from fabricmon.host.protocol import Unsupported


class LiveInterfaces:
    """Interfaces asked of the kernel."""

    def __init__(self) -> None:
        self._statistics = DriverStatistics()
        self._ethtool = EthtoolNetlink()
        self._dcb = DcbNetlink()

    def statistics_names(self, name: str) -> tuple[str, ...]:
        return self._statistics.names(name)

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        return self._statistics.values(name, count)

    def standard_statistics(self, name: str) -> dict[str, int]:
        return self._ethtool.statistics(name)

    def fec(self, name: str) -> Fec:
        return self._ethtool.fec(name)

    def link_state(self, name: str) -> LinkState:
        return self._ethtool.link_state(name)

    def pause(self, name: str) -> Pause:
        return self._ethtool.pause(name)

    def dcb(self, name: str) -> Dcb:
        return self._dcb.ask(name)

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        return self._ethtool.module(name, page, offset, length, address)

    def neighbours(self) -> bytes:
        return lldpctl.ask()

    def close(self) -> None:
        """Sockets go with the threads that used them."""


class NoInterfaces:
    """Interfaces of a host that cannot be asked; `why` is for the error."""

    def __init__(self, why: str) -> None:
        self._why = why

    def _no(self, question: str) -> NoReturn:
        raise Unsupported(question, 0, self._why)

    def statistics_names(self, name: str) -> tuple[str, ...]:
        self._no(f"ethtool GSTRINGS {name}")

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        self._no(f"ethtool GSTATS {name}")

    def standard_statistics(self, name: str) -> dict[str, int]:
        self._no(f"ethtool STATS_GET {name}")

    def fec(self, name: str) -> Fec:
        self._no(f"ethtool FEC_GET {name}")

    def link_state(self, name: str) -> LinkState:
        self._no(f"ethtool LINKSTATE_GET {name}")

    def pause(self, name: str) -> Pause:
        self._no(f"ethtool PAUSE_GET {name}")

    def dcb(self, name: str) -> Dcb:
        self._no(f"dcbnl IEEE_GET {name}")

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        self._no(f"ethtool MODULE_EEPROM_GET {name}")

    def neighbours(self) -> bytes:
        self._no(lldpctl.WHERE)

    def close(self) -> None:
        """Nothing is open."""
