"""Ports know the job of their host, so that stragglers are looked for among their own job's."""

from __future__ import annotations

from typing import Any

import numpy as np

from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Kind


def job_of(w: Any) -> dict[str, int]:
    """Host -> number of its job, by the domains that rules see."""
    table = w.engine.fleet.tables[Kind.PORT]
    ids = table.domains.ids.get("job", np.full(table.n, -1))
    return {component.node: int(ids[row]) for row, component in enumerate(table.ids)}


def test_ports_are_in_the_job_of_their_host_where_there_is_one_alone(world: Any) -> None:
    w = world(hosts=8, rails=2)
    assert set(job_of(w).values()) == {-1}
    jobs = (
        Job("1", "a", "me", ("host-000", "host-001", "host-002")),
        Job("2", "b", "me", ("host-002", "host-003")),
    )
    w.engine.jobs([Jobs("slurm", w.now, jobs)], w.now)
    found = job_of(w)
    assert found["host-000"] == found["host-001"] >= 0
    assert found["host-003"] not in (-1, found["host-000"])
    assert found["host-002"] == found["host-004"] == -1
    w.lose("host-004", 1)
    w.run(5)
    assert job_of(w)["host-001"] == found["host-001"]
    w.engine.jobs([Jobs("slurm", w.now, ())], w.now)
    assert set(job_of(w).values()) == {-1}
