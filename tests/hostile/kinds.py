"""Agents that a tenant with root on a node may run: what each sends, and how the server names it."""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import hashlib
import math
import struct
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from fabricmon import frame
from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot
from tests.central.streams import FakeAgent

WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
BATCH = 50  # messages between two looks at other tasks


class Hostile(NamedTuple):
    """answer  what it does on a stream, or, `raw`, on a connection (reader, writer)
    named   what the node's presence says of it; "": nothing it does is beyond a limit or against the protocol
    """

    answer: Callable[..., Awaitable[None]]
    named: str
    raw: bool = False


KINDS: dict[str, Hostile] = {}


def hostile(named: str, raw: bool = False):
    def enter(answer):
        KINDS[answer.__name__] = Hostile(answer, named, raw)
        return answer

    return enter


def hello(agent, *parts, number=1, identity=None):
    return frame.encode_hello(Inventory(number, identity or agent.identity, parts or (agent.part,)))


def full(agent, values=None, taken=None, seq=1, number=1, wall=None):
    """All values of the agent's own part."""
    inventory = Inventory(number, agent.identity, (agent.part,))
    moment = time.monotonic() if taken is None else taken
    numbers = array.array("d", values or agent.values)
    return frame.encode_full(Snapshot(inventory, seq, wall or time.time(), [moment], numbers))


def part(*names, columns=("state",), kind=Kind.PORT, collector="infiniband_state", period=1.0, **labels):
    return Part(collector, kind, columns, tuple(Component(name, dict(labels)) for name in names), period)


def sweep(number, first):
    """Rows of switches, to which the adapters of healthy nodes are said to be connected."""
    return tuple(
        Component(f"leaf-{n // 64}/{n % 64}", {
            "swept": "switch", "device": f"leaf-{n // 64}", "port": str(n % 64), "ports": "64",
            "node_guid": f"0x{n // 64 + 1:016x}", "remote_guid": f"0x{0xb000 + n:016x}", "remote_port": "1"})
        for n in range(first, first + number)
    )  # fmt: skip


async def stay(ws, agent, **values):
    """A beat as of a healthy agent, until the server ends the stream."""
    for seq in range(1, 10_000):
        await ws.send_bytes(full(agent, seq=seq, **values))
        await asyncio.sleep(0.5)


async def flood(send, number):
    for n in range(number):
        await send(n)
        if n % BATCH == 0:
            await asyncio.sleep(0)


# --- inventories


@hostile("parts of an inventory")
async def thousands_of_parts(ws, agent):
    await ws.send_str(hello(agent, *(part("a", collector=f"c{n}") for n in range(2000))))


@hostile("does not give their collector")
async def a_thousand_collectors(ws, agent):
    await ws.send_str(hello(agent, *(part("a", collector=f"c{n}") for n in range(1000))))


@hostile("columns of a part")
async def a_hundred_thousand_columns(ws, agent):
    await ws.send_str(hello(agent, part("a", columns=tuple(f"column_{n}" for n in range(100_000)))))


@hostile("raw counters")
async def raw_columns(ws, agent):
    await ws.send_str(hello(agent, part("a", columns=tuple(f"raw:hw_counters/{n}" for n in range(500)))))


@hostile("")
async def raw_columns_of_their_own(ws, agent):
    node = agent.identity.node
    names = tuple(f"raw:hw_counters/{node}_{n}" for n in range(60))
    await ws.send_str(hello(agent, agent.part, part("a", columns=names)))
    await asyncio.sleep(60)


@hostile("")
async def all_columns_by_all_collectors(ws, agent):
    """Columns that its collectors have not: kept, they would change how often those of all nodes are read."""
    mine = [name for name, counter in CATALOGUE.items() if counter.kind is Kind.PORT and counter.wire][:120]
    names = ("infiniband", "infiniband_errors")
    await ws.send_str(hello(agent, agent.part, *(part("a", columns=tuple(mine), collector=name) for name in names)))
    await asyncio.sleep(60)


@hostile("")
async def the_fleets_own_columns(ws, agent):
    own = Part("inventory", Kind.NODE, ("presence", "last_frame", "booted"), (Component(""),), 1.0)
    inventory = Inventory(1, agent.identity, (agent.part, own))
    await ws.send_str(frame.encode_hello(inventory))
    values = array.array("d", [*agent.values, 0.0, 1e18, 1e18])
    for seq in range(10_000):
        await ws.send_bytes(frame.encode_full(Snapshot(inventory, seq, time.time(), [time.monotonic()] * 2, values)))
        await asyncio.sleep(0.5)


@hostile("components in all parts")
async def too_many_rows(ws, agent):
    await ws.send_str(hello(agent, part(*(f"p{n}/1" for n in range(20_000)))))


@hostile("bytes of an inventory")
async def a_huge_inventory(ws, agent):
    await ws.send_str(hello(agent, part(*(f"p{n}/1" for n in range(60_000)), role="x" * 100)))


@hostile("inventories in 60 s")
async def new_names_all_the_time(ws, agent):
    for n in range(200):
        await ws.send_str(hello(agent, part(*(f"p{n}_{i}/1" for i in range(200))), number=n + 1))
        await asyncio.sleep(0)


@hostile("")
async def a_new_inventory_each_second(ws, agent):
    for n in range(1, 600):
        await ws.send_str(hello(agent, part(*(f"p{n}_{i}/1" for i in range(500))), number=n))
        await asyncio.sleep(1.2)


@hostile("inventories that take turns")
async def the_most_that_passes(ws, agent):
    """The largest inventory, with new names each time."""
    known = [name for name, c in CATALOGUE.items() if c.kind is Kind.PORT and c.source in ("counters", "hw_counters")]
    columns = tuple(known[:16])
    for n in range(1, 600):
        names = ([f"p{n}_{i}_{j}" for j in range(4)] for i in range(500))
        parts = (part(*few, columns=columns, collector="infiniband") for few in names)
        await ws.send_str(hello(agent, *parts, number=n))
        await asyncio.sleep(1.2)


@hostile("inventories that take turns")
async def a_new_sweep_each_few_seconds(ws, agent):
    for n in range(1, 600):
        await ws.send_str(hello(agent, Part("fabric", Kind.PORT, ("state",), sweep(8000, n), 10.0), number=n))
        await asyncio.sleep(2.0)


@hostile("a component twice")
async def duplicate_names(ws, agent):
    await ws.send_str(hello(agent, part("a", "a")))


@hostile("")
async def rows_of_other_kinds(ws, agent):
    names = [c.name for c in agent.part.components]
    others = (part(*names, columns=("gpu_xid_events",), kind=kind, collector="gpu")
              for kind in (Kind.GPU, Kind.PCIE, Kind.NVLINK, Kind.FLOW))  # fmt: skip
    await ws.send_str(hello(agent, agent.part, *others))
    await asyncio.sleep(60)


@hostile("characters of a label")
async def a_label_of_a_hundred_kilobytes(ws, agent):
    await ws.send_str(hello(agent, part("a", role="x" * 100_000)))


@hostile("")
async def labels_with_odd_characters(ws, agent):
    odd = {"device": "mlx5_0\n\x00\x1b[2J", "role": "<script>", "port": "\u0661", "node_guid": "zz:" * 300}
    await ws.send_str(hello(agent, agent.part, part("odd", **odd)))
    await asyncio.sleep(60)


@hostile("labels of a component")
async def too_many_labels(ws, agent):
    await ws.send_str(hello(agent, part("a", **{f"label{n}": "x" for n in range(1000)})))


@hostile("not a message of this protocol")
async def lone_surrogates(ws, agent):
    await ws.send_str(hello(agent, part("AAAA")).replace("AAAA", "\\ud800"))


@hostile("the port 1111")
async def a_port_number_of_thousand_digits(ws, agent):
    await ws.send_str(hello(agent, part("a", device="mlx5_0", port="1" * 1000)))


@hostile("printable characters")
async def a_name_with_newlines(ws, agent):
    await ws.send_str(hello(agent, part("mlx5_0/1\nmlx5_1/1")))


@hostile("is read every")
async def a_period_of_thirty_years(ws, agent):
    await ws.send_str(hello(agent, part("a", period=1e9)))


@hostile("")
async def sweeps_with_guids_of_others(ws, agent):
    await ws.send_str(hello(agent, agent.part, Part("fabric", Kind.PORT, ("state",), sweep(2000, 1), 10.0)))
    await asyncio.sleep(60)


@hostile("")
async def guids_of_others(ws, agent):
    names = {f"p{n}": f"0x{0xb000 + n:016x}" for n in range(64)}
    rows = tuple(Component(f"{name}/1", {"port_guid": guid, "node_guid": guid}) for name, guid in names.items())
    await ws.send_str(hello(agent, Part("infiniband_state", Kind.PORT, ("state",), rows, 1.0)))
    await asyncio.sleep(60)


# --- who it is


@hostile("two agents report as good-0")
async def another_nodes_name(ws, agent):
    agent.identity = Identity("good-0", "boot-x", f"impostor {agent.port}", "0.1.0", 1.0)
    await ws.send_str(hello(agent))
    await stay(ws, agent)


@hostile("its identity changed")
async def changing_identity(ws, agent):
    await ws.send_str(hello(agent))
    who = Identity(agent.identity.node, "boot-2", "another", "0.1.0", 2.0)
    await ws.send_str(hello(agent, number=2, identity=who))
    await asyncio.sleep(60)


@hostile("node names of one address")
async def a_new_name_each_time(ws, agent):
    agent.renamed = getattr(agent, "renamed", 0) + 1
    who = Identity(f"{agent.node}-{agent.renamed}", "b", "a", "0", 1.0)
    await ws.send_str(hello(agent, identity=who))


@hostile("is no name")
async def an_endless_name(ws, agent):
    agent.node = agent.identity.node
    await ws.send_str(hello(agent, identity=Identity("x" * 100_000, "b", "a", "0", 1.0)))


# --- frames


@hostile("more than 1000 frames")
async def frames_without_pause(ws, agent):
    await ws.send_str(hello(agent))
    data = full(agent)
    await flood(lambda _: ws.send_bytes(data), 5000)


@hostile("")
async def values_that_are_no_numbers(ws, agent):
    odd = [math.inf, -math.inf, 1e308, -1e308, math.nan, -0.0, 5e-324, 2.0**64]
    await ws.send_str(hello(agent))
    await stay(ws, agent, values=(odd * 4)[: agent.part.size])


@hostile("")
async def negative_counters(ws, agent):
    await ws.send_str(hello(agent))
    for n in range(10_000):
        await ws.send_bytes(full(agent, values=[float(-(n + i)) for i in range(agent.part.size)], seq=n))
        await asyncio.sleep(0.1)


@hostile("after the start of its node")
async def reads_in_the_future(ws, agent):
    await ws.send_str(hello(agent))
    await stay(ws, agent, taken=1e300)


@hostile("")
async def reads_that_go_back(ws, agent):
    await ws.send_str(hello(agent))
    for n in range(10_000):
        await ws.send_bytes(full(agent, taken=9e9 - n * 1e6, seq=n))
        await asyncio.sleep(0.1)


@hostile("")
async def a_clock_far_ahead(ws, agent):
    identity = Identity(agent.identity.node, "b", "a", "0", 1e18)
    await ws.send_str(hello(agent, identity=identity))
    await stay(ws, agent, wall=1e300)


@hostile("which was not sent")
async def frames_of_another_inventory(ws, agent):
    await ws.send_str(hello(agent))
    await ws.send_bytes(full(agent, number=9))


@hostile("before all values")
async def a_difference_first(ws, agent):
    await ws.send_str(hello(agent))
    data = bytearray(full(agent))
    data[3] = 1  # form: difference
    await ws.send_bytes(bytes(data) + struct.pack(f"<{agent.part.size}I", *range(agent.part.size)))


@hostile("")
async def sequences_that_overflow(ws, agent):
    await ws.send_str(hello(agent))
    for n in range(10_000):
        await ws.send_bytes(full(agent, seq=2**64 - 1 - n % 2))
        await asyncio.sleep(0.1)


@hostile("not a frame")
async def garbage_frames(ws, agent):
    await ws.send_str(hello(agent))
    await ws.send_bytes(b"\xff" * 1_000_000)


# --- events


@hostile("kernel events in 10 s")
async def events_without_pause(ws, agent):
    await ws.send_str(hello(agent))
    await flood(lambda n: ws.send_str(frame.encode_event(Event(n + 1, 0.0, "link", "mlx5_0/1", "x"))), 5000)


@hostile("bytes of an event")
async def events_of_megabytes(ws, agent):
    await ws.send_str(hello(agent))
    await ws.send_str(frame.encode_event(Event(1, 0.0, "xid", "gpu0", "x" * 3_000_000, of=Kind.GPU)))


@hostile("")
async def events_of_many_components(ws, agent):
    await ws.send_str(hello(agent))
    await flood(lambda n: ws.send_str(frame.encode_event(Event(n + 1, 0.0, "link", f"c{n}", "x" * 1000))), 1500)
    await asyncio.sleep(60)


@hostile("")
async def events_of_others(ws, agent):
    await ws.send_str(hello(agent))
    for n in range(1, 500):
        await ws.send_str(frame.encode_event(Event(n, 1e18, "xid", "good-0/mlx5_0/1", "GPU has fallen off the bus")))
        await asyncio.sleep(0.1)


@hostile("a number or a time that cannot be")
async def event_numbers_beyond_64_bits(ws, agent):
    await ws.send_str(hello(agent))
    await ws.send_str(frame.encode_event(Event(7, 0.0, "link", "a", "x")).replace('"seq":7', '"seq":' + "9" * 19))


# --- the connection


@hostile("pings, pongs")
async def pings_without_pause(ws, agent):
    await ws.send_str(hello(agent))
    await flood(lambda _: ws.ping(b"x" * 100), 1000)


@hostile("not a message of this protocol")
async def garbage_text(ws, agent):
    await ws.send_str("{" * 1000)


@hostile("bytes of an inventory")
async def a_text_of_ten_megabytes(ws, agent):
    await ws.send_str("x" * 10_000_000)


@hostile("not a stream of ours")
async def a_message_beyond_the_largest(ws, agent):
    await ws.send_str("x" * 20_000_000)


@hostile("not a message of this protocol")
async def deep_json(ws, agent):
    await ws.send_str('{"type":"inventory","x":' + "[" * 200_000 + "]" * 200_000 + "}")


@hostile("kernel events in 10 s")
async def small_texts_without_pause(ws, agent):
    await ws.send_str(hello(agent))
    text = frame.encode_goodbye(frame.Goodbye("x"))
    await flood(lambda _: ws.send_str(text), 5000)


@hostile("so long")
async def goodbyes_again_and_again(ws, agent):
    await ws.send_str(hello(agent))
    await ws.send_str(frame.encode_goodbye(frame.Goodbye("so long")))
    await ws.close()


@hostile("the connection ended")
async def connections_again_and_again(ws, agent):
    await ws.send_str(hello(agent))
    await ws.close()


@hostile("no message came")
async def no_hello(ws, agent):
    await asyncio.sleep(60)


@hostile("HTTP 302")
async def a_redirect(ws, agent):
    """Answered in place of the handshake, see HostileAgent."""


@hostile("no answer", raw=True)
async def a_handshake_byte_by_byte(reader, writer):
    for letter in b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" * 100:
        writer.write(bytes([letter]))
        await asyncio.sleep(0.2)


@hostile("", raw=True)
async def endless_headers(reader, writer):
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\n")
    with contextlib.suppress(ConnectionError):
        for n in range(20_000):
            writer.write(b"x-%d: " % n + b"y" * 1000 + b"\r\n")
            await writer.drain()


@hostile("no message came", raw=True)
async def half_a_message(reader, writer):
    """A WebSocket that announces a message of 1 MB and sends half of it."""
    await half_open(reader, writer)
    writer.write(struct.pack("!BBQ", 0x81, 127, 1_000_000) + b"x" * 500_000)
    await asyncio.sleep(60)


@hostile("", raw=True)
async def many_fragments(reader, writer):
    """One message in fragments of a byte, without an end."""
    await half_open(reader, writer)
    writer.write(struct.pack("!BBc", 0x01, 1, b"x"))
    with contextlib.suppress(ConnectionError):
        for _ in range(100_000):
            writer.write(struct.pack("!BBc", 0x00, 1, b"x") * 100)
            await writer.drain()


async def half_open(reader, writer):
    """Answer the server's handshake."""
    asked = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    key = next(line.split(":")[1].strip() for line in asked if line.lower().startswith("sec-websocket-key:"))
    accept = base64.b64encode(hashlib.sha1((key + WEBSOCKET).encode()).digest())
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")  # fmt: skip


class HostileAgent:
    """One agent of a kind, which listens at `address` from `start` on."""

    def __init__(self, kind: str, node: str) -> None:
        self.kind, self.node, self.address = KINDS[kind], node, ""
        self._redirects = kind == "a_redirect"
        self._fake: FakeAgent | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> HostileAgent:
        if self.kind.raw:
            self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
            self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
            return self
        agent = self._fake = FakeAgent(self.node, beat=0)
        agent.node = self.node
        agent.answer = 302 if self._redirects else self._stream
        await agent.start()
        self.address = agent.address
        return self

    async def stop(self) -> None:
        if self._fake is not None:
            await self._fake.stop()
        if self._server is not None:
            self._server.close()

    async def _stream(self, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self.kind.answer(socket, self._fake)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self.kind.answer(reader, writer)
        writer.close()
