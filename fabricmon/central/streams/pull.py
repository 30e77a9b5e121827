"""One WebSocket to each agent: opens it and keeps it open; `reading` reads it.

A stream that fails is tried again with back-off and jitter. The kind of failure shows what failed: a refused connection
the agent, no answer at all the node or its network.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from fabricmon import __version__
from fabricmon.central.streams.admission import Admission
from fabricmon.central.streams.attempts import Attempts
from fabricmon.central.streams.claims import Claims
from fabricmon.central.streams.connection import Dialler, HandshakeError, StreamConnection, StreamRequest
from fabricmon.central.streams.noting import StreamNotes
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.streams.reading import StreamReader, StreamReading
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.streams.stream import Ended, Stream, failure
from fabricmon.central.targets.discovery import Target
from fabricmon.engine.engine import Engine
from fabricmon.model import Presence
from fabricmon.runtime.descriptors import OUT, RETRY, DescriptorReserve
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.settings import LinkConfig

SWEEP = 10  # steps of the connection attempts between two checks for silent streams
MINIMUM_RUN = 2.0  # seconds a stream must have stood for the next attempt to come without waiting
DNS_CACHE = 30  # seconds an address is taken for that of its name
SENDING = 1.0  # seconds a peer's socket may be full before a text to it is given up
CLOSING = 0.5  # seconds a peer has to answer the end of a stream


def usual_dialler() -> Dialler:
    """picows, and aiohttp on a platform that has none."""
    agent = f"fabricmon/{__version__}"
    try:
        from fabricmon.central.streams.picows_dialler import PicowsDialler
    except ImportError:
        from fabricmon.central.streams.aiohttp_dialler import AiohttpDialler

        return AiohttpDialler(agent)
    return PicowsDialler(agent)


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
        dialler: Dialler | None = None,
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
        self._attempts = Attempts(time.monotonic, config.connecting)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._limits: dict[str, asyncio.Timeout] = {}  # of the streams that are open; a rescheduled one ends its stream
        self._dialler = dialler or usual_dialler()

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
        self._attempts.limit(config.connecting)
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
        connection = self.reader.feeding(node)
        if connection is None:
            return False
        try:
            async with asyncio.timeout(SENDING):
                await connection.send(text)
        except OSError:
            return False  # the stream reports its own end
        return True

    def connection(self, node: str) -> object | None:
        """The open connection that feeds a node, another object for each; None without one."""
        return self.reader.feeding(node)

    def warnings(self) -> list[str]:
        """What agents claim that cannot be, for the page."""
        return self.admission.warnings()

    async def run(self) -> None:
        """Watch the streams; end those that went silent. Returns only by cancellation, and then closes all."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                for _ in range(SWEEP):
                    await self._attempts.step()
                now = self._now()
                self._notes.settle()
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
        await self._dialler.close()

    def land(self) -> None:
        """Give the engine the heartbeats since the last call; before each tick."""
        self.reader.land()

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
        address, reading = stream.peer.target.address, self.reader.open(stream)
        try:
            connection = await self._connect(stream, reading)
        except (TimeoutError, HandshakeError, OSError, ValueError) as error:
            self.reader.over(reading)
            self.counts.failures.inc()
            raise failure(error) from error
        except BaseException:
            self.reader.over(reading)
            raise
        self.counts.connects.inc()
        try:
            # An agent sends its inventory after its first round of reading, which a slow device can prolong.
            async with asyncio.timeout(None if reading.received else self._config.lost_after) as limit:
                reading.limit = self._limits[address] = limit
                raise await reading.over
        except TimeoutError as error:
            raise self._silent(stream) from error
        except OSError as error:
            raise failure(error) from error
        finally:
            self._limits.pop(address, None)
            self.reader.over(reading)
            await connection.close()

    def _silent(self, stream: Stream) -> Ended:
        """The end of a stream that is given up."""
        if not stream.greeted:
            return Ended(Presence.SLOW, "connected, but no message came")
        if self._now() - stream.peer.last > self._config.slow_after:
            return Ended(Presence.SLOW, "connected, but no frame came")
        stream.again = True
        return Ended(Presence.SLOW, "the stream is opened anew")

    async def _connect(self, stream: Stream, reading: StreamReading) -> StreamConnection:
        """A connection to the agent. Without a free descriptor it waits, and the presence of the agent stays."""
        target, config = stream.peer.target, self._config
        query = "" if stream.after is None else f"?after={stream.after}"
        options = self._link.options(target.scheme)
        request = StreamRequest(
            f"{target.url(self._link.encrypts(target.scheme))}{query}", options["headers"], options.get("ssl"),
            options.get("server_hostname"), config.max_message,
        )  # fmt: skip
        while True:
            await self._descriptors.room()
            try:
                async with self._attempts.next(config.connect_timeout):
                    return await self._dialler.open(request, reading)
            except OSError as error:
                if error.errno not in OUT:
                    raise
            await asyncio.sleep(RETRY)
