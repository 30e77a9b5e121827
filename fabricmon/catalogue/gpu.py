"""A GPU as one end of links: its place in the NVLink fabric, its PCIe link, and its errors.

Sources: docs/methods.md#nvlink-counters, docs/methods.md#gpu-fabric-state (nvml.h).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, YES_NO, Category, Counter, Growth
from fabricmon.model import Kind

_S, _E, _T, _R = Category.STATE, Category.ERROR, Category.TRAFFIC, Category.RETRANSMISSION

NO_FABRIC = 0
FABRIC_STATES = {NO_FABRIC: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
CONFIGURATIONS = {
    0: "not supported", 1: "none", 2: "wrong system GUID", 3: "wrong chassis serial number", 4: "no partition",
    5: "insufficient NVLinks", 6: "incompatible GPU firmware", 7: "invalid location", 8: "GPU state invalid",
}  # fmt: skip

RECOVERY_ACTIONS = {
    0: "none", 1: "reset the GPU", 2: "reboot the node", 3: "drain peer-to-peer traffic", 4: "drain and reset",
    5: "recover the IMEX domain",
}  # fmt: skip

HEALTH_BITS: Mapping[str, int] = {
    "gpu_fabric_degraded_bandwidth": 0,
    "gpu_fabric_route_recovery": 2,
    "gpu_fabric_route_unhealthy": 4,
    "gpu_fabric_access_timeout_recovery": 6,
    "gpu_fabric_partition_assigned": 12,
}
"""Two bits each in the health mask: 0 not supported, 1 true, 2 false."""

_CONFIGURATION_BIT = 8  # four bits, CONFIGURATIONS


def fabric_health(mask: int | None) -> dict[str, float]:
    """The health mask by column: 1 true, 0 false, NaN unknown.

    In the mask itself 1 means true, whether that is good ("partition assigned") or bad ("degraded bandwidth").
    """
    if mask is None:
        return {**dict.fromkeys(HEALTH_BITS, math.nan), "gpu_fabric_incorrect_configuration": math.nan}
    words = {1: 1.0, 2: 0.0}
    found = {column: words.get(mask >> bit & 3, math.nan) for column, bit in HEALTH_BITS.items()}
    return found | {"gpu_fabric_incorrect_configuration": float(mask >> _CONFIGURATION_BIT & 15) or math.nan}


FIELDS: Mapping[str, int] = {
    "gpu_recovery_action": 230,
    "gpu_pcie_replays": 94,
    "gpu_pcie_replay_rollovers": 95,
    "gpu_pcie_l0_to_recovery": 169,
    "gpu_pcie_correctable_errors": 173,
    "gpu_pcie_naks_received": 174,
    "gpu_pcie_receiver_errors": 175,
    "gpu_pcie_bad_tlp": 176,
    "gpu_pcie_naks_sent": 177,
    "gpu_pcie_bad_dllp": 178,
    "gpu_pcie_nonfatal_errors": 179,
    "gpu_pcie_fatal_errors": 180,
    "gpu_pcie_unsupported_requests": 181,
    "gpu_pcie_lcrc_errors": 182,
    "gpu_pcie_lane_errors": 183,
}
"""Column -> NVML field id. 197 and 198, the bytes over PCIe, run over too soon (docs/methods.md#gpu-pcie-traffic)."""


def _row(name: str, key: str, help: str, *, unit: str = "", growth: Growth = Growth.STATE, category: Category = _S,
         bits: int = 0, wire: bool = True, states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(name, Kind.GPU, unit, bits, growth, category, "nvml", (key,), help, wire=wire,
                   family=name.removeprefix("gpu_"), states=states)


def _count(name: str, key: str, help: str, *, category: Category = _E, wire: bool = False) -> Counter:
    return _row(name, f"NVML_FI_DEV_PCIE_{key}", help, growth=Growth.WRAPS, category=category, bits=32,
                wire=wire)


COUNTERS: tuple[Counter, ...] = (
    _row("gpu_fabric_state", "nvmlGpuFabricInfo.state", "Registration with the NVLink fabric", states=FABRIC_STATES),
    _row("gpu_fabric_status", "nvmlGpuFabricInfo.status",
         "Outcome of the registration (an NVML return code; unknown until it is completed)", states={0: "success"}),
    _row("gpu_fabric_health_verdict", "nvmlGpuFabricInfo.healthSummary",
         "Health of the GPU's place in the NVLink fabric",
         states={0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}),
    *(_row(column, f"nvmlGpuFabricInfo.healthMask bit {bit}", f"1 when {what}, 0 when not", states=YES_NO)
      for (column, bit), what in zip(HEALTH_BITS.items(), (
          "the GPU's NVLink bandwidth is degraded", "routes of the GPU are being recovered",
          "routes of the GPU are unhealthy", "the GPU recovers from an access timeout", "the GPU is in a partition"),
          strict=True)),
    _row("gpu_fabric_incorrect_configuration", "nvmlGpuFabricInfo.healthMask bit 8",
         "What is wrong in the GPU's configuration", states=CONFIGURATIONS),
    _row("gpu_recovery_action", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
         "What the GPU needs to recover", states=RECOVERY_ACTIONS),
    _row("gpu_pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration",
         "Generation of the GPU's PCIe link now; an idle GPU lowers it to save power", growth=Growth.LEVEL),
    _row("gpu_pcie_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration",
         "Highest generation that GPU and slot allow", growth=Growth.LEVEL),
    _row("gpu_pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", "Width of the GPU's PCIe link in lanes", unit="lanes",
         growth=Growth.LEVEL),
    _row("gpu_pcie_max_width", "nvmlDeviceGetMaxPcieLinkWidth", "Greatest width that GPU and slot allow", unit="lanes",
         growth=Growth.LEVEL),
    _count("gpu_pcie_replays", "REPLAY_COUNTER", "PCIe replays", category=_R, wire=True),
    _count("gpu_pcie_replay_rollovers", "REPLAY_ROLLOVER_COUNTER", "Times the number of PCIe replays ran over"),
    _count("gpu_pcie_l0_to_recovery", "L0_TO_RECOVERY_COUNTER", "Times the PCIe link left its working state to retrain"),
    _count("gpu_pcie_correctable_errors", "COUNT_CORRECTABLE_ERRORS", "Correctable PCIe errors"),
    _count("gpu_pcie_naks_received", "COUNT_NAKS_RECEIVED", "PCIe packets the far end refused"),
    _count("gpu_pcie_receiver_errors", "COUNT_RECEIVER_ERROR", "PCIe receiver errors"),
    _count("gpu_pcie_bad_tlp", "COUNT_BAD_TLP", "PCIe transaction packets with a wrong checksum or sequence"),
    _count("gpu_pcie_naks_sent", "COUNT_NAKS_SENT", "PCIe packets this end refused"),
    _count("gpu_pcie_bad_dllp", "COUNT_BAD_DLLP", "PCIe data link packets with a wrong checksum"),
    _count("gpu_pcie_nonfatal_errors", "COUNT_NON_FATAL_ERROR", "Uncorrectable PCIe errors that cost one transaction"),
    _count("gpu_pcie_fatal_errors", "COUNT_FATAL_ERROR", "Uncorrectable PCIe errors that make the link unreliable"),
    _count("gpu_pcie_unsupported_requests", "COUNT_UNSUPPORTED_REQ", "PCIe requests the GPU does not support"),
    _count("gpu_pcie_lcrc_errors", "COUNT_LCRC_ERROR", "PCIe packets with a wrong link checksum"),
    _count("gpu_pcie_lane_errors", "COUNT_LANE_ERROR", "Errors on single PCIe lanes"),
    *(_row(column, f"NVML_GPM_METRIC_PCIE_{key}_PER_SEC", f"Mean rate at which the GPU {what} over PCIe since the last "
           "reading, protocol overhead included", unit="bytes_per_second", growth=Growth.LEVEL, category=_T, wire=False)
      for column, key, what in (("gpu_pcie_tx", "TX", "sent"), ("gpu_pcie_rx", "RX", "received"))),
    Counter("gpu_xid_events", Kind.GPU, "", 64, Growth.WRAPS, _E, "nvml events", ("nvmlEventTypeXidCriticalError",),
            "Critical Xid errors of the GPU that the driver reported since the agent started", family="xid_events"),
    Counter("gpu_last_xid", Kind.GPU, "", 0, Growth.STATE, _E, "nvml events", ("eventData",),
            "Number of the last critical Xid error, unknown before the first", family="last_xid"),
)
