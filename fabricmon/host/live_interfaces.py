"""Interfaces of the machine of this process, from the kernel."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

from fabricmon.host import lldpctl
from fabricmon.host.ethtool_statistics import DriverStatistics
from fabricmon.host.messages import dcb, ethtool
from fabricmon.host.netlink_socket import GENERIC, ROUTE, Asker
from fabricmon.host.protocol import HostError, Unsupported
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause

_T = TypeVar("_T")
_LIMIT_SECONDS = 5.0  # for one answer; the kernel may wait for its rtnl lock while a driver resets


class LiveInterfaces:
    """Interfaces over ethtool netlink, dcbnl and ioctl; a slow driver delays only questions about its interfaces."""

    def __init__(self) -> None:
        self._statistics = DriverStatistics()
        self._generic = Asker(GENERIC, "generic netlink", _LIMIT_SECONDS)
        self._route = Asker(ROUTE, "rtnetlink", _LIMIT_SECONDS)
        self._family = 0
        self._lock = threading.Lock()
        self._plain = False  # this kernel refuses LINKSTATE_GET with statistics (before 6.12)

    def statistics_names(self, name: str) -> tuple[str, ...]:
        return self._statistics.names(name)

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        return self._statistics.values(name, count)

    def standard_statistics(self, name: str) -> dict[str, int]:
        question = ethtool.statistics_question(name)
        return self._ethtool(f"STATS_GET {name}", question, ethtool.decode_statistics)

    def fec(self, name: str) -> Fec:
        return self._get("FEC_GET", ethtool.FEC_GET, name, ethtool.decode_fec)

    def link_state(self, name: str) -> LinkState:
        what, command, decode = "LINKSTATE_GET", ethtool.LINKSTATE_GET, ethtool.decode_link_state
        if not self._plain:
            try:
                return self._get(what, command, name, decode)
            except HostError as error:
                if error.errno != errno.EINVAL:
                    raise
            self._plain = True
        return self._get(what, command, name, decode, flags=0)

    def pause(self, name: str) -> Pause:
        return self._get("PAUSE_GET", ethtool.PAUSE_GET, name, ethtool.decode_pause)

    def dcb(self, name: str) -> Dcb:
        return self._route.one(f"dcbnl IEEE_GET {name}", dcb.RTM_GETDCB, dcb.request(name), dcb.decode)

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        where = f"MODULE_EEPROM_GET {name} page {page:#04x} offset {offset}"
        question = ethtool.module_question(name, page, offset, length, address)
        return self._ethtool(where, question, ethtool.decode_module)

    def neighbours(self) -> bytes:
        return lldpctl.ask()

    def close(self) -> None:
        """Sockets go with the threads that used them."""

    def _get(
        self, what: str, command: int, name: str, decode: Callable[[bytes], _T], flags: int = ethtool.WITH_STATISTICS
    ) -> _T:
        return self._ethtool(f"{what} {name}", ethtool.question(command, ethtool.header(1, name, flags)), decode)

    def _ethtool(self, what: str, payload: bytes, decode: Callable[[bytes], _T]) -> _T:
        where = f"ethtool {what}"
        return self._generic.one(where, self._number(where), payload, decode)

    def _number(self, where: str) -> int:
        """This kernel's number of the family "ethtool"."""
        with self._lock:
            if not self._family:
                try:
                    self._family = self._generic.one(
                        where, ethtool.CONTROL, ethtool.FAMILY_QUESTION, ethtool.decode_family
                    )
                except HostError as error:
                    if error.errno == errno.ENOENT:
                        raise Unsupported(where, errno.ENOENT, "this kernel has no ethtool netlink") from None
                    raise
            return self._family
