"""Dashboard: NVLink. Inactive links, errors, health of the NVLink fabric, GPU recovery actions."""

from __future__ import annotations

from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.panel import BAD, RED, WARN, YELLOW, PanelColumn, PanelRow, Query, series, stat, steps, table
from fabricmon.dashboards.site import HEALTH, RECOVERY, Site, greatest

UID = "fabricmon-nvlink"


def board(site: Site) -> Dashboard:
    return Dashboard(
        UID,
        "fabricmon / NVLink",
        "NVLinks of all GPUs: inactive links, errors, fabric health, GPU recovery actions.",
        (site.nodes(),),
        (_now(), _state(site), _errors(site), _traffic(site)),
    )


def _now() -> PanelRow:
    return PanelRow("Now", (
        stat("GPUs", "GPUs with NVLink counters.", "fabricmon:fleet:gpus:count", empty="no GPUs"),
        stat("NVLinks inactive", "Inactive NVLinks to a switch. Any is bad.",
             "fabricmon:fleet:nvlinks_inactive:sum", limits=BAD, empty="no GPUs"),
        stat("GPUs with inactive NVLinks", "A GPU with one inactive NVLink slows down all its collectives.",
             "count(fabricmon:gpu:nvlinks_inactive:count) or vector(0)", limits=BAD),
        stat("NVLink fabric unhealthy", "GPUs whose NVLink fabric is unhealthy or has limited capacity. Any is bad.",
             "count(fabricmon:gpu:fabric_unhealthy:state) or vector(0)", limits=BAD),
        stat("GPUs that need a reset", "GPUs for which the driver requests an action: reset, reboot, drain. Any is bad.",
             "count(fabricmon:gpu:recovery_wanted:state) or vector(0)", limits=BAD),
        stat("Xid errors, last hour", "Critical Xid errors of the drivers. Applications can cause some.",
             "sum(fabricmon:gpu:xid_events:increase1h) or vector(0)", limits=WARN, decimals=0),
    ))  # fmt: skip


def _state(site: Site) -> PanelRow:
    place = site.columns("gpu", "GPU", 80)
    return PanelRow("Faults", (
        table("Inactive NVLinks by GPU", "NVLinks to a switch. All GPUs of a node: NVSwitch or fabric manager; one GPU: its "
              "link. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:nvlinks_inactive:count{{{site.among}}})")],
              [*place, PanelColumn("Value", "Inactive", decimals=0, width=100, limits=BAD)], width=6, sort="Inactive"),
        table("Unhealthy NVLink fabric by GPU", "Health of the NVLink fabric as reported by each GPU. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:fabric_unhealthy:state{{{site.among}}})")],
              [*place, PanelColumn("Value", "Health", width=140, words=HEALTH)], width=6),
        table("GPU recovery action", "GPUs for which the driver requests a reset, reboot or drain. Empty is good.",
              [Query(f"topk(30, fabricmon:gpu:recovery_wanted:state{{{site.among}}})")],
              [*place, PanelColumn("Value", "Action", width=190, words=RECOVERY)], width=6),
        table("Xid errors by GPU", "Critical Xid errors by GPU, last hour. Repeatedly the same GPU: it is faulty.",
              [Query(f"topk(30, fabricmon:gpu:xid_events:increase1h{{{site.among}}})")],
              [*place, PanelColumn("Value", "Errors", decimals=0, width=90)], width=6, sort="Errors"),
    ))  # fmt: skip


def _errors(site: Site) -> PanelRow:
    limits = site.limits("nvlink_degraded")
    errors = f"fabricmon:gpu:nvlink_errors:rate5m{{{site.among}}}"
    ratio = f"fabricmon:gpu:nvlink_effective_bit_error_ratio:max{{{site.among}}}"
    legend = f"{{{{{site.node}}}}} GPU {{{{gpu}}}}"
    return PanelRow("Errors", (
        series("NVLink errors by counter", "Per second, all GPUs. CRC errors are corrected by a replay; recoveries: links "
               "that retrained; one critical error is a failure.",
               Query("fabricmon:fleet:nvlink_errors:rate5m > 0", "{{counter}}"), width=8, empty="none"),
        series("GPUs with most NVLink errors", f"The top ten. {limits.crc:g} CRC errors in one reading, or any "
               "recovery: the link is degraded.", Query(greatest(errors), f"{legend} {{{{counter}}}}"), width=8,
               empty="none", links=[site.to_node], logarithmic=True),
        series("Post-FEC BER, worst GPUs", "The top ten (NVLink 5). Above "
               f"{limits.effective_ber:g} the link is degraded.", Query(greatest(ratio), legend), unit="sci",
               logarithmic=True, limits=steps((limits.effective_ber, RED)), width=8, empty="not supported by these GPUs",
               links=[site.to_node]),
        table("NVLink errors now", "The top 30 by counter, errors per second over the last five minutes. Empty is "
              "good.", [Query(f"topk(30, {errors})")],
              [*site.columns("gpu", "GPU", 80),
               PanelColumn("counter", "Counter", width=190),
               PanelColumn("Value", "Per second", decimals=3, width=110, limits=steps((0, YELLOW), (1, RED)))],
              width=24, height=7, sort="Per second"),
    ))  # fmt: skip


def _traffic(site: Site) -> PanelRow:
    return PanelRow("Traffic", (
        series("NVLink Tx", "Bytes per second of all GPUs. A drop to zero while jobs run: the jobs wait.",
               Query("fabricmon:fleet:nvlink_transmitted_bytes:rate5m", "Tx"), unit="Bps", width=12, empty="no GPUs"),
        series("NVLink Tx by GPU", "Minimum, median and maximum of all GPUs. Equal in one large job; a wide gap is a "
               "straggler or several jobs.",
               Query("fabricmon:fleet:nvlink_transmitted_bytes:quantile5m", "quantile {{quantile}}"), unit="Bps",
               width=12, empty="no GPUs"),
    ), folded=True)  # fmt: skip
