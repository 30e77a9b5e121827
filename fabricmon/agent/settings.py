"""What an agent is told by `agent:` in the configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.runtime.address import parse_address
from fabricmon.web.settings import WebConfig


class PathConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Where the machine's own file systems are seen, as in node_exporter; in a container they are mounted elsewhere."""

    sysfs: str = "/sys"
    procfs: str = "/proc"

    def __post_init__(self) -> None:
        for name in ("sysfs", "procfs"):
            if not getattr(self, name).startswith("/"):
                raise ValueError(f"`{name}` is not an absolute path")


class AgentConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The agent.

    listen        addresses of /metrics, /stream and /health: "HOST:PORT", "[::]:9790" or ":9790".
    node          name of this node in the fleet; "" is the host name.
    path          roots of sysfs and procfs.
    exclude       devices no collector may touch: names of RDMA devices or interfaces, or PCI addresses, with wildcards:
                  ["mlx5_1[0-3]", "0000:05:00.*"]. For the adapters of HGX B200/B300 that serve the fabric manager.
    judge         judge this node's own rows every second, for /health and `fabricmon check`. Without it only the
                  centre judges, and the agent does without NumPy (14 of 60 MiB).
    max_streams   centres (or other readers of /stream) at one time; a further one is refused, and one beyond half of
                  them (two at least) to one peer.
    max_events    newest kernel events that are kept for a centre that comes back.
    web           security of the listener.
    """

    listen: tuple[str, ...] = ("0.0.0.0:9790",)
    node: str = ""
    path: PathConfig = PathConfig()
    exclude: tuple[str, ...] = ()
    judge: bool = True
    max_streams: Annotated[int, Meta(ge=1, le=256)] = 8
    max_events: Annotated[int, Meta(ge=1, le=65536)] = 1024
    web: WebConfig = WebConfig()

    def __post_init__(self) -> None:
        if not self.listen:
            raise ValueError("`listen` names no address")
        for address in self.listen:
            parse_address(address)
