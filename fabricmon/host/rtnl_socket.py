"""pyroute2's netlink socket, handing messages on as bytes. Imported late: pyroute2 costs 10 MiB and 80 ms.

pyroute2 keeps what arrived in a queue without a limit; here it stays short because each datagram is taken out of it
before the loop reads the next.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, nlmsg
from pyroute2.netlink.marshal import Marshal
from pyroute2.netlink.nlsocket import AsyncNetlinkSocket

_NETLINK_ROUTE = 0
_HEADER = 16
_SKIP_STATS_VF = 1 << 3  # RTEXT_FILTER_SKIP_STATS


class _Question(nlmsg):  # type: ignore[misc]
    fields = (("family", "B"), ("pad", "x"), ("type", "H"), ("index", "i"), ("flags", "I"), ("change", "I"))
    nla_map = ((29, "EXT_MASK", "uint32"),)


class _Bytes(Marshal):  # type: ignore[misc]
    """Leaves the payload of every message but an error as it is."""

    def parse_one_message(self, key: int, flags: int, sequence: int, data: bytes, at: int, length: int) -> Any:
        if key in (NLMSG_ERROR, NLMSG_DONE):
            return super().parse_one_message(key, flags, sequence, data, at, length)
        header = {"type": key, "flags": flags, "sequence_number": sequence, "error": None}
        return {"header": header, "payload": bytes(data[at + _HEADER : at + length])}


class _Socket(AsyncNetlinkSocket):  # type: ignore[misc]
    marshal_class = _Bytes


def open_socket(buffer: int = 1 << 18) -> Any:
    """A socket of the rtnetlink family; use it on the running loop only. OSError where the kernel refuses."""
    return _Socket(family=_NETLINK_ROUTE, rcvbuf=buffer)


async def ask(sock: Any, question: int, answer: int) -> list[bytes]:
    """Payloads of a dump. NLM_F_ACK is left out: each acknowledgement would stay in pyroute2's queue."""
    message = _Question()
    message["attrs"] = [("EXT_MASK", _SKIP_STATS_VF)]
    found = await sock.nlm_request(message, question, NLM_F_REQUEST | NLM_F_DUMP)
    return [m["payload"] async for m in found if m["header"]["type"] == answer]


async def events(sock: Any) -> AsyncIterator[tuple[int, bytes]]:
    """(type, payload) of each message to the groups the socket is bound to. OSError (ENOBUFS) where some were lost."""
    while True:
        async for message in sock.get():
            yield message["header"]["type"], message["payload"]
