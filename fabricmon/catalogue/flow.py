"""Packets from one port to one peer, sent and lost: counters of queue pairs, or of a prober, which has times as well.

A row is one flow (model.Component). Evidence of level L2 where its path is known (docs/methods.md#evidence-levels).
"""

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

USUAL_LOSS = 1e-4
"""Share of packets that a healthy network loses, at most (design choice, docs/methods.md#pooled-losses)."""


def _row(name: str, category: Category, key: str, help: str) -> Counter:
    return Counter(name, Kind.FLOW, "", 64, Growth.WRAPS, category, "flow", (key,), help, window=True, family=key)


def _time(name: str, help: str) -> Counter:
    return Counter(name, Kind.FLOW, "seconds", 0, Growth.LEVEL, Category.CONGESTION, "flow", (name,),
                   f"{help} in the last window of 10 s of probes", family=name.removeprefix("flow_"))


def _of_port(name: str, category: Category, help: str) -> Counter:
    return Counter(name, Kind.PORT, "", 64, Growth.WRAPS, category, "flow", (name,), help)


COUNTERS: tuple[Counter, ...] = (
    _row("flow_packets", Category.TRAFFIC, "packets", "Packets sent to the peer, probes or payload"),
    _row("flow_lost", Category.RETRANSMISSION, "lost",
         "Packets to the peer that were lost: negative acknowledgements, timeouts, probes without an answer"),
    Counter("flow_late", Kind.FLOW, "", 64, Growth.WRAPS, Category.RETRANSMISSION, "flow", ("late",),
            "Probes that were answered after more than a second", family="late"),
    _time("flow_rtt", "Median round trip on the network"),
    _time("flow_rtt_p99", "99th percentile of the round trip on the network"),
    _time("flow_rtt_max", "Longest round trip on the network"),
    _time("flow_own_delay", "99th percentile of the delay on the own host"),
    _time("flow_peer_delay", "99th percentile of the delay on the responder's host"),
    _of_port("probe_packets", Category.TRAFFIC, "Probes that the port sent"),
    _of_port("probe_lost", Category.RETRANSMISSION, "Probes of the port without an answer"),
    _of_port("probe_answered", Category.TRAFFIC, "Questions of other ports' probes that the port answered"),
    _of_port("probe_void_windows", Category.MANAGEMENT,
             "Windows of probes that do not count, as the agent itself was late or lost answers"),
    _of_port("probe_held_back", Category.CONGESTION, "Probes not sent, as the port was paused or full"),
)
