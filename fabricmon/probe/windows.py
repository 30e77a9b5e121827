"""Windows of probes: sent, lost, late and times, per flow. Pure: every call has its time.

A window holds the probes that were sent in it and closes WATERMARK later. T1 to T6 as in docs/probing.md#times:

    network round trip = (T5 - T2) - (T4 - T3)      own delay = (T6 - T1) - (T5 - T2)      responder's delay = T4 - T3

T2 and T5 are of one clock: with one of each there is no round trip. Where neither kernel nor adapter stamps (verbs),
the program does: the round trip then holds the delays of both hosts, which are not known apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fabricmon.probe.packet import Clock

WINDOW = 10.0
"""Seconds (docs/methods.md#polls-and-windows)."""
TIMEOUT = 1.0
"""Seconds after which an answer is late; own lag of so much voids a window (docs/methods.md#probes)."""
WATERMARK = 2.0
"""Seconds after the end of a window in which its answers still count."""
MAX_PENDING = 65_536
"""Probes without their second answer that are kept."""


class KernelTimes(NamedTuple):
    """Stamps of one packet in nanoseconds: software ones of the kernel, those of the adapter's clock, and of the
    program where neither stamps; 0 without one."""

    software: int = 0
    hardware: int = 0
    program: int = 0

    def since(self, earlier: KernelTimes) -> tuple[float, Clock]:
        """Seconds between two stamps of one clock, the best that made both, and whose; NaN where none did."""
        if self.hardware and earlier.hardware:
            return (self.hardware - earlier.hardware) * 1e-9, "adapter"
        if self.software and earlier.software:
            return (self.software - earlier.software) * 1e-9, "kernel"
        if self.program and earlier.program:
            return (self.program - earlier.program) * 1e-9, "program"
        return math.nan, ""


NO_TIMES = KernelTimes()


@dataclass(slots=True)
class _Pending:
    flow: int
    window: int
    t1: int
    t2: KernelTimes = NO_TIMES
    t5: KernelTimes | None = None
    t6: int = 0
    held: float = math.nan
    traffic_class: int = -1


@dataclass(slots=True)
class ClosedFlow:
    """One window of one flow. rtt: median, 99th percentile and largest; own, peer: 99th percentile. Seconds, NaN where
    no probe had all its stamps; dscp: of the question at the far end, -1 unknown; clock: that stamped."""

    sent: int = 0
    lost: int = 0
    late: int = 0
    rtt: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    own: float = math.nan
    peer: float = math.nan
    dscp: int = -1
    clock: Clock = ""


@dataclass(slots=True)
class ClosedWindow:
    """All flows of one window. void: why its losses do not count, "" where they do."""

    number: int
    void: str
    flows: dict[int, ClosedFlow]


class ProbeWindows:
    """The open windows. Times `now` are of the monotonic clock, t1 and t6 nanoseconds of the wall clock."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._pending: dict[bytes, _Pending] = {}
        self._void: dict[int, str] = {}
        self._next = 0

    def number(self, now: float) -> int:
        return int((now - self._began) // WINDOW)

    def sent(self, cookie: bytes, flow: int, t1: int, now: float) -> bool:
        """A probe is about to leave. False, and it must not, while too many are under way."""
        if len(self._pending) >= MAX_PENDING:
            return False
        self._pending[cookie] = _Pending(flow, self.number(now), t1)
        return True

    def unsent(self, cookie: bytes) -> None:
        """The kernel refused it: it never left."""
        self._pending.pop(cookie, None)

    def left(self, cookie: bytes, t2: KernelTimes) -> None:
        """Its transmit stamp; software and hardware come apart."""
        pending = self._pending.get(cookie)
        if pending is not None:
            pending.t2 = t2 if pending.t2 is NO_TIMES else _joined(pending.t2, t2)

    def flow_of(self, cookie: bytes) -> int | None:
        pending = self._pending.get(cookie)
        return None if pending is None else pending.flow

    def first(self, cookie: bytes, t5: KernelTimes, t6: int, traffic_class: int) -> None:
        pending = self._pending.get(cookie)
        if pending is not None and pending.t5 is None:
            pending.t5, pending.t6, pending.traffic_class = t5, t6, traffic_class

    def second(self, cookie: bytes, held: float) -> None:
        pending = self._pending.get(cookie)
        if pending is not None:
            pending.held = held

    def lagged(self, lag: float, now: float) -> None:
        """The program ran `lag` seconds late at `now`: the windows that it slept in are void beyond the time-out."""
        if lag > TIMEOUT:
            self.spoil(f"the agent itself was {lag:.1f} s late", now - lag, now)

    def spoil(self, why: str, begin: float, end: float) -> None:
        """The windows of this time are void, and those that still waited for answers."""
        for number in range(max(self._next, self.number(begin - WATERMARK)), self.number(end) + 1):
            self._void.setdefault(number, why)

    def due(self, now: float) -> bool:
        """Whether there is a window to close."""
        return self.number(now - WATERMARK) > self._next

    def close(self, now: float) -> list[ClosedWindow]:
        """The windows that ended WATERMARK ago, each once, oldest first."""
        until = self.number(now - WATERMARK)
        if until <= self._next:
            return []
        of: dict[int, dict[int, list[_Pending]]] = {}
        for cookie in [c for c, p in self._pending.items() if p.window < until]:
            pending = self._pending.pop(cookie)
            of.setdefault(pending.window, {}).setdefault(pending.flow, []).append(pending)
        found = [
            ClosedWindow(number, self._void.pop(number, ""), {f: _closed(p) for f, p in of.get(number, {}).items()})
            for number in sorted({*of, until - 1})
        ]
        self._void = {number: why for number, why in self._void.items() if number >= until}
        self._next = until
        return found


def _joined(one: KernelTimes, other: KernelTimes) -> KernelTimes:
    return KernelTimes(
        other.software or one.software, other.hardware or one.hardware, other.program or one.program
    )


def _closed(probes: Sequence[_Pending]) -> ClosedFlow:
    found = ClosedFlow(sent=len(probes))
    rtts: list[float] = []
    owns: list[float] = []
    peers: list[float] = []
    for probe in probes:
        if probe.t5 is None:
            found.lost += 1
            continue
        if probe.traffic_class >= 0:
            found.dscp = probe.traffic_class >> 2
        outside, clock = probe.t5.since(probe.t2)
        whole = (probe.t6 - probe.t1) * 1e-9
        found.late += whole > TIMEOUT if math.isnan(outside) else outside > TIMEOUT
        rtt, own = outside - probe.held, whole - outside
        if rtt > 0:  # else a clock was set meanwhile, or a stamp is missing
            rtts.append(rtt)
            found.clock = clock
        if clock == "program":
            continue
        if own > 0:
            owns.append(own)
        if probe.held >= 0:
            peers.append(probe.held)
    found.rtt = quantile(rtts, 0.5), quantile(rtts, 0.99), quantile(rtts, 1.0)
    found.own, found.peer = quantile(owns, 0.99), quantile(peers, 0.99)
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed, NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def known(value: float) -> float | None:
    """None for NaN, as results of probes travel."""
    return None if math.isnan(value) else value
