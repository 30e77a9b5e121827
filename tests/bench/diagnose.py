"""Cost of one diagnosis at 80,000 ports: a dead leaf, broken cables, a silent rack and noise (bar: 40 ms)."""

from __future__ import annotations

import statistics
import time

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups

HOSTS, RAILS, UNIT, RACK = 10_000, 8, 32, 16
RUNS = 15


def fabric() -> tuple[Groups, Groups]:
    """Rail-optimised: a unit of 32 hosts has one leaf per rail; racks of 16 hosts share power."""
    row = np.arange(HOSTS * RAILS)
    host, rail = row // RAILS, row % RAILS
    port = {
        "link": row,
        "nic": row,
        "host": host,
        "leaf": host // UNIT * RAILS + rail,
        "rail": np.full(len(row), -1),
        "power": host // RACK,
    }
    node = {"host": np.arange(HOSTS), "power": np.arange(HOSTS) // RACK}
    return (
        Groups({domain: ids.astype(np.int32) for domain, ids in port.items()}),
        Groups({domain: ids.astype(np.int32) for domain, ids in node.items()}),
    )


def broken(
    port: Groups, node: Groups, cables: int, leaves: int, noise: int, seed: int = 1
) -> dict[SymptomType, Observation]:
    draw = np.random.default_rng(seed)
    n = HOSTS * RAILS
    silent = np.concatenate([np.arange(RACK), draw.choice(np.arange(RACK, HOSTS), HOSTS // 100, replace=False)])
    known = ~np.isin(port.ids["host"], silent)
    down = np.union1d(
        np.flatnonzero(np.isin(port.ids["leaf"], draw.choice(HOSTS // UNIT * RAILS, leaves, replace=False))),
        draw.choice(n, cables, replace=False),
    )
    rows = {
        SymptomType.LINK_DOWN: down,
        SymptomType.LINK_FLAPPING: draw.choice(n, noise, replace=False),
        SymptomType.LINK_ERRORS: draw.choice(n, noise, replace=False),
        SymptomType.LINK_DEGRADED: draw.choice(n, noise, replace=False),
        SymptomType.NIC_FAULT: draw.choice(n, noise // 4, replace=False),
    }
    facts: dict[SymptomType, Observation] = {}
    for kind, found in rows.items():
        at = np.sort(found).astype(np.int64)
        seen = known.copy()
        seen[at] = True
        facts[kind] = Observation(port, at, np.zeros(len(at)), seen)
    at = np.sort(silent).astype(np.int64)
    facts[SymptomType.AGENT_SILENT] = Observation(node, at, np.zeros(len(at)), np.ones(HOSTS, np.bool_))
    return facts


def median_ms(facts: dict[SymptomType, Observation]) -> float:
    spent = []
    for _ in range(RUNS):
        began = time.perf_counter()
        diagnose(facts, 0.002)
        spent.append((time.perf_counter() - began) * 1e3)
    return statistics.median(spent)


def main() -> list[tuple[str, float, str]]:
    port, node = fabric()
    usual, heavy = broken(port, node, 10, 1, 12), broken(port, node, 100, 5, 120)
    return [
        ("80,000 ports: a leaf, 10 cables, 40 stray symptoms, a silent rack", median_ms(usual), "ms, bar 40"),
        ("80,000 ports: 5 leaves, 100 cables, 400 stray symptoms, a silent rack", median_ms(heavy), "ms"),
    ]


if __name__ == "__main__":
    for name, value, unit in main():
        print(f"{name:75} {value:8.1f} {unit}")
