"""Reads the streams of agents: inventories, frames and events, each checked before it comes to the engine."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from fabricmon import frame as wire
from fabricmon.central.streams.admission import Admission
from fabricmon.central.streams.connection import MessageKind, StreamConnection
from fabricmon.central.streams.heartbeats import BeatShape, Heartbeats, beat_shape
from fabricmon.central.streams.intake import check_event, usable
from fabricmon.central.streams.limits import OverLimit, check, most
from fabricmon.central.streams.noting import StreamNotes
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.streams.stream import MAX_DETAIL, Ended, Stream
from fabricmon.central.streams.turns import Turns
from fabricmon.engine.engine import Engine
from fabricmon.model import Event, Inventory, Presence
from fabricmon.web.agent_links import AgentLinks

MOST_BEATS = 50
"""Heartbeats of a stream that are counted together at most: it may send 1,000 frames in ten seconds."""


class StreamReader:
    """What all streams share.

    max_message  bytes of the largest message of an agent, from which the budgets of its bytes follow
    urgent       called after an event or a changed state of an agent: a reason to evaluate soon
    """

    def __init__(
        self, register: Register, engine: Engine, link: AgentLinks, admission: Admission, notes: StreamNotes,
        now: Callable[[], float], max_message: int,
    ) -> None:  # fmt: skip
        self.register, self.engine, self.link, self.now = register, engine, link, now
        self.admission, self.notes, self.max_message = admission, notes, max_message
        self.turns = Turns(time.monotonic)
        self.beats = Heartbeats(engine, now)
        self.urgent: Callable[[], None] = lambda: None
        self._open: dict[Peer, StreamReading] = {}

    def open(self, stream: Stream) -> StreamReading:
        """What receives the messages of a new stream."""
        reading = self._open[stream.peer] = StreamReading(self, stream)
        return reading

    def feeding(self, node: str) -> StreamConnection | None:
        """The connection that feeds a node."""
        peers = (peer for peer in self.register.of_node(node) if peer.feeds and peer in self._open)
        return next((self._open[peer].connection for peer in peers), None)

    def over(self, reading: StreamReading) -> None:
        """The stream has ended: nothing more of it is taken."""
        reading.stop()
        if self._open.get(reading.peer) is reading:
            del self._open[reading.peer]

    def land(self) -> None:
        """Give the engine the heartbeats since the last call; before each tick."""
        self.beats.land()
        self.notes.settle()


class StreamReading:
    """Receives the messages of one stream until it is `over`: then the future holds why, an Ended or an error of ours.

    received  a message came that is no ping or pong
    limit  of the time until then
    """

    def __init__(self, common: StreamReader, stream: Stream) -> None:
        self.common, self.stream, self.peer = common, stream, stream.peer
        self.over: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.received = False
        self.limit: asyncio.Timeout | None = None
        self.connection: StreamConnection | None = None
        self.beat: BeatShape | None = None
        self._beats = 0  # that are not counted yet
        self._turn: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[MessageKind, str | bytes]] = deque()

    @property
    def takes_turn(self) -> bool:
        """A large text waits for its turn."""
        return self._turn is not None

    # --- StreamReceiver

    def opened(self, connection: StreamConnection) -> None:
        self.connection = connection

    def binary(self, data: bytes) -> None:
        """The hot path: a heartbeat is kept until it lands."""
        beat, common = self.beat, self.common
        if beat is not None and len(data) == beat.length and data.startswith(beat.head):
            common.beats.waiting[self] = data, time.monotonic()
            self._beats += 1
            if self._beats == MOST_BEATS:
                self._spend_beats()
        else:
            self.message(MessageKind.BINARY, data)

    def message(self, kind: MessageKind, data: str | bytes) -> None:
        if self._turn is not None:
            self._waiting.append((kind, data))
            return
        if self.over.done():
            return
        try:
            self._take(kind, data)
        except Exception as error:
            self.end(error)

    def closed(self, error: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
        if isinstance(error, ValueError):
            self.end(ValueError(f"not a stream of ours: {error}"))
        elif error is not None or not self.over.done():
            self.end(error or self._closed())

    # --- Beating

    def odd(self, data: bytes, error: OverLimit | None) -> None:
        if error is not None:
            self.end(error)
        else:
            self.message(MessageKind.BINARY, data)

    # --- within

    def end(self, error: BaseException) -> None:
        """The stream is over; the first reason counts."""
        self._settle_beats()
        if not self.over.done():
            if self.connection is not None:
                self.connection.pause()  # what a flood still sends is not even parsed
            self.over.set_result(self.common.notes.incompatible(error) if isinstance(error, ValueError) else error)

    def stop(self) -> None:
        self._settle_beats()
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
        if not self.over.done():
            self.over.cancel()

    def _settle_beats(self) -> None:
        """What came before lands, and what comes now is no heartbeat until all values came again."""
        self.common.beats.land_of(self)
        self.beat = None

    def _spend_beats(self) -> None:
        """Count the heartbeats since the last call; their stream ends beyond its budget."""
        common, number, self._beats = self.common, self._beats, 0
        size = number * self.beat.length if self.beat is not None else 0
        common.notes.frames += number
        common.notes.frame_bytes += size
        try:
            self.peer.budget.spend("frames", size, common.max_message, common.now(), number)
        except ValueError as error:
            self.end(error)

    def _take(self, kind: MessageKind, data: str | bytes) -> None:
        if kind in (MessageKind.PING, MessageKind.PONG):
            self.peer.budget.spend("controls", len(data), self.common.max_message, self.common.now())
            if kind is MessageKind.PING and self.connection is not None:
                self.connection.pong(bytes(data))  # type: ignore[arg-type]
            return
        if not self.received:
            self.received = True
            if self.limit is not None:
                self.limit.reschedule(None)
        if isinstance(data, str):
            if len(data) > most("turn"):
                self._take_in_turn(data)
            else:
                self._text(data)
        elif self.stream.greeted:
            self._frame(data)
        else:
            raise ValueError("not a stream of ours: it starts with a frame, not with an inventory")

    def _take_in_turn(self, data: str) -> None:
        """A large text waits for its turn; the log names who has many. What comes behind it waits, too."""
        try:
            self.peer.budget.spend_amount("turns", 1, self.common.now())
        except OverLimit as error:
            self.common.notes.many_turns(self.peer, error)
        if self.connection is not None:
            self.connection.pause()
        self._settle_beats()
        self._turn = asyncio.create_task(self._in_turn(data))

    async def _in_turn(self, data: str) -> None:
        async with self.common.turns.next():
            try:
                if not self.over.done():
                    self._text(data)
            except Exception as error:
                self.end(error)
        self._turn = None
        while self._waiting and self._turn is None:
            self.message(*self._waiting.popleft())
        if self._turn is None and self.connection is not None and not self.over.done():
            self.connection.resume()

    def _frame(self, data: bytes) -> None:
        common, stream, peer, at = self.common, self.stream, self.peer, self.common.now()
        if self._beats:
            self._spend_beats()
        peer.budget.spend("frames", len(data), common.max_message, at)
        frame = wire.decode(data)
        stream.check(frame)
        kept = usable(frame)
        if kept is not frame:
            common.notes.wild_values(peer)
        common.notes.frames += 1
        common.notes.frame_bytes += len(data)
        peer.last = at
        if not peer.begun and stream.complete:
            common.register.begin(peer, common.now())
            common.notes.followed(peer, stream.feeds)
        if stream.feeds:
            common.engine.frame(peer.node, kept, at)
            common.beats.waiting.pop(self, None)  # the times of all parts are in each frame
            if stream.turned(frame):
                common.urgent()
        if self.beat is None and stream.complete and stream.feeds and stream.inventory is not None:
            self.beat = beat_shape(stream.inventory.id, stream.parts, stream.size)

    def _text(self, data: str) -> None:
        if self.stream.greeted:
            self._later_text(data, self.common.now())
        else:
            self._hello(data)
            self.stream.greeted = True

    def _hello(self, data: str) -> None:
        """The first message: the inventory, which identifies the agent."""
        common, stream, now = self.common, self.stream, self.common.now
        admission, peer = common.admission, self.peer
        admission.spend_inventory(peer, data, common.max_message, now())
        inventory = wire.decode_hello(data)
        if stream.started not in (None, inventory.identity.started) and stream.after != 0:
            # Another process now: its events are numbered anew, and those below our number would be missed.
            stream.after, stream.started, stream.again = 0, inventory.identity.started, True
            raise Ended(Presence.SLOW, "the agent was restarted; its events are asked for from the first")
        stream.started = inventory.identity.started
        node, expected = inventory.identity.node, peer.target.expected_node
        shown = self.connection.certificate() if self.connection is not None else None
        impostor = common.link.impostor(node, expected, shown)
        if impostor:
            raise ValueError(impostor)
        if node != peer.node:
            admission.spend_name(peer, now())
        inventory = admission.admit(peer, inventory, now())
        stream.feeds = common.register.hello(peer, inventory.identity, now())
        self._inventory(inventory)

    def _later_text(self, data: str, now: float) -> None:
        # An event is small: what is larger is taken for an inventory, before it is decoded.
        common, peer, small = self.common, self.peer, len(data) <= most("event_size")
        if small:
            peer.budget.spend("events", len(data), common.max_message, now)
        else:
            common.admission.spend_inventory(peer, data, common.max_message, now)
        message = wire.decode_text(data)
        if isinstance(message, Event):
            self._event(message, len(data), now)
        elif isinstance(message, Inventory):
            if small:
                common.admission.spend_inventory(peer, data, common.max_message, now)
            if peer.identity != message.identity:
                raise ValueError("its identity changed within a stream")
            self._inventory(common.admission.admit(peer, message, now))
        else:
            self.stream.goodbye = message.reason or "the agent stops"

    def _event(self, event: Event, size: int, now: float) -> None:
        stream, common = self.stream, self.common
        check("event_size", size, "an event")
        check_event(event)
        common.notes.counts.events.inc()
        if stream.feeds and (stream.after is None or event.seq > stream.after):
            stream.after = event.seq
            common.engine.event(self.peer.node, event, now)
            common.urgent()

    def _inventory(self, inventory: Inventory) -> None:
        stream, common, admission = self.stream, self.common, self.common.admission
        common.notes.counts.inventories.inc()
        node, now = self.peer.node, common.now()
        self._settle_beats()
        if stream.feeds:
            inventory = admission.kept(node, inventory, now)
            common.notes.unknown_columns(self.peer, admission.columns.unknown.get(node, ()))
        stream.begin(inventory)
        if stream.feeds:
            common.engine.inventory(node, inventory, now)

    def _closed(self) -> Ended:
        """The end that a closed connection stands for."""
        stream = self.stream
        if stream.goodbye:
            return Ended(Presence.REFUSED, stream.goodbye[:MAX_DETAIL])
        stream.again = stream.greeted  # a cut stream: the next attempt shows whether the agent or the node is gone
        return Ended(Presence.SLOW if stream.greeted else Presence.REFUSED, "the connection ended")
