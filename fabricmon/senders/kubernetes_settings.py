"""Settings of the sender `kubernetes_node`."""

from __future__ import annotations

import re
from typing import Literal

from fabricmon.model import Severity
from fabricmon.senders.acting import ActingConfig
from fabricmon.senders.settings import check_receiver, check_url
from fabricmon.units import Duration

_TYPE = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class KubernetesNodeConfig(ActingConfig, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `kubernetes_node`: node conditions, and taints if enabled.

    api                 "cluster" inside a pod, or the API server's URL.
    token_file          file with a bearer token, read at each request; "": the service account's.
    ca_file             CA certificates (PEM) to trust; "": the service account's, or the system's.
    condition           type of the condition.
    condition_severity  minimum severity of incidents that set it to False.
    unknown_after       time without reports of an agent until the condition is Unknown.
    heartbeat           time after which an unchanged condition is written again.
    taint               taint nodes with an incident of one of `kinds`, against new pods.
    taint_key           key of the taint; its value is the incident's id.
    taint_effect        NoSchedule or PreferNoSchedule. Not NoExecute: fabricmon ends no jobs.
    """

    kinds: tuple[str, ...] = ()
    undo: bool = True
    period: Duration = Duration(10)
    timeout: Duration = Duration(20)
    api: str = "cluster"
    token_file: str = ""
    ca_file: str = ""
    condition: str = "FabricHealthy"
    condition_severity: Severity = Severity.WARNING
    unknown_after: Duration = Duration(120)
    heartbeat: Duration = Duration(300)
    taint: bool = False
    taint_key: str = "fabricmon.io/fabric-unhealthy"
    taint_effect: Literal["NoSchedule", "PreferNoSchedule"] = "NoSchedule"

    def __post_init__(self) -> None:
        if self.taint or self.kinds:
            super().__post_init__()
        check_receiver(self.timeout, self.match)
        if self.api != "cluster":
            check_url(self.api, "api")
        if not _TYPE.fullmatch(self.condition):
            raise ValueError(f"`condition` must be a word in CamelCase, got {self.condition!r}")
        if not _KEY.fullmatch(self.taint_key):
            raise ValueError(f"`taint_key` must be like example.com/name, got {self.taint_key!r}")
        if not 5 <= self.period <= 3600:
            raise ValueError("`period` must be between 5s and 1h")
        if not 30 <= self.heartbeat <= 86400:
            raise ValueError("`heartbeat` must be between 30s and 1d")
        if self.unknown_after < 10:
            raise ValueError("`unknown_after` must be at least 10s")
