"""A node of 8 adapters and 8 GPUs that answers as a real one does: files, RDMA netlink, ethtool, rtnetlink, NVML.

The files are a tree of ours; netlink is answered from it, ethtool and dcbnl with what mlx5 tells of a port, NVML by a
stand-in for libnvidia-ml where one is loaded. What an answer costs a real kernel or a real adapter is not in it: only
our own work is.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fabricmon.collect.machine import netdev_files
from fabricmon.host.live import LiveHost
from fabricmon.host.nvml import Nvml
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause
from fabricmon.host.protocol.not_asked import NotAsked
from tests.collect.modules import cmis

PRIORITIES = range(8)
STATISTICS = (
    *(f"{way}_{what}_phy" for way in ("rx", "tx") for what in ("packets", "bytes", "discards", "pause_ctrl")),
    *(f"{way}_prio{n}_{what}" for n in PRIORITIES for way in ("rx", "tx") for what in ("packets", "bytes")),
    *(f"rx_prio{n}_{what}" for n in PRIORITIES for what in ("discards", "buf_discard", "cong_discard", "marked")),
    *(f"{way}_prio3_{what}" for way in ("rx", "tx") for what in ("pause", "pause_duration")),
    "rx_prio3_pause_transition", "link_down_events_phy", "rx_crc_errors_phy", "rx_symbol_err_phy",
    "rx_pcs_symbol_err_phy", "rx_corrected_bits_phy", *(f"rx_err_lane_{n}_phy" for n in range(4)),
    *(f"{way}_vport_rdma_unicast_{what}" for way in ("rx", "tx") for what in ("packets", "bytes")),
    *(f"{way}{n}_{what}" for way in ("rx", "tx") for n in range(64) for what in ("packets", "bytes", "csum_none")),
)  # fmt: skip
"""Names of an mlx5 port with PFC on priority 3 and 64 pairs of rings."""


class Mlx5Interfaces(NotAsked):
    """Answers each question that mlx5 answers, so that each costs what it costs there; the module is an optical one."""

    def __init__(self) -> None:
        super().__init__("no lldpd on this node")
        self._module = cmis()

    def statistics_names(self, name: str) -> tuple[str, ...]:
        return STATISTICS

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        return tuple(range(count))

    def standard_statistics(self, name: str) -> dict[str, int]:
        return {"FrameCheckSequenceErrors": 0, "SymbolErrorDuringCarrier": 0}

    def fec(self, name: str) -> Fec:
        return Fec(active=74, corrected=(1000,), uncorrectable=(0,), corrected_bits=(1200,))

    def link_state(self, name: str) -> LinkState:
        return LinkState(link=True, downs=1)

    def pause(self, name: str) -> Pause:
        return Pause(False, False, False)

    def dcb(self, name: str) -> Dcb:
        return Dcb(dcbx=4, pfc_classes=8, pfc_enabled=8, class_of=tuple(PRIORITIES), bandwidth=(12,) * 7 + (16,),
                   algorithm=(2,) * 8, apps=((5, 26, 3),))  # fmt: skip

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        return self._module(page, offset, length, address)


class NodeHost(LiveHost):
    """`clock`: the node's own, where it is not the machine's."""

    def __init__(self, root: Path, layer: str = "InfiniBand", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(str(root), str(root / "proc"), "host-007")
        self._base = "/sys/class/infiniband"
        self._names = self.list(self._base)
        self._clock = clock
        self.gpus = Nvml()
        self.interfaces = Mlx5Interfaces()
        for name in self._names:
            (root / f"class/infiniband/{name}/ports/1/link_layer").write_text(f"{layer}\n")
        for file in root.glob("class/net/*/ifindex"):
            file.with_name("type").write_text("1\n" if layer == "Ethernet" else "32\n")

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

    def watch_links(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        return lambda: None

    def watch_kmsg(self, notify: object) -> Callable[[], None]:
        raise HostError("/dev/kmsg", 1, "Operation not permitted")


def main(root: str, address: str, evaluator: str) -> None:
    """An agent with its defaults on such a node, with the imports of an installed one."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as `fabricmon agent`
    for name in ("rich", "pygments"):  # structlog imports them where they are: on a developer's machine
        sys.modules[name] = None  # type: ignore[assignment]
    from fabricmon import config
    from fabricmon.agent import app
    from fabricmon.runtime import logs

    # the stand-in polls for Xid errors a hundred times a second, where the driver sleeps until there is one
    overrides = {"agent.listen": [address], "agent.evaluate": evaluator == "agent", "collect.gpu.xid": False}
    rules = ("rules",) if evaluator == "agent" else ()
    loaded = config.load(None, overrides, uses=("agent", "collect", *rules, "log"))
    logs.configure(level="error")
    asyncio.run(app.run(loaded, NodeHost(Path(root))))


if __name__ == "__main__":
    main(*sys.argv[1:])
