"""The state of a cluster over time: a table of values a kind of part, the cables' states, and what is yet to happen."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.stories.infiniband.columns import NODE, OF_GPUS, OF_PORTS, PCIE
from tests.stories.infiniband.parts import Action, Host, HostPort, Job, Rate, SwitchPort
from tests.stories.infiniband.plant import Plant

STEP = 1.25
"""Seconds of one step."""
DOWN, INIT, ACTIVE = 1, 2, 4
"""States of a port, of IB_PORT_STATE."""
POLLING, LINK_UP = 2, 5
"""Physical states of a port."""
NAN = math.nan

Values = NDArray[np.float64]
Rows = Any
"""What selects rows of a table: a row, rows, a mask or a slice."""


class Table:
    """Values of the parts of one kind: `table[column]` are those of all rows, a view into the world's values."""

    def __init__(self, values: Values, first: int, columns: tuple[str, ...], rows: int) -> None:
        self.first = {column: first + number * rows for number, column in enumerate(columns)}
        self._views = {column: values[start : start + rows] for column, start in self.first.items()}

    def __getitem__(self, column: str) -> Values:
        return self._views[column]


class World:
    """A plant in operation. Seconds count from the beginning of the story.

    crossing  share of the hosts' traffic that crosses the uplinks of their leaves
    optics    whether modules report temperature and light; copper cables do not
    """

    usual_temperature: Values  # of modules, Celsius
    usual_light: Values  # watts, lane by lane
    stray_timeouts: Values  # per second, as are the two below: small habits of some healthy ports
    stray_symbol_errors: Values
    stray_out_of_buffer: Values
    use: Values  # share of its rate that each port sent at in the last step
    turn: NDArray[np.int64]  # by host: in which step of four its agent sends all values
    clock: Values  # by host: its monotonic clock at the beginning, seconds

    def __init__(self, plant: Plant, seed: int, crossing: float, optics: bool = True) -> None:
        self.plant, self.crossing, self.optics = plant, crossing, optics
        self.rng = np.random.default_rng(seed)
        self.now = 0.0
        self.hosts = plant.hosts
        self._named = {host.name: host for host in plant.hosts}
        self.jobs: list[Job] = []
        self.effects: list[Callable[[float], None]] = []  # called with the second before each step
        self._actions: list[tuple[float, Action]] = []
        self._shape()
        self._make_tables()
        self._modifiers()

    def _shape(self) -> None:
        ports = self.plant.ports
        self.size = len(ports)
        self.rate = np.array([port.rate for port in ports])
        self.peer = np.array([self.plant.peer[row] for row in range(self.size)])
        self.adapters = np.array([port.row for port in ports if isinstance(port, HostPort)])
        self.of_leaf: dict[str, list[int]] = {}  # leaf -> rows of the host ports cabled to it
        for port in ports:
            if isinstance(port, HostPort):
                self.of_leaf.setdefault(port.leaf, []).append(port.row)
        self.uplinks = {
            name: [row for row in switch.ports if self._level_across(row) > switch.level]
            for name, switch in self.plant.switches.items()
        }

    def _level_across(self, row: int) -> int:
        """Level of the switch at the other end; -1 where that is a host."""
        other = self.plant.ports[self.peer[row]]
        return other.switch.level if isinstance(other, SwitchPort) else -1

    def _make_tables(self) -> None:
        plant = self.plant
        shapes = [
            (OF_PORTS, self.size),
            (OF_GPUS, len(plant.gpus)),
            (PCIE, len(plant.pcie_speeds)),
            (NODE, len(plant.hosts)),
        ]
        self.values = np.zeros(sum(len(columns) * rows for columns, rows in shapes))
        first, tables = 0, []
        for columns, rows in shapes:
            tables.append(Table(self.values, first, columns, rows))
            first += len(columns) * rows
        self.port, self.gpu, self.function, self.node = tables

    def _modifiers(self) -> None:
        """What faults change, a value a port."""
        self.capacity = np.ones(self.size)  # share of the rate that an adapter can send at
        self.frozen = np.zeros(self.size, bool)  # its counters do not move
        self.waiting = np.zeros(self.size)  # additional share of time without credits while it sends
        self.heat = np.zeros(self.size)  # kelvin
        self.light = np.ones(self.size)  # share of the usual light that is received
        self.rates: dict[tuple[str, int], Callable[[float], float]] = {}  # (counter, row) -> counts per second
        self._fractions: dict[str, Values] = {}

    def at(self, second: float, action: Action) -> None:
        insort(self._actions, (second, action), key=lambda one: one[0])

    def change(self, second: float, values: NDArray[Any], rows: Rows, value: float) -> None:
        """At that second these values become that."""

        def change_now() -> None:
            values[rows] = value

        self.at(second, change_now)

    def act(self) -> None:
        """Do what is due."""
        while self._actions and self._actions[0][0] <= self.now:
            self._actions.pop(0)[1]()
        for effect in self.effects:
            effect(self.now)

    def host(self, name: str) -> Host:
        return self._named[name]

    def row(self, host: str, adapter: int) -> int:
        """Row of the port of that adapter."""
        return self._named[host].ports[adapter]

    def rows_of(self, hosts: Iterable[Host]) -> list[int]:
        return [row for host in hosts for row in host.ports]

    # Counters

    def add(self, counter: str, rows: Rows, amount: Any) -> None:
        """Count that much; fractions are kept until they are whole."""
        self._fractions.setdefault(counter, np.zeros(self.size))[rows] += amount

    def whole(self) -> Iterable[tuple[str, Values]]:
        """Counter -> whole counts since the last call, by row."""
        for counter, kept in self._fractions.items():
            counts = np.floor(kept)
            kept -= counts
            yield counter, counts

    def count(self, counter: str, row: int, rate: Rate, begin: float = 0.0, end: float = math.inf) -> None:
        """Between these seconds the counter of that port grows at that rate, at random (Poisson), besides its usual."""

        def rate_at(second: float) -> float:
            if not begin <= second < end:
                return 0.0
            return rate(second) if callable(rate) else rate

        self.rates[counter, row] = rate_at

    # Cables

    def take_down(self, row: int) -> None:
        """The cable of this port loses its signal: both ends go down and count it."""
        self.end_down(row)
        self.end_down(int(self.peer[row]))

    def end_down(self, row: int, counted: bool = True) -> None:
        port = self.port
        if counted and port["state"][row] != DOWN:
            port["link_downed"][row] = min(255, port["link_downed"][row] + 1)
        port["state"][row], port["phys_state"][row] = DOWN, POLLING
        port["rate"][row] = port["width"][row] = NAN

    def bring_up(self, row: int, rate: float | None = None, width: int | None = None) -> None:
        """Both ends of the cable become active, at that rate in bytes per second and width where not their own."""
        for end in (row, int(self.peer[row])):
            self.end_up(end, rate, width)

    def end_up(self, row: int, rate: float | None = None, width: int | None = None) -> None:
        part = self.plant.ports[row]
        self.port["state"][row], self.port["phys_state"][row] = ACTIVE, LINK_UP
        self.port["rate"][row] = rate or part.rate
        self.port["width"][row] = width or part.width
