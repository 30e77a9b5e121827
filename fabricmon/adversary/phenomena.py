"""How a broken part shows: falls, flaps, errors, heat, loss, silence, back-pressure. Pure.

Each function draws one course of a phenomenon on a place, from `start` on, as acts on a scene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fabricmon.adversary.draw import Draw
from fabricmon.adversary.places import Place
from fabricmon.adversary.scene import Act, PlayedFabric
from fabricmon.sim.effects import Burst
from fabricmon.sim.flows import Gray
from fabricmon.sim.layout import Layout

JITTER = (0.1, 8.0)
"""Seconds within which the members of a group fall, log-uniform; in two of five groups at once."""
REPAIRED = 0.2
"""Share of the faults that end within the composite, REPAIR seconds after they began."""
REPAIR = (200.0, 600.0)
PART = (0.3, 0.95)
"""Share of the members of a half-broken group that show it."""
FLAPS, GAP, BRIEF = (3, 9), (12.0, 80.0), (0.8, 6.0)
"""Falls of a flapping part, seconds between them and of one (log-uniform)."""
RATIO = (1e-12, 3e-8)
"""Error ratio after correction, log-uniform: from a hundred times what vendors call an error up."""
WARMER, DIMMER, DRIFT = (14.0, 38.0), (-14.0, -4.0), (60.0, 300.0)
"""Degrees, decibels of a failing module, and seconds in which they come about."""
LOSS = (1e-4, 0.05)
"""Share of packets lost, log-uniform."""
TRAINING = (5, 120)
"""Errors that one training leaves."""
LOGGED = 0.6
"""Share of the device faults that the kernel logs and an agent sees."""
REBOOT = (90.0, 420.0)


@dataclass(frozen=True)
class Course:
    """acts of a fault, its direct members, and the moment from which there is enough to see."""

    acts: tuple[Act, ...]
    rows: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()
    cables: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    ready: float = 0.0


Phenomenon = Callable[[Draw, Layout, Place, float], Course]


def _end(draw: Draw, start: float) -> float | None:
    return start + draw.uniform(*REPAIR) if draw.chance(REPAIRED) else None


def _delays(draw: Draw, count: int) -> list[float]:
    spread = 0.0 if draw.chance(0.4) else draw.log(*JITTER)
    return [draw.uniform(0.0, spread) for _ in range(count)]


def _part(draw: Draw, members: tuple[int, ...], least: int = 2) -> tuple[int, ...]:
    """All members, or in half of the cases some of them."""
    if len(members) <= least or draw.chance(0.5):
        return members
    return tuple(draw.some(members, max(least, round(draw.uniform(*PART) * len(members)))))


# --- down


def _fall(rows: tuple[int, ...], cables: tuple[int, ...] = ()) -> Callable[[PlayedFabric], None]:
    def do(scene: PlayedFabric) -> None:
        scene.world.hold_down(rows)
        scene.transit.hold(np.array(cables, np.intp))

    return do


def _rise(rows: tuple[int, ...], errors: int, cables: tuple[int, ...] = ()) -> Callable[[PlayedFabric], None]:
    def do(scene: PlayedFabric) -> None:
        scene.world.let_up(rows)
        scene.transit.let(np.array(cables, np.intp))
        for column in ("symbol_errors", "eth_symbol_errors"):
            if column in scene.world.ports.raw and rows:
                scene.world.count(rows, column, float(errors))

    return do


def down(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Links go down, all or some of the group, and stay down or are repaired."""
    return _down(draw, place, start, place.rows, place.cables)


def part_down(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    return _down(draw, place, start, _part(draw, place.rows), _part(draw, place.cables))


def _down(draw: Draw, place: Place, start: float, rows: tuple[int, ...], cables: tuple[int, ...]) -> Course:
    end, acts = _end(draw, start), []
    for row, delay in zip(rows, _delays(draw, len(rows)), strict=True):
        acts.append(Act(start + delay, _fall((row,))))
    for cable, delay in zip(cables, _delays(draw, len(cables)), strict=True):
        acts.append(Act(start + delay, _fall((), (cable,))))
    if end is not None:
        acts.append(Act(end, _rise(rows, draw.number(*TRAINING), cables)))
    return Course(tuple(acts), rows, cables=cables, ready=start)


def flap(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Links fall shortly, again and again; of a group each time other members, most of them."""
    acts, at, ready = [], start, start
    shown = draw.uniform(0.6, 1.0)
    for number in range(draw.number(*FLAPS)):
        rows = tuple(draw.some(place.rows, max(1, round(shown * len(place.rows))))) if place.rows else ()
        cables = tuple(draw.some(place.cables, max(1, round(shown * len(place.cables))))) if place.cables else ()
        lasts = draw.log(*BRIEF)
        for row, delay in zip(rows, _delays(draw, len(rows)), strict=True):
            acts += [Act(at + delay, _fall((row,))), Act(at + delay + lasts, _rise((row,), draw.number(*TRAINING)))]
        acts += [Act(at, _fall((), cables)), Act(at + lasts, _rise((), 0, cables))]
        ready = at if number == 2 else ready
        at += lasts + draw.log(*GAP)
    return Course(tuple(acts), place.rows, cables=place.cables, ready=ready)


def reboot(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Switches restart: all their links go down and come back, some fall once more."""
    back = start + draw.uniform(60.0, 240.0)
    again = tuple(draw.some(place.rows, round(draw.uniform(0.0, 0.5) * len(place.rows))))
    acts = [Act(start, _fall(place.rows, place.cables)), Act(back, _rise(place.rows, 20, place.cables))]
    acts += [Act(back + 8, _fall(again)), Act(back + 11, _rise(again, 5))]
    return Course(tuple(acts), place.rows, cables=place.cables, ready=start)


# --- errors, heat, width


def errors(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Errors after correction, each member at a ratio of its own, beginning within half a minute."""
    rows, cables = _part(draw, place.rows), _part(draw, place.cables)
    ratio, acts = draw.log(*RATIO), []
    for row in rows:
        mine = min(1e-7, ratio * draw.log(0.3, 3.0))
        acts.append(Act(start + draw.uniform(0, 30), _err(row, mine)))
    for cable in cables:
        mine = min(1e-7, ratio * draw.log(0.3, 3.0))
        acts.append(Act(start + draw.uniform(0, 30), _err_between(cable, mine)))
    return Course(tuple(acts), rows, cables=cables, ready=start)


def _err(row: int, ratio: float) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.links.ramp(np.array([row]), ratio, ratio, 0.0, scene.world.now)


def _err_between(cable: int, ratio: float) -> Callable[[PlayedFabric], None]:
    def do(scene: PlayedFabric) -> None:
        scene.transit.ratio[cable] = ratio

    return do


def heat(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Modules warm up together, and then have errors."""
    rows = tuple(row for row in place.rows if not layout.storage[row])
    warmer, span, ratio = draw.uniform(*WARMER), draw.uniform(*DRIFT), draw.log(*RATIO)

    def warm(scene: PlayedFabric) -> None:
        degrees = np.random.default_rng(len(rows)).normal(warmer, warmer / 12, len(rows))
        scene.world.optics.drift(np.array(rows), 0.0, degrees, span, scene.world.now)

    def err(scene: PlayedFabric) -> None:
        scene.world.links.ramp(np.array(rows), ratio / 1e3, ratio, span / 2, scene.world.now)

    return Course((Act(start, warm), Act(start + span / 2, err)), rows, ready=start + span)


def dim(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Dirt or a failing laser: less light, and errors."""
    decibels, span, ratio = draw.uniform(*DIMMER), draw.uniform(*DRIFT), draw.log(*RATIO)
    rows = np.array(place.rows)

    def fade(scene: PlayedFabric) -> None:
        scene.world.optics.drift(rows, decibels, 0.0, span, scene.world.now)
        scene.world.links.ramp(rows, ratio / 1e3, ratio, span, scene.world.now)

    return Course((Act(start, fade),), place.rows, ready=start + span)


def narrow(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """A link trains anew to fewer lanes or a lower rate."""
    width, share = draw.pick(((2, 0.5), (1, 0.25), (4, 0.5), (4, 0.25)))

    def reseat(scene: PlayedFabric) -> None:
        scene.world.hold_down(place.rows)
        rows = np.array(place.rows)
        scene.world.set_rate(rows, float(layout.rate[rows[0]]) * share, width)

    acts = (Act(start, reseat), Act(start + draw.uniform(1, 6), _rise(place.rows, draw.number(*TRAINING))))
    return Course(acts, place.rows, ready=start)


# --- adapters


def vanish(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Devices vanish from a running host; the kernel may log it."""
    rows, end = np.array(_part(draw, place.rows) if place.sort == "pcie_switch" else place.rows), _end(draw, start)
    logged = draw.chance(LOGGED)

    def gone(scene: PlayedFabric) -> None:
        scene.world.remove(rows)
        if logged:
            text = f"mlx5_core {layout.labels(int(rows[0]))['pci']}: PCI slot is unavailable"
            scene.world.emit(int(rows[0]), "mlx5_pci_gone", text)

    acts = [Act(start, gone)]
    if end is not None:
        acts.append(Act(end, lambda scene: scene.world.bring_back(rows)))
    return Course(tuple(acts), tuple(rows.tolist()), ready=start)


def ail(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """A device has errors of its own and loses packets; its link may fall."""
    loss, rate, falls, logged = draw.log(1e-3, 0.03), draw.log(0.05, 2.0), draw.chance(0.3), draw.chance(LOGGED)
    cause = f"ail {place.rows[0]}"

    def begin(scene: PlayedFabric) -> None:
        rows = np.array(place.rows)
        scene.world.lose(cause, ports=dict.fromkeys(place.rows, loss))
        scene.world.ailing.put(cause, rows, rate)
        if logged:
            text = f"mlx5_core {layout.labels(place.rows[0])['pci']}: health compromised - reached miss count"
            scene.world.emit(place.rows[0], "mlx5_health_lost", text)
        if falls:
            scene.world.hold_down(place.rows)

    return Course((Act(start, begin),), place.rows, ready=start)


def lossy(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Packets through a port are lost, and nothing else shows."""
    loss, cause = draw.log(*LOSS), f"lossy {place.rows[0]}"
    act = Act(start, lambda scene: scene.world.lose(cause, ports=dict.fromkeys(place.rows, loss)))
    return Course((act,), place.rows, ready=start)


def slow(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """An adapter reaches a share of its peers' rate."""
    share, cause, rows = draw.uniform(0.2, 0.7), f"slow {place.rows[0]}", np.array(place.rows)

    def do(scene: PlayedFabric) -> None:
        scene.world.speed.put(cause, rows, share)
        scene.world.arrives.put(cause, rows, share)

    return Course((Act(start, do),), place.rows, ready=start)


def pcie(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """The PCIe link of an adapter trains with fewer lanes or slower."""
    width, speed = draw.pick(((8, 32e9), (4, 32e9), (2, 16e9), (1, 32e9), (16, 8e9), (16, 2.5e9)))
    links = {int(layout.pcie_of[row]) for row in place.rows}

    def do(scene: PlayedFabric) -> None:
        for link in links:
            scene.world.train_pcie(link, width, speed)

    return Course((Act(start, do),), place.rows, ready=start)


def pause(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """The receive path of an adapter is slow or hangs: its switch is paused, and its senders after it."""
    share, end = draw.pick((0.02, 0.05, 0.15, 0.3)), _end(draw, start)
    causes = [(f"pause {row}", row) for row in place.rows]

    def do(scene: PlayedFabric) -> None:
        for cause, row in causes:
            scene.world.choke(cause, row, share)

    def undo(scene: PlayedFabric) -> None:
        for cause, _ in causes:
            scene.world.unchoke(cause)

    acts = [Act(start, do)] + ([Act(end, undo)] if end is not None else [])
    return Course(tuple(acts), place.rows, ready=start)


def incast(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Many ports send to one, for minutes."""
    row = place.rows[0]
    rail = layout.rail_rows(int(layout.rail[row])).tolist()
    mates = [mate for mate in rail if layout.host_of[mate] != layout.host_of[row]]
    senders = tuple(draw.some(mates, min(len(mates), round(draw.log(6, 64)))))
    rate = float(layout.rate[row]) * draw.uniform(2.0, 6.0) / max(1, len(senders))
    act = Act(start, lambda scene: scene.world.burst(f"incast {row}", Burst(senders, row, rate)))
    return Course((act,), place.rows[:1], ready=start)


def frozen(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """The counters of a busy device keep their values."""

    def do(scene: PlayedFabric) -> None:
        scene.world.ports.frozen[list(place.rows)] = True

    return Course((Act(start, do),), place.rows, ready=start)


# --- hosts and agents


def die(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Hosts stop for good."""
    acts = [
        Act(start + delay, _off(host))
        for host, delay in zip(place.hosts, _delays(draw, len(place.hosts)), strict=True)
    ]
    return Course(tuple(acts), place.rows, place.hosts, ready=start)


def _off(host: int) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.switch_off(host)


def _on(host: int) -> Callable[[PlayedFabric], None]:
    return lambda scene: scene.world.switch_on(host)


def restart(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Hosts reboot, unannounced."""
    died = die(draw, layout, place, start)
    acts = [
        Act(start + 10 + draw.uniform(*REBOOT), _on(host))
        for host in place.hosts
    ]
    return Course((*died.acts, *acts), place.rows, place.hosts, ready=start)


def mute(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """Agents do not answer while their hosts work: the network to them is cut."""
    hosts, end = np.array(place.hosts), _end(draw, start)
    acts = [Act(start, lambda scene: scene.world.hosts.stop_agents(hosts, False))]
    if end is not None:
        acts.append(Act(end, lambda scene: scene.world.hosts.start_agents(hosts, scene.world.now, anew=False)))
    return Course(tuple(acts), (), place.hosts, ready=start)


# --- switches and GPUs


def gray(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """A switch or cable loses packets without a counter of its own."""
    loss, pairs = draw.log(*LOSS), draw.pick((1.0, 1.0, 0.5, 0.2))
    cause = f"gray {place.switches} {place.cables[:1]}"

    def do(scene: PlayedFabric) -> None:
        cables = {scene.transit.cables[at]: loss for at in place.cables} if not place.switches else {}
        scene.world.lose(cause, tuple(Gray(switch, loss, pairs) for switch in place.switches), cables)

    return Course((Act(start, do),), place.rows, cables=place.cables, ready=start)


def crowd(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """The uplinks of a leaf are too few for its load: most of its ports wait."""
    rows = np.array(draw.some(place.rows, max(2, round(draw.uniform(0.5, 0.95) * len(place.rows)))))
    share = draw.uniform(0.25, 0.7)
    act = Act(start, lambda scene: scene.world.stall.put(f"crowd {rows[0]}", rows, share))
    return Course((act,), tuple(rows.tolist()), ready=start)


def nvlink(draw: Draw, layout: Layout, place: Place, start: float) -> Course:
    """NVLinks of some GPUs, the same number of each: errors, or inactive."""
    gpus, link = np.array(place.gpus), draw.number(0, layout.nvlinks - 1)
    rate, dead = draw.log(2, 300), draw.chance(0.5)

    def do(scene: PlayedFabric) -> None:
        inside = scene.world.inside
        if dead:
            inside.linked[gpus, link] = False
        inside.crc[gpus, link], inside.replays[gpus, link] = rate, rate / 10

    return Course((Act(start, do),), gpus=place.gpus, ready=start)


def stray_fall(rows: tuple[int, ...], at: float, lasts: float, errors: int) -> tuple[Act, ...]:
    """One short fall, as acts that are no fault."""
    return Act(at, _fall(rows)), Act(at + lasts, _rise(rows, errors))

