"""Packets from one port to one peer, sent and lost: counters of queue pairs, or of a prober.

A row is one flow (model.Component). Evidence of level L2 where its path is known (docs/methods.md#evidence-levels).
"""

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind


def _row(name: str, category: Category, key: str, help: str) -> Counter:
    return Counter(name, Kind.FLOW, "", 64, Growth.WRAPS, category, "flow", (key,), help, window=True, family=key)


COUNTERS: tuple[Counter, ...] = (
    _row("flow_packets", Category.TRAFFIC, "packets", "Packets sent to the peer, probes or payload"),
    _row("flow_lost", Category.RETRANSMISSION, "lost",
         "Packets to the peer that were lost: negative acknowledgements, timeouts, probes without an answer"),
)
