"""Sources of running jobs: `central.jobs`."""

from __future__ import annotations

from msgspec import Struct

from fabricmon.jobs.kubernetes import RESOURCES
from fabricmon.jobs.model import STALE_AFTER, SURVIVES
from fabricmon.units import Duration


class SlurmJobs(Struct, forbid_unknown_fields=True, frozen=True):
    """Slurm, by a command on this machine or by slurmrestd. Off while both are empty.

    command     prints jobs as JSON: [squeue, --json, "--states=R"] or [scontrol, show, jobs, --json]; no shell.
    url         of slurmrestd: "http://slurm:6820", "https://...", "unix:///run/slurmrestd.sock".
    user        X-SLURM-USER-NAME for slurmrestd, where the token is of another user.
    token_file  file with a JSON web token for slurmrestd ("scontrol token lifespan=..."); read at each request.
    ca_file     CA certificates (PEM) to trust instead of the system's.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    user: str = ""
    token_file: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        if self.command and not all(self.command):
            raise ValueError("`command` has an empty word")
        if self.command and self.url:
            raise ValueError("either `command` or `url`, not both")
        if self.url and not self.url.startswith(("http://", "https://", "unix:///")):
            raise ValueError(f"`url` must be http://..., https://... or unix:///..., got {self.url!r}")


class KubernetesJobs(Struct, forbid_unknown_fields=True, frozen=True):
    """Pods with GPU or RDMA devices, by LIST and WATCH of the API server. Off while `api` is empty.

    api         "cluster" inside a pod (its service account's token and CA), or the server's URL.
    token_file  file with a bearer token; read at each request, so that it can be rotated.
    ca_file     CA certificates (PEM) to trust instead of the system's.
    namespaces  empty: all.
    resources   names of device resources whose pods use the fabric, `*` for any characters.
    """

    api: str = ""
    token_file: str = ""
    ca_file: str = ""
    namespaces: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES

    def __post_init__(self) -> None:
        if self.api not in ("", "cluster") and not self.api.startswith(("http://", "https://")):
            raise ValueError(f"`api` must be \"cluster\", http://... or https://..., got {self.api!r}")
        if self.api and not self.resources:
            raise ValueError("`resources` is empty: no pod would match")


class JobsConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Sources of running jobs, for the affected jobs of an incident.

    files        files of the form of docs/jobs.md, read again when they change.
    period       between two requests to Slurm.
    deadline     of one request.
    retry_max    longest pause after failures; the first is a second, each next one twice as long, 50..100 % jitter.
    stale_after  a source without an answer for so long is stale, and its jobs are ignored.
    survives     outage that the communication of a job survives, unless the job specifies it.
    """

    slurm: SlurmJobs = SlurmJobs()
    kubernetes: KubernetesJobs = KubernetesJobs()
    files: tuple[str, ...] = ()
    period: Duration = Duration(30)
    deadline: Duration = Duration(20)
    retry_max: Duration = Duration(60)
    stale_after: Duration = Duration(STALE_AFTER)
    survives: Duration = Duration(SURVIVES)

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError("`period` is below 1s")
        if self.deadline <= 0 or self.retry_max < 1:
            raise ValueError("`deadline` must be above 0 and `retry_max` at least 1s")
        if self.stale_after < 2 * self.period:
            raise ValueError("`stale_after` must be at least two periods, or one late answer makes all jobs unknown")
        if self.survives <= 0:
            raise ValueError("`survives` must be above 0")
