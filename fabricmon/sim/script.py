"""A script: faults as timed steps on a world, and the expected incidents. Pure.

`expected` is the ground truth of a run: kinds and components of incidents of warning or higher; a benign event has
none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fabricmon.sim.world import World

Change = Callable[[World], None]


@dataclass(frozen=True)
class Step:
    """`do` changes the world at second `at` of the script; `text` is for the live log, "" for none."""

    at: float
    text: str
    do: Change


@dataclass(frozen=True)
class ExpectedIncident:
    """An expected incident. `component` as in Incident.component; of a link the first end is enough."""

    kind: str
    component: str

    def matches(self, kind: str, component: str) -> bool:
        return kind == self.kind and (
            component == self.component or component.startswith(self.component.removesuffix(")") + ",")
        )


@dataclass(frozen=True)
class InjectedFault:
    name: str
    steps: tuple[Step, ...]
    expected: tuple[ExpectedIncident, ...] = ()


def lasting(
    name: str, start: float, lasts: float | None, begin: tuple[str, Change], end: tuple[str, Change],
    *expected: ExpectedIncident,
) -> InjectedFault:
    """A fault that ends after `lasts` seconds; None: never. `begin`, `end`: text and change of a Step."""
    steps = [Step(start, *begin)]
    if lasts is not None:
        steps.append(Step(start + lasts, *end))
    return InjectedFault(name, tuple(steps), expected)


class Script:
    """Faults in the order of their steps, played into a world. `start`: the world's time of the script's second 0."""

    def __init__(self, faults: Iterable[InjectedFault], start: float = 0.0) -> None:
        self.faults, self.start = tuple(faults), start
        self._steps = sorted((step for fault in self.faults for step in fault.steps), key=lambda step: step.at)
        self._next = 0

    @property
    def expected(self) -> tuple[ExpectedIncident, ...]:
        return tuple(expected for fault in self.faults for expected in fault.expected)

    @property
    def ends(self) -> float:
        """Second of the last step, 0 without any."""
        return self._steps[-1].at if self._steps else 0.0

    def play(self, world: World, until: float) -> list[Step]:
        """Bring the world to its time `until` through all steps that are due; returns those that were taken."""
        taken = []
        while self._next < len(self._steps) and self.start + self._steps[self._next].at <= until:
            step = self._steps[self._next]
            world.advance(self.start + step.at)
            step.do(world)
            taken.append(step)
            self._next += 1
        world.advance(until)
        return taken
