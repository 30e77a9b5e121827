"""The rest of counters/ of RDMA ports: packets by sort, partition and management errors, errors of an earlier hop.

No rule looks at them; people do. Of an Ethernet port also the error counters, which `roce` and `ethernet_phy` have from
the physical port itself.
"""

from __future__ import annotations

from msgspec import Struct

from fabricmon.collect.port_counters import Tier
from fabricmon.collect.rdma_counters import Collector
from fabricmon.host.protocol import Host
from fabricmon.units import Duration

NAME = Tier.RARE.value


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.infiniband_rare

    enabled     read these counters at all
    interval    between two reads. On mlx5 one costs 11 firmware commands an InfiniBand port, 18 an Ethernet port
    deadline    for one device; after it the device's values are unknown until it answers
    rediscover  between two looks for new devices and files
    netlink     ask for hw_counters over RDMA netlink where the kernel has it
    """

    enabled: bool = True
    interval: Duration = Duration(120)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    netlink: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config, Tier.RARE)
