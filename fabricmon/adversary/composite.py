"""Composes one random scenario: a fabric, its load, faults, benign events, noise and map. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabricmon.adversary.classes import CLASSES, MOST_ROUTED, FaultClass
from fabricmon.adversary.draw import Draw
from fabricmon.adversary.fabrics import HOSTS, Fabric, draw_fabric
from fabricmon.adversary.maps import SiteMap, draw_map
from fabricmon.adversary.noise import LOOKALIKES, MANY, Noise, gaps, silence, strays
from fabricmon.adversary.phenomena import Course
from fabricmon.adversary.places import Place, Places
from fabricmon.adversary.scene import PlayedFabric
from fabricmon.sim.layout import Layout
from fabricmon.sim.traffic import TrafficJob, place

STRESSES = {"silent 5": 0.05, "silent 10": 0.1, "silent 20": 0.2, "stray": None, "filed": None, "no topology": None}
"""Stresses, and the share of silent agents where one sets it."""
FAULTS = {0: 2.0, 1: 4.0, 2: 2.5, 3: 1.0, 4: 0.5}
"""Number of true faults of a composite."""
BENIGN = {0: 4.0, 1: 4.0, 2: 2.0}
"""Number of benign events that look like faults."""
WARM = 300.0
"""Seconds before anything but noise."""
WITHIN = 240.0
"""Seconds within which faults begin; in a quarter of the composites within TOGETHER."""
TOGETHER = 20.0
AFTER = 90.0
"""Seconds that a composite goes on after the last limit."""
POLL = 10.0
PATTERNS = {"ring": 4.0, "tree": 2.0, "all_to_all": 3.0, "bursts": 1.0}
SWEPT = 0.5
"""Share of the InfiniBand fabrics that an agent sweeps."""
MOST_SWITCH_PORTS = 254
"""Ports of an InfiniBand switch at most: a port number has eight bits, 0 is the switch itself and 255 stands for all
(IBTA). No agent sweeps a drawn fabric with larger switches."""
NAMED_FLOWS, MOST_NAMED = 0.25, 1500
"""Share of the fabrics whose agents report flows, and the ports up to which they do."""


@dataclass(frozen=True)
class TrueFault:
    """One true fault. `start`: second of the composite at which its course begins."""

    number: int
    of: FaultClass
    place: Place
    course: Course
    start: float


@dataclass(frozen=True)
class Composite:
    """One random scenario.

    seed, number, stress   what it was made from
    jobs, steady, flows    load: jobs, mean share of the line rate elsewhere, whether agents report flows
    sweeper                host whose agent sweeps the switches, -1 for none
    unsteady               chances of a late, a repeated and a missed frame
    offsets                moment of each quarter of the hosts within a poll, seconds
    scheduler              the server is given the jobs
    end                    seconds
    """

    seed: int
    number: int
    stress: str
    fabric: Fabric
    jobs: tuple[TrafficJob, ...]
    steady: float
    flows: bool
    faults: tuple[TrueFault, ...]
    noise: Noise
    map: SiteMap
    sweeper: int
    unsteady: tuple[float, float, float]
    offsets: tuple[float, ...]
    scheduler: bool
    end: float

    def scene(self) -> PlayedFabric:
        """The scene at second 0."""
        return PlayedFabric.of(self.fabric, self.number, POLL, self.steady, self.jobs, self.flows)


def compose(seed: int, number: int, stress: str = "", most: int = HOSTS[1]) -> Composite:
    """Composite `number` of a seed, always the same. `most`: hosts at most. ValueError for an unknown stress."""
    if stress and stress not in STRESSES:
        raise ValueError(f"a stress is one of {', '.join(STRESSES)}, got {stress!r}")
    draw = Draw(seed, number)
    fabric = draw_fabric(draw.of("fabric"), most)
    load = draw.of("load")
    jobs, steady, started = _load(load, fabric)
    by_sweep = fabric.layout.link_layer == "InfiniBand" and stress not in ("filed", "no topology")
    ports = max((end.port for cable in fabric.layout.graph.cables for end in (cable.a, cable.b)), default=0)
    swept = by_sweep and ports <= MOST_SWITCH_PORTS and draw.chance(SWEPT)
    scene = PlayedFabric.of(fabric, number, POLL, steady, (), False)
    places = Places(fabric, scene.transit)
    loaded = None if steady else {host for job in jobs for host in job.hosts}
    faults = _faults(draw.of("faults"), places, swept, loaded)
    noise = Noise()
    _benign(draw.of("benign"), places, noise)
    noise.lookalikes += ["job start"] * started
    end = max([WARM + 240.0, *(fault.course.ready + fault.of.limit + AFTER for fault in faults)])
    strays(draw.of("strays"), fabric, noise, end, MANY if stress == "stray" else 1.0)
    silence(draw.of("silence"), fabric, noise, end, STRESSES.get(stress))
    gaps(draw.of("gaps"), fabric, noise)
    how = draw.of("delivery")
    return Composite(
        seed, number, stress, fabric, jobs, steady,
        fabric.layout.ports <= MOST_NAMED and fabric.layout.link_layer != "EFA" and load.chance(NAMED_FLOWS),
        faults, noise, draw_map(draw.of("map"), fabric, stress, swept),
        draw.number(0, len(fabric.layout.hosts) - 1) if swept else -1,
        (how.log(1e-4, 0.03), how.log(1e-4, 0.03), how.log(1e-4, 0.03)) if how.chance(0.5) else (0.0, 0.0, 0.0),
        _offsets(how, fabric), load.chance(0.5), end,
    )  # fmt: skip


def _offsets(draw: Draw, fabric: Fabric) -> tuple[float, ...]:
    """Four moments in a poll; two but on small fabrics."""
    count = 4 if fabric.layout.ports <= 600 else 2
    return tuple(POLL / count * (at + (draw.uniform(0.0, 0.6) if at else 0.0)) for at in range(count))


def _load(draw: Draw, fabric: Fabric) -> tuple[tuple[TrafficJob, ...], float, int]:
    """Jobs, the load of the other ports, and how many jobs start during the composite."""
    hosts = len(fabric.layout.hosts)
    left, sizes = hosts, []
    for _ in range(draw.weighted({0: 2.0, 1: 3.0, 2: 3.0, 4: 2.0, 8: 1.0})):
        size = min(left, max(2, round(draw.log(0.05, 0.8) * hosts)))
        if size >= 2:
            sizes.append(size)
            left -= size
    jobs = []
    for number, names in enumerate(place(fabric.layout, sizes, draw.number(0, 2**31))):
        late = draw.chance(0.2)
        jobs.append(
            TrafficJob(
                f"job-{number}",
                names,
                draw.weighted(PATTERNS),
                scale=draw.uniform(0.5, 1.1),
                starts=WARM + draw.uniform(0, 300) if late else -draw.uniform(0, 5000),
                checkpoint_every=draw.uniform(200, 900) if draw.chance(0.3) else 0.0,
                checkpoint_lasts=draw.uniform(10, 60),
                peers=draw.number(1, 4),
                together=draw.chance(0.4),
            )
        )
    steady = 0.0 if draw.chance(0.4) else draw.uniform(0.05, 0.7)
    return tuple(jobs), steady, sum(job.starts > 0 for job in jobs)


def _faults(draw: Draw, places: Places, swept: bool, loaded: set[str] | None) -> tuple[TrueFault, ...]:
    """`loaded`: names of the hosts with traffic, None for all."""
    count = draw.weighted(FAULTS)
    within = TOGETHER if draw.chance(0.25) else WITHIN
    layout, found = places.fabric.layout, list[TrueFault]()
    possible = {
        one: one.weight for one in CLASSES
        if layout.link_layer in one.layers and (swept or not one.swept)
        and (layout.ports <= MOST_ROUTED or not one.small)
    }  # fmt: skip
    for _ in range(40 * count):
        if len(found) == count:
            break
        of = draw.weighted(possible)
        if of.spread and any(other.of.spread for other in found):
            continue
        at = places.draw(of.place, draw)
        if at is None or (of.busy and loaded is not None and not _carries(layout, at, loaded)):
            continue
        start = WARM + draw.uniform(0, within)
        course = of.how(draw, layout, at, start)
        number = len(found)
        acts = tuple(replace(act, fault=number) for act in course.acts)
        found.append(TrueFault(number, of, at, replace(course, acts=acts), start))
    return tuple(found)


def _carries(layout: Layout, place: Place, loaded: set[str]) -> bool:
    """Whether any host at the place has traffic; of a place between switches, whether any has."""
    return any(layout.hosts[layout.host_of[row]] in loaded for row in place.rows) or (not place.rows and bool(loaded))


def _benign(draw: Draw, places: Places, noise: Noise) -> None:
    for _ in range(draw.weighted(BENIGN)):
        name = draw.pick(sorted(LOOKALIKES))
        if LOOKALIKES[name](draw, places.fabric, places, noise, WARM + draw.uniform(-60, 300)):
            noise.lookalikes.append(name)


