"""UDP sockets with the kernel's time stamps: software ones, and those of the adapter where it makes them.

A transmit stamp comes back on the error queue with the number of its packet (SOF_TIMESTAMPING_OPT_ID), which counts
from 0 for each socket. Constants and structures: Linux, Documentation/networking/timestamping.rst.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping

from fabricmon.agent.probing.backend import ProbeRow, Received, Stamped
from fabricmon.probe.packet import HEADERS, SIZE, Offer
from fabricmon.probe.windows import NO_TIMES, KernelTimes

_SOL_SOCKET, _SO_TIMESTAMPING = int(socket.SOL_SOCKET), 37
_SO_RXQ_OVFL = 40
_TX_HARDWARE, _TX_SOFTWARE, _RX_HARDWARE, _RX_SOFTWARE, _SOFTWARE, _RAW_HARDWARE = 1, 2, 4, 8, 16, 64
_OPT_ID, _OPT_TSONLY = 128, 2048
_STAMPS = _RX_HARDWARE | _RX_SOFTWARE | _SOFTWARE | _RAW_HARDWARE | _OPT_ID | _OPT_TSONLY
_TRANSMIT = _TX_HARDWARE | _TX_SOFTWARE
_TIMESPECS = struct.Struct("@6q") if sys.maxsize > 2**32 else struct.Struct("@6l")
_ERROR = struct.Struct("@IBBBBII")
_BY_STAMP, _NO_STAMP = 4, 42  # SO_EE_ORIGIN_TIMESTAMPING, ENOMSG
_IP_RECVTOS, _IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _ALWAYS_WHOLE = 13, 10, 23, 3
_IP_MTU, _IPV6_MTU = 14, 24
_ASKED = [(_SOL_SOCKET, _SO_TIMESTAMPING, struct.pack("@I", _TRANSMIT))]
_SPACE = 512
BATCH = 64
"""Stamps, or errors before a datagram, read at one time."""
_CLASSES = (int(socket.IP_TOS), int(socket.IPV6_TCLASS))
_ENOUGH = 2 * SIZE
"""Bytes of a datagram that are read: of a larger question the rest is padding."""
FULL = (errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM)
"""The port's queue takes no more."""


Maker = Callable[[socket.AddressFamily], socket.socket]


def make(family: socket.AddressFamily) -> socket.socket:
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


class UdpBackend:
    """Sockets of the addresses of interfaces.

    port       at which every address answers
    addresses  PORT row -> its address
    """

    def __init__(
        self, port: int, addresses: Callable[[Iterable[ProbeRow]], Mapping[str, str]], maker: Maker = make
    ) -> None:
        self._port, self._addresses_of, self._maker = port, addresses, maker
        self._addresses: Mapping[str, str] = {}

    def offers(self, rows: Iterable[ProbeRow]) -> dict[str, Offer]:
        self._addresses = self._addresses_of(rows)
        return {row: Offer(address, self._port) for row, address in self._addresses.items()}

    def refused(self) -> Mapping[str, str]:
        return {}

    def asker(self, row: str, source: int, dscp: int) -> StampedSocket:
        return StampedSocket(self._addresses[row], source, dscp, True, self._maker)

    def responder(self, row: str, dscp: int) -> StampedSocket:
        return StampedSocket(self._addresses[row], self._port, dscp, False, self._maker)


class StampedSocket:
    """One bound socket. OSError where the address is not there, or the port is taken.

    stamps_all  every packet that is sent gets a transmit stamp; else only those sent with `stamp`
    dropped     datagrams that the kernel dropped as the program was too slow
    """

    def __init__(self, address: str, port: int, dscp: int, stamps_all: bool, maker: Maker = make) -> None:
        self.six = ":" in address
        self.headers = HEADERS[6 if self.six else 4]
        self.dropped = 0
        self._address, self._maker = address, maker
        self._all = stamps_all
        self._next = 0
        self._socket = maker(socket.AF_INET6 if self.six else socket.AF_INET)
        try:
            self._prepare(dscp)
            self._socket.bind((address, port))
        except BaseException:
            self._socket.close()
            raise

    def _prepare(self, dscp: int) -> None:
        level, traffic_class = (
            (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if self.six else (socket.IPPROTO_IP, socket.IP_TOS)
        )
        self._socket.setsockopt(level, traffic_class, dscp << 2)
        self._socket.setsockopt(level, socket.IPV6_RECVTCLASS if self.six else _IP_RECVTOS, 1)
        # never fragmented, and no path MTU learned from others: a too large question is lost
        self._socket.setsockopt(level, _IPV6_MTU_DISCOVER if self.six else _IP_MTU_DISCOVER, _ALWAYS_WHOLE)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        self._number_anew()

    def _number_anew(self) -> None:
        """The next packet with a stamp is number 0."""
        flags = _STAMPS | (_TRANSMIT if self._all else 0)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags & ~_OPT_ID)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags)
        self._next = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def largest(self, to: str) -> int:
        """Bytes of payload that the kernel would send whole to an address. OSError without a route."""
        with self._maker(socket.AF_INET6 if self.six else socket.AF_INET) as asking:
            asking.bind((self._address, 0))
            asking.connect((to, 9))  # sends nothing
            level, option = (socket.IPPROTO_IPV6, _IPV6_MTU) if self.six else (socket.IPPROTO_IP, _IP_MTU)
            return asking.getsockopt(level, option) - self.headers

    def prepare(self, to: str) -> bool:
        """Always: the kernel keeps a packet until it knows the way."""
        return True

    def send(self, data: bytes, to: tuple[str, int], stamp: bool = True) -> int | None:
        """As ProbeEnd."""
        if to[1] > 65_535:
            raise OSError(errno.EINVAL, f"{to[1]} is no UDP port: the peer probes by another backend")
        try:
            if self._all or not stamp:
                self._socket.sendto(data, to)
            else:
                self._socket.sendmsg([data], _ASKED, 0, to)
        except OSError as error:
            self._number_anew()
            if error.errno in FULL:
                return None
            raise
        if not stamp and not self._all:
            return -1
        self._next += 1
        return self._next - 1

    def received(self) -> list[Received]:
        """The next datagram that has come. Of more the descriptor stays readable: to ask the kernel after each whether
        there is another costs more, as there seldom is."""
        for _ in range(BATCH):
            try:
                data, more, _, where = self._socket.recvmsg(_ENOUGH, _SPACE)
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    break
                continue  # an ICMP error of an earlier packet
            at, traffic_class = NO_TIMES, -1
            for level, kind, content in more:
                if level != _SOL_SOCKET:
                    if kind in _CLASSES:
                        traffic_class = content[0]
                elif kind == _SO_TIMESTAMPING:
                    at = _times(content)
                elif kind == _SO_RXQ_OVFL:
                    self.dropped = int.from_bytes(content[:4], sys.byteorder)
            address = (where[0].partition("%")[0], where[1]) if self.six else where
            return [Received(data, address, at, traffic_class)]
        return []

    def stamps(self) -> list[Stamped]:
        """The transmit stamps that have come, at most BATCH, up to the newest packet's first one."""
        found: list[Stamped] = []
        while len(found) < BATCH and not (found and found[-1].number == self._next - 1):
            try:
                _, more, _, _ = self._socket.recvmsg(0, _SPACE, socket.MSG_ERRQUEUE)
            except OSError:
                break
            stamp = stamp_of(more)
            if stamp is not None:
                found.append(stamp)
        return found

    def close(self) -> None:
        self._socket.close()


def stamp_of(more: list[tuple[int, int, bytes]]) -> Stamped | None:
    """The stamp that a message of the error queue carries; None for an ICMP error."""
    at, number = NO_TIMES, None
    for level, kind, content in more:
        if kind == _SO_TIMESTAMPING and level == _SOL_SOCKET:
            at = _times(content)
        elif len(content) >= _ERROR.size:
            what, origin, _, _, _, _, data = _ERROR.unpack_from(content)
            if origin == _BY_STAMP and what == _NO_STAMP:
                number = data
    return None if number is None else Stamped(number, at)


def _times(content: bytes) -> KernelTimes:
    if len(content) < _TIMESPECS.size:
        return NO_TIMES
    software, software_ns, _, _, hardware, hardware_ns = _TIMESPECS.unpack_from(content)
    return KernelTimes(software * 10**9 + software_ns, hardware * 10**9 + hardware_ns)
