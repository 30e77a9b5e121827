"""Dashboard: everything of one node. Its ports, GPUs, PCIe, kernel log, and the agent that reads them."""

from __future__ import annotations

from fabricmon.catalogue import CATALOGUE, Category
from fabricmon.dashboards.board import Board, choice
from fabricmon.dashboards.open_incidents import open_incidents
from fabricmon.dashboards.own import CPU_BAR, MEMORY_BAR
from fabricmon.dashboards.panel import (
    GREEN,
    ORANGE,
    RED,
    YELLOW,
    Column,
    Query,
    Row,
    bars,
    names,
    series,
    stat,
    states,
    steps,
    table,
)
from fabricmon.dashboards.recordings import CORRECTED, family
from fabricmon.dashboards.site import (
    FABRIC_STATES,
    HEALTH,
    NODE_UID,
    NVLINK_STATES,
    PORT_STATES,
    RECOVERY,
    Site,
)
from fabricmon.fleet.traffic import SOURCES as TRAFFIC
from fabricmon.model import Kind
from fabricmon.rules.promql import metric

SLOW = "2m"
"""Panels of counters that are read every one or two minutes ask no finer than that."""


def board(site: Site) -> Board:
    devices = f"label_values(fabricmon_port_state{{{site.of_node}}}, device)"
    return Board(
        NODE_UID,
        "fabricmon / Node",
        "Everything of one node: ports, GPUs, PCIe, kernel log, and the agent that reads them.",
        (site.node_list(), choice("device", "Device", devices, several=True)),
        (_now(site), _links(site), _traffic(site), _errors(site), _pressure(site), _optics(site), _gpus(site),
         _pcie(site), _log(site), _settings(site), _agent(site)),
    )  # fmt: skip


def _ports(site: Site) -> str:
    return f'{site.of_node}, device=~"$device"'


def moved(kind: Kind, categories: tuple[Category, ...], matchers: str) -> str:
    """The rate of every counter of these sorts that rises, with its name in the label `counter`.

    One query instead of one a counter: the metrics are listed from the catalogue, their name goes into a label before
    rate() takes it away. Over five minutes: some of them are read every two.
    """
    prefix = f"fabricmon_{kind}_"
    found = {c.metric for c in CATALOGUE.values() if c.kind is kind and c.category in categories and c.growth.counts}
    inner = "|".join(sorted(name.removeprefix(prefix).removesuffix("_total") for name in found))
    each = f'{{__name__=~"{prefix}({inner})_total", {matchers}}}'
    named = f'label_replace({each}, "counter", "$1", "__name__", "{prefix}(.+)_total")'
    return f"rate({named}[5m:30s]) > 0"


def _now(site: Site) -> Row:
    up = f"fabricmon_port_state{{{site.of_node}}}"
    return Row("Now", (
        stat("Critical", "Symptoms that this node's own agent finds. Any is bad.",
             f'sum(fabricmon_node_symptoms{{severity="critical", {site.of_node}}})', limits=steps((1, RED)), width=3,
             empty="not judged"),
        stat("Warning", "Symptoms that this node's own agent finds.",
             f'sum(fabricmon_node_symptoms{{severity="warning", {site.of_node}}})', limits=steps((1, ORANGE)), width=3,
             empty="not judged"),
        stat("Ports active", "RDMA ports whose link works.", f"count({up} == 4) or 0 * count({up})", width=3,
             empty="no RDMA ports"),
        stat("Ports not active", "RDMA ports whose link does not work; some may be so by order.",
             f"count({up} != 4) or 0 * count({up})", limits=steps((1, RED)), width=3, empty="no RDMA ports"),
        stat("GPUs", "GPUs that a driver has.", f"max(fabricmon_node_gpus_found{{{site.of_node}}})", width=3,
             empty="unknown"),
        stat("Missing", "Adapters and GPUs that this machine should have and has not. Any is bad.",
             f"clamp_min(max(fabricmon_node_hcas_expected{{{site.of_node}}} - fabricmon_node_hcas_found{{{site.of_node}}}), 0)"
             f" + clamp_min(max(fabricmon_node_gpus_expected{{{site.of_node}}} - fabricmon_node_gpus_found{{{site.of_node}}}), 0)",
             limits=steps((1, RED)), width=3, empty="nothing known"),
        stat("Collectors that fail", "What these read is unknown now. Any is bad.",
             f"count(fabricmon_collector_success{{{site.of_node}}} == 0) or 0 * count(fabricmon_collector_success{{{site.of_node}}})",
             limits=steps((1, ORANGE)), width=3, empty="no agent"),
        stat("Agent", "Version of the agent.", f'fabricmon_build_info{{component="agent", {site.of_node}}}',
             legend="{{version}}", text="name", graph=False, instant=True, width=3, empty="not scraped"),
        open_incidents(site, 24, height=5, matchers='node=~"$node(:[0-9]+)?"',
                       title="Open incidents about this node"),
    ))  # fmt: skip


def _links(site: Site) -> Row:
    rate = f"8 * fabricmon_port_rate_bytes_per_second{{{_ports(site)}}}"
    info = f"fabricmon_port_info{{{_ports(site)}}}"
    return Row("Links", (
        states("State of the ports", "Anything but green is a link that carries nothing; short red strips are a flapping "
               "link.", Query(f"fabricmon_port_state{{{_ports(site)}}}", "{{device}}/{{port}}"),
               mappings=names(PORT_STATES), width=12, empty="no RDMA ports"),
        states("Carrier of the interfaces", "Red: no signal from the other end.",
               Query(f"fabricmon_port_carrier{{{site.of_node}}}", "{{device}}"),
               mappings=names({0: ("no carrier", "red"), 1: ("carrier", "green")}), width=6, empty="no interfaces"),
        bars("Negotiated rate", "A port with less than its neighbours has lost lanes or came up slower.",
             Query(rate, "{{device}}/{{port}}"), unit="bps", width=6, empty="no link is up"),
        series("Times links went down", "Within the last hour. Three within minutes are flapping.",
               Query(f"increase({family('link_downed')}{{{_ports(site)}}}[1h])", "{{device}}/{{port}}"),
               Query(f"increase({family('carrier_down_changes')}{{{site.of_node}}}[1h]) > 0", "{{device}} carrier"),
               width=12, empty="not counted"),
        table("What the ports are", "As the driver tells it.", [Query(info)],
              [Column("device", "Device", width=100), Column("port", "Port", width=60), Column("netdev", "Interface", width=110),
               Column("link_layer", "Layer", width=100), Column("role", "Role", width=90), Column("board", "Board"),
               Column("firmware", "Firmware", width=110), Column("neighbour", "Neighbour"),
               Column("node_guid", "Node GUID")], width=12, empty="no ports"),
    ))  # fmt: skip


def _traffic(site: Site) -> Row:
    line = f"fabricmon_port_rate_bytes_per_second{{{_ports(site)}}}"
    received, sent = (
        " or ".join(f"rate({metric(source[at])}{{{_ports(site)}}}[$__rate_interval])" for source in TRAFFIC)
        for at in (1, 2)
    )
    over = "on (job, instance, device, port)"
    return Row("Traffic", (
        series("Sent, share of the line rate", "Jobs load all ports of a node alike: one below the others is slowed down.",
               Query(f"({sent}) / {over} {line}", "{{device}}/{{port}}"), unit="percentunit", most=1, width=12,
               empty="no link is up"),
        series("Received, share of the line rate", "The same for what arrives.",
               Query(f"({received}) / {over} {line}", "{{device}}/{{port}}"), unit="percentunit", most=1, width=12,
               empty="no link is up"),
        series("Bytes sent", "Of each port.", Query(sent, "{{device}}/{{port}}"), unit="Bps", width=12,
               empty="not counted"),
        series("Bytes received", "Of each port.", Query(received, "{{device}}/{{port}}"), unit="Bps", width=12,
               empty="not counted"),
    ))  # fmt: skip


def _errors(site: Site) -> Row:
    ports, legend = _ports(site), "{{device}}/{{port}} {{counter}}"
    mended = " or ".join(f"rate({metric(column)}{{{ports}}}[$__rate_interval])" for column in CORRECTED)
    ratio = f"({mended}) / on (job, instance, device, port) (8 * fabricmon_port_rate_bytes_per_second{{{ports}}})"
    return Row("Errors", (
        series("Errors", "Every error counter of a port that rises, a second. None is good; symbol errors that go on are a "
               "bad cable or optic.", Query(moved(Kind.PORT, (Category.ERROR,), ports), legend), width=12,
               empty="none", logarithmic=True, interval=SLOW, table_legend=True),
        series("Packets sent again", "Every counter of repeated or lost packets that rises, a second. In a lossless fabric "
               "none is good.", Query(moved(Kind.PORT, (Category.RETRANSMISSION,), ports), legend), width=12,
               empty="none", logarithmic=True, table_legend=True),
        series("Bit error ratio before correction", "What error correction has to mend (Ethernet). Never zero on links of "
               "200 Gb/s and more; compare the ports with each other.", Query(ratio, "{{device}}/{{port}}"), unit="sci",
               logarithmic=True, width=12, interval=SLOW, empty="not told by these adapters"),
        series("Blocks that could not be corrected", "A second. Each is lost data. Any is bad.",
               Query(f"rate({family('fec_uncorrectable_blocks')}{{{ports}}}[$__rate_interval])", "{{device}}/{{port}}"),
               width=12, interval=SLOW, empty="not told by these adapters"),
    ))  # fmt: skip


def _pressure(site: Site) -> Row:
    ports, limits = _ports(site), site.limits("congestion")
    shares = steps((limits.medium, YELLOW), (limits.high, RED))
    stops = steps((site.limits("slow_receiver").pausing, YELLOW), (site.limits("pfc_storm").pausing, RED))
    priority = "{{device}}/{{port}} priority {{priority}}"
    return Row("Congestion", (
        series("Not allowed to send (pause)", f"Share of time by priority. Above {limits.medium:.0%} for minutes is "
               "congestion.", Query(f"rate({family('pfc_rx_pause_prio0')}{{{ports}}}[$__rate_interval]) > 0", priority),
               unit="percentunit", limits=shares, width=8, empty="no pause"),
        series("Stops its switch (pause)", "Share of time by priority in which this node kept its switch from sending. The "
               "cause of others' waiting.",
               Query(f"rate({family('pfc_tx_pause_prio0')}{{{ports}}}[$__rate_interval]) > 0", priority),
               unit="percentunit", limits=stops, width=8, empty="no pause"),
        series("Wait ticks (InfiniBand)", "A second, with data and no credits. Compare the ports with each other.",
               Query(f"rate({family('xmit_wait_ticks')}{{{ports}}}[$__rate_interval])", "{{device}}/{{port}}"), width=8,
               empty="not counted"),
        series("Everything else that tells of congestion", "Every such counter that rises, a second: marks, notifications, "
               "discards, missing buffers.",
               Query(moved(Kind.PORT, (Category.CONGESTION,), ports), "{{device}}/{{port}} {{counter}}"), width=24,
               height=8, empty="none", logarithmic=True, table_legend=True),
    ))  # fmt: skip


def _optics(site: Site) -> Row:
    ports = _ports(site)
    low = f'fabricmon_port_module_rx_power_limit_watts{{limit="low_alarm", {ports}}}'
    high = f'fabricmon_port_module_temperature_limit_celsius{{limit="high_alarm", {ports}}}'
    return Row("Optics", (
        series("Light received", "Weakest lane of each module in dBm, and the highest of the modules' own low alarms. A line "
               "that falls for hours is a dirty or dying optic.",
               Query(f"10 * log10(1000 * min without (lane) (fabricmon_port_module_rx_power_watts{{{ports}}} > 0))",
                     "{{device}}/{{port}}"),
               Query(f"10 * log10(1000 * max({low} > 0))", "low alarm"), unit="dBm", least=None, width=8,
               empty="no module tells", overrides=[_dashed("low alarm")]),
        series("Temperature of modules", "And the lowest of the modules' own high alarms.",
               Query(f"fabricmon_port_module_temperature_celsius{{{ports}}}", "{{device}}/{{port}}"),
               Query(f"min({high} > 0)", "high alarm"), unit="celsius", least=None, width=8, empty="no module tells",
               overrides=[_dashed("high alarm")]),
        series("Temperature of adapters", "Of the adapters' chips. All rising together is the chassis.",
               Query(f"fabricmon_port_nic_temperature_celsius{{{ports}}}", "{{device}}"), unit="celsius", least=None,
               width=8, empty="no adapter tells"),
    ), folded=True)  # fmt: skip


def _dashed(name: str) -> dict[str, object]:
    return {"matcher": {"id": "byName", "options": name}, "properties": [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}},
        {"id": "custom.fillOpacity", "value": 0},
        {"id": "color", "value": {"mode": "fixed", "fixedColor": RED}},
    ]}  # fmt: skip


def _gpus(site: Site) -> Row:
    here = site.of_node
    gpu = "GPU {{gpu}}"
    return Row("GPUs and NVLink", (
        bars("NVLinks active", "Of each GPU. One below the others has lost a link.",
             Query(f"fabricmon_gpu_nvlinks_active{{{here}}}", gpu), width=6, empty="no GPUs"),
        states("NVLink fabric", "Registration of each GPU with the NVLink fabric. Anything but completed: the GPU talks to "
               "no other over the NVSwitches.", Query(f"fabricmon_gpu_fabric_state{{{here}}}", gpu),
               mappings=names(FABRIC_STATES), width=6, empty="no GPUs"),
        states("Health of the fabric", "As the GPU tells it.", Query(f"fabricmon_gpu_fabric_health_verdict{{{here}}}", gpu),
               mappings=names(HEALTH), width=6, empty="not told by these GPUs"),
        states("What the driver wants", "Anything but nothing is bad.",
               Query(f"fabricmon_gpu_recovery_action{{{here}}}", gpu), mappings=names(RECOVERY), width=6,
               empty="not told by these GPUs"),
        series("Bytes sent over NVLink", "Of each GPU.",
               Query(f"rate(fabricmon_gpu_nvlink_tx_bytes_total{{{here}}}[$__rate_interval])", gpu), unit="Bps", width=8,
               empty="no GPUs"),
        series("Errors of GPUs", "Every error counter of a GPU that rises, a second: NVLink, PCIe, Xid.",
               Query(moved(Kind.GPU, (Category.ERROR, Category.RETRANSMISSION), here), f"{gpu} {{{{counter}}}}"),
               width=8, empty="none", logarithmic=True),
        series("Errors of single NVLinks", "Every error counter of an NVLink that rises, a second.",
               Query(moved(Kind.NVLINK, (Category.ERROR, Category.RETRANSMISSION), here),
                     f"{gpu} link {{{{link}}}} {{{{counter}}}}"), width=8, empty="none", logarithmic=True),
        states("Single NVLinks that are not active", "Blue: asleep or without traffic, which is usual when idle.",
               Query(f"fabricmon_nvlink_state{{{here}}} != 1", f"{gpu} link {{{{link}}}}"), mappings=names(NVLINK_STATES),
               width=24, height=6, empty="all are active"),
    ), folded=True)  # fmt: skip


def _pcie(site: Site) -> Row:
    here = site.of_node
    below = steps((1, GREEN), base=RED)
    return Row("PCIe", (
        table("Adapters and GPUs", "Width and speed of the way to each device, as shares of what it could be.",
              [Query(f"fabricmon_pcie_path_width{{{here}}} * on (job, instance, device) group_left (class, owner) "
                     f"fabricmon_pcie_info{{{here}}}"),
               Query(f"fabricmon_pcie_path_speed{{{here}}} * on (job, instance, device) group_left (class, owner) "
                     f"fabricmon_pcie_info{{{here}}}")],
              [Column("device", "PCI address", width=150), Column("class", "Class", width=90), Column("owner", "Owner"),
               Column("Value #A", "Lanes", unit="percentunit", decimals=0, width=90, limits=below),
               Column("Value #B", "Speed", unit="percentunit", decimals=0, width=90, limits=below)], width=12,
              empty="not told"),
        series("PCIe errors", "Every error counter of a PCIe link that rises, a second. Corrected ones that go on are a bad "
               "contact; others are worse.", Query(moved(Kind.PCIE, (Category.ERROR,), here), "{{device}} {{counter}}"),
               width=12, empty="none", logarithmic=True),
    ), folded=True)  # fmt: skip


def _log(site: Site) -> Row:
    return Row("Kernel log and node", (
        series("Messages of the kernel log", "Grave messages about devices that are neither port nor GPU here, a second.",
               Query(moved(Kind.NODE, (Category.ERROR,), site.of_node), "{{counter}}"), width=8, empty="none"),
        stat("Kernel log readable", "0: the agent may not read it, so what it would tell is unknown.",
             f"fabricmon_node_kernel_log_readable{{{site.of_node}}}",
             mappings=names({0: ("no", ORANGE), 1: ("yes", GREEN)}), graph=False, width=4, height=8, empty="unknown"),
        series("What should be here and what is", "Adapters and GPUs: expected and found.",
               Query(f"fabricmon_node_hcas_found{{{site.of_node}}}", "adapters"),
               Query(f"fabricmon_node_hcas_expected{{{site.of_node}}}", "adapters expected"),
               Query(f"fabricmon_node_gpus_found{{{site.of_node}}}", "GPUs"),
               Query(f"fabricmon_node_gpus_expected{{{site.of_node}}}", "GPUs expected"), width=12, empty="unknown"),
    ), folded=True)  # fmt: skip


def _settings(site: Site) -> Row:
    ports = _ports(site)

    def asked(name: str) -> Query:
        return Query(f"fabricmon_port_{name}{{{ports}}} + 0")

    return Row("Settings of lossless Ethernet", (
        table("Settings by port", "All ports of one rail should be alike in the whole fleet. PFC: priorities as bits (8 is "
              "priority 3); trust: 1 is DSCP.",
              [asked("pfc_enabled"), asked("dscp_trusted"), asked("ecn_marks_answered"), asked("ecn_rate_reduced"),
               asked("qos_mtu_bytes"), asked("pause_rx_enabled"), asked("pause_tx_enabled")],
              [Column("device", "Device", width=120), Column("Value #A", "PFC", decimals=0), Column("Value #B", "Trust DSCP", decimals=0),
               Column("Value #C", "ECN answered", decimals=0), Column("Value #D", "ECN obeyed", decimals=0),
               Column("Value #E", "MTU", unit="bytes"), Column("Value #F", "Global pause in", decimals=0),
               Column("Value #G", "Global pause out", decimals=0)], width=24, height=7, empty="no lossless Ethernet"),
    ), folded=True)  # fmt: skip


def _agent(site: Site) -> Row:
    here = site.of_node
    own = f'on (job, instance) fabricmon_build_info{{component="agent", {here}}}'
    return Row("The agent", (
        states("Collectors", "Red: its last run failed on a device, and its values are unknown.",
               Query(f"fabricmon_collector_success{{{here}}}", "{{collector}}"),
               mappings=names({0: ("fails", "red"), 1: ("works", "green")}), width=8, empty="no agent"),
        series("Age of what is shown", "Seconds since the oldest value was read. A line that rises steadily is a device that "
               "hangs.", Query(f"time() - fabricmon_collector_last_success_timestamp_seconds{{{here}}}", "{{collector}}"),
               unit="s", logarithmic=True, width=8, empty="no agent"),
        series("Duration of a run", "Of all devices of the collector together.",
               Query(f"fabricmon_collector_duration_seconds{{{here}}}", "{{collector}}"), unit="s", logarithmic=True,
               width=8, empty="no agent"),
        series("Processor", f"Cores in use. Above {CPU_BAR:g} it costs the job.",
               Query(f"rate(process_cpu_seconds_total{{{here}}}[$__rate_interval]) * {own}", "cores"),
               limits=steps((CPU_BAR, RED)), width=8, empty="no agent"),
        series("Memory", "Resident.", Query(f"process_resident_memory_bytes{{{here}}} * {own}", "memory"), unit="bytes",
               limits=steps((MEMORY_BAR, RED)), width=8, empty="no agent"),
        series("Firmware commands", "How many one run of a collector costs the adapters, by the catalogue's estimate.",
               Query(f"fabricmon_collector_hardware_queries{{{here}}} > 0", "{{collector}}"), width=8, empty="none"),
    ), folded=True)  # fmt: skip
