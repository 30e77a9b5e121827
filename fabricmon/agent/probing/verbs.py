"""Probes by RDMA adapters themselves: unreliable datagrams (UD) of queue pairs, by the library `ibverbs` of the extra
`verbs`, which is imported with the first VerbsBackend.

A responder's queue pair exists as long as its port does, since its number is offered; it receives only while an
assignment is in force. Every flow has a queue pair of its own, with the flow label of its source port: adapters take
the UDP source port of RoCE v2 from the label, or from the queue pair's number where they ignore the label. Nothing
stamps: times are of the program (docs/probing.md#verbs).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import ipaddress
import mmap
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fabricmon.agent.probing import next_hop
from fabricmon.agent.probing.backend import ProbeEnd, ProbeRow, Received, Stamped
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.probe.packet import HEADERS, RDMA_HEADERS, SIZE, Offer
from fabricmon.probe.windows import KernelTimes

SYSFS = Path("/sys/class/infiniband")
MISSING = "agent.probe.backend: verbs needs the extra: pip install 'fabricmon[verbs]', and libibverbs.so.1 (rdma-core)"
KEY = 0x66700001
"""Queue key of all ends. No secret: what is answered is decided by the nonce and the askers."""
GRH = 40
"""Bytes before the payload of a received datagram: the global or IP header."""
ASKER_DEPTH, RESPONDER_DEPTH, SEND_DEPTH = 32, 128, 32
RENEW = 60.0
"""Seconds after which the way to a peer is found anew: its next hop may have another hardware address."""
PATIENCE = 1.0
"""Seconds in which a next hop answers, as with UDP; then packets count as lost."""
MOST_WAYS = 1024
_INFINIBAND = 1  # link layer
_HAS_GRH = 1  # IBV_WC_GRH
_LABEL = 0x3FFF
"""The bits of a flow label that are those of the UDP source port, from 49152 on (rdma_flow_label_to_udp_sport)."""


def library() -> Any:
    """The module. OSError names the extra where it, or libibverbs, is missing."""
    os.environ.setdefault("RDMAV_FORK_SAFE", "1")  # read by libibverbs: the agent starts programs
    try:
        return importlib.import_module("ibverbs")
    except ImportError as error:
        raise OSError(errno.ENOPKG, f"{MISSING}: {error}") from None


class VerbsPort:
    """One port of an RDMA device, opened. OSError where it cannot be used, with the reason.

    address  by which others reach it: of its interface, on InfiniBand its GID with "%" and its LID
    """

    def __init__(self, module: Any, row: ProbeRow, address: str) -> None:
        devices = {device.name: device for device in module.get_device_list()}
        if row.device not in devices:
            raise OSError(errno.ENODEV, f"{row.device} has no uverbs device, or it is not in the container")
        self.module, self.number = module, int(row.port)
        try:
            self.context = devices[row.device].open()
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise OSError(error.errno, f"the uverbs device of {row.device} cannot be opened: {why}") from None
        attributes = self.context.query_port(self.number)
        self.infiniband = attributes.link_layer == _INFINIBAND
        self.mtu = 128 << int(attributes.active_mtu)
        self.index, gid = self._gid(row, address)
        self.address = f"{ipaddress.IPv6Address(gid)}%{attributes.lid}" if self.infiniband else address
        self.domain = self.context.alloc_pd()

    @property
    def works(self) -> bool:
        """Whether the device is still the one that was opened: a reset makes a new one."""
        try:
            self.context.query_port(self.number)
        except OSError:
            return False
        return True

    def _gid(self, row: ProbeRow, address: str) -> tuple[int, bytes]:
        if self.infiniband:
            return 0, self.context.query_gid(self.number, 0).raw
        if not address:
            raise OSError(errno.EADDRNOTAVAIL, f"{row.netdev or row.device} has no IP address, so no RoCE v2 GID")
        wanted, folder = gid_of(address), SYSFS / row.device / "ports" / row.port
        for index in range(self.context.query_port(self.number).gid_tbl_len):
            if self.context.query_gid(self.number, index).raw == wanted:
                try:
                    kind = (folder / "gid_attrs" / "types" / str(index)).read_text().strip()
                except OSError:
                    continue
                if kind == "RoCE v2":
                    return index, wanted
        raise OSError(errno.EADDRNOTAVAIL, f"{row.device} has no GID of RoCE v2 for {address}")


def gid_of(address: str) -> bytes:
    """Of an address as it is offered; an IPv4 address is mapped."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return found.packed if found.version == 6 else b"\0" * 10 + b"\xff\xff" + found.packed


def device_rows() -> list[ProbeRow]:
    """A row for each port of the RDMA devices of this machine."""
    found = []
    for folder in sorted(SYSFS.glob("*/ports/*")):
        device = folder.parent.parent.name
        try:
            netdev = (folder / "gid_attrs" / "ndevs" / "0").read_text().strip()
        except OSError:  # InfiniBand
            netdev = ""
        found.append(ProbeRow(f"{device}/{folder.name}", netdev, device, folder.name))
    return found


def sender_of(header: bytes, mapped: bool) -> tuple[bytes, int]:
    """GID and traffic class of the sender, by the 40 bytes before the payload. mapped: of IPv4, in their last 20."""
    if mapped:
        return gid_of(str(ipaddress.IPv4Address(header[32:36]))), header[21]
    return bytes(header[8:24]), (header[0] & 0xF) << 4 | header[1] >> 4


class VerbsEnd:
    """One queue pair with its queues and its memory. OSError where the adapter makes none.

    label  of what it sends; -1: by the queue pair of the receiver
    size   bytes of the largest payload that it receives
    """

    def __init__(self, port: VerbsPort, depth: int, label: int, size: int, ask: next_hop.Ask) -> None:
        self.dropped = 0
        self.headers = HEADERS[6 if ":" in port.address else 4] + RDMA_HEADERS
        self._port, self._label, self._ask = port, label, ask
        self._mapped = ":" not in port.address
        self._names: dict[bytes, str] = {}  # of peers, by their GID
        self._ways: dict[tuple[str, int], tuple[Any, float]] = {}
        self._since: dict[str, float] = {}
        self._traffic_class = 0
        self._stamped: list[Stamped] = []
        self._sent = self._free = self._numbers = 0
        self._slot, self._depth = GRH + size, depth
        module = port.module
        self._buffer = mmap.mmap(-1, depth * self._slot + SEND_DEPTH * port.mtu)
        self._buffer.madvise(mmap.MADV_DONTFORK)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._memory = port.domain.reg_mr(self._start, len(self._buffer), module.AccessFlags.LOCAL_WRITE)
        self._channel = port.context.create_comp_channel()
        os.set_blocking(self._channel.fd, False)
        self._arrivals = port.context.create_cq(depth, self._channel)
        self._departures = port.context.create_cq(SEND_DEPTH)
        self._pair = port.domain.create_qp(module.QPInitAttr(
            send_cq=self._departures, recv_cq=self._arrivals, qp_type=module.QPType.UD,
            max_send_wr=SEND_DEPTH, max_recv_wr=depth,
        ))  # fmt: skip
        self.number = int(self._pair.qp_num)

    def begin(self, dscp: int) -> None:
        """Receive, and send in this class."""
        module, mask = self._port.module, self._port.module.QPAttrMask
        self._traffic_class, self._free = dscp << 2, SEND_DEPTH
        self._ways.clear()
        self._pair.to_init(self._port.number, 0, 0, KEY)
        self._arrivals.poll(self._depth)
        self._departures.poll(SEND_DEPTH)
        for slot in range(self._depth):
            self._receive(slot)
        self._arrivals.req_notify()
        self._pair.modify(mask.STATE, qp_state=module.QPState.RTR)
        self._pair.modify(mask.STATE | mask.SQ_PSN, qp_state=module.QPState.RTS, sq_psn=0)

    def rest(self) -> None:
        """Neither receive nor send; the number stays."""
        with contextlib.suppress(OSError):  # of a device that is gone
            self._pair.modify(self._port.module.QPAttrMask.STATE, qp_state=self._port.module.QPState.RESET)
        self._stamped.clear()

    def fileno(self) -> int:
        return int(self._channel.fd)

    def largest(self, to: str) -> int:
        """The MTU that the port has taken: a datagram is one packet."""
        return self._port.mtu

    # --- the way to a peer

    def prepare(self, to: str) -> bool:
        if len(self._names) >= MOST_WAYS and gid_of(to) not in self._names:
            self._names.pop(next(iter(self._names)))
        self._names[gid_of(to)] = to
        if self._port.infiniband or any(address == to for address, _ in self._ways):
            return True
        try:
            if next_hop.known(self._ask, self._port.address, to):
                return True
            next_hop.resolve(self._port.address, to)
        except OSError:
            return True  # no route: its packets are lost
        if len(self._since) >= MOST_WAYS:
            self._since.clear()
        return time.monotonic() - self._since.setdefault(to, time.monotonic()) >= PATIENCE

    def _way(self, to: str, label: int) -> Any:
        """An address handle. OSError where the next hop is not known."""
        found, until = self._ways.get((to, label), (None, 0.0))
        now = time.monotonic()
        if now < until:
            return found
        if not self._port.infiniband and not next_hop.known(self._ask, self._port.address, to):
            next_hop.resolve(self._port.address, to)
            if found is None:
                raise OSError(errno.EHOSTUNREACH, f"the next hop to {to} does not answer")
            return found
        if len(self._ways) >= MOST_WAYS:
            self._ways.clear()
        lid = int(to.partition("%")[2] or 0)
        found = self._port.domain.create_ah(self._port.module.AHAttr(
            dgid=gid_of(to), sgid_index=self._port.index, dlid=lid, is_global=1, port_num=self._port.number,
            hop_limit=64, traffic_class=self._traffic_class, flow_label=label,
        ))  # fmt: skip
        self._ways[to, label] = found, now + RENEW
        return found

    # --- packets

    def send(self, data: bytes, to: tuple[str, int], stamp: bool = True) -> int | None:
        module = self._port.module
        if len(data) > self._port.mtu:
            raise OSError(errno.EMSGSIZE, f"a datagram has at most {self._port.mtu} bytes")
        way = self._way(to[0], self._label if self._label >= 0 else to[1] & _LABEL)
        left = self._departures.poll(SEND_DEPTH)
        self._free += len(left)
        if not all(one.is_success for one in left):  # the queue pair stands still
            self.rest()
            self.begin(self._traffic_class >> 2)
        if not self._free:
            return None
        at = self._depth * self._slot + (self._sent % SEND_DEPTH) * self._port.mtu
        self._buffer[at : at + len(data)] = data
        self._pair.post_send(module.SendWR(
            sg_list=[self._memory.sge(len(data), at)], opcode=module.WROpcode.SEND,
            send_flags=module.SendFlags.SIGNALED, ah=way, remote_qpn=to[1], remote_qkey=KEY,
        ))  # fmt: skip
        self._sent, self._free = self._sent + 1, self._free - 1
        if not stamp:
            return -1
        self._numbers += 1
        self._stamped.append(Stamped(self._numbers, KernelTimes(program=time.time_ns())))
        return self._numbers

    def received(self) -> list[Received]:
        try:
            self._channel.get_cq_event()
            self._arrivals.ack_events(1)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
        self._arrivals.req_notify()
        found: list[Received] = []
        while completions := self._arrivals.poll(self._depth):
            came = KernelTimes(program=time.time_ns())
            if len(completions) == self._depth:
                self.dropped += 1  # no buffer was left for what came next
            found += [packet for one in completions if (packet := self._taken(one, came)) is not None]
        return found

    def _taken(self, one: Any, came: KernelTimes) -> Received | None:
        slot, packet = int(one.wr_id), None
        if one.is_success and one.wc_flags & _HAS_GRH and one.byte_len >= GRH:
            data = self._buffer[slot * self._slot : slot * self._slot + one.byte_len]
            gid, traffic_class = sender_of(data[:GRH], self._mapped)
            packet = Received(data[GRH:], (self._names.get(gid, ""), int(one.src_qp)), came, traffic_class)
        self._receive(slot)
        return packet

    def _receive(self, slot: int) -> None:
        memory = self._memory.sge(self._slot, slot * self._slot)
        self._pair.post_recv(self._port.module.RecvWR(wr_id=slot, sg_list=[memory]))

    def stamps(self) -> list[Stamped]:
        found, self._stamped = self._stamped, []
        return found

    def close(self) -> None:
        self._ways.clear()
        for part in (self._pair, self._arrivals, self._departures, self._channel, self._memory):
            with contextlib.suppress(OSError):  # of a device that is gone
                part.close()


class _RestingEnd(VerbsEnd):
    """A responder's: closing it ends its work, its number stays."""

    def close(self) -> None:
        self.rest()

    def end(self) -> None:
        super().close()


class _OpenedPort:
    """A port and its responder."""

    def __init__(self, module: Any, row: ProbeRow, address: str, ask: next_hop.Ask) -> None:
        self.of = row, address
        self.port = VerbsPort(module, row, address)
        self.responder = _RestingEnd(self.port, RESPONDER_DEPTH, -1, self.port.mtu, ask)


class VerbsBackend:
    """Queue pairs for the rows with an RDMA port, sockets for the others.

    addresses  PORT row -> address of its interface
    """

    def __init__(
        self, udp: UdpBackend, addresses: Callable[[Iterable[ProbeRow]], Mapping[str, str]],
        module: Callable[[], Any] = library, ask: next_hop.Ask | None = None,
    ) -> None:  # fmt: skip
        self._udp, self._addresses_of, self._load = udp, addresses, module
        self._ask = ask or next_hop.asker()
        self._ports: dict[str, _OpenedPort] = {}
        self._gone: list[_OpenedPort] = []
        self._refused: dict[str, str] = {}

    def offers(self, rows: Iterable[ProbeRow]) -> dict[str, Offer]:
        every = list(rows)
        mine = {row.name: row for row in every if row.device and row.port.isdecimal()}
        found = self._udp.offers(row for row in every if row.name not in mine)
        addresses = self._addresses_of(mine.values())
        self._refused = {}
        self._end_gone()
        for name in [n for n, had in self._ports.items() if had.of != (mine.get(n), addresses.get(n, ""))]:
            self._gone.append(self._ports.pop(name))
        for name in [n for n, had in self._ports.items() if not had.port.works]:
            self._gone.append(self._ports.pop(name))
        for name, row in mine.items():
            try:
                if name not in self._ports:
                    self._ports[name] = _OpenedPort(self._load(), row, addresses.get(name, ""), self._ask)
            except OSError as error:
                self._refused[name] = error.strerror or str(error)
                continue
            opened = self._ports[name]
            found[name] = Offer(opened.port.address, opened.responder.number, "verbs")
        return found

    def _end_gone(self) -> None:
        """Those of the offers before: by now no one watches them. A port is closed with its last end."""
        for one in self._gone:
            with contextlib.suppress(OSError):
                one.responder.end()
        self._gone = []

    def refused(self) -> Mapping[str, str]:
        return self._refused

    def asker(self, row: str, source: int, dscp: int) -> ProbeEnd:
        if row not in self._ports:
            return self._udp.asker(row, source, dscp)
        made = VerbsEnd(self._ports[row].port, ASKER_DEPTH, source & _LABEL, SIZE, self._ask)
        made.begin(dscp)
        return made

    def responder(self, row: str, dscp: int) -> ProbeEnd:
        if row not in self._ports:
            return self._udp.responder(row, dscp)
        self._ports[row].responder.begin(dscp)
        return self._ports[row].responder
