"""Faults to simulate: one function each, from a place and a time to the steps that make it and what must come of it.

Pure: a step changes a Plant when its time has come. `expected` is the ground truth a run is judged by: the kinds and
components of incidents of warning or higher, in the words of the scenario catalogue; none for a benign event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fabricmon.sim.fabric import Fabric
from fabricmon.sim.plant import QUIET_BER, Plant


@dataclass(frozen=True)
class Step:
    """`do` changes the plant at second `at` of the script; `text` is for the live log, "" says nothing."""

    at: float
    text: str
    do: Callable[[Plant], None]


@dataclass(frozen=True)
class Expected:
    """An incident that must come. `component` as in Incident.component; of a link the first end is enough."""

    kind: str
    component: str

    def matches(self, kind: str, component: str) -> bool:
        return kind == self.kind and (
            component == self.component or component.startswith(self.component.removesuffix(")") + ",")
        )


@dataclass(frozen=True)
class Fault:
    name: str
    steps: tuple[Step, ...]
    expected: tuple[Expected, ...] = ()


def flapping_cable(
    fabric: Fabric, row: int, start: float, downs: Sequence[float] = (0, 90, 150, 300, 420), down_for: float = 3.0
) -> Fault:
    """Scenario S01: a link goes down for some seconds again and again; each training leaves symbol errors."""
    name = fabric.port_name(row)
    steps: list[Step] = []

    def up(plant: Plant) -> None:
        plant.let_up((row,))
        plant.add(row, "symbol_errors", 37)

    for number, after in enumerate(downs, 1):
        text = f"{name}: cable drops, {number} of {len(downs)}"
        steps.append(Step(start + after, text, lambda p: p.hold_down((row,))))
        steps.append(Step(start + after + down_for, "", up))
    return Fault("flapping cable", tuple(steps), (Expected("link_flapping", f"link({name})"),))


def leaf_down(fabric: Fabric, leaf: int, start: float, lasts: float | None = None) -> Fault:
    """Scenario S03: a leaf loses power and all links of its rail in its unit are down; `lasts` None: for good."""
    rows, name = fabric.leaf_rows(leaf), fabric.leaf_name(leaf)
    steps = [Step(start, f"leaf {name}: loses power, {len(rows)} links", lambda p: p.hold_down(rows))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"leaf {name}: power is back", lambda p: p.let_up(rows)))
    return Fault("dead leaf", tuple(steps), (Expected("fault_domain", f"leaf({name})"),))


def degrading_link(
    fabric: Fabric, row: int, start: float, ramp: float, first: float = 1e-13, last: float = 1e-10,
    repaired: float | None = None,
) -> Fault:
    """Scenario S13: the error ratio after correction rises log-linearly; `repaired` seconds later a new cable is in.

    The repair takes the link down once and ends with cleared counters, as operators do it.
    """
    name = fabric.port_name(row)
    text = f"{name}: error ratio rises from {first:.0e} to {last:.0e} in {ramp:g} s"
    steps = [Step(start, text, lambda p: p.set_ber(row, first, last, ramp))]
    if repaired is not None:

        def unplug(plant: Plant) -> None:
            plant.hold_down((row,))
            plant.set_ber(row, QUIET_BER, QUIET_BER, 0)

        def plug(plant: Plant) -> None:
            plant.let_up((row,))
            plant.clear_counters((row,))

        steps.append(Step(start + repaired, f"{name}: the cable is replaced", unplug))
        steps.append(Step(start + repaired + 3, "", plug))
    return Fault("degrading link", tuple(steps), (Expected("link_errors", f"link({name})"),))


def node_reboot(fabric: Fabric, host: int, start: float, lasts: float = 360.0) -> Fault:
    """Scenario S21: benign. The agent is silent, both ends of its links drop, counters and clock start anew."""
    name = fabric.hosts[host]
    return Fault(
        "node reboot (benign)",
        (
            Step(start, f"{name}: reboots", lambda p: p.switch_off(host)),
            Step(start + lasts, f"{name}: is back", lambda p: p.switch_on(host)),
        ),
    )


def slow_link(fabric: Fabric, row: int, start: float, rate: float) -> Fault:
    """Scenario S15: after a reseat the link comes up at a lower rate, without errors."""
    name = fabric.port_name(row)

    def reseat(plant: Plant) -> None:
        plant.hold_down((row,))
        plant.set_rate(row, rate)

    return Fault(
        "slow link",
        (
            Step(start, f"{name}: reseated, trains to {rate * 8 / 1e9:g} Gb/s", reseat),
            Step(start + 2, "", lambda p: p.let_up((row,))),
        ),
        (Expected("link_degraded", f"link({name})"),),
    )


def power_loss(fabric: Fabric, domain: int, start: float, lasts: float | None = None) -> Fault:
    """Scenario S11: all hosts of a power domain go at once."""
    first = domain * fabric.shape.power
    hosts = range(first, min(first + fabric.shape.power, fabric.shape.nodes))

    def off(plant: Plant) -> None:
        for host in hosts:
            plant.switch_off(host)

    def on(plant: Plant) -> None:
        for host in hosts:
            plant.switch_on(host)

    steps = [Step(start, f"power-{domain}: {len(hosts)} hosts lose power", off)]
    if lasts is not None:
        steps.append(Step(start + lasts, f"power-{domain}: is back", on))
    return Fault("power loss", tuple(steps), (Expected("fault_domain", f"power(power-{domain})"),))


class Script:
    """Faults in the order of their steps, played into a plant. `start` is the plant's time of the script's second 0."""

    def __init__(self, faults: Iterable[Fault], start: float = 0.0) -> None:
        self.faults, self.start = tuple(faults), start
        self._steps = sorted((step for fault in self.faults for step in fault.steps), key=lambda step: step.at)
        self._next = 0

    @property
    def expected(self) -> tuple[Expected, ...]:
        return tuple(expected for fault in self.faults for expected in fault.expected)

    @property
    def ends(self) -> float:
        """Second of the last step, 0 without any."""
        return self._steps[-1].at if self._steps else 0.0

    def play(self, plant: Plant, until: float) -> list[Step]:
        """Bring the plant to its time `until` through all steps that are due; returns those that were taken."""
        taken = []
        while self._next < len(self._steps) and self.start + self._steps[self._next].at <= until:
            step = self._steps[self._next]
            plant.advance(self.start + step.at)
            step.do(plant)
            taken.append(step)
            self._next += 1
        plant.advance(until)
        return taken
