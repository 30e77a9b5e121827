"""One WebSocket to each agent: opens it, keeps it open, feeds what comes to the engine.

A stream that fails is tried again with back-off and jitter. How it failed says what is dead: a refused connection the
agent, no answer at all the node or its network.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from fabricmon import __version__
from fabricmon import frame as wire
from fabricmon.central.claims import Claims, swept
from fabricmon.central.presence import Peer, Register, Sink
from fabricmon.central.resolver import DaemonResolver
from fabricmon.central.settings import PullConfig
from fabricmon.central.stream import MAX_DETAIL, Ended, Stream, failure
from fabricmon.central.targets import Target
from fabricmon.model import Event, Inventory, Presence
from fabricmon.runtime import logs
from fabricmon.web.buffers import shrink
from fabricmon.web.link import Link
from fabricmon.web.settings import LinkConfig

SWEEP = 1.0  # seconds between two looks at who went silent
MAX_MESSAGES = 5000  # from one agent within BUDGET_TIME; a healthy one sends below 20 a second
BUDGET_TIME = 10.0  # seconds
MINIMUM_RUN = 2.0  # seconds a stream must have stood for the next attempt to come without waiting
DNS_CACHE = 30  # seconds an address is taken for that of its name
CLOSING = 0.5  # seconds a peer has to answer the end of a stream


class Engine(Sink, Protocol):
    """What the streams feed."""

    def inventory(self, node: str, inv: Inventory, now: float) -> object: ...

    def frame(self, node: str, frame: wire.Frame, now: float) -> object: ...

    def event(self, node: str, event: Event, now: float) -> object: ...


@dataclass(slots=True)
class Counts:
    """Since the start of the process, all streams together."""

    frames: int = 0
    bytes: int = 0
    events: int = 0
    inventories: int = 0
    bad_messages: int = 0
    connects: int = 0
    failures: int = 0


class Pull:
    """Follows the targets it is told of. `follow` may be called at any time; `run` keeps watch until cancelled."""

    def __init__(
        self, config: PullConfig, engine: Engine, now: Callable[[], float], link: Link | None = None
    ) -> None:
        self.counts = Counts()
        self.register = Register(self, config.slow_after, config.lost_after)
        self.known: dict[str, str] = {}  # address -> node it was at last, from the store
        self.claims = Claims(self.register.heard)
        self._config, self._engine, self._now = config, engine, now
        self._link = link or Link(LinkConfig())
        self._log = logs.get(part="pull")
        self._transitions = logs.Transitions(self._log, limit=2 * config.max_targets)
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
        """The register's word on a node, for the engine."""
        self._engine.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        """No target leads to the node any more."""
        self.claims.forget(node)
        self._engine.forget(node, now)

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
        """End all streams. Presences stay as they were: that the centre stops is no news of a node."""
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
            )
        return self._session

    async def _keep(self, peer: Peer) -> None:
        """Streams of one peer, one after the other, for as long as it is a target."""
        address, wait = peer.target.address, float(self._config.retry_min)
        # Number of the last event that the agent process `started` told; None: only those from now on are news.
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
                self.counts.failures += 1
                self._log.error("stream failed", address=address, exc_info=e)
                ended = Ended(Presence.INCOMPATIBLE, f"{type(e).__name__} in the centre: {e}")
            # A stream that ends soon after its start does not earn a quick or an immediate next attempt.
            stood = stream.greeted and loop.time() - opened >= MINIMUM_RUN
            if stood:
                wait = float(self._config.retry_min)
            after, started = stream.after, stream.started
            self.register.failed(peer, ended.presence, ended.detail, self._now())
            if stream.again and (stood or not stream.greeted):
                continue
            state = f"{ended.presence}: {ended.detail}"
            self._transitions.tell(
                address, state, "agent not followed", bad=True, address=address, node=peer.node, why=state
            )
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, float(self._config.retry_max))

    async def _serve(self, stream: Stream) -> None:
        """Open one stream and read it to its end. Raises Ended; returns never."""
        peer, config = stream.peer, self._config
        address = peer.target.address
        try:
            async with self._connecting, asyncio.timeout(config.connect_timeout):
                socket = await self._client().ws_connect(
                    peer.target.url(self._link.encrypts(peer.target.scheme)),
                    **self._link.options(peer.target.scheme),
                    params={} if stream.after is None else {"after": str(stream.after)},
                    max_msg_size=config.max_message,
                    compress=0,
                    timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=CLOSING),
                )
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            self.counts.failures += 1
            raise failure(error) from error
        self.counts.connects += 1
        try:
            # An agent says hello after its first round of reading, which a slow device can draw out.
            async with asyncio.timeout(config.lost_after) as limit:
                await self._greet(socket, stream)
                limit.reschedule(None)
                self._limits[address] = limit
                await self._read(socket, stream)
        except TimeoutError as error:
            if not stream.greeted:
                raise Ended(Presence.SLOW, "connected, but it says nothing") from error
            if self._now() - peer.heard > config.slow_after:
                raise Ended(Presence.SLOW, "connected, but no frame came") from error
            stream.again = True
            raise Ended(Presence.SLOW, "the stream is opened anew") from error
        except (aiohttp.ClientError, OSError) as error:
            raise failure(error) from error
        finally:
            self._limits.pop(address, None)
            await socket.close()

    async def _greet(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> None:
        """The first message: the inventory, which says who the agent is."""
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            raise self._incompatible(ValueError("not a stream of ours: it starts with a frame, not with an inventory"))
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise self._ended(message, stream)
        try:
            inventory = wire.decode_hello(message.data)
            if stream.started not in (None, inventory.identity.started) and stream.after != 0:
                # Another process now: its events are numbered anew, and those below our number would be missed.
                stream.after, stream.started, stream.again = 0, inventory.identity.started, True
                raise Ended(Presence.SLOW, "the agent was restarted; its events are asked for from the first")
            stream.started = inventory.identity.started
            node, expected = inventory.identity.node, stream.peer.target.expected_node
            impostor = self._link.impostor(node, expected, socket.get_extra_info("peercert"))
            if impostor:
                raise ValueError(impostor)
            stream.feeds = self.register.hello(stream.peer, inventory.identity, self._now())
            self._inventory(stream, inventory)
        except ValueError as error:
            raise self._incompatible(error) from error
        stream.greeted = True

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> None:
        """The hot path: one pass a message."""
        peer, counts, engine, now = stream.peer, self.counts, self._engine, self._now
        receive, binary, text = socket.receive, aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT
        until, budget = 0.0, MAX_MESSAGES
        while True:
            message = await receive()
            at = now()
            budget -= 1
            if budget < 0:
                if at < until:
                    raise Ended(
                        Presence.INCOMPATIBLE, f"it sends more than {MAX_MESSAGES / BUDGET_TIME:g} messages a second"
                    )
                until, budget = at + BUDGET_TIME, MAX_MESSAGES
            try:
                if message.type is binary:
                    frame = wire.decode(message.data)
                    stream.check(frame)
                    counts.frames += 1
                    counts.bytes += len(message.data)
                    peer.heard = at
                    if not peer.begun and stream.complete:
                        self._begin(stream)
                    if stream.feeds:
                        engine.frame(peer.node, frame, at)
                elif message.type is text:
                    self._text(stream, message.data, at)
                else:
                    raise self._ended(message, stream)
            except ValueError as error:
                raise self._incompatible(error) from error

    def _begin(self, stream: Stream) -> None:
        peer, fed = stream.peer, stream.feeds
        self.register.begin(peer, self._now())
        self._transitions.tell(
            peer.target.address,
            "followed" if fed else "not fed",
            "agent followed" if fed else "agent not followed: another address speaks for this node",
            bad=not fed,
            address=peer.target.address,
            node=peer.node,
        )

    def _text(self, stream: Stream, data: str, now: float) -> None:
        said = wire.decode_text(data)
        if isinstance(said, Event):
            self.counts.events += 1
            if stream.feeds and (stream.after is None or said.seq > stream.after):
                stream.after = said.seq
                self._engine.event(stream.peer.node, said, now)
        elif isinstance(said, Inventory):
            if stream.peer.identity != said.identity:
                raise ValueError("its identity changed within a stream")
            self._inventory(stream, said)
        else:
            stream.goodbye = said.reason or "the agent stops"

    def _inventory(self, stream: Stream, inventory: Inventory) -> None:
        self.counts.inventories += 1
        refused = self._link.overreach(stream.peer.node, swept(inventory))
        if refused:
            raise ValueError(refused)
        if stream.feeds:
            inventory = self.claims.settle(stream.peer.node, inventory, self._now())
        stream.inventory, stream.complete = inventory, False
        stream.size, stream.parts = inventory.size, len(inventory.parts)
        if stream.feeds:
            self._engine.inventory(stream.peer.node, inventory, self._now())

    def _incompatible(self, error: ValueError) -> Ended:
        self.counts.bad_messages += 1
        return Ended(Presence.INCOMPATIBLE, str(error)[:MAX_DETAIL])

    def _ended(self, message: aiohttp.WSMessage, stream: Stream) -> Ended:
        """What a message that is no content says of the peer."""
        if stream.goodbye:
            return Ended(Presence.REFUSED, stream.goodbye[:MAX_DETAIL])
        if message.type is aiohttp.WSMsgType.ERROR and isinstance(message.data, aiohttp.WebSocketError):
            return self._incompatible(ValueError(f"not a stream of ours: {message.data}"))
        stream.again = stream.greeted  # a cut stream: whether the agent or the node is gone, the next attempt tells
        return Ended(Presence.SLOW if stream.greeted else Presence.REFUSED, "the connection ended")
