"""RDMA netlink: which RDMA devices there are, the state of a port, all hw_counters of a port in one question.

Numbers from rdma/rdma_netlink.h, as netlink.md section 2 lists them. Requests carry NLM_F_REQUEST alone: with NLM_F_ACK
each reply is followed by an acknowledgement nobody waits for. Every question has a time limit.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

from fabricmon.host import netlink
from fabricmon.host.netlink import Message, NetlinkError
from fabricmon.host.protocol import HostError, RdmaDevice, RdmaPort, Unsupported

NETLINK_RDMA = 20
GET, PORT_GET, STAT_GET = 1, 5, 17
_CLIENT = 5 << 10  # RDMA_NL_NLDEV

DEV_INDEX, DEV_NAME, PORT_INDEX, FW_VERSION, NODE_GUID = 1, 2, 3, 5, 6
LID, SM_LID, PORT_STATE, PORT_PHYS_STATE = 9, 10, 12, 13
NDEV_NAME, DEV_PROTOCOL = 51, 67
HWCOUNTERS, ENTRY, NAME, VALUE = 80, 81, 82, 83

_T = TypeVar("_T")

_LIMIT_SECONDS = 2.0  # for one answer; a port query is a few firmware commands, milliseconds each
_RECEIVE = 1 << 17  # bytes; an answer is at most a page, a dump a few
_MOST_DATAGRAMS = 256  # of one dump: thousands of devices
_MOST_STALE = 64  # late answers to earlier questions that one question reads past


def request(command: int, device: int | None = None, port: int | None = None) -> bytes:
    """The attributes of a question."""
    out = b""
    if device is not None:
        out += netlink.attribute(DEV_INDEX, struct.pack("=I", device))
    if port is not None:
        out += netlink.attribute(PORT_INDEX, struct.pack("=I", port))
    return out


def decode_device(payload: bytes) -> RdmaDevice:
    """One entry of a GET dump. NetlinkError for bytes that are none."""
    index, name, ports, firmware, guid, protocol = -1, "", 0, "", "", ""
    for kind, value in netlink.attributes(payload):
        if kind == DEV_INDEX:
            index = netlink.number(value)
        elif kind == DEV_NAME:
            name = netlink.text(value)
        elif kind == PORT_INDEX:
            ports = netlink.number(value)
        elif kind == FW_VERSION:
            firmware = netlink.text(value)
        elif kind == NODE_GUID:
            guid = _guid(netlink.number(value))
        elif kind == DEV_PROTOCOL:
            protocol = netlink.text(value)
    if index < 0 or not name:
        raise NetlinkError("an RDMA device without index or name")
    return RdmaDevice(index, name, ports, firmware, guid, protocol)


def decode_port(payload: bytes) -> RdmaPort:
    """The answer to PORT_GET."""
    state = phys = lid = sm_lid = None
    netdev = None
    for kind, value in netlink.attributes(payload):
        if kind == PORT_STATE:
            state = netlink.number(value)
        elif kind == PORT_PHYS_STATE:
            phys = netlink.number(value)
        elif kind == LID:
            lid = netlink.number(value)
        elif kind == SM_LID:
            sm_lid = netlink.number(value)
        elif kind == NDEV_NAME:
            netdev = netlink.text(value)
    if state is None or phys is None:
        raise NetlinkError("an RDMA port without state")
    return RdmaPort(state, phys, lid, sm_lid, netdev)


def decode_counters(payload: bytes) -> dict[str, int]:
    """The answer to STAT_GET: {driver's name: value}."""
    found: dict[str, int] = {}
    for kind, table in netlink.attributes(payload):
        if kind != HWCOUNTERS:
            continue
        for entry_kind, entry in netlink.attributes(table):
            if entry_kind != ENTRY:
                continue
            name, value = "", None
            for part, content in netlink.attributes(entry):
                if part == NAME:
                    name = netlink.text(content)
                elif part == VALUE:
                    value = netlink.number(content)
            if name and value is not None:
                found[name] = value
    return found


class RdmaNetlink:
    """Asks the kernel. A socket a calling thread: a port that answers late delays only the thread that asked."""

    def __init__(self, limit: float = _LIMIT_SECONDS) -> None:
        self._limit = limit
        self._local = threading.local()

    def devices(self) -> list[RdmaDevice]:
        payloads = self._ask("RDMA GET", GET, dump=True)
        return _decoded("RDMA GET", lambda: [decode_device(p) for p in payloads])

    def port(self, device: int, port: int) -> RdmaPort:
        where = f"RDMA PORT_GET device {device} port {port}"
        (payload,) = self._ask(where, PORT_GET, device, port)
        return _decoded(where, lambda: decode_port(payload))

    def counters(self, device: int, port: int) -> dict[str, int]:
        where = f"RDMA STAT_GET device {device} port {port}"
        (payload,) = self._ask(where, STAT_GET, device, port)
        return _decoded(where, lambda: decode_counters(payload))

    def _ask(
        self, where: str, command: int, device: int | None = None, port: int | None = None, dump: bool = False
    ) -> list[bytes]:
        """Payloads of the answer: one, or all of a dump."""
        try:
            sock, sequence = self._socket(where)
            flags = netlink.NLM_F_REQUEST | (netlink.NLM_F_DUMP if dump else 0)
            sock.send(netlink.encode(_CLIENT + command, flags, sequence, request(command, device, port)))
            return _answer(where, sock, sequence, dump)
        except TimeoutError:
            self._drop()  # its late answer must not meet the next question
            raise HostError(where, errno.ETIMEDOUT, f"no answer within {self._limit:g} s") from None
        except OSError as error:
            self._drop()
            raise HostError(where, error.errno or 0, os.strerror(error.errno or 0)) from None
        except NetlinkError as error:
            self._drop()
            raise HostError(where, errno.EBADMSG, str(error)) from None

    def _socket(self, where: str) -> tuple[socket.socket, int]:
        local = self._local
        if getattr(local, "sock", None) is None:
            try:
                sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_RDMA)
            except OSError as error:
                if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES):
                    raise Unsupported(where, error.errno, "this kernel has no RDMA netlink for us") from None
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


def _answer(where: str, sock: socket.socket, sequence: int, dump: bool) -> list[bytes]:
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


def _guid(value: int) -> str:
    """As sysfs prints it; the kernel hands the number on in the machine's byte order."""
    digits = f"{value:016x}"
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def _decoded(where: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except NetlinkError as error:
        raise HostError(where, errno.EBADMSG, str(error)) from None
