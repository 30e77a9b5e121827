"""The manifests and a real server against a real Kubernetes API (etcd, kube-apiserver, RBAC on):

    python -m tests.kubernetes PATH/kube-apiserver        about two minutes; tests/rigs/kube/build builds the program

Agents are stand-ins that speak the real stream; nodes and pods are objects that nothing runs. Prints what it saw.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import tempfile
import time
import urllib.request
from array import array
from pathlib import Path
from typing import Any

import yaml

from tests.central.streams import FakeAgent
from tests.rigs import kustomize
from tests.rigs.daemons import free_port
from tests.rigs.kube.server import Server, running
from tests.rigs.report import NotSo, seen

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
DOWN = {"gpu-1": 0, "gpu-2": 3}  # of two rails, so that they are two faults
ACCOUNT = "system:serviceaccount:fabricmon:fabricmon-central"
MAY = (
    ("list", "pods", "fabricmon"), ("watch", "pods", "fabricmon"), ("list", "nodes", ""), ("watch", "nodes", ""),
    ("patch", "nodes/status", ""), ("patch", "nodes", ""),
)  # fmt: skip
MAY_NOT = (
    ("get", "pods", "fabricmon"), ("list", "pods", "default"), ("delete", "pods", "fabricmon"), ("get", "nodes", ""),
    ("update", "nodes", ""), ("delete", "nodes", ""), ("update", "nodes/status", ""), ("list", "secrets", "fabricmon"),
    ("create", "pods/exec", "fabricmon"), ("get", "configmaps", "fabricmon"), ("create", "events", "default"),
)  # fmt: skip


def say(text: str) -> None:
    print(text, flush=True)


async def until(what: str, check: Any, within: float = 60.0) -> Any:
    """Wait for a truthy answer and say how long it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < within:
        try:
            found = await asyncio.to_thread(check)
        except (OSError, KeyError, IndexError):
            found = None
        if found:
            seen(what, True, f"after {time.monotonic() - begun:.1f} s")
            return found
        await asyncio.sleep(0.3)
    raise NotSo(f"{what}: not within {within:g} s")


# ---------------------------------------------------------------- the cluster's objects


def apply(server: Server, directory: Path, *components: str) -> None:
    overlay = directory / f"overlay-{len(components)}"
    overlay.mkdir()
    parts = [os.path.relpath(DEPLOY / "components" / c, overlay) for c in components]
    text = {"namespace": "fabricmon", "resources": [os.path.relpath(DEPLOY / "base", overlay)], "components": parts}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(text))
    objects = "---\n".join(yaml.safe_dump(o) for o in kustomize.rendered(overlay))
    say("\n".join(f"  {line}" for line in server.kubectl("apply", "-f", "-", stdin=objects).splitlines()))


def add_node(server: Server, name: str, address: str) -> None:
    labels = {"topology.kubernetes.io/zone": "hall-1", "topology.kubernetes.io/rack": f"rack-{name[-1]}"}
    thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    server.kubectl("create", "-f", "-", stdin=json.dumps(thing))
    status = {"status": {
        "addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }}  # fmt: skip
    patch_status(server, f"/api/v1/nodes/{name}/status", status)


def add_pod(server: Server, node: str, address: str) -> None:
    thing = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"fabricmon-agent-{node}", "namespace": "fabricmon", "labels": {
            "app.kubernetes.io/name": "fabricmon", "app.kubernetes.io/component": "agent"}},
        "spec": {"nodeName": node, "hostNetwork": True, "containers": [{"name": "agent", "image": "fabricmon"}]},
    }  # fmt: skip
    server.kubectl("create", "-f", "-", stdin=json.dumps(thing))
    patch_status(server, f"/api/v1/namespaces/fabricmon/pods/fabricmon-agent-{node}/status",
                 {"status": {"phase": "Running", "podIP": address, "hostIP": address}})  # fmt: skip


def patch_status(server: Server, path: str, body: dict[str, Any]) -> None:
    """As a kubelet would."""
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), method="PATCH",
        headers={"Authorization": "Bearer administrator", "Content-Type": "application/strategic-merge-patch+json"},
    )  # fmt: skip
    trusted = ssl.create_default_context(cafile=str(server.ca))
    urllib.request.urlopen(request, context=trusted, timeout=10).read()


def condition(server: Server, node: str) -> dict[str, str]:
    found = server.get("node", node)["status"].get("conditions", [])
    return next((c for c in found if c["type"] == "FabricHealthy"), {})


def taint(server: Server, node: str) -> str:
    found = server.get("node", node)["spec"].get("taints", [])
    return next((f"{t['key']}={t['value']}:{t['effect']}" for t in found if t["key"].startswith("fabricmon")), "")


# ---------------------------------------------------------------- the server


class CentralServer:
    """A real one, as a process of its own."""

    def __init__(self, server: Server, directory: Path, agents: int, dry_run: bool = False) -> None:
        self.directory, self.port = directory, free_port()
        token = directory / "token"
        token.write_text(server.token("fabricmon", "fabricmon-central"))
        access = {"api": server.url, "token_file": str(token), "ca_file": str(server.ca)}
        config = {
            "central": {
                "listen": [f"127.0.0.1:{self.port}"], "state": str(directory / "state"),
                "kubernetes": {"enabled": True, "namespace": "fabricmon", "port": agents, "keep": "20s", **access},
            },
            "senders": {"nodes": {
                "kind": "kubernetes_node", "dry_run": dry_run, "period": "5s", "unknown_after": "10s", "taint": True,
                "kinds": ["link_down"], "min_severity": "warning", "min_confidence": 0.5, "hold": "1s", "calm": "5s",
                **access,
            }},
        }  # fmt: skip
        (directory / "fabricmon.yaml").write_text(yaml.safe_dump(config))
        self.log = directory / "central.log"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fabricmon.cli", "central", "--config", str(self.directory / "fabricmon.yaml"),
                stdout=log, stderr=log, cwd=ROOT,
            )  # fmt: skip

    async def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(how)
            await self.process.wait()
        if self.process is not None:
            say(f"  the server ended with {self.process.returncode}")

    def ask(self, path: str) -> Any:
        return json.loads(self.read(path))

    def read(self, path: str) -> str:
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5).read().decode()

    def presences(self) -> dict[str, str]:
        return {n["node"]: n["presence"] for n in self.ask("/api/v1/nodes")["nodes"]}


# ---------------------------------------------------------------- what is shown


async def show(server: Server, directory: Path) -> None:
    version = json.loads(server.kubectl("get", "--raw", "/version"))
    say(f"kube-apiserver {version['gitVersion']} built with {version['goVersion']} for {version['platform']}")
    say("base, node-condition and node-taint, applied:")
    apply(server, directory, "node-condition", "node-taint")
    rights(server)

    port = free_port()
    agents = {}
    for number, name in enumerate(NODES, 1):
        address = f"127.0.7.{number}"
        add_node(server, name, address)
        add_pod(server, name, address)
        agents[name] = await FakeAgent(name).start(port, address)
    central = CentralServer(server, directory, port)
    try:
        await scenes(server, central, agents)
    finally:
        await central.stop()
        for agent in agents.values():
            await agent.stop()
    say("the server's log:")
    lines = central.log.read_text().splitlines()
    say("\n".join(f"  {line}" for line in lines if "part=kubernetes" in line or "part=acting" in line))


def rights(server: Server) -> None:
    say(f"rights of {ACCOUNT}:")
    for expected, table in (("yes", MAY), ("no", MAY_NOT)):
        for verb, resource, namespace in table:
            said = can_i(server, ACCOUNT, verb, resource, namespace)
            what = f"{verb} {resource}{f' in {namespace}' if namespace else ''}"
            seen(what, said.split()[0] == expected, said.strip())
    agent = can_i(server, ACCOUNT.replace("central", "agent"), "list", "pods", "fabricmon")
    seen("list pods in fabricmon, as the agent", agent.split()[0] == "no", agent.strip())


def can_i(server: Server, account: str, verb: str, resource: str, namespace: str) -> str:
    """What kubectl answers; a server that has just started takes a moment until its own roles stand."""
    where = ["-n", namespace] if namespace else []
    for _ in range(40):
        said = server.kubectl("auth", "can-i", verb, resource, f"--as={account}", *where, check=False)
        if not said.startswith("Error"):
            return said
        time.sleep(0.5)
    raise NotSo(said)


async def scenes(server: Server, central: CentralServer, agents: dict[str, FakeAgent]) -> None:
    say("a server with the service account's token:")
    await central.start()
    await until("all agents are found by their pods and live",
                lambda: central.presences() == dict.fromkeys(NODES, "live"))  # fmt: skip
    await until("every node has FabricHealthy=True",
                lambda: all(condition(server, n).get("status") == "True" for n in NODES))  # fmt: skip
    since = condition(server, "gpu-1")["lastTransitionTime"]
    await until("node labels are in the topology", lambda: "hall-1" in json.dumps(central.ask("/api/v1/topology")))

    say("a link goes down on two nodes; one node may be tainted:")
    for name, link in DOWN.items():
        set_link(agents[name], link, up=False)
        await agents[name].say()
    await until("gpu-1 and gpu-2 have FabricHealthy=False",
                lambda: all(condition(server, n)["status"] == "False" for n in ("gpu-1", "gpu-2")))  # fmt: skip
    say(f"  {json.dumps(condition(server, 'gpu-1'))}")
    marked = await until("one of them is tainted", lambda: [t for n in NODES if (t := taint(server, n))])
    await asyncio.sleep(6)
    marked = [f"{n} {t}" for n in NODES if (t := taint(server, n))]
    seen("and no other after another round", len(marked) == 1, marked)

    say("an agent stops; its node's pod and the node vanish:")
    await agents["gpu-3"].stop()
    await until("gpu-3 has FabricHealthy=Unknown", lambda: condition(server, "gpu-3")["status"] == "Unknown")
    say(f"  {json.dumps(condition(server, 'gpu-3'))}")
    server.kubectl("-n", "fabricmon", "delete", "pod", "fabricmon-agent-gpu-3", "--force", "--grace-period=0")
    server.kubectl("delete", "node", "gpu-3")
    await asyncio.sleep(5)
    presences = central.presences()
    seen("5 s later it is still expected", "gpu-3" in presences, presences)
    await until("after `keep` it is forgotten", lambda: "gpu-3" not in central.presences())

    say("the server is killed and started anew:")
    before = {n: (condition(server, n), taint(server, n)) for n in ("gpu-1", "gpu-2", "gpu-4")}
    await central.stop(signal.SIGKILL)
    await central.start()
    await until("agents are live again", lambda: central.presences().get("gpu-1") == "live")
    await asyncio.sleep(12)
    after = {n: (condition(server, n), taint(server, n)) for n in before}
    seen("12 s later every condition and taint is what it was, heartbeats too", before == after,
         "" if before == after else f"{before} {after}")  # fmt: skip

    say("the links come back:")
    for name, link in DOWN.items():
        set_link(agents[name], link, up=True)
        await agents[name].say()
    await until("conditions are True again",
                lambda: all(condition(server, n)["status"] == "True" for n in ("gpu-1", "gpu-2")), 180)  # fmt: skip
    await until("and no node is tainted", lambda: not any(taint(server, n) for n in ("gpu-1", "gpu-2")), 60)
    say(f"  lastTransitionTime of gpu-1: {since} -> {condition(server, 'gpu-1')['lastTransitionTime']}")
    say(f"  field managers: {sorted({m['manager'] for m in managed(server)})}")

    say("the right to set conditions is taken away:")
    server.kubectl("delete", "clusterrolebinding", "fabricmon-node-condition")
    await agents["gpu-4"].stop()
    await until("the page says what is refused",
                lambda: "forbidden" in central.read("/"))  # fmt: skip


def set_link(agent: FakeAgent, link: int, up: bool) -> None:
    agent.values[4 * link : 4 * link + 4] = array("d", [4.0, 5.0, 1.0, 50e9] if up else [1.0, 2.0, 1.0, 50e9])


def managed(server: Server) -> list[dict[str, Any]]:
    node = json.loads(server.kubectl("get", "node", "gpu-1", "-o", "json", "--show-managed-fields"))
    return node["metadata"]["managedFields"]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running(Path(sys.argv[1]).resolve(), directory / "kube") as server:
            try:
                asyncio.run(show(server, directory))
            except NotSo as error:
                print(f"FAILED: {error}", file=sys.stderr)
                log = directory / "central.log"
                print(log.read_text()[-4000:] if log.exists() else "", file=sys.stderr)
                return 1
    say("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
