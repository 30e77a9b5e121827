"""Dashboard: fabricmon itself. Does it keep up, whom does it not hear, what does it cost."""

from __future__ import annotations

from fabricmon.dashboards.board import Board
from fabricmon.dashboards.panel import BLUE, GREEN, ORANGE, RED, YELLOW, Column, Query, Row, series, stat, steps, table
from fabricmon.dashboards.site import Site

UID = "fabricmon-self"

CPU_BAR, MEMORY_BAR = 0.005, 80 * 2**20
"""What an agent may cost its node: half a percent of a core, 80 MiB."""


def board(site: Site) -> Board:
    return Board(
        UID,
        "fabricmon / Itself",
        "Whether fabricmon keeps up: judging, streams, notifications, collectors, and what it costs.",
        (),
        (_now(), _judging(), _streams(), _telling(), _collectors(site), _cost()),
    )


def _now() -> Row:
    good = steps((1, GREEN), base=RED)
    return Row("Now", (
        stat("Judged ago", "Time since the fleet was judged last. More than a few seconds is bad: nothing new is found.",
             "time() - fabricmon_central_tick_timestamp_seconds", unit="s", limits=steps((5, ORANGE), (30, RED)), width=4,
             decimals=1),
        stat("State saved", "1 if the last commit to the state directory succeeded. 0: nobody is told anything new.",
             "min(fabricmon_central_store_success)", width=4, graph=False, limits=good),
        stat("Configuration", "1 if the configuration in use is the one last read. 0: a reload was refused.",
             "min(fabricmon_central_config_last_reload_success)", width=4, graph=False, limits=good),
        stat("Agents not followed", "Targets without an open stream. Their nodes are unknown.",
             "sum(fabricmon_central_targets) - sum(fabricmon_central_streams)", limits=steps((1, ORANGE)), width=4),
        stat("Targets refused", "Targets beyond central.pull.max_targets. Any is bad: a discovery gone wrong, or a limit "
             "to be raised.", "sum(fabricmon_central_targets_refused)", limits=steps((1, RED)), width=4),
        stat("Not delivered yet", "Notifications that wait for a receiver.", "sum(fabricmon_outbox_notifications)",
             limits=steps((10, YELLOW), (100, RED)), width=4, empty="no receiver"),
    ))  # fmt: skip


def _judging() -> Row:
    return Row("Judging", (
        series("One look at the fleet", "How long it takes. The centre spends at most a fifth of its time on it: longer "
               "looks come more seldom.", Query("fabricmon_central_tick_last_seconds", "last"),
               Query("fabricmon_central_tick_longest_seconds", "longest since the start"), unit="s", width=8),
        series("Time spent judging", "Share of one core. Near 20 % looks come as seldom as they must.",
               Query("rate(fabricmon_central_tick_seconds_total[$__rate_interval])", "judging"), unit="percentunit",
               width=8, limits=steps((0.15, YELLOW), (0.2, RED))),
        series("Looks a second", "How often the fleet is judged.",
               Query("rate(fabricmon_central_ticks_total[$__rate_interval])", "looks"), unit="hertz", width=8),
        series("Clock", "How far the machine's clock is ahead of the time the centre judges by. A step is a clock that was "
               "set.", Query("fabricmon_central_clock_offset_seconds", "offset"), unit="s", width=8, least=None),
        series("The engine's own counts", "A second, by name. rule_failures is a defect: report it.",
               Query("rate(fabricmon_central_engine[$__rate_interval]) > 0", "{{name}}"), unit="cps", width=8,
               empty="nothing moves"),
        series("Recording", "What could not be recorded, a second: the disk is full or too slow. Any is bad where "
               "recordings matter.", Query("rate(fabricmon_central_record_lost_total[$__rate_interval])", "lost"),
               unit="cps", width=8, empty="no recording"),
    ))  # fmt: skip


def _streams() -> Row:
    return Row("Streams from agents", (
        series("Frames a second", "An agent sends one a second at least. A fall is agents that are gone.",
               Query("rate(fabricmon_central_frames_total[$__rate_interval])", "frames"), unit="cps", width=8),
        series("Bytes a second", "Of all frames together.",
               Query("rate(fabricmon_central_frame_bytes_total[$__rate_interval])", "bytes"), unit="Bps", width=8),
        series("Streams", "Open streams, and how many there should be.", Query("fabricmon_central_streams", "open"),
               Query("fabricmon_central_targets", "targets"), width=8),
        series("Trouble with streams", "A minute. Attempts that failed; messages that were no part of a stream (another "
               "program behind that address, or a defect).",
               Query("60 * rate(fabricmon_central_connect_failures_total[$__rate_interval])", "attempts failed"),
               Query("60 * rate(fabricmon_central_bad_messages_total[$__rate_interval])", "bad messages"), width=8),
        series("New streams and inventories", "A minute. Many all the time: agents restart, or a network cuts streams.",
               Query("60 * rate(fabricmon_central_connects_total[$__rate_interval])", "streams opened"),
               Query("60 * rate(fabricmon_central_inventories_total[$__rate_interval])", "inventories"),
               Query("60 * rate(fabricmon_central_events_total[$__rate_interval])", "kernel events"), width=8),
        table("Sources of targets", "Who says which agents there should be. A source that fails keeps what it gave before.",
              [Query("fabricmon_central_targets_source_targets + 0"), Query("fabricmon_central_targets_source_success + 0")],
              [Column("source", "Source"), Column("Value #A", "Targets", width=90),
               Column("Value #B", "Read", width=80, limits=steps((1, GREEN), base=RED))], width=8,
              empty="only the configuration itself"),
    ))  # fmt: skip


def _telling() -> Row:
    def total(word: str) -> str:
        return f"sum by (receiver) (rate(fabricmon_notifications_{word}_total[$__rate_interval]))"

    return Row("Outbox", (
        series("Waiting, by receiver", "Notifications that wait, by receiver. They survive a restart; a line that only grows is "
               "a receiver that is away.", Query("fabricmon_outbox_notifications", "{{receiver}}"), width=8,
               empty="no receiver"),
        series("Attempts", "A second: accepted, repeated after a failure, refused for good.",
               Query(total("sent"), "{{receiver}} sent"), Query(f"{total('retried')} > 0", "{{receiver}} retried"),
               Query(f"{total('failed')} > 0", "{{receiver}} failed"), unit="cps", width=8, empty="no receiver"),
        series("Commits that failed", "A minute. Any is bad: the state directory is full or broken.",
               Query("60 * rate(fabricmon_central_commit_failures_total[$__rate_interval])", "failed"), width=8),
    ))  # fmt: skip


def _collectors(site: Site) -> Row:
    return Row("Collectors on the nodes", (
        series("Slowest run by collector", "The slowest node's last run. Above the collector's deadline it is given up.",
               Query("fabricmon:collector:duration_seconds:max", "{{collector}}"), unit="s", logarithmic=True, width=8,
               empty="no recording rules"),
        series("Usual run by collector", "The middle node's last run.",
               Query("fabricmon:collector:duration_seconds:p50", "{{collector}}"), unit="s", logarithmic=True, width=8,
               empty="no recording rules"),
        series("Nodes where a collector fails", "Any is bad: these values are unknown there.",
               Query("fabricmon:collector:failing:count", "{{collector}}"), width=8, empty="no recording rules"),
        series("Devices that hang", "Devices of which a read does not return, by collector. Any is bad: often a driver or "
               "firmware that is stuck.", Query("fabricmon:collector:stuck_devices:sum > 0", "{{collector}}"), width=8,
               empty="none"),
        table("Who fails where", "Collectors whose last run failed; at most thirty. Empty is good.",
              [Query("topk(30, fabricmon:collector:failing:nodes + 1)")],
              [Column(site.node, "Node", links=(site.row_to_node,)), Column("collector", "Collector")], width=8,
              empty="nobody"),
        table("Versions", "Agents by version. Several for long is a roll-out that stopped.",
              [Query("fabricmon:agent:versions:count")], [Column("version", "Version"), Column("Value", "Agents", width=90)],
              width=8, empty="no recording rules"),
    ))  # fmt: skip


def _cost() -> Row:
    centre = 'on (job, instance) group_left () fabricmon_build_info{component="central"}'
    return Row("What it costs", (
        series("Agents: processor", f"Of the middle, the one in a hundred and the worst agent, in cores. Above {CPU_BAR:g} "
               "it costs the job.", Query("fabricmon:agent:cpu:quantile5m", "quantile {{quantile}}"),
               limits=steps((CPU_BAR, RED)), width=6, empty="no recording rules"),
        series("Agents: memory", "Of the middle, the one in a hundred and the worst agent.",
               Query("fabricmon:agent:resident_memory_bytes:quantile", "quantile {{quantile}}"), unit="bytes",
               limits=steps((MEMORY_BAR, RED)), width=6, empty="no recording rules"),
        series("Centre: processor", "Cores in use.",
               Query(f"rate(process_cpu_seconds_total[$__rate_interval]) * {centre}", "cores"), width=6),
        series("Centre: memory and descriptors", "A line that only grows is a leak. Each agent is one descriptor.",
               Query(f"process_resident_memory_bytes * {centre}", "memory"), Query(f"process_open_fds * {centre}", "descriptors"),
               unit="bytes", width=6,
               overrides=[{"matcher": {"id": "byName", "options": "descriptors"}, "properties": [
                   {"id": "unit", "value": "short"}, {"id": "custom.axisPlacement", "value": "right"},
                   {"id": "color", "value": {"mode": "fixed", "fixedColor": BLUE}}]}]),
    ))  # fmt: skip
