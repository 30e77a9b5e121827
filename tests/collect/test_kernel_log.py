"""Lines of the kernel log: the pattern of each, its row, its event, and what follows from what.

Lines are written here from the drivers' format strings (docs/methods.md#kernel-log); captured logs are read where those
are there.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import frame
from fabricmon.catalogue import CATALOGUE, metric_of
from fabricmon.catalogue.kernel_log import COLUMNS, CONCEPTS
from fabricmon.catalogue.kernel_patterns import PATTERNS, Pattern, PatternMatcher, source_of
from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError, KernelMessage, Unsupported
from fabricmon.model import Event, Kind
from tests.host.trees import build_hca_tree

kernel_log = COLLECTORS["kernel_log"]

MATCHER = PatternMatcher()
NIC, GPU, BRIDGE = "0000:11:00.0", "0000:1b:00.0", "0000:10:01.0"
MLX5 = f"mlx5_core {NIC}: "

# (line, pattern, other groups)
LINES: list[tuple[str, str, dict[str, str]]] = [
    (f"mlx5_core {NIC} ib0: Link down", "mlx5_link_down", {"ifname": "ib0"}),
    (f"mlx5_core {NIC} ib0: Link up", "mlx5_link_up", {"ifname": "ib0"}),
    (MLX5 + "poll_health:800:(pid 0): device's health compromised - reached miss count", "mlx5_health_lost", {}),
    (MLX5 + "print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
     "mlx5_health_issue", {"what": "firmware internal error", "level": "3", "word": "ERROR"}),
    (MLX5 + "print_health_info:452:(pid 0): synd 0x1: firmware internal error", "mlx5_syndrome", {"syndrome": "1"}),
    (MLX5 + "mlx5_health_check_fatal_sensors:1:(pid 2): Fatal error 3 detected", "mlx5_fatal", {"code": "3"}),
    (MLX5 + "mlx5_health_wait_pci_up:335:(pid 9): PCI slot is unavailable", "mlx5_pci_gone", {}),
    (MLX5 + "health_recover_work:1:(pid 9): PCI reads still not working", "mlx5_pci_silent", {}),
    (MLX5 + "mlx5_health_try_recover:360:(pid 9): health recovery failed", "mlx5_recovery", {"word": "failed"}),
    (MLX5 + "wait_func:1153:(pid 7): QUERY_HCA_CAP(0x100) timeout. Will cause a leak of a command resource",
     "mlx5_command_timeout", {"what": "QUERY_HCA_CAP"}),
    (MLX5 + "mlx5_cmd_out_err:816:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), "
     "syndrome (0x9a6171), err(-22)", "mlx5_command_failed",
     {"what": "ACCESS_REG", "syndrome": "9a6171", "err": "-22"}),
    ("mlx5_cmd_check:810:(pid 923941): create_mkey(0x200) op_mod(0x0) failed, status bad parameter(0x3), syndrome "
     "(0x35e6ec)", "mlx5_command_failed", {"what": "create_mkey", "word": "bad parameter"}),
    (f"mlx5_core: probe of {NIC} failed with error -22", "driver_not_started", {"bdf": NIC, "err": "22"}),
    (f"mlx5_core {NIC}: probe with driver mlx5_core failed with error -110", "driver_not_started", {"at": NIC}),
    (f"mlx5_core {NIC} mlx5_0: Port: 1 Link DOWN", "ib_link_down", {"dev": "mlx5_0", "port": "1"}),
    (f"mlx5_core {NIC} mlx5_0: Port: 1 Link ACTIVE", "", {}),
    ("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "gpu_init_failed", {"pci": "0000:1b:00"}),
    ("NVRM: GPU 0000:1b:00.0: rm_init_adapter failed, device minor number 5", "", {}),
    ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
     "peermem_context", {}),
    ("{1}[Hardware Error]: event severity: recoverable", "ghes_severity", {"record": "1", "word": "recoverable"}),
    ("{1}[Hardware Error]:   section_type: PCIe error", "ghes_section", {"what": "PCIe error"}),
    (f"{{1}}[Hardware Error]:   device_id: {NIC}", "ghes_device", {"bdf": NIC}),
    ("{1}[Hardware Error]:   vendor_id: 0x144d, device_id: 0xa808", "", {}),
    ("[Hardware Error]: event severity: fatal", "", {}),  # of an earlier boot
    (MLX5 + "port_module:243:(pid 0): Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)",
     "mlx5_module_error", {"module": "0", "what": "Bus stuck (I2C or data shorted)"}),
    (MLX5 + "port_module:240:(pid 0): Port module event: module 1, Cable unplugged", "mlx5_module",
     {"word": "unplugged"}),
    (MLX5 + "temp_warn:1:(pid 0): High temperature on sensors with bit set 0 1", "mlx5_temperature", {}),
    (MLX5 + "mlx5_pcie_event:1:(pid 0): Detected insufficient power on the PCIe slot (27W).", "mlx5_slot_power",
     {"watts": "27"}),
    (f"mlx5_core {NIC} ib0: TX timeout detected", "mlx5_tx_timeout", {}),
    (f"mlx5_core {NIC} ib0: RX timeout on channel: 3, ICOSQ: 0x1", "mlx5_rx_timeout", {}),
    (f"bnxt_en {NIC} ens1np0: NIC Link is Down", "bnxt_link_down", {"ifname": "ens1np0"}),
    (f"bnxt_en {NIC} ens1np0: Firmware not responding, status: 0x8000", "bnxt_firmware", {}),
    (f"bnxt_en {NIC} ens1np0: Detected firmware fatal condition, resetting", "bnxt_firmware_fatal", {}),
    (f"bnxt_en {NIC} ens1np0: Firmware reset aborted", "bnxt_reset_aborted", {}),
    (f"bnxt_en {NIC} ens1np0: TX timeout detected, starting reset task!", "bnxt_tx_timeout", {}),
    (f"bnxt_en {NIC} ens1np0: Chip temperature has gone above the warning thermal threshold!", "bnxt_temperature",
     {"way": "above", "word": "warning"}),
    (f"ice {NIC} ens2f0: NIC Link is Down", "ice_link_down", {}),
    (f"ionic {NIC} enp1s0: Link down", "ionic_link_down", {}),
    (f"efa {NIC}: The ena device didn't send any completion for admin cmd 3", "efa_no_completion", {"bdf": NIC}),
    ("infiniband rdmap16s27: Wait for completion (polling) timeout", "efa_polling_timeout", {"dev": "rdmap16s27"}),
    ("infiniband efa_0: Admin queue is closed", "efa_admin_closed", {"dev": "efa_0"}),
    (f"efa {NIC}: Reset indication didn't turn on", "efa_reset", {"word": "on"}),
    (f"efa {NIC}: Device isn't ready, abort com init", "efa_not_ready", {}),
    ("infiniband rdmap16s27: Failed to process command CREATE_QP (opcode 1) comp_status 2 err -22", "efa_command",
     {"what": "CREATE_QP"}),
    ("hfi1 0000:05:00.0: hfi1_0: 8051: Link down", "hfi1_link_down", {}),
    (f"mlx5_core {NIC} ib0: NETDEV WATCHDOG: CPU: 4: transmit queue 5 timed out 5012 ms", "watchdog_driver_first",
     {"queue": "5", "ifname": "ib0"}),
    ("NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 5 timed out", "watchdog_device_first", {"ifname": "ib0"}),
    (f"mlx5_core {NIC}: cmd_work_handler:877:(pid 5): failed to allocate command entry", "mlx5_command_entry", {}),
    (f"bnxt_en {NIC} ib0: hwrm req_type 0x53 seq id 0x6fca error 0x2", "bnxt_command_failed",
     {"what": "0x53", "err": "0x2"}),
    (f"bnxt_en {NIC} ib0: Error (timeout: 500015) msg {{0x53 0x1}} len:0", "bnxt_command_timeout", {"bdf": NIC}),
    (f"bnxt_en {NIC}: QPLIB: cmdq[0x41d]=0x3 timedout (20000)msec", "bnxt_rdma_timeout", {"what": "0x3"}),
    (f"bnxt_en {NIC}: cmdq[0x4b9]=0x15 status 0x5", "bnxt_rdma_failed", {"err": "0x5"}),
    ("ib0: transmit timeout: latency 1234 msecs", "ipoib_timeout", {"milliseconds": "1234"}),
    ("bond0: (slave ib0): link status definitely down, disabling slave", "bond_leg_down",
     {"ifname": "ib0", "bond": "bond0"}),
    (f"pcieport {BRIDGE}: AER: Multiple Correctable error message received from {NIC}", "aer_message",
     {"port": BRIDGE}),
    (f"pcieport {BRIDGE}: AER: Uncorrected (Non-Fatal) error received: {NIC}", "", {}),
    (f"pcieport {BRIDGE}: AER: Uncorrected (Fatal) error message received from {NIC}", "aer_message",
     {"word": "Uncorrect"}),
    (f"mlx5_core {NIC}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", "aer_correctable",
     {"what": "Physical Layer"}),
    (f"mlx5_core {NIC}: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)",
     "aer_nonfatal", {"bdf": NIC}),
    (f"nvme {NIC}: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible, (Unregistered Agent ID)",
     "aer_fatal", {}),
    (f"pcieport {BRIDGE}: AER: device recovery failed", "aer_recovery_failed", {"bdf": BRIDGE}),
    (f"pcieport {BRIDGE}: AER: device recovery successful", "aer_recovered", {}),
    (f"mlx5_core {NIC}: AER: can't recover (no error_detected callback)", "aer_no_recovery", {}),
    (f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01 source:0x0000", "dpc", {"status": "1f01"}),
    (f"pcieport {BRIDGE}: pciehp: Slot(12): Card not present", "hotplug", {"slot": "12"}),
    (f"mlx5_core {NIC}: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at {BRIDGE} "
     "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)", "pcie_bandwidth",
     {"gbs": "63.008", "by": BRIDGE, "lanes": "8"}),
    ("NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "xid",
     {"xid": "79", "pci": "0000:1b:00", "text": "GPU has fallen off the bus."}),
    ("NVRM: Xid (PCI:0000:1b:00 GPU-I:03 GPU-CI:01): 13, Graphics Exception", "xid", {"gi": "03", "ci": "01"}),
    ("NVRM: Xid (0000:1b:00): 31, Ch 00000010, engmask 00000111", "xid", {"xid": "31"}),
    ("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", "gpu_lost", {"pci": "0000:1b:00"}),
    ("NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!", "nvlink_detection", {}),
    ("NVRM: knvlinkDiscoverPostRxDetLinks_GV100: Getting peer0's postRxDetLinkMask failed!", "nvlink_detection", {}),
    ("NVLink: Link training failed for link 7", "nvlink_training", {"link": "7"}),
    ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
     "sxid",
     {"sxid": "12028", "word": "Non-fatal", "link": "32", "switch": "nvswitch3"}),
    ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
     "sxid_companion", {}),
    ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Data {0x00000000, 0x10000000}", "sxid_companion", {}),
    ("", "", {}),
    ("eth0: renamed from veth1", "", {}),
    (f"mlx5_core {NIC}: firmware version: 28.41.1000", "", {}),
    ("ena 0000:00:05.0: The ena device didn't send any completion for admin cmd 3", "", {}),  # ENA is no EFA
    ("a process wrote: mlx5_core Link down", "", {}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "pattern", "details"), LINES)
def test_what_a_line_says(line: str, pattern: str, details: dict[str, str]) -> None:
    found = MATCHER.match(line)
    assert (found.pattern.name if found else "") == pattern
    if found:
        assert details.items() <= found.groups.items()


def test_every_pattern_has_a_line_here_and_is_well_formed() -> None:
    assert {p.name for p in PATTERNS} == {pattern for _, pattern, _ in LINES if pattern}
    assert len({p.name for p in PATTERNS}) == len(PATTERNS)
    assert all(source_of(p.name).count("/") >= 1 for p in PATTERNS)
    for p in PATTERNS:
        re.compile(p.regex)
        others = ("", "xid", "sxid", "nvlink_training_failures", "init_failures", "peermem_errors")
        assert p.concept in CONCEPTS or p.concept in others, p.name


def test_no_pattern_repeats_a_repetition() -> None:
    """What costs a regex more than the square of its text is one unbounded repetition within another."""
    from re import _constants, _parser  # type: ignore[attr-defined]

    def deepest(parsed: Any) -> int:
        depth = 0
        for op, value in parsed:
            if op in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
                _, high, inner = value
                depth = max(depth, deepest(inner) + (high is _constants.MAXREPEAT))
            elif op is _constants.SUBPATTERN:
                depth = max(depth, deepest(value[3]))
            elif op is _constants.BRANCH:
                depth = max(depth, *(deepest(branch) for branch in value[1]))
        return depth

    for pattern in PATTERNS:
        assert deepest(_parser.parse(pattern.regex)) <= 1, pattern.name


@given(st.text(max_size=1500))
def test_any_text_is_read_without_an_error(text: str) -> None:
    MATCHER.match(text)
    MATCHER.match(f"NVRM: Xid (PCI:0000:1b:00): 149, {text}")


# --- the collector, on a tree of files with messages that a test says


class Host:
    """A live host on a tree, whose kernel says what the test says."""

    def __init__(self, root: Path, error: HostError | None = None) -> None:
        self._live = LiveHost(str(root), str(root / "proc"))
        self._error = error
        self.notify: Callable[[KernelMessage | None], None] = lambda message: None
        self.uptime = 100.0
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)

    def watch_kmsg(self, notify: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        if self._error:
            raise self._error
        self.notify = notify

        def stop() -> None:
            self.stopped = True

        return stop

    def say(self, text: str, seconds: float = 10.0, device: str = "") -> None:
        self.uptime += seconds
        self.notify(KernelMessage(1, 3, self.uptime, text, device))


class Watched:
    """The collector at work: `values()` by (row, column), `events` as they came."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.events: list[Event] = []
        self.collector = kernel_log.open(host, kernel_log.config())
        self.stop = self.collector.watch(lambda event: self.events.append(event) if event else None)
        (self.session,) = self.collector.sessions().values()

    def reading(self) -> dict[tuple[Kind, str, str], float]:
        reading = self.session.read()
        found = {}
        at = 0
        for part in reading.parts:
            for component in part.components:
                for column in part.columns:
                    found[part.kind, component.name, column] = reading.values[at]
                    at += 1
        assert at == len(reading.values)
        assert reading.faults == ()
        return found

    def counted(self) -> dict[tuple[str, str], float]:
        """(row, metric) of every count that is not 0."""
        return {
            (name, metric_of(column).name): value
            for (_, name, column), value in self.reading().items()
            if value and column != "node_kernel_log_readable"
        }


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    build_hca_tree(tmp_path, devices=2)
    for address in (GPU, "0000:2b:00.0"):
        (tmp_path / "bus/pci/drivers/nvidia" / address).mkdir(parents=True)
    return Watched(Host(tmp_path))


def test_every_port_gpu_and_the_node_start_at_zero(watched: Watched) -> None:
    found = watched.reading()
    assert {(kind, name) for kind, name, _ in found} == {
        (Kind.PORT, "mlx5_0/1"), (Kind.PORT, "mlx5_1/1"), (Kind.GPU, "gpu0"), (Kind.GPU, "gpu1"), (Kind.NODE, ""),
    }  # fmt: skip
    assert found.pop((Kind.NODE, "", "node_kernel_log_readable")) == 1
    assert set(found.values()) == {0.0}
    for kind, columns in COLUMNS.items():
        assert {c for k, _, c in found if k is kind} >= set(columns)


def test_a_line_counts_on_the_row_of_the_device_it_names(watched: Watched) -> None:
    watched.host.say(MLX5 + "f:1:(pid 0): device's health compromised - reached miss count")
    watched.host.say("NETDEV WATCHDOG: ib1 (mlx5_core): transmit queue 5 timed out")
    watched.host.say(f"nvidia {GPU}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)")
    watched.host.say(f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01")
    watched.host.say("NVLink: failed to train link 3", device="0000:2b:00.0")
    watched.host.say(MLX5 + "Link is fine")
    assert watched.counted() == {
        ("mlx5_0/1", "fabricmon_port_log_firmware_faults_total"): 1,
        ("mlx5_1/1", "fabricmon_port_log_queue_timeouts_total"): 1,
        ("gpu0", "fabricmon_gpu_log_pcie_correctable_errors_total"): 1,
        ("gpu1", "fabricmon_gpu_log_nvlink_training_failures_total"): 1,
        ("", "fabricmon_node_log_pcie_fatal_errors_total"): 1,
    }
    assert [(e.kind, e.of, e.component, e.fields["severity"]) for e in watched.events] == [
        ("mlx5_health_lost", Kind.PORT, "mlx5_0/1", 2),
        ("watchdog_device_first", Kind.PORT, "mlx5_1/1", 1),
        ("dpc", Kind.NODE, "", 2),
        ("nvlink_training", Kind.GPU, "gpu1", 1),
    ]
    assert watched.events[0].text.startswith("mlx5_core 0000:11:00.0")


def test_every_line_is_counted_and_repetitions_are_not_reported(watched: Watched) -> None:
    for n in range(1000):
        watched.host.say(f"mlx5_core {NIC} ib0: TX timeout detected", seconds=0.01 if n else 10)
    assert watched.counted() == {("mlx5_0/1", "fabricmon_port_log_queue_timeouts_total"): 1000}
    assert [e.fields.get("left_out") for e in watched.events] == [None, *[499.0] * (len(watched.events) - 1)][:2]


def test_a_flapping_link_is_left_to_the_link_events(watched: Watched) -> None:
    watched.host.say(f"mlx5_core {NIC} ib0: Link down")
    watched.host.say(f"mlx5_core {NIC} ib0: Link up")
    assert watched.events == []
    assert watched.counted() == {("mlx5_0/1", "fabricmon_port_log_link_downs_total"): 1}


def test_what_follows_from_an_xid_is_no_second_fault(watched: Watched) -> None:
    xid = "NVRM: Xid (PCI:0000:1b:00): "
    watched.host.say(xid + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    watched.host.say(xid + "45, pid=77, name=python, Ch 00000008", seconds=0.3)
    watched.host.say(xid + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
                         seconds=0.1)
    watched.host.say("NVRM: Xid (PCI:0000:2b:00): 74, pid=77, name=python, NVLink: fatal error detected on link 2"
                     "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", seconds=1)
    assert watched.counted() == {
        ("gpu0", "fabricmon_gpu_log_xid_bus_total"): 1,
        ("gpu0", "fabricmon_gpu_log_xid_consequence_total"): 1,
        ("gpu0", "fabricmon_gpu_log_xid_recovery_total"): 1,
        ("gpu1", "fabricmon_gpu_log_xid_consequence_total"): 1,
    }
    assert [(e.fields["xid"], e.fields["severity"]) for e in watched.events] == [(79, 2), (45, 0), (154, 0), (74, 0)]
    assert "follows from another fault" in watched.events[1].text


def test_the_same_xids_alone_are_faults(watched: Watched) -> None:
    for gpu in ("1b", "2b"):
        watched.host.say(f"NVRM: Xid (PCI:0000:{gpu}:00): 74, pid=7, name=x, NVLink: fatal error on link 2(0x0, 0x1)")
        watched.host.say(f"NVRM: Xid (PCI:0000:{gpu}:00): 45, pid=7, name=x, Ch 00000008")
    assert watched.counted() == {
        (row, f"fabricmon_gpu_log_xid_{group}_total"): 1 for row in ("gpu0", "gpu1") for group in ("nvlink", "other")
    }


@pytest.mark.parametrize(("info", "group", "severity", "said"), [
    ("0x00200000", "nvlink", 2, "signal integrity of this end"),  # subcode 2
    ("0x02a00000", "nvlink", 2, "signal integrity of this end"),  # 42
    ("0x01500000", "consequence", 0, "the other end took the link down"),  # 21
    ("0x02300000", "consequence", 0, "the other end took the link down"),  # 35
    ("0x00000000", "consequence", 0, "follows from another fault"),  # 0
    ("0x00f00000", "nvlink", 0, "NVLink link event"),  # 15: on purpose
    ("0x00100000", "nvlink", 2, "NVLink link event"),  # 1
])  # fmt: skip
def test_an_nvlink_5_link_event_says_who_is_to_blame(
    watched: Watched, info: str, group: str, severity: int, said: str
) -> None:
    watched.host.say(f"NVRM: Xid (PCI:0000:2b:00): 149, NETIR_LINK_EVT  Fatal XC0 i0 Link 07 ({info} 0x00000004)")
    assert watched.counted() == {("gpu1", f"fabricmon_gpu_log_xid_{group}_total"): 1}
    (event,) = watched.events
    assert event.fields["severity"] == severity
    assert said in event.text


def test_no_message_that_is_reported_goes_uncounted_for_want_of_a_row(watched: Watched) -> None:
    watched.host.say("NVRM: Xid (PCI:0000:ff:00): 79, pid=1, name=x, GPU has fallen off the bus.")
    watched.host.say("mlx5_core 0000:ee:00.0: f:1:(pid 0): device's health compromised - reached miss count")
    watched.host.say("infiniband rdmap9s9: Admin queue is closed")
    assert watched.counted() == {
        ("", "fabricmon_node_log_xid_total"): 1, ("", "fabricmon_node_log_firmware_faults_total"): 2,
    }  # fmt: skip
    assert [e.of for e in watched.events] == [Kind.NODE] * 3


def test_events_travel(watched: Watched) -> None:
    watched.host.say("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=x, GPU has fallen off the bus.")
    (event,) = watched.events
    assert frame.decode_text(frame.encode_event(event)) == event
    assert (event.of, event.component) == (Kind.GPU, "gpu0")


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p.concept], ids=lambda p: p.name)
def test_every_concept_has_a_column_on_the_node(pattern: Pattern) -> None:
    concepts = {"sxid": ("sxid_fatal", "sxid_nonfatal", "sxid_correctable")}.get(pattern.concept, (pattern.concept,))
    assert {f"node_log_{concept}" for concept in concepts} <= set(COLUMNS[Kind.NODE])


def test_nvswitch_errors_count_on_the_node_once_each(watched: Watched) -> None:
    switch = "nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): "
    watched.host.say(switch + "20034, Fatal, Link 30 LTSSM Fault Up")
    watched.host.say(switch + "20034, Severity 1 Engine instance 30 Sub-engine instance 00", seconds=0)
    watched.host.say(switch + "20034, Data {0x00000000}", seconds=0)
    watched.host.say(switch + "20001, Correctable, Link 30 TX Replay Error")
    assert watched.counted() == {
        ("", "fabricmon_node_log_sxid_fatal_total"): 1, ("", "fabricmon_node_log_sxid_correctable_total"): 1,
    }  # fmt: skip
    assert [(e.kind, e.fields["sxid"], e.fields["link"], e.fields["severity"]) for e in watched.events] == [
        ("sxid", 20034, 30, 2), ("sxid", 20001, 30, 0),
    ]  # fmt: skip


def test_lost_messages_are_counted_and_nothing_else(watched: Watched) -> None:
    watched.host.notify(None)
    assert watched.reading()[Kind.NODE, "", "node_kernel_log_lost"] == 1
    assert watched.events == []


def test_a_device_that_goes_takes_its_row_along(watched: Watched, tmp_path: Path) -> None:
    watched.reading()
    first = watched.session.read().parts
    assert watched.session.read().parts is first
    (tmp_path / "class/infiniband/mlx5_1").unlink()
    assert (Kind.PORT, "mlx5_1/1") not in {(kind, name) for kind, name, _ in watched.reading()}


@pytest.mark.parametrize(("error", "said"), [
    (HostError("/dev/kmsg", errno.EPERM, "Operation not permitted"), "permission denied"),
    (HostError("/dev/kmsg", errno.ENOENT, "No such file or directory"), "no /dev/kmsg"),
    (Unsupported("/dev/kmsg", 0, "a recorded machine has no events"), "not available"),
])
def test_a_log_that_may_not_be_read_is_visible_and_no_fault(tmp_path: Path, error: HostError, said: str) -> None:
    build_hca_tree(tmp_path, devices=1)
    watched = Watched(Host(tmp_path, error))
    found = watched.reading()
    assert {(name, column) for _, name, column in found} == {
        ("", "node_kernel_log_readable"), ("", "node_kernel_log_lost"),
    }  # fmt: skip
    assert found[Kind.NODE, "", "node_kernel_log_readable"] == 0
    assert math.isnan(found[Kind.NODE, "", "node_kernel_log_lost"])
    (part,) = watched.session.read().parts
    assert part.components[0].labels == {"kernel_log": said}
    watched.stop()


def test_the_captured_log_of_a_gpu_that_does_not_answer(tmp_path: Path, shared_dir: Path) -> None:
    """Four Xid 119 at 0, 6, 12, 174 and 355 s; what is printed around them counts for nothing."""
    text = (shared_dir / "captures/logs/dmesg-xid-119.log").read_text()
    for bus in ("1b", "2b", "9b"):
        (tmp_path / f"bus/pci/drivers/nvidia/0000:{bus}:00.0").mkdir(parents=True)
    watched = Watched(Host(tmp_path))
    for line in text.splitlines():
        stamp, _, said = line.partition("] ")
        hours, minutes, seconds = (float(part) for part in stamp.split()[3].split(":"))
        watched.host.uptime = 3600 * hours + 60 * minutes + seconds
        watched.host.say(said, seconds=0)
    raw = len(re.findall(r"NVRM: Xid \(PCI:0000:9b:00\): 119,", text))
    assert watched.counted() == {("gpu2", "fabricmon_gpu_log_xid_firmware_total"): raw}
    assert raw == 5
    assert [e.fields["xid"] for e in watched.events] == [119.0] * raw
    assert all("does not answer a call" in e.text for e in watched.events)


@pytest.mark.parametrize("name", ["syslog-ib6-lost-carrier-x6.log", "fabricmanager-hgx.log"])
def test_captured_logs_of_other_programs_say_nothing_here(watched: Watched, shared_dir: Path, name: str) -> None:
    for line in (shared_dir / "captures/logs" / name).read_text().splitlines():
        watched.host.say(line)
    assert watched.counted() == {}
    assert watched.events == []


def test_only_counts_that_a_rule_judges_leave_the_node() -> None:
    wired = {column for columns in COLUMNS.values() for column in columns if CATALOGUE[column].wire}
    assert wired == {"log_firmware_faults", "log_pcie_fatal_errors"}
