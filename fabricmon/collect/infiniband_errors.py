"""Error counters of InfiniBand ports, and hw_counters of drivers that have counters/ beside them.

Behind `infiniband`, which sees symbol errors and bytes three times as often. What is here counts on in between.
"""

from __future__ import annotations

from msgspec import Struct

from fabricmon.collect.port_counters import Tier
from fabricmon.collect.rdma_counters import Collector
from fabricmon.host.protocol import Host
from fabricmon.units import Duration

NAME = Tier.ERRORS.value


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.infiniband_errors

    enabled     read these counters at all
    interval    between two reads. On mlx5 one costs 8 firmware commands an InfiniBand port, 3 an Ethernet port
    deadline    for one device; after it the device's values are unknown until it answers
    rediscover  between two looks for new devices and files
    netlink     ask for hw_counters over RDMA netlink where the kernel has it
    """

    enabled: bool = True
    interval: Duration = Duration(30)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    netlink: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config, Tier.ERRORS)
