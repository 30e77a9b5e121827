"""Running jobs from Kubernetes pods, as the API server lists and streams them. Pure.

A pod counts when it requests a device (GPU, RDMA, EFA) and runs on a node. Pods of one job are found by the labels of
job operators, else by the object that owns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from fabricmon.forms.times import wall_time
from fabricmon.jobs.model import MAX_JOBS, Job, ListingError, as_text, budget, host_name

RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/mig-*",
    "nvidia.com/*rdma*",
    "amd.com/gpu",
    "gpu.intel.com/*",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron*",
    "vpc.amazonaws.com/efa*",
    "rdma/*",
)
"""Resources whose pods use the fabric: names of device plugins, `*` matches any characters."""

GROUPS: tuple[tuple[str, ...], ...] = (
    ("jobset.sigs.k8s.io/jobset-name",),
    ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
    ("volcano.sh/job-name",),
    ("training.kubeflow.org/job-name",),
    ("ray.io/cluster",),
    ("kueue.x-k8s.io/pod-group-name",),
    ("batch.kubernetes.io/job-name",),
    ("job-name",),
)
"""Labels that name a pod's job, the outermost first: the Jobs of a JobSet carry its name too. Of a LeaderWorkerSet each
group of a leader and its workers is a job of its own."""

EACH = frozenset({"ReplicaSet", "ReplicationController"})
"""Owners whose pods are independent of each other: each pod is a job of its own."""
SERVICES = frozenset({"DaemonSet", "Node"})
"""Owners whose pods belong to the node, as fabricmon's own agent: no jobs."""

ENDED = frozenset({"Succeeded", "Failed", "Pending"})

MAX_ENVIRONMENT = 2048  # environment variables of one container that are read


class Pod(Struct, frozen=True):
    """The relevant fields of a pod. `job` is the name of its job within the namespace."""

    uid: str
    namespace: str
    job: str
    node: str
    started: float | None = None
    survives: float | None = None
    failover: bool | None = None


def pod(found: Any, resources: Sequence[str] = RESOURCES) -> Pod | str | None:
    """The pod of an API object; None for one that is not relevant, an error text for an invalid one."""
    if not isinstance(found, dict):
        return "a pod is not an object"
    meta, spec, status = (_object(found.get(key)) for key in ("metadata", "spec", "status"))
    name, uid, namespace = as_text(meta.get("name")), as_text(meta.get("uid")), as_text(meta.get("namespace"))
    node = spec.get("nodeName")
    if not isinstance(node, str) or not node or as_text(status.get("phase")) in ENDED:
        return None
    if not name or not (uid := uid or f"{namespace}/{name}"):
        return "a pod has no name"
    containers = [c for key in ("containers", "initContainers") for c in _list(spec.get(key)) if isinstance(c, dict)]
    if not spec.get("resourceClaims") and not any(_asks(c, resources) for c in containers):
        return None
    job = _job(name, meta)
    if job is None:
        return None
    env = _environment(containers)
    failover = env.get("NCCL_IB_RESILIENCY_PORT_FAILOVER")
    return Pod(
        uid=uid,
        namespace=namespace,
        job=job,
        node=host_name(node),
        started=wall_time(status.get("startTime")),
        survives=budget(env),
        failover=None if failover is None else failover != "0",
    )


def jobs(pods: Iterable[Pod]) -> tuple[Job, ...]:
    """The jobs of these pods; a job's nodes are those of its pods, and it began with the newest of them."""
    grouped: dict[tuple[str, str], list[Pod]] = {}
    for one in pods:
        grouped.setdefault((one.namespace, one.job), []).append(one)
    if len(grouped) > MAX_JOBS:
        raise ListingError(f"more than {MAX_JOBS} jobs")
    made = []
    for (namespace, name), members in sorted(grouped.items()):
        starts = [m.started for m in members if m.started is not None]
        budgets = [m.survives for m in members if m.survives is not None]
        failovers = {m.failover for m in members}
        made.append(
            Job(
                id=f"{namespace}/{name}",
                name=name,
                user=namespace,
                nodes=tuple(sorted({m.node for m in members})),
                started=max(starts) if len(starts) == len(members) else None,
                survives=min(budgets) if budgets else None,
                failover=failovers.pop() if len(failovers) == 1 else None,
            )
        )
    return tuple(made)


def _job(name: str, meta: Mapping[str, Any]) -> str | None:
    """Name of the pod's job; None where the pod is no part of one."""
    owner = next((o for o in _list(meta.get("ownerReferences")) if isinstance(o, dict) and o.get("controller")), {})
    kind = as_text(owner.get("kind"))
    if kind in SERVICES:
        return None
    labels = {**_object(meta.get("annotations")), **_object(meta.get("labels"))}
    for keys in GROUPS:
        words = [as_text(labels.get(key)) for key in keys]
        if all(words):
            return "-".join(words)
    if not owner or kind in EACH:
        return name
    return as_text(owner.get("name")) or name


def _asks(container: Mapping[str, Any], resources: Sequence[str]) -> bool:
    asked = _object(container.get("resources"))
    return any(
        fnmatchcase(str(name), pattern) and amount not in ("0", 0)
        for part in ("limits", "requests")
        for name, amount in _object(asked.get(part)).items()
        for pattern in resources
    )


def _environment(containers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for container in containers:
        for variable in _list(container.get("env"))[:MAX_ENVIRONMENT]:
            name, value = _object(variable).get("name"), _object(variable).get("value")
            if isinstance(name, str) and isinstance(value, str) and name.startswith("NCCL_"):
                found.setdefault(name, value)
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
