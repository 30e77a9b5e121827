"""Which agents a cluster should have, and how the server learns of them."""

import asyncio
import contextlib

import pytest

from fabricmon.central.targets import kubernetes_feed
from fabricmon.central.targets.discovery import Target
from fabricmon.central.targets.kubernetes_agents import ExpectedAgent, expected
from fabricmon.central.targets.kubernetes_feed import KubernetesFeed
from fabricmon.central.targets.kubernetes_settings import KubernetesConfig
from fabricmon.kubernetes import listwatch
from fabricmon.kubernetes.objects import NODES, AgentPod, KubernetesNode
from fabricmon.units import Duration
from tests.central.streams import until
from tests.rigs.kube.standin import agent_pod, node

PODS = "/api/v1/namespaces/fabricmon/pods"
KEEP = 60.0


def step(pods, nodes=None, before=(), now=0.0):
    known = {one.name: one for one in nodes} if nodes is not None else None
    return expected(pods, known, before, 9790, KEEP, now, "kubernetes")


def addresses(found):
    return {one.node: address for address, one in found.items()}


# --- what is decided


def test_an_agent_is_where_its_pod_is_under_the_name_of_its_node():
    found = step([AgentPod("a", "gpu-1", "10.0.0.1"), AgentPod("b", "gpu-2", "fd00::2")])
    assert addresses(found) == {"gpu-1": "10.0.0.1:9790", "gpu-2": "[fd00::2]:9790"}
    assert found["10.0.0.1:9790"].target == Target("10.0.0.1:9790", {"node": "gpu-1"}, "kubernetes")


def test_a_pod_that_never_came_up_is_expected_at_its_nodes_address():
    found = step([AgentPod("a", "gpu-1", on_host=True)], [KubernetesNode("gpu-1", "u", "1", address="10.0.0.1")])
    assert addresses(found) == {"gpu-1": "10.0.0.1:9790"}
    assert step([AgentPod("a", "gpu-1", on_host=True)], None) == {}, "where nodes are not read that is not known"
    assert step([AgentPod("a", "gpu-1")], [KubernetesNode("gpu-1", "u", "1", address="10.0.0.1")]) == {}, (
        "a network of its own"
    )


def test_a_node_that_died_is_expected_as_long_as_it_is_in_the_cluster():
    before = step([AgentPod("a", "gpu-1", "10.0.0.1")]).values()
    dead = [KubernetesNode("gpu-1", "u", "1", ready=False)]
    for now in (1.0, KEEP, 100 * KEEP):
        before = step([], dead, before, now).values()
        assert [one.node for one in before] == ["gpu-1"]
    assert step([], [], before, 100 * KEEP) == {}, "it went out of the cluster, long after its pod"


@pytest.mark.parametrize("nodes", [None, [], [KubernetesNode("gpu-1", "u", "1", ready=True)]])
def test_an_agent_whose_pod_went_is_expected_for_a_while(nodes):
    before = step([AgentPod("a", "gpu-1", "10.0.0.1")]).values()
    gone = step([], nodes, before, 10.0)
    assert gone["10.0.0.1:9790"].gone == 10.0
    assert step([], nodes, gone.values(), 10.0 + KEEP) == gone
    assert step([], nodes, gone.values(), 10.1 + KEEP) == {}


def test_a_pod_that_is_replaced_leaves_no_second_agent():
    before = step([AgentPod("a", "gpu-1", "10.1.0.1")]).values()
    between = step([AgentPod("b", "gpu-1")], None, before, 5.0)
    assert between["10.1.0.1:9790"] == ExpectedAgent(Target("10.1.0.1:9790", {"node": "gpu-1"}, "kubernetes"), None)
    assert addresses(step([AgentPod("b", "gpu-1", "10.1.0.2")], None, between.values(), 9.0)) == {
        "gpu-1": "10.1.0.2:9790"
    }


# --- against the wire


@pytest.fixture
async def feed(cluster, monkeypatch):
    """`await feed(expect=…)` follows the cluster; `.targets` and `.errors` have what was told."""
    monkeypatch.setattr(listwatch, "RELIST", 0.05)
    monkeypatch.setattr(kubernetes_feed, "EXPIRY_CHECK", 0.1)
    running = []

    async def start(before=(), **settings):
        settings = {"namespace": "fabricmon", **vars(cluster.access), **settings}
        made = KubernetesFeed(KubernetesConfig(enabled=True, **settings))
        made.expect(before)
        made.targets, made.errors = None, []

        def tell(targets, error):
            made.targets = targets if targets is not None else made.targets
            made.errors.append(error)

        made.task = asyncio.create_task(made.follow(tell))
        running.append(made.task)
        return made

    yield start
    for task in running:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def found(feed):
    return {t.expected_node: t.address for t in feed.targets or ()}


async def test_pods_with_the_agents_labels_are_followed(cluster, feed):
    cluster.put(PODS, agent_pod("gpu-1", "10.0.0.1"))
    cluster.put(PODS, {"metadata": {"name": "other", "labels": {}}, "spec": {"nodeName": "gpu-9"}})
    cluster.put(NODES, node("gpu-1", "10.0.0.1"))
    source = await feed()
    await until(lambda: found(source) == {"gpu-1": "10.0.0.1:9790"})
    cluster.put(PODS, agent_pod("gpu-2", "10.0.0.2"))
    await until(lambda: found(source) == {"gpu-1": "10.0.0.1:9790", "gpu-2": "10.0.0.2:9790"})
    assert source.errors[-1] == ""
    paths = {path for _, path, _ in cluster.asked}
    assert paths == {PODS, NODES}, "nothing else is asked for"
    assert {method for method, _, _ in cluster.asked} == {"GET"}


async def test_a_node_that_vanishes_with_its_pod_is_not_forgotten_at_once(cluster, feed):
    for number in (1, 2):
        cluster.put(PODS, agent_pod(f"gpu-{number}", f"10.0.0.{number}"))
        cluster.put(NODES, node(f"gpu-{number}", f"10.0.0.{number}"))
    source = await feed(keep=Duration(1.5))
    await until(lambda: len(found(source)) == 2)
    cluster.delete(PODS, "agent-gpu-1")
    cluster.delete(NODES, "gpu-1")
    cluster.put(PODS, agent_pod("gpu-3", "10.0.0.3"))
    await until(lambda: "gpu-3" in found(source))
    assert "gpu-1" in found(source)
    await until(lambda: "gpu-1" not in found(source))


async def test_what_was_there_before_a_restart_is_missed(cluster, feed):
    cluster.put(PODS, agent_pod("gpu-2", "10.0.0.2"))
    source = await feed([Target("10.0.0.1:9790", {"node": "gpu-1"}, "kubernetes")])
    await until(lambda: set(found(source)) == {"gpu-1", "gpu-2"})


async def test_without_the_right_to_see_nodes_agents_are_found_and_the_error_is_reported(cluster, feed):
    cluster.forbidden = {("GET", "/nodes")}
    cluster.put(PODS, agent_pod("gpu-1", "10.0.0.1"))
    source = await feed()
    await until(lambda: found(source) == {"gpu-1": "10.0.0.1:9790"})
    assert "is forbidden" in source.errors[-1]
    assert source.placement() is None


async def test_without_the_right_to_see_pods_nothing_is_concluded(cluster, feed):
    cluster.forbidden = {("GET", "/pods")}
    source = await feed([Target("10.0.0.1:9790", {"node": "gpu-1"}, "kubernetes")])
    await until(lambda: source.errors and "is forbidden" in source.errors[-1])
    assert source.targets is None


async def test_outside_a_cluster_the_reason_is_reported(cluster, feed, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    source = await feed(api="cluster")
    await until(lambda: source.errors and "not inside a cluster" in source.errors[-1])


async def test_a_reload_goes_on_from_where_it_was(cluster, feed):
    cluster.put(PODS, agent_pod("gpu-1", "10.0.0.1"))
    source = await feed()
    await until(lambda: cluster.watches and found(source))
    listed = len([query for _, path, query in cluster.asked if path == PODS and "watch" not in query])
    told = []
    again = asyncio.create_task(source.follow(lambda targets, error: told.append(targets)))
    await asyncio.sleep(0.1)
    assert told == [], "the first has not let go"
    source.task.cancel()
    cluster.put(PODS, agent_pod("gpu-2", "10.0.0.2"))
    await until(lambda: told and [t.expected_node for t in told[-1]] == ["gpu-1", "gpu-2"])
    assert len([query for _, path, query in cluster.asked if path == PODS and "watch" not in query]) == listed
    again.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await again


async def test_labels_of_nodes_say_where_they_stand_as_they_are_now(cluster, feed):
    where = {"network.topology.nvidia.com/leaf": "leaf-1", "topology.kubernetes.io/rack": "r1"}
    cluster.put(NODES, node("gpu-1", labels=where))
    cluster.put(NODES, node("gpu-2", labels={"kubernetes.io/hostname": "gpu-2"}))
    source = await feed()
    await until(lambda: source.placement() is not None)
    graph = source.placement()
    assert graph.attached == {"gpu-1": ("leaf-1",)}
    assert graph.hosts == {"gpu-1": {"rack": "r1"}}
    assert source.placement() is graph, "the same as long as the labels are"
    cluster.put(NODES, node("gpu-1", labels=where | {"network.topology.nvidia.com/leaf": "leaf-2"}))
    await until(lambda: source.placement().attached == {"gpu-1": ("leaf-2",)})
    cluster.put(NODES, node("gpu-1"))
    await until(lambda: source.placement() is None)
