"""The kernel's user MAD interface by libibumad and ctypes."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from fabricmon.fabric import mad
from fabricmon.fabric.transport import Packed, Request, TransportError

LIBRARY = "libibumad.so.3"
_QKEY = 0x80010000  # of queue pair 1 (IBA volume 1)
_U32 = struct.Struct(">I")
_STATUS_AT = 4  # of the kernel's header (struct ib_user_mad_hdr: agent, status, timeout, retries, length, address)


def open_port(device: str = "", port: int = 0) -> UmadPort:
    """A port of a local adapter; without a name the first active InfiniBand port. TransportError where there is no such
    port or this user may not use it."""
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise TransportError(errno.ENOENT, f"{LIBRARY} is not installed (Debian: libibumad3)") from error
    return UmadPort(library, device, port)


@dataclass(slots=True)
class _Frames:
    """Requests in one block of memory, each after the kernel's header."""

    block: ctypes.Array[ctypes.c_char]
    view: memoryview
    address: int
    agents: list[int]

    def __len__(self) -> int:
        return len(self.agents)


class UmadPort:
    """One open port with an agent for each management class in use."""

    def __init__(self, library: ctypes.CDLL, device: str, port: int) -> None:
        _declare(library)
        self._lib = library
        if library.umad_init() < 0:
            raise TransportError(errno.ENODEV, "the kernel has no user MAD interface (module ib_umad)")
        self._where = f"{device or 'any device'}{f'/{port}' if port else ''}"
        self._fd = library.umad_open_port(device.encode() or None, port)
        if self._fd < 0:
            number = -self._fd
            raise TransportError(number, f"cannot open a management port of {self._where}: {os.strerror(number)}")
        self._agent: dict[int, int] = {}
        try:
            for kind in (mad.CLASS_SMP_DIRECTED, mad.CLASS_SMP_LID, mad.CLASS_PERF):
                agent = library.umad_register(self._fd, kind, 1, 0, None)
                if agent < 0:
                    raise TransportError(-agent, f"{self._where}: no agent for class {kind:#x}: {os.strerror(-agent)}")
                self._agent[kind] = agent
        except TransportError:
            self.close()
            raise
        self._head: int = library.umad_size()
        self._stride = self._head + mad.SIZE
        self._in = ctypes.create_string_buffer(self._stride)
        self._in_at = ctypes.addressof(self._in)
        self._in_view = memoryview(self._in).cast("B")
        self.inbox = self._in_view[self._head :]
        self._arrived = struct.Struct(f">I{self._head + mad.TID_AT - _STATUS_AT - 4}xI").unpack_from
        self._length = ctypes.c_int(mad.SIZE)
        self._length_at = ctypes.addressof(self._length)

    def pack(self, requests: Sequence[Request]) -> Packed:
        block = ctypes.create_string_buffer(self._stride * max(1, len(requests)))
        address, view = ctypes.addressof(block), memoryview(block).cast("B")
        agents: list[int] = []
        for number, (lid, datagram) in enumerate(requests):
            at = number * self._stride
            kind = datagram[1]
            queue, key = (1, _QKEY) if kind == mad.CLASS_PERF else (0, 0)
            self._lib.umad_set_addr(address + at, lid, queue, 0, key)
            view[at + self._head : at + self._stride] = datagram
            agents.append(self._agent[kind])
        return _Frames(block, view, address, agents)

    def send(self, packed: Packed, at: int, tid: int, timeout: float) -> None:
        assert isinstance(packed, _Frames)
        offset = at * self._stride
        _U32.pack_into(packed.view, offset + self._head + mad.TID_AT, tid)
        # without the kernel's retries: the sweep retries
        code = self._lib.umad_send(
            self._fd, packed.agents[at], packed.address + offset, mad.SIZE, int(timeout * 1000), 0
        )
        if code < 0:
            raise TransportError(-code, f"{self._where}: cannot send: {os.strerror(-code)}")

    def receive(self, wait: float) -> tuple[int, int] | None:
        code = self._lib.umad_recv(self._fd, self._in_at, self._length_at, int(wait * 1000))
        if code < 0:
            self._length.value = mad.SIZE
            if code in (-errno.ETIMEDOUT, -errno.EWOULDBLOCK, -errno.EINTR):
                return None
            raise TransportError(-code, f"{self._where}: cannot receive: {os.strerror(-code)}")
        status, tid = self._arrived(self._in_view, _STATUS_AT)
        if status:
            self._length.value = mad.SIZE
            status = int.from_bytes(self._in_view[_STATUS_AT : _STATUS_AT + 4], sys.byteorder)
        return tid, status

    def close(self) -> None:
        if self._fd >= 0:
            for agent in self._agent.values():
                self._lib.umad_unregister(self._fd, agent)
            self._lib.umad_close_port(self._fd)
            self._fd = -1


def _declare(library: ctypes.CDLL) -> None:
    """Set argument types; addresses are plain numbers, which cost less than pointer objects."""
    integer, pointer = ctypes.c_int, ctypes.c_void_p
    library.umad_open_port.argtypes = (ctypes.c_char_p, integer)
    library.umad_close_port.argtypes = (integer,)
    library.umad_register.argtypes = (integer, integer, integer, ctypes.c_uint8, pointer)
    library.umad_unregister.argtypes = (integer, integer)
    library.umad_set_addr.argtypes = (pointer, integer, integer, integer, integer)
    library.umad_send.argtypes = (integer, integer, pointer, integer, integer, integer)
    library.umad_recv.argtypes = (integer, pointer, pointer, integer)
    library.umad_size.restype = ctypes.c_size_t
