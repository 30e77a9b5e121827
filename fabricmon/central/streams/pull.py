"""One WebSocket to each agent: opens it and keeps it open; `reading` reads it.

A stream that fails is tried again with back-off and jitter. The kind of failure shows what failed: a refused connection
the agent, no answer at all the node or its network.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import aiohttp
from prometheus_client import CollectorRegistry

from fabricmon import __version__
from fabricmon.central.streams.admission import Admission
from fabricmon.central.streams.claims import Claims
from fabricmon.central.streams.noting import StreamNotes
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.streams.reading import StreamReader
from fabricmon.central.streams.resolver import DaemonResolver
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.streams.stream import Ended, Stream, failure
from fabricmon.central.targets.discovery import Target
from fabricmon.engine.engine import Engine
from fabricmon.model import Presence
from fabricmon.runtime.descriptors import OUT, RETRY, DescriptorReserve
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.buffers import shrink
from fabricmon.web.settings import LinkConfig

SWEEP = 1.0  # seconds between two checks for silent streams
MINIMUM_RUN = 2.0  # seconds a stream must have stood for the next attempt to come without waiting
DNS_CACHE = 30  # seconds an address is taken for that of its name
SENDING = 1.0  # seconds a peer's socket may be full before a text to it is given up
CLOSING = 0.5  # seconds a peer has to answer the end of a stream


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
        self.register = Register(self, config.slow_after, config.lost_after)
        self.known: dict[str, str] = {}  # address -> node it was at last, from the store
        self._config, self._engine, self._now = config, engine, now
        self._link = link or AgentLinks(LinkConfig())
        self.admission = Admission(self._link, Claims(self.register.last_message))
        unknown = self.admission.columns.unknown
        self._notes = StreamNotes(registry, config.max_targets, lambda: sum(map(len, unknown.values())))
        self.counts = self._notes.counts
        self.reader = StreamReader(
            self.register, engine, self._link, self.admission, self._notes, now, config.max_message
        )
        self._connecting = asyncio.Semaphore(config.connecting)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._limits: dict[str, asyncio.Timeout] = {}  # of the streams that are open; a rescheduled one ends its stream
        self._session: aiohttp.ClientSession | None = None
        self._sockets: dict[str, aiohttp.ClientWebSocketResponse] = {}  # by node, of the streams that feed

    def follow(self, targets: Mapping[str, Target]) -> None:
        """These are the agents now: begin with new ones, leave those that are gone. Call in the event loop."""
        now = self._now()
        peers = self.register.peers
        for address in [a for a in peers if a not in targets]:
            self._tasks.pop(address).cancel()
            self.register.drop(peers[address], now)
            self._notes.forget(address)
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
        self.reader.max_message = config.max_message

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        """The presence of a node, from the register to the engine."""
        self._engine.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        """No target leads to the node any more."""
        self.admission.forget(node)
        self._engine.forget(node, now)

    async def send(self, node: str, text: str) -> bool:
        """Send a text to a node's agent, on the stream that feeds the engine; whether it was accepted for sending. Only
        agents that offer to probe read one (docs/design/frame.md)."""
        socket = self._sockets.get(node)
        if socket is None:
            return False
        try:
            async with asyncio.timeout(SENDING):
                await socket.send_str(text)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False  # the stream reports its own end
        return True

    def connection(self, node: str) -> object | None:
        """The open connection that feeds a node, another object for each; None without one."""
        return self._sockets.get(node)

    def warnings(self) -> list[str]:
        """What agents claim that cannot be, for the page."""
        return self.admission.warnings()

    async def run(self) -> None:
        """Watch the streams; end those that went silent. Returns only by cancellation, and then closes all."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(SWEEP)
                now = self._now()
                for node in self.admission.claims.freed(now):
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
        wait = float(self._config.retry_min)
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
            except Exception as error:
                ended = self._notes.our_fault(peer, error)
            # A stream that ends soon after its start does not earn a quick or an immediate next attempt.
            stood = stream.greeted and loop.time() - opened >= MINIMUM_RUN
            if stood:
                wait = float(self._config.retry_min)
            after, started = stream.after, stream.started
            self.register.failed(peer, ended.presence, ended.detail, self._now())
            if stream.again and (stood or not stream.greeted):
                continue
            self._notes.not_followed(peer, ended)
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
                message = await self.reader.message(socket, stream)
                limit.reschedule(None)
                await self.reader.greet(socket, stream, message)
                self._limits[address] = limit
                if stream.feeds:
                    self._sockets[peer.node] = socket
                await self.reader.read(socket, stream)
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
            if self._sockets.get(peer.node) is socket:
                del self._sockets[peer.node]
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
