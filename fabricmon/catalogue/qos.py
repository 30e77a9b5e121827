"""Settings that the ports of a lossless fabric must agree on: PFC, ETS, priorities, pause, ECN, MTU.

Sources: `dcb` dcbnl IEEE_GET; `pause` ethtool PAUSE_GET; `sysfs` files of the interface. A fingerprint is a number that
is the same where the settings are the same and another where they differ (one of 2**52). Settings of single classes
stay on the node's /metrics: the server compares their fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, YES_NO, Category, Counter, Growth
from fabricmon.model import Kind

CLASSES = range(8)
ALGORITHMS = {0: "strict priority", 1: "credit-based shaper", 2: "ETS", 255: "vendor"}


def _row(name: str, source: str, key: str, help: str, *, unit: str = "", growth: Growth = Growth.STATE,
         family: str = "", labels: tuple[tuple[str, str], ...] = (), wire: bool = True,
         states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(name, Kind.PORT, unit, 0, growth, Category.CONFIGURATION, source, (key,), help,
                   wire=wire and not family, family=family, labels=labels, states=states)  # fmt: skip


COUNTERS: tuple[Counter, ...] = (
    _row("pfc_enabled", "dcb", "pfc_en", "Priorities with flow control enabled, as a bitmap: 8 is priority 3 alone"),
    _row("pfc_classes", "dcb", "pfc_cap", "Classes for which the port can have flow control at a time",
         growth=Growth.LEVEL, wire=False),
    _row("pfc_cable_delay", "dcb", "delay", "What flow control allows for the cable's length, in bit times",
         growth=Growth.LEVEL),
    _row("dcbx_mode", "dcb", "dcbx", "Owner of the port's DCB settings, as the kernel's bits",
         states={1: "host", 2: "adapter", 8: "IEEE"}),
    _row("ets_willing", "dcb", "willing", "1 when the port takes its settings from the switch", states=YES_NO),
    *(_row(f"ets_bandwidth_class{n}", "dcb", f"tc_tx_bw {n}", "Share of the line the traffic class is guaranteed",
           unit="ratio", growth=Growth.LEVEL, family="ets_bandwidth", labels=(("class", str(n)),)) for n in CLASSES),
    *(_row(f"ets_algorithm_class{n}", "dcb", f"tc_tsa {n}",
           "How the traffic class is served", family="ets_algorithm",
           labels=(("class", str(n)),), states=ALGORITHMS) for n in CLASSES),
    *(_row(f"ets_class_prio{n}", "dcb", f"prio_tc {n}", "Traffic class of the priority", family="ets_class",
           labels=(("priority", str(n)),)) for n in CLASSES),
    _row("app_entries", "dcb", "app", "Entries of the table that gives traffic its priority", growth=Growth.LEVEL, wire=False),
    _row("dscp_trusted", "dcb", "app dscp", "1 when the port takes a packet's priority from its DSCP", states=YES_NO),
    _row("ets_fingerprint", "dcb", "ets", "Fingerprint of bandwidths, algorithms, classes and maximum rates"),
    _row("app_fingerprint", "dcb", "app table", "Fingerprint of the table that gives traffic its priority"),
    _row("buffer_fingerprint", "dcb", "buffer", "Fingerprint of the receive buffers and their priorities"),
    _row("pause_rx_enabled", "pause", "rx", "1 when the port obeys global pause", states=YES_NO),
    _row("pause_tx_enabled", "pause", "tx", "1 when the port sends global pause", states=YES_NO),
    _row("ecn_marks_answered", "sysfs", "ecn/roce_np/enable",
         "Priorities on which congestion marks are answered with notifications, as a bitmap"),
    _row("ecn_rate_reduced", "sysfs", "ecn/roce_rp/enable",
         "Priorities on which notifications make this port send more slowly, as a bitmap"),
    _row("qos_mtu", "sysfs", "mtu", "Largest frame of the interface, as compared with its peers", unit="bytes",
         growth=Growth.LEVEL),
    _row("qos_fingerprint", "dcb", "all", "Fingerprint of all settings together: ports of one rail must agree"),
)  # fmt: skip

COMPARED: tuple[str, ...] = (
    "pfc_enabled", "pause_rx_enabled", "pause_tx_enabled", "app_fingerprint", "dscp_trusted", "ets_fingerprint",
    "ecn_marks_answered", "ecn_rate_reduced", "qos_mtu", "buffer_fingerprint", "pfc_cable_delay", "dcbx_mode",
    "ets_willing",
)  # fmt: skip
"""Columns in which the ports of one rail must agree, what loses packets first; `qos_fingerprint` stands for them."""
