"""What to do where a collector reads nothing, or cannot read something: the tables of `fabricmon doctor`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_ADAPTERS = (
    "no action on a node without RDMA adapters; otherwise load their driver (mlx5_ib, bnxt_re, irdma, ionic_rdma, efa), "
    "and in a container mount the host's /sys"
)
_INTERFACES = (
    "no action on a node without such interfaces; otherwise run the agent in their network namespace (hostNetwork in "
    "Kubernetes)"
)
_GPUS = (
    "no action on a node without NVIDIA GPUs; otherwise load the driver, and in a container mount libnvidia-ml.so.1 and "
    "/dev/nvidia*"
)
_SYS = "mount the host's /sys in the container; a virtual machine may have none"


class Sought(NamedTuple):
    """What a collector looks for, and what to do where there should be some and it finds none."""

    what: str
    do: str


_COUNTERS = Sought(
    "counters of RDMA devices in /sys/class/infiniband/*/ports/*",
    "no action on a node without RDMA adapters; otherwise see `infiniband_state`: devices without any counters need "
    "another driver version",
)
SOUGHT: Mapping[str, Sought] = {
    "infiniband": _COUNTERS, "infiniband_errors": _COUNTERS, "infiniband_rare": _COUNTERS,
    "infiniband_state": Sought("RDMA devices in /sys/class/infiniband", _ADAPTERS),
    "ethernet": Sought("network interfaces of adapters", _INTERFACES),
    "bond": Sought("bonds in /sys/class/net/bonding_masters", "no action, unless adapters are bonded"),
    "roce": Sought("interfaces of RoCE adapters with ethtool statistics", _INTERFACES),
    "ethernet_phy": Sought("interfaces with FEC and physical layer statistics", _INTERFACES),
    "qos": Sought("interfaces with priorities and flow control", _INTERFACES),
    "optics": Sought("modules of adapters with an EEPROM", "no action with copper cables or without modules; otherwise give the agent CAP_NET_ADMIN"),
    "neighbours": Sought("LLDP neighbours from lldpd", "no action without Ethernet fabric; otherwise run lldpd on the node, and let the agent use its socket"),
    "gpu": Sought("GPUs through libnvidia-ml.so.1", _GPUS),
    "nvlink": Sought(
        "GPUs with NVLinks through libnvidia-ml.so.1",
        "no action where GPUs have none, as single ones in a virtual machine; otherwise see `gpu`",
    ),
    "pcie": Sought("adapters, GPUs and NVSwitches in /sys/bus/pci/devices", _SYS),
    "fabric": Sought(
        "the InfiniBand subnet, by /dev/infiniband",
        "off by default; set collect.fabric.enabled on one or two nodes of each InfiniBand subnet, on no others",
    ),
    "kernel_log": Sought("new messages in /dev/kmsg", "give the agent CAP_SYSLOG, and in a container the device /dev/kmsg"),
    "inventory": Sought("RDMA devices, GPUs and the machine's name in /sys", "mount the host's /sys in the container"),
}  # fmt: skip
"""Collector -> what it looks for."""

VERBS = Sought(
    "RDMA ports that can make queue pairs",
    "install the extra (pip install 'fabricmon[verbs]') and libibverbs.so.1 for agent.probe.backend: verbs, and give the "
    "agent /dev/infiniband/uverbs*; or set it to udp",
)

REMEDIES: tuple[tuple[str, str], ...] = (
    ("tree of another machine", "run this on the machine itself: files do not answer netlink, NVML or the kernel log"),
    ("not available /dev/kmsg", "run this on the machine itself: an archive or a tree of files has no kernel log"),
    ("ermission denied", "run the agent as root or with CAP_NET_ADMIN and CAP_SYSLOG; see AppArmor and SELinux"),
    ("not permitted", "run the agent as root or with CAP_NET_ADMIN and CAP_SYSLOG"),
    ("no answer within", "a read hangs in the driver: see the kernel log for the device, and agent.exclude"),
    ("Input/output error", "the device does not answer: see the kernel log for its firmware; reset the adapter or GPU"),
    ("no PMA", "the device has no such counters: no action"),
    ("Invalid argument", "the device or its firmware does not have this function: no action, or update the firmware"),
    ("not supported", "the device, driver or firmware does not have this function: no action, or update them"),
    ("No such file", "the kernel or driver does not have this file: no action, or update the driver"),
    ("dev/kmsg", "give the agent CAP_SYSLOG, and in a container the device /dev/kmsg"),
    ("NVML", "see `nvidia-smi` and Xid messages in the kernel log for this GPU"),
    ("expected", "the file has an unexpected value: report it with `fabricmon capture`"),
)
"""Words of an error -> what to do; the first row that fits."""

UNREPORTED = "no action: this device or driver does not report them; a newer driver or firmware may"
"""What to do where devices are there and none of their values is."""

ELSE = "see the agent's log; report it with `fabricmon capture`"


def remedy(error: str) -> str:
    return next((do for words, do in REMEDIES if words.lower() in error.lower()), ELSE)
