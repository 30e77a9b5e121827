"""The agent's probing: takes assignments, sends probes at their pace, answers peers, reports windows.

One task. Sockets are open only while an assignment is in force: it ends by its time, an empty one, or with the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from fabricmon.agent.probing.addresses import addresses_of, rows_of
from fabricmon.agent.probing.asker import FlowAsker
from fabricmon.agent.probing.backend import Backend
from fabricmon.agent.probing.responder import Responder
from fabricmon.agent.probing.results import FlowTotals, PortTotals, ProbeReport
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.agent.probing.watch import Watch
from fabricmon.model import Reading, Snapshot
from fabricmon.probe import assignment as wire
from fabricmon.probe.assignment import Assignment, PortProbes
from fabricmon.probe.packet import Offer
from fabricmon.probe.windows import ClosedWindow, ProbeWindows
from fabricmon.runtime import logs
from fabricmon.runtime.exposition import Family

TICK = 0.1
"""Seconds between two checks of what is due."""
SETTLE = 3.0
"""Seconds from an assignment to the first probe of what is new in it: the peers need theirs first."""
LOOK = 10.0
"""Seconds between two checks of the addresses of interfaces and of the pauses of ports."""
BACK_OFF = 5.0
"""Seconds for which a port that is full or was paused is probed a tenth as often."""
MAX_OWNERS = 4
PLAN = "plan"
"""The owner of what is no reply: one server at a time."""
Send = Callable[[str], Awaitable[None]]


def backend_of(config: AgentProbeConfig) -> Backend:
    udp = UdpBackend(config.port, addresses_of)
    if config.backend == "udp":
        return udp
    from fabricmon.agent.probing.verbs import VerbsBackend

    return VerbsBackend(udp, addresses_of)


@dataclass(slots=True)
class _Owner:
    """Who assigned something: the server whose plan is in force, or a command. left: its stream has ended."""

    stream: object
    send: Send
    assignment: Assignment
    until: float
    windows: ProbeWindows
    turn: dict[str, int] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    askers: dict[str, list[FlowAsker]] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)
    left: bool = False

    @property
    def every(self) -> list[FlowAsker]:
        """Of all ports."""
        return [asker for askers in self.askers.values() for asker in askers]


class Prober:
    """Assignments of api.Assignments.

    snapshot  the node's values: interfaces and pauses of its PORT rows
    sink      takes the readings
    """

    def __init__(
        self,
        config: AgentProbeConfig,
        snapshot: Callable[[], Snapshot],
        sink: Callable[[Reading], None],
        monotonic: Callable[[], float] = time.monotonic,
        backend: Backend | None = None,
    ) -> None:
        self._config, self._snapshot, self._sink = config, snapshot, sink
        self._monotonic, self._backend = monotonic, backend or backend_of(config)
        self._offers: dict[str, Offer] = {}
        self._owners: dict[object, _Owner] = {}
        self._responders: dict[str, Responder] = {}
        self._old: dict[bytes, float] = {}  # nonces that are known for a while longer
        self._flows: dict[int, FlowTotals] = {}
        self._ports: dict[str, PortTotals] = {}
        self._slowed: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._watch = Watch()
        self._numbers = 0
        self._replies: set[asyncio.Task[None]] = set()
        self._looked = -math.inf
        self._report = ProbeReport()
        self._transitions = logs.Transitions(logs.get(part="probing"))

    # --- assignments

    def take(self, owner: object, text: str, reply: Send) -> None:
        """A text of a reader of the stream. ValueError for one that is none, or beyond what the agent permits."""
        found, now = wire.decode(text), self._monotonic()
        key = owner if found.reply else PLAN
        known = self._owners.get(key)
        if known is not None and known.stream is not owner and not known.left and now < known.until:
            return  # another server's plan is in force
        if found.ports is None:
            if known is not None and known.assignment.version == found.version:
                known.until = now + found.lasts
            return
        for target in (target for port in found.ports for target in port.targets):
            if not wire.permitted(target.address, self._config.networks):
                raise ValueError(f"{target.address} is outside of agent.probe.networks")
        if known is None and len(self._owners) >= MAX_OWNERS:
            raise ValueError(f"{MAX_OWNERS} readers assign probes already")
        if known is None:
            known = self._owners[key] = _Owner(owner, reply, found, now, ProbeWindows(now))
        self._remember(known.assignment, now)
        known.stream, known.left, known.send = owner, False, reply
        known.assignment, known.until = found, now + found.lasts
        self._apply(known, now)

    def leave(self, owner: object) -> None:
        """A reader is gone: what it assigned ends by its own time; replies have nowhere to go."""
        known = self._owners.get(owner)
        if known is not None:
            known.until = self._monotonic()
        planned = self._owners.get(PLAN)
        if planned is not None and planned.stream is owner:
            planned.left = True

    def _remember(self, before: Assignment, now: float) -> None:
        self._old[before.key] = now + wire.LONGEST
        self._old = {key: until for key, until in list(self._old.items())[-MAX_OWNERS:] if until > now}

    def _apply(self, owner: _Owner, now: float) -> None:
        """Open and close sockets so that they are those of the assignments in force."""
        wanted = {port.name: port for port in owner.assignment.ports or () if port.name in self._offers}
        kept = {
            (name, asker.target): asker
            for name, askers in owner.askers.items()
            for asker in askers
            if name in wanted and asker.target in wanted[name].targets
        }
        for asker in owner.every:
            if asker not in kept.values():
                self._close(owner, asker)
        owner.askers = {name: self._opened(owner, port, kept, now) for name, port in wanted.items()}
        self._set_responders(now)

    def _opened(
        self, owner: _Owner, port: PortProbes, kept: dict[tuple[str, wire.ProbeTarget], FlowAsker], now: float
    ) -> list[FlowAsker]:
        found: list[FlowAsker] = []
        for target in port.targets:
            asker = kept.get((port.name, target))
            if asker is None:
                try:
                    asker = self._asker(owner, port.name, target)
                except OSError as error:
                    self._transitions.note(
                        f"{port.name} {target.peer}", str(error), "a flow cannot be probed", bad=True,
                        port=port.name, peer=target.peer, error=str(error),
                    )  # fmt: skip
                    continue
                self._watch.add(asker.end.fileno(), partial(self._ready, asker))
                self._flows[asker.flow] = FlowTotals(port.name, target, asker.packet)
                owner.starts[asker.flow] = now + (0.0 if owner.assignment.reply else SETTLE)
            found.append(asker)
        return found

    def _asker(self, owner: _Owner, row: str, target: wire.ProbeTarget) -> FlowAsker:
        end = self._backend.asker(row, target.source, owner.assignment.dscp)
        try:
            self._numbers += 1
            return FlowAsker(self._numbers, target, end, owner.windows)
        except OSError:
            end.close()
            raise

    def _close(self, owner: _Owner, asker: FlowAsker) -> None:
        self._watch.remove(asker.end.fileno())
        asker.close()
        self._flows.pop(asker.flow, None)
        owner.starts.pop(asker.flow, None)

    def _set_responders(self, now: float) -> None:
        """Responders of the ports that some assignment names, for its askers only."""
        askers: dict[str, set[str]] = {}
        for owner in self._owners.values():
            for port in owner.assignment.ports or ():
                if port.name in self._offers and port.askers:
                    askers.setdefault(port.name, set()).update(port.askers)
        nonces = {owner.assignment.key for owner in self._owners.values()}
        nonces |= {key for key, until in self._old.items() if until > now}
        for name in [name for name in self._responders if name not in askers]:
            self._watch.remove(self._responders[name].end.fileno())
            self._responders.pop(name).close()
        dscp = max((owner.assignment.dscp for owner in self._owners.values()), default=0)
        for name, mine in askers.items():
            responder = self._responders.get(name) or self._respond(name, dscp)
            if responder is not None:
                responder.allow(frozenset(mine), frozenset(nonces))

    def _respond(self, name: str, dscp: int) -> Responder | None:
        try:
            made = Responder(self._backend.responder(name, dscp), self._monotonic)
        except OSError as error:
            self._transitions.note(name, str(error), "a port cannot answer probes", bad=True, port=name,
                                   error=str(error))  # fmt: skip
            return None
        self._responders[name] = made
        self._watch.add(made.end.fileno(), made.ready)
        return made

    def _ready(self, asker: FlowAsker) -> None:
        if not asker.ready(self._monotonic()):
            self._watch.once(asker.end.fileno())

    # --- the task

    async def run(self) -> None:
        """Probe until cancelled; then close every socket."""
        try:
            expected = self._monotonic()
            while True:
                now = self._monotonic()
                self.step(now, now - expected)
                expected = max(expected, self._monotonic() - TICK / 2) + (TICK if self._owners else 1.0)
                await asyncio.sleep(expected - self._monotonic())
        finally:
            for owner in list(self._owners):
                self._end(owner)
            self._set_responders(math.inf)

    def step(self, now: float, lag: float) -> None:
        """One look: what has ended, what is due, which windows close. lag: seconds by which it comes late."""
        if now - self._looked >= (LOOK if self._offers else 1.0):
            self._look(now)
        for key, owner in list(self._owners.items()):
            owner.windows.lagged(lag, now)
            if now >= owner.until:
                self._end(key)
                continue
            self._send_due(owner, now)
            if owner.windows.due(now):
                for asker in owner.every:
                    asker.drain(now)
            for window in owner.windows.close(now):
                self._closed(owner, window)

    def _look(self, now: float) -> None:
        self._looked = now
        found = self._backend.offers(rows_of(self._snapshot().inventory.parts, self._config.exclude))
        for name, why in self._backend.refused().items():
            self._transitions.note(f"verbs {name}", why, "a port cannot be probed", bad=True, port=name, reason=why)
        if found != self._offers:
            gone = {name for name, offer in self._offers.items() if found.get(name) != offer}
            self._offers = found
            for owner in self._owners.values():
                for asker in [a for name in gone for a in owner.askers.pop(name, [])]:
                    self._close(owner, asker)
            for name in gone & self._responders.keys():
                self._watch.remove(self._responders[name].end.fileno())
                self._responders.pop(name).close()
            for owner in self._owners.values():
                self._apply(owner, now)
            self._publish(now)
        self._look_at_pauses(now)

    def _look_at_pauses(self, now: float) -> None:
        """Slow down the ports whose switch paused them since the last look."""
        for port, pauses in self._report.pauses(self._snapshot()).items():
            if pauses > self._paused.get(port, math.inf):
                self._slowed[port] = now + LOOK + BACK_OFF
            self._paused[port] = pauses

    def _end(self, key: object) -> None:
        owner = self._owners.pop(key)
        for asker in owner.every:
            self._close(owner, asker)
        self._set_responders(self._monotonic())
        if not owner.assignment.reply:
            self._publish(self._monotonic())

    def _send_due(self, owner: _Owner, now: float) -> None:
        for name, askers in owner.askers.items():
            if not askers or now < owner.due.get(name, 0.0):
                continue
            pause = 1 / owner.assignment.rate
            # a pace that is not caught up after a delay: probes never come in bursts
            owner.due[name] = max(owner.due.get(name, 0.0) + pause, now - TICK + pause)
            turn = owner.turn[name] = owner.turn.get(name, -1) + 1
            asker = askers[turn % len(askers)]
            if turn % 10 and now < self._slowed.get(name, 0.0):
                self._hold_back(name)
            elif now >= owner.starts[asker.flow]:
                if not asker.ask(owner.assignment.key, now):
                    self._hold_back(name)
                    self._slowed[name] = now + BACK_OFF
                self._watch.once(asker.end.fileno())
        self._watch.serve()  # most answers came while the others were asked

    def _hold_back(self, name: str) -> None:
        self._ports.setdefault(name, PortTotals()).held_back += 1

    # --- results

    def _closed(self, owner: _Owner, window: ClosedWindow) -> None:
        if owner.assignment.reply:
            self._reply(owner, wire.encode(self._report.reply(owner.assignment.version, window, self._flows)))
            return
        mine = [asker.flow for asker in owner.every]
        for name in {self._flows[flow].port for flow in mine}:
            self._ports.setdefault(name, PortTotals()).void += bool(window.void)
        for flow in mine:
            found = None if window.void else window.flows.get(flow)
            self._flows[flow].add(found)
            if found is not None:
                totals = self._ports[self._flows[flow].port]
                totals.sent, totals.lost = totals.sent + found.sent, totals.lost + found.lost
        self._publish(self._monotonic())

    def _reply(self, owner: _Owner, text: str) -> None:
        async def send() -> None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await owner.send(text)

        task = asyncio.get_running_loop().create_task(send())
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def _publish(self, now: float) -> None:
        for name, responder in self._responders.items():
            self._ports.setdefault(name, PortTotals()).answered = responder.answered
        planned = [owner for owner in self._owners.values() if not owner.assignment.reply]
        flows = [self._flows[asker.flow] for owner in planned for asker in owner.every]
        self._sink(self._report.reading(self._offers, self._ports, flows, now))

    def families(self) -> list[Family]:
        """By port and leaf of the peers; never by peer."""
        refused = self._backend.refused()
        return self._report.families(self._offers, refused, self._flows.values(), len(self._owners))

