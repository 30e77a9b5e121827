"""Driver statistics of an interface ("ethtool -S") by ioctl SIOCETHTOOL; netlink does not have them.

Numbers and structures: linux/ethtool.h. The kernel writes as many names and values as the driver has at that moment,
whatever the size of the buffer, so every buffer has room for more than expected.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
import threading

from fabricmon.host.protocol import HostError

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_STATISTICS = 1  # ETH_SS_STATS
_NAME = 32  # ETH_GSTRING_LEN
_MOST = 65536  # statistics of one interface; 128 rings of 60 counters are 7680
_SPARE = 8192  # more of them than there were a moment ago
_MOST_REMEMBERED = 256  # interfaces whose names are kept
_IFREQ = struct.Struct("=16sQ16x")


class DriverStatistics:
    """Driver statistics of all interfaces. Safe from several threads; a question blocks until the driver answers."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._known: dict[str, tuple[bytes, tuple[str, ...]]] = {}

    def names(self, interface: str) -> tuple[str, ...]:
        """The names in the driver's order; the same tuple object while they are equal. Empty where there are none."""
        count = self._count(interface)
        if not count:
            return ()
        where = f"ethtool GSTRINGS {interface}"
        buffer = ctypes.create_string_buffer(12 + (count + _SPARE) * _NAME)
        struct.pack_into("=III", buffer, 0, _GSTRINGS, _STATISTICS, count)
        self._ioctl(where, interface, buffer)
        _, _, given = struct.unpack_from("=III", buffer)
        if given != count:
            raise HostError(where, errno.EAGAIN, f"{given} names, {count} a moment ago")
        blob = buffer.raw[12 : 12 + count * _NAME]
        known = self._known.get(interface)
        if known is not None and known[0] == blob:
            return known[1]
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        found = tuple(
            blob[at : at + _NAME].split(b"\0", 1)[0].decode("ascii", "backslashreplace")
            for at in range(0, len(blob), _NAME)
        )
        self._known[interface] = blob, found
        return found

    def values(self, interface: str, count: int) -> tuple[int, ...]:
        """The values. EAGAIN where the driver does not have `count` statistics."""
        if not 0 < count <= _MOST:
            raise HostError(f"ethtool GSTATS {interface}", errno.EINVAL, f"{count} statistics")
        where = f"ethtool GSTATS {interface}"
        buffer = ctypes.create_string_buffer(8 + (count + _SPARE) * 8)
        struct.pack_into("=II", buffer, 0, _GSTATS, count)
        self._ioctl(where, interface, buffer)
        _, given = struct.unpack_from("=II", buffer)
        if given != count:
            raise HostError(where, errno.EAGAIN, f"{given} statistics, {count} expected")
        return struct.unpack_from(f"={count}Q", buffer, 8)

    def _count(self, interface: str) -> int:
        where = f"ethtool GSSET_INFO {interface}"
        buffer = ctypes.create_string_buffer(16 + 4 * 64)
        struct.pack_into("=IIQ", buffer, 0, _GSSET_INFO, 0, 1 << _STATISTICS)
        self._ioctl(where, interface, buffer)
        _, _, mask, count = struct.unpack_from("=IIQI", buffer)
        if not mask & (1 << _STATISTICS):
            return 0
        if count > _MOST:
            raise HostError(where, 0, f"{count} statistics, at most {_MOST} are read")
        return int(count)

    def _ioctl(self, where: str, interface: str, buffer: ctypes.Array[ctypes.c_char]) -> None:
        name = interface.encode()
        if len(name) > 15:
            raise HostError(where, errno.ENODEV, "a name of more than 15 bytes")
        try:
            if getattr(self._local, "sock", None) is None:
                self._local.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            fcntl.ioctl(self._local.sock, _SIOCETHTOOL, _IFREQ.pack(name, ctypes.addressof(buffer)))
        except OSError as error:
            raise HostError.from_os(where, error) from None
