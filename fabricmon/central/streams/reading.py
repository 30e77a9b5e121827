"""Reads one stream of an agent: its inventory, frames and events, each checked before it comes to the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import aiohttp

from fabricmon import frame as wire
from fabricmon.central.streams.admission import Admission
from fabricmon.central.streams.intake import check_event, usable
from fabricmon.central.streams.limits import OverLimit, check, most
from fabricmon.central.streams.noting import StreamNotes
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.streams.stream import MAX_DETAIL, Ended, Stream
from fabricmon.central.streams.turns import Turns
from fabricmon.engine.engine import Engine
from fabricmon.model import Event, Inventory, Presence
from fabricmon.web.agent_links import AgentLinks


class StreamReader:
    """max_message  bytes of the largest message of an agent, from which the budgets of its bytes follow"""

    def __init__(
        self, register: Register, engine: Engine, link: AgentLinks, admission: Admission, notes: StreamNotes,
        now: Callable[[], float], max_message: int,
    ) -> None:  # fmt: skip
        self._register, self._engine, self._link, self._now = register, engine, link, now
        self._admission, self._notes, self.max_message = admission, notes, max_message
        self._turns = Turns(time.monotonic)

    async def greet(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream, message: aiohttp.WSMessage) -> None:
        """The first message: the inventory, which identifies the agent."""
        if message.type is aiohttp.WSMsgType.BINARY:
            text = "not a stream of ours: it starts with a frame, not with an inventory"
            raise self._notes.incompatible(ValueError(text))
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise self._ended(message, stream)
        async with self._turn(stream.peer, message.data):
            self._hello(socket, stream, message.data)

    def _hello(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream, data: str) -> None:
        try:
            self._admission.spend_inventory(stream.peer, data, self.max_message, self._now())
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
                self._admission.spend_name(stream.peer, self._now())
            self._admission.admit(stream.peer, inventory, self._now())
            stream.feeds = self._register.hello(stream.peer, inventory.identity, self._now())
            self._inventory(stream, inventory)
        except ValueError as error:
            raise self._notes.incompatible(error) from error
        stream.greeted = True

    async def read(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> None:
        """The hot path: one pass a message."""
        peer, counts, engine, now = stream.peer, self._notes.counts, self._engine, self._now
        binary, text, most = aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT, self.max_message
        while True:
            message = await self.message(socket, stream)
            at = now()
            try:
                if message.type is binary:
                    peer.budget.spend("frames", len(message.data), most, at)
                    frame = wire.decode(message.data)
                    stream.check(frame)
                    kept = usable(frame)
                    if kept is not frame:
                        self._notes.wild_values(peer)
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
                raise self._notes.incompatible(error) from error

    async def message(self, socket: aiohttp.ClientWebSocketResponse, stream: Stream) -> aiohttp.WSMessage:
        """The next message that is no ping or pong; those are answered here and cost the agent's budget, too."""
        control = (aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG)
        while (message := await socket.receive()).type in control:
            try:
                stream.peer.budget.spend("controls", len(message.data), self.max_message, self._now())
            except ValueError as error:
                raise self._notes.incompatible(error) from error
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
            self._notes.many_turns(peer, error)
        return self._turns.next()

    def _text(self, stream: Stream, data: str, now: float) -> None:
        # An event is small: what is larger is taken for an inventory, before it is decoded.
        small = len(data) <= most("event_size")
        if small:
            stream.peer.budget.spend("events", len(data), self.max_message, now)
        else:
            self._admission.spend_inventory(stream.peer, data, self.max_message, self._now())
        message = wire.decode_text(data)
        if isinstance(message, Event):
            self._event(stream, message, len(data), now)
        elif isinstance(message, Inventory):
            if small:
                self._admission.spend_inventory(stream.peer, data, self.max_message, self._now())
            if stream.peer.identity != message.identity:
                raise ValueError("its identity changed within a stream")
            self._admission.admit(stream.peer, message, now)
            self._inventory(stream, message)
        else:
            stream.goodbye = message.reason or "the agent stops"

    def _event(self, stream: Stream, event: Event, size: int, now: float) -> None:
        check("event_size", size, "an event")
        check_event(event)
        self._notes.counts.events.inc()
        if stream.feeds and (stream.after is None or event.seq > stream.after):
            stream.after = event.seq
            self._engine.event(stream.peer.node, event, now)

    def _inventory(self, stream: Stream, inventory: Inventory) -> None:
        self._notes.counts.inventories.inc()
        node, now = stream.peer.node, self._now()
        if stream.feeds:
            inventory = self._admission.kept(node, inventory, now)
            self._notes.unknown_columns(stream.peer, self._admission.columns.unknown.get(node, ()))
        stream.inventory, stream.complete = inventory, False
        stream.size, stream.parts = inventory.size, len(inventory.parts)
        if stream.feeds:
            self._engine.inventory(node, inventory, now)

    def _begin(self, stream: Stream) -> None:
        self._register.begin(stream.peer, self._now())
        self._notes.followed(stream.peer, stream.feeds)

    def _ended(self, message: aiohttp.WSMessage, stream: Stream) -> Ended:
        """The end that a message without content stands for."""
        if stream.goodbye:
            return Ended(Presence.REFUSED, stream.goodbye[:MAX_DETAIL])
        if message.type is aiohttp.WSMsgType.ERROR and isinstance(message.data, aiohttp.WebSocketError):
            return self._notes.incompatible(ValueError(f"not a stream of ours: {message.data}"))
        stream.again = stream.greeted  # a cut stream: the next attempt shows whether the agent or the node is gone
        return Ended(Presence.SLOW if stream.greeted else Presence.REFUSED, "the connection ended")
