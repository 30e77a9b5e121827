"""More lines of public reports and kernel threads, found after the patterns were written: rewritten as test data.

Addresses, process ids and names are ours; the words are the driver's. `report` names the thread or commit, "file N" a
public file by its number in the index it was found with; `kernel` what the excerpt states. The counts are the measure:
the patterns of before took 63 of the 76 lines that tell a fault, and one that tells none (recovered by DPC).
"""

from __future__ import annotations

import pytest

from fabricmon.catalogue.kernel_patterns import PatternMatcher
from tests.collect.test_public_kernel_lines import Line, of_report

MATCHER = PatternMatcher()
COMMAND = "mlx5_command_failed"

MLX5 = [
    *of_report("net/mlx5e: kTLS, sizes of async ICOSQ", "not stated",
        ("mlx5_core 0000:3a:00.0: cq_err_event_notifier:529:(pid 4201): CQ error on CQN 0x512, syndrome 0x1", "", True),
        ("mlx5_core 0000:3a:00.0 eth4: mlx5e_cq_error_event: cqn=0x000512 event=0x04", "", False)),
    *of_report("net/mlx5: command entry semaphore", "not stated",
        ("mlx5_core 0000:3b:00.0: wait_func_handle_exec_timeout:1128:(pid 7711): cmd[-22]: CREATE_UCTX(0xa04) No done "
         "completion", "", False)),
    *of_report("vdpa/mlx5: suspended virtqueue", "not stated",
        ("mlx5_core 0000:52:04.2: mlx5_cmd_out_err:782:(pid 611): CREATE_GENERAL_OBJECT(0xa00) op_mod(0xd) failed, "
         "status bad parameter(0x3), syndrome (0x5fa1c), err(-22)", COMMAND, True)),
    *of_report("file 63120740381", "not stated",
        ("mlx5_core 0000:02:00.1: E-Switch: Enable: mode(LEGACY), nvfs(1), necvfs(0), active vports(2)", "", False)),
    *of_report("vhost-vdpa crash thread", "not stated",
        ("mlx5_core 0000:1d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count",
         "mlx5_health_lost", True),
        ("mlx5_core 0000:1d:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, "
         "severity(3) ERROR:", "mlx5_health_issue", True),
        ("mlx5_core 0000:1d:00.0: print_health_info:435:(pid 0): assert_var[0] 0x00000000", "", False)),
    *of_report("netdev thread on tunnel offload", "5.6.0-rc5",
        ("mlx5_core 0000:91:00.0 net3: Chains on tunnel devices isn't supported without register metadata support", "",
         False)),
    *of_report("iommu/amd: GALog", "not stated",
        ("mlx5_core 0000:00:03.0: mlx5_cmd_eq_recover:247:(pid 99): Recovered 1 EQEs on cmd_eq", "", False),
        ("mlx5_core 0000:00:03.0: wait_func_handle_exec_timeout:1113:(pid 99): cmd[0]: CREATE_CQ(0x400) "
         "recovered after "
         "timeout", "", False)),
    *of_report("net/mlx5: complete the slotted command", "4.19.90",
        ("mlx5_core 0000:02:00.0: cmd_work_handler:877:(pid 5): failed to allocate command entry", "mlx5_command_entry",
         True)),
    *of_report("PCI: s390 error recovery", "5.14.0-570.12.1.el9.s390x",
        ("mlx5_core 0000:00:00.1: mlx5_health_try_recover:338:(pid 12): health recovery flow aborted, PCI reads still "
         "not working", "mlx5_pci_silent", True)),
    *of_report("net/mlx5: subfunctions in a reset", "not stated",
        ("mlx5_core.sf mlx5_core.sf.31: mlx5_cmd_check:813:(pid 88): ENABLE_HCA(0x104) op_mod(0x0) failed, status bad "
         "resource state(0x9), syndrome (0x658908)", COMMAND, True),
        ("mlx5_core.sf mlx5_core.sf.31: mlx5_function_setup:1292:(pid 88): enable hca failed", "", False),
        ("mlx5_core 0000:04:00.0: wait vital counter value 0xab193 after 1 iterations", "", False)),
    *of_report("net/mlx5e: IPsec ASO", "not stated",
        ("mlx5_cmd_out_err:778:(pid 71): CREATE_SQ(0x904) op_mod(0x0) failed, status bad parameter(0x3), syndrome "
         "(0xd61c0b), err(-22)", COMMAND, True)),
    *of_report("net/mlx5e: post action rules", "not stated",
        ("mlx5_core 0000:09:00.0: mlx5_cmd_out_err:803:(pid 3): SET_FLOW_TABLE_ENTRY(0x936) op_mod(0x0) failed, status "
         "bad resource state(0x9), syndrome (0xf2ff71), err(-22)", COMMAND, True),
        ("mlx5_core 0000:09:00.0 enp9s0f0: Failed to add post action rule", "", False)),
    *of_report("net/mlx5: Lag, switchdev", "not stated",
        ("mlx5_core 0000:0c:00.0: mlx5_cmd_out_err:778:(pid 25): CREATE_LAG(0x840) op_mod(0x0) failed, status bad "
         "parameter(0x3), syndrome (0x7d49cb), err(-22)", COMMAND, True)),
    *of_report("net/mlx5e: FIB events", "not stated",
        ("mlx5_core 0000:0c:00.0: mlx5_cmd_out_err:829:(pid 113): DEALLOC_MODIFY_HEADER_CONTEXT(0x941) op_mod(0x0) "
         "failed, status bad resource state(0x9), syndrome (0x1ab444), err(-22)", COMMAND, True)),
    *of_report("file 69588681568", "not stated",
        ("mlx5_cmd_out_err: 353031 callbacks suppressed", "", False),
        ("mlx5_core 0000:42:00.0: mlx5_cmd_out_err:800:(pid 8): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits "
         "exceeded(0x8), syndrome (0x18af6), err(-12)", COMMAND, True),
        ("infiniband mlx5_0: create_mkey_warn:158:(pid 8): async reg mr failed. status -121", "", False)),
    *of_report("net/mlx5e: TC, drop and modify", "not stated",
        ("mlx5_core 0000:0a:00.0: mlx5_cmd_check:777:(pid 6): SET_FLOW_TABLE_ENTRY(0x936) op_mod(0x0) "
         "failed, status bad "
         "parameter(0x3), syndrome (0x8708c3)", COMMAND, True)),
    *of_report("linux-rdma thread on QP types", "not stated",
        ("mlx5_core 0000:03:00.0: mlx5_cmd_check:827:(pid 6): CREATE_QP(0x500) op_mod(0x0) failed, status bad "
         "resource(0x5), syndrome (0x65b500)", COMMAND, True),
        ("mlx5_core 0000:03:00.0: dump_command:887:(pid 0): cmd[0]: end dump", "", False),
        ("infiniband mlx5_0: create_qp:3192:(pid 6): Create QP type 2 failed", "", False)),
    *of_report("RDMA/mlx5: mkey_index in destroy_mkey", "not stated",
        ("mlx5_core 0000:09:00.0: mlx5_cmd_check:782:(pid 6): DEALLOC_PD(0x801) op_mod(0x0) failed, status "
         "bad resource "
         "state(0x9), syndrome (0x31b635)", COMMAND, True)),
    *of_report("RDMA/mlx5: port of switchdev QPs", "not stated",
        ("mlx5_cmd_check:803:(pid 50): RST2INIT_QP(0x502) op_mod(0x0) failed, status bad parameter(0x3), syndrome "
         "(0x177405).", COMMAND, True)),
    *of_report("net/mlx5: Lag, order of removal", "not stated",
        ("mlx5_cmd_check:752:(pid 12): DESTROY_LAG(0x843) op_mod(0x0) failed, status bad parameter(0x3), syndrome "
         "(0xe4ac33)", COMMAND, True)),
    *of_report("file 6680309299", "not stated",
        ("mlx5_core 0000:33:00.1: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1",
         "mlx5_temperature", True)),
    *of_report("file 71034923377", "not stated",
        ("mlx5_core 0000:33:00.0: print_health_info:520:(pid 0): synd 0x10: High temperature", "mlx5_syndrome", True)),
    *of_report("leptonai/gpud, infiniband", "not stated",
        ("mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
         "mlx5_module_error", True)),
    *of_report("netdev thread on shaping", "not stated",
        ("NETDEV WATCHDOG: eth3 (mlx5_core): transmit queue 19 timed out", "watchdog_device_first", True)),
    *of_report("NVIDIA/NVSentinel, nic driver", "6.8",
        ("mlx5_core 0000:66:00.0 ens16np0: NETDEV WATCHDOG: CPU: 94: transmit queue 3 timed out 5032 ms",
         "watchdog_driver_first", True)),
    *of_report("pocopico/rp-ext#129", "4.4.180",
        ("mlx5_core 0000:02:00.0: handle_hca_cap failed", "", False),
        ("mlx5_core 0000:02:00.0: mlx5_load_one failed with error code -22", "", False)),
    *of_report("oracle/oracle-linux#85", "not stated",
        ("mlx5_core 36fe:00:03.0: Successfully unregistered panic handler for port 1", "", False)),
]  # fmt: skip

OTHER_ADAPTERS = [
    *of_report("bnxt_en: DIM work", "not stated",
        ("bnxt_en 0000:22:00.1 ens3f1np1: hwrm req_type 0x53 seq id 0x6fca error 0x2", "bnxt_command_failed", True)),
    *of_report("bnxt_en: aggregation ids", "not stated",
        ("bnxt_en 0000:84:00.0 enp132s0np0: TPA end agg_buf 2 != expected agg_bufs 1", "", True)),
    *of_report("bnxt_en: indirect blocks", "not stated",
        ("bnxt_en 0000:1a:00.1 eno3np1: dev(ifindex=294) not on same switch", "", False)),
    *of_report("linux-rdma thread on NVMe over bnxt_re", "5.2.0-rc1",
        ("bnxt_en 0000:1a:00.0: QPLIB: cmdq[0x4b9]=0x15 status 0x5", "bnxt_rdma_failed", True),
        ("infiniband bnxt_re0: Failed to allocate HW AH", "", False),
        ("nvme nvme2: rdma_connect failed (-14).", "", False),
        ("bnxt_en 0000:1a:00.0: QPLIB: cmdq[0x41d]=0x3 timedout (20000)msec", "bnxt_rdma_timeout", True),
        ("infiniband bnxt_re0: Failed to modify HW QP", "", False),
        ("bnxt_en 0000:1a:00.0: QPLIB: cmdq[0x0]=0x3 send failed", "bnxt_rdma_failed", True)),
    *of_report("file 61857256518", "not stated",
        ("bnxt_en 0000:42:00.0: QPLIB: cmdq[0xd3a]=0x9 status 0x3", "bnxt_rdma_failed", True),
        ("bnxt_en 0000:42:00.0 rocep66s0f0: Failed to create HW CQ", "", False)),
    *of_report("AMD-Vi thread on a NIC", "not stated",
        ("bnxt_en 0000:44:00.0 (unnamed net_device) (uninitialized): Error (timeout: 500015) msg {0x0 0x0} len:0",
         "bnxt_command_timeout", True)),
    *of_report("file 47559953799", "not stated",
        ("bnxt_en 0000:b0:00.1 (unnamed net_device) (uninitialized): Error (timeout: 500) msg {0x0 0x0} len:176 v:0",
         "bnxt_command_timeout", True),
        ("bnxt_en: probe of 0000:b0:00.1 failed with error -1", "driver_not_started", True)),
    *of_report("netdev thread on bnxt_en", "not stated",
        ("bnxt_en 0000:05:00.0 eth1: NETDEV WATCHDOG: CPU: 2: transmit queue 1 timed out 5123 ms",
         "watchdog_driver_first", True),
        ("bnxt_en 0000:05:00.0 eth1: TX timeout detected, starting reset task!", "bnxt_tx_timeout", True),
        ("bnxt_en 0000:05:00.0 eth1: [0.0]: tx{fw_ring: 0 prod: a cons: 8}", "", False)),
    *of_report("bnxt_en: firmware reset by ethtool", "not stated",
        ("bnxt_en 0000:3c:00.0 p2p1: Firmware reset request successful.", "", False),
        ("bnxt_en 0000:3c:00.0: not enough MMIO resources for SR-IOV", "", False)),
    *of_report("bnxt_en: PTP time stamps", "6.8",
        ("bnxt_en 0000:68:00.0 eth1: TS query for TX timer failed rc = fffffff5", "", False)),
    *of_report("NVIDIA/NVSentinel, EFA", "not stated",
        ("infiniband rdmap0s7: Wait for completion (polling) timeout", "efa_polling_timeout", True),
        ("infiniband rdmap16s28: The device didn't send any completion for admin cmd CREATE_QP(6) status 0 (ctx "
         "0x0000000011112222, sq producer: 9)", "efa_no_completion", True)),
    *of_report("linux-rdma thread on pciehp and IPoIB", "not stated",
        ("ib0: transmit timeout: latency 20428 msecs", "ipoib_timeout", True)),
    *of_report("net: WARN_ON_ONCE of the transmit timeout", "not stated",
        ("ib1: transmit timeout: latency 1120 msecs", "ipoib_timeout", True),
        ("ib1: queue stopped 1, tx_head 167838, tx_tail 167710", "", False)),
    *of_report("ipoib: multicast join", "not stated",
        ("ib0.beef: transmit timeout: latency 10 msecs", "ipoib_timeout", True)),
    *of_report("csrutil/OpenWrt-NIC-Drivers#11", "not stated",
        ("r8125 0000:23:04.0 eth5: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms",
         "watchdog_driver_first", True)),
    *of_report("file 71571964848", "not stated",
        ("virtio_net virtio0 eth0: NETDEV WATCHDOG: CPU: 27: transmit queue 0 timed out 5120 ms", "", False)),
    *of_report("pcengines/apu2-documentation#174", "4.19.98-1 (Debian)",
        ("igb 0000:02:00.0 enp2s0: PCIe link lost", "", False)),
]  # fmt: skip

GPUS = [
    *of_report("file 21139770565", "5.4.0-48 (Ubuntu 20.04)",
        ("NVRM: Xid (PCI:0000:02:00): 79, pid=1122, GPU has fallen off the bus.", "xid", True),
        ("NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.", "gpu_lost", True)),
    *of_report("file 61643228005", "not stated",
        ("NVRM: Xid (PCI:0000:00:07): 31, pid=7974, name=exe, Ch 0000000a, intr 00000000. MMU Fault: ENGINE "
         "GRAPHICS GPC2 "
         "GPCCLIENT_T1_7 faulted @ 0x2b57_b3000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE", "xid", True)),
    *of_report("file 56886461816", "not stated",
        ("NVRM: Xid (PCI:0000:03:00): 13, pid=2545, Graphics SM Global Exception on (GPC 0, TPC 1, SM 1): "
         "Multiple Warp "
         "Errors", "xid", True),
        ("NVRM: GPU 0000:03:00.0: RmInitAdapter failed! (0x24:0x65:1185)", "gpu_init_failed", True),
        ("NVRM: GPU 0000:03:00.0: rm_init_adapter failed, device minor number 0", "", False)),
    *of_report("file 6864993131", "not stated",
        ("NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x63:0x55:2344)", "gpu_init_failed", True)),
    *of_report("file 55080197096", "not stated",
        ("NVRM: GPU0 _kgspBootGspRm: (the GPU is likely in a bad state and may need to be reset)", "", False),
        ("NVRM: GPU0 RmInitAdapter: Cannot initialize GSP firmware RM", "", False),
        ("NVRM: GPU 0000:05:00.0: RmInitAdapter failed! (0x62:0x40:2192)", "gpu_init_failed", True)),
    *of_report("file 63196197521", "not stated",
        ("NVRM: ksec2PrepareBootCommands_GB20B: SEC2 secure boot partition timed out.", "", False),
        ("NVRM: RmInitAdapter failed! (0x62:0x65:2028)", "gpu_init_failed", True)),
    *of_report("file 5847780044", "not stated",
        ("NVRM: failed to copy vbios to system memory.", "", False),
        ("NVRM: RmInitAdapter failed! (0x30:0xffff:660)", "gpu_init_failed", True),
        ("NVRM: rm_init_adapter failed for device bearing minor number 0", "", False)),
    *of_report("geerlingguy/raspberry-pi-pcie-devices", "not stated",
        ("NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x25:0x65:1468)", "gpu_init_failed", True),
        ("[drm:nv_drm_load [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x00000200] Failed to allocate NvKmsKapiDevice",
         "", False)),
    *of_report("file 63381846244", "not stated",
        ("NVRM: _kgspLogXid119: ********************** GSP Timeout **********************", "", False),
        ("NVRM: Xid (PCI:0000:02:00): 119, Timeout after 6s of waiting for RPC response from GPU0 GSP! "
         "Expected function "
         "76 (GSP_RM_CONTROL) sequence 1321", "xid", True)),
    *of_report("file 59204176920", "not stated",
        ("NVRM: Xid (PCI:0000:0e:00): 51, BAD_TSG encountered on runlist: 0 with error code: 4", "xid", True),
        ("NVRM: Xid (PCI:0000:0e:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", "xid", True),
        ("NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED]", "", False)),
    *of_report("file 51863788626", "not stated",
        ("NVRM: GPU Board Serial Number: 1322321000000", "", False),
        ("NVRM: Xid (PCI:0000:60:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
         "xid", True)),
    *of_report("leptonai/gpud, xid", "not stated",
        ("NVRM: Xid (PCI:0009:02:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000 "
         "0x00000000 0x00000000 0x00000000)", "xid", True)),
    *of_report("NVIDIA/NVSentinel, Xid 74", "not stated",
        ("NVRM: Xid (PCI:0004:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on "
         "link 14(0x0, "
         "0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", "xid", True)),
    *of_report("SageMaker HyperPod", "not stated",
        ("NVRM: Xid (PCI:0000:ba:00): 71, NVLink: fatal error detected on link 6", "xid", True)),
    *of_report("openEuler report on B200", "6.6.0 (openEuler, driver 570.133.20)",
        ("NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
         "nvlink_detection", True),
        ("NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer1's postRxDetLinkMask failed!", "nvlink_detection",
         True)),
    *of_report("file 55671417630", "not stated",
        ("NVRM: knvlinkSendInbandData_IMPL: Failed to send inband data: 0", "", False)),
    *of_report("NVIDIA/NVSentinel, SXid", "not stated",
        ("nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate", "sxid", True),
        ("nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 28006, Non-fatal, Link 29 MC TS crumbstore MCTO", "sxid", True)),
    *of_report("leptonai/gpud, SXid", "not stated",
        ("nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
         "sxid", True)),
    *of_report("leptonai/gpud, peermem", "not stated",
        ("nvidia-peermem nv_get_p2p_free_callback:128 ERROR detected invalid context, skipping further processing",
         "peermem_context", True)),
]  # fmt: skip

PCIE = [
    *of_report("i915 thread with AER", "not stated",
        ("pcieport 0000:00:1d.0: AER: Corrected error received: 0000:00:1d.0", "", False),
        ("pcieport 0000:00:1d.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
         "aer_correctable", True)),
    *of_report("file 57177591864", "not stated",
        ("pcieport 0000:00:1d.1: AER: Corrected error received: id=00e8", "", False),
        ("pcieport 0000:00:1d.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=00e8(Transmitter ID)",
         "aer_correctable", True),
        ("pcieport 0000:00:1d.1:    [12] Replay Timer Timeout", "", False)),
    *of_report("PCI/DPC after resume", "not stated",
        ("pcieport 0000:00:1c.1: DPC: containment event, status:0x1f01 source:0x0000", "dpc", True),
        ("pcieport 0000:00:1c.1: DPC: unmasked uncorrectable error detected", "", False),
        ("pcieport 0000:00:1c.1: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, "
         "(Receiver ID)",
         "aer_nonfatal", True),
        ("pcieport 0000:00:1c.1:    [21] ACSViol                (First)", "", False)),
    *of_report("linux-pci thread on bus resets", "not stated",
        ("pcieport 0000:c1:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
         "aer_fatal", True)),
    *of_report("linux-pci thread on injected errors", "not stated",
        ("pcieport 0000:00:01.2: aer_inject: Injecting errors 00000000/00004000 into device 0000:0a:00.0", "", False),
        ("pcieport 0000:00:01.2: AER: Uncorrected (Non-Fatal) error received: 0000:0a:00.0", "", False),
        ("igb 0000:0a:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, "
         "(Requester ID)",
         "aer_nonfatal", True),
        ("igb 0000:0a:00.0: AER:    [14] CmpltTO", "", False)),
    *of_report("PCI: Titan Ridge quirk", "not stated",
        ("pcieport 0000:00:1c.5: AER: Correctable error message received from 0000:08:00.0", "aer_message", False),
        ("pcieport 0000:08:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)",
         "aer_correctable", True)),
    *of_report("file 57103721839", "not stated",
        ("pcieport 0000:00:03.1: can't find device of ID0018", "", False)),
    *of_report("PCI/DPC: source of the event", "not stated",
        ("pci 0000:00:02.0: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:03:00.0", "dpc", True)),
    *of_report("PCI/EDR: types of errors", "not stated",
        ("pcieport 0000:31:03.0: EDR: EDR event received", "", False),
        ("pcieport 0000:31:03.0: DPC: containment event, status:0x0005 source:0x3500", "dpc", True),
        ("pcieport 0000:31:03.0: AER: broadcast error_detected message", "", False),
        ("nvme 0000:35:00.0: ready 0ms after DPC", "", False)),
    *of_report("PCI: pciehp and DPC", "not stated",
        ("pcieport 0000:a8:10.0: pciehp: Slot(272): Link Down/Up ignored (recovered by DPC)", "", False),
        ("pcieport 0000:a8:10.0: pciehp: Slot(272): Card not present", "hotplug", True),
        ("pcieport 0000:98:02.0: pciehp: Slot(4): Link Down", "hotplug", True)),
    *of_report("PCI: pciehp, attention button", "not stated",
        ("pcieport 0003:00:01.0: pciehp: Slot(31): Attention button pressed", "", False),
        ("pcieport 0003:00:01.0: pciehp: Slot(31): Powering off due to button press", "", False)),
    *of_report("file 908188188", "not stated",
        ("pcieport 0000:00:04.2: pciehp: Slot(0): Card present", "", False),
        ("pcieport 0000:00:04.2: pciehp: Slot(0): Link Up", "", False)),
    *of_report("efi: cper, AER of fatal errors", "not stated",
        ("{763}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 11", "", False),
        ("{763}[Hardware Error]: event severity: fatal", "ghes_severity", False),
        ("{763}[Hardware Error]:   section_type: PCIe error", "ghes_section", False),
        ("{763}[Hardware Error]:   port_type: 0, PCIe end point", "", False),
        ("{763}[Hardware Error]:   device_id: 0000:83:00.0", "ghes_device", True)),
    *of_report("thread on errors at power-off", "not stated",
        ("{1}[Hardware Error]:   device_id: 0000:02:00.1", "ghes_device", True)),
    *of_report("cxl thread on unknown sections", "not stated",
        ("{1}[Hardware Error]:   section type: unknown, fbcd0a77-c260-417f-85a9-088b1621eba6", "", False)),
    *of_report("file 505924769", "not stated",
        ("pci 0000:02:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:02.0 "
         "(capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)", "pcie_bandwidth", True)),
]  # fmt: skip

LINES: list[Line] = [*MLX5, *OTHER_ADAPTERS, *GPUS, *PCIE]


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.report}: {line.text[:40]}")
def test_a_line_of_a_public_report(line: Line) -> None:
    found = MATCHER.match(line.text)
    assert (found.pattern.name if found else "") == line.pattern


def test_the_counts() -> None:
    """Lines that tell a fault and are taken; that tell one and are not; that tell none and make a count or an event."""
    found = [(line, MATCHER.match(line.text)) for line in LINES]
    matched = [line for line, match in found if line.fault and match]
    missed = [line for line, match in found if line.fault and not match]
    false = [line for line, match in found if not line.fault and match and match.pattern.concept]
    assert (len(LINES), len(matched), len(missed), len(false)) == (139, 74, 2, 0)
