"""Probers in network namespaces of their own below user-space switches: real kernels, stamps and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from fabricmon.agent.probing.prober import Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.model import Identity, Inventory, Snapshot
from fabricmon.probe.assignment import Assignment, Reply, decode_reply, encode
from fabricmon.probe.plan import ProbePort, plan
from tests.rigs.daemons import FABRICMON, Daemon

CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
NONCE = "ab" * 16


def ip(*words: str, namespace: str = "") -> None:
    inside = ("-n", namespace) if namespace else ()
    subprocess.run(["ip", *inside, *words], check=True, timeout=30, capture_output=True)


def maker_of(namespace: str, kind: int = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK):
    """Makes sockets in a namespace, from this process."""

    def make(family: socket.AddressFamily) -> socket.socket:
        with open("/proc/self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
            if _LIBC.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                return socket.socket(family, kind | socket.SOCK_CLOEXEC)
            finally:
                _LIBC.setns(home.fileno(), CLONE_NEWNET)

    return make


def page(namespace: str, address: str, port: int, path: str) -> str:
    """What a program in a namespace answers to GET."""
    with contextlib.closing(http.client.HTTPConnection(address, port, timeout=60)) as connection:
        connection.sock = maker_of(namespace, socket.SOCK_STREAM)(socket.AF_INET)
        connection.sock.settimeout(60)
        connection.sock.connect((address, port))
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def samples(text: str, name: str, *words: str) -> list[float]:
    """Values of a metric on a page, of the samples whose labels have these words."""
    lines = [line for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
    return [float(line.rpartition(" ")[2]) for line in lines if all(word in line for word in words)]


def complete_checksums(namespace: str) -> None:
    """eth0 leaves no TCP checksum to an adapter: the switch between the hosts has none (ethtool -K eth0 tx off)."""
    value = ctypes.create_string_buffer(struct.pack("II", 0x17, 0))  # ETHTOOL_STXCSUM
    with maker_of(namespace)(socket.AF_INET) as asking:
        fcntl.ioctl(asking, 0x8946, struct.pack("16sP8x", b"eth0", ctypes.addressof(value)))  # SIOCETHTOOL


class Lab:
    """`hosts` namespaces, each with eth0 (10.77.0.1 and on) below one switch with the ports "<prefix>p0", ...

    bridge  the switch is a bridge of the kernel, which has no faults, instead of a program
    """

    def __init__(self, folder: Path, hosts: int, *, bridge: bool = False) -> None:
        # The kernel removes a namespace's interfaces a while after the namespace: a lab never has the names of another.
        self.prefix = f"fp{os.urandom(3).hex()}"
        self.faults = folder / "faults.json"
        self.names = [f"{self.prefix}h{n}" for n in range(hosts)]
        self.addresses = [f"10.77.0.{n + 1}" for n in range(hosts)]
        self.ports = [f"{self.prefix}p{n}" for n in range(hosts)]
        self.switch: subprocess.Popen | None = None
        self.bridge = f"{self.prefix}b" if bridge else ""

    def fault(self, *faults: dict) -> None:
        """Faults from now on; "into" and "out" are numbers of hosts."""
        named = [{k: self.ports[v] if k in ("into", "out") else v for k, v in f.items()} for f in faults]
        spare = self.faults.with_suffix(".new")
        spare.write_text(json.dumps(named))
        spare.replace(self.faults)

    def __enter__(self) -> Lab:
        try:
            for name, address, port in zip(self.names, self.addresses, self.ports, strict=True):
                ip("netns", "add", name)
                ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", port, "up")
                ip("addr", "add", f"{address}/24", "dev", "eth0", namespace=name)
                ip("link", "set", "eth0", "up", namespace=name)
                ip("link", "set", "lo", "up", namespace=name)
                complete_checksums(name)
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self) -> None:
        if not self.bridge:
            command = [sys.executable, "-m", "tests.rigs.lossy_switch", str(self.faults), *self.ports]
            self.switch = subprocess.Popen(command)
            return
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for port in self.ports:
            ip("link", "set", port, "master", self.bridge)

    def __exit__(self, *_: object) -> None:
        if self.switch is not None:
            self.switch.kill()
            self.switch.wait(10)
        if self.bridge:
            subprocess.run(["ip", "link", "del", self.bridge], check=False, timeout=30, capture_output=True)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30, capture_output=True)

    def inside(self, host: int) -> tuple[str, ...]:
        """What goes before a command that runs on a host."""
        return ("ip", "netns", "exec", self.names[host])

    def prober(self, host: int) -> Prober:
        """A prober of a host, in this process."""
        nothing = Snapshot(Inventory(1, Identity(self.names[host], "b", "a", "1", 0.0), ()), 0, 0.0, [], [])
        config = AgentProbeConfig(enabled=True)
        backend = UdpBackend(config.port, lambda _: {"eth0": self.addresses[host]}, maker_of(self.names[host]))
        return Prober(config, lambda: nothing, lambda _: None, time.monotonic, backend)

    def plan(self, *hosts: int):
        return plan([ProbePort(f"host-{n}", "eth0", self.addresses[n], 9795, "leaf-1", "0") for n in hosts])


class Talk:
    """Replies of one prober."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    async def send(self, text: str) -> None:
        self.replies.append(decode_reply(text))


async def probed(lab: Lab, seconds: float, hosts: tuple[int, ...] = (0, 1), answering: tuple[int, ...] = (), **more):
    """Probe among hosts for so long and return the results of all windows, by name of the source."""
    talks = {n: Talk() for n in hosts}
    sent = lab.plan(*{*hosts, *answering}).by_node()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for n in hosts:
            prober = lab.prober(n)
            tasks.append(group.create_task(prober.run()))
            await asyncio.sleep(0)
            text = encode(Assignment(1, 300.0, NONCE, ports=sent[f"host-{n}"], reply=True, **more))
            prober.take("test", text, talks[n].send)
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    return {n: [result for reply in talk.replies for result in reply.results] for n, talk in talks.items()}


@contextlib.contextmanager
def agents(lab: Lab, folder: Path, probing: int) -> Iterator[list[Daemon]]:
    """A real agent in each namespace, ready, named n0 and on; the first `probing` of them accept assignments."""
    daemons: list[Daemon] = []
    try:
        for n in range(len(lab.names)):
            config, agent = folder / f"{n}.yaml", {"probe": {"enabled": n < probing}}
            config.write_text(yaml.safe_dump({"agent": agent, "collect": {"ethernet": {"include": ["eth0"]}}}))
            command = (*FABRICMON, "agent", "--config", config, "--node", f"n{n}", "--listen", "0.0.0.0:9790")
            daemons.append(Daemon(folder / f"{n}.log", command, lab.inside(n)))
        for n, daemon in enumerate(daemons):
            ready = [*lab.inside(n), *FABRICMON, "alive", "--address", f"{lab.addresses[n]}:9790"]
            daemon.wait_until("agent", lambda ready=ready: subprocess.run(ready, check=False).returncode == 0)
        yield daemons
    finally:
        for daemon in daemons:
            daemon.stop()
