"""Cost of finding the jobs of the open incidents at 80,000 ports and 10,000 hosts, each tick that diagnoses."""

from __future__ import annotations

import statistics
import time

from fabricmon.engine.affected import Affected, Sight
from fabricmon.engine.case import Case, Key
from fabricmon.engine.places import Places
from fabricmon.engine.reach import Reach
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import ComponentId, Kind, Members, Severity, Symptom
from fabricmon.topology.domains import assign

HOSTS, RAILS, RACK, JOB = 10_000, 8, 16, 20
RUNS = 15
NOW = 1_800_000_000.0


def places() -> Places:
    names = [f"host-{n:05d}" for n in range(HOSTS)]
    rows = [
        (ComponentId(Kind.PORT, host, f"mlx5_{rail}/1"), {"device": f"mlx5_{rail}", "port": "1"})
        for host in names
        for rail in range(RAILS)
    ]
    power = {host: f"rack-{n // RACK}" for n, host in enumerate(names)}
    return Places(assign(None, rows, power), power, [])


def case(component: str, kind: str, ports: list[tuple[int, int]]) -> Case:
    claims = frozenset(Key(kind, ComponentId(Kind.PORT, f"host-{h:05d}", f"mlx5_{r}/1")) for h, r in ports)
    return Case("x", component, component, kind, Severity.WARNING, 1.0, "", "", "", (), Members(1, 1), claims, NOW - 60)


def median_ms(affected: Affected, cases: list[Case], again: float = 10.0) -> float:
    """`again`: seconds between two diagnoses; an impact holds for 5."""
    spent = []
    for run in range(RUNS):
        began = time.process_time()
        affected.judged(cases, lambda _: None, NOW + run * again)
        spent.append((time.process_time() - began) * 1e3)
    return statistics.median(spent)


def main() -> list[tuple[str, float, str]]:
    reach = Reach(places(), None)
    sight = Sight(
        symptoms=lambda key: [Symptom(key.rule, key.rule, key.component, Severity.WARNING, NOW - 60, 1.0)],
        host=lambda key: key.component.node,
        role=lambda key: "compute",
        reach=lambda: reach,
    )
    affected = Affected(sight)
    jobs = tuple(
        Job(str(n), f"train-{n}", "mara", tuple(f"host-{h:05d}" for h in range(n * JOB, (n + 1) * JOB)))
        for n in range(HOSTS // JOB)
    )
    began = time.process_time()
    affected.listen((Jobs("slurm", NOW, jobs),))
    listened = (time.process_time() - began) * 1e3
    leaf = [case("leaf(su1/rail2)", "link_down", [(h, 2) for h in range(32, 64)])]
    cables = [case(f"link(host-{h:05d}/mlx5_3/1)", "link_down", [(h, 3)]) for h in range(0, 10_000, 1000)]
    many = [case(f"link(host-{h:05d}/mlx5_3/1)", "link_errors", [(h, 3)]) for h in range(0, 10_000, 20)]
    rail = [case("rail(5)", "packet_loss", [(h, 5) for h in range(0, HOSTS, 2)])]
    return [
        ("an answer of 500 jobs on 10,000 hosts", listened, "ms"),
        ("a leaf and 10 cables", median_ms(affected, leaf + cables), "ms, of the diagnosis's 40"),
        ("500 cables, judged anew", median_ms(affected, many), "ms"),
        ("500 cables, a second later", median_ms(affected, many, 0.1), "ms"),
        ("5,000 ports of one rail with losses, judged anew", median_ms(affected, rail), "ms"),
    ]


if __name__ == "__main__":
    for what, value, unit in main():
        print(f"{what}: {value:.3g} {unit}")
