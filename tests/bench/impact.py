"""Cost of finding the jobs of the open incidents at 80,000 ports and 10,000 hosts, each tick that diagnoses."""

from __future__ import annotations

import statistics
import time
from types import SimpleNamespace
from typing import cast

from fabricmon.engine.domains.dependent_hosts import DependentHosts
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.incidents.claim_lookup import ClaimLookup
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.job_impacts import JobImpacts
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import ComponentId, Kind, Severity, Symptom
from fabricmon.topology.domains import assign

HOSTS, RAILS, RACK, JOB = 10_000, 8, 16, 20
RUNS = 15
NOW = 1_800_000_000.0


def places() -> RowDomains:
    names = [f"host-{n:05d}" for n in range(HOSTS)]
    rows = [
        (ComponentId(Kind.PORT, host, f"mlx5_{rail}/1"), {"device": f"mlx5_{rail}", "port": "1"})
        for host in names
        for rail in range(RAILS)
    ]
    power = {host: f"rack-{n // RACK}" for n, host in enumerate(names)}
    return RowDomains(assign(None, rows, power), power, [])


def case(component: str, kind: str, ports: list[tuple[int, int]]) -> IncidentDraft:
    claims = frozenset(SymptomKey(kind, ComponentId(Kind.PORT, f"host-{h:05d}", f"mlx5_{r}/1")) for h, r in ports)
    return IncidentDraft(
        family="x", identity=component, component=component, kind=kind, severity=Severity.WARNING, title="", why="",
        action="", evidence=(), claims=claims, onset=NOW - 60,
    )  # fmt: skip


def median_ms(affected: JobImpacts, cases: list[IncidentDraft], again: float = 10.0) -> float:
    """`again`: seconds between two diagnoses; an impact holds for 5."""
    spent = []
    for run in range(RUNS):
        began = time.process_time()
        affected.with_impacts(cases, lambda _: None, NOW + run * again)
        spent.append((time.process_time() - began) * 1e3)
    return statistics.median(spent)


def main() -> list[tuple[str, float, str]]:
    reach = DependentHosts(places(), None)
    lookup = SimpleNamespace(
        symptoms=lambda key: [Symptom(key.rule, key.rule, key.component, Severity.WARNING, NOW - 60, 1.0)],
        host=lambda key: key.component.node,
        role=lambda key: "compute",
        dependent_hosts=lambda: reach,
    )
    affected = JobImpacts(cast(ClaimLookup, lookup))
    jobs = tuple(
        Job(str(n), f"train-{n}", "mara", tuple(f"host-{h:05d}" for h in range(n * JOB, (n + 1) * JOB)))
        for n in range(HOSTS // JOB)
    )
    began = time.process_time()
    affected.set_jobs((Jobs("slurm", NOW, jobs),))
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
