"""A simulated cluster over time: every counter of every component. Pure.

Time passes in stretches without a change of state; a port's bytes in one are the integral of its load, so that the
length of a stretch does not matter. Faults act on the world (a link is held down, a switch loses packets); the effects
on other ports follow from here and `effects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Event, Kind
from fabricmon.sim.background import Background
from fabricmon.sim.columns import columns_of
from fabricmon.sim.components import Components
from fabricmon.sim.effects import Burst, Effects
from fabricmon.sim.flows import Flows, Gray
from fabricmon.sim.inside import GEN5, LANES
from fabricmon.sim.layout import Layout
from fabricmon.sim.optics import COLUMNS as OPTICS
from fabricmon.sim.ports import DOWNS
from fabricmon.sim.registers import Floats
from fabricmon.sim.traffic import TrafficJob

Rows = NDArray[np.integer] | Iterable[int]

IDLE = 0.02
"""Share of the line rate up to which a port is idle."""
REROUTE = 1.0
"""Seconds in which packets to a failed switch or cable are lost, until routes go around it."""


class World(Components):
    """A cluster over time, and the actions of faults on it.

    poll       seconds between two reads of counters; no stretch of time is longer
    effects    effects of loss, dead peers and slow hosts on other ports
    flows      flows between ports; `show_flows`: nodes report each (evidence of level L2)
    """

    def __init__(
        self, layout: Layout, seed: int = 1, poll: float = 10.0, *, steady: float = 0.45,
        jobs: Iterable[TrafficJob] = (), flows: bool = False, spray: bool = False, background: bool = False,
    ) -> None:
        """
        seed        the same one makes the same counters, to the last bit
        steady      mean share of the line rate on ports of no job; 0 for idle
        flows       every port reports packets sent and lost to each of its peers
        spray       packets of one flow take all paths in turn (adaptive routing), and no flow has a path
        background  the noise of a large fabric (`sim/background.py`)

        ValueError for a poll of 0 s or less.
        """
        if poll <= 0:
            raise ValueError(f"expected a poll of more than 0 s, got {poll:g} s")
        super().__init__(layout, seed, steady, jobs)
        self.poll, self.show_flows = poll, flows
        self.flows = Flows(layout, self.traffic.jobs, seed, spray)
        self.effects = Effects(self, self.flows, flows)
        self._background = Background(layout, seed) if background else None
        self._load = self.traffic.version
        self._timers: list[tuple[float, str, tuple[int, ...]]] = []
        self._per_host = np.maximum(1, np.bincount(layout.host_of, minlength=len(layout.hosts)))
        self.effects.settle()

    # --- reading

    def idle_hosts(self) -> NDArray[np.bool_]:
        """Hosts of which no port sends or receives more than IDLE on average."""
        mean, flows, layout = self.traffic.mean(), self.flows, self.layout
        running = self.traffic.job_of[flows.source] == flows.job
        received = np.bincount(flows.target, mean[flows.source] * flows.weight * running, layout.ports)
        return np.bincount(layout.host_of, np.maximum(mean, received) > IDLE, len(layout.hosts)) == 0

    def column(self, kind: Kind, name: str) -> Floats:
        """One value a component of that kind, in the exported unit; NaN unknown. KeyError for an unknown column."""
        if kind is Kind.PORT:
            return self.optics.value(name, self.now) if name in OPTICS else self.ports.value(name)
        if kind is Kind.GPU:
            return self.inside.gpu(name)
        if kind is Kind.NVLINK:
            return self.inside.nvlink(name)
        if kind is Kind.PCIE:
            return self.inside.pcie(name)
        if kind is Kind.FLOW:
            return self.effects.registers.column(name)
        return self.inside.node(name, self.present)

    def columns(self, kind: Kind) -> tuple[str, ...]:
        return columns_of(kind, self.layout.link_layer)

    # --- time

    def advance(self, until: float) -> None:
        """Advance to a time; an earlier one does nothing."""
        while self.now < until:
            self.effects.settle()
            ends = [until, self.now + self.poll, max(self.links.next, self.now), self.traffic.next(self.now)]
            end = min(ends + [at for at, _, _ in self._timers])
            if end > self.now:
                self._pass(self.now, end)
                self.now = end
            self.links.come_up(self.now)
            self._ring()
            self.traffic.update(self.now)
            if self._load != self.traffic.version:
                self._load = self.traffic.version
                if self.inside.saving.any():
                    self.inside.wake(np.flatnonzero(~self.idle_hosts()).tolist())
                self.effects.changed()
                self.effects.begin(self.traffic.started)

    def _pass(self, start: float, end: float) -> None:
        dt = end - start
        on = self.links.active & self.present & ~self.hosts.off[self.layout.host_of]
        if self._background is not None:
            self._background.step(self, start, end)
        carried, waits = self.traffic.carried(start, end)
        unlike = self.chance.uniform("rate", self._window(start), self.rows, 0.99, 1.01)
        carried = np.minimum(dt, carried * self.speed.value * unlike) * on
        sent, got = self.effects.move(carried * self.links.rate, on, dt)
        got = got * self.arrives.value
        self.sent += sent
        self.ports.move(sent, got)
        busy = on & ((sent > 0) | (got > 0))
        stalled = np.minimum(dt, (waits + self.stall.value * dt) * busy)
        if self.ethernet:
            self.ports.pause(stalled, self.pausing.value * dt * busy, dt)
            self.ports.mark(got, self.marked.value, self.notified.value * dt * busy)
        elif self.ports.credits:
            self.ports.wait(stalled, on, dt, self._window(start))
        self.ports.err(start, end)
        if self.ailing.acts and "unrecoverable_error" in self.ports.raw:
            errors = self.chance.poisson("ailing", start, self.rows, self.ailing.value * dt)
            self.ports.count("unrecoverable_error", errors)
        share = np.bincount(self.layout.host_of, carried, len(self.layout.hosts)) / dt / self._per_host
        self.inside.advance(dt, share[self.layout.gpu_host], self.chance, start)

    def _window(self, start: float) -> float:
        """The poll that a moment is in: noise of one poll is the same however time is cut."""
        return start // self.poll

    def _ring(self) -> None:
        """Route around switches and cables whose REROUTE is over."""
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, what, numbers in due:
            (self.effects.dead_switches if what == "switches" else self.effects.dead_cables).update(numbers)
            self.stop_losing(f"dying {what} {numbers}")
            self.effects.changed(routes=True)

    # --- faults of links, devices and hosts

    def count(self, rows: Rows, column: str, amount: Floats | float) -> None:
        """Count `amount` more on some ports, in the device's unit; counters wrap or saturate by their width."""
        at = np.asarray(list(rows), np.intp)
        self.ports.count(column, np.broadcast_to(np.asarray(amount, float), at.shape), at)

    def hold_down(self, rows: Rows) -> None:
        """Add a reason for these links to be down; those that were up go down and count it."""
        self.ports.went(DOWNS, self.links.hold(np.asarray(list(rows), np.intp)))

    def let_up(self, rows: Rows) -> None:
        """Remove a reason; links without any train, and are ACTIVE after BRING_UP seconds."""
        rose = self.links.let(np.asarray(list(rows), np.intp), self.now)
        self.ports.went(("carrier_up_changes",), rose)

    def set_rate(self, rows: NDArray[np.integer], rate: float, width: int = 4) -> None:
        """Set the rate and width that links train to."""
        self.links.rate[rows], self.links.width[rows] = rate, width
        self.effects.changed()

    def train_pcie(self, link: int, width: float = LANES, speed: float = GEN5) -> None:
        """Set the lanes and transfers per second that a PCIe link trains to."""
        self.inside.width[link], self.inside.speed[link], self.inside.saving[link] = width, speed, False
        self.effects.changed()

    def switch_off(self, host: int) -> None:
        """Switch a host off: no answer, its links are down at both ends."""
        self.hosts.go(host)
        self.hold_down(self.layout.host_rows(host))

    def switch_on(self, host: int) -> None:
        """Boot a host: counters from zero, another boot id, its own clock from zero."""
        rows = self.layout.host_rows(host)
        self.ports.clear(rows)
        self.inside.clear(host)
        self.hosts.boot(host, self.now)
        self.let_up(rows)

    def remove(self, rows: NDArray[np.integer]) -> None:
        """Remove devices from their hosts: their ports are in no inventory any more."""
        self.present[rows] = False
        self.hold_down(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))

    def bring_back(self, rows: NDArray[np.integer]) -> None:
        """Bring devices back, with the same GUIDs and counters from zero."""
        self.present[rows] = True
        self.ports.clear(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))
        self.let_up(rows)

    def emit(self, row: int, kind: str, text: str) -> None:
        """Emit a kernel event about a port."""
        host = int(self.layout.host_of[row])
        event = Event(0, self.now + float(self.hosts.skew[host]), kind, self.layout.row_name(row), text)
        self.events.append((host, event))

    def narrow(self, rows: NDArray[np.integer]) -> None:
        """Let these devices keep 32 bits of their traffic counters."""
        self.ports.narrow[rows] = True
        for raw in self.ports.raw.values():
            raw[rows] %= np.uint64(2**32)

    # --- packet loss and back-pressure

    def lose(
        self, cause: str, grays: Iterable[Gray] = (), cables: Mapping[int, float] | None = None,
        ports: Mapping[int, float] | None = None,
    ) -> None:
        """Lose packets in switches, on cables (number -> share) or at ports (row -> share), until `stop_losing`."""
        self.effects.grays[cause] = tuple(grays)
        self.effects.cables[cause] = dict(cables or {})
        self.effects.ports[cause] = dict(ports or {})
        self.effects.changed()

    def stop_losing(self, cause: str) -> None:
        for causes in (self.effects.grays, self.effects.cables, self.effects.ports):
            causes.pop(cause, None)
        self.effects.changed()

    def fail(self, switches: Iterable[int] = (), cables: Iterable[int] = (), at_once: bool = False) -> None:
        """Let switches or cables fail: packets are lost, then routes go around them; `at_once`: without loss."""
        for what, numbers in (("switches", tuple(switches)), ("cables", tuple(cables))):
            if not numbers:
                continue
            self._timers.append((self.now if at_once else self.now + REROUTE, what, numbers))
            if not at_once:
                grays = tuple(Gray(number, 1.0) for number in numbers) if what == "switches" else ()
                lost = dict.fromkeys(numbers, 1.0) if what == "cables" else {}
                self.lose(f"dying {what} {numbers}", grays, lost)
        self._ring()

    def mend(self, switches: Iterable[int] = (), cables: Iterable[int] = ()) -> None:
        self.effects.dead_switches.difference_update(switches)
        self.effects.dead_cables.difference_update(cables)
        self.effects.changed(routes=True)

    def burst(self, cause: str, burst: Burst) -> None:
        """Let some ports send to one beside their other traffic, until `calm`."""
        self.effects.bursts[cause] = burst
        self.effects.changed()

    def calm(self, cause: str) -> None:
        self.effects.bursts.pop(cause, None)
        self.effects.changed()

    def choke(self, cause: str, row: int, share: float) -> None:
        """Limit the receive rate of a port's host to a share of the line rate, until `unchoke`."""
        self.effects.choked[cause] = row, share
        self.effects.changed()

    def unchoke(self, cause: str) -> None:
        self.effects.choked.pop(cause, None)
        self.effects.changed()
