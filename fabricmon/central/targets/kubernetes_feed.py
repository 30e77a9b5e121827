"""Agents and node locations from the Kubernetes API."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable

from fabricmon.central.targets.discovery import Target
from fabricmon.central.targets.kubernetes_agents import ExpectedAgent, expected
from fabricmon.central.targets.kubernetes_settings import KubernetesConfig
from fabricmon.kubernetes.client import ApiError, KubernetesClient, own_namespace, server
from fabricmon.kubernetes.listwatch import ListWatch
from fabricmon.kubernetes.objects import NODES, AgentPod, KubernetesNode, parse_agent_pod, parse_node
from fabricmon.runtime import logs
from fabricmon.sources.formats.kubernetes import placement
from fabricmon.topology.graph import Graph

EXPIRY_CHECK = 5.0  # seconds between two checks for agents that are no longer expected
NAME = "kubernetes"

Update = Callable[[list[Target] | None, str], None]


class KubernetesFeed:
    """A `discovery.Follower`. Used from the event loop. State stays when `follow` is cancelled, for the next call."""

    name = NAME

    def __init__(self, config: KubernetesConfig) -> None:
        self.config = config
        self._pods: ListWatch[AgentPod] | None = None
        self._nodes: ListWatch[KubernetesNode] | None = None
        self._agents: dict[str, ExpectedAgent] = {}
        self._errors: dict[str, str] = {}
        self._placement: tuple[dict[str, dict[str, str]], Graph | None] = ({}, None)
        self._turn = asyncio.Lock()
        self._log = logs.get(part="kubernetes")
        self._transitions = logs.Transitions(self._log)

    def expect(self, targets: Iterable[Target]) -> None:
        """Agents from before a restart, as if their pods had gone now. No effect after `follow`."""
        if self._pods is not None:
            return
        now = time.monotonic()
        for target in targets:
            self._agents.setdefault(target.address, ExpectedAgent(target, now))

    def placement(self) -> Graph | None:
        """The topology from node labels; the same object while they are unchanged. None: none, or not known yet."""
        if self._nodes is None or not self._nodes.listed:
            return self._placement[1]
        labels = {one.name: one.labels for one in self._nodes.items.values()}
        if labels != self._placement[0]:
            self._placement = (labels, placement(labels, f"central.{NAME}"))
        return self._placement[1]

    async def follow(self, update: Update) -> None:
        """Follow pods and nodes until cancelled. A second call waits for the end of the first."""
        async with self._turn:
            await self._follow(update)

    async def _follow(self, update: Update) -> None:
        client, again = None, 1.0
        while client is None:
            try:
                client = KubernetesClient(
                    server(self.config.api, self.config.token_file, self.config.ca_file), float(self.config.deadline)
                )
                namespace = self.config.namespace or own_namespace()
            except ApiError as error:
                client = None
                update(None, str(error))
                await asyncio.sleep(again)
                again = min(2 * again, float(self.config.retry_max))
        try:
            async with asyncio.TaskGroup() as group:
                self._follow_pods(group, client, namespace, update)
                if self.config.nodes:
                    self._follow_nodes(group, client, update)
                while True:
                    await asyncio.sleep(EXPIRY_CHECK)
                    self._settle(update)
        finally:
            for watch in (self._pods, self._nodes):
                if watch is not None:
                    watch.close()
            await client.close()

    def _follow_pods(self, group: asyncio.TaskGroup, client: KubernetesClient, namespace: str, update: Update) -> None:
        if self._pods is None:
            path = f"/api/v1/namespaces/{namespace}/pods"
            self._pods = ListWatch(client, path, parse_agent_pod, {"labelSelector": self.config.selector})
        self._pods.client = client
        group.create_task(self._keep(self._pods, "pods", update), name="agents' pods")

    def _follow_nodes(self, group: asyncio.TaskGroup, client: KubernetesClient, update: Update) -> None:
        if self._nodes is None:
            self._nodes = ListWatch(client, NODES, parse_node)
        self._nodes.client = client
        group.create_task(self._keep(self._nodes, "nodes", update), name="nodes")

    async def _keep(self, watch: ListWatch[AgentPod] | ListWatch[KubernetesNode], what: str, update: Update) -> None:
        def changed() -> None:
            self._errors.pop(what, None)
            odd = next(iter(watch.odd.values()), "")
            self._transitions.note(
                what, "odd" if odd else "good", f"some {what} cannot be parsed" if odd else f"all {what} can be parsed",
                bad=bool(odd), count=len(watch.odd), first=odd,
            )  # fmt: skip
            self._settle(update)

        def failed(error: str) -> None:
            self._errors[what] = f"{what}: {error}"
            self._settle(update)

        await watch.keep(changed, failed, float(self.config.retry_max), random.Random())

    def _settle(self, update: Update) -> None:
        """Report the expected agents and errors."""
        error = "; ".join(self._errors.values())
        if self._pods is None or not self._pods.listed or (self._nodes and not self._nodes.listed and not error):
            # An incomplete list proves nothing.
            return update(None, error) if error else None
        nodes = {one.name: one for one in self._nodes.items.values()} if self._nodes and self._nodes.listed else None
        agents = expected(
            self._pods.items.values(), nodes, self._agents.values(), self.config.port, float(self.config.keep),
            time.monotonic(), self.name,
        )  # fmt: skip
        for address in sorted(self._agents.keys() - agents.keys()):
            gone = self._agents[address]
            if gone.gone is not None:
                self._log.info("agent no longer expected: its pod is gone", node=gone.node, address=address)
        self._agents = agents
        update([agents[address].target for address in sorted(agents)], error)
        return None
