"""Running jobs out of Kubernetes pods: what the API server lists and what it then tells by WATCH. Pure.

A pod counts when it asks for a device (GPU, RDMA, EFA) and runs on a node. Pods of one job are found by the labels
that job operators put on them, else by the object that owns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from fabricmon.jobs.model import MAX_JOBS, Job, ListingError, budget, host_name, text

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
"""Resources whose pods use the fabric: names of device plugins, `*` stands for any characters."""

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

MAX_ENVIRONMENT = 2048  # environment variables of one pod that are looked at


class Pod(Struct, frozen=True):
    """What of a pod counts. `job` is the name of its job within the namespace."""

    uid: str
    namespace: str
    job: str
    node: str
    started: float | None = None
    survives: float | None = None
    failover: bool | None = None


def pod(found: Any, resources: Sequence[str] = RESOURCES) -> Pod | str | None:
    """The pod of an object of the API; None for one of no interest, words for one that cannot be understood."""
    if not isinstance(found, dict):
        return "a pod that is no object"
    meta, spec, status = (_object(found.get(key)) for key in ("metadata", "spec", "status"))
    name, uid, namespace = text(meta.get("name")), text(meta.get("uid")), text(meta.get("namespace"))
    node = spec.get("nodeName")
    if not isinstance(node, str) or not node or text(status.get("phase")) in ENDED:
        return None
    if not name or not (uid := uid or f"{namespace}/{name}"):
        return "a pod without a name"
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
        started=_time(status.get("startTime")),
        survives=budget(env),
        failover=None if failover is None else failover != "0",
    )


def jobs(pods: Iterable[Pod]) -> tuple[Job, ...]:
    """Pods put together; a job stands where its pods do, and began with the newest of them."""
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
    kind = text(owner.get("kind"))
    if kind in SERVICES:
        return None
    labels = {**_object(meta.get("annotations")), **_object(meta.get("labels"))}
    for keys in GROUPS:
        words = [text(labels.get(key)) for key in keys]
        if all(words):
            return "-".join(words)
    if not owner or kind in EACH:
        return name
    return text(owner.get("name")) or name


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


def _time(value: object) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
