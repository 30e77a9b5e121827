"""What the centre learns from the Kubernetes API while it runs: where its agents are, and where nodes stand."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable

from fabricmon.central.kubernetes_agents import Expected, expected
from fabricmon.central.kubernetes_settings import KubernetesConfig
from fabricmon.central.targets import Target
from fabricmon.kubernetes.client import ApiError, Client, own_namespace, server
from fabricmon.kubernetes.listwatch import ListWatch
from fabricmon.kubernetes.objects import NODES, AgentPod, Node, agent_pod, node
from fabricmon.runtime import logs
from fabricmon.sources.kubernetes import placement
from fabricmon.topology.graph import Graph

LOOK = 5.0  # seconds between two looks at who is to be forgotten
NAME = "kubernetes"

Tell = Callable[[list[Target] | None, str], None]


class KubernetesFeed:
    """A source of targets that tells of itself (`targets.Follower`). Used from the event loop.

    What is known stays when `follow` is cancelled; the next one goes on from there.
    """

    name = NAME

    def __init__(self, config: KubernetesConfig) -> None:
        self.config = config
        self._pods: ListWatch[AgentPod] | None = None
        self._nodes: ListWatch[Node] | None = None
        self._agents: dict[str, Expected] = {}
        self._errors: dict[str, str] = {}
        self._placement: tuple[dict[str, dict[str, str]], Graph | None] = ({}, None)
        self._turn = asyncio.Lock()
        self._log = logs.get(part="kubernetes")
        self._transitions = logs.Transitions(self._log)

    def expect(self, targets: Iterable[Target]) -> None:
        """Agents there were before a restart: as if their pods had gone just now. Of no effect once it was followed."""
        if self._pods is not None:
            return
        now = time.monotonic()
        for target in targets:
            self._agents.setdefault(target.address, Expected(target, now))

    def placement(self) -> Graph | None:
        """What the nodes' labels say of where they stand; the same object as long as they say the same. None: nothing,
        or not known yet."""
        if self._nodes is None or not self._nodes.listed:
            return self._placement[1]
        labels = {one.name: one.labels for one in self._nodes.items.values()}
        if labels != self._placement[0]:
            self._placement = (labels, placement(labels, f"central.{NAME}"))
        return self._placement[1]

    async def follow(self, tell: Tell) -> None:
        """Follow pods and nodes until cancelled. One at a time: the next begins when the one before has let go."""
        async with self._turn:
            await self._follow(tell)

    async def _follow(self, tell: Tell) -> None:
        client, again = None, 1.0
        while client is None:
            try:
                client = Client(
                    server(self.config.api, self.config.token_file, self.config.ca_file), float(self.config.deadline)
                )
                namespace = self.config.namespace or own_namespace()
            except ApiError as error:
                client = None
                tell(None, str(error))
                await asyncio.sleep(again)
                again = min(2 * again, float(self.config.retry_max))
        try:
            async with asyncio.TaskGroup() as group:
                self._follow_pods(group, client, namespace, tell)
                if self.config.nodes:
                    self._follow_nodes(group, client, tell)
                while True:
                    await asyncio.sleep(LOOK)
                    self._settle(tell)
        finally:
            for watch in (self._pods, self._nodes):
                if watch is not None:
                    watch.close()
            await client.close()

    def _follow_pods(self, group: asyncio.TaskGroup, client: Client, namespace: str, tell: Tell) -> None:
        if self._pods is None:
            path = f"/api/v1/namespaces/{namespace}/pods"
            self._pods = ListWatch(client, path, agent_pod, {"labelSelector": self.config.selector})
        self._pods.client = client
        group.create_task(self._keep(self._pods, "pods", tell), name="agents' pods")

    def _follow_nodes(self, group: asyncio.TaskGroup, client: Client, tell: Tell) -> None:
        if self._nodes is None:
            self._nodes = ListWatch(client, NODES, node)
        self._nodes.client = client
        group.create_task(self._keep(self._nodes, "nodes", tell), name="nodes")

    async def _keep(self, watch: ListWatch[AgentPod] | ListWatch[Node], what: str, tell: Tell) -> None:
        def told() -> None:
            self._errors.pop(what, None)
            odd = next(iter(watch.odd.values()), "")
            self._transitions.tell(
                what, "odd" if odd else "good", f"some {what} cannot be understood" if odd else f"all {what} are read",
                bad=bool(odd), count=len(watch.odd), first=odd,
            )  # fmt: skip
            self._settle(tell)

        def failed(error: str) -> None:
            self._errors[what] = f"{what}: {error}"
            self._settle(tell)

        await watch.keep(told, failed, float(self.config.retry_max), random.Random())

    def _settle(self, tell: Tell) -> None:
        """Tell who is expected now, and what is wrong."""
        error = "; ".join(self._errors.values())
        if self._pods is None or not self._pods.listed or (self._nodes and not self._nodes.listed and not error):
            # Of a list that is not whole nothing may be concluded.
            return tell(None, error) if error else None
        nodes = {one.name: one for one in self._nodes.items.values()} if self._nodes and self._nodes.listed else None
        agents = expected(
            self._pods.items.values(), nodes, self._agents.values(), self.config.port, float(self.config.keep),
            time.monotonic(), self.name,
        )  # fmt: skip
        for address in sorted(self._agents.keys() - agents.keys()):
            gone = self._agents[address]
            if gone.gone is not None:
                self._log.info("an agent is expected no more: its pod has gone", node=gone.node, address=address)
        self._agents = agents
        tell([agents[address].target for address in sorted(agents)], error)
        return None
