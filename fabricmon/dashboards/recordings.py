"""Recording rules: precomputed queries over all ports and GPUs of the fleet. Pure.

Names are `fabricmon:<row>:<what>:<operation>`. Recordings of single ports or GPUs keep the worst WORST series only, so
that neither the rule evaluator nor a panel has a series for each of 64,000 ports. Sums are over all ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabricmon.catalogue.traffic import SOURCES as TRAFFIC
from fabricmon.rules.prometheus.rulefile import selected
from fabricmon.rules.promql import family, metric

WORST = 100
"""Series of single ports or GPUs in one recording, at most."""

QUANTILES = (0.5, 0.99, 1.0)
"""Quantiles of a distribution: median, 99 %, maximum."""

EVERY = "1m"
"""Evaluation interval: the counters are read every 10 s to 2 min."""

LINK_ERRORS = (
    "symbol_errors", "rcv_errors", "link_error_recoveries", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "netdev_rx_crc_errors", "eth_fcs_errors", "eth_symbol_errors",
    "fec_uncorrectable_blocks", "phy_uncorrected_symbols",
)  # fmt: skip
"""Counters of errors on a link."""

LOSSES = (
    "seq_nak_rx", "ack_timeout", "out_of_sequence_rx", "implied_nak", "rnr_nak_rx", "retries_exceeded", "retrans_packets",
    "requester_retries",
)  # fmt: skip
"""Counters of lost and retransmitted packets."""

DISCARDS = (
    "xmit_discards", "phy_rx_discards", "phy_tx_discards", "out_of_buffer", "host_buffer_pressure", "netdev_rx_dropped",
)  # fmt: skip
"""Counters of dropped packets."""

NVLINK_ERRORS = (
    "gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries", "gpu_nvlink_critical_errors",
)  # fmt: skip

CORRECTED = ("phy_corrected_bit_errors", "fec_corrected_bit_errors")
"""Counters of bits corrected by FEC; the first one that a port has is used."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recording rule; `labels` are added to its series. `meaning` goes into the documentation."""

    name: str
    expr: str
    meaning: str
    labels: Mapping[str, str] = field(default_factory=dict)


def worst(expr: str) -> str:
    return f"topk({WORST}, {expr})"


def least(expr: str) -> str:
    return f"bottomk({WORST}, {expr})"


def quantiles(name: str, value: str, meaning: str, shown: Sequence[float] = QUANTILES) -> Iterator[Recorded]:
    """A distribution: a recording for each quantile of `value`."""
    for q in shown:
        yield Recorded(name, f"quantile({q:g}, {value})", meaning, {"quantile": f"{q:g}"})


def short(column: str) -> str:
    """Name of a counter in a label: its column without the prefix of its kind."""
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
                 "Ports neither active nor disabled: their logical state"),
        *_counted("fabricmon:port:downs:increase1h", ("link_downed", "carrier_down_changes"), "increase", "1h",
                  "Link-downs in the last hour", whole=False),
        *_counted("fabricmon:port:errors:rate5m", LINK_ERRORS, "rate", "5m", "Errors per second on the link"),
        *_counted("fabricmon:port:losses:rate5m", LOSSES, "rate", "5m",
                  "Packets per second lost and retransmitted"),
        *_counted("fabricmon:port:discards:rate5m", DISCARDS, "rate", "5m", "Packets per second discarded"),
        *_bit_errors(),
        *_modules(),
    ]  # fmt: skip


def _counted(
    name: str, columns: Sequence[str], function: str, span: str, meaning: str, whole: bool = True
) -> list[Recorded]:
    """For each counter: the worst ports and, with `whole`, the sum over all ports."""
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
    corrected = " or ".join(f"rate({metric(column)}[15m])" for column in CORRECTED)
    ratio = f"(({corrected}) / (8 * {metric('rate')}))"
    return [
        *quantiles("fabricmon:fleet:corrected_bit_error_ratio:quantile15m", ratio,
                   "Pre-FEC BER of the port at this quantile"),
        Recorded("fabricmon:port:corrected_bit_error_ratio:rate15m", worst(f"{ratio} > 0"),
                 "Pre-FEC BER"),
    ]  # fmt: skip


def _modules() -> list[Recorded]:
    heat, limit = metric("module_temperature"), metric("module_temperature_limit_high_alarm")
    light, low = family("module_rx_power_lane0"), metric("module_rx_power_limit_low_alarm")
    on = "on (job, instance, device, port)"
    margin = f"(({limit} > 0) - {on} {heat})"
    arrives = f"min without (lane) ({light} > 0) / {on} min without (limit) ({low} > 0)"
    return [
        *quantiles("fabricmon:fleet:module_temperature_celsius:quantile", heat,
                   "Temperature of the module at this quantile"),
        Recorded("fabricmon:port:module_temperature_margin_celsius:min", least(margin),
                 "Degrees of a module below its high alarm"),
        Recorded("fabricmon:port:module_light_margin_decibels:min", least(f"(10 * log10({arrives}))"),
                 "Decibels of the weakest lane's Rx power above the module's low alarm"),
        Recorded("fabricmon:fleet:module_lanes_dark:count", f"count(count without (lane) ({light} == 0)) or vector(0)",
                 "Modules with a lane without Rx power"),
    ]  # fmt: skip


def _pressure() -> list[Recorded]:
    found = []
    for word, direction, meaning in (
        ("paused", "rx", "Share of time with PFC pause received, of its worst priority"),
        ("pausing", "tx", "Share of time with PFC pause sent, of its worst priority"),
    ):
        priority = f"rate({family(f'pfc_{direction}_pause_prio0')}[5m])"
        all_of = f"rate({metric(f'pause_{direction}_pause')}[5m])"
        share = f"(max without (priority) ({priority}) or {all_of})"
        found.append(Recorded(f"fabricmon:port:{word}:ratio_rate5m", worst(f"{share} > 0.001"), meaning))
        found.append(Recorded(f"fabricmon:priority:{word}_ports:rate5m", f"sum by (priority) ({priority})",
                              f"{meaning.split(',')[0]}, summed over all ports"))  # fmt: skip
    waits = f"rate({metric('xmit_wait_ticks')}[5m])"
    found.append(Recorded("fabricmon:port:wait_ticks:rate5m", worst(f"{waits} > 0"),
                          "Ticks per second in which an InfiniBand port had data and no credits"))  # fmt: skip
    for word, column, meaning in (
        ("congestion_marks", "ecn_marked_rx", "ECN-marked packets received per second"),
        ("congestion_notices", "cnp_handled", "CNPs handled per second"),
    ):
        found += _counted(f"fabricmon:port:{word}:rate5m", (column,), "rate", "5m", meaning, whole=False)
    return found


def _gpus() -> list[Recorded]:
    count, active, switched = metric("gpu_nvlinks"), metric("gpu_nvlinks_active"), metric("gpu_nvlinks_to_switch")
    sent = f"rate({metric('gpu_nvlink_tx')}[5m])"
    health = metric("gpu_fabric_health_verdict")
    return [
        Recorded("fabricmon:fleet:gpus:count", f"count({count})", "GPUs with NVLink counters"),
        Recorded("fabricmon:gpu:nvlinks_inactive:count", worst(f"(({count} and {switched} > 0) - {active}) > 0"),
                 "Inactive NVLinks to a switch, of GPUs that have any"),
        Recorded("fabricmon:fleet:nvlinks_inactive:sum",
                 f"sum((({count} and {switched} > 0) - {active}) > 0) or 0 * sum({count})",
                 "Inactive NVLinks to a switch, whole fleet"),
        *_counted("fabricmon:gpu:nvlink_errors:rate5m", NVLINK_ERRORS, "rate", "5m", "NVLink errors per second"),
        Recorded("fabricmon:fleet:nvlink_transmitted_bytes:rate5m", f"sum({sent})",
                 "Bytes per second that all GPUs sent over NVLink"),
        *quantiles("fabricmon:fleet:nvlink_transmitted_bytes:quantile5m", sent,
                   "Bytes per second over NVLink of the GPU at this quantile", (0.0, 0.5, 1.0)),
        Recorded("fabricmon:gpu:nvlink_effective_bit_error_ratio:max",
                 worst(f"{metric('gpu_nvlink_effective_ber')} > 0"),
                 "Worst post-FEC BER of a GPU's NVLinks"),
        Recorded("fabricmon:gpu:fabric_unhealthy:state", worst(f"({health} > 1)"),
                 "GPUs whose NVLink fabric is not healthy: 2 unhealthy, 3 limited capacity"),
        Recorded("fabricmon:gpu:recovery_wanted:state", worst(f"({metric('gpu_recovery_action')} > 0)"),
                 "GPUs for which the driver requests an action"),
        Recorded("fabricmon:gpu:xid_events:increase1h",
                 worst(f"increase({metric('gpu_xid_events')}[1h]) > 0"), "Critical Xid errors in the last hour"),
        Recorded("fabricmon:pcie:path_width:ratio", worst(f"({metric('pcie_path_width')} < 1)"),
                 "Active share of the lanes of a PCIe path, where some are missing"),
        Recorded("fabricmon:pcie:path_speed:ratio", worst(f"({metric('pcie_path_speed')} < 1)"),
                 "Share of the possible speed of a PCIe path, where it is slower"),
    ]  # fmt: skip


def _agents() -> list[Recorded]:
    own = 'on (job, instance) group_left () fabricmon_build_info{component="agent"}'
    return [
        Recorded("fabricmon:collector:duration_seconds:max", "max by (collector) (fabricmon_collector_duration_seconds)",
                 "The slowest node's last run of the collector"),
        Recorded("fabricmon:collector:duration_seconds:p50",
                 "quantile by (collector) (0.5, fabricmon_collector_duration_seconds)", "The median node's last run of the collector"),
        Recorded("fabricmon:collector:failing:count",
                 "count by (collector) (fabricmon_collector_success == 0) or 0 * count by (collector) "
                 "(fabricmon_collector_success)", "Nodes on which the collector's last run failed"),
        Recorded("fabricmon:collector:stuck_devices:sum", "sum by (collector) (fabricmon_collector_stuck_devices)",
                 "Devices with a read that hangs"),
        Recorded("fabricmon:collector:failing:nodes", worst("(fabricmon_collector_success == 0)"),
                 "Failing collectors by node"),
        Recorded("fabricmon:agent:versions:count", 'count by (version) (fabricmon_build_info{component="agent"})',
                 "Agents by version"),
        *quantiles("fabricmon:agent:cpu:quantile5m", f"rate(process_cpu_seconds_total[5m]) * {own}",
                   "Processor time of the agent at this quantile, in cores"),
        *quantiles("fabricmon:agent:resident_memory_bytes:quantile", f"process_resident_memory_bytes * {own}",
                   "Resident memory of the agent at this quantile"),
    ]  # fmt: skip


GROUPS: Mapping[str, Sequence[Recorded]] = {
    "traffic": _traffic(), "links": _links(), "pressure": _pressure(), "gpus": _gpus(), "agents": _agents(),
}  # fmt: skip
"""Group of the rule file -> its recording rules."""

RECORDINGS: tuple[Recorded, ...] = tuple(rule for rules in GROUPS.values() for rule in rules)


def groups(selector: str = "") -> list[dict[str, Any]]:
    """Groups of a rule file. `selector`: label matchers for the agents' series."""
    found = []
    for name, rules in GROUPS.items():
        entries = []
        for rule in rules:
            entry: dict[str, Any] = {"record": rule.name, "expr": selected(rule.expr, selector)}
            entries.append(entry | ({"labels": dict(rule.labels)} if rule.labels else {}))
        found.append({"name": f"fabricmon.dashboards.{name}", "interval": EVERY, "rules": entries})
    return found
