"""A script: faults as timed steps on a world, and the incidents that must come of them. Pure.

`expected` is the ground truth a run is judged by: kinds and components of incidents of warning or higher, in the words
of the scenario catalogue; a benign event has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fabricmon.sim.world import World


@dataclass(frozen=True)
class Step:
    """`do` changes the world at second `at` of the script; `text` is for the live log, "" says nothing."""

    at: float
    text: str
    do: Callable[[World], None]


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


class Script:
    """Faults in the order of their steps, played into a world. `start`: the world's time of the script's second 0."""

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
