"""Jobs from Kubernetes: running pods, by LIST and WATCH."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabricmon.central.jobs.settings import KubernetesJobs
from fabricmon.central.jobs.source import JobsError
from fabricmon.forms.decoding import any_json
from fabricmon.jobs.kubernetes import Pod, jobs, pod
from fabricmon.jobs.model import MAX_ODD, Listing
from fabricmon.kubernetes.client import ApiError, KubernetesClient, server
from fabricmon.kubernetes.listwatch import RELIST, ListWatch


class PodSource:
    """Pods of one namespace, "" all."""

    def __init__(self, config: KubernetesJobs, namespace: str, deadline: float, stale_after: float) -> None:
        self.config, self.namespace, self.deadline = config, namespace, float(deadline)
        self.name = f"kubernetes {namespace}" if namespace else "kubernetes"
        self.period = RELIST
        # An idle watch is renewed before it is stale, which shows that the API server responds.
        self._watch = float(stale_after) / 3
        self._pods: ListWatch[Pod] | None = None

    def close(self) -> None:
        if self._pods is not None:
            self._pods.close()

    async def follow(self, deliver: Callable[[Listing], None]) -> None:
        try:
            client = KubernetesClient(
                server(self.config.api, self.config.token_file, self.config.ca_file), self.deadline
            )
            try:
                pods = self._followed(client)
                await pods.follow(lambda: deliver(_listing(pods)))
            finally:
                await client.close()
        except ApiError as error:
            raise JobsError(str(error)) from error

    def _followed(self, client: KubernetesClient) -> ListWatch[Pod]:
        """The known pods, with this client from now on."""
        if self._pods is None:
            path = f"/api/v1/namespaces/{self.namespace}/pods" if self.namespace else "/api/v1/pods"
            running = {"fieldSelector": "status.phase=Running"}
            self._pods = ListWatch(client, path, self._read, running, self._watch)
        self._pods.client = client
        return self._pods

    def _read(self, raw: Any) -> Pod | None:
        found = pod(any_json(raw), self.config.resources)
        if isinstance(found, str):
            raise ValueError(found)
        return found


def _listing(pods: ListWatch[Pod]) -> Listing:
    return Listing(jobs(pods.items.values()), tuple(pods.odd.values())[:MAX_ODD], len(pods.odd))
