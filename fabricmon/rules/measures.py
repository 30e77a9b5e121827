"""What each rule compares with a limit: the unit of both, and the series on whose charts the limit is a line.

The limits themselves are settings of the rules; evidence carries them. `reading` of a rule names its measure.
"""

from __future__ import annotations

from typing import NamedTuple

from fabricmon.fleet import errors, pressure

BER = "bit errors per bit"

_PAUSED = pressure.PAUSES_RECEIVED.seconds
_PAUSING = pressure.PAUSES_SENT.seconds
_ERRORS = tuple(name for group in errors.SOURCES for name in group)


class Measure(NamedTuple):
    """One quantity of a rule.

    words    its name, for the line
    unit     of reading and limit: of the catalogue, or a word
    series   columns, or mean series of the page, that are drawn in this unit; seconds of a counter are a share of time
    per_bit  the series counts errors a second: the limit times the line rate in bits
    """

    words: str
    unit: str
    series: tuple[str, ...] = ()
    per_bit: bool = False


MEASURES: dict[str, Measure] = {
    "agent_silent.quiet": Measure("time without a frame", "seconds"),
    "congestion.stalled": Measure("share of time paused", "ratio", _PAUSED),
    "congestion.estimate": Measure("share of time without credits", "ratio"),
    "congestion.usual": Measure("mean of an hour of work", "ratio"),
    "expected_inventory.adapters": Measure("adapters", "adapters", ("node_hcas_found",)),
    "expected_inventory.gpus": Measure("GPUs", "GPUs", ("node_gpus_found",)),
    "flow_loss.share": Measure("share of probes lost", "ratio"),
    "incast.receive": Measure("Rx utilisation", "ratio", ("receive_ratio",)),
    "incast.marked": Measure("share of ECN-marked packets", "ratio"),
    "incast.senders": Measure("senders", "senders"),
    "incast.pausing": Measure("share of time pausing", "ratio", _PAUSING),
    "latency.rtt": Measure("round trip", "seconds", ("flow_rtt",)),
    "link_degraded.rate": Measure("rate of its peers", "bytes_per_second", ("rate", "netdev_rate")),
    "link_degrading.ber": Measure("bit error ratio", BER),
    "link_down.time": Measure("time down", "seconds"),
    "link_errors.ber": Measure("bit error ratio", BER, _ERRORS, per_bit=True),
    "link_errors.hard": Measure("polls with hard errors", "polls"),
    "link_flapping.penalty": Measure("downs weighted by age", ""),
    "link_flapping.episodes": Measure("episodes", "episodes"),
    "mass_alarm": Measure("incidents opened together", "incidents"),
    "nic_fault.errors": Measure("unrecoverable errors", "errors"),
    "nic_fault.adapters": Measure("adapters", "adapters"),
    "nvlink_degraded.crc": Measure("CRC errors", "errors/s", ("gpu_nvlink_crc_errors",)),
    "nvlink_degraded.count": Measure("errors of a poll", "errors"),
    "nvlink_degraded.ber": Measure("post-FEC BER", BER, ("gpu_nvlink_effective_ber",)),
    "nvlink_down.active": Measure("active NVLinks", "NVLinks", ("gpu_nvlinks_active",)),
    "optic_degrading.light": Measure("Rx power above the low alarm", "dB"),
    "optic_degrading.heat": Measure("temperature below the high alarm", "celsius"),
    "packet_loss.share": Measure("share of packets lost", "ratio"),
    "packet_loss.windows": Measure("windows with loss", "windows"),
    "pcie_degraded.width": Measure("share of the possible width", "ratio", ("pcie_path_width",)),
    "pcie_degraded.speed": Measure("share of the possible speed", "ratio", ("pcie_path_speed",)),
    "pcie_errors.uncorrected": Measure("PCIe errors that were not corrected", "errors"),
    "pcie_errors.corrected": Measure("corrected PCIe errors", "errors/min"),
    "pfc_storm.pausing": Measure("share of time pausing", "ratio", _PAUSING),
    "pfc_storm.victims": Measure("victims", "ports"),
    "slow_receiver.pausing": Measure("share of time pausing", "ratio", _PAUSING),
    "slow_receiver.receives": Measure("Rx utilisation", "ratio", ("receive_ratio",)),
    "credits_withheld.receives": Measure("Rx over Tx as a share of usual", "ratio"),
    "credits_withheld.waiting": Measure("ports that wait", ""),
    "slow_receiver.missed": Measure("packets without a receive buffer", "packets/s", pressure.STARVED),
    "storage_path.stalled": Measure("share of time paused", "ratio", _PAUSED),
    "storage_path.pausing": Measure("share of time pausing", "ratio", _PAUSING),
    "storage_path.marked": Measure("share of ECN-marked packets", "ratio"),
    "straggler.share": Measure("utilisation of its peers", "ratio"),
    "straggler.pausing": Measure("share of time pausing of its peers", "ratio", _PAUSING),
    "telemetry_quality.top": Measure("largest value of the counter", ""),
    "unreachable.probes": Measure("probes without an answer", "probes"),
}


def lines_of(series: str) -> frozenset[str]:
    """Measures whose limit is a line on the chart of a series."""
    return _LINES.get(series, frozenset())


_LINES: dict[str, frozenset[str]] = {
    series: frozenset(name for name, measure in MEASURES.items() if series in measure.series)
    for series in {series for measure in MEASURES.values() for series in measure.series}
}
