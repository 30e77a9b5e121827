"""One incident with everything that can be told, for messages."""

from __future__ import annotations

from typing import Any

from fabricmon.model import Evidence, Face, Impact, Incident, JobImpact, JobVerdict, Members, Notification, Severity
from fabricmon.notify.links import IncidentLinks
from tests.notify.made import T0, incident, note


class Fixed(IncidentLinks):
    """Addresses that stay the same wherever the server's page puts an incident."""

    def incident(self, id: str) -> str:
        return f"https://fabricmon.example/#{id}"

    def runbook(self, kind: str) -> str:
        return f"https://fabricmon.example/runbooks/{kind}"

    def dashboard(self, incident: Incident) -> str:
        return f"https://grafana.example/d/incidents?var-id={incident.id}"


LINKS = Fixed("https://fabricmon.example", server="central-a")


OUT = "links are out for longer than its communication survives"
JOBS = (
    JobImpact("4711", "train-70b", "mara", "slurm", JobVerdict.CRASH, OUT, ("host-000",), 32, 64, T0),
    JobImpact("4712", "eval", "jon", "slurm", JobVerdict.AT_RISK, "it has nodes there", ("host-001",), 1, 8, T0),
)


def leaf(id: str = "5f1d6d0f3c2b9a47", **changes: Any) -> Incident:
    """A dead leaf that stalls a job."""
    fields: dict[str, Any] = {
        "severity": Severity.CRITICAL,
        "kind": "fault_domain",
        "component": "leaf(su1/rail2)",
        "title": "Leaf su1/rail2 is down: 32 of 32 links",
        "why": "The links of one leaf went down together; one dead switch explains them better than 32 cables.",
        "action": "Check power and console of the switch. Do not touch the cables.",
        "confidence": 0.994,
        "members": Members(32, 32),
        "labels": {"fabric": "east", "mode": "leaf down"},
        "candidates": ("power(pdu-3)",),
        "parts": tuple(f"host-{n:03}/mlx5_2/1" for n in range(32)),
        "evidence": (
            Evidence("leaf(su1/rail2)", "32 of 32 links went down within 0.4 s"),
            Evidence("host-007/mlx5_2/1", "phys_state is Polling"),
            Evidence("pdu-3", "two of its leaves are up", for_it=False),
        ),
        "impact": Impact("known", "slurm", T0 + 10, JOBS, 2),
    }
    return incident(id, **{**fields, **changes})


def telling(*incidents: Incident, reason: str = "new incident", **changes: Any) -> Notification:
    """A notification 12 minutes after it began. What goes on was told before."""
    told = reason not in ("new incident", "silence ended")
    before = {i.id: (Face(i.kind, i.component, i.severity),) for i in incidents} if told else {}
    key = changes.pop("key", "7c3f0c9be6c81f0d2a4a0f6f6ad3c5ee")
    return note(key, *incidents, created=T0 + 720, reason=reason, before=before, **changes)


def ended(given: Incident) -> Incident:
    from msgspec.structs import replace

    return replace(given, status="resolved", resolved=T0 + 600)
