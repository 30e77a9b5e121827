"""One WebSocket to each agent: opens it, keeps it open, feeds what comes to the engine.

A stream that fails is tried again with back-off and jitter. The kind of failure shows what failed: a refused connection
the agent, no answer at all the node or its network.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

import aiohttp
from prometheus_client import CollectorRegistry, Counter, Gauge

from fabricmon import __version__
from fabricmon import frame as wire
from fabricmon.central.streams.claims import Claims
from fabricmon.central.streams.intake import Columns, check_event, check_inventory, components, swept_ports, usable
from fabricmon.central.streams.limits import OverLimit, check, most
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.streams.resolver import DaemonResolver
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.streams.stream import MAX_DETAIL, Ended, Stream, failure
from fabricmon.central.streams.turns import Turns
from fabricmon.central.targets.discovery import Target
from fabricmon.engine.engine import Engine
from fabricmon.model import Event, Inventory, Presence
from fabricmon.runtime import logs
from fabricmon.runtime.descriptors import OUT, RETRY, DescriptorReserve
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.buffers import shrink
from fabricmon.web.settings import LinkConfig

SWEEP = 1.0  # seconds between two checks for silent streams
MINIMUM_RUN = 2.0  # seconds a stream must have stood for the next attempt to come without waiting
DNS_CACHE = 30  # seconds an address is taken for that of its name
CLOSING = 0.5  # seconds a peer has to answer the end of a stream


class StreamCounts:
    """Counters since the start of the process, all streams together."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        def counter(name: str, help: str, unit: str = "", labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"fabricmon_central_{name}", help, labels, unit=unit, registry=registry)

        self.frames = counter("frames", "Frames received from agents")
        self.bytes = counter("frame_bytes", "Bytes of frames received from agents", "bytes")
        self.events = counter("events", "Kernel events received from agents")
        self.inventories = counter("inventories", "Inventories received from agents")
        self.bad_messages = counter("bad_messages", "Messages that were no valid part of a stream; each ended it")
        self.refused = counter(
            "refused", "Messages of agents beyond a limit (docs/security.md, Budgets of an agent), which ended their "
            "streams; of limit value: frames with values that count as unknown; of limit turns: large inventories "
            "that had to wait; of limit protocol: no messages",
            labels=("limit",),
        )  # fmt: skip
        self.unknown_columns = Gauge(
            "fabricmon_central_unknown_columns", "Columns of all nodes that the server does not know and does not "
            "keep, as agents of a newer version may send", registry=registry,
        )  # fmt: skip
        self.connects = counter("connects", "Streams opened")
        self.failures = counter("connect_failures", "Attempts to open a stream that failed")


async def _stay(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Follow no redirect: an agent must not choose which address the server asks, nor with which credentials."""
    response = await send(request)
    if 300 <= response.status < 400:
        response.close()
        raise aiohttp.WSServerHandshakeError(
            response.request_info, response.history, status=response.status, headers=response.headers
        )
    return response


class Pull:
    """Follows the targets given to `follow`, which may be called at any time; `run` works until cancelled."""

    def __init__(
        self,
        config: PullConfig,
        engine: Engine,
        now: Callable[[], float],
        link: AgentLinks | None = None,
        registry: CollectorRegistry | None = None,
        descriptors: DescriptorReserve | None = None,
    ) -> None:
        self._descriptors = descriptors or DescriptorReserve(0)
        self.counts = StreamCounts(registry)
        self.register = Register(self, config.slow_after, config.lost_after)
        self.known: dict[str, str] = {}  # address -> node it was at last, from the store
        self.claims = Claims(self.register.last_message)
        self.columns = Columns()
        self.counts.unknown_columns.set_function(lambda: sum(map(len, self.columns.unknown.values())))
        self._unnamed_sweepers: dict[str, frozenset[str]] = {}  # node -> ports that it sweeps
        self._turns = Turns(time.monotonic)
        self._config, self._engine, self._now = config, engine, now
        self._link = link or AgentLinks(LinkConfig())
        self._log = logs.get(part="pull")
        self._transitions = logs.Transitions(self._log, limit=4 * config.max_targets)
        self._connecting = asyncio.Semaphore(config.connecting)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._limits: dict[str, asyncio.Timeout] = {}  # of the streams that are open; a rescheduled one ends its stream
        self._session: aiohttp.ClientSession | None = None

    def follow(self, targets: Mapping[str, Target]) -> None:
        """These are the agents now: begin with new ones, leave those that are gone. Call in the event loop."""
        now = self._now()
        peers = self.register.peers
        for address in [a for a in peers if a not in targets]:
            self._tasks.pop(address).cancel()
            self.register.drop(peers[address], now)
            self._transitions.forget(address)
            self._transitions.forget(f"values of {address}")
            self._transitions.forget(f"columns of {address}")
            self._transitions.forget(f"turns of {address}")
        for address, target in targets.items():
            if address in peers:
                peers[address].target = target
            else:
                node = target.labels.get("node") or self.known.get(address) or target.expected_node
                peer = self.register.expect(target, node, now)
                self._tasks[address] = asyncio.create_task(self._keep(peer), name=f"stream {address}")

    def configure(self, config: PullConfig) -> None:
        """Other times and limits, from the next attempt of each stream on."""
        self._config = config
        self._connecting = asyncio.Semaphore(config.connecting)
        self.register.configure(config.slow_after, config.lost_after)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        """The presence of a node, from the register to the engine."""
        self._engine.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        """No target leads to the node any more."""
        self.claims.forget(node)
        self.columns.forget(node)
        self._unnamed_sweepers.pop(node, None)
        self._engine.forget(node, now)

    def warnings(self) -> list[str]:
        """What agents claim that cannot be, for the page."""
        disputed, unknown = self.claims.disputed, self.columns.unknown
        found = []
        if disputed:
            names = ", ".join(sorted(disputed)[:5])
            found.append(f"{len(disputed)} nodes report GUIDs that other nodes reported first: {names}")
        if unknown:
            names = ", ".join(f"{node} ({len(unknown[node])})" for node in sorted(unknown)[:5])
            found.append(f"{len(unknown)} nodes send columns that this server does not know and does not keep: {names}")
        return found

    async def run(self) -> None:
        """Watch the streams; end those that went silent. Returns only by cancellation, and then closes all."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(SWEEP)
                now = self._now()
                for node in self.claims.freed(now):
                    self.register.renew(node)
                for peer in self.register.sweep(now):
                    limit = self._limits.get(peer.target.address)
                    if limit is not None:
                        limit.reschedule(loop.time())
        finally:
            await self.close()

    async def close(self) -> None:
        """End all streams. Presences stay as they were: a server that stops reports nothing about a node."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            shrink()
            connector = aiohttp.TCPConnector(
                limit=0, force_close=True, ttl_dns_cache=DNS_CACHE, resolver=DaemonResolver()
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": f"fabricmon/{__version__}"},
                middlewares=(_stay,),
            )
        return self._session

    async def _keep(self, peer: Peer) -> None:
        """Streams of one peer, one after the other, for as long as it is a target."""
        address, wait = peer.target.address, float(self._config.retry_min)
        # Number of the last event of the agent process that began at `started`; None: only events from now on are new.
        after: int | None = None
        started: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            stream, opened = Stream(peer, after, started), loop.time()
            try:
                await self._serve(stream)
            except Ended as e:
                ended = e
            except Exception as e:  # a fault of ours in one stream must cost that stream only
                self.counts.failures.inc()
                self._log.error("stream failed", address=address, exc_info=e)
                ended = Ended(Presence.INCOMPATIBLE, f"{type(e).__name__} in the server: {e}")
            # A stream that ends soon after its start does not earn a quick or an immediate next attempt.
            stood = stream.greeted and loop.time() - opened >= MINIMUM_RUN
            if stood:
                wait = float(self._config.retry_min)
            after, started = stream.after, stream.started
            self.register.failed(peer, ended.presence, ended.detail, self._now())
            if stream.again and (stood or not stream.greeted):
                continue
            state = f"{ended.presence}: {ended.detail}"
            self._transitions.note(
                address, state, "agent not followed", bad=True, address=address, node=peer.node, why=state
            )
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, float(self._config.retry_max))

    async def _serve(self, stream: Stream) -> None:
        """Open one stream and read it to its end. Raises Ended; returns never."""
        peer, config = stream.peer, self._config
        address = peer.target.address
        try:
            socket = await self._connect(stream)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            self.counts.failures.inc()
            raise failure(error) from error
        self.counts.connects.inc()
        try:
            # An agent sends its inventory after its first round of reading, which a slow device can prolong.
            async with asyncio.timeout(config.lost_after) as limit:
                message = await self._message(socket, stream)
                limit.reschedule(None)
                await self._greet(socket, stream, message)
                self._limits[address] = limit
                await self._read(socket, stream)
        except TimeoutError as error:
            if not stream.greeted:
                raise Ended(Presence.SLOW, "connected, but no message came") from error
            if self._now() - peer.last > config.slow_after:
                raise Ended(Presence.SLOW, "connected, but no frame came") from error
            stream.again = True
            raise Ended(Presence.SLOW, "the stream is opened anew") from error
        except (aiohttp.ClientError, OSError) as error:
            raise failure(error) from error
        finally:
            self._limits.pop(address, None)
            await socket.close()

    async def _connect(self, stream: Stream) -> aiohttp.ClientWebSocketResponse:
        """A connection to the agent. Without a free descriptor it waits, and the presence of the agent stays."""
        target, config = stream.peer.target, self._config
        while True:
            await self._descriptors.room()
            try:
                async with self._connecting, asyncio.timeout(config.connect_timeout):
                    return await self._client().ws_connect(
                        target.url(self._link.encrypts(target.scheme)),
                        **self._link.options(target.scheme),
                        params={} if stream.after is None else {"after": str(stream.after)},
                        max_msg_size=config.max_message,
                        compress=0,
                        autoping=False,  # a ping counts as a message, so that a flood of them is one
                        timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=CLOSING),
                    )
            except OSError as error:
                if error.errno not in OUT:
                    raise
            await asyncio.sleep(RETRY)

    async def _greet(
        self, socket: aiohttp.ClientWebSocketResponse, stream: Stream, message: aiohttp.WSMessage
    ) -> None:
        """The first message: the inventory, which identifies the agent."""
        if message.type is aiohttp.WSMsgType.BINARY:
            raise self._incompatible(ValueError("not a stream of ours: it starts with a frame, not with an inventory"))
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise self._ended(message, stream)
        async with self._turn(stream.peer, message.data):
            self._hello(socket, stream, message.data)

    def _hello(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream, data: str) -> None:
        try:
            self._spend_inventory(stream, data)
            inventory = wire.decode_hello(data)
            if stream.started not in (None, inventory.identity.started) and stream.after != 0:
                # Another process now: its events are numbered anew, and those below our number would be missed.
                stream.after, stream.started, stream.again = 0, inventory.identity.started, True
                raise Ended(Presence.SLOW, "the agent was restarted; its events are asked for from the first")
            stream.started = inventory.identity.started
            node, expected = inventory.identity.node, stream.peer.target.expected_node
            impostor = self._link.impostor(node, expected, socket.get_extra_info("peercert"))
            if impostor:
                raise ValueError(impostor)
            if node != stream.peer.node:
                self._spend_name(stream.peer)
            self._admit(stream, inventory)
            stream.feeds = self.register.hello(stream.peer, inventory.identity, self._now())
            self._inventory(stream, inventory)
        except ValueError as error:
            raise self._incompatible(error) from error
        stream.greeted = True

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> None:
        """The hot path: one pass a message."""
        peer, counts, engine, now = stream.peer, self.counts, self._engine, self._now
        binary, text, most = aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT, self._config.max_message
        while True:
            message = await self._message(socket, stream)
            at = now()
            try:
                if message.type is binary:
                    peer.budget.spend("frames", len(message.data), most, at)
                    frame = wire.decode(message.data)
                    stream.check(frame)
                    kept = usable(frame)
                    if kept is not frame:
                        self._note_wild_values(stream)
                    counts.frames.inc()
                    counts.bytes.inc(len(message.data))
                    peer.last = at
                    if not peer.begun and stream.complete:
                        self._begin(stream)
                    if stream.feeds:
                        engine.frame(peer.node, kept, at)
                elif message.type is text:
                    async with self._turn(peer, message.data):
                        self._text(stream, message.data, at)
                else:
                    raise self._ended(message, stream)
            except ValueError as error:
                raise self._incompatible(error) from error

    async def _message(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> aiohttp.WSMessage:
        """The next message that is no ping or pong; those are answered here and cost the agent's budget, too."""
        control = (aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG)
        while (message := await socket.receive()).type in control:
            try:
                stream.peer.budget.spend("controls", len(message.data), self._config.max_message, self._now())
            except ValueError as error:
                raise self._incompatible(error) from error
            if message.type is aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
        return message

    def _turn(self, peer: Peer, data: str) -> AbstractAsyncContextManager[None]:
        """What to wait for before a text is taken over: a large one takes its turn. The log names who has many."""
        if len(data) <= most("turn"):
            return nullcontext()
        try:
            peer.budget.spend_amount("turns", 1, self._now())
        except OverLimit as error:
            self.counts.refused.labels(error.limit).inc()
            self._transitions.note(f"turns of {peer.target.address}", "many", str(error), bad=True,
                                   address=peer.target.address, node=peer.node)  # fmt: skip
        return self._turns.next()

    def _spend_name(self, peer: Peer) -> None:
        """Count another name of an address, the more strictly where its last one brought no frame."""
        peer.budget.spend("names", 0, 0, self._now())
        if peer.identity is not None and peer.proven != peer.node:
            peer.budget.spend_amount("silent_names", 1, self._now())

    def _begin(self, stream: Stream) -> None:
        peer, fed = stream.peer, stream.feeds
        self.register.begin(peer, self._now())
        self._transitions.note(
            peer.target.address,
            "followed" if fed else "not fed",
            "agent followed" if fed else "agent not followed: another address streams for this node",
            bad=not fed,
            address=peer.target.address,
            node=peer.node,
        )

    def _text(self, stream: Stream, data: str, now: float) -> None:
        # An event is small: what is larger is taken for an inventory, before it is decoded.
        small = len(data) <= most("event_size")
        if small:
            stream.peer.budget.spend("events", len(data), self._config.max_message, now)
        else:
            self._spend_inventory(stream, data)
        message = wire.decode_text(data)
        if isinstance(message, Event):
            self._event(stream, message, len(data), now)
        elif isinstance(message, Inventory):
            if small:
                self._spend_inventory(stream, data)
            if stream.peer.identity != message.identity:
                raise ValueError("its identity changed within a stream")
            self._admit(stream, message)
            self._inventory(stream, message)
        else:
            stream.goodbye = message.reason or "the agent stops"

    def _event(self, stream: Stream, event: Event, size: int, now: float) -> None:
        check("event_size", size, "an event")
        check_event(event)
        self.counts.events.inc()
        if stream.feeds and (stream.after is None or event.seq > stream.after):
            stream.after = event.seq
            self._engine.event(stream.peer.node, event, now)

    def _spend_inventory(self, stream: Stream, data: str) -> None:
        """Count an inventory, before anything of it but its node's name is decoded."""
        budget, now = stream.peer.budget, self._now()
        budget.spend("inventories", len(data), self._config.max_message, now)
        if not self._link.names_sweeper(wire.node_of(data)):
            check("inventory_size", len(data))
            budget.spend_amount("node_bytes", len(data), now)

    def _admit(self, stream: Stream, inventory: Inventory) -> None:
        """ValueError for an inventory beyond its node's limits, or with a sweep that the settings do not permit."""
        node, ports = inventory.identity.node, swept_ports(inventory)
        swept = len(ports)
        refused = self._link.overreach(node, swept)
        if refused:
            raise ValueError(refused)
        budget, now, sweepers = stream.peer.budget, self._now(), self._unnamed_sweepers
        if swept and not self._link.names_sweeper(node):
            others = sum(len(theirs) for other, theirs in sweepers.items() if other != node)
            check("unnamed_sweepers", len(sweepers.keys() | {node}), "with it, the fabric")
            check("unnamed_swept", others + len(ports), "with it, the fabric")
            budget.spend_amount("unnamed_rows", len(ports - sweepers.get(node, frozenset())), now)
            sweepers[node] = ports
        else:
            sweepers.pop(node, None)
        check_inventory(inventory, swept)
        budget.spend_amount("inventory_components", max(components(inventory) - 2 * swept, 0), now)

    def _note_unknown_columns(self, stream: Stream) -> None:
        """Log once that the node sends columns that are not kept."""
        peer, unknown = stream.peer, self.columns.unknown.get(stream.peer.node, ())
        self._transitions.note(
            f"columns of {peer.target.address}", "unknown" if unknown else "known",
            "columns that this server does not know are not kept" if unknown else "all columns are known again",
            bad=bool(unknown), address=peer.target.address, node=peer.node, count=len(unknown),
            columns=", ".join(unknown)[:MAX_DETAIL],
        )  # fmt: skip

    def _note_wild_values(self, stream: Stream) -> None:
        """Log once that the node sent values which no counter can have."""
        peer = stream.peer
        self.counts.refused.labels("value").inc()
        self._transitions.note(
            f"values of {peer.target.address}", "wild", "values that no counter can have count as unknown", bad=True,
            address=peer.target.address, node=peer.node,
        )  # fmt: skip

    def _inventory(self, stream: Stream, inventory: Inventory) -> None:
        self.counts.inventories.inc()
        node, now = stream.peer.node, self._now()
        if stream.feeds:
            inventory = self.claims.settle(node, self.columns.named(node, inventory), now)
            self._note_unknown_columns(stream)
        stream.inventory, stream.complete = inventory, False
        stream.size, stream.parts = inventory.size, len(inventory.parts)
        if stream.feeds:
            self._engine.inventory(node, inventory, now)

    def _incompatible(self, error: ValueError) -> Ended:
        self.counts.bad_messages.inc()
        self.counts.refused.labels(error.limit if isinstance(error, OverLimit) else "protocol").inc()
        return Ended(Presence.INCOMPATIBLE, str(error)[:MAX_DETAIL])

    def _ended(self, message: aiohttp.WSMessage, stream: Stream) -> Ended:
        """The end that a message without content stands for."""
        if stream.goodbye:
            return Ended(Presence.REFUSED, stream.goodbye[:MAX_DETAIL])
        if message.type is aiohttp.WSMsgType.ERROR and isinstance(message.data, aiohttp.WebSocketError):
            return self._incompatible(ValueError(f"not a stream of ours: {message.data}"))
        stream.again = stream.greeted  # a cut stream: the next attempt shows whether the agent or the node is gone
        return Ended(Presence.SLOW if stream.greeted else Presence.REFUSED, "the connection ended")
