"""Pods put together to jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.jobs import kubernetes
from fabricmon.jobs.kubernetes import Pod
from tests.jobs.made import pod


def jobs(*pods):
    return kubernetes.jobs(p for p in map(kubernetes.pod, pods) if isinstance(p, Pod))


@pytest.mark.parametrize(
    ("labels", "owner", "name"),
    [
        ({"training.kubeflow.org/job-name": "llama"}, ("PyTorchJob", "llama"), "llama"),
        ({"jobset.sigs.k8s.io/jobset-name": "llama", "job-name": "llama-worker-0"}, ("Job", "llama-worker-0"), "llama"),
        ({"volcano.sh/job-name": "llama"}, ("Job", "llama"), "llama"),
        ({"ray.io/cluster": "llama"}, ("RayCluster", "llama"), "llama"),
        ({"kueue.x-k8s.io/pod-group-name": "llama"}, None, "llama"),
        ({"leaderworkerset.sigs.k8s.io/name": "llama", "leaderworkerset.sigs.k8s.io/group-index": "2"},
         ("StatefulSet", "llama-2"), "llama-2"),
        ({"batch.kubernetes.io/job-name": "llama", "job-name": "llama"}, ("Job", "llama"), "llama"),
        ({}, ("StatefulSet", "llama"), "llama"),
    ],
)  # fmt: skip
def test_pods_of_one_job_are_one_job(labels, owner, name):
    made = jobs(*(pod(f"p-{n}", f"gpu{n}.example.com", labels=labels, owner=owner) for n in (2, 1)))
    assert [(job.id, job.user, job.nodes) for job in made] == [(f"team/{name}", "team", ("gpu1", "gpu2"))]


def test_pods_of_a_replica_set_or_of_nobody_are_jobs_of_their_own():
    made = jobs(pod("a", "n1", owner=("ReplicaSet", "web-5d")), pod("b", "n2", owner=("ReplicaSet", "web-5d")),
                pod("c", "n3"))  # fmt: skip
    assert [job.id for job in made] == ["team/a", "team/b", "team/c"]


@pytest.mark.parametrize(
    "resources",
    [{"nvidia.com/gpu": "1"}, {"rdma/hca_shared_devices_a": "1"}, {"vpc.amazonaws.com/efa": "32"},
     {"nvidia.com/mig-3g.40gb": "2"}],
)  # fmt: skip
def test_devices_count(resources):
    assert jobs(pod("a", "n1", resources=resources))


@pytest.mark.parametrize(
    "other",
    [
        pod("a", "n1", resources={"cpu": "8", "memory": "1Gi"}),
        pod("a", "n1", resources={"nvidia.com/gpu": "0"}),
        pod("a", None),
        pod("a", "n1", phase="Succeeded"),
        pod("a", "n1", owner=("DaemonSet", "fabricmon-agent")),
    ],
)
def test_pods_without_a_device_a_node_or_a_job_do_not_count(other):
    assert jobs(other) == ()


def test_a_resource_claim_counts_as_a_device():
    claiming = pod("a", "n1", resources={})
    claiming["spec"]["resourceClaims"] = [{"name": "gpus"}]
    assert jobs(claiming)


def test_one_name_in_two_namespaces_is_two_jobs():
    assert len(jobs(pod("a", "n1", namespace="x"), pod("a", "n1", namespace="y"))) == 2


def test_the_environment_tells_what_an_outage_may_last():
    (job,) = jobs(pod("a", "n1", env={"NCCL_IB_TIMEOUT": "22", "NCCL_IB_RETRY_CNT": "7",
                                      "NCCL_IB_RESILIENCY_PORT_FAILOVER": "1"}))  # fmt: skip
    assert job.survives == pytest.approx(7 * 4.096e-6 * 2**22)
    assert job.failover is True
    (job,) = jobs(pod("a", "n1"))
    assert (job.survives, job.failover) == (None, None)
    (job,) = jobs(pod("a", "n1", env={"NCCL_IB_TIMEOUT": "long"}))
    assert job.survives is None


def test_the_default_budget_is_the_thirty_seconds_of_nccl():
    assert kubernetes.budget({"NCCL_IB_TIMEOUT": "20"}) == pytest.approx(30.06, abs=0.01)


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["metadata", "spec", "status"]), st.data())
def test_odd_pods_never_raise(key, data):
    """One part of a pod, or one field of it, is something else."""
    odd = pod("a", "n1")
    field = data.draw(st.sampled_from([None, *odd[key]]))
    if field is None:
        odd[key] = data.draw(values)
    else:
        odd[key][field] = data.draw(values)
    kubernetes.jobs([p] if isinstance(p := kubernetes.pod(odd), Pod) else [])
