"""Settings of `agent:` in the configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.runtime.address import parse_address
from fabricmon.web.settings import WebConfig


class PathConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Mount points of the machine's sysfs and procfs, as in node_exporter; elsewhere in a container.

    sysfs   mount point of sysfs.
    procfs  mount point of procfs.
    """

    sysfs: str = "/sys"
    procfs: str = "/proc"

    def __post_init__(self) -> None:
        for name in ("sysfs", "procfs"):
            if not getattr(self, name).startswith("/"):
                raise ValueError(f"`{name}` is not an absolute path: {getattr(self, name)!r}")


class AgentConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The agent.

    listen        addresses of /metrics, /stream and /health: "HOST:PORT", "[::]:9790" or ":9790".
    node          name of this node in the fleet; "" is the host name.
    path          roots of sysfs and procfs.
    exclude       devices that no collector reads: RDMA devices, interfaces or PCI addresses, with wildcards:
                  ["mlx5_1[0-3]", "0000:05:00.*"]. For the adapters of HGX B200/B300 that serve the fabric manager.
    evaluate      evaluate this node's own rows every second, for /health and `fabricmon check`. Without it only the
                  server evaluates rules, and the agent needs no NumPy (18 of 70 MiB).
    max_streams   readers of /stream at one time; a further one is refused. One peer gets at most half of them, but two.
    max_events    newest kernel events that are kept for a server that reconnects.
    probe         active probing between adapters, off by default.
    web           security of the listener.
    """

    listen: tuple[str, ...] = ("0.0.0.0:9790",)
    node: str = ""
    path: PathConfig = PathConfig()
    exclude: tuple[str, ...] = ()
    evaluate: bool = True
    max_streams: Annotated[int, Meta(ge=1, le=256)] = 8
    max_events: Annotated[int, Meta(ge=1, le=65536)] = 1024
    probe: AgentProbeConfig = AgentProbeConfig()
    web: WebConfig = WebConfig()

    def __post_init__(self) -> None:
        if not self.listen:
            raise ValueError("`listen` names no address")
        for address in self.listen:
            parse_address(address)
