"""Faults of one link ("host-007/mlx5_3/1"): its cable, its module, its training. One function each. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.sim.layout import Layout
from fabricmon.sim.links import QUIET_BER
from fabricmon.sim.script import ExpectedIncident, InjectedFault, Step, lasting
from fabricmon.sim.world import World

TRAINING_ERRORS = (20, 60)
"""Symbol errors that one training leaves, from and to."""
GBPS = 1e9 / 8


def _train(world: World, row: int) -> None:
    """A link comes up: training leaves errors."""
    world.let_up((row,))
    errors = int(np.random.default_rng((world.seed, row, round(world.now), 0)).integers(*TRAINING_ERRORS))
    for column in ("symbol_errors", "eth_symbol_errors"):
        if column in world.ports.raw:
            world.count((row,), column, errors)


def link_down(layout: Layout, port: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """The link goes down and, after `lasts` seconds, comes up again; None: it stays down."""
    row = layout.port(port)
    name = layout.port_name(row)
    return lasting(
        "link down", start, lasts, (f"{name}: link down", lambda w: w.hold_down((row,))),
        (f"{name}: link is up again", lambda w: _train(w, row)), ExpectedIncident("link_down", f"link({name})"),
    )  # fmt: skip


def link_flap(
    layout: Layout, port: str, start: float = 0.0, downs: Sequence[float] = (0, 90, 150, 300, 420),
    down_for: float = 3.0,
) -> InjectedFault:
    """A link goes down for some seconds at each of `downs`, seconds after the start; each training leaves errors."""
    row = layout.port(port)
    name = layout.port_name(row)
    steps: list[Step] = []
    for number, after in enumerate(downs, 1):
        text = f"{name}: cable drops, {number} of {len(downs)}"
        steps.append(Step(start + after, text, lambda w: w.hold_down((row,))))
        steps.append(Step(start + after + down_for, "", lambda w: _train(w, row)))
    return InjectedFault("flapping cable", tuple(steps), (ExpectedIncident("link_flapping", f"link({name})"),))


def slow_flap(
    layout: Layout, port: str, start: float = 0.0, every: float = 6 * 3600.0, times: int = 12, down_for: float = 3.0
) -> InjectedFault:
    """One short down every few hours for days."""
    found = link_flap(layout, port, start, tuple(every * n for n in range(times)), down_for)
    return InjectedFault("slow flap", found.steps, found.expected)


def link_errors(
    layout: Layout, port: str, start: float = 0.0, ratio: float = 1e-10, repaired: float | None = None
) -> InjectedFault:
    """A link has errors after correction from one moment on."""
    return degrading_link(layout, port, start, 0.0, ratio, ratio, repaired)


def degrading_link(
    layout: Layout, port: str, start: float = 0.0, ramp: float = 6 * 3600.0, first: float = 1e-13,
    last: float = 1e-10, repaired: float | None = None,
) -> InjectedFault:
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
    return InjectedFault("degrading link", tuple(steps), (ExpectedIncident("link_errors", f"link({name})"),))


def dirty_optic(
    layout: Layout, port: str, start: float = 0.0, ramp: float = 6 * 3600.0, decibels: float = -8.0,
    degrees: float = 0.0, ratio: float = 1e-10,
) -> InjectedFault:
    """Dirt or an ageing laser: Rx power falls slowly, and errors rise with it; the module may heat up, too."""
    row = layout.port(port)
    name, rows = layout.port_name(row), np.array([row])
    worse = degrading_link(layout, port, start, ramp, 1e-15, ratio)

    def drift(world: World) -> None:
        world.optics.drift(rows, decibels, degrees, ramp, world.now)
        worse.steps[0].do(world)

    text = f"{name}: Rx power changes by {decibels:g} dB in {ramp:g} s, the error ratio rises to {ratio:.0e}"
    return InjectedFault("dirty optic", (Step(start, text, drift),), worse.expected)


def slow_link(layout: Layout, port: str, start: float = 0.0, gbps: float = 200.0, width: int = 4) -> InjectedFault:
    """After a reseat the link comes up at a lower rate, or with fewer lanes, without errors."""
    row = layout.port(port)
    name, rows = layout.port_name(row), np.array([row])

    def reseat(world: World) -> None:
        world.hold_down(rows)
        world.set_rate(rows, gbps * GBPS, width)

    text = f"{name}: reseated, trains to {gbps:g} Gb/s over {width} lanes"
    expected = ExpectedIncident("link_degraded", f"link({name})")
    return lasting("slow link", start, 2.0, (text, reseat), ("", lambda w: w.let_up(rows)), expected)


def narrow_link(layout: Layout, port: str, start: float = 0.0, width: int = 2) -> InjectedFault:
    """After a reseat the link comes up with some of its lanes, at their share of the rate."""
    gbps = float(layout.rate[layout.port(port)]) / GBPS * width / 4
    found = slow_link(layout, port, start, gbps, width)
    return InjectedFault("narrow link", found.steps, found.expected)
