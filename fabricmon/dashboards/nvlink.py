"""Dashboard: NVLink. Links that are inactive, errors, the fabric's health, what the driver wants done."""

from __future__ import annotations

from fabricmon.dashboards.board import Board
from fabricmon.dashboards.panel import ORANGE, RED, YELLOW, Column, Query, Row, names, series, stat, steps, table
from fabricmon.dashboards.site import HEALTH, RECOVERY, Site, greatest

UID = "fabricmon-nvlink"
_BAD = steps((1, RED))


def board(site: Site) -> Board:
    return Board(
        UID,
        "fabricmon / NVLink",
        "NVLinks of all GPUs: which are inactive, which make errors, and what the driver wants done.",
        (site.nodes(),),
        (_now(), _state(site), _errors(site), _traffic(site)),
    )


def _now() -> Row:
    return Row("Now", (
        stat("GPUs", "GPUs that tell of their NVLinks.", "fabricmon:fleet:gpus:count", empty="no GPUs"),
        stat("NVLinks inactive", "NVLinks to a switch that are inactive. Any is bad.",
             "fabricmon:fleet:nvlinks_inactive:sum", limits=_BAD, empty="no GPUs"),
        stat("GPUs with NVLinks inactive", "A GPU with one inactive NVLink slows down every collective it takes part in.",
             "count(fabricmon:gpu:nvlinks_inactive:count) or vector(0)", limits=_BAD),
        stat("Fabric not healthy", "GPUs whose NVLink fabric says unhealthy or limited capacity. Any is bad.",
             "count(fabricmon:gpu:fabric_unhealthy:state) or vector(0)", limits=_BAD),
        stat("To recover", "GPUs with which the driver wants something done: a reset, a reboot. Any is bad.",
             "count(fabricmon:gpu:recovery_wanted:state) or vector(0)", limits=_BAD),
        stat("Xid errors within the hour", "Critical Xid errors that drivers told. Applications can cause some.",
             "sum(fabricmon:gpu:xid_events:increase1h) or vector(0)", limits=steps((1, ORANGE)), decimals=0),
    ))  # fmt: skip


def _state(site: Site) -> Row:
    node, gpu = Column(site.node, "Node", links=(site.row_to_node,)), Column("gpu", "GPU", width=80)
    return Row("What is wrong", (
        table("Which NVLinks", "GPUs with NVLinks to a switch that are inactive. All GPUs of a node: the NVSwitch or the "
              "fabric manager; one GPU: its link. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:nvlinks_inactive:count{{{site.among}}})")],
              [node, gpu, Column("Value", "Inactive", decimals=0, width=100, limits=_BAD)], width=6, sort="Inactive"),
        table("Whose fabric", "Health as the NVLink fabric tells it of each GPU. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:fabric_unhealthy:state{{{site.among}}})")],
              [node, gpu, Column("Value", "Health", width=140, mappings=tuple(names(HEALTH)))], width=6),
        table("What the driver wants", "GPUs that ask for a reset, a reboot or a drain. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:recovery_wanted:state{{{site.among}}})")],
              [node, gpu, Column("Value", "Action", width=190, mappings=tuple(names(RECOVERY)))], width=6),
        table("Xid errors by GPU", "Critical Xid errors by GPU. The same GPU again and again is broken.",
              [Query(f"topk(30, fabricmon:gpu:xid_events:increase1h{{{site.among}}})")],
              [node, gpu, Column("Value", "Errors", decimals=0, width=90)], width=6, sort="Errors"),
    ))  # fmt: skip


def _errors(site: Site) -> Row:
    limits = site.limits("nvlink_degraded")
    errors = f"fabricmon:gpu:nvlink_errors:rate5m{{{site.among}}}"
    ratio = f"fabricmon:gpu:nvlink_effective_bit_error_ratio:max{{{site.among}}}"
    legend = f"{{{{{site.node}}}}} GPU {{{{gpu}}}}"
    return Row("Errors", (
        series("NVLink errors by counter", "A second, over all GPUs. Checksum errors are mended by a replay; recoveries "
               "are links that were trained again; one critical error is a failure.",
               Query("fabricmon:fleet:nvlink_errors:rate5m > 0", "{{counter}}"), width=8, empty="none"),
        series("GPUs with most NVLink errors", f"The ten worst. {limits.crc:g} checksum errors in a reading, or any "
               "recovery, makes the link degraded.", Query(greatest(errors), f"{legend} {{{{counter}}}}"), width=8,
               empty="none", links=[site.to_node], logarithmic=True),
        series("Worst bit error ratio after correction", "The ten worst GPUs (NVLink 5). Above "
               f"{limits.effective_ber:g} the link is degraded.", Query(greatest(ratio), legend), unit="sci",
               logarithmic=True, limits=steps((limits.effective_ber, RED)), width=8, empty="not told by these GPUs",
               links=[site.to_node]),
        table("NVLink errors now", "The thirty worst by counter, errors a second over the last five minutes. Empty is "
              "good.", [Query(f"topk(30, {errors})")],
              [Column(site.node, "Node", links=(site.row_to_node,)), Column("gpu", "GPU", width=80),
               Column("counter", "Counter", width=190),
               Column("Value", "A second", decimals=3, width=110, limits=steps((0, YELLOW), (1, RED)))],
              width=24, height=7, sort="A second"),
    ))  # fmt: skip


def _traffic(site: Site) -> Row:
    return Row("Traffic", (
        series("Bytes over NVLink", "What all GPUs sent. A drop to nothing while jobs run says that they wait.",
               Query("fabricmon:fleet:nvlink_transmitted_bytes:rate5m", "sent"), unit="Bps", width=12, empty="no GPUs"),
        series("Bytes over NVLink by GPU", "The GPU that sends least, the middle one, and the one that sends most. In one "
               "large job they are near each other: a wide gap is a straggler or several jobs.",
               Query("fabricmon:fleet:nvlink_transmitted_bytes:quantile5m", "quantile {{quantile}}"), unit="Bps",
               width=12, empty="no GPUs"),
    ))  # fmt: skip
