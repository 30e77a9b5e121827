"""Lines of the kernel log about the fabric: one row a pattern (docs/methods.md#kernel-log). Pure.

A row is tried only where its literal `needs` is in the text, and the text is cut at TEXT_LIMIT characters, so that what a
line can cost is bounded for every text. The first row that matches takes the line. Function names and line numbers in
driver messages change with versions: no row uses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fabricmon.model import Severity

TEXT_LIMIT = 1000
"""Characters of one message that are matched; the kernel's own limit of a record is near it."""

_I, _W, _C = Severity.INFO, Severity.WARNING, Severity.CRITICAL

_BDF = r"(?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_NETDEV = rf"{_BDF} (?P<ifname>[^\s:]{{1,32}}): "
_MLX5 = rf"mlx5_core {_BDF}"
_EFA = rf"(?:efa {_BDF}|infiniband (?P<dev>rdmap\w+|efa_\d+)): "
_PCI = rf"{_BDF}: "


class Pattern(NamedTuple):
    """One sort of message.

    needs     literal that is in every such line
    concept   what is counted, on the row of the device it names: a key of kernel_log.CONCEPTS; "" is not counted
    severity  of the event that is sent at once; None: counted only, as another source reports it better, or the line
              is one of many
    limited   the kernel or the driver leaves repetitions out: the count is a lower bound
    Named groups: bdf (PCI address), ifname, dev (RDMA device), pci (GPU, without function); all others are details.
    """

    name: str
    needs: str
    regex: str
    concept: str
    severity: Severity | None
    limited: bool = False


PATTERNS: tuple[Pattern, ...] = (
    # --- GPUs and NVSwitches; `xid` and `sxid` are classed further by catalogue/xid.py
    Pattern("xid", "NVRM: Xid (",
            r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?(?: GPU-I:(?P<gi>\d+))?"
            r"(?: GPU-CI:(?P<ci>\d+))?\): (?P<xid>\d{1,5})(?:, pid=(?P<pid>[^,]{1,80}), name=(?P<name>[^,]{1,80}))?, (?P<text>.*)",
            "xid", _W, True),
    Pattern("gpu_lost", "fallen off the bus",
            r"NVRM:? .*?GPU (?:at PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?.*fallen off the bus", "", _C),
    Pattern("gpu_init_failed", "RmInitAdapter failed!",
            r"NVRM: (?:GPU (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.\d: )?RmInitAdapter failed! \((?P<code>[^)]{1,40})\)",
            "init_failures", _C),
    Pattern("peermem_context", "detected invalid context", r"nvidia-peermem .*detected invalid context", "peermem_errors", None),
    Pattern("nvlink_training", "NVLink: ",
            r"NVLink: (?:Link training failed for link|failed to train link) (?P<link>\d{1,3})", "nvlink_training_failures", _W),
    Pattern("nvlink_detection", "PostRxDet", r"NVRM: knvlink\w+PostRxDet\w+: ", "nvlink_training_failures", _W),
    Pattern("sxid_companion", "SXid (PCI:",
            r"nvidia-nvswitch\d+: SXid \(PCI:[0-9a-fA-F:.]+\): \d{5}, (?:Severity \d+ Engine instance|Data \{)", "", None),
    Pattern("sxid", "SXid (PCI:",
            r"nvidia-(?P<switch>nvswitch\d+): SXid \(PCI:(?P<bdf>[0-9a-fA-F:.]{7,16})\): (?P<sxid>\d{5}), "
            r"(?P<word>Fatal|Non-fatal|Correctable), Link (?P<link>\d{1,3}) (?P<text>.*)", "sxid", _W),
    # --- mlx5
    Pattern("mlx5_link_down", ": Link down", rf"mlx5_core {_NETDEV}Link down", "link_downs", None),
    Pattern("mlx5_link_up", ": Link up", rf"mlx5_core {_NETDEV}Link up", "", None),
    Pattern("mlx5_health_lost", "reached miss count", rf"{_MLX5}.*health compromised - reached miss count", "firmware_faults", _C),
    Pattern("mlx5_health_issue", "Health issue observed",
            rf"{_MLX5}.*Health issue observed, (?P<what>[^,]{{1,80}}), severity\((?P<level>\d+)\) (?P<word>\w+)", "firmware_faults", _C),
    Pattern("mlx5_syndrome", ": synd 0x", rf"{_MLX5}.*\bsynd 0x(?P<syndrome>[0-9a-f]{{1,8}}): (?P<what>.+)", "", _C),
    Pattern("mlx5_fatal", "Fatal error", rf"{_MLX5}.*Fatal error (?P<code>\d+) detected", "firmware_faults", _C),
    Pattern("mlx5_pci_gone", "PCI slot is unavailable", rf"{_MLX5}.*PCI slot is unavailable", "firmware_faults", _C),
    Pattern("mlx5_pci_silent", "PCI reads still not working", rf"{_MLX5}.*PCI reads still not working", "firmware_faults", _C),
    Pattern("mlx5_recovery", "health recovery", rf"{_MLX5}.*health recovery (?P<word>flow aborted|failed|succeeded)", "recoveries", _W),
    Pattern("mlx5_command_timeout", "timeout. Will cause a leak",
            rf"{_MLX5}.*?(?P<what>[A-Z0-9_]{{1,60}})\(0x[0-9a-f]+\) timeout\. Will cause a leak of a command resource", "firmware_faults", _C),
    # newer kernels: from mlx5_cmd_out_err, with err(...); older ones and OFED: from mlx5_cmd_check, also without device
    Pattern("mlx5_command_failed", "op_mod(0x",
            rf"(?:{_MLX5}: )?(?:[\w:() ]{{0,80}}?: ?)?(?P<what>\w{{1,60}})\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed, "
            r"status (?P<word>[^(]{1,60})\(0x[0-9a-f]+\), syndrome \(0x(?P<syndrome>[0-9a-f]{1,8})\)(?:, err\((?P<err>-?\d+)\))?",
            "command_errors", None, True),
    Pattern("mlx5_command_entry", "failed to allocate command entry", rf"{_MLX5}.*failed to allocate command entry", "command_errors", None),
    Pattern("driver_not_started", "failed with error -",
            rf"(?:(?P<driver>mlx5_core|bnxt_en|ice|ionic|efa): probe of {_BDF}|"
            r"(?P<bound>mlx5_core|bnxt_en|ice|ionic|efa) (?P<at>[0-9a-f:.]{7,16}): probe with driver \w+) failed with error -(?P<err>\d+)",
            "firmware_faults", _C),
    # the RDMA core, any driver
    Pattern("ib_link_down", "Link DOWN", r"(?P<dev>[A-Za-z][\w.-]{0,63}): Port: (?P<port>\d{1,3}) Link DOWN", "link_downs", None),
    Pattern("mlx5_module_error", "Port module event[error]",
            rf"(?:{_MLX5}.*)?Port module event\[error\]: module (?P<module>\d+), Cable error, (?P<what>.+)", "module_errors", _W, True),
    Pattern("mlx5_module", "Port module event: module",
            rf"{_MLX5}.*Port module event: module (?P<module>\d+), Cable (?P<word>plugged|unplugged|disabled)", "module_changes", _I, True),
    Pattern("mlx5_temperature", "High temperature on sensors", rf"{_MLX5}.*High temperature on sensors with bit set", "temperature_warnings", _W, True),
    Pattern("mlx5_slot_power", "insufficient power on the PCIe slot",
            rf"{_MLX5}.*Detected insufficient power on the PCIe slot \((?P<watts>\d+)W\)", "power_warnings", _W),
    Pattern("mlx5_tx_timeout", "TX timeout detected", rf"{_MLX5}.*TX timeout detected", "queue_timeouts", _W),
    Pattern("mlx5_rx_timeout", "RX timeout on channel", rf"{_MLX5}.*RX timeout on channel", "queue_timeouts", _W),
    # --- bnxt, ice, ionic, EFA, hfi1
    Pattern("bnxt_link_down", "NIC Link is Down", rf"bnxt_en {_NETDEV}NIC Link is Down", "link_downs", None),
    Pattern("bnxt_firmware", "Firmware not responding", rf"bnxt_en {_BDF}.*Firmware not responding, status: 0x[0-9a-f]+", "firmware_faults", _C),
    Pattern("bnxt_firmware_fatal", "firmware fatal condition", rf"bnxt_en {_BDF}.*Detected firmware fatal condition", "firmware_faults", _C),
    Pattern("bnxt_reset_aborted", "Firmware reset aborted", rf"bnxt_en {_BDF}.*Firmware reset aborted", "firmware_faults", _C),
    Pattern("bnxt_tx_timeout", "TX timeout detected", rf"bnxt_en {_BDF}.*TX timeout detected, starting reset task", "queue_timeouts", _W),
    Pattern("bnxt_command_failed", "hwrm req_type 0x",
            rf"bnxt_en {_BDF}.*hwrm req_type (?P<what>0x[0-9a-f]{{1,8}}) seq id 0x[0-9a-f]{{1,8}} error (?P<err>0x[0-9a-f]{{1,8}})", "command_errors", None),
    Pattern("bnxt_command_timeout", "Error (timeout: ", rf"bnxt_en {_BDF}.*Error \(timeout: \d+\) msg {{0x", "firmware_faults", _C),
    # the RDMA half of the driver; older kernels begin with "QPLIB: "
    Pattern("bnxt_rdma_timeout", "cmdq[0x", rf"bnxt_en {_BDF}.*cmdq\[0x[0-9a-f]{{1,8}}\]=(?P<what>0x[0-9a-f]{{1,8}}) timedout", "firmware_faults", _C),
    Pattern("bnxt_rdma_failed", "cmdq[0x",
            rf"bnxt_en {_BDF}.*cmdq\[0x[0-9a-f]{{1,8}}\]=(?P<what>0x[0-9a-f]{{1,8}}) (?:status (?P<err>0x[0-9a-f]{{1,8}})|send failed)", "command_errors", None),
    Pattern("bnxt_temperature", "Chip temperature has gone",
            rf"bnxt_en {_BDF}.*Chip temperature has gone (?P<way>\w+) the (?P<word>\w+) thermal threshold", "temperature_warnings", _W),
    Pattern("ice_link_down", "NIC Link is Down", rf"ice {_NETDEV}NIC Link is Down", "link_downs", None),
    Pattern("ionic_link_down", ": Link down", rf"ionic {_NETDEV}Link down", "link_downs", None),
    Pattern("efa_no_completion", "didn't send any completion for admin cmd", rf"{_EFA}.*didn't send any completion for admin cmd", "firmware_faults", _C),
    Pattern("efa_polling_timeout", "Wait for completion (polling) timeout", rf"{_EFA}.*Wait for completion \(polling\) timeout", "firmware_faults", _C),
    Pattern("efa_admin_closed", "Admin queue is closed", rf"{_EFA}.*Admin queue is closed", "firmware_faults", _C),
    Pattern("efa_reset", "Reset indication didn't turn", rf"{_EFA}.*Reset indication didn't turn (?P<word>on|off)", "firmware_faults", _C),
    Pattern("efa_not_ready", "Device isn't ready", rf"{_EFA}.*Device isn't ready", "firmware_faults", _C),
    Pattern("efa_command", "command", rf"{_EFA}.*Failed to (?:process|submit) command (?P<what>\w+)", "command_errors", _W),
    Pattern("hfi1_link_down", "8051: Link down", r"hfi1 .*8051: Link down", "link_downs", None),
    # --- whatever the driver
    Pattern("watchdog_driver_first", "NETDEV WATCHDOG",
            rf"\b\w{{1,32}} {_BDF} (?P<ifname>[^\s:]+): NETDEV WATCHDOG.*transmit queue (?P<queue>\d+) timed out", "queue_timeouts", _W),
    Pattern("watchdog_device_first", "NETDEV WATCHDOG",
            r"NETDEV WATCHDOG: (?P<ifname>[^\s:]+) \((?P<driver>\w+)\): transmit queue (?P<queue>\d+) timed out", "queue_timeouts", _W),
    Pattern("ipoib_timeout", "transmit timeout: latency", r"(?P<ifname>[^\s:]{1,32}): transmit timeout: latency (?P<milliseconds>\d+) msecs", "queue_timeouts", _W),
    Pattern("bond_leg_down", ": (slave ",
            r"(?P<bond>[^\s:]{1,32}): \(slave (?P<ifname>\S{1,32})\): link status definitely down", "link_downs", None),
    # --- PCIe
    Pattern("aer_message", "error message received from",
            r"(?P<port>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:AER: )?(?:Multiple )?(?P<word>Correct|Uncorrect)\w+ "
            r"(?:\([\w-]+\) )?error message received from ", "", None, True),
    Pattern("aer_correctable", "PCIe Bus Error: severity=Correct",
            rf"{_PCI}(?:AER: )?PCIe Bus Error: severity=Correct\w+, type=(?P<what>[^,]{{1,40}}), ", "pcie_correctable_errors", None, True),
    Pattern("aer_nonfatal", "PCIe Bus Error: severity=Uncorrect",
            rf"{_PCI}(?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Non-Fatal\), type=(?P<what>[^,]{{1,40}}), ", "pcie_nonfatal_errors", _W, True),
    Pattern("aer_fatal", "PCIe Bus Error: severity=Uncorrect",
            rf"{_PCI}(?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\), type=(?P<what>[^,]{{1,40}}), ", "pcie_fatal_errors", _C, True),
    Pattern("aer_recovery_failed", "device recovery failed", rf"{_PCI}(?:AER: )?device recovery failed", "pcie_fatal_errors", _C),
    Pattern("aer_no_recovery", "can't recover", rf"{_PCI}(?:AER: )?can't recover", "pcie_fatal_errors", _C),
    Pattern("aer_recovered", "device recovery successful", rf"{_PCI}(?:AER: )?device recovery successful", "recoveries", _I),
    # firmware first: one record over several lines with one number; `parse/hardware_error.py` puts them together
    Pattern("ghes_severity", "[Hardware Error]: event severity: ",
            r"\{(?P<record>\d{1,9})\}\[Hardware Error\]: event severity: (?P<word>\w+)", "", None),
    Pattern("ghes_section", "[Hardware Error]:   section_type: ",
            r"\{(?P<record>\d{1,9})\}\[Hardware Error\]:\s+section_type: (?P<what>.{1,60})", "", None),
    Pattern("ghes_device", "[Hardware Error]:   device_id: ",
            r"\{(?P<record>\d{1,9})\}\[Hardware Error\]:\s+device_id: (?P<bdf>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", "", None),
    Pattern("dpc", "containment event, status:", rf"{_PCI}(?:DPC: )?containment event, status:0x(?P<status>[0-9a-f]{{1,8}})", "pcie_fatal_errors", _C),
    Pattern("hotplug", "pciehp", r"pciehp.*Slot\((?P<slot>[^)]{1,40})\): (?P<word>Link Down(?!/)|Card not present|Power fault)", "pcie_fatal_errors", _C),
    Pattern("pcie_bandwidth", "available PCIe bandwidth, limited by",
            rf"{_PCI}(?P<gbs>[\d.]{{1,12}}) Gb/s available PCIe bandwidth, limited by (?P<speed>\S+ \S+) PCIe x(?P<lanes>\d+) link at "
            r"(?P<by>[0-9a-f:.]{7,16}) \(capable of (?P<capable>[\d.]{1,12}) Gb/s", "pcie_limits", _W),
)  # fmt: skip


SOURCES: Mapping[str, str] = {
    "xid": "open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osapi.c",
    "gpu_lost": "open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osinit.c",
    "gpu_init": "open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osinit.c",
    "peermem": "open-gpu-kernel-modules: kernel-open/nvidia-peermem/nvidia-peermem.c",
    "nvlink": "open-gpu-kernel-modules: src/common/nvlink, src/nvidia/src/kernel/gpu/nvlink",
    "sxid": "open-gpu-kernel-modules: src/common/nvswitch/kernel",
    "mlx5": "drivers/net/ethernet/mellanox/mlx5/core: cmd.c, health.c, events.c, en_main.c",
    "driver_not_started": "drivers/base/dd.c",
    "ib_link": "drivers/infiniband/core/cache.c",
    "bnxt": "drivers/net/ethernet/broadcom/bnxt: bnxt.c, bnxt_hwrm.c",
    "bnxt_rdma": "drivers/infiniband/hw/bnxt_re/qplib_rcfw.c",
    "ice": "drivers/net/ethernet/intel/ice/ice_main.c",
    "ionic": "drivers/net/ethernet/pensando/ionic/ionic_lif.c",
    "efa": "drivers/infiniband/hw/efa/efa_com.c",
    "hfi1": "drivers/infiniband/hw/hfi1/chip.c",
    "watchdog": "net/sched/sch_generic.c",
    "ipoib": "drivers/infiniband/ulp/ipoib/ipoib_main.c",
    "bond": "drivers/net/bonding/bond_main.c",
    "aer": "drivers/pci/pcie/aer.c, drivers/pci/pcie/err.c",
    "ghes": "drivers/firmware/efi/cper.c",
    "dpc": "drivers/pci/pcie/dpc.c",
    "hotplug": "drivers/pci/hotplug: pciehp_ctrl.c, pciehp_hpc.c",
    "pcie": "drivers/pci/pci.c",
}
"""Beginning of a pattern's name -> where the driver prints it."""


def source_of(pattern: str) -> str:
    """The file with the format string of a pattern; the longest beginning counts. KeyError without one."""
    return SOURCES[max((name for name in SOURCES if pattern.startswith(name)), key=len, default=pattern)]


class Match(NamedTuple):
    pattern: Pattern
    groups: dict[str, str]


class PatternMatcher:
    """All rows compiled. Cheap to ask, not to make: make one and keep it."""

    def __init__(self) -> None:
        self._rows = [(p.needs, re.compile(p.regex), p) for p in PATTERNS]
        # one search rejects nearly all lines
        self._any = re.compile("|".join(sorted({re.escape(p.needs) for p in PATTERNS})))

    def match(self, text: str) -> Match | None:
        """The first row that matches, with its named groups that took part."""
        text = text[:TEXT_LIMIT]
        if self._any.search(text) is None:
            return None
        for needs, regex, pattern in self._rows:
            if needs in text and (found := regex.search(text)):
                return Match(pattern, {k: v for k, v in found.groupdict().items() if v is not None})
        return None
