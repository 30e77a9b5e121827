"""Agents of a large fleet in one process: the real protocol over raw sockets, faults at known times.

    python -m tests.bench.fleet_agents NODES PORT PERIOD FAULTS_FILE

One socket listens on every loopback address; node N is at `address(N)`. Each agent sends what a real one with 8
adapters sends at its defaults: inventory and all values at first, a heartbeat every second with the times of the ports'
states, all values every PERIOD seconds. A line of the input starts a fault:

    slow SECONDS NODE PORT     the port's link comes up at half its rate, for SECONDS
    restart NODE               the agent ends its streams, as one that was restarted

FAULTS_FILE gets a JSON line for each: node, port, `at` (wall clock, when the agent sent it).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from array import array
from collections import defaultdict
from pathlib import Path

from fabricmon import frame
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot

PORTS = 8
TRAFFIC = ("supported", "rcv", "xmit", "xmit_wait_ticks", "symbol_errors")
ERRORS = (
    "excessive_buffer_overrun_errors", "link_error_recoveries", "local_link_integrity_errors", "rcv_errors",
    "xmit_discards", "rdma_rx_write_requests", "duplicate_request", "implied_nak", "ack_timeout", "cnp_sent",
    "ecn_marked_rx", "out_of_buffer", "out_of_sequence_rx", "seq_nak_rx", "req_cqe_error", "req_cqe_flush_error",
    "req_remote_access_error", "req_invalid_request", "rnr_retries_exceeded", "retries_exceeded", "resp_cqe_error",
    "resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_error", "rnr_nak_rx", "adaptive_retrans",
    "adaptive_retrans_timeout", "slow_restart", "slow_restart_cnps", "slow_restart_transitions", "cnp_handled",
    "cnp_ignored", "rdma_rx_atomic_requests", "rdma_rx_dct_connects", "rdma_rx_read_requests",
)  # fmt: skip
RARE = (
    "vl15_dropped", "multicast_rcv_packets", "multicast_xmit_packets", "rcv_constraint_errors", "rcv_packets",
    "rcv_remote_physical_errors", "rcv_switch_relay_errors", "xmit_constraint_errors", "xmit_packets",
    "unicast_rcv_packets", "unicast_xmit_packets",
)  # fmt: skip
STATE = ("state", "phys_state", "lid", "sm_lid", "rate", "width", "link_downed")
NETDEV = (
    "carrier", "operstate", "admin_up", "carrier_down_changes", "carrier_up_changes", "netdev_rate", "mtu", "netdev_rx",
    "netdev_tx", "netdev_rx_packets", "netdev_tx_packets", "netdev_rx_errors", "netdev_tx_errors", "netdev_rx_dropped",
    "netdev_tx_dropped", "netdev_rx_crc_errors",
)  # fmt: skip
AT_REST = {"state": 4.0, "phys_state": 5.0, "lid": 16.0, "sm_lid": 1.0, "rate": 50e9, "width": 4.0, "carrier": 1.0,
           "operstate": 6.0, "admin_up": 1.0, "netdev_rate": 50e9, "mtu": 4092.0, "supported": 1.0}  # fmt: skip
AT_FAULT = {"rate": 25e9, "width": 2.0, "link_downed": 1.0}
MOVING = ("rcv", "xmit", "rcv_packets", "xmit_packets", "netdev_rx", "netdev_tx")
COLLECTORS = (("infiniband", TRAFFIC, 10.0), ("infiniband_errors", ERRORS, 30.0), ("infiniband_rare", RARE, 120.0),
              ("infiniband_state", STATE, 1.0))  # fmt: skip
SLOTS = 50
"""A second's frames are sent in so many portions."""
UP = 1e5
"""Seconds for which the nodes had been up when this machine started: else a fresh machine's would be in their boot
grace."""
_GUID = 0x00BB_0000_0000_0000  # of the adapters that `sim.shapes` lays
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def clock() -> float:
    """The monotonic clock of all nodes."""
    return time.monotonic() + UP


def address(number: int) -> str:
    """The loopback address of a node."""
    return f"127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"


def number_of(host: str) -> int:
    """The node at an address."""
    _, a, b, c = map(int, host.split("."))
    return (a - 1) * 62_500 + b * 250 + c - 1


def name(number: int, nodes: int) -> str:
    """Its name, as `sim.shapes` names hosts."""
    return f"host-{number:0{max(3, len(str(nodes - 1)))}d}"


def inventory(number: int, nodes: int, period: float, started: float) -> Inventory:
    """What an agent on a node of 8 adapters has: a part a port and collector, one of all interfaces."""
    parts = []
    for collector, columns, usual in COLLECTORS:
        for n in range(PORTS):
            few = {"device": f"mlx5_{n}", "port": "1", "netdev": f"ib{n}"}
            guid = _GUID + 0x10 * (PORTS * number + n + 1)
            more = {"link_layer": "InfiniBand", "node_guid": f"0x{guid:016x}", "port_guid": f"0x{guid + 1:016x}",
                    "sys_image_guid": f"0x{guid:016x}", "firmware": "28.41.1000", "board": "FAB_0000000001",
                    "hca_type": "MT4129", "pci": f"0000:{0x11 + 8 * n:02x}:00.0", "driver": "mlx5_core",
                    "role": "compute"}  # fmt: skip
            labels = few | more if collector in ("infiniband", "infiniband_state") else few
            pace = usual if collector == "infiniband_state" else period
            parts.append(Part(collector, Kind.PORT, columns, (Component(f"mlx5_{n}/1", labels),), pace))
    interfaces = tuple(
        Component(f"mlx5_{n}/1", {"netdev": f"ib{n}", "device": f"mlx5_{n}", "port": "1"}) for n in range(PORTS)
    )
    parts.append(Part("ethernet", Kind.PORT, NETDEV, interfaces, period))
    node = name(number, nodes)
    return Inventory(1, Identity(node, f"boot of {node}", f"agent of {node}", "bench", started), tuple(parts))


class Shape:
    """What all nodes have in common: the places of values, and the messages of a node as bytes to fill in."""

    def __init__(self, nodes: int, period: float) -> None:
        self.nodes, self.period, self.started = nodes, period, time.time()
        self.any = inventory(0, nodes, period, self.started)
        columns = [(p.collector, c, n) for p in self.any.parts for n in range(len(p.components)) for c in p.columns]
        self.values = array("d", (AT_REST.get(column, 0.0) for _, column, _ in columns))
        self.moving = [at for at, (_, column, _) in enumerate(columns) if column in MOVING]
        self.states = [at for at, part in enumerate(self.any.parts) if part.collector == "infiniband_state"]
        of = {column: [at for at, each in enumerate(columns) if each[1] == column] for _, column, _ in columns}
        self.down = [{of[column][n]: value for column, value in AT_FAULT.items()} for n in range(PORTS)]
        self.up = [{of[column][n]: AT_REST[column] for column in ("rate", "width")} for n in range(PORTS)]


def wrapped(kind: int, data: bytes) -> bytes:
    """A WebSocket message of a server: 1 text, 2 binary."""
    size = len(data)
    head = struct.pack("!BB", 0x80 | kind, size) if size < 126 else (
        struct.pack("!BBH", 0x80 | kind, 126, size) if size < 65536 else struct.pack("!BBQ", 0x80 | kind, 127, size)
    )  # fmt: skip
    return head + data


class Agent:
    """One node: its state, and its streams by file descriptor."""

    __slots__ = ("changed", "events", "number", "streams", "taken")

    def __init__(self, number: int, parts: int) -> None:
        self.number, self.changed = number, dict[int, float]()  # place of a value -> what differs from one at rest
        self.taken, self.events = [clock()] * parts, 0
        self.streams: set[int] = set()


class Agents:
    """All of them, in one loop over an epoll."""

    def __init__(self, nodes: int, port: int, period: float, faults: str) -> None:
        self.shape = Shape(nodes, period)
        self.agents = [Agent(n, len(self.shape.any.parts)) for n in range(nodes)]
        self._faults = Path(faults)
        self._sockets: dict[int, tuple[socket.socket, Agent | None]] = {}
        self._left: dict[int, bytes] = {}  # of a message that its reader has not taken yet
        self._asked: dict[int, bytes] = defaultdict(bytes)
        self._ends: list[tuple[float, int, int]] = []
        self._seq, self._epoll, self._input = 1, select.epoll(), b""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("0.0.0.0", port))
        self._listener.listen(65535)
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        os.set_blocking(0, False)
        self._epoll.register(0, select.EPOLLIN)
        self.behind = self.skipped = 0
        self._greeted = set[int]()  # nodes, until all were

    def run(self) -> None:
        """Serve until the input ends."""
        slot, due = 0, time.monotonic()
        while self._serve(due - time.monotonic()):
            if time.monotonic() < due:
                continue
            self.behind += time.monotonic() > due + 1.0
            for agent in self.agents[slot % SLOTS :: SLOTS]:
                self._beat(agent, slot // SLOTS)
            self._mend()
            slot, due = slot + 1, due + 1.0 / SLOTS

    def _beat(self, agent: Agent, second: int) -> None:
        if not agent.streams:
            return
        now, every = clock(), max(round(self.shape.period), 1)
        if (second + agent.number) % every == 0:
            agent.taken = [now] * len(agent.taken)
            self._send(agent, self._full(agent, self._values(agent)))
        else:
            for at in self.shape.states:
                agent.taken[at] = now
            self._send(agent, self._delta(agent, {}))

    def _values(self, agent: Agent) -> array[float]:
        """Of the time when they were all read: an agent that begins anew has not begun to count anew."""
        values = self.shape.values[:]
        for at in self.shape.moving:
            values[at] = agent.taken[0] * 1e6
        for at, value in agent.changed.items():
            values[at] = value
        return values

    def _full(self, agent: Agent, values: array[float]) -> bytes:
        self._seq += 1
        return wrapped(2, frame.encode_full(Snapshot(self.shape.any, self._seq, time.time(), agent.taken, values)))

    def _delta(self, agent: Agent, changed: dict[int, float]) -> bytes:
        self._seq += 1
        parts, size = len(agent.taken), len(self.shape.values)
        head = struct.pack("<2sBBIQdIIII", b"FM", frame.VERSION, 1, 1, self._seq, time.time(), parts, size,
                           len(changed), 0)  # fmt: skip
        body = array("d", agent.taken).tobytes() + array("d", changed.values()).tobytes()
        return wrapped(2, head + body + array("I", changed).tobytes())

    def _send(self, agent: Agent, data: bytes) -> None:
        for number in list(agent.streams):
            if number in self._left:
                self.skipped += 1  # a slow reader: the next full frame has what it missed
            else:
                self._write(number, data)

    def _write(self, number: int, data: bytes) -> None:
        try:
            sent = self._sockets[number][0].send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(number)
            return
        if sent < len(data):
            self._left[number] = data[sent:]
            self._epoll.modify(number, select.EPOLLIN | select.EPOLLOUT)

    # --- input

    def _serve(self, wait: float) -> bool:
        """Wait for input, at most `wait` seconds, and take it. False: stop."""
        for number, events in self._epoll.poll(max(wait, 0.0)):
            if number == self._listener.fileno():
                self._accept()
            elif number == 0:
                if not self._command():
                    return False
            elif events & select.EPOLLOUT and number in self._left:
                data = self._left.pop(number)
                self._epoll.modify(number, select.EPOLLIN)
                self._write(number, data)
            elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self._read(number)
        return True

    def _accept(self) -> None:
        for _ in range(64):
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[made.fileno()] = (made, None)
            self._epoll.register(made.fileno(), select.EPOLLIN)

    def _read(self, number: int) -> None:
        made, agent = self._sockets[number]
        try:
            data = made.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._close(number)
        elif agent is None:
            self._asked[number] += data
            if b"\r\n\r\n" in self._asked[number]:
                self._greet(number, made, self._asked.pop(number))

    def _greet(self, number: int, made: socket.socket, asked: bytes) -> None:
        agent = self.agents[number_of(made.getsockname()[0])]
        (key,) = (line.partition(b":")[2].strip() for line in asked.split(b"\r\n")
                  if line.lower().startswith(b"sec-websocket-key"))  # fmt: skip
        accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())
        hello = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")  # fmt: skip
        shape = self.shape
        mine = inventory(agent.number, shape.nodes, shape.period, shape.started)
        agent.streams.add(number)
        if len(self._greeted) < shape.nodes:
            self._greeted.add(agent.number)
            if len(self._greeted) == shape.nodes:
                print("all greeted", flush=True)
        self._sockets[number] = (made, agent)
        self._write(number, hello + wrapped(1, frame.encode_hello(mine).encode())
                    + self._full(agent, self._values(agent)))  # fmt: skip

    def _close(self, number: int) -> None:
        made, agent = self._sockets.pop(number)
        if agent is not None:
            agent.streams.discard(number)
        self._left.pop(number, None)
        self._asked.pop(number, None)
        self._epoll.unregister(number)
        made.close()

    # --- faults

    def _command(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            word, *numbers = line.decode().split()
            if word == "slow":
                self._slow(int(numbers[1]), int(numbers[2]), float(numbers[0]))
            elif word == "restart":
                for number in list(self.agents[int(numbers[0])].streams):
                    self._close(number)
        return bool(data)

    def _slow(self, node: int, port: int, seconds: float) -> None:
        at = time.time()
        self._report(self.agents[node], self.shape.down[port])
        self._ends.append((time.monotonic() + seconds, node, port))
        with self._faults.open("a") as file:
            file.write(json.dumps({"node": node, "port": port, "at": at}) + "\n")

    def _mend(self) -> None:
        now = time.monotonic()
        for each in [end for end in self._ends if end[0] <= now]:
            self._ends.remove(each)
            _, node, port = each
            self._report(self.agents[node], self.shape.up[port])

    def _report(self, agent: Agent, changed: dict[int, float]) -> None:
        """Send what changed at once, as an agent does whose kernel reported the link."""
        agent.changed |= changed
        now, agent.events = clock(), agent.events + 1
        for at in self.shape.states:
            agent.taken[at] = now
        event = Event(int(self.shape.started * 1e3) + agent.events, time.time(), "link", "mlx5_0/1", "port changed")
        self._send(agent, wrapped(1, frame.encode_event(event).encode()) + self._delta(agent, changed))


def main(nodes: str, port: str, period: str, faults: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    agents = Agents(int(nodes), int(port), float(period), faults)
    print("listening", flush=True)
    agents.run()
    print(json.dumps({"behind": agents.behind, "skipped": agents.skipped}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
