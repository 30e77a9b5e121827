"""Sweep of the InfiniBand fabric: link states and counters of every linked port of every switch and adapter.

One or two agents of a subnet run it; it is off by default. Its rows belong to the agent that swept them; their labels
name the port, its node and its far end. From these the server derives the topology and joins a swept port with the
row from the port's own host. A port that was linked once keeps its row for `keep`. Counters are never reset.
"""

from __future__ import annotations

from fabricmon.collect.collector import CollectorConfig
from fabricmon.units import Duration

NAME = "fabric"


class FabricConfig(CollectorConfig, frozen=True):
    """collect.fabric

    enabled     sweep the fabric from this node; one or two nodes of a subnet should
    interval    between two sweeps (30 s: the pace of vendors' managers for some thirty counters,
                docs/methods.md#pace-of-a-sweep)
    deadline    for one sweep; what is not read by then is unknown
    rediscover  between two walks for new nodes and cables; earlier when a link came up
    device      adapter to send from, "" for the first with an active InfiniBand port
    port        port of that adapter, 0 for the first
    window      outstanding datagrams (8 to 16: more makes switches drop them)
    timeout     for one datagram
    tries       transmissions of an unanswered datagram before its node counts as silent
    keep        how long a node or cable that vanished keeps its rows
    """

    enabled: bool = False
    interval: Duration = Duration(30)
    deadline: Duration = Duration(25)
    device: str = ""
    port: int = 0
    window: int = 16
    timeout: Duration = Duration(0.2)
    tries: int = 3
    keep: Duration = Duration(86400)

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 16:
            raise ValueError("`window` must be between 1 and 16")
        if not 1 <= self.tries <= 10:
            raise ValueError("`tries` must be between 1 and 10")
        if not 0.001 <= self.timeout <= self.deadline / 2:
            raise ValueError("`timeout` must be at least 1ms and at most half of `deadline`")
