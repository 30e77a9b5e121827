"""Many made-up incidents on the fabric of a stage: several kinds, places, severities, jobs."""

from fabricmon.model import Evidence, HistoryEntry, Impact, Incident, JobImpact, JobVerdict, Members, Severity
from fabricmon.sim.layout import Layout

KINDS = (
    ("link_errors", "Link errors: at least 4.1e-11 of bits", Severity.WARNING),
    ("link_flapping", "Link flaps: 3 downs in 5 minutes", Severity.WARNING),
    ("link_down", "Link is down", Severity.CRITICAL),
    ("pcie_degraded", "PCIe runs at 8 of 16 lanes", Severity.WARNING),
    ("telemetry_quality", "Unreliable telemetry: readings come late", Severity.INFO),
)


def many_incidents(layout: Layout, number: int, now: float) -> list[Incident]:
    """`number` open incidents, no two of the same port, the newest last."""
    return [_one(layout, at, number, now) for at in range(number)]


def _one(layout: Layout, at: int, number: int, now: float) -> Incident:
    kind, title, severity = KINDS[(at * 7) % len(KINDS)]
    port = layout.port_name((at * 37) % (8 * len(layout.hosts)))
    node, device = port.split("/")[:2]
    since = now - 60.0 * (number - at)
    job = JobImpact(
        f"47{at % 3}", f"train-{at % 3}", "mara", "slurm", JobVerdict.STALL, "its link is down", (node,), 1, 8, since
    )
    return Incident(
        id=f"{at:016x}", status="firing", severity=severity, kind=kind, component=f"link({port})", since=since,
        confidence=0.9, title=f"{title} on {port}", why="Its counters rise.", action="Reseat the cable at both ends.",
        members=Members(1, 1), parts=(port,), labels={"node": node, "device": device}, updated=since,
        evidence=(Evidence(port, "87 symbol errors in 40 s, BER 3e-12 (limit 1e-14)"),),
        history=(HistoryEntry(since, "opened", title),), impact=Impact("known", "slurm", now, (job,), 1) if at % 4 == 0
        else None,
    )  # fmt: skip
