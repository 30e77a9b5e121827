"""A switch of a test: forwards frames between interfaces by address, and loses, delays or holds some of them.

    python -m tests.rigs.lossy_switch FAULTS PORT...

PORT is an interface of this network namespace, the switch's end of a veth pair. FAULTS is a JSON file that is read
again whenever it changes: a list of {"loss": share, "delay": seconds, "into": PORT, "out": PORT, "source": UDP port,
"larger": bytes}; all that are given must fit a frame. The kernel of the build machine has no netem; kernels and stamps
at both ends are real.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import random
import selectors
import socket
import struct
import sys
import time

ETH_ALL, OUTGOING, BROADCAST = 3, 4, b"\xff" * 6


class LossySwitch:
    """faults  path of the file; seed: of the losses"""

    def __init__(self, ports: list[str], faults: str, seed: int = 1) -> None:
        self._sockets = {port: self._open(port) for port in ports}
        self._faults, self._known, self._read = faults, [], 0.0
        self._draw = random.Random(seed)
        self._place: dict[bytes, str] = {}
        self._later: list[tuple[float, int, str, bytes]] = []
        self._count = 0

    @staticmethod
    def _open(port: str) -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
        made.bind((port, 0))
        # all frames, whoever they are to (packet(7): PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC)
        made.setsockopt(263, 1, struct.pack("IHH8s", socket.if_nametoindex(port), 1, 0, b""))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        made.setblocking(False)
        return made

    def run(self) -> None:
        """Forward until killed."""
        waiting = selectors.DefaultSelector()
        for port, one in self._sockets.items():
            waiting.register(one, selectors.EVENT_READ, port)
        while True:
            pause = max(0.0, self._later[0][0] - time.monotonic()) if self._later else 0.2
            for key, _ in waiting.select(pause):
                self._drain(key.data)
            while self._later and self._later[0][0] <= time.monotonic():
                self._put(*heapq.heappop(self._later)[2:])

    def _drain(self, port: str) -> None:
        for _ in range(64):
            try:
                frame, where = self._sockets[port].recvfrom(65_536)
            except BlockingIOError:
                return
            if where[2] != OUTGOING:
                self._place[frame[6:12]] = port
                self._forward(port, frame)

    def _forward(self, came: str, frame: bytes) -> None:
        known = self._place.get(frame[:6])
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:  # veth leaves the checksum to an adapter that is not there
            frame = frame[:40] + b"\0\0" + frame[42:]
        for port in [known] if known else [p for p in self._sockets if p != came]:
            loss, delay = self._fate(came, port, frame)
            if self._draw.random() < loss or port == came:
                continue
            if delay:
                self._count += 1
                heapq.heappush(self._later, (time.monotonic() + delay, self._count, port, frame))
            else:
                self._put(port, frame)

    def _put(self, port: str, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # the other end is gone
            self._sockets[port].send(frame)

    def _fate(self, came: str, port: str, frame: bytes) -> tuple[float, float]:
        loss = delay = 0.0
        probe = frame[12:14] == b"\x08\x00" and frame[23] == 17
        for fault in self._faults_now():
            wanted = {"into": came, "out": port}
            if any(word in fault and fault[word] != there for word, there in wanted.items()):
                continue
            if "source" in fault and not (probe and fault["source"] in struct.unpack("!HH", frame[34:38])):
                continue
            if len(frame) <= fault.get("larger", 0) or not probe:
                continue
            loss, delay = max(loss, fault.get("loss", 0.0)), delay + fault.get("delay", 0.0)
        return loss, delay

    def _faults_now(self) -> list[dict]:
        try:
            changed = os.stat(self._faults).st_mtime_ns
        except FileNotFoundError:
            return []
        if changed != self._read:
            with open(self._faults, encoding="utf-8") as file:
                self._known, self._read = json.load(file), changed
        return self._known


if __name__ == "__main__":
    LossySwitch(sys.argv[2:], sys.argv[1]).run()
