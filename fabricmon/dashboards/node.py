"""Dashboard: one node. Ports, GPUs, PCIe, kernel log, and its agent."""

from __future__ import annotations

from fabricmon.catalogue import CATALOGUE, Category
from fabricmon.catalogue.traffic import SOURCES as TRAFFIC
from fabricmon.dashboards.board import Dashboard, choice
from fabricmon.dashboards.open_incidents import open_incidents
from fabricmon.dashboards.panel import (
    BAD,
    GREEN,
    ORANGE,
    RED,
    WARN,
    Json,
    PanelColumn,
    PanelRow,
    Query,
    bars,
    by_name,
    names,
    series,
    stat,
    states,
    steps,
    table,
)
from fabricmon.dashboards.recordings import CORRECTED
from fabricmon.dashboards.self_monitoring import CPU_BAR, MEMORY_BAR
from fabricmon.dashboards.site import FABRIC_STATES, HEALTH, NODE_UID, NVLINK_STATES, PORT_STATES, RECOVERY, Site
from fabricmon.model import Kind
from fabricmon.rules.promql import family, metric

SLOW = "2m"
"""Minimum interval of panels with counters that are read every one or two minutes."""


def board(site: Site) -> Dashboard:
    devices = f"label_values(fabricmon_port_state{{{site.of_node}}}, device)"
    return Dashboard(
        NODE_UID,
        "fabricmon / Node",
        "One node: ports, GPUs, PCIe, kernel log, and its agent.",
        (site.node_list(), choice("device", "Device", devices, several=True)),
        (_now(site), _links(site), _traffic(site), _errors(site), _pressure(site), _optics(site), _gpus(site),
         _pcie(site), _log(site), _settings(site), _agent(site)),
        annotated='node=~"$node(:[0-9]+)?"',
    )  # fmt: skip


def _ports(site: Site) -> str:
    return f'{site.of_node}, device=~"$device"'


def moved(kind: Kind, categories: tuple[Category, ...], matchers: str) -> str:
    """Query: the rate of every rising counter of these categories, with its name in the label `counter`.

    One query for all: the metrics come from the catalogue, and rate() would remove their name. Over five minutes: some
    are read every two.
    """
    prefix = f"fabricmon_{kind}_"
    found = {c.metric for c in CATALOGUE.values() if c.kind is kind and c.category in categories and c.growth.counts}
    inner = "|".join(sorted(name.removeprefix(prefix).removesuffix("_total") for name in found))
    each = f'{{__name__=~"{prefix}({inner})_total", {matchers}}}'
    named = f'label_replace({each}, "counter", "$1", "__name__", "{prefix}(.+)_total")'
    return f"rate({named}[5m:30s]) > 0"


def _now(site: Site) -> PanelRow:
    up = f"fabricmon_port_state{{{site.of_node}}}"
    return PanelRow("Now", (
        stat("Critical", "Symptoms found by this node's agent. Any is bad.",
             f'sum(fabricmon_node_symptoms{{severity="critical", {site.of_node}}})', limits=BAD, width=3,
             empty="not evaluated"),
        stat("Warning", "Symptoms found by this node's agent.",
             f'sum(fabricmon_node_symptoms{{severity="warning", {site.of_node}}})', limits=WARN, width=3,
             empty="not evaluated"),
        stat("Ports active", "RDMA ports with an active link.", f"count({up} == 4) or 0 * count({up})", width=3,
             empty="no RDMA ports"),
        stat("Ports not active", "RDMA ports without an active link; some may be disabled.",
             f"count({up} != 4) or 0 * count({up})", limits=BAD, width=3, empty="no RDMA ports"),
        stat("GPUs", "GPUs found by a driver.", f"max(fabricmon_node_gpus_found{{{site.of_node}}})", width=3,
             empty="unknown"),
        stat("Missing devices", "Expected adapters and GPUs that are not present. Any is bad.",
             f"clamp_min(max(fabricmon_node_hcas_expected{{{site.of_node}}} - fabricmon_node_hcas_found{{{site.of_node}}}), 0)"
             f" + clamp_min(max(fabricmon_node_gpus_expected{{{site.of_node}}} - fabricmon_node_gpus_found{{{site.of_node}}}), 0)",
             limits=BAD, width=3, empty="unknown"),
        stat("Failing collectors", "Their values are unknown now. Any is bad.",
             f"count(fabricmon_collector_success{{{site.of_node}}} == 0) or 0 * count(fabricmon_collector_success{{{site.of_node}}})",
             limits=WARN, width=3, empty="no agent"),
        stat("Agent", "Version of the agent.", f'fabricmon_build_info{{component="agent", {site.of_node}}}',
             legend="{{version}}", text="name", graph=False, instant=True, width=3, empty="not scraped"),
        open_incidents(site, 24, height=5, matchers='node=~"$node(:[0-9]+)?"',
                       title="Open incidents of this node"),
    ))  # fmt: skip


def _links(site: Site) -> PanelRow:
    rate = f"8 * fabricmon_port_rate_bytes_per_second{{{_ports(site)}}}"
    info = f"fabricmon_port_info{{{_ports(site)}}}"
    return PanelRow("Links", (
        states("Port state", "Only green ports carry traffic; short red strips are a flapping link.", Query(f"fabricmon_port_state{{{_ports(site)}}}", "{{device}}/{{port}}"),
               mappings=names(PORT_STATES), width=12, empty="no RDMA ports"),
        states("Carrier", "Red: no signal from the other end.",
               Query(f"fabricmon_port_carrier{{{site.of_node}}}", "{{device}}"),
               mappings=names({0: ("no carrier", "red"), 1: ("carrier", "green")}), width=6, empty="no interfaces"),
        bars("Negotiated rate", "A port below the others has lost lanes or negotiated a lower speed.",
             Query(rate, "{{device}}/{{port}}"), unit="bps", width=6, empty="no link is up"),
        series("Link-downs, last hour", "Three within minutes are flapping.",
               Query(f"increase({family('link_downed')}{{{_ports(site)}}}[1h])", "{{device}}/{{port}}"),
               Query(f"increase({family('carrier_down_changes')}{{{site.of_node}}}[1h]) > 0", "{{device}} carrier"),
               width=12, empty="not counted"),
        table("Port inventory", "As reported by the driver.", [Query(info)],
              [PanelColumn("device", "Device", width=100), PanelColumn("port", "Port", width=60), PanelColumn("netdev", "Interface", width=110),
               PanelColumn("link_layer", "Layer", width=100), PanelColumn("role", "Role", width=90), PanelColumn("board", "Board"),
               PanelColumn("firmware", "Firmware", width=110), PanelColumn("neighbour", "Neighbour"),
               PanelColumn("node_guid", "Node GUID")], width=12, empty="no ports"),
    ))  # fmt: skip


def _traffic(site: Site) -> PanelRow:
    line = f"fabricmon_port_rate_bytes_per_second{{{_ports(site)}}}"
    received, sent = (
        " or ".join(f"rate({metric(source[at])}{{{_ports(site)}}}[$__rate_interval])" for source in TRAFFIC)
        for at in (1, 2)
    )
    over = "on (job, instance, device, port)"
    return PanelRow("Traffic", (
        series("Tx utilisation", "Jobs load all ports of a node equally: one below the others is slowed down.",
               Query(f"({sent}) / {over} {line}", "{{device}}/{{port}}"), unit="percentunit", most=1, width=12,
               empty="no link is up"),
        series("Rx utilisation", "Share of the line rate.",
               Query(f"({received}) / {over} {line}", "{{device}}/{{port}}"), unit="percentunit", most=1, width=12,
               empty="no link is up"),
        series("Tx", "Bytes per second of each port.", Query(sent, "{{device}}/{{port}}"), unit="Bps", width=12,
               empty="not counted"),
        series("Rx", "Bytes per second of each port.", Query(received, "{{device}}/{{port}}"), unit="Bps", width=12,
               empty="not counted"),
    ))  # fmt: skip


def _errors(site: Site) -> PanelRow:
    ports, legend = _ports(site), "{{device}}/{{port}} {{counter}}"
    corrected = " or ".join(f"rate({metric(column)}{{{ports}}}[$__rate_interval])" for column in CORRECTED)
    ratio = f"({corrected}) / on (job, instance, device, port) (8 * fabricmon_port_rate_bytes_per_second{{{ports}}})"
    return PanelRow("Errors", (
        series("Port errors", "All rising error counters, per second. None is good; continuing symbol errors: a bad cable or "
               "optic.", Query(moved(Kind.PORT, (Category.ERROR,), ports), legend), width=12,
               empty="none", logarithmic=True, interval=SLOW, table_legend=True),
        series("Retransmissions", "All rising counters of retransmitted or lost packets, per second. In a lossless fabric none is "
               "good.", Query(moved(Kind.PORT, (Category.RETRANSMISSION,), ports), legend), width=12,
               empty="none", logarithmic=True, table_legend=True),
        series("Pre-FEC BER", "Ethernet. Never zero at 200 Gb/s and more; compare the ports with each other.", Query(ratio, "{{device}}/{{port}}"), unit="sci",
               logarithmic=True, width=12, interval=SLOW, empty="not supported by these adapters"),
        series("FEC uncorrectable codewords", "Per second. Each is lost data. Any is bad.",
               Query(f"rate({family('fec_uncorrectable_blocks')}{{{ports}}}[$__rate_interval])", "{{device}}/{{port}}"),
               width=12, interval=SLOW, empty="not supported by these adapters"),
    ))  # fmt: skip


def _pressure(site: Site) -> PanelRow:
    ports, limits = _ports(site), site.limits("congestion")
    priority = "{{device}}/{{port}} priority {{priority}}"
    return PanelRow("Congestion", (
        series("PFC pause received", f"Share of time by priority. Above {limits.medium:.0%} for minutes is congestion.", Query(f"rate({family('pfc_rx_pause_prio0')}{{{ports}}}[$__rate_interval]) > 0", priority),
               unit="percentunit", limits=site.waiting_limits, width=8, empty="no PFC pause"),
        series("PFC pause sent", "Share of time by priority in which this node paused its switch: back-pressure on all senders.",
               Query(f"rate({family('pfc_tx_pause_prio0')}{{{ports}}}[$__rate_interval]) > 0", priority),
               unit="percentunit", limits=site.pausing_limits, width=8, empty="no PFC pause"),
        series("Credit wait (InfiniBand)", "Ticks per second with data and no credits. Compare the ports with each other.",
               Query(f"rate({family('xmit_wait_ticks')}{{{ports}}}[$__rate_interval])", "{{device}}/{{port}}"), width=8,
               empty="not counted"),
        series("Other congestion counters", "All rising ones, per second: ECN-marked packets, CNPs, discards, missing buffers.",
               Query(moved(Kind.PORT, (Category.CONGESTION,), ports), "{{device}}/{{port}} {{counter}}"), width=24,
               height=8, empty="none", logarithmic=True, table_legend=True),
    ))  # fmt: skip


def _optics(site: Site) -> PanelRow:
    ports = _ports(site)
    low = f'fabricmon_port_module_rx_power_limit_watts{{limit="low_alarm", {ports}}}'
    high = f'fabricmon_port_module_temperature_limit_celsius{{limit="high_alarm", {ports}}}'
    return PanelRow("Optics", (
        series("Rx optical power (dBm)", "Weakest lane of each module, and the highest low alarm of the modules. Falling for "
               "hours: a dirty or failing optic.",
               Query(f"10 * log10(1000 * min without (lane) (fabricmon_port_module_rx_power_watts{{{ports}}} > 0))",
                     "{{device}}/{{port}}"),
               Query(f"10 * log10(1000 * max({low} > 0))", "low alarm"), unit="dBm", least=None, width=8,
               empty="no module data", overrides=[_dashed("low alarm")]),
        series("Module temperature", "And the lowest high alarm of the modules.",
               Query(f"fabricmon_port_module_temperature_celsius{{{ports}}}", "{{device}}/{{port}}"),
               Query(f"min({high} > 0)", "high alarm"), unit="celsius", least=None, width=8, empty="no module data",
               overrides=[_dashed("high alarm")]),
        series("Adapter temperature", "Temperature of the chips. All rising together: the chassis.",
               Query(f"fabricmon_port_nic_temperature_celsius{{{ports}}}", "{{device}}"), unit="celsius", least=None,
               width=8, empty="no adapter data"),
    ), folded=True)  # fmt: skip


def _dashed(name: str) -> Json:
    """Override for a series that is a limit."""
    return by_name(name, custom__lineStyle={"fill": "dash", "dash": [8, 6]}, custom__fillOpacity=0,
                   color={"mode": "fixed", "fixedColor": RED})  # fmt: skip


def _gpus(site: Site) -> PanelRow:
    here = site.of_node
    gpu = "GPU {{gpu}}"
    return PanelRow("GPUs and NVLink", (
        bars("NVLinks active", "By GPU. One below the others has lost a link.",
             Query(f"fabricmon_gpu_nvlinks_active{{{here}}}", gpu), width=6, empty="no GPUs"),
        states("NVLink fabric registration", "By GPU. Unless completed, the GPU reaches no other GPU over the NVSwitches.", Query(f"fabricmon_gpu_fabric_state{{{here}}}", gpu),
               mappings=names(FABRIC_STATES), width=6, empty="no GPUs"),
        states("NVLink fabric health", "As reported by the GPU.", Query(f"fabricmon_gpu_fabric_health_verdict{{{here}}}", gpu),
               mappings=names(HEALTH), width=6, empty="not supported by these GPUs"),
        states("GPU recovery action", "Any action requested by the driver is bad.",
               Query(f"fabricmon_gpu_recovery_action{{{here}}}", gpu), mappings=names(RECOVERY), width=6,
               empty="not supported by these GPUs"),
        series("NVLink Tx", "Bytes per second by GPU.",
               Query(f"rate(fabricmon_gpu_nvlink_tx_bytes_total{{{here}}}[$__rate_interval])", gpu), unit="Bps", width=8,
               empty="no GPUs"),
        series("GPU errors", "All rising error counters, per second: NVLink, PCIe, Xid.",
               Query(moved(Kind.GPU, (Category.ERROR, Category.RETRANSMISSION), here), f"{gpu} {{{{counter}}}}"),
               width=8, empty="none", logarithmic=True),
        series("NVLink errors", "All rising error counters by NVLink, per second.",
               Query(moved(Kind.NVLINK, (Category.ERROR, Category.RETRANSMISSION), here),
                     f"{gpu} link {{{{link}}}} {{{{counter}}}}"), width=8, empty="none", logarithmic=True),
        states("NVLinks not active", "Blue: asleep or without traffic, usual when idle.",
               Query(f"fabricmon_nvlink_state{{{here}}} != 1", f"{gpu} link {{{{link}}}}"), mappings=names(NVLINK_STATES),
               width=24, height=6, empty="all are active"),
    ), folded=True)  # fmt: skip


def _pcie(site: Site) -> PanelRow:
    here = site.of_node
    below = steps((1, GREEN), base=RED)
    return PanelRow("PCIe", (
        table("PCIe width and speed", "Shares of the possible width and speed of each device's PCIe path.",
              [Query(f"fabricmon_pcie_path_width{{{here}}} * on (job, instance, device) group_left (class, owner) "
                     f"fabricmon_pcie_info{{{here}}}"),
               Query(f"fabricmon_pcie_path_speed{{{here}}} * on (job, instance, device) group_left (class, owner) "
                     f"fabricmon_pcie_info{{{here}}}")],
              [PanelColumn("device", "PCI address", width=150), PanelColumn("class", "Class", width=90), PanelColumn("owner", "Owner"),
               PanelColumn("Value #A", "Lanes", unit="percentunit", decimals=0, width=90, limits=below),
               PanelColumn("Value #B", "Speed", unit="percentunit", decimals=0, width=90, limits=below)], width=12,
              empty="unknown"),
        series("PCIe errors", "All rising error counters, per second. Continuing corrected errors: a bad contact; others are "
               "worse.", Query(moved(Kind.PCIE, (Category.ERROR,), here), "{{device}} {{counter}}"),
               width=12, empty="none", logarithmic=True),
    ), folded=True)  # fmt: skip


def _log(site: Site) -> PanelRow:
    return PanelRow("Kernel log and node", (
        series("Kernel log messages", "Serious messages about devices other than ports and GPUs, per second.",
               Query(moved(Kind.NODE, (Category.ERROR,), site.of_node), "{{counter}}"), width=8, empty="none"),
        stat("Kernel log readable", "No: the agent has no permission, so faults in the log are not detected.",
             f"fabricmon_node_kernel_log_readable{{{site.of_node}}}",
             mappings=names({0: ("no", ORANGE), 1: ("yes", GREEN)}), graph=False, width=4, height=8, empty="unknown"),
        series("Expected and present devices", "Adapters and GPUs.",
               Query(f"fabricmon_node_hcas_found{{{site.of_node}}}", "adapters"),
               Query(f"fabricmon_node_hcas_expected{{{site.of_node}}}", "adapters expected"),
               Query(f"fabricmon_node_gpus_found{{{site.of_node}}}", "GPUs"),
               Query(f"fabricmon_node_gpus_expected{{{site.of_node}}}", "GPUs expected"), width=12, empty="unknown"),
    ), folded=True)  # fmt: skip


def _settings(site: Site) -> PanelRow:
    ports = _ports(site)

    def asked(name: str) -> Query:
        return Query(f"fabricmon_port_{name}{{{ports}}} + 0")

    return PanelRow("Lossless Ethernet configuration", (
        table("Configuration by port", "All ports of a rail should be equal. PFC: priorities as bits (8 is priority 3); trust: 1 is "
              "DSCP.",
              [asked("pfc_enabled"), asked("dscp_trusted"), asked("ecn_marks_answered"), asked("ecn_rate_reduced"),
               asked("qos_mtu_bytes"), asked("pause_rx_enabled"), asked("pause_tx_enabled")],
              [PanelColumn("device", "Device", width=120), PanelColumn("Value #A", "PFC", decimals=0), PanelColumn("Value #B", "Trust DSCP", decimals=0),
               PanelColumn("Value #C", "ECN marks answered (NP)", decimals=0), PanelColumn("Value #D", "Rate reduced on CNP (RP)", decimals=0),
               PanelColumn("Value #E", "MTU", unit="bytes"), PanelColumn("Value #F", "Global pause Rx", decimals=0),
               PanelColumn("Value #G", "Global pause Tx", decimals=0)], width=24, height=7, empty="no lossless Ethernet"),
    ), folded=True)  # fmt: skip


def _agent(site: Site) -> PanelRow:
    here = site.of_node
    own = f'on (job, instance) fabricmon_build_info{{component="agent", {here}}}'
    return PanelRow("Agent", (
        states("Collectors", "Red: the last run failed on a device, its values are unknown.",
               Query(f"fabricmon_collector_success{{{here}}}", "{{collector}}"),
               mappings=names({0: ("failed", "red"), 1: ("OK", "green")}), width=8, empty="no agent"),
        series("Age of values", "Seconds since the oldest value was read. A constant increase: a device hangs.", Query(f"time() - fabricmon_collector_last_success_timestamp_seconds{{{here}}}", "{{collector}}"),
               unit="s", logarithmic=True, width=8, empty="no agent"),
        series("Duration of a run", "All devices of the collector.",
               Query(f"fabricmon_collector_duration_seconds{{{here}}}", "{{collector}}"), unit="s", logarithmic=True,
               width=8, empty="no agent"),
        series("CPU", f"Cores in use. Above {CPU_BAR:g} it slows down jobs.",
               Query(f"rate(process_cpu_seconds_total{{{here}}}[$__rate_interval]) * {own}", "cores"),
               limits=steps((CPU_BAR, RED)), width=8, empty="no agent"),
        series("Memory", "Resident.", Query(f"process_resident_memory_bytes{{{here}}} * {own}", "memory"), unit="bytes",
               limits=steps((MEMORY_BAR, RED)), width=8, empty="no agent"),
        series("Firmware commands", "Estimated commands to the adapters per run of a collector.",
               Query(f"fabricmon_collector_hardware_queries{{{here}}} > 0", "{{collector}}"), width=8, empty="none"),
    ), folded=True)  # fmt: skip
