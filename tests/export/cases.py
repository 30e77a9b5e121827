"""What a Prometheus is shown for each rule, and what must fire then: a fault and a look-alike at least.

Series are in promtool's notation ("0+1x20": 0 and 20 times one more), one sample every 15 s; "stale" is a failed
scrape, `_` a sample that is missing. A name without braces gets the labels of port mlx5_0/1 of node n1, of its GPU 0
or of the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NODE = {"job": "fabricmon", "instance": "n1"}
PORT = {**NODE, "device": "mlx5_0", "port": "1"}
GPU = {**NODE, "gpu": "0"}
PCIE = {**NODE, "device": "0000:17:00.0"}
FLOW = {**NODE, "port": "mlx5_0/1", "peer": "n2/mlx5_0/1"}
NDR = 50e9  # bytes per second


@dataclass(frozen=True, slots=True)
class Case:
    """`firing`: severity (and case) of the alerts that fire at `at` minutes on the component `of`."""

    rule: str
    what: str
    series: dict[str, str]
    at: float
    firing: tuple[str, ...] = ()
    of: dict[str, str] | None = None


def _labels(name: str) -> dict[str, str]:
    for start, labels in (("fabricmon_gpu", GPU), ("fabricmon_pcie", PCIE), ("fabricmon_node", NODE), ("up", NODE),
                          ("fabricmon_flow", FLOW)):  # fmt: skip
        if name.startswith(start):
            return labels
    return PORT


def written(series: dict[str, str]) -> list[dict[str, str]]:
    """Input series as promtool wants them."""
    found = []
    for name, values in series.items():
        metric, _, more = name.partition("{")
        own = {k: v.strip('"') for k, _, v in (pair.partition("=") for pair in more.rstrip("}").split(",") if pair)}
        labels = ",".join(f'{k}="{v}"' for k, v in {**_labels(metric), **own}.items())
        found.append({"series": f"{metric}{{{labels}}}", "values": values})
    return found


def everywhere(metric: str, values: dict[str, str], **labels: str) -> dict[str, str]:
    """One metric on several nodes."""
    more = "".join(f",{k}={v}" for k, v in labels.items())
    return {f"{metric}{{instance={node}{more}}}": value for node, value in values.items()}


INFINIBAND = {"fabricmon_port_info{link_layer=InfiniBand}": "1x400"}
ETHERNET = {"fabricmon_port_info{link_layer=Ethernet}": "1x400"}
STATE, PHYS = "fabricmon_port_state", "fabricmon_port_phys_state"
DOWNS, SYMBOLS = "fabricmon_port_link_downed_total", "fabricmon_port_symbol_errors_total"
RATE, WIDTH = "fabricmon_port_rate_bytes_per_second", "fabricmon_port_width_lanes"
LINK = {RATE: f"{NDR:.0f}x400", WIDTH: "4x400"}
PEERS = {"n1": "25e9x40", "n2": "50e9x40", "n3": "50e9x40", "n4": "50e9x40"}
EQUAL = dict.fromkeys(PEERS, "25e9x40")
MAKE = {f"fabricmon_port_info{{instance={n},role=compute,link_layer=InfiniBand,board=B}}": "1x40" for n in PEERS}
STORAGE = {"fabricmon_port_info{role=storage}": "1x80"}
SEQUENCE, TIMERS = "fabricmon_port_seq_nak_rx_total", "fabricmon_port_ack_timeout_total"
PACKETS = "fabricmon_port_xmit_packets_total"
FLOW_LOST, FLOW_SENT = "fabricmon_flow_lost_total", "fabricmon_flow_packets_total"
TEMPERATURE = "fabricmon_port_module_temperature_celsius"
TEMPERATURE_LIMIT = "fabricmon_port_module_temperature_limit_celsius"
LIGHT, LIGHT_LIMIT = "fabricmon_port_module_rx_power_watts", "fabricmon_port_module_rx_power_limit_watts"
RX_PAUSE, TX_PAUSE = "fabricmon_port_pfc_rx_pause_seconds_total", "fabricmon_port_pfc_tx_pause_seconds_total"
RECEIVED, NOTIFIED = "fabricmon_port_rcv_bytes_total", "fabricmon_port_cnp_handled_total"

CASES: tuple[Case, ...] = (
    Case("link_down", "a link that was up is down", {**INFINIBAND, STATE: "4x20 1x20", PHYS: "5x20 2x20"}, 6,
         ("warning",)),
    Case("link_down", "a link that never was up", {**INFINIBAND, STATE: "1x40", PHYS: "2x40"}, 6),
    Case("link_down", "a port that waits for a subnet manager since the boot",
         {**INFINIBAND, STATE: "2x40", PHYS: "5x40"}, 8, ("warning never_up",)),
    Case("link_down", "a port disabled by order", {**INFINIBAND, STATE: "4x20 1x20", PHYS: "5x20 3x20"}, 6),
    Case("link_down", "up again for long", {**INFINIBAND, STATE: "4x20 1x4 4x20", PHYS: "5x20 2x4 5x20"}, 8),
    Case("link_down", "its node was just booted",
         {**INFINIBAND, STATE: "4x20 stale _x12 1x20", PHYS: "5x20 stale _x12 2x20"}, 9),
    Case("link_down", "no subnet manager configures it", {**INFINIBAND, STATE: "4x20 2x20", PHYS: "5x40"}, 7,
         ("warning initialising",)),
    Case("link_down", "no carrier on RoCE", {**ETHERNET, STATE: "4x20 1x20", PHYS: "5x20 3x20",
                                             "fabricmon_port_carrier": "1x20 0x20", "fabricmon_port_admin_up": "1x40"},
         6, ("warning",)),
    Case("link_down", "an interface set down by order", {**ETHERNET, STATE: "4x20 1x20", PHYS: "5x20 3x20",
                                                         "fabricmon_port_carrier": "1x20 0x20",
                                                         "fabricmon_port_admin_up": "1x20 0x20"}, 6),
    Case("link_flapping", "three downs within minutes", {DOWNS: "7x20 8x4 9x4 10x40"}, 8, ("warning",)),
    Case("link_flapping", "two downs within a minute", {DOWNS: "7x20 8x2 9x40"}, 7),
    Case("link_flapping", "three downs, an hour apart", {DOWNS: "0x240 1x240 2x240 3x240"}, 190, ("warning slow",)),
    Case("link_flapping", "two downs, an hour apart", {DOWNS: "0x240 1x240 2x480"}, 190),
    Case("link_flapping", "the counter was cleared", {DOWNS: "200x20 0x40"}, 7),
    Case("link_flapping", "calm again after an hour", {DOWNS: "7x20 8x4 9x4 10x400"}, 70),
    Case("link_errors", "ten errors in every poll", {**LINK, SYMBOLS: "0+10x60"}, 15, ("critical", "warning")),
    Case("link_errors", "an error in every other poll", {**LINK, SYMBOLS: "0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10 "
                                                         "10 11 11 12 12 13 13 14 14 15 15 16 16 17 17 18 18 19 19 "
                                                         "20 20 21 21 22 22 23 23 24 24 25 25 26 26 27 27 28 28 29 29"},
         14, ("warning",)),
    Case("link_errors", "one burst of a hundred", {**LINK, SYMBOLS: "0x20 100x40"}, 8),
    Case("link_errors", "three single errors", {**LINK, SYMBOLS: "0x10 1x10 2x10 3x30"}, 12),
    Case("link_errors", "link recoveries in poll after poll",
         {**LINK, "fabricmon_port_link_error_recoveries_total": "0x20 1 1 2 2 3 3 3"}, 6.5, ("critical",)),
    Case("link_degraded", "half the rate of its peers", {**MAKE, **everywhere(RATE, PEERS)}, 8, ("warning",)),
    Case("link_degraded", "all at one rate", {**MAKE, **everywhere(RATE, EQUAL)}, 8),
    Case("nic_fault", "an adapter vanished from a node that reports",
         {"up": "1x60", STATE: "4x40 stale _x20", f"{STATE}{{device=mlx5_1}}": "4x60"}, 12, ("critical",)),
    Case("nic_fault", "the node does not report", {"up": "1x40 0x20", STATE: "4x40 stale _x20"}, 12),
    Case("nic_fault", "all adapters for a minute: a driver reload", {"up": "1x60", STATE: "4x40 stale _x4 4x16"}, 11.5),
    Case("nic_fault", "all adapters for good", {"up": "1x60", STATE: "4x40 stale _x20"}, 14, ("critical all",)),
    Case("nvlink_down", "one link of eighteen",
         {"fabricmon_gpu_nvlinks": "18x40", "fabricmon_gpu_nvlinks_active": "18x20 17x20",
          "fabricmon_gpu_nvlinks_to_switch": "18x40"}, 8, ("critical",)),
    Case("nvlink_down", "links without a switch, as its peers",
         {"fabricmon_gpu_nvlinks": "4x40", "fabricmon_gpu_nvlinks_active": "2x40",
          "fabricmon_gpu_nvlinks_to_switch": "0x40", "fabricmon_gpu_nvlinks_active{gpu=1}": "2x40"}, 8),
    Case("nvlink_degraded", "a retraining",
         {"fabricmon_gpu_nvlinks": "18x40", "fabricmon_gpu_nvlink_recoveries_total": "0x20 1x20"}, 5.5, ("warning",)),
    Case("nvlink_degraded", "a few checksum errors",
         {"fabricmon_gpu_nvlinks": "18x40", "fabricmon_gpu_nvlink_crc_errors_total": "0+9x40"}, 5.5),
    Case("gpu_fabric", "unhealthy by the driver",
         {"fabricmon_gpu_fabric_state": "3x60", "fabricmon_gpu_fabric_health_verdict": "1x30 2x30"}, 12, ("critical",)),
    Case("gpu_fabric", "degraded bandwidth",
         {"fabricmon_gpu_fabric_state": "3x60", "fabricmon_gpu_fabric_degraded_bandwidth": "0x30 1x30"}, 12,
         ("warning",)),
    Case("gpu_fabric", "registering after a boot",
         {"fabricmon_gpu_fabric_state": "2x10 3x20", "fabricmon_gpu_recovery_action": "0x30"}, 4),
    Case("pcie_degraded", "half its lanes", {"fabricmon_pcie_path_width": "1x10 0.5x20"}, 5, ("warning",)),
    Case("pcie_degraded", "full", {"fabricmon_pcie_path_width": "1x30", "fabricmon_pcie_path_speed": "1x30"}, 5),
    Case("pcie_errors", "one that was not corrected",
         {"fabricmon_pcie_path_width": "1x40", "fabricmon_pcie_aer_nonfatal_errors_total": "0x10 1x30"}, 5,
         ("warning",)),
    Case("pcie_errors", "more corrected ones than a good link has",
         {"fabricmon_pcie_speed_transfers_per_second": "32000000000x60", "fabricmon_pcie_width_lanes": "16x60",
          "fabricmon_pcie_aer_correctable_errors_total": "0+10x60"}, 12, ("warning",)),
    Case("pcie_errors", "few corrected ones",
         {"fabricmon_pcie_speed_transfers_per_second": "32000000000x60", "fabricmon_pcie_width_lanes": "16x60",
          "fabricmon_pcie_aer_correctable_errors_total": "0+5x60"}, 12),
    Case("agent_silent", "no scrape succeeds", {"up": "1x10 0x20"}, 5, ("info",)),
    Case("agent_silent", "one scrape failed", {"up": "1x10 0 1x20"}, 3.5),
    Case("agent_silent", "another program's target", {"up{job=node}": "0x20"}, 4),
    Case("telemetry_quality", "a full counter", {"fabricmon_port_saturated{counter=symbol_errors}": "1x20"}, 4,
         ("info",)),
    Case("telemetry_quality", "waiting on a busy port",
         {"fabricmon_port_saturated{counter=xmit_wait_ticks}": "1x20"}, 4),
    Case("config_drift", "flow control on another priority",
         {**everywhere("fabricmon_port_pfc_enabled", {"n1": "0x60", "n2": "8x60", "n3": "8x60", "n4": "8x60"}),
          **everywhere("fabricmon_port_qos_fingerprint", {"n1": "1x60", "n2": "2x60", "n3": "2x60", "n4": "2x60"})},
         10, ("warning",)),
    Case("config_drift", "two ports that differ: nobody knows who is right",
         {**everywhere("fabricmon_port_pfc_enabled", {"n1": "0x60", "n2": "8x60"}),
          **everywhere("fabricmon_port_qos_fingerprint", {"n1": "1x60", "n2": "2x60"})}, 10),
    Case("expected_inventory", "seven adapters of eight",
         {"fabricmon_node_hcas_found": "7x40", "fabricmon_node_hcas_lost": "0x40",
          "fabricmon_node_hcas_expected": "8x40", "fabricmon_node_hcas_certainty": "2x40"}, 8, ("warning",)),
    Case("expected_inventory", "seven where eight are usual",
         {"fabricmon_node_hcas_found": "7x40", "fabricmon_node_hcas_lost": "0x40",
          "fabricmon_node_hcas_expected": "8x40", "fabricmon_node_hcas_certainty": "1x40"}, 8, ("info",)),
    Case("expected_inventory", "an adapter that programs cannot open",
         {"fabricmon_node_uverbs_missing": "1x40", "fabricmon_node_netdevs_misplaced": "0x40"}, 8, ("warning",)),
    Case("expected_inventory", "an adapter that only tools cannot open", {"fabricmon_node_umad_missing": "1x40"}, 8,
         ("info",)),
    Case("expected_inventory", "one that vanished is nic_fault's",
         {"fabricmon_node_hcas_found": "7x40", "fabricmon_node_hcas_lost": "1x40",
          "fabricmon_node_hcas_expected": "8x40", "fabricmon_node_hcas_certainty": "2x40"}, 8),
    Case("packet_loss", "one packet of a thousand", {SEQUENCE: "0+15x40", PACKETS: "0+15000x40"}, 8, ("warning",)),
    Case("packet_loss", "timers fire on a port that sends little", {TIMERS: "0+4x40", PACKETS: "0+1500000x40"}, 8,
         ("warning",)),
    Case("packet_loss", "a retry in a hundred million packets", {SEQUENCE: "0x20 1x20", PACKETS: "0+150000000x40"},
         5.5),
    Case("flow_loss", "one packet of a thousand", {FLOW_LOST: "0+15x40", FLOW_SENT: "0+15000x40"}, 8, ("warning",)),
    Case("flow_loss", "none", {FLOW_LOST: "3x40", FLOW_SENT: "0+15000x40"}, 8),
    Case("optic_degrading", "hotter than its own limit",
         {TEMPERATURE: "60x10 76x60", f"{TEMPERATURE_LIMIT}{{limit=high_alarm}}": "75x70"}, 12, ("warning",)),
    Case("optic_degrading", "no light on one lane",
         {f"{LIGHT}{{lane=0}}": "0.001x70", f"{LIGHT}{{lane=1}}": "0x70",
          f"{LIGHT_LIMIT}{{limit=low_alarm}}": "0.0001x70"}, 12, ("warning",)),
    Case("optic_degrading", "warm, and a module that states no limit",
         {TEMPERATURE: "74x60", f"{TEMPERATURE_LIMIT}{{limit=high_alarm}}": "75x60",
          f"{TEMPERATURE}{{device=mlx5_1}}": "90x60", f"{TEMPERATURE_LIMIT}{{device=mlx5_1,limit=high_alarm}}": "0x60"},
         12),
    Case("storage_path", "paused for a quarter of the time", {**STORAGE, f"{RX_PAUSE}{{priority=3}}": "0+4x80"}, 14,
         ("warning",)),
    Case("storage_path", "a checkpoint of five minutes", {**STORAGE, f"{RX_PAUSE}{{priority=3}}": "0+8x20 160x60"}, 9),
    Case("storage_path", "a compute port",
         {"fabricmon_port_info{role=compute}": "1x80", f"{RX_PAUSE}{{priority=3}}": "0+4x80"}, 14),
    Case("congestion", "paused half of the time for minutes", {f"{RX_PAUSE}{{priority=3}}": "0+8x60"}, 12,
         ("info", "info 2")),
    Case("congestion", "paused a thirtieth of the time", {f"{RX_PAUSE}{{priority=3}}": "0+0.5x60"}, 12),
    Case("slow_receiver", "pauses its switch", {f"{TX_PAUSE}{{priority=3}}": "0+3x60"}, 12, ("warning",)),
    Case("slow_receiver", "a moment", {f"{TX_PAUSE}{{priority=3}}": "0x20 1x40"}, 12),
    Case("pfc_storm", "pauses all the time, and others wait",
         {f"{TX_PAUSE}{{priority=3}}": "0+15x60",
          **{f"{RX_PAUSE}{{instance=n{n},priority=3}}": "0+5x60" for n in range(2, 6)}}, 12, ("critical",)),
    Case("pfc_storm", "pauses all the time, and nobody waits", {f"{TX_PAUSE}{{priority=3}}": "0+15x60"}, 12),
    Case("incast", "full to the brim, many senders told to slow down",
         {**LINK, RECEIVED: "0+735000000000x60",
          **{f"{NOTIFIED}{{instance=n{n}}}": "0+300x60" for n in range(2, 8)}}, 12, ("warning",)),
    Case("incast", "full to the brim, nobody told to slow down", {**LINK, RECEIVED: "0+735000000000x60"}, 12),
)  # fmt: skip


def promtool(cases: tuple[Case, ...], rule_file: str, alert: str, of: dict[str, str]) -> dict[str, Any]:
    """promtool's test file for the cases of one rule."""
    tests = []
    for case in cases:
        identity = case.of or of
        samples = []
        for firing in case.firing:
            severity, _, sort = firing.partition(" ")
            labels = {**identity, "severity": severity} | ({"case": sort} if sort else {})
            pairs = ",".join(f'{k}="{v}"' for k, v in labels.items())
            samples.append({"labels": f"{{{pairs}}}", "value": 1})
        by = ", ".join([*sorted({k for s in (PORT, GPU, PCIE, FLOW) for k in s}), "severity", "case"])
        expr = f'max by ({by}) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
        tests.append({
            "name": f"{case.rule}: {case.what}",
            "interval": "15s",
            "input_series": written(case.series),
            "promql_expr_test": [{"expr": expr, "eval_time": f"{case.at * 60:.0f}s", "exp_samples": samples}],
        })  # fmt: skip
    return {"rule_files": [rule_file], "evaluation_interval": "15s", "tests": tests}
