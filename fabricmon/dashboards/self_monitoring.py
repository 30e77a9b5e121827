"""Dashboard: self-monitoring. Evaluation, streams, notifications, collectors, cost."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.panel import (
    BAD,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    WARN,
    YELLOW,
    PanelColumn,
    PanelRow,
    Query,
    series,
    stat,
    steps,
    table,
)
from fabricmon.dashboards.site import Site

UID = "fabricmon-self"

CPU_BAR, MEMORY_BAR = 0.005, 80 * 2**20
"""Limits of an agent: half a percent of a core, 80 MiB."""


def board(site: Site) -> Dashboard:
    return Dashboard(
        UID,
        "fabricmon / Self-monitoring",
        "Self-monitoring of agents and server: evaluation, streams, notifications, collectors, cost.",
        (),
        (_now(), _evaluation(), _streams(), _outbox(), _collectors(site), _cost()),
    )


def _now() -> PanelRow:
    good = steps((1, GREEN), base=RED)
    return PanelRow("Now", (
        stat("Last evaluation", "Time since the last evaluation of the fleet. More than a few seconds: faults are detected late.",
             "time() - fabricmon_central_tick_timestamp_seconds", unit="s", limits=steps((5, ORANGE), (30, RED)), width=4,
             decimals=1),
        stat("State saved", "1 if the last commit to the state directory succeeded. 0: no new notifications are sent.",
             "min(fabricmon_central_store_success)", width=4, graph=False, limits=good),
        stat("Configuration", "1 if the last reload succeeded. 0: the new configuration is invalid, the old one is in use.",
             "min(fabricmon_central_config_last_reload_success)", width=4, graph=False, limits=good),
        stat("Agents not connected", "Targets without an open stream. Their nodes are unknown.",
             "sum(fabricmon_central_targets) - sum(fabricmon_central_streams)", limits=WARN, width=4),
        stat("Targets over limit", "Targets above central.pull.max_targets. Any is bad: wrong discovery, or too low a "
             "limit.", "sum(fabricmon_central_targets_refused)", limits=BAD, width=4),
        stat("Undelivered notifications", "Notifications queued for a receiver.", "sum(fabricmon_outbox_notifications)",
             limits=steps((10, YELLOW), (100, RED)), width=4, empty="no receiver"),
    ))  # fmt: skip


def _percentile(work: str, by: str = "le") -> str:
    """The 99th percentile of a duration that the server measures."""
    buckets = f"fabricmon_central_{work}_duration_seconds_bucket[$__rate_interval]"
    return f"histogram_quantile(0.99, sum by ({by}) (rate({buckets})))"


def _evaluation() -> PanelRow:
    return PanelRow("Evaluation", (
        series("Duration of an evaluation", "The server spends at most 20 % of its time on it: longer evaluations are less "
               "frequent.", Query("fabricmon_central_tick_last_seconds", "last"),
               Query("fabricmon_central_tick_longest_seconds", "longest since the start"),
               Query(_percentile("tick"), "99th percentile"), Query(_percentile("diagnosis"), "diagnosis, 99th percentile"),
               unit="s", width=8),
        series("CPU share of evaluation", "Share of one core. Near 20 % the evaluations become less frequent.",
               Query("rate(fabricmon_central_tick_seconds_total[$__rate_interval])", "evaluation"), unit="percentunit",
               width=8, limits=steps((0.15, YELLOW), (0.2, RED))),
        series("Evaluations/s", "Evaluations of the fleet per second.",
               Query("rate(fabricmon_central_ticks_total[$__rate_interval])", "evaluations"), unit="hertz", width=8),
        series("Clock offset", "Wall clock of the machine ahead of the server's monotonic clock. A step: the clock was "
               "set.", Query("fabricmon_central_clock_offset_seconds", "offset"), unit="s", width=8, least=None),
        series("Engine counters", "Per second, by name. rule_failures is a defect: report it.",
               Query("rate(fabricmon_central_engine[$__rate_interval]) > 0", "{{name}}"), unit="cps", width=8,
               empty="no events"),
        series("Recording losses", "Records lost per second: the disk is full or too slow. Any is bad if recordings "
               "matter.", Query("rate(fabricmon_central_record_lost_total[$__rate_interval])", "lost"),
               unit="cps", width=8, empty="no recording"),
    ))  # fmt: skip


def _streams() -> PanelRow:
    return PanelRow("Streams from agents", (
        series("Frames/s", "An agent sends at least one per second. A drop: agents are gone.",
               Query("rate(fabricmon_central_frames_total[$__rate_interval])", "frames"), unit="cps", width=8),
        series("Frame bytes/s", "All frames.",
               Query("rate(fabricmon_central_frame_bytes_total[$__rate_interval])", "bytes"), unit="Bps", width=8),
        series("Streams", "Open streams and configured targets.", Query("fabricmon_central_streams", "open"),
               Query("fabricmon_central_targets", "targets"), width=8),
        series("Stream failures", "Per minute. Failed connection attempts; invalid messages (another program at that "
               "address, or a defect).",
               Query("60 * rate(fabricmon_central_connect_failures_total[$__rate_interval])", "failed attempts"),
               Query("60 * rate(fabricmon_central_bad_messages_total[$__rate_interval])", "invalid messages"), width=8),
        series("New streams and inventories", "Per minute. Constantly many: agents restart, or the network closes streams.",
               Query("60 * rate(fabricmon_central_connects_total[$__rate_interval])", "streams opened"),
               Query("60 * rate(fabricmon_central_inventories_total[$__rate_interval])", "inventories"),
               Query("60 * rate(fabricmon_central_events_total[$__rate_interval])", "kernel events"), width=8),
        table("Target sources", "Sources of the list of agents. A failing source keeps its last list.",
              [Query("fabricmon_central_targets_source_targets + 0"), Query("fabricmon_central_targets_source_success + 0")],
              [PanelColumn("source", "Source"), PanelColumn("Value #A", "Targets", width=90),
               PanelColumn("Value #B", "Read", width=80, limits=steps((1, GREEN), base=RED))], width=8,
              empty="only the configuration"),
    ), folded=True)  # fmt: skip


def _outbox() -> PanelRow:
    def total(word: str) -> str:
        return f"sum by (receiver) (rate(fabricmon_notifications_{word}_total[$__rate_interval]))"

    return PanelRow("Outbox", (
        series("Queued notifications by receiver", "They survive a restart; a constant increase: the receiver is down.", Query("fabricmon_outbox_notifications", "{{receiver}}"), width=6,
               empty="no receiver"),
        series("Delivery attempts", "Per second: accepted, retried after a failure, rejected.",
               Query(total("sent"), "{{receiver}} sent"), Query(f"{total('retried')} > 0", "{{receiver}} retried"),
               Query(f"{total('failed')} > 0", "{{receiver}} failed"), unit="cps", width=6, empty="no receiver"),
        series("Failed commits", "Per minute. Any is bad: the state directory is full or faulty.",
               Query("60 * rate(fabricmon_central_commit_failures_total[$__rate_interval])", "failed"), width=6),
        series("Delivery duration", "99th percentile of an attempt, by receiver. Near the receiver's timeout attempts fail.",
               Query(_percentile("delivery", "le, receiver"), "{{receiver}}"), unit="s", width=6, empty="no delivery lately"),
    ), folded=True)  # fmt: skip


def _collectors(site: Site) -> PanelRow:
    return PanelRow("Collectors on the nodes", (
        series("Slowest run by collector", "Last run of the slowest node. Above its deadline a run is aborted.",
               Query("fabricmon:collector:duration_seconds:max", "{{collector}}"), unit="s", logarithmic=True, width=8,
               empty="no recording rules"),
        series("Median run by collector", "Last run of the median node.",
               Query("fabricmon:collector:duration_seconds:p50", "{{collector}}"), unit="s", logarithmic=True, width=8,
               empty="no recording rules"),
        series("Nodes with a failing collector", "Any is bad: its values are unknown there.",
               Query("fabricmon:collector:failing:count", "{{collector}}"), width=8, empty="no recording rules"),
        series("Hanging devices", "Devices with a read that does not return, by collector. Any is bad: often a stuck driver "
               "or firmware.", Query("fabricmon:collector:stuck_devices:sum > 0", "{{collector}}"), width=8,
               empty="none"),
        table("Failing collectors by node", "Collectors whose last run failed, at most 30. Empty is good.",
              [Query("topk(30, fabricmon:collector:failing:nodes + 1)")],
              [PanelColumn(site.node, "Node", links=(site.row_to_node,)), PanelColumn("collector", "Collector")], width=8,
              empty="none"),
        table("Versions", "Agents by version. Several for long: an incomplete roll-out.",
              [Query("fabricmon:agent:versions:count")], [PanelColumn("version", "Version"), PanelColumn("Value", "Agents", width=90)],
              width=8, empty="no recording rules"),
    ), folded=True)  # fmt: skip


def _cost() -> PanelRow:
    server = 'on (job, instance) group_left () fabricmon_build_info{component="central"}'
    return PanelRow("Cost", (
        series("Agents: CPU", f"Median, 99 % and maximum, in cores. Above {CPU_BAR:g} it slows down jobs.", Query("fabricmon:agent:cpu:quantile5m", "quantile {{quantile}}"),
               limits=steps((CPU_BAR, RED)), width=6, empty="no recording rules"),
        series("Agents: memory", "Median, 99 % and maximum.",
               Query("fabricmon:agent:resident_memory_bytes:quantile", "quantile {{quantile}}"), unit="bytes",
               limits=steps((MEMORY_BAR, RED)), width=6, empty="no recording rules"),
        series("Server: CPU", "Cores in use.",
               Query(f"rate(process_cpu_seconds_total[$__rate_interval]) * {server}", "cores"), width=6),
        series("Server: memory and descriptors", "A constant increase is a leak. Each agent uses one descriptor.",
               Query(f"process_resident_memory_bytes * {server}", "memory"), Query(f"process_open_fds * {server}", "descriptors"),
               unit="bytes", width=6,
               overrides=[{"matcher": {"id": "byName", "options": "descriptors"}, "properties": [
                   {"id": "unit", "value": "short"}, {"id": "custom.axisPlacement", "value": "right"},
                   {"id": "color", "value": {"mode": "fixed", "fixedColor": BLUE}}]}]),
    ), folded=True)  # fmt: skip
