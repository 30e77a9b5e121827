"""NVLink, link by link and summed over a GPU, and where NVML keeps each number.

Field ids and units: docs/methods.md#nvlink-counters (nvml.h). Two families of error counters exist: NVLink 4 and older
count CRC, replay and recovery, NVLink 5 counts as InfiniBand does. Neither answers where the other does, so a GPU has
the columns of one. Rows of links stay on their node; server rules use the sums on the GPU's own row
(docs/design/gpu-links.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fabricmon.catalogue.counter import UNNAMED, Category, Counter, Growth
from fabricmon.model import Kind

_S, _T, _E = Category.STATE, Category.TRAFFIC, Category.ERROR

VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""What the enumeration in NVML_FI_DEV_NVLINK_GET_VERSION stands for."""

REMOTE_TYPES = {0: "gpu", 1: "npu", 2: "switch"}

MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of the newest header; GPUs have up to 18."""

LINK_COUNT = 91  # NVML_FI_DEV_NVLINK_LINK_COUNT

KIB = 1024.0


class NvmlField(NamedTuple):
    """One way to ask NVML for a column of one link.

    first   field id; for all links where `scoped`, else the id of link 0, links 1 to 5 follow it
    later   id of link 6 where not scoped, links 7 to 11 follow it; links from 12 on have no such field
    scale   exported value = raw x scale
    ber     the value is an encoded bit error ratio (section 2.2)
    """

    first: int
    later: int = 0
    scale: float = 1.0
    ber: bool = False

    def address(self, link: int) -> tuple[int, int] | None:
        """(field id, scope) for a link; None where it has none."""
        if not self.later:
            return self.first, link
        if link < 6:
            return self.first + link, 0
        return (self.later + link - 6, 0) if link < 12 else None


def bit_error_ratio(encoded: float) -> float:
    """Exponent in bits 0 to 7, mantissa in bits 8 to 11: m x 10^-e. 0 where no error was seen yet.

    Mantissa 15 with exponent 255 is NVML's "none" (section 2.2, DCGM). A value between 0 and 1 cannot be encoded so and
    is the ratio itself (nvml-mock answers as a double).
    """
    if 0 < encoded < 1:
        return encoded
    mantissa, exponent = int(encoded) >> 8 & 15, int(encoded) & 255
    return 0.0 if (mantissa, exponent) == (15, 255) else mantissa * 10.0**-exponent


def _row(name: str, unit: str, growth: Growth, category: Category, keys: tuple[str, ...], help: str, *,
         kind: Kind = Kind.NVLINK, bits: int = 0, window: bool = False, labels: tuple[tuple[str, str], ...] = (),
         family: str = "", states: Mapping[int, str] = UNNAMED) -> Counter:
    metric = family or name.removeprefix("gpu_" if kind is Kind.GPU else "nvlink_")
    source = "sum of links" if kind is Kind.GPU else "nvml"
    return Counter(name, kind, unit, bits, growth, category, source, keys, help, 1.0, kind is Kind.GPU, window, 0,
                   metric, labels, states)


def _count(name: str, keys: tuple[str, ...] | str, help: str, *, unit: str = "", category: Category = _E) -> Counter:
    keys = (keys,) if isinstance(keys, str) else keys
    return _row(name, unit, Growth.WRAPS, category, tuple(f"{_LINK}{key}" for key in keys), help, bits=64)


def _sum(name: str, keys: tuple[str, ...], help: str, *, unit: str = "", growth: Growth = Growth.STATE,
         category: Category = _S, bits: int = 0, window: bool = False) -> Counter:
    return _row(name, unit, growth, category, keys, help, kind=Kind.GPU, bits=bits, window=window)


_LINK = "NVML_FI_DEV_NVLINK_"

LINK_FIELDS: dict[str, tuple[NvmlField, ...]] = {
    "nvlink_state": (NvmlField(165),),
    "nvlink_version": (NvmlField(166),),
    "nvlink_power_state": (NvmlField(167),),
    "nvlink_speed": (NvmlField(164, scale=1e6), NvmlField(84, 132, scale=1e6)),
    "nvlink_tx": (NvmlField(202), NvmlField(138, scale=KIB)),
    "nvlink_rx": (NvmlField(204), NvmlField(139, scale=KIB)),
    "nvlink_tx_raw": (NvmlField(140, scale=KIB),),
    "nvlink_rx_raw": (NvmlField(141, scale=KIB),),
    "nvlink_tx_packets": (NvmlField(201),),
    "nvlink_rx_packets": (NvmlField(203),),
    "nvlink_crc_errors": (NvmlField(163),),
    "nvlink_crc_flit_errors": (NvmlField(32, 96),),
    "nvlink_crc_data_errors": (NvmlField(39, 102),),
    "nvlink_replay_errors": (NvmlField(161), NvmlField(46, 108)),
    "nvlink_recovery_errors": (NvmlField(162), NvmlField(53, 114)),
    "nvlink_ecc_data_errors": (NvmlField(148, 154),),
    "nvlink_malformed_packet_errors": (NvmlField(206),),
    "nvlink_buffer_overrun_errors": (NvmlField(207),),
    "nvlink_rcv_errors": (NvmlField(208),),
    "nvlink_rcv_remote_errors": (NvmlField(209),),
    "nvlink_rcv_general_errors": (NvmlField(210),),
    "nvlink_local_link_integrity_errors": (NvmlField(211),),
    "nvlink_xmit_discards": (NvmlField(212),),
    "nvlink_recoveries_successful": (NvmlField(213),),
    "nvlink_recoveries_failed": (NvmlField(214),),
    "nvlink_recoveries": (NvmlField(215),),
    "nvlink_effective_errors": (NvmlField(219),),
    "nvlink_effective_ber": (NvmlField(220, ber=True),),
    "nvlink_symbol_errors": (NvmlField(221),),
    "nvlink_symbol_ber": (NvmlField(222, ber=True),),
    "nvlink_raw_ber": (NvmlField(293, ber=True),),
    "nvlink_plr_blocks": (NvmlField(294),),
    "nvlink_plr_retries": (NvmlField(295),),
    **{f"nvlink_fec_corrected_{bin}": (NvmlField(235 + bin),) for bin in range(16)},
}
"""Column of a link -> where NVML has it; the first that answers is taken."""

FEC_COLUMNS = tuple(f"nvlink_fec_corrected_{bin}" for bin in range(16))

CRITICAL = (
    "nvlink_malformed_packet_errors", "nvlink_buffer_overrun_errors", "nvlink_rcv_errors", "nvlink_rcv_general_errors",
    "nvlink_local_link_integrity_errors", "nvlink_xmit_discards", "nvlink_recoveries_failed", "nvlink_symbol_errors",
)
"""Counters of NVLink 5 of which one count is a failure (DCGM's health module). Packets that were already marked bad
when they came (rcv_remote) are an earlier link's."""

_RULED: dict[str, Any] = {"growth": Growth.WRAPS, "category": _E, "bits": 64, "window": True}

COUNTERS: tuple[Counter, ...] = (
    _row("nvlink_state", "", Growth.STATE, _S, (f"{_LINK}GET_STATE",),
         "State of the link", states={0: "inactive", 1: "active", 2: "sleep", 3: "active with traffic disabled"}),
    _row("nvlink_version", "", Growth.STATE, _S, (f"{_LINK}GET_VERSION",),
         "Version of the link as NVML numbers them", states=VERSIONS),
    _row("nvlink_power_state", "", Growth.STATE, _S, (f"{_LINK}GET_POWER_STATE",),
         "Whether the link saves power", states={0: "high speed", 1: "saves power"}),
    _row("nvlink_speed", "bytes_per_second", Growth.LEVEL, _S, (f"{_LINK}GET_SPEED", f"{_LINK}SPEED_MBPS_L"),
         "Speed of the link in one direction"),
    _count("nvlink_tx", ("COUNT_XMIT_BYTES", "THROUGHPUT_DATA_TX"), "Bytes sent, on NVLink 4 and older payload only",
           unit="bytes", category=_T),
    _count("nvlink_rx", ("COUNT_RCV_BYTES", "THROUGHPUT_DATA_RX"),
           "Bytes received, on NVLink 4 and older payload only", unit="bytes", category=_T),
    _count("nvlink_tx_raw", "THROUGHPUT_RAW_TX", "Bytes sent with protocol overhead", unit="bytes", category=_T),
    _count("nvlink_rx_raw", "THROUGHPUT_RAW_RX", "Bytes received with protocol overhead", unit="bytes",
           category=_T),
    _count("nvlink_tx_packets", "COUNT_XMIT_PACKETS", "Packets sent", category=_T),
    _count("nvlink_rx_packets", "COUNT_RCV_PACKETS", "Packets received", category=_T),
    _count("nvlink_crc_errors", "ERROR_DL_CRC", "Checksum errors of the data link layer, mended by a replay"),
    _count("nvlink_crc_flit_errors", "CRC_FLIT_ERROR_COUNT_L", "Checksum errors of flow control units"),
    _count("nvlink_crc_data_errors", "CRC_DATA_ERROR_COUNT_L", "Checksum errors of data"),
    _count("nvlink_replay_errors", ("ERROR_DL_REPLAY", "REPLAY_ERROR_COUNT_L"), "Transmissions that were repeated"),
    _count("nvlink_recovery_errors", ("ERROR_DL_RECOVERY", "RECOVERY_ERROR_COUNT_L"),
           "Times the link had to be trained again (NVLink 4 and older)"),
    _count("nvlink_ecc_data_errors", "ECC_DATA_ERROR_COUNT_L", "Errors that the link's memory protection mended"),
    _count("nvlink_malformed_packet_errors", "COUNT_MALFORMED_PACKET_ERRORS", "Malformed packets received"),
    _count("nvlink_buffer_overrun_errors", "COUNT_BUFFER_OVERRUN_ERRORS", "Packets lost for lack of buffers"),
    _count("nvlink_rcv_errors", "COUNT_RCV_ERRORS", "Packets received with an error"),
    _count("nvlink_rcv_remote_errors", "COUNT_RCV_REMOTE_ERRORS",
           "Packets already marked bad by an earlier hop: the fault is on another link"),
    _count("nvlink_rcv_general_errors", "COUNT_RCV_GENERAL_ERRORS", "Packets received with a wrong header"),
    _count("nvlink_local_link_integrity_errors", "COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
           "Times local errors passed a threshold"),
    _count("nvlink_xmit_discards", "COUNT_XMIT_DISCARDS", "Outbound packets dropped"),
    _count("nvlink_recoveries_successful", "COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS",
           "Recoveries after which the link was up again (NVLink 5)"),
    _count("nvlink_recoveries_failed", "COUNT_LINK_RECOVERY_FAILED_EVENTS",
           "Recoveries after which the link was declared down (NVLink 5)"),
    _count("nvlink_recoveries", "COUNT_LINK_RECOVERY_EVENTS", "Recoveries begun (NVLink 5)"),
    _count("nvlink_effective_errors", "COUNT_EFFECTIVE_ERRORS", "Errors left after error correction"),
    _row("nvlink_effective_ber", "", Growth.LEVEL, _E, (f"{_LINK}COUNT_EFFECTIVE_BER",),
         "Post-FEC BER; 0 where no error was seen yet"),
    _count("nvlink_symbol_errors", "COUNT_SYMBOL_ERRORS", "Symbols that error correction could not mend"),
    _row("nvlink_symbol_ber", "", Growth.LEVEL, _E, (f"{_LINK}COUNT_SYMBOL_BER",),
         "Ratio of symbols that error correction could not mend; 0 where none was seen yet"),
    _row("nvlink_raw_ber", "", Growth.LEVEL, _E, (f"{_LINK}COUNT_RAW_BER_V2",),
         "Pre-FEC BER; 0 where no error was seen yet"),
    _count("nvlink_plr_blocks", "PLR_XMIT_BLOCKS", "Blocks sent under physical layer retransmission", category=_T),
    _count("nvlink_plr_retries", "PLR_XMIT_RETRY_BLOCKS", "Blocks that the physical layer retransmitted",
           category=Category.RETRANSMISSION),
    *(_row(f"nvlink_fec_corrected_{bin}", "", Growth.WRAPS, _E, (f"{_LINK}COUNT_FEC_HISTORY_{bin}",),
           "Codewords by the number of symbols that error correction mended in them; mass that moves to greater numbers "
           "is an early sign", bits=64, family="fec_corrected_codewords", labels=(("symbols", str(bin)),))
      for bin in range(16)),
    # summed over the links of a GPU, for rules
    _sum("gpu_nvlinks", ("links",), "NVLinks the GPU has"),
    _sum("gpu_nvlinks_active", ("nvlink_state 1, 2, 3",), "NVLinks that are active, asleep or without traffic"),
    _sum("gpu_nvlinks_to_switch", ("nvmlDeviceGetNvLinkRemoteDeviceType",),
         "NVLinks whose far end is an NVSwitch, as far as known"),
    _sum("gpu_nvlinks_inactive_mask", ("nvlink_state 0",), "Which NVLinks are inactive: bit n is link n"),
    _sum("gpu_nvlink_worst", ("greatest",), "The NVLink with the most errors so far, unknown where none has any"),
    _sum("gpu_nvlink_crc_errors", ("nvlink_crc_errors", "nvlink_crc_flit_errors + nvlink_crc_data_errors"),
         "Checksum errors of all NVLinks (NVLink 4 and older)", **_RULED),
    _sum("gpu_nvlink_replay_errors", ("nvlink_replay_errors",),
         "Transmissions repeated on all NVLinks (NVLink 4 and older)", **_RULED),
    _sum("gpu_nvlink_recoveries", ("nvlink_recovery_errors", "nvlink_recoveries_successful"),
         "Times an NVLink was trained again and came back, all links", **_RULED),
    _sum("gpu_nvlink_critical_errors", CRITICAL,
         "Errors of NVLink 5 of which one is a failure, all links", **_RULED),
    _sum("gpu_nvlink_effective_ber", ("nvlink_effective_ber",),
         "The worst post-FEC BER of all NVLinks", growth=Growth.LEVEL, category=_E),
    _sum("gpu_nvlink_tx", ("nvlink_tx",), "Bytes sent over all NVLinks", unit="bytes", growth=Growth.WRAPS,
         category=_T, bits=64),
    _sum("gpu_nvlink_rx", ("nvlink_rx",), "Bytes received over all NVLinks", unit="bytes", growth=Growth.WRAPS,
         category=_T, bits=64),
)
GPU_COLUMNS = tuple(counter.name for counter in COUNTERS if counter.kind is Kind.GPU)
