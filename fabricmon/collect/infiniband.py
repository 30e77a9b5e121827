"""The counters of RDMA ports that are wanted often: bytes, symbol errors and waiting.

Of a driver that has no counters/ (EFA, bnxt_re, irdma, soft RoCE) all hw_counters: they are its bytes and errors, too.
Of an Ethernet port bytes only: its errors come with `roce` and `ethernet_phy`.
"""

from __future__ import annotations

from msgspec import Struct

from fabricmon.collect.port_counters import Tier
from fabricmon.collect.rdma_counters import Collector
from fabricmon.host.protocol import Host
from fabricmon.units import Duration

NAME = Tier.FAST.value


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.infiniband

    enabled     read these counters at all
    interval    between two reads. Each file of counters/ costs an adapter one firmware command (counters-ib.md 5.1)
    deadline    for one device; after it the device's values are unknown until it answers
    rediscover  between two looks for new devices and files
    netlink     ask for hw_counters over RDMA netlink where the kernel has it
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    netlink: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config, Tier.FAST)
