"""Streams without a socket: what each message does to the engine, the connection and the presence of its node."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from array import array

import pytest
from prometheus_client import CollectorRegistry

from fabricmon import frame as wire
from fabricmon.central.streams.connection import MessageKind
from fabricmon.central.streams.limits import most
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.units import Duration
from tests.central.streams import Sink, until

QUICK = PullConfig(connect_timeout=Duration(5), slow_after=Duration(60), lost_after=Duration(90),
                   retry_min=Duration(0.001), retry_max=Duration(0.002))  # fmt: skip
ROWS = 3


def event(seq):
    return wire.encode_event(Event(seq, 1.0, "link", "", "x"))


class Connection:
    """What the server does to one open connection."""

    def __init__(self, receiver):
        self.receiver, self.did, self.pongs, self.sent, self.broken = receiver, [], [], [], False

    def certificate(self):
        return None

    def pong(self, data):
        self.pongs.append(data)

    async def send(self, text):
        if self.broken:
            raise OSError(errno.EPIPE, "broken")
        self.sent.append(text)

    def pause(self):
        self.did.append("pause")

    def resume(self):
        self.did.append("resume")

    async def close(self):
        self.did.append("close")


class Wire:
    """A dialler: connections that were opened, and what the next attempts fail with."""

    def __init__(self):
        self.open_ones, self.requests, self.failures, self.receivers, self.closed = [], [], [], [], False

    async def open(self, request, receiver):
        self.requests.append(request)
        self.receivers.append(receiver)
        if self.failures:
            raise self.failures.pop(0)
        made = Connection(receiver)
        receiver.opened(made)
        self.open_ones.append(made)
        return made

    async def close(self):
        self.closed = True


class Ends(Sink):
    """With the reason of each presence."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def presence(self, node, presence, detail, now):
        super().presence(node, presence, detail, now)
        self.ends.append((presence.value, detail))


class Site:
    def __init__(self):
        self.wire, self.sink, self.registry = Wire(), Ends(), CollectorRegistry()
        self.pull = Pull(QUICK, self.sink, time.time, registry=self.registry, dialler=self.wire)
        self.urgent = 0
        self.pull.reader.urgent = self.count
        self.part = Part("state", Kind.PORT, ("state",), tuple(Component(f"p{n}/1") for n in range(ROWS)), 10.0)

    def count(self):
        self.urgent += 1

    async def stream(self, number=1):
        self.pull.follow({"a:1": Target("a:1", {})})
        await until(lambda: len(self.wire.open_ones) >= number)
        return self.wire.open_ones[number - 1]

    def inventory(self, id=1, started=1.0, parts=None):
        return Inventory(id, Identity("host-1", "boot", "agent", "1", started), parts or (self.part,))

    def hello(self, stream, **more):
        stream.receiver.message(MessageKind.TEXT, wire.encode_hello(self.inventory(**more)))

    def values(self, stream, values, taken=5.0, seq=1):
        snapshot = Snapshot(self.inventory(), seq, time.time(), [taken], array("d", values))
        stream.receiver.binary(wire.encode_full(snapshot))

    def counted(self, name, **labels):
        return self.registry.get_sample_value(f"fabricmon_central_{name}_total", labels)


@pytest.fixture
async def site():
    made = Site()
    running = asyncio.create_task(made.pull.run())
    yield made
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert made.wire.closed


async def test_an_inventory_and_its_values_reach_the_engine_and_its_node_is_live(site):
    stream = await site.stream()
    site.hello(stream)
    assert site.sink.inventories == [("host-1", "agent")]
    assert site.pull.connection("host-1") is stream
    site.values(stream, [4.0] * ROWS)
    ((node, frame),) = site.sink.frames
    assert (node, frame.values.tolist()) == ("host-1", [4.0] * ROWS)
    assert site.sink.presences["host-1"][0] == "live"
    site.pull.land()
    assert (site.counted("frames"), site.counted("inventories")) == (1.0, 1.0)


async def test_values_that_no_counter_can_have_count_as_unknown_and_are_counted(site):
    stream = await site.stream()
    site.hello(stream)
    for seq in (1, 2):
        site.values(stream, [4.0, 1e300, 1.0], taken=5.0 + seq, seq=seq)
    assert [frame.values.tolist()[::2] for _, frame in site.sink.frames] == [[4.0, 1.0]] * 2
    assert all(frame.values[1] != frame.values[1] for _, frame in site.sink.frames)
    assert site.counted("refused", limit="value") == 2.0
    site.values(stream, [4.0, 4.0, 1.0], taken=9.0, seq=3)
    assert site.counted("refused", limit="value") == 2.0


async def test_pings_are_answered_and_are_no_message_of_an_agent(site):
    stream = await site.stream()
    stream.receiver.message(MessageKind.PING, b"are you there")
    stream.receiver.message(MessageKind.PONG, b"yes")
    assert stream.pongs == [b"are you there"]
    assert not stream.receiver.received
    site.hello(stream)
    assert stream.receiver.received


async def test_a_large_text_waits_for_its_turn_and_what_comes_behind_it_waits_too(site):
    stream = await site.stream()
    site.hello(stream)
    names = tuple(Component(f"p{n}/1", {"x": "y" * 900}) for n in range(ROWS * 60))
    large = wire.encode_hello(site.inventory(id=2, parts=(Part("state", Kind.PORT, ("state",), names, 10.0),)))
    assert len(large) > most("turn")
    stream.receiver.message(MessageKind.TEXT, large)
    assert stream.receiver.takes_turn
    behind = event(1)
    stream.receiver.message(MessageKind.TEXT, behind)
    assert (stream.did, site.sink.events, len(site.sink.inventories)) == (["pause"], [], 1)
    await until(lambda: site.sink.events)
    assert (len(site.sink.inventories), stream.did) == (2, ["pause", "resume"])
    assert not stream.receiver.takes_turn
    assert site.urgent == 1


async def test_an_event_counts_once_and_is_a_reason_to_evaluate(site):
    stream = await site.stream()
    site.hello(stream)
    for seq in (3, 3, 2, 4):
        stream.receiver.message(MessageKind.TEXT, event(seq))
    assert site.sink.events == [("host-1", 3), ("host-1", 4)]
    assert (site.urgent, site.counted("events")) == (2, 4.0)


@pytest.mark.parametrize(
    ("ends", "presence", "detail"),
    [
        (lambda site, stream: stream.receiver.closed(None), "slow", "the connection ended"),
        (lambda site, stream: stream.receiver.closed(ValueError("bad bits")), "incompatible",
         "not a stream of ours: bad bits"),
        (lambda site, stream: stream.receiver.closed(OSError(errno.EHOSTUNREACH, "x")), "unreachable",
         "no route to host"),
        (lambda site, stream: stream.receiver.message(MessageKind.TEXT, "{}"), "incompatible", ""),
        (lambda site, stream: site.hello(stream, started=9.0), "incompatible", "its identity changed within a stream"),
    ],
    ids=["cut", "broken", "unreachable", "no message", "another process"],
)  # fmt: skip
async def test_the_end_of_a_stream_says_how_its_node_stands(site, ends, presence, detail):
    stream = await site.stream()
    site.hello(stream)
    ends(site, stream)
    await until(lambda: "close" in stream.did)
    assert any(said == presence and detail in why for said, why in site.sink.ends)
    await until(lambda: len(site.wire.open_ones) > 1)
    frames = len(site.sink.frames)
    site.values(stream, [4.0] * ROWS)  # what still comes of the old one is not taken
    assert len(site.sink.frames) == frames
    assert site.pull.connection("host-1") is not stream


async def test_a_frame_before_the_inventory_is_refused_and_so_is_one_of_another_shape(site):
    stream = await site.stream()
    site.values(stream, [4.0] * ROWS)
    await until(lambda: "close" in stream.did)
    assert stream.did == ["pause", "close"]  # what a flood still sends is not even parsed
    second = await site.stream(2)
    site.hello(second)
    site.values(second, [4.0] * ROWS)
    second.receiver.binary(wire.encode_full(Snapshot(
        site.inventory(parts=(Part("state", Kind.PORT, ("state",), site.part.components[:2], 10.0),)), 2, time.time(),
        [6.0], array("d", [4.0] * 2),
    )))  # fmt: skip
    await until(lambda: "close" in second.did)
    assert site.counted("bad_messages") == 2.0
    assert len(site.sink.frames) == 1


async def test_an_attempt_that_fails_leaves_nothing_behind_and_the_next_asks_for_what_is_missing(site):
    site.wire.failures = [TimeoutError(), ConnectionRefusedError(errno.ECONNREFUSED, "x")]
    stream = await site.stream()
    site.hello(stream)
    assert site.counted("connect_failures") == 2.0
    assert site.counted("connects") == 1.0
    assert [receiver.over.done() for receiver in site.wire.receivers] == [True, True, False]
    assert site.pull.connection("host-1") is stream
    stream.receiver.message(MessageKind.TEXT, event(7))
    stream.receiver.closed(None)
    await until(lambda: len(site.wire.requests) == 4)
    assert [request.url.partition("?")[2] for request in site.wire.requests] == ["", "", "", "after=7"]


async def test_an_agent_that_was_restarted_is_asked_for_its_events_from_the_first(site):
    stream = await site.stream()
    site.hello(stream)
    stream.receiver.message(MessageKind.TEXT, event(7))
    stream.receiver.closed(None)
    second = await site.stream(2)
    site.hello(second, started=2.0)
    third = await site.stream(3)
    assert site.wire.requests[2].url.endswith("after=0")
    site.hello(third, started=2.0)
    third.receiver.message(MessageKind.TEXT, event(1))
    assert site.sink.events == [("host-1", 7), ("host-1", 1)]


async def test_a_text_is_sent_to_the_node_whose_stream_is_open(site):
    assert not await site.pull.send("host-1", "probe")
    stream = await site.stream()
    site.hello(stream)
    assert await site.pull.send("host-1", "probe")
    assert stream.sent == ["probe"]
    stream.broken = True
    assert not await site.pull.send("host-1", "probe")
    assert not await site.pull.send("host-2", "probe")


async def test_a_target_that_goes_ends_its_stream(site):
    stream = await site.stream()
    site.hello(stream)
    site.pull.follow({})
    await until(lambda: "close" in stream.did)
    assert site.sink.forgotten[-1] == "host-1"
    assert site.pull.connection("host-1") is None
    site.values(stream, [4.0] * ROWS)
    assert site.sink.frames == []
