"""Benign events that resemble faults: resets, restarts, silence. One function each; none expects an incident. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Kind
from fabricmon.sim.columns import counting
from fabricmon.sim.layout import Layout
from fabricmon.sim.ports import DOWNS
from fabricmon.sim.script import InjectedFault, Step, lasting
from fabricmon.sim.world import World

NARROW_PERIOD = 9.0
"""Seconds in which a 32-bit counter of 4-byte words wraps once at the rate that `counter_wrap` sets (scenario S25)."""
WORD = 4
LONG_AGO = -1e9
"""Seconds of the script: before the first reading."""
CNP_RATE = 500.0
"""Congestion notifications a second of a port all of whose packets are marked, for `ecn_marks`."""


def driver_reload(
    layout: Layout, hosts: Sequence[str] | str, start: float = 0.0, lasts: float = 15.0, again: float = 3.0
) -> InjectedFault:
    """The driver is loaded anew: devices vanish and are back with counters from 0, and each link drops twice."""
    named = [hosts] if isinstance(hosts, str) else list(hosts)
    rows = np.concatenate([layout.host_rows(layout.host(host)) for host in named]).astype(np.intp)

    def back(world: World) -> None:
        world.bring_back(rows)
        world.ports.went(DOWNS, rows)

    return InjectedFault(
        "driver reload (benign)",
        (
            Step(start, f"driver reload on {', '.join(named)}", lambda w: w.remove(rows)),
            Step(start + lasts, "", back),
            Step(start + lasts + again, "", lambda w: w.hold_down(rows)),
            Step(start + lasts + again + 1.0, "", lambda w: w.let_up(rows)),
        ),
    )


def counter_reset(layout: Layout, ports: Sequence[str] | str, start: float = 0.0) -> InjectedFault:
    """An operator clears the counters of some ports."""
    named = [ports] if isinstance(ports, str) else list(ports)
    rows = np.array([layout.port(port) for port in named], np.intp)
    step = Step(start, f"counters of {len(rows)} ports cleared", lambda w: w.ports.clear(rows))
    return InjectedFault("counter reset (benign)", (step,))


def counter_saturated(layout: Layout, port: str, start: float = 0.0, column: str = "symbol_errors") -> InjectedFault:
    """A counter that was one short of its top comes there. ValueError for one that the ports lack, or that wraps."""
    row = layout.port(port)
    name, top = layout.port_name(row), CATALOGUE[column].top
    if column not in counting(Kind.PORT, layout.link_layer) or math.isnan(top):
        raise ValueError(f"no port of link layer {layout.link_layer} has a counter {column} that stops at its top")
    nearly = Step(LONG_AGO, "", lambda w: _set(w, row, column, top - 1.0))
    return InjectedFault(
        "saturated counter (benign)",
        (nearly, Step(start, f"{name}: {column} at its top", lambda w: w.count((row,), column, 1.0))),
    )


def counter_wrap(layout: Layout, port: str, start: float = 0.0, period: float = NARROW_PERIOD) -> InjectedFault:
    """A device counts bytes in 32 bits, which wrap every `period` seconds."""
    row = np.array([layout.port(port)])
    name = layout.port_name(int(row[0]))

    def narrow(world: World) -> None:
        world.narrow(row)
        usual = world.traffic.mean()[row] * world.links.rate[row]
        share = 2.0**32 * WORD / period / np.maximum(1.0, usual)
        world.speed.put(f"wrap {name}", row, share)
        world.arrives.put(f"wrap {name}", row, share)

    step = Step(start, f"{name}: 32-bit counters wrap every {period:g} s", narrow)
    return InjectedFault("counters that wrap (benign)", (step,))


def counters_frozen(layout: Layout, port: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """Counters keep their last values: frozen firmware."""
    row = layout.port(port)
    name = layout.port_name(row)
    moves = f"{name}: counters move again", lambda w: _freeze(w, row, False)
    stands = f"{name}: counters stand still", lambda w: _freeze(w, row, True)
    return lasting("frozen counters (benign)", start, lasts, stands, moves)


def agent_restart(
    layout: Layout, hosts: Sequence[str] | int, start: float = 0.0, lasts: float = 12.0, seed: int = 0
) -> InjectedFault:
    """Agents are restarted: refused connections for `lasts` seconds, then new processes with the same counters."""
    at = _hosts(layout, hosts, seed)
    stop = f"{len(at)} agents restart", lambda w: w.hosts.stop_agents(at)
    return lasting(
        "agent restart (benign)", start, lasts, stop, ("", lambda w: w.hosts.start_agents(at, w.now))
    )


def clock_skew(
    layout: Layout, hosts: Sequence[str] | int, start: float = 0.0, seconds: float = 90.0, seed: int = 1
) -> InjectedFault:
    """Wall clocks are off, by up to `seconds` either way."""
    at = _hosts(layout, hosts, seed)
    off = np.random.default_rng((seed, len(at))).uniform(-seconds, seconds, len(at))
    step = Step(start, f"{len(at)} wall clocks are off", lambda w: _skew(w, at, off))
    return InjectedFault("clock skew (benign)", (step,))


def clock_step(layout: Layout, host: str, start: float = 0.0, seconds: float = -3600.0) -> InjectedFault:
    """One wall clock steps."""
    at = np.array([layout.host(host)])
    off = np.array([seconds])
    step = Step(start, f"{host}: wall clock steps by {seconds:g} s", lambda w: _skew(w, at, off))
    return InjectedFault("clock step (benign)", (step,))


def agents_silent(
    layout: Layout, start: float = 0.0, share: float = 0.1, hosts: Sequence[str] = (), lasts: float | None = 3600.0,
    spread: float = 0.0, reachable: bool = True, seed: int = 2,
) -> InjectedFault:
    """Agents do not answer while their hosts work: `hosts`, or a random share, beginning within `spread` seconds."""
    at = _hosts(layout, list(hosts) if hosts else round(share * len(layout.hosts)), seed)
    begins = np.sort(np.random.default_rng((seed, len(at), 7)).uniform(0, spread, len(at)))
    steps = [Step(start, f"{len(at)} agents fall silent", lambda w: None)]
    for host, begin in zip(at.tolist(), begins.tolist(), strict=True):
        steps += _silence(np.array([host]), start + begin, lasts, reachable)
    return InjectedFault("silent agents (benign)", tuple(steps))


def monitoring_partition(
    layout: Layout, start: float = 0.0, share: float = 0.5, lasts: float = 600.0, unit: str = ""
) -> InjectedFault:
    """The management network is cut: no answer from a share of the hosts, or from one unit ("su1"), which all work."""
    mine = [host for host in layout.hosts if not unit or layout.graph.hosts[host].get("unit") == unit]
    if not mine:
        raise ValueError(f"no host is of unit {unit!r}")
    picked = mine if unit else mine[: round(share * len(mine))]
    found = agents_silent(layout, start, hosts=picked, lasts=lasts, reachable=False)
    return InjectedFault("monitoring partition (benign)", found.steps)


def retransmits(layout: Layout, hosts: Sequence[str] | int, start: float = 0.0, seed: int = 3) -> InjectedFault:
    """Connections are set up anew on some hosts, as at a job's start: a few retransmissions a port."""
    at = _hosts(layout, hosts, seed)
    rows = np.flatnonzero(np.isin(layout.host_of, at) & ~layout.storage)
    return InjectedFault("retransmits (benign)", (Step(start, "", lambda w: w.effects.begin(rows)),))


def benign_waits(
    layout: Layout, start: float = 0.0, share: float = 0.5, ratio: float = 0.05, lasts: float = 600.0, seed: int = 4
) -> InjectedFault:
    """A `share` of all ports waits a little, `ratio` of the time, for minutes."""
    rows = _ports(layout, share, seed)
    cause = f"waits {start:g}"
    return lasting(
        "waits (benign)", start, lasts,
        (f"{len(rows)} ports wait {ratio:.0%} of the time", lambda w: w.stall.put(cause, rows, ratio)),
        ("", lambda w: w.stall.take(cause)),
    )  # fmt: skip


def ecn_marks(
    layout: Layout, start: float = 0.0, share: float = 1.0, ratio: float = 0.12, lasts: float | None = None,
    seed: int = 5,
) -> InjectedFault:
    """A `share` of all ports receives `ratio` of its packets ECN-marked, as rate control settles at. ValueError where
    the link layer has no marks."""
    if layout.link_layer != "Ethernet":
        raise ValueError(f"no port of link layer {layout.link_layer} receives ECN marks")
    rows = _ports(layout, share, seed)
    cause = f"marks {start:g}"

    def mark(world: World) -> None:
        world.marked.put(cause, rows, ratio)
        world.notified.put(cause, rows, CNP_RATE * ratio)

    def unmark(world: World) -> None:
        world.marked.take(cause)
        world.notified.take(cause)

    text = f"{len(rows)} ports receive {ratio:.0%} of their packets marked", mark
    return lasting("ECN marks (benign)", start, lasts, text, ("", unmark))


def idle_pcie(
    layout: Layout, start: float = 0.0, share: float = 0.8, gigatransfers: float = 5, lasts: float | None = None,
    seed: int = 6,
) -> InjectedFault:
    """PCIe links of a `share` of the hosts without traffic lower their speed to save power, until `lasts`."""
    at = _hosts(layout, round(share * len(layout.hosts)), seed)

    def save(world: World) -> None:
        world.inside.save_power(at[world.idle_hosts()[at]].tolist(), gigatransfers * 1e9)
        world.effects.changed()

    def wake(world: World) -> None:
        world.inside.wake(at.tolist())
        world.effects.changed()

    text = f"PCIe links of idle hosts run at {gigatransfers:g} GT/s", save
    return lasting("idle PCIe (benign)", start, lasts, text, ("", wake))


def _ports(layout: Layout, share: float, seed: int) -> NDArray[np.intp]:
    if not 0.0 < share <= 1.0:
        raise ValueError(f"a share of the ports between 0 and 1, got {share:g}")
    return np.sort(np.random.default_rng(seed).permutation(layout.ports)[: round(share * layout.ports)])


def _silence(one: NDArray[np.intp], at: float, lasts: float | None, reachable: bool) -> tuple[Step, ...]:
    """One agent stops, and after a while answers again: as a new process, unless only the network to it was cut."""
    again = "", lambda w: w.hosts.start_agents(one, w.now, anew=reachable)
    return lasting("", at, lasts, ("", lambda w: w.hosts.stop_agents(one, reachable)), again).steps


def _hosts(layout: Layout, hosts: Sequence[str] | int, seed: int) -> NDArray[np.intp]:
    """Hosts by name, or so many drawn by the seed."""
    if isinstance(hosts, int):
        if not 0 < hosts <= len(layout.hosts):
            raise ValueError(f"between 1 and {len(layout.hosts)} hosts, got {hosts}")
        return np.sort(np.random.default_rng(seed).permutation(len(layout.hosts))[:hosts])
    return np.array([layout.host(host) for host in ([hosts] if isinstance(hosts, str) else hosts)], np.intp)


def _set(world: World, row: int, column: str, value: float) -> None:
    world.ports.raw[column][row] = np.uint64(value)


def _freeze(world: World, row: int, frozen: bool) -> None:
    world.ports.frozen[row] = frozen


def _skew(world: World, hosts: NDArray[np.intp], seconds: NDArray[np.float64]) -> None:
    world.hosts.skew[hosts] = seconds
