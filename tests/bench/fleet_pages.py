"""Metrics pages of a large fleet in one process, for programs that scrape: the nodes of `fleet_agents` over HTTP.

    python -m tests.bench.fleet_pages NODES PORT FAULTS_FILE

Node N answers `GET /metrics` at `fleet_agents.address(N)` with the page that an agent renders of the same inventory,
gzip, its traffic counters moving once a second. All nodes have one page, as their scraper gives them their names. A
line of the input is a command:

    slow SECONDS NODE PORT     the port's link is at half its rate, for SECONDS
    count                      print a JSON line: pages sent until now, samples and bytes of one

FAULTS_FILE gets a JSON line for each fault: node, port, `at` (the system's monotonic clock).
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import select
import socket
import sys
import time
from pathlib import Path

from fabricmon.agent.metrics.hardware import MetricsPage
from fabricmon.model import Snapshot
from fabricmon.runtime.exposition import Format
from tests.bench import fleet_agents

EVERY = 10.0  # seconds: period of the counters of the page


class Pages:
    """Answers of this second, by what differs from a healthy node's."""

    def __init__(self, nodes: int) -> None:
        self._shape = fleet_agents.Shape(nodes, EVERY)
        self._page = MetricsPage(self._shape.any)
        self._second, self._made = 0, dict[int, bytes]()
        self.samples = self.bytes = 0

    def of(self, port: int) -> bytes:
        """The answer of a node whose link at `port` is slow; -1: none is."""
        now = time.monotonic()
        if int(now) != self._second:
            self._second, self._made = int(now), {}
        if port not in self._made:
            self._made[port] = self._answer(port, now)
        return self._made[port]

    def _answer(self, port: int, now: float) -> bytes:
        values = self._shape.values[:]
        for at in self._shape.moving:
            values[at] = now * 1e6
        for at, value in (self._shape.down[port] if port >= 0 else {}).items():
            values[at] = value
        taken = [now] * len(self._shape.any.parts)
        snapshot = Snapshot(self._shape.any, 1, time.time(), taken, values)
        text = b"".join(self._page.render(snapshot, now, Format.TEXT))
        body = gzip.compress(text, 1)
        self.samples = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
        self.bytes = len(text)
        head = ("HTTP/1.1 200 OK", "Content-Type: text/plain; version=0.0.4", "Content-Encoding: gzip",
                f"Content-Length: {len(body)}", "", "")  # fmt: skip
        return "\r\n".join(head).encode() + body


class Nodes:
    """All of them, in one loop over an epoll."""

    def __init__(self, nodes: int, port: int, faults: str) -> None:
        self.pages, self.sent = Pages(nodes), 0
        self._faults, self._slow = Path(faults), dict[int, tuple[float, int]]()  # node -> end, port
        self._sockets, self._left = dict[int, tuple[socket.socket, int]](), dict[int, bytes]()
        self._epoll, self._input = select.epoll(), b""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("0.0.0.0", port))
        self._listener.listen(65535)
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        os.set_blocking(0, False)
        self._epoll.register(0, select.EPOLLIN)

    def run(self) -> None:
        """Serve until the input ends."""
        while True:
            for number, events in self._epoll.poll():
                if number == self._listener.fileno():
                    self._accept()
                elif number == 0:
                    if not self._command():
                        return
                elif events & select.EPOLLOUT:
                    self._write(number, self._left.pop(number, b""))
                else:
                    self._read(number)

    def _accept(self) -> None:
        for _ in range(64):
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            made.setblocking(False)
            self._sockets[made.fileno()] = (made, fleet_agents.number_of(made.getsockname()[0]))
            self._epoll.register(made.fileno(), select.EPOLLIN)

    def _read(self, number: int) -> None:
        made, node = self._sockets[number]
        try:
            data = made.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._close(number)
            return
        end, port = self._slow.get(node, (0.0, -1))
        for _ in range(data.count(b"\r\n\r\n")):  # requests have no body and come in one piece
            self.sent += 1
            self._write(number, self.pages.of(port if time.monotonic() < end else -1))

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
        self._epoll.modify(number, select.EPOLLOUT if sent < len(data) else select.EPOLLIN)

    def _close(self, number: int) -> None:
        self._left.pop(number, None)
        self._epoll.unregister(number)
        self._sockets.pop(number)[0].close()

    def _command(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            word, *numbers = line.decode().split()
            if word == "slow":
                node, port = int(numbers[1]), int(numbers[2])
                self._slow[node] = (time.monotonic() + float(numbers[0]), port)
                with self._faults.open("a") as file:
                    file.write(json.dumps({"node": node, "port": port, "at": time.monotonic()}) + "\n")
            elif word == "count":
                self._count()
        return bool(data)

    def _count(self) -> None:
        told = {"at": time.monotonic(), "sent": self.sent, "samples": self.pages.samples, "bytes": self.pages.bytes}
        print(json.dumps(told), flush=True)


def main(nodes: str, port: str, faults: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    served = Nodes(int(nodes), int(port), faults)
    print("listening", flush=True)
    served.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
