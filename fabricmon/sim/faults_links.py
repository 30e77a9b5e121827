"""Faults of one link: its cable, its module, its training. One function each. Pure.

All take the layout, the port by its name ("host-007/mlx5_3/1"), and the second of the script at which they begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.sim.layout import Layout
from fabricmon.sim.links import QUIET_BER
from fabricmon.sim.script import Expected, Fault, Step
from fabricmon.sim.world import World

TRAINING_ERRORS = (20, 60)
"""Symbol errors that one training leaves, from and to."""
GBPS = 1e9 / 8


def trained(world: World, row: int, seed: int = 0) -> None:
    """A link comes up: training leaves errors."""
    errors = int(np.random.default_rng((world.seed, row, round(world.now), seed)).integers(*TRAINING_ERRORS))
    for column in ("symbol_errors", "eth_symbol_errors"):
        if column in world.ports.raw:
            world.count((row,), column, errors)


def link_down(layout: Layout, port: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """The link goes down and, after `lasts` seconds, comes up again; None: it stays down."""
    row = layout.port(port)
    name = layout.port_name(row)
    steps = [Step(start, f"{name}: link down", lambda w: w.hold_down((row,)))]
    if lasts is not None:
        steps.append(_up(row, start + lasts, f"{name}: link is up again"))
    return Fault("link down", tuple(steps), (Expected("link_down", f"link({name})"),))


def link_flap(
    layout: Layout, port: str, start: float = 0.0, downs: Sequence[float] = (0, 90, 150, 300, 420),
    down_for: float = 3.0,
) -> Fault:
    """A link goes down for some seconds at each of `downs`, seconds after the start; each training leaves errors."""
    row = layout.port(port)
    name = layout.port_name(row)
    steps: list[Step] = []
    for number, after in enumerate(downs, 1):
        text = f"{name}: cable drops, {number} of {len(downs)}"
        steps.append(Step(start + after, text, lambda w: w.hold_down((row,))))
        steps.append(_up(row, start + after + down_for, ""))
    return Fault("flapping cable", tuple(steps), (Expected("link_flapping", f"link({name})"),))


def slow_flap(
    layout: Layout, port: str, start: float = 0.0, every: float = 6 * 3600.0, times: int = 12, down_for: float = 3.0
) -> Fault:
    """One short down every few hours for days."""
    found = link_flap(layout, port, start, tuple(every * n for n in range(times)), down_for)
    return Fault("slow flap", found.steps, found.expected)


def link_errors(
    layout: Layout, port: str, start: float = 0.0, ratio: float = 1e-10, repaired: float | None = None
) -> Fault:
    """A link has errors after correction from one moment on."""
    return degrading_link(layout, port, start, 0.0, ratio, ratio, repaired)


def degrading_link(
    layout: Layout, port: str, start: float = 0.0, ramp: float = 6 * 3600.0, first: float = 1e-13,
    last: float = 1e-10, repaired: float | None = None,
) -> Fault:
    """The error ratio after correction rises log-linearly in `ramp` seconds; after `repaired` seconds the cable is new.

    The repair takes the link down once and ends with cleared counters, as operators do it.
    """
    row = layout.port(port)
    name, rows = layout.port_name(row), np.array([row])
    text = f"{name}: error ratio rises from {first:.0e} to {last:.0e} in {ramp:g} s"
    steps = [Step(start, text, lambda w: w.links.ramp(rows, first, last, ramp, w.now))]
    if repaired is not None:

        def unplug(world: World) -> None:
            world.hold_down(rows)
            world.links.ramp(rows, QUIET_BER, QUIET_BER, 0, world.now)

        def plug(world: World) -> None:
            world.let_up(rows)
            world.ports.clear(rows)

        steps.append(Step(start + repaired, f"{name}: the cable is replaced", unplug))
        steps.append(Step(start + repaired + 3, "", plug))
    return Fault("degrading link", tuple(steps), (Expected("link_errors", f"link({name})"),))


def dirty_optic(
    layout: Layout, port: str, start: float = 0.0, ramp: float = 6 * 3600.0, decibels: float = -8.0,
    degrees: float = 0.0, ratio: float = 1e-10,
) -> Fault:
    """Dirt or a tired laser: less light arrives by and by, and errors come as the margin goes; it may heat up, too."""
    row = layout.port(port)
    name, rows = layout.port_name(row), np.array([row])
    worse = degrading_link(layout, port, start, ramp, 1e-15, ratio)

    def drift(world: World) -> None:
        world.optics.drift(rows, decibels, degrees, ramp, world.now)
        worse.steps[0].do(world)

    text = f"{name}: light changes by {decibels:g} dB in {ramp:g} s, the error ratio rises to {ratio:.0e}"
    return Fault("dirty optic", (Step(start, text, drift),), worse.expected)


def slow_link(layout: Layout, port: str, start: float = 0.0, gbps: float = 200.0, width: int = 4) -> Fault:
    """After a reseat the link comes up at a lower rate, or with fewer lanes, without errors."""
    row = layout.port(port)
    name, rows = layout.port_name(row), np.array([row])

    def reseat(world: World) -> None:
        world.hold_down(rows)
        world.set_rate(rows, gbps * GBPS, width)

    return Fault(
        "slow link",
        (
            Step(start, f"{name}: reseated, trains to {gbps:g} Gb/s over {width} lanes", reseat),
            Step(start + 2, "", lambda w: w.let_up(rows)),
        ),
        (Expected("link_degraded", f"link({name})"),),
    )


def narrow_link(layout: Layout, port: str, start: float = 0.0, width: int = 2) -> Fault:
    """After a reseat the link comes up with some of its lanes, at their share of the rate."""
    gbps = float(layout.rate[layout.port(port)]) / GBPS * width / 4
    found = slow_link(layout, port, start, gbps, width)
    return Fault("narrow link", found.steps, found.expected)


def _up(row: int, at: float, text: str) -> Step:
    def up(world: World) -> None:
        world.let_up((row,))
        trained(world, row)

    return Step(at, text, up)
