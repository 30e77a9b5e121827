"""Lines of public reports about real machines: which pattern takes each, and which lines are no fault of a fabric.

Each line is quoted from the report that is named, without its time stamp. The counts below are the measure: matched,
not matched although it tells a fault, false. The one that is not matched is of a module that NVIDIA has replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from fabricmon.catalogue.kernel_patterns import PatternMatcher
from fabricmon.collect.parse.kernel_events import DeviceRows, KernelEvents
from fabricmon.host.protocol import KernelMessage
from fabricmon.model import Kind, Severity

MATCHER = PatternMatcher()


class Line(NamedTuple):
    """`pattern`: what takes it, "" nothing; `fault`: it tells a fault that a count or an event should show."""

    text: str
    pattern: str
    fault: bool
    report: str
    kernel: str


def of_report(report: str, kernel: str, *lines: tuple[str, str, bool]) -> list[Line]:
    return [Line(text, pattern, fault, report, kernel) for text, pattern, fault in lines]


LINES: list[Line] = [
    *of_report("openucx/ucx#9488", "not stated",
         ("mlx5_cmd_check:810:(pid 923941): create_mkey(0x200) op_mod(0x0) failed, status bad parameter(0x3), syndrome "
          "(0x35e6ec)", "mlx5_command_failed", True),
         ("nvme nvme1: rdma connection establishment failed (-22)", "", False)),
    *of_report("charmplusplus/charm#2532", "not stated",
         ("mlx5_core 0000:04:00.0: mlx5_cmd_check:795:(pid 9993): RTR2RTS_QP(0x504) op_mod(0x0) failed, status bad "
          "parameter(0x3), syndrome (0x4bb88f)", "mlx5_command_failed", True)),
    *of_report("openucx/ucx#7738", "not stated",
         ("mlx5_core 0000:61:00.0: wait_func:1132:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a "
          "command resource", "mlx5_command_timeout", True),
         ("mlx5_core 0000:61:00.0: wait_func_handle_exec_timeout:1104:(pid 141183): cmd[22]: CREATE_DCT(0x710) No done "
          "completion", "", False)),
    *of_report("charmplusplus/charm#2635", "not stated",
         ("mlx5_core 0000:5e:00.0: device's health compromised - reached miss count", "mlx5_health_lost", True),
         ("mlx5_core 0000:5e:00.0: assert_var[0] 0x00000001", "", False),
         ("mlx5_core 0000:5e:00.0: synd 0x7: irisc not responding", "mlx5_syndrome", True)),
    *of_report("PeterSuh-Q3/tinycore-redpill#9", "5.x",
         ("mlx5_core 0000:03:00.0: firmware version: 14.32.1010", "", False),
         ("mlx5_core: probe of 0000:03:00.0 failed with error -22", "driver_not_started", True)),
    *of_report("leptonai/gpud#1209", "not stated",
         ("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link INIT", "", False),
         ("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE", "", False),
         ("workqueue: ib_cache_event_task [ib_core] hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
          "", False)),
    *of_report("leptonai/gpud#293", "not stated",
         ("mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot "
          "(27W).", "mlx5_slot_power", True)),
    *of_report("jishuzhan.net/article/1911252493641777153", "not stated",
         ("mlx5_core 0000:01:00.0: Port module event: module 0, Cable plugged", "mlx5_module", False),
         ("mlx5_core 0000:01:00.0 enp1s0f0: Link up", "mlx5_link_up", False)),
    *of_report("ovro-lwa/lwa-issues#117", "not stated",
         ("{1}[Hardware Error]: event severity: recoverable", "ghes_severity", False),
         ("{1}[Hardware Error]:   section_type: PCIe error", "ghes_section", False),
         ("{1}[Hardware Error]:   device_id: 0000:5e:00.0", "ghes_device", True),
         ("{1}[Hardware Error]:   vendor_id: 0x144d, device_id: 0xa808", "", False),
         ("EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0", "", False)),
    *of_report("rwth-i6/returnn#1500", "not stated",
         ("nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)", "aer_no_recovery", True),
         ("pcieport 0000:00:03.0: AER: device recovery failed", "aer_recovery_failed", True),
         ("pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0", "", False),
         ("pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
          "(Requester ID)", "aer_fatal", True),
         ("pcieport 0000:00:03.0:    [14] CmpltTO                (First)", "", False)),
    *of_report("pop-os/pop#3363", "not stated",
         ("pcieport 0000:00:03.1: AER: Correctable error message received from 0000:00:00.0", "aer_message", False),
         ("pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
          "aer_correctable", True),
         ("pcieport 0000:00:03.1:   device [1022:1453] error status/mask=00001000/00006000", "", False)),
    *of_report("ellyq/coreboot#4", "not stated",
         ("pcieport 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
          "aer_correctable", True)),
    *of_report("NVIDIA/open-gpu-kernel-modules#789", "5.15.0-131 (Ubuntu 22.04)",
         ("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", "", False),
         ("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", "gpu_init_failed", True),
         ("NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0", "", False)),
    *of_report("NVIDIA/cuda-samples#104", "5.10.0-11 (Debian 11)",
         ("NVRM: GPU 0000:13:00.0: RmInitAdapter failed! (0x26:0x56:1463)", "gpu_init_failed", True)),
    *of_report("NVIDIA/NVSentinel#155", "not stated (driver 570.158.01)",
         ("NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has"
          "\\x0aNVRM: fallen off the bus and is not responding to commands.", "gpu_lost", True),
         ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "", False)),
    *of_report("Mellanox/nv_peer_memory#120", "not stated",
         ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
          "peermem_context", True)),
    *of_report("Mellanox/nv_peer_memory#112", "not stated",
         ("nv_mem nv_get_p2p_free_callback:144 nv_get_p2p_free_callback -- invalid page_table", "", True)),
    *of_report("vllm-project/vllm#40652", "not stated",
         ("NVRM: Xid (PCI:0001:6c:00): 119, pid=10200, name=NvmlTaskRunner, Timeout after 45s of waiting for RPC "
          "response from GPU5 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 24174 (0x20801322 0x808).", "xid",
          True),
         ("NVRM: _kgspLogXid119: Note: Please also check logs above.", "", False)),
    *of_report("leptonai/gpud, components/dmesg", "not stated",
         ("NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, "
          "TPC 7, SM 0): Illegal Instruction Parameter", "xid", True)),
    *of_report("coolsnowwolf/lede#11302", "6.1.30",
         ("igc 0000:05:00.0 eth5: NIC Link is Down", "", False),
         ("br-switch: port 6(eth5) entered disabled state", "", False)),
    *of_report("NVIDIA/gpu-operator#649", "not stated",
         ("IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready", "", False),
         ("device dddd1c3ccc54a5b entered promiscuous mode", "", False)),
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.report}: {line.text[:40]}")
def test_a_line_of_a_public_report(line: Line) -> None:
    found = MATCHER.match(line.text)
    assert (found.pattern.name if found else "") == line.pattern


def test_the_counts() -> None:
    """Lines that tell a fault and are taken; that tell one and are not; that tell none and make a count or an event."""
    found = [(line, MATCHER.match(line.text)) for line in LINES]
    matched = [line for line, match in found if line.fault and match]
    missed = [line for line, match in found if line.fault and not match]
    false = [line for line, match in found if not line.fault and match and match.pattern.concept
             and match.pattern.concept not in ("module_changes",)]  # fmt: skip
    assert (len(LINES), len(matched), len(missed), len(false)) == (45, 19, 1, 0)


def told(*texts: str) -> list[tuple[str, Severity]]:
    """Column on the row, and the severity of the event, of each message that counts."""
    place = (Kind.PORT, "mlx5_0/1")
    events, found = KernelEvents(), []
    named = {"mlx5_0": place, "mlx5_0/1": place, "mlx5_0/2": (Kind.PORT, "mlx5_0/2")}
    rows = DeviceRows({"0000:5e:00.0": place}, {}, named)
    for number, text in enumerate(texts):
        count = events.receive(KernelMessage(number, 3, 10.0 + number, text), rows, 0.0)
        if count is not None:
            severity = list(Severity)[int(count.event.fields["severity"])] if count.event else Severity.INFO
            found.append((f"{count.row[1]} {count.column}", severity))
    return found


def record(severity: str, section: str = "PCIe error", number: int = 1) -> list[str]:
    head = f"{{{number}}}[Hardware Error]: "
    return [f"{head}Hardware error from APEI Generic Hardware Error Source: 1", f"{head}event severity: {severity}",
            f"{head} Error 0, type: {severity}", f"{head}  section_type: {section}",
            f"{head}  device_id: 0000:5e:00.0"]  # fmt: skip


@pytest.mark.parametrize(("severity", "column", "told_as"), [
    ("corrected", "log_pcie_correctable_errors", Severity.INFO),
    ("recoverable", "log_pcie_nonfatal_errors", Severity.WARNING),
    ("fatal", "log_pcie_fatal_errors", Severity.CRITICAL),
])
def test_a_firmware_first_error_is_counted_on_its_device(severity: str, column: str, told_as: Severity) -> None:
    assert told(*record(severity)) == [(f"mlx5_0/1 {column}", told_as)]


def test_records_that_are_no_pcie_errors_or_of_an_earlier_boot_are_not_counted() -> None:
    assert told(*record("fatal", "memory error")) == []
    assert told(*(line.replace("{1}", "") for line in record("fatal"))) == []
    assert told(record("fatal")[-1]) == []
    mixed = [line for pair in zip(record("fatal", "memory error", 7), record("corrected", number=8), strict=True)
             for line in pair]  # fmt: skip
    assert told(*mixed) == [("mlx5_0/1 log_pcie_correctable_errors", Severity.INFO)]


def test_a_link_that_the_rdma_core_reports_down_is_counted_on_its_port() -> None:
    assert told("mlx5_core 0000:5e:00.0 mlx5_0: Port: 2 Link DOWN") == [("mlx5_0/2 log_link_downs", Severity.INFO)]


def test_xids_before_the_agent_started_are_counted_as_earlier() -> None:
    gpu = (Kind.GPU, "gpu0")
    rows = DeviceRows({"0000:1b:00.0": gpu}, {}, {})
    text = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=x, GPU has fallen off the bus."
    events = KernelEvents()
    early = events.receive(KernelMessage(1, 3, 10.0, text, earlier=True), rows, 0.0)
    assert early is not None
    assert early.event is not None
    assert (early.row, early.column) == (gpu, "gpu_log_xid_earlier")
    assert (early.event.fields["severity"], early.event.text.startswith("before the agent started")) == (0.0, True)
    other = events.receive(KernelMessage(2, 3, 11.0, text.replace("1b", "9c"), earlier=True), rows, 0.0)
    assert other is not None
    assert other.column == "node_log_xid_earlier"
    late = events.receive(KernelMessage(3, 3, 100.0, text), rows, 0.0)
    assert late is not None
    assert late.column == "gpu_log_xid_bus"
    link = KernelMessage(4, 3, 12.0, "mlx5_core 0000:5e:00.0: Fatal error 3 detected", earlier=True)
    assert events.receive(link, rows, 0.0) is None
