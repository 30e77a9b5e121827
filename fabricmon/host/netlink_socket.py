"""Questions to the kernel over netlink, one at a time, each with a time limit.

Requests have only NLM_F_REQUEST: with NLM_F_ACK an acknowledgement follows each reply.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from fabricmon.host.messages import netlink
from fabricmon.host.messages.netlink import Message, NetlinkError
from fabricmon.host.protocol import HostError, Unsupported

ROUTE, GENERIC, RDMA = 0, 16, 20  # protocols
_T = TypeVar("_T")
_RECEIVE = 1 << 17  # bytes; an answer is at most a page, a dump a few
_MOST_DATAGRAMS = 256  # of one dump: thousands of devices
_MOST_STALE = 64  # late answers to earlier questions that one question skips
_CLOSED = frozenset({errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES})


class Asker:
    """Questions to one netlink protocol. A socket a calling thread: a slow device delays only its caller.

    protocol  ROUTE, GENERIC or RDMA
    what      its name in errors
    limit     seconds for one answer
    """

    def __init__(self, protocol: int, what: str, limit: float) -> None:
        self._protocol, self._what, self._limit = protocol, what, limit
        self._local = threading.local()

    def ask(self, where: str, kind: int, payload: bytes, dump: bool = False) -> list[bytes]:
        """Payloads of the answer: one, or all of a dump. HostError with the kernel's errno, or ETIMEDOUT."""
        try:
            sock, sequence = self._socket(where)
            flags = netlink.NLM_F_REQUEST | (netlink.NLM_F_DUMP if dump else 0)
            sock.send(netlink.encode(kind, flags, sequence, payload))
            return answer(where, sock, sequence, dump)
        except TimeoutError:
            self._drop()  # so that a late answer does not reach the next question
            raise HostError(where, errno.ETIMEDOUT, f"no answer within {self._limit:g} s") from None
        except OSError as error:
            self._drop()
            raise HostError.from_os(where, error) from None
        except NetlinkError as error:
            self._drop()
            raise HostError(where, errno.EBADMSG, str(error)) from None

    def one(self, where: str, kind: int, payload: bytes, decode: Callable[[bytes], _T]) -> _T:
        """The one answer, decoded."""
        (found,) = self.ask(where, kind, payload)
        return decoded(where, lambda: decode(found))

    def _socket(self, where: str) -> tuple[socket.socket, int]:
        local = self._local
        if getattr(local, "sock", None) is None:
            try:
                sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, self._protocol)
            except OSError as error:
                if error.errno in _CLOSED:
                    raise Unsupported(where, error.errno, f"no {self._what} in this kernel or sandbox") from None
                raise
            try:
                sock.bind((0, 0))
            except OSError:
                sock.close()
                raise
            sock.settimeout(self._limit)
            local.sock, local.sequence = sock, 0
        local.sequence = (local.sequence + 1) & 0xFFFFFFFF
        return local.sock, local.sequence

    def _drop(self) -> None:
        sock = getattr(self._local, "sock", None)
        if sock is not None:
            sock.close()
            self._local.sock = None


def decoded(where: str, decode: Callable[[], _T]) -> _T:
    """The result of `decode`; HostError (EBADMSG) for its NetlinkError."""
    try:
        return decode()
    except NetlinkError as error:
        raise HostError(where, errno.EBADMSG, str(error)) from None


def answer(where: str, sock: socket.socket, sequence: int, dump: bool) -> list[bytes]:
    """Payloads of the answer to question `sequence`. OSError of the socket, NetlinkError for an invalid message."""
    payloads: list[bytes] = []
    stale = 0
    for _ in range(_MOST_DATAGRAMS):
        for message in netlink.messages(sock.recv(_RECEIVE)):
            if message.sequence != sequence:
                stale += 1
                if stale > _MOST_STALE:
                    raise NetlinkError("only answers to other questions")
                continue
            if _ends(where, message):
                return payloads
            if message.type > netlink.NLMSG_OVERRUN:
                payloads.append(message.payload)
                if not dump:
                    return payloads
    raise NetlinkError(f"a dump of more than {_MOST_DATAGRAMS} datagrams")


def _ends(where: str, message: Message) -> bool:
    if message.type == netlink.NLMSG_OVERRUN:
        raise NetlinkError("the kernel lost a part of the answer")
    if message.type not in (netlink.NLMSG_ERROR, netlink.NLMSG_DONE):
        return False
    code = netlink.error_of(message)
    if code:
        raise HostError(where, code, os.strerror(code))
    if message.type == netlink.NLMSG_ERROR:
        raise NetlinkError("an acknowledgement where an answer should be")
    return True
