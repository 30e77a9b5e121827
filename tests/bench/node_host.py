"""A node of 8 adapters and 8 GPUs that answers as a real one does: files, RDMA netlink, rtnetlink, NVML.

The files are a tree of ours; netlink is answered from it, NVML by a stand-in for libnvidia-ml where one is loaded. What
an answer costs a real kernel or a real adapter is not in it: only our own work is.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fabricmon.collect import netdev_files
from fabricmon.host.live import LiveHost
from fabricmon.host.nvml import Nvml
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort


class NodeHost(LiveHost):
    """`clock`: the node's own, where it is not the machine's."""

    def __init__(self, root: Path, layer: str = "InfiniBand", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(str(root), str(root / "proc"), "host-007")
        self._base = "/sys/class/infiniband"
        self._names = self.list(self._base)
        self._clock = clock
        self.gpus = Nvml()
        for name in self._names if layer == "Ethernet" else ():
            (root / f"class/infiniband/{name}/ports/1/link_layer").write_text("Ethernet\n")

    def monotonic(self) -> float:
        return self._clock()

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        return [RdmaDevice(n, name, 1, "", "", "ib") for n, name in enumerate(self._names)]

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        base = f"{self._base}/{self._names[device]}/ports/{port}"
        state, phys = (int(self.read(f"{base}/{name}", 16).split(b":")[0]) for name in ("state", "phys_state"))
        return RdmaPort(state, phys, 0x10 + device, 1, None)

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        base = f"{self._base}/{self._names[device]}/ports/{port}/hw_counters"
        return {name: int(self.read(f"{base}/{name}", 32)) for name in self.list(base) if name != "lifespan"}

    def links(self) -> builtins.list[Link]:
        return netdev_files.links(self)

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        return lambda: None

    def watch_kmsg(self, tell: object) -> Callable[[], None]:
        raise HostError("/dev/kmsg", 1, "Operation not permitted")


def main(root: str, address: str, judge: str) -> None:
    """An agent with its defaults on such a node."""
    from fabricmon import config
    from fabricmon.agent import app
    from fabricmon.runtime import logs

    # the stand-in polls for Xid errors a hundred times a second, where the driver sleeps until there is one
    overrides = {"agent.listen": [address], "agent.judge": judge == "judge", "collect.gpu.xid": False}
    loaded = config.load(None, overrides, uses=("agent", "collect", "rules", "log"))
    logs.configure(level="error")
    asyncio.run(app.run(loaded, NodeHost(Path(root))))


if __name__ == "__main__":
    main(*sys.argv[1:])
