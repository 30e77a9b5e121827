"""Streams over real sockets: what is fed, how each way of failing is told apart, and what is tried again."""

import asyncio
import contextlib
import math
import socket
import struct
import time

import msgspec
import pytest
from aiohttp import web

from fabricmon import frame
from fabricmon.central.streams.budget import StreamBudget
from fabricmon.central.streams.connection import StreamRequest
from fabricmon.central.streams.limits import OverLimit, most
from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.discovery import Target
from fabricmon.model import Event, Inventory
from fabricmon.units import Duration
from tests.central.streams import DIALLERS, FakeAgent, Sink, ports, until
from tests.rigs.counted import counted

QUICK = PullConfig(
    connect_timeout=Duration(1), slow_after=Duration(0.5), lost_after=Duration(1.5), retry_min=Duration(0.02),
    retry_max=Duration(0.1),
)  # fmt: skip


@pytest.fixture(params=DIALLERS)
async def pulling(request):
    """A Pull that runs, its engine, and a way to follow addresses."""
    sink = Sink()
    pull = Pull(QUICK, sink, time.time, dialler=request.param("test"))
    running = asyncio.create_task(pull.run())
    pull.sink = sink
    yield pull
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.fixture
async def agent():
    made = await FakeAgent().start()
    yield made
    await made.stop()


def follow(pull, *addresses, **labels):
    pull.follow({a: Target(a, labels) for a in addresses})


async def test_a_text_reaches_the_agent_of_a_node_and_only_an_open_stream(pulling, agent):
    got = asyncio.get_running_loop().create_future()

    async def listen(socket):
        await socket.send_str(frame.encode_hello(agent.inventory))
        await socket.send_bytes(frame.encode_full(agent.snapshot()))
        got.set_result((await socket.receive()).data)

    agent.answer = listen
    assert not await pulling.send("host-1", "plan")
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.frames)
    assert await pulling.send("host-1", "plan")
    assert await asyncio.wait_for(got, 60) == "plan"
    assert not await pulling.send("host-2", "plan")


async def test_inventory_frames_and_events_reach_the_engine(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: len(pulling.sink.frames) > 2)
    await agent.tell("mlx5_0 lost its link", 7)
    await until(lambda: pulling.sink.events == [("host-1", 7)])
    assert pulling.sink.presences == {"host-1": ("live", "")}
    assert pulling.sink.inventories == [("host-1", "agent-of-host-1")]
    node, last = pulling.sink.frames[-1]
    assert (node, list(last.values)) == ("host-1", list(agent.values))
    pulling.land()
    assert counted(pulling.counts.bytes) == counted(pulling.counts.frames) * len(frame.encode_full(agent.snapshot()))


async def test_a_message_in_pieces_is_one(pulling, agent):
    async def in_pieces(socket):
        await socket.send_str(frame.encode_hello(agent.inventory))
        data = frame.encode_full(agent.snapshot())
        end = b"\x80\x7e" + struct.pack("!H", len(data) - 100)
        pieces = (b"\x02", data[:50]), (b"\x00", data[50:100]), (end, data[100:])
        for head, piece in pieces:
            size = b"" if len(head) > 1 else bytes([len(piece)])
            agent._sockets[socket].write(head + size + piece)
            await asyncio.sleep(0.01)

    agent.answer = in_pieces
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.frames)
    assert list(pulling.sink.frames[0][1].values) == list(agent.values)


async def test_heartbeats_land_together_and_a_later_frame_stands_for_those_that_wait(pulling, agent):
    agent.beat = 0
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.frames)
    for _ in range(3):
        now = agent.snapshot()
        await agent.send(frame.encode_delta(now, now.values, [0.0]))
    await until(lambda: sum(stream._beats for stream in pulling.reader.beats.waiting) == 3)
    assert (pulling.sink.beats, len(pulling.sink.frames)) == ([], 1)
    pulling.land()
    pulling.land()
    assert [node for node, _ in pulling.sink.beats] == ["host-1"]
    now = agent.snapshot()
    await agent.send(frame.encode_delta(now, now.values, [0.0]))
    await agent.say()
    await until(lambda: len(pulling.sink.frames) == 2)
    pulling.land()
    assert len(pulling.sink.beats) == 1
    assert counted(pulling.counts.frames) == 6


async def test_a_heartbeat_with_a_time_that_no_clock_shows_ends_its_stream(pulling, agent):
    agent.beat = 0
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.frames)
    now = agent.snapshot()
    now.taken[0] = 1e11
    await agent.send(frame.encode_delta(now, now.values, [0.0]))
    await until(lambda: pulling.land() or pulling.sink.presences["host-1"][0] == "incompatible")
    assert "no clock shows" in pulling.sink.presences["host-1"][1]
    assert pulling.sink.beats == []


async def test_a_redirect_is_not_followed_wherever_it_leads(pulling, agent, unused_tcp_port):
    asked = []

    async def elsewhere(request):
        asked.append(request.headers.get("Authorization"))
        return web.Response()

    async def redirect(_request):
        raise web.HTTPFound(f"http://root:secret@127.0.0.1:{unused_tcp_port}/")

    runners = []
    for port, handler in ((unused_tcp_port, elsewhere), (0, redirect)):
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", port).start()
    try:
        follow(pulling, "{}:{}".format(*runners[1].addresses[0][:2]), agent.address, node="bad")
        await until(lambda: pulling.sink.presences.get("bad") == ("refused", "HTTP 302 in place of a stream"))
        assert asked == []
    finally:
        for runner in runners:
            await runner.cleanup()


async def test_a_new_stream_gives_no_new_budget():
    budget, largest = StreamBudget(), 65_536
    for _ in range(most("inventories")):
        budget.spend("inventories", 1, largest, 5.0)
    with pytest.raises(OverLimit, match="more than 60 inventories in 60 s") as refused:
        budget.spend("inventories", 1, largest, 64.9)
    assert refused.value.limit == "inventories"
    budget.spend("inventories", 1, largest, 65.0)
    with pytest.raises(OverLimit, match="more than 393216 bytes in 60 s") as refused:
        budget.spend("inventories", 6 * largest, largest, 65.0)
    assert refused.value.limit == "inventory_bytes"
    budget.spend("inventories", 1, largest, 1.0)  # the clock was set back: a new window, not one of years
    budget.spend_amount("node_bytes", most("node_bytes"), 5.0)
    with pytest.raises(OverLimit, match="bytes of inventories of a node"):
        budget.spend_amount("node_bytes", 1, 64.0)
    budget.spend_amount("node_bytes", 1, 65.0)


async def test_a_prefix_of_a_target_is_kept(pulling, agent):
    follow(pulling, agent.address + "/nodes/1")
    await until(lambda: pulling.sink.presences.get("127.0.0.1") == ("refused", "HTTP 404 in place of a stream"))


async def test_a_new_inventory_within_a_stream(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.frames)
    agent.inventory = Inventory(2, agent.identity, (agent.part,))
    await agent.send(frame.encode_hello(agent.inventory))
    await agent.say()
    await until(lambda: pulling.sink.frames[-1][1].inventory == 2)
    assert len(pulling.sink.inventories) == 2
    assert counted(pulling.counts.bad_messages) == 0


async def test_a_killed_agent_is_refused_at_once_and_comes_back(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: pulling.sink.presences.get("host-1") == ("live", ""))
    port = agent.port
    await agent.stop()
    await until(lambda: pulling.sink.presences["host-1"] == ("refused", "connection refused"))
    await agent.start(port)
    await until(lambda: pulling.sink.presences["host-1"] == ("live", ""))
    assert pulling.sink.forgotten == ["127.0.0.1"]


async def test_events_missed_are_asked_for_and_those_of_a_new_process_from_the_first(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: agent.streams)
    await until(lambda: pulling.sink.frames)
    await agent.tell("a", 500)
    await until(lambda: pulling.sink.events)
    port = agent.port
    await agent.stop()
    await agent.start(port)
    await until(lambda: pulling.sink.presences["host-1"][0] == "live" and len(agent.asked) > 1)
    assert agent.asked[-1] == {"after": "500"}
    await agent.stop()
    other = FakeAgent(started=2.0)
    await other.tell("b", 1)
    await other.start(port)
    try:
        await until(lambda: pulling.sink.events == [("host-1", 500), ("host-1", 1)])
        assert other.asked == [{"after": "500"}, {"after": "0"}]
    finally:
        await other.stop()


async def test_a_stopping_agent_says_so(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: agent.streams)
    agent.answer = 503
    await agent.send(frame.encode_goodbye(frame.Goodbye("agent stops")))
    for ws in list(agent._sockets):
        await ws.close()
    await until(lambda: ("host-1", "refused") in pulling.sink.said)
    await until(lambda: pulling.sink.presences["host-1"] == ("refused", "HTTP 503 in place of a stream"))


async def test_silence_on_an_open_stream_is_slow_and_the_stream_is_opened_anew(pulling, agent):
    agent.beat = 0
    follow(pulling, agent.address)
    await until(lambda: ("host-1", "slow") in pulling.sink.said)
    await until(lambda: len(agent.asked) > 1)


async def test_no_listener_and_no_such_name(pulling):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{probe.getsockname()[1]}"
    follow(pulling, closed, "no-such-host.invalid:1")
    await until(lambda: pulling.sink.presences.get("127.0.0.1") == ("refused", "connection refused"))
    await until(lambda: pulling.sink.presences["no-such-host.invalid"][0] == "unreachable")


async def test_a_listener_that_never_answers(pulling):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        follow(pulling, f"127.0.0.1:{mute.getsockname()[1]}")
        await until(lambda: pulling.sink.presences["127.0.0.1"] == ("unreachable", "no answer"))


async def garbage(ws):
    await ws.send_bytes(b"junk")


async def no_hello(ws):
    agent = FakeAgent("bad")
    await ws.send_bytes(frame.encode_full(agent.snapshot()))


async def newer(ws):
    await ws.send_str(frame.encode_hello(FakeAgent("bad").inventory).replace('"version":1', '"version":99'))


async def junk_after_hello(ws):
    await ws.send_str(frame.encode_hello(FakeAgent("bad").inventory))
    await ws.send_bytes(b"FM" + bytes(200))


async def difference_first(ws):
    agent = FakeAgent("bad")
    await ws.send_str(frame.encode_hello(agent.inventory))
    before = agent.snapshot()
    values = before.values[:]
    before.values[0] = 1.0
    await ws.send_bytes(frame.encode_delta(before, values, [math.nan]))


async def other_shape(ws):
    agent = FakeAgent("bad")
    small = FakeAgent("bad", part=agent.part.__class__(*["x", agent.part.kind, ("state",), agent.part.components[:1]]))
    await ws.send_str(frame.encode_hello(agent.inventory))
    await ws.send_bytes(frame.encode_full(small.snapshot()))


async def other_inventory(ws):
    agent = FakeAgent("bad")
    await ws.send_str(frame.encode_hello(agent.inventory))
    agent.inventory = Inventory(9, agent.identity, (agent.part,))
    await ws.send_bytes(frame.encode_full(agent.snapshot()))


async def too_much(ws):
    agent = FakeAgent("bad")
    await ws.send_str(frame.encode_hello(agent.inventory))
    data = frame.encode_full(agent.snapshot())
    for _ in range(2 * most("frames") + 2):
        await ws.send_bytes(data)


async def pings(ws):
    await ws.send_str(frame.encode_hello(FakeAgent("bad").inventory))
    for _ in range(most("controls") + 2):
        await ws.ping(b"x" * 100)


async def pings_before_hello(ws):
    for _ in range(most("controls") + 2):
        await ws.ping()


async def inventories(ws):
    agent = FakeAgent("bad")
    for n in range(most("inventories") + 2):
        agent.inventory = Inventory(n + 1, agent.identity, (agent.part,))
        await ws.send_str(frame.encode_hello(agent.inventory))


async def many_events(ws):
    await ws.send_str(frame.encode_hello(FakeAgent("bad").inventory))
    for n in range(most("events") + 2):
        await ws.send_str(frame.encode_event(Event(n + 1, 0.0, "gpu0", "xid", "x")))


async def no_name(ws):
    await ws.send_str(frame.encode_hello(FakeAgent("a\nb", "any").inventory))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (garbage, "not a stream"), (no_hello, "not a stream"), (newer, "frame version 99"),
        (junk_after_hello, "version"), (difference_first, "before all values"), (other_shape, "its inventory has"),
        (other_inventory, "inventory 9"), (too_much, "more than 1000 frames in 10 s"), (no_name, "is no name"),
        (pings, "more than 100 pings, pongs"), (pings_before_hello, "more than 100 pings, pongs"),
        (inventories, "more than 60 inventories in 60 s"), (many_events, "more than 2000 kernel events in 10 s"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
async def test_a_peer_that_does_not_speak_the_protocol_is_incompatible_and_costs_only_itself(
    pulling, agent, wrong, said
):
    bad = await FakeAgent(node="bad", beat=0).start()
    bad.answer = wrong
    try:
        pulling.follow({bad.address: Target(bad.address, {"node": "bad"}), agent.address: Target(agent.address)})
        await until(lambda: pulling.sink.presences["bad"][0] == "incompatible")
        assert said in pulling.sink.presences["bad"][1]
        await until(lambda: pulling.sink.presences.get("host-1") == ("live", ""))
    finally:
        await bad.stop()


async def test_a_fault_of_the_engine_over_one_node_costs_only_that_stream(pulling, agent):
    poison = await FakeAgent(node="poison").start()

    def frame_or_fault(node, frame, now, good=pulling.sink.frame):
        if node == "poison":
            raise IndexError("oops")
        good(node, frame, now)

    pulling.sink.frame = frame_or_fault
    try:
        follow(pulling, agent.address, poison.address)
        await until(lambda: "IndexError" in pulling.sink.presences.get("poison", ("", ""))[1])
        seen = len(pulling.sink.frames)
        await until(lambda: len(pulling.sink.frames) > seen + 3)
    finally:
        await poison.stop()


async def test_a_cloned_node_is_reported_and_only_the_first_is_fed(pulling, agent):
    clone = await FakeAgent(agent="another").start()
    try:
        follow(pulling, agent.address)
        await until(lambda: pulling.sink.frames)
        follow(pulling, agent.address, clone.address)
        await until(lambda: pulling.sink.presences["host-1"][0] == "cloned")
        assert pulling.sink.inventories == [("host-1", "agent-of-host-1")]
        await agent.stop()
        await until(lambda: ("host-1", "another") in pulling.sink.inventories)
        await until(lambda: pulling.sink.presences["host-1"] == ("live", ""))
    finally:
        await clone.stop()


async def test_a_target_that_goes_is_forgotten_and_its_stream_closed(pulling, agent):
    follow(pulling, agent.address)
    await until(lambda: agent.streams == 1)
    follow(pulling)
    await until(lambda: agent.streams == 0)
    assert pulling.sink.presences == {}


@pytest.mark.skipif(len(DIALLERS) < 2, reason="picows is not on this platform")
async def test_an_attempt_that_is_cancelled_as_it_succeeds_leaves_no_stream(agent):
    """picows calls of the new connection come before the attempt goes on: a cancellation may come in between."""

    class Cancels:
        def opened(self, connection):
            attempt.cancel()

        def binary(self, data):
            pass

        def message(self, kind, data):
            pass

        closed = binary

    request = StreamRequest(f"http://{agent.address}/stream", {}, None, None, 1 << 20)
    attempt = asyncio.create_task(DIALLERS[1]("test").open(request, Cancels()))
    await asyncio.wait({attempt})
    assert attempt.cancelled()
    await until(lambda: agent.asked and not agent.streams, patience=5)


async def test_labels_of_a_target_may_change_without_a_new_stream(pulling, agent):
    follow(pulling, agent.address, rack="r1")
    await until(lambda: agent.streams == 1)
    follow(pulling, agent.address, rack="r2")
    assert pulling.register.peers[agent.address].target.labels == {"rack": "r2"}
    assert len(agent.asked) == 1


async def test_a_guid_that_its_owner_gave_up_goes_to_who_says_it_and_a_name_that_is_gone_owns_nothing(pulling):
    agents = [await FakeAgent(name, part=with_guid()).start() for name in ("host-1", "host-2")]
    first, second = agents
    try:
        follow(pulling, first.address)
        await until(lambda: pulling.sink.frames)
        follow(pulling, first.address, second.address)
        await until(lambda: pulling.admission.claims.disputed == {"host-2": 1})
        # the same machine under another address, and then the address it had is gone: the node was heard all the time
        again = await FakeAgent("host-1", part=with_guid(), agent="agent-of-host-1").start()
        agents.append(again)
        follow(pulling, first.address, second.address, again.address)
        await until(lambda: pulling.register.peers[again.address].open)
        follow(pulling, second.address, again.address)
        await until(lambda: pulling.register.peers[again.address].feeds)
        assert pulling.admission.claims.disputed == {"host-2": 1}
        asked = len(second.asked)
        follow(pulling, second.address)
        await until(lambda: pulling.admission.claims.disputed == {})
        assert len(second.asked) > asked, "it was asked for its inventory anew"
        assert pulling.sink.forgotten[-1] == "host-1"
    finally:
        for one in agents:
            await one.stop()


def with_guid():
    made = ports(1)
    (row,) = made.components
    labelled = msgspec.structs.replace(row, labels={**row.labels, "node_guid": "0x0011223344556677"})
    return msgspec.structs.replace(made, components=(labelled,))
