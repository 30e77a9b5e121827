"""Recording rules: what a panel would otherwise ask of every port and GPU of the fleet at every look. Pure.

Names are `fabricmon:<row>:<what>:<operation>`. What is told per port or GPU keeps the worst WORST series only, so that
neither the ruler nor a panel ever holds one series for each of 64,000 ports. Sums over a fleet are of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabricmon.catalogue import CATALOGUE
from fabricmon.fleet.traffic import SOURCES as TRAFFIC
from fabricmon.rules.promql import metric
from fabricmon.rules.rulefile import selected

WORST = 100
"""Series at most that one recording keeps of single ports or GPUs."""

QUANTILES = (0.5, 0.99, 1.0)
"""Which ports a distribution shows: the middle one, the one in a hundred, the worst."""

EVERY = "1m"
"""How often all of it is evaluated: panels look at minutes, and the counters behind are read every 10 s to 2 min."""

LINK_ERRORS = (
    "symbol_errors", "rcv_errors", "link_error_recoveries", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "netdev_rx_crc_errors", "eth_fcs_errors", "eth_symbol_errors",
    "fec_uncorrectable_blocks", "phy_uncorrected_symbols",
)  # fmt: skip
"""Counters that rise where a link damages what it carries."""

LOSSES = (
    "seq_nak_rx", "ack_timeout", "out_of_sequence_rx", "implied_nak", "rnr_nak_rx", "retries_exceeded", "retrans_packets",
    "requester_retries",
)  # fmt: skip
"""Counters that rise where packets do not arrive and are sent again."""

DISCARDS = (
    "xmit_discards", "phy_rx_discards", "phy_tx_discards", "out_of_buffer", "host_buffer_pressure", "netdev_rx_dropped",
)  # fmt: skip
"""Counters of packets that were dropped for want of room."""

NVLINK_ERRORS = (
    "gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries", "gpu_nvlink_critical_errors",
)  # fmt: skip

CORRECTED = ("phy_corrected_bit_errors", "fec_corrected_bit_errors")
"""Bits that error correction mended: the first that a port has."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recording rule; `labels` are added to its series. `meaning` goes into the documentation."""

    name: str
    expr: str
    meaning: str
    labels: Mapping[str, str] = field(default_factory=dict)


def family(column: str) -> str:
    """The metric of all columns of a column's family, without the labels that tell them apart."""
    return CATALOGUE[column].metric


def worst(expr: str) -> str:
    return f"topk({WORST}, {expr})"


def least(expr: str) -> str:
    return f"bottomk({WORST}, {expr})"


def short(column: str) -> str:
    """How a counter is called in a label: its column without what its kind says anyway."""
    return column.removeprefix("gpu_nvlink_").removeprefix("gpu_")


def _traffic() -> list[Recorded]:
    found = []
    for at, word, verb in ((1, "received", "received"), (2, "transmitted", "sent")):
        counts = " or ".join(f"rate({metric(source[at])}[5m])" for source in TRAFFIC)
        found.append(Recorded(f"fabricmon:device:{word}_bytes:rate5m", f"sum by (device) ({counts})",
                              f"Bytes per second that all ports of one device name {verb}"))  # fmt: skip
    return found


def _links() -> list[Recorded]:
    state, phys = metric("state"), metric("phys_state")
    return [
        Recorded("fabricmon:port:not_active:state", worst(f"({state} < 4 unless {phys} == 3)"),
                 "Ports that are not active and not disabled by order: their logical state"),
        *_counted("fabricmon:port:downs:increase1h", ("link_downed", "carrier_down_changes"), "increase", "1h",
                  "Times the link went down within the hour", whole=False),
        *_counted("fabricmon:port:errors:rate5m", LINK_ERRORS, "rate", "5m", "Errors per second on the link"),
        *_counted("fabricmon:port:losses:rate5m", LOSSES, "rate", "5m",
                  "Packets per second that were lost and sent again"),
        *_counted("fabricmon:port:discards:rate5m", DISCARDS, "rate", "5m", "Packets per second that were dropped"),
        *_bit_errors(),
        *_modules(),
    ]  # fmt: skip


def _counted(
    name: str, columns: Sequence[str], function: str, span: str, meaning: str, whole: bool = True
) -> list[Recorded]:
    """Of each counter the worst ports that have any, and, where `whole`, the sum over all."""
    _, what, operation = name.rsplit(":", 2)
    found = []
    for column in columns:
        value, labels = f"{function}({metric(column)}[{span}])", {"counter": short(column)}
        found.append(Recorded(name, worst(f"{value} > 0"), f"{meaning}, by counter", labels))
        total = f"fabricmon:fleet:{what}:{operation}"
        if whole:
            found.append(Recorded(total, f"sum({value})", f"{meaning}, of the whole fleet, by counter", labels))
    return found


def _bit_errors() -> list[Recorded]:
    mended = " or ".join(f"rate({metric(column)}[15m])" for column in CORRECTED)
    ratio = f"(({mended}) / (8 * {metric('rate')}))"
    return [
        *(Recorded("fabricmon:fleet:corrected_bit_error_ratio:quantile15m", f"quantile({q:g}, {ratio})",
                   "Bit error ratio before correction, of the port at this quantile", {"quantile": f"{q:g}"})
          for q in QUANTILES),
        Recorded("fabricmon:port:corrected_bit_error_ratio:rate15m", worst(f"{ratio} > 0"),
                 "Bit error ratio before correction: what error correction has to mend"),
    ]  # fmt: skip


def _modules() -> list[Recorded]:
    heat, limit = metric("module_temperature"), metric("module_temperature_limit_high_alarm")
    light, low = family("module_rx_power_lane0"), metric("module_rx_power_limit_low_alarm")
    on = "on (job, instance, device, port)"
    margin = f"(({limit} > 0) - {on} {heat})"
    arrives = f"min without (lane) ({light} > 0) / {on} min without (limit) ({low} > 0)"
    return [
        *(Recorded("fabricmon:fleet:module_temperature_celsius:quantile", f"quantile({q:g}, {heat})",
                   "Temperature of the module at this quantile", {"quantile": f"{q:g}"}) for q in QUANTILES),
        Recorded("fabricmon:port:module_temperature_margin_celsius:min", least(margin),
                 "Degrees that a module has left below its own high alarm"),
        Recorded("fabricmon:port:module_light_margin_decibels:min", least(f"(10 * log10({arrives}))"),
                 "Decibels by which the weakest lane's light is above the module's own low alarm"),
        Recorded("fabricmon:fleet:module_lanes_dark:count", f"count(count without (lane) ({light} == 0)) or vector(0)",
                 "Modules with a lane on which no light arrives"),
    ]  # fmt: skip


def _pressure() -> list[Recorded]:
    found = []
    for word, direction, meaning in (
        ("paused", "rx", "Share of time in which the port was not allowed to send, of its worst priority"),
        ("pausing", "tx", "Share of time in which the port kept its switch from sending, of its worst priority"),
    ):
        priority = f"rate({family(f'pfc_{direction}_pause_prio0')}[5m])"
        all_of = f"rate({metric(f'pause_{direction}_pause')}[5m])"
        share = f"(max without (priority) ({priority}) or {all_of})"
        found.append(Recorded(f"fabricmon:port:{word}:ratio_rate5m", worst(f"{share} > 0.001"), meaning))
        found.append(Recorded(f"fabricmon:priority:{word}_ports:rate5m", f"sum by (priority) ({priority})",
                              f"{meaning.split(',')[0]}, summed over all ports: so many ports all the time"))  # fmt: skip
    waits = f"rate({metric('xmit_wait_ticks')}[5m])"
    found.append(Recorded("fabricmon:port:wait_ticks:rate5m", worst(f"{waits} > 0"),
                          "Ticks per second in which an InfiniBand port had data and no credits"))  # fmt: skip
    for word, column, meaning in (
        ("congestion_marks", "ecn_marked_rx", "Packets per second that arrived with a congestion mark"),
        ("congestion_notices", "cnp_handled", "Congestion notifications per second that the port acted on"),
    ):
        found += _counted(f"fabricmon:port:{word}:rate5m", (column,), "rate", "5m", meaning, whole=False)
    return found


def _gpus() -> list[Recorded]:
    count, active, switched = metric("gpu_nvlinks"), metric("gpu_nvlinks_active"), metric("gpu_nvlinks_to_switch")
    sent = f"rate({metric('gpu_nvlink_tx')}[5m])"
    health = metric("gpu_fabric_health_verdict")
    return [
        Recorded("fabricmon:fleet:gpus:count", f"count({count})", "GPUs that tell of their NVLinks"),
        Recorded("fabricmon:gpu:nvlinks_inactive:count", worst(f"(({count} and {switched} > 0) - {active}) > 0"),
                 "NVLinks to a switch that are inactive, of GPUs that have some"),
        Recorded("fabricmon:fleet:nvlinks_inactive:sum",
                 f"sum((({count} and {switched} > 0) - {active}) > 0) or 0 * sum({count})",
                 "The same of the whole fleet"),
        *_counted("fabricmon:gpu:nvlink_errors:rate5m", NVLINK_ERRORS, "rate", "5m", "NVLink errors per second"),
        Recorded("fabricmon:fleet:nvlink_transmitted_bytes:rate5m", f"sum({sent})",
                 "Bytes per second that all GPUs sent over NVLink"),
        *(Recorded("fabricmon:fleet:nvlink_transmitted_bytes:quantile5m", f"quantile({q:g}, {sent})",
                   "Bytes per second over NVLink of the GPU at this quantile", {"quantile": f"{q:g}"})
          for q in (0.0, 0.5, 1.0)),
        Recorded("fabricmon:gpu:nvlink_effective_bit_error_ratio:max",
                 worst(f"{metric('gpu_nvlink_effective_ber')} > 0"),
                 "Worst bit error ratio after correction of a GPU's NVLinks"),
        Recorded("fabricmon:gpu:fabric_unhealthy:state", worst(f"({health} > 1)"),
                 "GPUs whose NVLink fabric is not healthy: 2 unhealthy, 3 limited capacity"),
        Recorded("fabricmon:gpu:recovery_wanted:state", worst(f"({metric('gpu_recovery_action')} > 0)"),
                 "GPUs with which the driver wants something done"),
        Recorded("fabricmon:gpu:xid_events:increase1h",
                 worst(f"increase({metric('gpu_xid_events')}[1h]) > 0"), "Critical Xid errors within the hour"),
        Recorded("fabricmon:pcie:path_width:ratio", worst(f"({metric('pcie_path_width')} < 1)"),
                 "Share of its lanes that a PCIe path has, where some are missing"),
        Recorded("fabricmon:pcie:path_speed:ratio", worst(f"({metric('pcie_path_speed')} < 1)"),
                 "Share of its speed that a PCIe path has, where it is slower than it can be"),
    ]  # fmt: skip


def _agents() -> list[Recorded]:
    own = 'on (job, instance) group_left () fabricmon_build_info{component="agent"}'
    return [
        Recorded("fabricmon:collector:duration_seconds:max", "max by (collector) (fabricmon_collector_duration_seconds)",
                 "The slowest node's last run of the collector"),
        Recorded("fabricmon:collector:duration_seconds:p50",
                 "quantile by (collector) (0.5, fabricmon_collector_duration_seconds)", "The middle node's"),
        Recorded("fabricmon:collector:failing:count",
                 "count by (collector) (fabricmon_collector_success == 0) or 0 * count by (collector) "
                 "(fabricmon_collector_success)", "Nodes on which the collector's last run failed"),
        Recorded("fabricmon:collector:stuck_devices:sum", "sum by (collector) (fabricmon_collector_stuck_devices)",
                 "Devices of which a read does not return"),
        Recorded("fabricmon:collector:failing:nodes", worst("(fabricmon_collector_success == 0)"),
                 "Which collector fails on which node"),
        Recorded("fabricmon:agent:versions:count", 'count by (version) (fabricmon_build_info{component="agent"})',
                 "Agents by version"),
        *(Recorded("fabricmon:agent:cpu:quantile5m", f"quantile({q:g}, rate(process_cpu_seconds_total[5m]) * {own})",
                   "Processor time of the agent at this quantile, in cores", {"quantile": f"{q:g}"})
          for q in QUANTILES),
        *(Recorded("fabricmon:agent:resident_memory_bytes:quantile",
                   f"quantile({q:g}, process_resident_memory_bytes * {own})",
                   "Resident memory of the agent at this quantile", {"quantile": f"{q:g}"}) for q in QUANTILES),
    ]  # fmt: skip


RECORDINGS: tuple[Recorded, ...] = (*_traffic(), *_links(), *_pressure(), *_gpus(), *_agents())


def groups(selector: str = "") -> list[dict[str, Any]]:
    """Groups of a rule file. `selector`: label matchers that the agents' series must have."""
    found = []
    for name, rules in (
        ("traffic", _traffic()), ("links", _links()), ("pressure", _pressure()), ("gpus", _gpus()),
        ("agents", _agents()),
    ):  # fmt: skip
        entries = []
        for rule in rules:
            entry: dict[str, Any] = {"record": rule.name, "expr": selected(rule.expr, selector)}
            entries.append(entry | ({"labels": dict(rule.labels)} if rule.labels else {}))
        found.append({"name": f"fabricmon.dashboards.{name}", "interval": EVERY, "rules": entries})
    return found
