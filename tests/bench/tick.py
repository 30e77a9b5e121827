"""One tick of the fleet with all rules at 100,000 ports of which every row was read since the last tick, and what one
frame of 1,500 values costs to land. Processor time, so that other work on the machine does not count."""

from __future__ import annotations

import statistics
import time

import numpy as np

from fabricmon.catalogue import infiniband, port
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules import RULES

NODES, PORTS, TICKS = 12_500, 8, 9
STATE = ("state", "phys_state", "rate", "width", "lid", "sm_lid")
COUNTS = tuple(c.name for c in infiniband.COUNTERS)
NETDEV = tuple(c.name for c in port.COUNTERS if c.source == "netdev")


def _inventory(node: str, columns: tuple[tuple[str, tuple[str, ...]], ...], ports: int) -> Inventory:
    components = tuple(
        Component(f"mlx5_{i}/1", {"device": f"mlx5_{i}", "port": "1", "link_layer": "InfiniBand", "role": "compute"})
        for i in range(ports)
    )
    parts = tuple(Part(name, Kind.PORT, names, components, 1.0) for name, names in columns)
    return Inventory(1, Identity(node, "boot", node, "1", 0.0), parts)


def _values(inventory: Inventory, rng: np.random.Generator) -> np.ndarray:
    known = {"state": 4.0, "phys_state": 5.0, "rate": 5e10, "width": 4.0, "lid": 7.0, "sm_lid": 1.0, "carrier": 1.0}
    pieces = []
    for part in inventory.parts:
        row = np.array([known.get(c, 0.0) for c in part.columns])
        moving = np.array([c in ("xmit", "rcv", "xmit_packets", "rcv_packets") for c in part.columns])
        rows = np.tile(row, (len(part.components), 1))
        rows[:, moving] = rng.integers(1, 10**9, (len(part.components), int(moving.sum())))
        pieces.append(rows.reshape(-1))
    return np.concatenate(pieces)


def _tick() -> list[tuple[str, float, str]]:
    rng = np.random.default_rng(7)
    fleet = Fleet()
    columns = (("infiniband", (*COUNTS, "rate", "width")), ("infiniband_state", STATE[:2] + STATE[4:]))
    names = [f"host-{i:05d}" for i in range(NODES)]
    now = 1_000_000.0
    began = time.process_time()
    for name in names:
        fleet.inventory(name, _inventory(name, columns, PORTS), now)
    enter = (time.process_time() - began) / NODES * 1e6
    shape = _inventory("any", columns, PORTS)
    values = _values(shape, rng)
    moving = np.flatnonzero(_values(shape, rng) != values)
    columns_of = np.array([c for part in shape.parts for _ in part.components for c in part.columns])
    errors = np.flatnonzero(np.isin(columns_of, ("symbol_errors", "link_downed", "rcv_errors")))
    tick, advance = [], []
    rules = {rule.name: [] for rule in RULES}
    for k in range(TICKS):
        now += 1.0
        values[moving] += 1e9
        noisy = values.copy()
        noisy[errors[k % len(errors)]] += k
        taken = np.full(len(shape.parts), 50.0 + k)
        frame, bad = Frame(1, k, now, taken, None, values), Frame(1, k, now, taken, None, noisy)
        for i, name in enumerate(names):
            fleet.frame(name, bad if i % 100 == 0 else frame, now)
        begin = time.process_time()
        fleet.advance(now)
        advance.append(time.process_time() - begin)
        for rule in RULES:
            at = time.process_time()
            rule.test(View(fleet.tables[rule.table], now), rule.params())
            rules[rule.name].append(time.process_time() - at)
        tick.append(time.process_time() - begin)
    rows = [
        ("tick, 100,000 ports all read anew: advance and all rules", statistics.median(tick[2:]) * 1e3, "ms (bar 60)"),
        ("  of it fleet.advance", statistics.median(advance[2:]) * 1e3, "ms"),
    ]
    rows += [(f"  of it {name}", statistics.median(times[2:]) * 1e3, "ms") for name, times in rules.items()]
    rows.append(("inventory of one node", enter, "us"))
    return rows


def _ingest() -> list[tuple[str, float, str]]:
    rng = np.random.default_rng(7)
    fleet = Fleet()
    columns = (("infiniband", (*COUNTS, "rate", "width")), ("ethernet", NETDEV), ("infiniband_state", STATE[:2]))
    width = sum(len(c) for _, c in columns)
    ports = -(-1500 // width)
    names = [f"host-{i:04d}" for i in range(1000)]
    for name in names:
        fleet.inventory(name, _inventory(name, columns, ports), 0.0)
    shape = _inventory("any", columns, ports)
    values = _values(shape, rng)
    index = np.sort(rng.permutation(len(values))[: len(values) // 3]).astype(np.uint32)
    rows = []
    for word, at, cells in (("full", None, values), ("delta of a third", index, values[index])):
        times = []
        for k in range(5):
            frame = Frame(1, k, 0.0, np.full(len(shape.parts), float(k)), at, cells)
            begin = time.process_time()
            for name in names:
                fleet.frame(name, frame, float(k))
            times.append((time.process_time() - begin) / len(names) * 1e6)
        bar = "us (bar 25)" if at is None else "us"
        rows.append((f"Fleet.frame, {word} of {len(values)} values", statistics.median(times), bar))
    return rows


def main() -> list[tuple[str, float, str]]:
    return [*_tick(), *_ingest()]
