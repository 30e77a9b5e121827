"""The sender kubernetes_node: what it says of nodes, and what it does to them, against the wire over TLS."""

import pytest

from fabricmon.kubernetes import listwatch
from fabricmon.kubernetes.objects import NODES, api_time
from fabricmon.model import Incident, Members, NodeView, Presence, Severity
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.node_condition import condition_reason, node_conditions
from fabricmon.senders.acting import Standing
from fabricmon.senders.kubernetes_node import KubernetesNodeConfig, open, pairs
from fabricmon.units import Duration
from tests.central.streams import until
from tests.rigs.kube.standin import node

NOW = 1_800_000_000.0
KEY = "fabricmon.io/fabric-unhealthy"


def incident(host="gpu-1", kind="nic_fault", *, severity=Severity.CRITICAL, status="firing", id="", since=NOW - 300,
             resolved=None, parts=(), component="", labels=None, confidence=0.99):  # fmt: skip
    return Incident(
        id or f"id-{host}-{kind}", status, severity, kind, component or f"nic({host}/mlx5_0)", since, confidence,
        f"{kind} at {host}", "", "", members=Members(1, 1), parts=parts, resolved=resolved, labels=labels or {},
    )  # fmt: skip


def view(name, presence=Presence.LIVE, since=NOW - 3600, maintenance=""):
    return NodeView(name, presence, "", since, maintenance=maintenance)


def said(incidents, nodes, severity=Severity.WARNING):
    found = node_conditions(incidents, nodes, severity, (), 120.0, NOW)
    return {name: (v.status, v.reason) if v is not None else None for name, v in found.items()}


# --- what is said


def test_a_node_whose_agent_speaks_and_that_no_incident_is_about_is_healthy():
    assert said([], [view("gpu-1")]) == {"gpu-1": ("True", "NoFabricFault")}


@pytest.mark.parametrize(
    ("presence", "name"),
    [(Presence.REFUSED, "AgentStopped"), (Presence.UNREACHABLE, "AgentUnreachable"), (Presence.NEVER, "AgentNeverSeen"),
     (Presence.CLONED, "AgentCloned"), (Presence.SLOW, "AgentSlow"), (Presence.INCOMPATIBLE, "AgentIncompatible")],
)  # fmt: skip
def test_a_silent_agent_makes_a_node_unknown_and_a_short_silence_changes_nothing(presence, name):
    assert said([], [view("gpu-1", presence)]) == {"gpu-1": ("Unknown", name)}
    assert said([], [view("gpu-1", presence, since=NOW - 119)]) == {"gpu-1": None}


def test_an_incident_makes_its_node_unhealthy_even_when_its_agent_is_silent():
    assert said([incident()], [view("gpu-1"), view("gpu-2")]) == {
        "gpu-1": ("False", "NicFault"), "gpu-2": ("True", "NoFabricFault"),
    }  # fmt: skip
    assert said([incident()], [view("gpu-1", Presence.REFUSED)]) == {"gpu-1": ("False", "NicFault")}


def test_of_several_incidents_the_gravest_is_the_reason_and_the_others_are_counted():
    two = [incident(kind="link_errors", severity=Severity.WARNING), incident()]
    (verdict,) = node_conditions(
        two, [view("gpu-1")], Severity.WARNING, (), 120.0, NOW, IncidentLinks("https://f.example")
    ).values()
    assert verdict.reason == "NicFault"
    assert verdict.message == (
        "nic_fault at gpu-1 (incident id-gpu-1-nic_fault, and 1 more) https://f.example/#id-gpu-1-nic_fault"
    )


def test_a_fault_of_many_nodes_is_reported_of_its_bad_members_only():
    leaf = incident("gpu-1", "fault_domain", component="leaf(su1/rail2)", parts=("gpu-1/mlx5_2/1", "gpu-3/mlx5_2/1"))
    assert said([leaf], [view("gpu-1"), view("gpu-2"), view("gpu-3")]) == {
        "gpu-1": ("False", "FaultDomain"), "gpu-2": ("True", "NoFabricFault"), "gpu-3": ("False", "FaultDomain"),
    }  # fmt: skip


def test_what_is_not_severe_enough_or_over_leaves_a_node_healthy():
    mild, over = incident(severity=Severity.INFO), incident(status="resolved")
    assert said([mild, over], [view("gpu-1")]) == {"gpu-1": ("True", "NoFabricFault")}


def test_not_to_know_is_unknown():
    blind = incident(kind="telemetry_quality", severity=Severity.INFO, component="host(gpu-1)")
    assert said([blind], [view("gpu-1")]) == {"gpu-1": ("Unknown", "TelemetryQuality")}
    assert said([incident()], [view("gpu-1", maintenance="m1")]) == {"gpu-1": ("Unknown", "Maintenance")}


def test_kinds_become_reasons_as_kubernetes_wants_them():
    made = [condition_reason(kind) for kind in ("link_down", "pfc_storm", "nic_fault")]
    assert made == ["LinkDown", "PfcStorm", "NicFault"]


def test_names_of_fleet_and_cluster_meet_with_and_without_a_domain():
    nodes = dict.fromkeys(("gpu-1", "gpu-2.hall.example", "gpu-3.a", "gpu-3.b"))
    assert pairs(["gpu-1", "gpu-2", "gpu-3", "gpu-4"], nodes) == {"gpu-1": "gpu-1", "gpu-2": "gpu-2.hall.example"}


# --- what is done


class Diary:
    def __init__(self, past=()):
        self.deeds, self.past = [], {i.id: i for i in past}

    async def write(self, deed):
        self.deeds.append(deed)

    async def incidents(self, ids):
        return [self.past[id] for id in ids if id in self.past]


@pytest.fixture
async def actor(cluster, monkeypatch):
    """`actor(...)` opens one; `act(...)` lets it act once."""
    monkeypatch.setattr(listwatch, "RELIST", 0.05)
    opened = []

    def make(**settings):
        made = open(
            "nodes", KubernetesNodeConfig(**{"dry_run": False, **vars(cluster.access), **settings}), IncidentLinks()
        )
        opened.append(made)
        return made

    yield make
    for each in opened:
        await each.close()


TAINT = {"taint": True, "kinds": ("nic_fault",)}


async def act(actor, nodes, incidents=(), at=NOW, diary=None, silenced=()):
    diary = diary or Diary()
    report = await actor.act(Standing(at, list(incidents), set(silenced), nodes, tuple(diary.deeds)), diary)
    assert report.error == "", report.error
    return report


def condition(cluster, name):
    conditions = cluster.objects[NODES][name]["status"]["conditions"]
    found = next((c for c in conditions if c["type"] == "FabricHealthy"), None)
    assert len(conditions) == 1 + (found is not None), "the kubelet's own stays"
    return (found["status"], found["reason"]) if found else None


def taints(cluster, name):
    return cluster.objects[NODES][name]["spec"].get("taints") or []


async def settled(cluster):
    """Until the watch has shown what was written: one that ends is taken up from the version it has reached."""
    await until(lambda: cluster.watches)
    cluster.end_watches()
    reached = {"resourceVersion": str(cluster.version)}
    await until(lambda: any(reached.items() <= query.items() for _, _, query in cluster.asked if "watch" in query))


async def test_every_node_with_an_agent_gets_its_condition_once_and_a_heartbeat_then(cluster, actor):
    for name in ("gpu-1", "gpu-2", "login"):
        cluster.put(NODES, node(name))
    one, nodes = actor(), [view("gpu-1"), view("gpu-2")]
    await act(one, nodes, [incident()])
    assert [condition(cluster, n) for n in ("gpu-1", "gpu-2", "login")] == [
        ("False", "NicFault"), ("True", "NoFabricFault"), None,
    ]  # fmt: skip
    path, query, body = cluster.patches[0]
    assert path == f"{NODES}/gpu-1/status"
    assert query == {"fieldManager": "fabricmon"}
    assert body["status"]["conditions"][0]["lastTransitionTime"] == api_time(NOW)
    await act(one, nodes, [incident()], NOW + 10)
    await settled(cluster)  # later than a minute only what the watch shows counts
    await act(one, nodes, [incident()], NOW + 290)
    assert len(cluster.patches) == 2, "nothing is written twice"
    await act(one, nodes, [incident()], NOW + 301)
    assert len(cluster.patches) == 4
    beat = cluster.patches[-1][2]["status"]["conditions"][0]
    assert (beat["lastHeartbeatTime"], beat["lastTransitionTime"]) == (api_time(NOW + 301), api_time(NOW))


async def test_a_restart_of_the_server_neither_repeats_nor_forgets(cluster, actor):
    for name in ("gpu-1", "gpu-2"):
        cluster.put(NODES, node(name))
    first = actor(**TAINT)
    await act(first, [view("gpu-1"), view("gpu-2")], [incident()])
    await first.close()
    written = len(cluster.patches)
    second, blind = actor(**TAINT), [view(n, Presence.NEVER, NOW + 20) for n in ("gpu-1", "gpu-2")]
    await act(second, blind, [incident()], NOW + 20)  # nobody has spoken yet
    await act(second, [view("gpu-1"), view("gpu-2")], [incident()], NOW + 30)
    assert len(cluster.patches) == written
    over = incident(status="resolved", resolved=NOW + 40)
    await act(second, [view("gpu-1"), view("gpu-2")], [], NOW + 40 + 601, Diary([over]))
    assert taints(cluster, "gpu-1") == [], "what the first one did the second takes back"


async def test_a_node_that_is_watched_by_nobody_any_more_is_unknown(cluster, actor):
    cluster.put(NODES, node("gpu-1"))
    one = actor()
    await act(one, [view("gpu-1")])
    await settled(cluster)
    await act(one, [], at=NOW + 100)
    assert condition(cluster, "gpu-1") == ("True", "NoFabricFault"), "the fleet may not be whole yet"
    await act(one, [], at=NOW + 120)
    assert condition(cluster, "gpu-1") == ("Unknown", "NotMonitored")


async def test_a_taint_is_set_with_the_incident_as_its_value_and_taken_back_when_that_is_over(cluster, actor):
    foreign = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present", "timeAdded": "2026-01-01T00:00:00Z"}
    cluster.put(NODES, node("gpu-1", taints=[foreign]))
    one, nodes, diary = actor(**TAINT), [view("gpu-1")], Diary()
    report = await act(one, nodes, [incident()], diary=diary)
    ours = {"key": KEY, "value": "id-gpu-1-nic_fault", "effect": "NoSchedule"}
    assert taints(cluster, "gpu-1") == [foreign, ours]
    assert [(d.verb, d.node, d.incident) for d in diary.deeds] == [("taint", "gpu-1", "id-gpu-1-nic_fault")]
    assert (report.held, len(report.done)) == (1, 1)
    await act(one, nodes, [incident()], NOW + 10, diary)
    assert len(diary.deeds) == 1, "once"
    over = incident(status="resolved", resolved=NOW + 20)
    await settled(cluster)
    await act(one, nodes, [over], NOW + 20 + 599, diary)
    assert ours in taints(cluster, "gpu-1")
    await act(one, nodes, [over], NOW + 20 + 600, diary)
    assert taints(cluster, "gpu-1") == [foreign]


async def test_no_more_nodes_are_tainted_than_allowed_however_many_fail(cluster, actor):
    names = [f"gpu-{n}" for n in range(40)]
    for name in names:
        cluster.put(NODES, node(name))
    one, nodes, faults = actor(**TAINT, most_share=0.05), [view(n) for n in names], [incident(n) for n in names]
    report = await act(one, nodes, faults)
    await settled(cluster)
    await act(one, nodes, faults, NOW + 10)
    assert sum(bool(taints(cluster, n)) for n in names) == 2
    assert len(report.withheld) == 38


@pytest.mark.parametrize(
    ("what", "nodes"),
    [
        ([incident()], [view("gpu-1", Presence.REFUSED)]),
        ([incident()], [view("gpu-1", Presence.NEVER)]),
        ([incident(kind="link_down")], [view("gpu-1")]),
        ([incident(severity=Severity.WARNING)], [view("gpu-1")]),
        ([incident(confidence=float("nan"))], [view("gpu-1")]),
        ([incident(), incident("gpu-9", "mass_alarm")], [view("gpu-1")]),
        ([incident(since=NOW - 10)], [view("gpu-1")]),
        ([incident()], [view("gpu-1", maintenance="m1")]),
    ],
)
async def test_no_node_is_tainted_for_what_is_not_known_or_not_asked_for(cluster, actor, what, nodes):
    cluster.put(NODES, node("gpu-1"))
    await act(actor(**TAINT), nodes, what)
    assert taints(cluster, "gpu-1") == []


async def test_a_taint_stays_while_the_node_is_silent_or_its_fault_is_part_of_a_larger_one(cluster, actor):
    ours = {"key": KEY, "value": "id-gpu-1-nic_fault", "effect": "NoSchedule"}
    cluster.put(NODES, node("gpu-1", taints=[ours]))
    over = incident(status="resolved", resolved=NOW - 5000)
    await act(actor(**TAINT), [view("gpu-1", Presence.REFUSED)], [over])
    larger = incident(kind="fault_domain", component="rail(0)", id="larger")
    absorbed = incident(status="resolved", resolved=NOW - 5000, labels={"absorbed_by": "larger"})
    await act(actor(**TAINT), [view("gpu-1")], [absorbed, larger])
    await act(actor(**TAINT), [view("gpu-1")], [], diary=Diary())  # nobody knows the incident
    assert taints(cluster, "gpu-1") == [ours]


async def test_what_somebody_else_changed_meanwhile_is_not_undone(cluster, actor):
    cluster.put(NODES, node("gpu-1"))
    one, nodes, diary = actor(**TAINT), [view("gpu-1")], Diary()
    await act(one, nodes)  # it has read the node
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    thing = cluster.objects[NODES]["gpu-1"]
    thing["spec"], thing["metadata"]["resourceVersion"] = {"taints": [cordon]}, "999999"  # and nobody told it
    report = await act(one, nodes, [incident()], NOW + 10, diary)
    assert report.failed == {"gpu-1": "the node was changed concurrently"}
    assert taints(cluster, "gpu-1") == [cordon]
    cluster.put(NODES, thing)
    await settled(cluster)
    await act(one, nodes, [incident()], NOW + 20, diary)
    assert [t["key"] for t in taints(cluster, "gpu-1")] == [cordon["key"], KEY]


async def test_a_dry_run_asks_the_server_once_and_changes_nothing(cluster, actor):
    for name in ("gpu-1", "gpu-2"):
        cluster.put(NODES, node(name))
    one, nodes, diary = actor(**TAINT, dry_run=True), [view("gpu-1"), view("gpu-2")], Diary()
    for at in (NOW, NOW + 10, NOW + 400):
        report = await act(one, nodes, [incident()], at, diary)
        assert report.dry
        assert [d.verb for d in report.done] == ["taint"]
    assert all(query["dryRun"] == "All" for _, query, _ in cluster.patches)
    assert sorted(path for path, _, _ in cluster.patches) == [
        f"{NODES}/gpu-1", f"{NODES}/gpu-1/status", f"{NODES}/gpu-2/status",
    ]  # fmt: skip
    assert diary.deeds == []
    assert condition(cluster, "gpu-1") is None
    assert taints(cluster, "gpu-1") == []


async def test_without_the_right_each_node_says_why_and_is_tried_again(cluster, actor):
    cluster.put(NODES, node("gpu-1"))
    cluster.forbidden = {("PATCH", "/status")}
    one = actor()
    report = await act(one, [view("gpu-1")])
    assert "is forbidden" in report.failed["gpu-1"]
    cluster.forbidden = set()
    report = await act(one, [view("gpu-1")], at=NOW + 10)
    assert (report.failed, condition(cluster, "gpu-1")) == ({}, ("True", "NoFabricFault"))


async def test_while_the_cluster_cannot_be_read_nothing_is_done(cluster, actor):
    cluster.put(NODES, node("gpu-1"))
    cluster.tokens = {"another"}
    one = actor(**TAINT)
    report = await one.act(Standing(NOW, [incident()], set(), [view("gpu-1")]), Diary())
    assert "HTTP 401" in report.error
    assert cluster.patches == []


@pytest.mark.parametrize(
    "wrong",
    [{"taint": True}, {"kinds": ("agent_silent",)}, {"kinds": ("fault_domain",)}, {"api": "k8s"},
     {"condition": "fabric healthy"}, {"taint_key": "a b"}, {"heartbeat": Duration(1)}, {"unknown_after": Duration(1)},
     {"period": Duration(1)}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="`"):
        KubernetesNodeConfig(**wrong)
