"""What every fabric has besides faults: strays, silent agents, gaps in what agents read, and benign events. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import Fabric
from fabricmon.adversary.phenomena import stray_fall
from fabricmon.adversary.places import Places
from fabricmon.adversary.scene import Act, PlayedFabric

HOUR = 3600.0
STRAY_ERRORS, STRAY_FALLS = (2e-4, 4e-3), (1e-5, 1e-3)
"""A port's stray errors and short falls an hour, log-uniform."""
STRAY_WAITS, STRAY_RETRANSMITS = (1e-3, 4e-2), (1e-3, 2e-2)
"""A port's short congested windows and bursts of retransmissions an hour, log-uniform."""
MANY = 30.0
"""Factor of the stress "stray"."""
QUIET = 0.45
"""Share of the composites in which every agent answers."""
SILENT = (0.002, 0.04)
"""Share of silent agents in the others, log-uniform."""
GAPS = (40.0, 1500.0)
"""Seconds of a silence that begins and ends, log-uniform."""
FINDS = {"optics": ("module_",), "transport": ("seq_nak_rx", "implied_nak", "out_of_sequence_rx"),
         "timeouts": ("ack_timeout",), "symbols": ("symbol_errors", "eth_symbol_errors"), "rate": ("rate", "width"),
         "waits": ("xmit_wait_ticks", "pfc_rx_pause_prio3")}  # fmt: skip
"""Readings that some agents lack: beginnings of columns."""


@dataclass
class Noise:
    """acts; what is true of the fabric without being a fault.

    fallen      ports with a stray fall or stray errors
    silent      hosts whose agents are silent for a while, for reasons of their own
    restarted   hosts whose agents were restarted or whose clocks or counters were set
    announced   names of components in a maintenance window: (hosts, components, from, until)
    missing     (beginnings of columns, share of the hosts or hosts)
    """

    acts: list[Act] = field(default_factory=list)
    fallen: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    restarted: set[int] = field(default_factory=set)
    announced: list[tuple[tuple[str, ...], tuple[str, ...], float, float]] = field(default_factory=list)
    announced_rows: set[int] = field(default_factory=set)
    missing: list[tuple[tuple[str, ...], tuple[int, ...]]] = field(default_factory=list)
    lookalikes: list[str] = field(default_factory=list)


def strays(draw: Draw, fabric: Fabric, noise: Noise, end: float, factor: float) -> None:
    """Stray errors, falls, waits and retransmissions of single ports."""
    layout = fabric.layout
    hours = end / HOUR * layout.ports * factor
    for _ in range(draw.events(hours * draw.log(*STRAY_ERRORS))):
        row, at, count = draw.number(0, layout.ports - 1), draw.uniform(0, end), draw.number(1, 2)
        noise.fallen.add(row)
        noise.acts.append(Act(at, _blemish(row, count)))
    if layout.link_layer != "EFA":
        for _ in range(draw.events(hours * draw.log(*STRAY_FALLS))):
            row, at = draw.number(0, layout.ports - 1), draw.uniform(60, end)
            noise.fallen.add(row)
            noise.acts += stray_fall((row,), at, draw.log(0.8, 8.0), draw.number(1, 60))
        for number in range(draw.events(hours * draw.log(*STRAY_WAITS))):
            row, at = draw.number(0, layout.ports - 1), draw.uniform(0, end)
            cause, share = f"stray {number}", draw.uniform(0.2, 0.7)
            noise.acts.append(Act(at, _wait(cause, (row,), share)))
            noise.acts.append(Act(at + draw.uniform(5, 30), _no_wait(cause)))
    for _ in range(draw.events(hours * draw.log(*STRAY_RETRANSMITS))):
        row, at = draw.number(0, layout.ports - 1), draw.uniform(0, end)
        noise.acts.append(Act(at, _begin((row,))))


def silence(draw: Draw, fabric: Fabric, noise: Noise, end: float, share: float | None) -> None:
    """Silent agents: `share` of them, None by the base distribution; scattered or in runs, for good or for a while."""
    if share is None:
        share = 0.0 if draw.chance(QUIET) else draw.log(*SILENT)
    hosts = len(fabric.layout.hosts)
    count = round(share * hosts)
    if draw.chance(0.7):
        picked = draw.some(range(hosts), count)
    else:
        run = max(1, min(count, draw.number(2, 12)))
        starts = [draw.number(0, hosts - 1) for _ in range(-(-count // run))]
        picked = sorted({(start + at) % hosts for start in starts for at in range(run)})[:count]
    for host in picked:
        noise.silent.add(host)
        at = 0.0 if draw.chance(0.6) else draw.uniform(0, end)
        reachable = draw.chance(0.6)
        noise.acts.append(Act(at, _mute(host, reachable)))
        if draw.chance(0.4):
            noise.acts.append(Act(at + draw.log(*GAPS), _unmute(host, reachable)))


def gaps(draw: Draw, fabric: Fabric, noise: Noise) -> None:
    """Readings that agents lack: of all hosts or of some."""
    for _ in range(draw.weighted({0: 7.0, 1: 2.0, 2: 1.0})):
        hosts = range(len(fabric.layout.hosts))
        some = draw.some(hosts, round(draw.uniform(0.05, 0.5) * len(hosts))) if draw.chance(0.6) else list(hosts)
        noise.missing.append((FINDS[draw.pick(sorted(FINDS))], tuple(some)))


# --- benign events that look like faults


def host_maintenance(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    place = places.draw("host", draw)
    if place is None:
        return False
    lasts = draw.uniform(120, 400)
    host = place.hosts[0]
    noise.acts += [
        Act(at, lambda scene: scene.world.switch_off(host)), Act(at + lasts, lambda scene: scene.world.switch_on(host))
    ]  # fmt: skip
    noise.announced.append(((fabric.layout.hosts[host],), (), at - 30, at + lasts + 300))
    noise.announced_rows.update(place.rows)
    noise.restarted.add(host)
    return True


def leaf_maintenance(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    place = places.draw("leaf", draw) if fabric.layout.link_layer != "EFA" else None
    if place is None:
        return False
    rows, back = place.rows, at + draw.uniform(60, 240)
    noise.acts += [
        Act(at, lambda scene: scene.world.hold_down(rows)), Act(back, lambda scene: scene.world.let_up(rows))
    ]  # fmt: skip
    noise.announced.append(((), place.names, at - 30, back + 300))
    noise.announced_rows.update(rows)
    return True


def congestion(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """Many ports wait a little, for minutes."""
    layout = fabric.layout
    if layout.link_layer == "EFA":
        return False
    rows = tuple(draw.some(range(layout.ports), round(draw.uniform(0.05, 0.6) * layout.ports)))
    noise.acts.append(Act(at, _wait("benign", rows, draw.uniform(0.01, 0.08))))
    noise.acts.append(Act(at + draw.uniform(60, 500), _no_wait("benign")))
    return True


def marks(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """ECN marks at a moderate share, as rate control settles at."""
    layout = fabric.layout
    if layout.link_layer != "Ethernet":
        return False
    rows = np.array(draw.some(range(layout.ports), round(draw.uniform(0.2, 1.0) * layout.ports)), np.intp)
    share = draw.uniform(0.01, 0.13)

    def mark(scene: PlayedFabric) -> None:
        scene.world.marked.put("benign", rows, share)
        scene.world.notified.put("benign", rows, 500.0 * share)

    noise.acts.append(Act(at, mark))
    return True


def idle_pcie(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """PCIe links of idle hosts lower their speed to save power, until they have work."""
    layout, speed, share = fabric.layout, draw.pick((2.5e9, 5e9, 8e9, 16e9)), draw.uniform(0.3, 1.0)
    order = draw.some(range(len(layout.hosts)), round(share * len(layout.hosts)))

    def save(scene: PlayedFabric) -> None:
        world = scene.world
        quiet = world.idle_hosts()
        world.inside.save_power((host for host in order if quiet[host]), speed)
        world.effects.changed()

    noise.acts.append(Act(at, save))
    return True


def manager(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """Another subnet manager takes over: ports are INIT for some seconds."""
    if fabric.layout.link_layer != "InfiniBand":
        return False
    rows, lasts = np.arange(fabric.layout.ports), draw.uniform(1.0, 7.0)
    noise.acts.append(Act(at, lambda scene: scene.world.links.reconfigure(rows, scene.world.now + lasts)))
    return True


def upgrade(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """Agents are upgraded in waves."""
    hosts = draw.some(range(len(fabric.layout.hosts)), round(draw.uniform(0.3, 1.0) * len(fabric.layout.hosts)))
    wave, pause, lasts = draw.number(4, 60), draw.uniform(4, 30), draw.uniform(3, 18)
    noise.restarted.update(hosts)
    for first in range(0, len(hosts), wave):
        some, begin = np.array(hosts[first : first + wave]), at + first // wave * pause
        noise.acts += [Act(begin, _mute_all(some)), Act(begin + lasts, _unmute_all(some))]
    return True


def cleared(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """An operator clears counters."""
    layout = fabric.layout
    hosts = draw.some(range(len(layout.hosts)), round(draw.log(0.01, 1.0) * len(layout.hosts)))
    rows = np.flatnonzero(np.isin(layout.host_of, hosts))
    noise.restarted.update(hosts)
    noise.acts.append(Act(at, lambda scene: scene.world.ports.clear(rows)))
    return True


def clock(draw: Draw, fabric: Fabric, places: Places, noise: Noise, at: float) -> bool:
    """Wall clocks step."""
    hosts = np.array(draw.some(range(len(fabric.layout.hosts)), draw.number(1, 4)))
    noise.restarted.update(hosts.tolist())
    seconds = draw.uniform(-3600, 3600)

    def step(scene: PlayedFabric) -> None:
        scene.world.hosts.skew[hosts] = seconds

    noise.acts.append(Act(at, step))
    return True


Lookalike = Callable[[Draw, Fabric, Places, Noise, float], bool]
LOOKALIKES: dict[str, Lookalike] = {
    "host maintenance": host_maintenance, "leaf maintenance": leaf_maintenance, "benign congestion": congestion,
    "moderate ECN": marks, "idle PCIe": idle_pcie, "subnet manager": manager, "agent upgrade": upgrade,
    "cleared counters": cleared, "clock step": clock,
}  # fmt: skip
"""Benign events by name; False where the fabric cannot have one. The start of a job is one more (composite.py)."""


def _blemish(row: int, count: int) -> Callable[[PlayedFabric], None]:
    def do(scene: PlayedFabric) -> None:
        errors = np.zeros(scene.world.layout.ports)
        errors[row] = count
        scene.world.ports.blemish(errors)

    return do


def _wait(cause: str, rows: tuple[int, ...], share: float) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.stall.put(cause, np.array(rows, np.intp), share)


def _no_wait(cause: str) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.stall.take(cause)


def _begin(rows: tuple[int, ...]) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.effects.begin(np.array(rows, np.intp))


def _mute(host: int, reachable: bool) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.hosts.stop_agents(np.array([host]), reachable)


def _unmute(host: int, reachable: bool) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.hosts.start_agents(np.array([host]), scene.world.now, anew=reachable)


def _mute_all(hosts: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Callable[[PlayedFabric], None]:
    def do(scene: PlayedFabric) -> None:
        scene.world.hosts.stop_agents(hosts[~scene.world.hosts.off[hosts]])

    return do


def _unmute_all(hosts: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.hosts.start_agents(hosts, scene.world.now)
