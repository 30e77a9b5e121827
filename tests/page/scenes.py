"""Made-up states of a fabric for the page's tests."""

from fabricmon.central.documents.overview import overview
from fabricmon.central.page.scene import ReceiverState, Scene
from fabricmon.model import (
    Evidence,
    HistoryEntry,
    Incident,
    Maintenance,
    Members,
    NodeView,
    Presence,
    Severity,
)
from fabricmon.notify.silence import silence

NOW = 1_790_000_000.0


def node(name, presence=Presence.LIVE, **more):
    detail = {"refused": "connection refused", "unreachable": "no answer", "slow": "no frame for 5 s"}
    return NodeView(
        name, presence, more.pop("detail", detail.get(presence.value, "")), more.pop("since", NOW - 4000),
        last_frame=NOW - 0.4 if presence is Presence.LIVE else NOW - 700, version="0.1.0", ports=8, gpus=8, **more,
    )  # fmt: skip


def incident(**given):
    base = {
        "id": "5f1c0a", "status": "firing", "severity": Severity.WARNING, "kind": "link_flapping",
        "component": "link(host-007/mlx5_3/1, leaf-3/12)", "since": NOW - 754, "confidence": 0.97,
        "title": "Link flaps: 3 downs in 5 minutes", "why": "The link lost its signal three times and came back.",
        "action": "Reseat the cable at both ends; replace it if the flaps come back.", "members": Members(1, 1),
        "evidence": (Evidence("host-007/mlx5_3/1", "3 downs, weighted by age 2.9",
                              "P = 1000/down, half-life 900 s; raise > 2000"),
                     Evidence("leaf-3", "31 of 31 other links are up", for_it=False)),
        "parts": ("host-007/mlx5_3/1",), "labels": {"rail": "3"}, "updated": NOW - 30,
        "history": (HistoryEntry(NOW - 754, "opened", "third down within 300 s"),),
    }  # fmt: skip
    return Incident(**{**base, **given})


def leaf_down(hosts=32):
    return incident(
        id="a11d3e",
        severity=Severity.CRITICAL,
        kind="fault_domain",
        component="leaf(su1/rail2)",
        since=NOW - 95,
        confidence=0.998,
        title="Leaf su1/rail2 is down: 32 of 32 links lost within one poll",
        why="All links that end at this leaf went down within 1.2 s; links of these hosts on other rails are up.",
        action="Check power and management of the leaf switch su1/rail2. Jobs on its rail run without it.",
        members=Members(hosts, hosts),
        evidence=tuple(
            Evidence(f"host-{n:03d}/mlx5_2/1", "link down since the same poll", "P(down | leaf down) = 0.98")
            for n in range(hosts, 2 * hosts)
        ),
        parts=tuple(f"host-{n:03d}/mlx5_2/1" for n in range(hosts, 2 * hosts)),
        candidates=("power(pdu-7)",),
        labels={"unit": "su1", "rail": "2"},
        history=(
            HistoryEntry(NOW - 95, "opened", "17 of 32 links down"),
            HistoryEntry(NOW - 94, "members", "32 of 32 links down"),
            HistoryEntry(NOW - 94, "severity", "every link of a leaf is lost: critical"),
        ),
    )


def busy(hosts=64):
    """A bad morning: a dead leaf, a flapping cable, stale nodes, a silence and a maintenance window."""
    quiet = {11: Presence.UNREACHABLE, 40: Presence.REFUSED, 41: Presence.SLOW}
    nodes = [node(f"host-{n:03d}", quiet.get(n, Presence.LIVE), symptoms=int(n >= 32)) for n in range(hosts)]
    nodes[20] = node("host-020", maintenance="m-1")
    nodes[21] = node("host-021", symptoms=1)
    incidents = [
        leaf_down(),
        incident(),
        incident(id="bb", kind="link_errors", component="link(host-015/mlx5_5/1)", since=NOW - 8000, confidence=0.9,
                 title="Link errors: at least 4.1e-11 of bits", parts=("host-015/mlx5_5/1",)),
        incident(id="cc", severity=Severity.INFO, kind="agent_silent", component="network", confidence=0.6,
                 title="3 agents are silent", parts=(), members=Members(3, 64)),
        incident(id="dd", status="resolved", resolved=NOW - 600, since=NOW - 2000, kind="link_down",
                 component="link(host-003/mlx5_0/1)", title="Link is down"),
    ]  # fmt: skip
    return Scene(
        at=NOW,
        overview=overview("su-lab", nodes, incidents, 36, NOW),
        nodes=nodes,
        incidents=incidents,
        silences=[silence("s-1", ["kind=link_errors"], NOW - 60, NOW + 7000, "mara", "cable is ordered")],
        windows=[Maintenance("m-1", NOW - 60, NOW + 1200, ("host-020",), (), "jon", "new firmware")],
        receivers=[ReceiverState("ops-hook", 0, "")],
    )


def calm(hosts=64):
    nodes = [node(f"host-{n:03d}") for n in range(hosts)]
    return Scene(at=NOW, overview=overview("su-lab", nodes, [], 0, NOW), nodes=nodes, incidents=[])


def empty():
    return Scene(at=NOW, overview=overview("", [], [], 0, NOW), nodes=[], incidents=[])
