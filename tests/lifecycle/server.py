"""A central server in simulated time: its engine, register of peers, evaluator and store; the network is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import SENT, Ack
from fabricmon.central.store.store import Store
from fabricmon.central.streams.presence import Peer, Register
from fabricmon.central.targets.discovery import Target
from fabricmon.engine import Engine
from fabricmon.model import Notification, Presence
from fabricmon.notify.route import Receiver
from fabricmon.rules.rule import Scope
from fabricmon.runtime.clock import Clock
from fabricmon.topology.graph import Graph
from tests.lifecycle.agents import Agent

T = TypeVar("T")


class FragileStore(Store):
    """The real store, whose disk fails while `broken`."""

    broken = False

    async def commit(self, **changes: Any) -> frozenset[str]:
        if self.broken:
            raise StoreError("disk full")
        return await super().commit(**changes)


class Receivers:
    """The other ends: what each received, in order. They outlive the server."""

    def __init__(self) -> None:
        self.received: list[Notification] = []
        self.away = False


class StoredOutbox:
    """The queue of the real store, delivered at once while the receivers answer."""

    def __init__(self, store: FragileStore, receivers: Receivers) -> None:
        self.full: frozenset[str] = frozenset()
        self._store, self._receivers = store, receivers
        self._waiting = True  # perhaps of a process before this one

    def accept(self, notes: Sequence[Notification]) -> None:
        """They are in the store."""
        self._waiting |= bool(notes)

    def configure(self) -> None:
        """Receivers changed: something may wait for a new one."""
        self._waiting = True

    async def deliver(self, names: Sequence[str], now: float) -> None:
        if not self._waiting or self._receivers.away or self._store.broken:
            return
        self._waiting = False
        for name in names:
            while pending := await self._store.pending(name, 100):
                self._receivers.received += [one.notification for one in pending]
                await self._store.commit(acked=[Ack(one.notification.key, SENT, now) for one in pending])


class SimulatedServer:
    """One process of the server. The constructor is its start, `kill` its end.

    wall    the machine's clock, which may step
    """

    def __init__(
        self, folder: Path, clock: Clock, receivers: Receivers, notified: Sequence[Receiver], params: Mapping[str, Any],
        graph: Graph | None,
    ) -> None:  # fmt: skip
        self.loop = asyncio.new_event_loop()
        self.clock = clock
        now = clock.now()
        self.store = FragileStore(folder, now)
        state = self.store.load(now)
        self.stored = {i.id for i in state.incidents if i.status == "firing"}
        self.engine = Engine(Scope.FLEET, graph, params, "test")
        self.outbox = StoredOutbox(self.store, receivers)
        self.evaluator = Evaluator(
            "test", self.engine, self.store, state, self.outbox, clock.now, registry=CollectorRegistry()  # type: ignore[arg-type]
        )
        self.evaluator.receivers = notified
        self.evaluator.replan()
        self.register = Register(self, 5.0, 15.0)
        self.sent_shape: dict[str, int] = {}

    # --- the register's sink, as in Pull

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        self.engine.presence(node, presence, detail, now)

    def forget(self, node: str, now: float) -> None:
        self.engine.forget(node, now)

    # --- streams

    def follow(self, agents: Mapping[str, Agent], expected: Mapping[str, str]) -> None:
        """The targets are these addresses now; `expected`: address -> node that it was at last."""
        now, peers = self.clock.now(), self.register.peers
        for address in [address for address in peers if address not in agents]:
            self.register.drop(peers[address], now)
            self.sent_shape.pop(address, None)
        for address in agents:
            if address not in peers:
                self.register.expect(Target(address), expected.get(address, address), now)

    def hear(self, agents: Mapping[str, Agent]) -> None:
        """One frame of each agent that answers; streams that are not open are opened."""
        now = self.clock.now()
        for address, agent in agents.items():
            peer = self.register.peers[address]
            if agent.down is not None:
                if peer.open or peer.presence is not agent.down:
                    self.register.failed(peer, agent.down, "no answer", now)
                    self.sent_shape.pop(address, None)
                continue
            self._hear(address, agent, peer, now)
        for peer in self.register.sweep(now):
            self.register.failed(peer, Presence.SLOW, "no frame", now)
            self.sent_shape.pop(peer.target.address, None)

    def _hear(self, address: str, agent: Agent, peer: Peer, now: float) -> None:
        if not peer.open:
            self.register.hello(peer, agent.inventory().identity, now)
        if self.sent_shape.get(address) != agent.shape and peer.feeds:
            self.engine.inventory(peer.node, agent.inventory(), now)
        self.sent_shape[address] = agent.shape
        if not peer.begun:
            self.register.begin(peer, now)
        peer.last = now
        if peer.feeds:
            assert self.engine.frame(peer.node, agent.frame(now), now)

    def close_streams(self, address: str) -> None:
        """The agent closed its stream: it restarts or is another one now."""
        peer = self.register.peers.get(address)
        if peer is not None and peer.open:
            self.register.failed(peer, Presence.REFUSED, "closed", self.clock.now())
        self.sent_shape.pop(address, None)

    # --- evaluation

    def tick(self) -> None:
        self.run(self.evaluator.tick())
        self.run(self.outbox.deliver([r.name for r in self.evaluator.receivers], self.clock.now()))

    def run(self, awaited: Awaitable[T]) -> T:
        return self.loop.run_until_complete(awaited)  # type: ignore[arg-type]

    def kill(self) -> None:
        """Nothing is written any more."""
        self.store.close()
        self.loop.close()
