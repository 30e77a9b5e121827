"""What the windows of probes of 10,000 nodes with 8 adapters cost the server: decoding, landing, rules, page.

    python -m tests.bench probes

Each node's frame of a window is a difference as an agent sends it: counts and times of each of its flows. Time over the
network, and frames without values, are not in it (python -m tests.bench fleet). NODES in the environment: fewer nodes.
"""

from __future__ import annotations

import os
import time
from array import array
from collections import defaultdict

import numpy as np

from fabricmon import frame
from fabricmon.central.page.heat_map import probes_page
from fabricmon.engine.engine import Engine
from fabricmon.fleet.leaf_pairs import leaf_pairs, probed_flows
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Presence, Snapshot
from fabricmon.probe.plan import ProbePlan, ProbePort, plan
from fabricmon.rules import Scope
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from tests.probe.fleet_of_probes import FLOW, PER_WINDOW

NODES, RAILS, PER_UNIT, SPINES = int(os.environ.get("NODES", "10000")), 8, 32, 8
PORT = ("probe_packets", "probe_lost", "probe_answered", "probe_void_windows", "probe_held_back")
LOSS = 1e-5
BEGIN = 1000.0


def main() -> list[tuple[str, float, str]]:
    began = time.process_time()
    made = plan([_port(node, rail) for node in range(NODES) for rail in range(RAILS)])
    planned = time.process_time() - began
    engine = Engine(Scope.FLEET, _graph())
    inventories = _listed(engine, made)
    rng = np.random.default_rng(1)
    states = {name: _values(one) for name, one in inventories.items()}
    _window(engine, inventories, states, rng, 0)  # full frames, learns the rows
    for window in (1, 2):
        _window(engine, inventories, states, rng, window)
        _ticks(engine, window)
    decoding, landing, size = _window(engine, inventories, states, rng, 3)
    ticking = _ticks(engine, 3)
    tables = engine.fleet.tables
    begin = time.process_time()
    flows = probed_flows(tables[Kind.FLOW], tables[Kind.PORT])
    gathered, begin = time.process_time() - begin, time.process_time()
    pairs = leaf_pairs(flows)
    sorted_, begin = time.process_time() - begin, time.process_time()
    probes_page(pairs, "")
    drawn = time.process_time() - begin
    return [
        (f"plan of {NODES:,} nodes with {RAILS} adapters: {len(made.flows):,} flows", planned, "s CPU"),
        ("a node's frame of a window", size / NODES, "bytes"),
        ("decode the frames of a window (10 s)", decoding, "s CPU"),
        ("land them", landing, "s CPU"),
        ("10 ticks of the engine, all rules on these ports and flows", ticking, "s CPU"),
        ("in all", (decoding + landing + ticking) / 10 * 100, "% of a core"),
        ("pairs of leaves: on the loop, once a window where someone asks", 1e3 * gathered, "ms CPU"),
        ("  in a thread", 1e3 * sorted_, "ms CPU"),
        ("  page of a rail, at each question", 1e3 * drawn, "ms CPU"),
    ]


def _port(node: int, rail: int) -> ProbePort:
    address, leaf = f"10.{rail}.{node // 250}.{node % 250 + 1}", f"leaf-{node // PER_UNIT}-{rail}"
    return ProbePort(f"n{node}", f"mlx5_{rail}/1", address, 9795, leaf, str(rail), "compute")


def _graph() -> Graph:
    """Rail-optimised: a leaf for each unit and rail, spines for each rail."""
    switches: dict[str, Switch] = {}
    adapters, cables = {}, []
    for rail in range(RAILS):
        switches |= {f"spine-{rail}-{n}": Switch(f"spine-{rail}-{n}", f"spine-{rail}-{n}", 1) for n in range(SPINES)}
        for unit in range(-(-NODES // PER_UNIT)):
            leaf = f"leaf-{unit}-{rail}"
            switches[leaf] = Switch(leaf, leaf, 0)
            cables += [cable(End(leaf, 100 + n), End(f"spine-{rail}-{n}", unit + 1)) for n in range(SPINES)]
    for node in range(NODES):
        for rail in range(RAILS):
            id = f"n{node}/mlx5_{rail}"
            adapters[id] = Adapter(id, f"n{node}", f"mlx5_{rail}")
            cables.append(cable(End(id, 1), End(f"leaf-{node // PER_UNIT}-{rail}", node % PER_UNIT + 1)))
    return Graph(switches, adapters, tuple(cables))


def _listed(engine: Engine, made: ProbePlan) -> dict[str, Inventory]:
    flows: dict[str, list[Component]] = defaultdict(list)
    for flow in made.flows:
        source, target = made.ports[flow.source], made.ports[flow.target]
        labels = {"port": source.name, "peer": target.full_name, "source_port": str(flow.udp)}
        flows[source.node].append(Component(f"{source.name}>{target.full_name}:{flow.udp}", labels))
    found = {}
    for number in range(NODES):
        node = f"n{number}"
        ports = tuple(
            Component(f"mlx5_{rail}/1", {"device": f"mlx5_{rail}", "port": "1", "role": "compute",
                                         "probe_address": f"{_port(number, rail).address}:9795"})
            for rail in range(RAILS)
        )  # fmt: skip
        parts = (Part("flow", Kind.PORT, PORT, ports, 10.0), Part("flow", Kind.FLOW, FLOW, tuple(flows[node]), 10.0))
        found[node] = Inventory(1, Identity(node, "boot", f"agent-{node}", "1", 0.0), parts)
        engine.inventory(node, found[node], BEGIN)
        engine.presence(node, Presence.LIVE, "", BEGIN)
    return found


def _values(inventory: Inventory) -> np.ndarray:
    return np.zeros(sum(part.size for part in inventory.parts))


def _next(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The next window of a node."""
    new = values.copy()
    ports, flows = new[: RAILS * len(PORT)].reshape(RAILS, -1), new[RAILS * len(PORT) :].reshape(-1, len(FLOW))
    ports[:, 0] += 100
    ports[:, 2] += 100
    flows[:, 0] += PER_WINDOW
    flows[:, 1] += rng.binomial(PER_WINDOW, LOSS, len(flows))
    flows[:, 3:] = 2e-5 * rng.gamma(20, 0.05, (len(flows), 5))
    return new


def _window(engine: Engine, inventories: dict[str, Inventory], states: dict[str, np.ndarray],
            rng: np.random.Generator, number: int) -> tuple[float, float, int]:  # fmt: skip
    """Seconds of processor time to decode and to land the frames of all nodes, and their bytes."""
    now, sent = BEGIN + 10 * number, []
    for name, inventory in inventories.items():
        old, new = states[name], _next(states[name], rng)
        taken = [now] * len(inventory.parts)
        snapshot = Snapshot(inventory, number + 1, now, taken, array("d", new))
        before = array("d", old), [now - 10] * len(inventory.parts)
        sent.append((name, frame.encode_delta(snapshot, *before) if number else frame.encode_full(snapshot)))
        states[name] = new
    begin = time.process_time()
    frames = [(name, frame.decode(data)) for name, data in sent]
    decoded = time.process_time()
    for name, one in frames:
        engine.frame(name, one, now)
    return decoded - begin, time.process_time() - decoded, sum(len(data) for _, data in sent)


def _ticks(engine: Engine, number: int) -> float:
    begin = time.process_time()
    for second in range(10):
        engine.tick(BEGIN + 10 * number + second + 0.5)
    assert not engine.failures(), engine.failures()
    return time.process_time() - begin
