"""What one agent may make the central server hold and compute: every limit, once.

A healthy agent stays far below each of them. What it sends beyond ends its stream: the log and the node's presence name
the node and the limit, `fabricmon_central_refused_total` counts by limit. docs/security.md (Budgets of an agent) lists
the table.
"""

from __future__ import annotations

from typing import NamedTuple

from fabricmon.engine.fleet_nodes import EVENT_TEXT, EVENTS
from fabricmon.fleet.membership import GONE_ROWS, GONE_TIME


class AgentLimit(NamedTuple):
    """most  of `what`, in `per` seconds; 0: at any time
    why   where the number comes from
    """

    most: float
    per: int
    what: str
    why: str


_PACE = "one a second, at most ten while something urgent happens"
_LARGEST = "times `central.pull.max_message`"
_NODE = "8 adapters and 8 GPUs have"

LIMITS: dict[str, AgentLimit] = {
    "frames": AgentLimit(1000, 10, "frames", _PACE),
    "frame_bytes": AgentLimit(4, 10, f"{_LARGEST} of frames", "at ten a second 6 MB each"),
    "events": AgentLimit(2000, 10, "kernel events", "an agent keeps 1,024 and repeats them to a new stream"),
    "event_bytes": AgentLimit(0.25, 10, f"{_LARGEST} of events", "2,000 events of 2 KiB"),
    "event_size": AgentLimit(4096, 0, "bytes of an event", "agents cut the kernel's line to 1,024 characters"),
    "event_text": AgentLimit(EVENT_TEXT, 0, "characters of an event that are kept", "as many as agents send"),
    "kept_events": AgentLimit(
        EVENTS, 0, "components of a node whose newest event is kept; the oldest go first", f"{_NODE} 34"),
    "controls": AgentLimit(100, 10, "pings, pongs and other control frames", "agents send answers only"),
    "control_bytes": AgentLimit(0.01, 10, f"{_LARGEST} of control frames", "one has 125 bytes at most"),
    "names": AgentLimit(8, 3600, "node names of one address", "a machine that is installed anew has another"),
    "silent_names": AgentLimit(
        1, 60, "node names of one address under which no frame came", "agents send a frame at once"),
    "inventories": AgentLimit(60, 60, "inventories", "one a stream and one whenever the hardware changes"),
    "inventory_bytes": AgentLimit(6, 60, f"{_LARGEST} of inventories", "of a sweeper, the largest"),
    "inventory_size": AgentLimit(
        2**22, 0, "bytes of an inventory of a node that `sweepers` does not name",
        "8 adapters have 30 kB; 1,000 virtual functions or a sweep of 12,000 ports 4 MB"),
    "node_bytes": AgentLimit(
        2**24, 60, "bytes of inventories of a node that `sweepers` does not name", "four of the largest"),
    "parts": AgentLimit(
        1024, 0, "parts of an inventory",
        "eight collectors make one a port: 8 adapters and 8 GPUs have 97, 32 adapters and 60 virtual functions 500"),
    "components": AgentLimit(
        2**12, 0, "components in all parts, without swept ports",
        f"{_NODE} 150; with 1,024 interfaces and 250 virtual functions 2,500"),
    "rows": AgentLimit(
        2**11, 0, "different components, without swept ports", "1,024 interfaces and 250 virtual functions are 1,300"),
    "inventory_components": AgentLimit(
        2**14, 60, "components of inventories, without swept ports", "four of the largest inventories"),
    "values": AgentLimit(2**16, 0, "values of a frame, without those of swept ports", f"{_NODE} 3,000"),
    "columns": AgentLimit(512, 0, "columns of a part", "of ports 396 travel"),
    "unknown_columns": AgentLimit(
        256, 0, "columns that the catalogue does not give their collector, of a node",
        "a newer agent may have some; they are not kept, but counted and shown"),
    "raw_columns": AgentLimit(64, 0, "raw counters of a node's drivers", "16 of a driver"),
    "fleet_raw_columns": AgentLimit(
        256, 0, "raw counters that are kept of all nodes", "one costs 8 bytes a port; later ones are not kept"),
    "turn": AgentLimit(
        2**17, 0, "bytes of an inventory that is taken over at once; larger ones take turns, a quarter of the time",
        "8 adapters have 30 kB"),
    "turns": AgentLimit(
        3, 60, "inventories that take turns; further ones wait as well, and the log names the node",
        "one a stream and one whenever the hardware changes"),
    "swept_rows": AgentLimit(
        2**17, 0, "ports that one node sweeps", "28,800 adapters below three levels of switches have 115,200"),
    "unnamed_sweepers": AgentLimit(
        4, 0, "nodes at a time that sweep while `sweepers` names none", "a subnet has one or two"),
    "unnamed_swept": AgentLimit(
        2**14, 0, "ports that all nodes together sweep while `sweepers` names none",
        "the largest such sweep has 12,000; a larger fabric names its sweepers"),
    "unnamed_rows": AgentLimit(
        2**14, 600, "new swept ports of a node that `sweepers` does not name",
        "one sweep of the most that it may send"),
    "labels": AgentLimit(48, 0, "labels of a component", "agents give 13"),
    "label_size": AgentLimit(1024, 0, "characters of a label", "agents give 128"),
    "name_size": AgentLimit(253, 0, "characters of a name, all printable", "as of a host name"),
    "port_digits": AgentLimit(6, 0, "digits of a port number", "agents give 3"),
    "period": AgentLimit(86_400, 0, "seconds between two reads of a part", "the slowest collector takes 600"),
    "clock": AgentLimit(1e10, 0, "seconds of a node's own clock", "it counts from the start of the machine"),
    "value": AgentLimit(
        1e21, 0, "size of a value; a larger one counts as unknown", "2^64 words of 4 bytes are 7.4e19"),
    "gone_rows": AgentLimit(
        GONE_ROWS, 0, "components of a node and kind that are kept after they left; the oldest go first",
        "32 adapters with all their functions"),
    "gone_time": AgentLimit(GONE_TIME, 0, "seconds for which they are kept", "most repairs take less than a week"),
}  # fmt: skip
"""By the word that the metric counts it under."""

_COUNTERS = ("counters", "hw_counters", "device_hw_counters")

SOURCES: dict[str, frozenset[str]] = {collector: frozenset(known) for collector, known in {
    "infiniband": (*_COUNTERS, "supported"),
    "infiniband_errors": _COUNTERS,
    "infiniband_rare": _COUNTERS,
    "infiniband_state": ("port", "link_downed"),
    "ethernet": ("netdev",),
    "bond": ("bonding",),
    "roce": ("ethtool",),
    "ethernet_phy": ("ethtool netlink", "phy_corrected_bit_errors", "phy_uncorrected_symbols"),
    "qos": ("dcb", "pause", "sysfs"),
    "optics": ("module", "hwmon"),
    "neighbours": ("lldp",),
    "gpu": ("nvml", "nvml events"),
    "nvlink": ("nvml", "sum of links"),
    "pcie": ("pci", "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"),
    "fabric": ("port", "counters"),
    "kernel_log": ("kernel_log",),
    "inventory": ("inventory",),
    "flow": ("flow",),
}.items()}  # fmt: skip
"""Collector -> what it reads: sources of the catalogue (Counter.source), or single columns. A column that its collector
has not is not kept: when a column was read follows, for all nodes, from the collectors that deliver it."""


class OverLimit(ValueError):
    """An agent sent more than it may. `limit` is a word of LIMITS; the text names what came and the limit."""

    def __init__(self, limit: str, text: str) -> None:
        super().__init__(text)
        self.limit = limit


def most(limit: str) -> int:
    """The number of a limit."""
    return int(LIMITS[limit].most)


def check(limit: str, number: float, of: str = "") -> None:
    """OverLimit where `number` is more than the limit; `of` names what it is of."""
    allowed = LIMITS[limit]
    if number > allowed.most:
        raise OverLimit(limit, f"{of or 'its inventory'} has {number:.0f} {allowed.what}, {allowed.most:.0f} at most")
