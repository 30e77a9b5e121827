"""A simulated cluster at one moment: every counter of every component, moving as real ones do. Pure: told the time.

Time passes in stretches within which nothing changes state; what a port carries in one is the integral of its load, so
that the length of a stretch does not matter. Faults act on the world (a link is held down, a switch loses packets);
what that makes others count follows from here and `effects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Event, Kind
from fabricmon.sim.background import Background
from fabricmon.sim.columns import columns_of
from fabricmon.sim.effects import Burst, Effects
from fabricmon.sim.flows import Flows, Gray
from fabricmon.sim.hosts import Hosts
from fabricmon.sim.inside import GEN5, LANES, Inside
from fabricmon.sim.layout import Layout
from fabricmon.sim.links import Links
from fabricmon.sim.optics import COLUMNS as OPTICS
from fabricmon.sim.optics import Optics
from fabricmon.sim.overlay import Overlay
from fabricmon.sim.ports import DOWNS, Ports
from fabricmon.sim.registers import Floats
from fabricmon.sim.traffic import Job, Traffic

Rows = NDArray[np.integer] | Iterable[int]

REROUTE = 1.0
"""Seconds in which packets to a switch or cable that died are lost, until routes go around it."""


class World:
    """All components of a layout.

    now        seconds since the start of the simulation
    poll       seconds between two looks of the agents at their counters; no stretch of time is longer
    hosts      which of them run, answer, and since when
    sent       bytes that each port really sent since the start, whatever its counters show
    links      states, rates and error ratios of all ports' links
    ports      what the ports' devices count
    optics     the modules in the ports
    inside     GPUs, NVLinks, PCIe
    flows      who sends to whom; `show_flows`: nodes tell of each (evidence of level L2)
    effects    what loss, dead peers and slow hosts make others count
    present    bool[ports]: the device is there
    stall      share of the time in which a port may not send, on top of its own traffic's waiting
    pausing    share of the time in which a port keeps its switch from sending
    speed      share of its usual rate that a port reaches
    arrives    share of what is sent to a port that it receives: its peers have less for it
    marked     share of received packets that carry a congestion mark
    notified   congestion notifications per second that a port acts on
    ailing     errors per second that a port's device has and cannot mend
    events     what kernels told since somebody asked: (host, event)
    """

    def __init__(
        self, layout: Layout, seed: int = 1, poll: float = 10.0, *, steady: float = 0.45, jobs: Iterable[Job] = (),
        flows: bool = False, spray: bool = False, background: bool = False,
    ) -> None:
        """
        seed        the same one makes the same counters, to the last bit
        steady      mean share of the line rate on ports of no job; 0 for idle
        flows       every port tells what it sent to each of its peers, and what of it was lost
        spray       packets of one flow take all paths in turn (adaptive routing), and no flow tells a path
        background  the noise that every large fabric has (`sim/background.py`)

        ValueError for a poll that takes no time.
        """
        if poll <= 0:
            raise ValueError(f"a poll takes some time, got {poll:g} s")
        n = layout.ports
        self.layout, self.seed, self.poll, self.now = layout, seed, poll, 0.0
        self.random = np.random.default_rng(seed)
        self.traffic = Traffic(layout, seed, steady, tuple(jobs))
        self.hosts = Hosts(len(layout.hosts), self.random)
        self.sent = np.zeros(n)
        self.links = Links(layout.rate)
        self.ports = Ports(layout, self.links, self.random)
        self.optics = Optics(n, np.random.default_rng((seed, 0x0071C5)))
        self.inside = Inside(layout, self.random)
        self.present = np.ones(n, np.bool_)
        self.stall = Overlay(n, 0.0, np.maximum)
        self.pausing = Overlay(n, 0.0, np.maximum)
        self.speed = Overlay(n, 1.0, np.multiply)
        self.arrives = Overlay(n, 1.0, np.multiply)
        self.marked = Overlay(n, 0.0, np.maximum)
        self.notified = Overlay(n, 0.0, np.add)
        self.ailing = Overlay(n, 0.0, np.add)
        self.events: list[tuple[int, Event]] = []
        self.show_flows = flows
        self.flows = Flows(layout, self.traffic.jobs, seed, spray)
        self.effects = Effects(self, self.flows)
        self._background = Background(layout, seed) if background else None
        self._load = self.traffic.version
        self._timers: list[tuple[float, str, tuple[int, ...]]] = []
        self._per_host = np.maximum(1, np.bincount(layout.host_of, minlength=len(layout.hosts)))
        self.effects.settle()

    @property
    def ethernet(self) -> bool:
        return self.ports.ethernet

    # --- reading

    def column(self, kind: Kind, name: str) -> Floats:
        """One value a component of that kind, in the exported unit; NaN unknown. KeyError for a column it has not."""
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

    @property
    def hosts_silent(self) -> NDArray[np.bool_]:
        """Hosts whose agent does not answer."""
        return self.hosts.silent

    # --- time

    def advance(self, until: float) -> None:
        """Let time pass; calls with an earlier time do nothing."""
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
                self.effects.changed()
                self.effects.begin(self.traffic.started)

    def _pass(self, start: float, end: float) -> None:
        dt = end - start
        self.optics.look()
        on = self.links.active & self.present & ~self.hosts.off[self.layout.host_of]
        if self._background is not None:
            self._background.step(self, start, end)
        carried, waits = self.traffic.carried(start, end)
        carried = np.minimum(dt, carried * self.speed.value * self.random.uniform(0.99, 1.01, on.size)) * on
        sent, got = self.effects.move(carried * self.links.rate, on, dt)
        got = got * self.arrives.value
        self.sent += sent
        self.ports.move(sent, got)
        busy = on & ((sent > 0) | (got > 0))
        stalled = np.minimum(dt, (waits + self.stall.value * dt) * busy)
        if self.ethernet:
            self.ports.pause(stalled, self.pausing.value * dt * busy, dt)
            self.ports.mark(got, self.marked.value, self.notified.value * dt * busy)
        else:
            self.ports.wait(stalled, on, dt)
        self.ports.err(start, end)
        if self.ailing.acts:
            self.ports.count("unrecoverable_error", self.random.poisson(self.ailing.value * dt).astype(float))
        share = np.bincount(self.layout.host_of, carried, len(self.layout.hosts)) / dt / self._per_host
        self.inside.advance(dt, share[self.layout.gpu_host], self.random)

    def _ring(self) -> None:
        """What was to happen by now: routes go around what died."""
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, what, numbers in due:
            (self.effects.dead_switches if what == "switches" else self.effects.dead_cables).update(numbers)
            self.stop_losing(f"dying {what} {numbers}")
            self.effects.changed(routes=True)

    # --- what faults do to links, devices and hosts

    def count(self, rows: Rows, column: str, amount: Floats | float) -> None:
        """Count `amount` more on some ports, in the device's unit; counters wrap or saturate as their width says."""
        at = np.asarray(list(rows), np.intp)
        self.ports.count(column, np.broadcast_to(np.asarray(amount, float), at.shape), at)

    def hold_down(self, rows: Rows) -> None:
        """One more reason for these links to be down; those that were up go down and count it."""
        self.ports.went(DOWNS, self.links.hold(np.asarray(list(rows), np.intp)))

    def let_up(self, rows: Rows) -> None:
        """One reason less; links without any train, and are ACTIVE after a moment."""
        rose = self.links.let(np.asarray(list(rows), np.intp), self.now)
        self.ports.went(("carrier_up_changes",), rose)

    def set_rate(self, rows: NDArray[np.integer], rate: float, width: int = 4) -> None:
        """What links train to from now on."""
        self.links.rate[rows], self.links.width[rows] = rate, width
        self.effects.changed()

    def train_pcie(self, link: int, width: float = LANES, speed: float = GEN5) -> None:
        """What a PCIe link trains to from now on: lanes, transfers per second."""
        self.inside.width[link], self.inside.speed[link] = width, speed
        self.effects.changed()

    def switch_off(self, host: int) -> None:
        """The host goes: nothing answers, its links are down at both ends."""
        self.hosts.go(host)
        self.hold_down(self.layout.host_rows(host))

    def switch_on(self, host: int) -> None:
        """The host is back from a boot: counters from zero, another boot id, its own clock from zero."""
        rows = self.layout.host_rows(host)
        self.ports.clear(rows)
        self.inside.clear(host)
        self.hosts.boot(host, self.now)
        self.let_up(rows)

    def remove(self, rows: NDArray[np.integer]) -> None:
        """Devices vanish from their hosts: their ports are in no inventory any more."""
        self.present[rows] = False
        self.hold_down(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))

    def bring_back(self, rows: NDArray[np.integer]) -> None:
        """Devices are there again, with the same GUIDs and counters from zero."""
        self.present[rows] = True
        self.ports.clear(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))
        self.let_up(rows)

    def tell(self, row: int, kind: str, text: str) -> None:
        """The kernel of a port's host says something about it."""
        host = int(self.layout.host_of[row])
        event = Event(0, self.now + float(self.hosts.skew[host]), kind, self.layout.row_name(row), text)
        self.events.append((host, event))

    def narrow(self, rows: NDArray[np.integer]) -> None:
        """These devices keep 32 bits of their traffic counters."""
        self.ports.narrow[rows] = True
        for raw in self.ports.raw.values():
            raw[rows] %= np.uint64(2**32)

    # --- what faults do to packets

    def lose(
        self, cause: str, grays: Iterable[Gray] = (), cables: Mapping[int, float] | None = None,
        ports: Mapping[int, float] | None = None,
    ) -> None:
        """Packets are lost in switches, on cables (number -> share) or at ports (row -> share), until `stop_losing`."""
        self.effects.grays[cause] = tuple(grays)
        self.effects.cables[cause] = dict(cables or {})
        self.effects.ports[cause] = dict(ports or {})
        self.effects.changed()

    def stop_losing(self, cause: str) -> None:
        for causes in (self.effects.grays, self.effects.cables, self.effects.ports):
            causes.pop(cause, None)
        self.effects.changed()

    def fail(self, switches: Iterable[int] = (), cables: Iterable[int] = (), at_once: bool = False) -> None:
        """Switches or cables die: what is under way is lost, then routes go around them; `at_once`: right away."""
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
        """Some ports send to one beside their other traffic, until `calm`."""
        self.effects.bursts[cause] = burst
        self.effects.changed()

    def calm(self, cause: str) -> None:
        self.effects.bursts.pop(cause, None)
        self.effects.changed()

    def choke(self, cause: str, row: int, share: float) -> None:
        """A port's host takes only this share of the line rate, whatever PCIe could, until `unchoke`."""
        self.effects.choked[cause] = row, share
        self.effects.changed()

    def unchoke(self, cause: str) -> None:
        self.effects.choked.pop(cause, None)
        self.effects.changed()
