"""Driver statistics of an interface ("ethtool -S") by ioctl SIOCETHTOOL; netlink does not have them.

Numbers and structures: linux/ethtool.h. The kernel holds its rtnl lock during one question, not between two: names and
values are two questions. It writes as many names and values as the driver has at that moment, whatever the caller
expects (since 2026 it writes none where the caller expects another number), so behind the memory for the answer lies a
page that cannot be written: what does not fit is EFAULT.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import socket
import struct
import threading

from fabricmon.host.protocol import HostError

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS = 0x1B, 0x1D
_STATISTICS = 1  # ETH_SS_STATS
_NAME = 32  # ETH_GSTRING_LEN
_MOST = 65536  # statistics of one interface; 128 rings of 60 counters are 7680
_ROOM = _MOST * _NAME + mmap.PAGESIZE  # names take more room than values; the page is for what stands before them
_MOST_REMEMBERED = 256  # interfaces whose names are kept
_IFREQ = struct.Struct("=16sQ16x")


class StatisticsAsker:
    """A thread's socket, and its memory for answers: pages that no answer reached cost nothing."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.answer = mmap.mmap(-1, _ROOM + mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # EINVAL: a kernel without huge pages
            self.answer.madvise(mmap.MADV_NOHUGEPAGE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.answer))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._address + _ROOM), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def ask(self, interface: bytes, question: bytes) -> None:
        """The question stands at the beginning of `answer`, and the answer afterwards."""
        self.answer[: len(question)] = question
        fcntl.ioctl(self._sock, _SIOCETHTOOL, _IFREQ.pack(interface, self._address))


class DriverStatistics:
    """Driver statistics of all interfaces. Safe from several threads; a question blocks until the driver answers."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._known: dict[str, tuple[bytes, tuple[str, ...]]] = {}

    def names(self, interface: str) -> tuple[str, ...]:
        """The names in the driver's order; the same tuple object while they are equal. Empty where there are none."""
        try:
            question = struct.pack("=III", _GSTRINGS, _STATISTICS, 0)
            answer = self._ask(f"ethtool GSTRINGS {interface}", interface, question)
        except HostError as error:
            if error.errno == errno.EOPNOTSUPP:
                return ()
            raise
        _, _, count = struct.unpack_from("=III", answer)
        blob = answer[12 : 12 + count * _NAME]
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
        where = f"ethtool GSTATS {interface}"
        if not 0 < count <= _MOST:
            raise HostError(where, errno.EINVAL, f"{count} statistics")
        answer = self._ask(where, interface, struct.pack("=II", _GSTATS, count))
        _, given = struct.unpack_from("=II", answer)
        if given != count:
            raise HostError(where, errno.EAGAIN, f"{given} statistics, {count} expected")
        return struct.unpack_from(f"={count}Q", answer, 8)

    def _ask(self, where: str, interface: str, question: bytes) -> mmap.mmap:
        """The answer, until this thread asks again."""
        name = interface.encode()
        if len(name) > 15:
            raise HostError(where, errno.ENODEV, "a name of more than 15 bytes")
        try:
            if getattr(self._local, "asker", None) is None:
                self._local.asker = StatisticsAsker()
            self._local.asker.ask(name, question)
        except OSError as error:
            raise HostError.from_os(where, error) from None
        return self._local.asker.answer
