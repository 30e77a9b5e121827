"""A small rail-optimised fabric in simulated time: frames made of model objects, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Incident, Inventory, Kind, Part, Presence
from fabricmon.rules.rule import Scope
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.infer import annotate

START = 1_800_000_000.0
RATE = 50e9
STATE = ("state", "phys_state", "link_downed")
SLOW = ("rate", "symbol_errors", "rcv_errors")


class World:
    """`units` x `hosts` hosts with `rails` adapters, a leaf per unit and rail; 4 hosts of a unit share a power domain.

    period   seconds between two reads of the link state
    layer    link layer of all ports
    phase    host number -> seconds by which its reads are late
    fails    a step of the evaluation may raise
    """

    def __init__(
        self, units: int = 1, hosts: int = 8, rails: int = 4, *, topology: bool = True, period: float = 1.0,
        rack: int = 4, params: dict[str, object] | None = None, engine: Engine | None = None, layer: str = "InfiniBand",
    ) -> None:
        self.period, self.rails, self.layer = period, rails, layer
        self.now, self.fails = START, False
        self.hosts = [f"host-{n:03d}" for n in range(units * hosts)]
        self.unit = {host: n // hosts for n, host in enumerate(self.hosts)}
        self.graph = self._graph(units, rack) if topology else None
        self.params = params or {}
        self.engine = engine or Engine(Scope.FLEET, self.graph, self.params, "test")
        self.down: set[tuple[str, int]] = set()
        self.half: set[tuple[str, int]] = set()
        self.gone: set[tuple[str, int]] = set()
        self.removed: dict[str, str] = {}
        self.downs: dict[tuple[str, int], int] = {}
        self.errors: dict[tuple[str, int], float] = {}
        self.silent: set[str] = set()
        self.hosts_left: set[str] = set()
        self.boots: dict[str, int] = {}
        self.changed: list[Incident] = []
        self._inventory: dict[str, int] = {}
        self._next: dict[str, float] = {}
        for host in self.hosts:
            self._tell_inventory(host)
        self.run(3 * period + 1)

    def _graph(self, units: int, rack: int) -> Graph:
        switches, adapters, cables = {}, {}, []
        for unit in range(units):
            for rail in range(self.rails):
                id = f"0x{0xAA00 + unit * 64 + rail:016x}"
                switches[id] = Switch(id, f"leaf-{unit}-{rail}", 0, ports=64)
        for n, host in enumerate(self.hosts):
            for rail in range(self.rails):
                id = f"0x{0xBB0000 + n * 64 + rail:016x}"
                adapters[id] = Adapter(id, host, f"mlx5_{rail}")
                leaf = f"0x{0xAA00 + self.unit[host] * 64 + rail:016x}"
                cables.append(cable(End(id, 1), End(leaf, n % 64 + 1), RATE, 4))
        power = {host: {"power": f"rack-{n // rack}"} for n, host in enumerate(self.hosts)}
        return annotate(Graph(switches, adapters, tuple(cables), power, "test"))

    def ports(self, hosts: Iterable[str] | None = None, rail: int | None = None) -> set[tuple[str, int]]:
        rails = range(self.rails) if rail is None else (rail,)
        return {(host, r) for host in (self.hosts if hosts is None else hosts) for r in rails}

    def break_links(self, ports: Iterable[tuple[str, int]]) -> None:
        for port in ports:
            if port not in self.down:
                self.down.add(port)
                self.downs[port] = self.downs.get(port, 0) + 1

    def mend(self, ports: Iterable[tuple[str, int]]) -> None:
        self.down -= set(ports)

    def flap(self, port: tuple[str, int], seconds: float = 3.0) -> None:
        self.break_links([port])
        self.run(seconds)
        self.mend([port])

    def lose(self, host: str, rail: int) -> None:
        self.gone.add((host, rail))
        self._tell_inventory(host)

    def remove(self, host: str, rail: int) -> None:
        """The adapter is taken out, and the agent's configuration says so."""
        self.removed[host] = f"mlx5_{rail}"
        self.lose(host, rail)

    def leave(self, host: str) -> None:
        """No target leads to the host any more."""
        self.hosts_left.add(host)
        self.silent.add(host)
        self.engine.forget(host, self.now)

    def reboot(self, host: str) -> None:
        """The host is back with another boot id; its counters begin at 0."""
        self.boots[host] = self.boots.get(host, 0) + 1
        for rail in range(self.rails):
            self.downs.pop((host, rail), None)
        self.silent.discard(host)
        self._tell_inventory(host)

    def silence(self, hosts: Iterable[str], presence: Presence = Presence.UNREACHABLE) -> None:
        for host in hosts:
            self.silent.add(host)
            self.engine.presence(host, presence, "timed out", self.now)

    def speak(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self.silent.discard(host)
            self.engine.presence(host, Presence.LIVE, "", self.now)

    def restart(self, forgets: bool = False) -> None:
        """The central server is killed and started: only its incidents survive, or nothing."""
        kept = [] if forgets else self.engine.incidents()
        self.engine = Engine(Scope.FLEET, self.graph, self.params, "test")
        self.engine.restore(kept, self.now)
        for host in self.hosts:
            if host not in self.silent:
                self._tell_inventory(host)
            elif host not in self.hosts_left:
                self.engine.presence(host, Presence.UNREACHABLE, "timed out", self.now)

    def days(self, count: float) -> None:
        """Let days pass, with a tick now and then."""
        end = self.now + count * 86_400.0
        while self.now < end:
            self.run(20, step=10.0)
            self.now += 21_600.0
        self.run(20)

    def run(self, seconds: float, step: float = 1.0, check: Callable[[], bool] | None = None) -> float:
        """Let time pass; returns how long it took until `check` held, or the seconds."""
        began = self.now
        while self.now < began + seconds - 1e-9:
            self.now += step
            for n, host in enumerate(self.hosts):
                due = self._next.setdefault(host, self.now + (n * 0.37) % self.period)
                if host not in self.silent and self.now >= due:
                    self._next[host] = self.now + self.period
                    self._tell_frame(host)
                elif host not in self.silent and self.period > 1.0:
                    self._beat(host)
            self.changed.extend(self.engine.tick(self.now).incidents)
            assert self.fails or not self.engine.failures(), self.engine.failures()
            if check is not None and check():
                return self.now - began
        return seconds

    def _tell_inventory(self, host: str) -> None:
        self._inventory[host] = self._inventory.get(host, 0) + 1
        n = self.hosts.index(host)
        parts = tuple(
            Component(
                f"mlx5_{rail}/1",
                {
                    "device": f"mlx5_{rail}",
                    "port": "1",
                    "link_layer": self.layer,
                    "role": "compute",
                    "node_guid": f"0000:0000:{(0xBB0000 + n * 64 + rail) >> 16:04x}:"
                    f"{(0xBB0000 + n * 64 + rail) & 0xFFFF:04x}",
                },
            )
            for rail in range(self.rails)
            if (host, rail) not in self.gone
        )
        identity = Identity(host, f"boot-{self.boots.get(host, 0)}", f"agent-{host}", "1.0", START)
        removed = {"removed": self.removed[host]} if host in self.removed else {}
        inventory = Inventory(
            self._inventory[host],
            identity,
            (
                Part("inventory", Kind.NODE, (), (Component("", removed),), self.period),
                Part("infiniband_state", Kind.PORT, STATE, parts, self.period),
                Part("infiniband", Kind.PORT, SLOW, parts, self.period),
            ),
        )
        self.engine.inventory(host, inventory, self.now)
        self.engine.presence(host, Presence.LIVE, "", self.now)
        self._tell_frame(host)

    def _tell_frame(self, host: str) -> None:
        self._taken = getattr(self, "_taken", {})
        rails = [rail for rail in range(self.rails) if (host, rail) not in self.gone]
        values: list[float] = []
        for rail in rails:
            up = (host, rail) not in self.down
            values += [4.0 if up else 1.0, 5.0 if up else 2.0, float(self.downs.get((host, rail), 0))]
        for rail in rails:
            rate = RATE / 2 if (host, rail) in self.half else RATE
            up = (host, rail) not in self.down
            values += [rate if up else np.nan, float(self.errors.get((host, rail), 0.0)), 0.0]
        taken = self.now - START + 1000.0
        self._taken[host] = (taken, values)
        frame = Frame(self._inventory[host], 1, self.now, np.full(3, taken), None, np.array(values))
        assert self.engine.frame(host, frame, self.now)

    def _beat(self, host: str) -> None:
        taken, values = self._taken[host]
        frame = Frame(self._inventory[host], 1, self.now, np.full(3, taken), None, np.array(values))
        self.engine.frame(host, frame, self.now)

    # --- what came out

    def firing(self, least: str = "warning") -> list[Incident]:
        ranks = ("info", "warning", "critical")
        return [
            i
            for i in self.engine.incidents()
            if i.status == "firing" and i.severity.rank >= ranks.index(least)
        ]

    def kinds(self, least: str = "warning") -> list[tuple[str, str]]:
        return sorted((i.kind, i.component) for i in self.firing(least))

    def told(self, least: str = "warning") -> set[tuple[str, str]]:
        """Everything that ever fired with at least this severity."""
        ranks = ("info", "warning", "critical")
        return {
            (i.kind, i.component)
            for i in self.changed
            if i.status == "firing" and i.severity.rank >= ranks.index(least)
        }


@pytest.fixture
def world() -> Callable[..., World]:
    return World
