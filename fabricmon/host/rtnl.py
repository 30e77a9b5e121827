"""Network interfaces over rtnetlink: a dump of all of them, and each change at once.

The sockets are pyroute2's; the messages are decoded here, the dozen attributes that are wanted and no others:
pyroute2's own decoder costs 0.8 ms an interface, this one 0.03 ms. All of it lives on one event loop in one daemon
thread, which is where such sockets have to stay. Numbers: linux/if_link.h, linux/rtnetlink.h (netlink.md section 2).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import importlib
import struct
import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fabricmon.host import netlink
from fabricmon.host.netlink import NetlinkError
from fabricmon.host.protocol import HostError, Link, Unsupported

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
_GROUP_LINK = 1
_IFINFO = struct.Struct("=BxHiII")  # family, hardware type, index, flags, change
_IFF_UP = 0x1

ADDRESS, IFNAME, MTU, MASTER, OPERSTATE, LINKINFO, STATS64 = 1, 3, 4, 10, 16, 18, 23
CARRIER, PHYS_PORT_NAME, CARRIER_UP_COUNT, CARRIER_DOWN_COUNT = 33, 38, 47, 48
PARENT_DEV_NAME = 56
_INFO_KIND = 1

OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
# the first fields of struct rtnl_link_stats64 (linux/if_link.h), u64 each
_STATS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors",
)  # fmt: skip
_STATS_STRUCT = struct.Struct(f"={len(_STATS)}Q")

_LIMIT_SECONDS = 5.0  # for a dump; the kernel may wait for its rtnl lock while a driver resets
_REOPEN_SECONDS = 0.2  # after events were lost: not faster than this, lest a storm of them takes the processor
_EVENT_BUFFER = 1 << 20  # bytes of the kernel's queue of events: about 700 of them


def decode_link(payload: bytes) -> Link:
    """An RTM_NEWLINK or RTM_DELLINK message without its header. NetlinkError for bytes that are none."""
    if len(payload) < _IFINFO.size:
        raise NetlinkError(f"link message of {len(payload)} bytes")
    _, _, index, flags, _ = _IFINFO.unpack_from(payload)
    found: dict[int, bytes] = dict(netlink.attributes(payload[_IFINFO.size :]))
    if IFNAME not in found:
        raise NetlinkError("a link without a name")
    oper = _integer(found, OPERSTATE) or 0
    return Link(
        index=index,
        name=netlink.text(found[IFNAME]),
        operstate=OPERSTATES[oper] if oper < len(OPERSTATES) else "unknown",
        admin_up=bool(flags & _IFF_UP),
        carrier=_integer(found, CARRIER),
        carrier_up_count=_integer(found, CARRIER_UP_COUNT),
        carrier_down_count=_integer(found, CARRIER_DOWN_COUNT),
        mtu=_integer(found, MTU),
        master=_integer(found, MASTER),
        kind=_kind(found.get(LINKINFO, b"")),
        address=found.get(ADDRESS, b"").hex(":"),
        parent=netlink.text(found.get(PARENT_DEV_NAME, b"")),
        port_name=netlink.text(found.get(PHYS_PORT_NAME, b"")),
        stats=_stats(found.get(STATS64, b"")),
    )


def _integer(found: dict[int, bytes], kind: int) -> int | None:
    return netlink.number(found[kind]) if kind in found else None


def _kind(info: bytes) -> str:
    for kind, value in netlink.attributes(info):
        if kind == _INFO_KIND:
            return netlink.text(value)
    return ""


def _stats(raw: bytes) -> dict[str, int]:
    if len(raw) < _STATS_STRUCT.size:
        return {}
    return dict(zip(_STATS, _STATS_STRUCT.unpack_from(raw), strict=True))


def _pass_on(tell: Callable[[Link | None], None], kind: int, payload: bytes) -> None:
    """One message of the group to the listener; what cannot be decoded is told as lost."""
    if kind not in (RTM_NEWLINK, RTM_DELLINK):
        return
    try:
        link = decode_link(payload)
    except NetlinkError:
        tell(None)
        return
    tell(link if kind == RTM_NEWLINK else replace(link, operstate="notpresent", admin_up=False, carrier=0))


class Rtnetlink:
    """Asks for all interfaces, and tells of changes. Its thread starts with the first question."""

    def __init__(self, limit: float = _LIMIT_SECONDS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asker: Any = None  # pyroute2 socket, used on the loop only
        self._asking: asyncio.Lock | None = None

    def links(self) -> list[Link]:
        """Every interface of this network namespace."""
        where = "rtnetlink RTM_GETLINK"
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(self._dump(), self._limit), self._running())
        try:
            payloads = future.result(self._limit + 1.0)
        except (TimeoutError, concurrent.futures.CancelledError):
            future.cancel()
            raise HostError(where, errno.ETIMEDOUT, f"no answer within {self._limit:g} s") from None
        except OSError as error:
            if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES):
                raise Unsupported(where, error.errno, "rtnetlink is not open to us") from None
            raise HostError(where, error.errno or 0, str(error)) from None
        except Exception as error:  # whatever pyroute2 may raise: NetlinkError is not an OSError
            raise HostError(where, getattr(error, "code", 0) or 0, f"{type(error).__name__}: {error}") from None
        try:
            return [decode_link(p) for p in payloads]
        except NetlinkError as error:
            raise HostError(where, errno.EBADMSG, str(error)) from None

    def watch(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        """`tell(link)` for each RTM_NEWLINK and RTM_DELLINK (the latter with carrier 0), `tell(None)` where some were
        lost; from the rtnetlink thread. Returns a function that stops it.
        """
        loop = self._running()
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        task = asyncio.run_coroutine_threadsafe(self._listen(tell, ready), loop)
        try:
            ready.result(self._limit)
        except TimeoutError:
            task.cancel()
            raise HostError("rtnetlink group LINK", errno.ETIMEDOUT, "cannot join") from None
        except Exception as error:  # whatever pyroute2 may raise
            raise HostError("rtnetlink group LINK", getattr(error, "errno", 0) or 0, str(error)) from None

        def stop() -> None:
            task.cancel()

        return stop

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        # pyroute2 is imported here, in the caller's thread: on a loaded machine that takes seconds, and the loop's time
        # limits are for the kernel's answers
        importlib.import_module("fabricmon.host.rtnl_socket")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name="rtnetlink", daemon=True).start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            if self._asker is not None:
                self._asker.close()
                self._asker = None
            loop.close()

    async def _dump(self) -> list[bytes]:
        from fabricmon.host.rtnl_socket import ask, open_socket  # _running() has imported it

        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if self._asker is None:
                self._asker = open_socket()
            try:
                return await ask(self._asker, RTM_GETLINK, RTM_NEWLINK)
            except BaseException:
                # after an error or a late answer this socket is of no use for the next question
                asker, self._asker = self._asker, None
                asker.close()
                raise

    async def _listen(self, tell: Callable[[Link | None], None], ready: concurrent.futures.Future[None]) -> None:
        from fabricmon.host.rtnl_socket import events, open_socket

        while True:
            sock = open_socket(_EVENT_BUFFER)
            try:
                await sock.bind(groups=_GROUP_LINK)
                if ready.done():
                    tell(None)  # between the two sockets nobody listened
                else:
                    ready.set_result(None)
                async for kind, payload in events(sock):
                    _pass_on(tell, kind, payload)
            except Exception as error:
                # ENOBUFS, mostly: more events than the buffer holds. pyroute2's socket fails for good then: take a
                # new one. Whatever else it may raise must not end the listening either
                if not ready.done():
                    ready.set_exception(error)
                    return
            finally:
                sock.close()
            await asyncio.sleep(_REOPEN_SECONDS)
