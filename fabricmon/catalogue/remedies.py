"""What to do where a collector reads nothing, or cannot read something: the tables of `fabricmon doctor`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_ADAPTERS = (
    "nothing on a node without RDMA; else load the driver of the adapters (mlx5_ib, bnxt_re, irdma, ionic_rdma, efa); "
    "in a container mount the host's /sys"
)
_INTERFACES = (
    "nothing on a node without such interfaces; else see that they are in the agent's network namespace (hostNetwork)"
)
_GPUS = (
    "nothing on a node without NVIDIA GPUs; else load the driver; in a container mount libnvidia-ml.so.1 and "
    "/dev/nvidia*"
)
_SYS = "mount the host's /sys; a virtual machine may have none"


class Sought(NamedTuple):
    """What a collector looks for, and what to do where there should be some and it finds none."""

    what: str
    do: str


_PORTS = Sought("RDMA devices in /sys/class/infiniband", _ADAPTERS)
SOUGHT: Mapping[str, Sought] = {
    "infiniband": _PORTS, "infiniband_errors": _PORTS, "infiniband_rare": _PORTS, "infiniband_state": _PORTS,
    "ethernet": Sought("network interfaces of adapters", _INTERFACES),
    "bond": Sought("bonds in /sys/class/net/bonding_masters", "nothing, unless adapters are bonded"),
    "roce": Sought("interfaces of RoCE adapters with ethtool statistics", _INTERFACES),
    "ethernet_phy": Sought("interfaces with FEC and physical layer statistics", _INTERFACES),
    "qos": Sought("interfaces with priorities and flow control", _INTERFACES),
    "optics": Sought("modules of adapters with an EEPROM", "nothing with copper cables; else CAP_NET_ADMIN"),
    "neighbours": Sought("LLDP neighbours from lldpd", "run lldpd, and let the agent use its socket"),
    "gpu": Sought("GPUs through libnvidia-ml.so.1", _GPUS),
    "nvlink": Sought(
        "GPUs with NVLinks through libnvidia-ml.so.1",
        "nothing where GPUs have none, as single ones in a virtual machine; else see `gpu`",
    ),
    "pcie": Sought("adapters, GPUs and NVSwitches in /sys/bus/pci/devices", _SYS),
    "fabric": Sought("the InfiniBand subnet, by /dev/infiniband", "on one or two nodes set collect.fabric.enabled"),
    "kernel_log": Sought("new messages in /dev/kmsg", "CAP_SYSLOG, and /dev/kmsg in a container"),
    "inventory": Sought("RDMA devices, GPUs and the machine's name in /sys", "mount the host's /sys"),
}  # fmt: skip
"""Collector -> what it looks for."""

REMEDIES: tuple[tuple[str, str], ...] = (
    ("tree of another machine", "run this on the machine itself: files do not answer netlink, NVML or the kernel log"),
    ("ermission denied", "run the agent as root or with CAP_NET_ADMIN and CAP_SYSLOG; see AppArmor and SELinux"),
    ("not permitted", "run the agent as root or with CAP_NET_ADMIN and CAP_SYSLOG"),
    ("no answer within", "a read hangs in the driver: see the kernel log for the device, and agent.exclude"),
    ("Input/output error", "the device does not answer: see the kernel log for its firmware; reset the adapter or GPU"),
    ("no PMA", "the device has no such counters: nothing to do"),
    ("Invalid argument", "the device or its firmware has not this function: nothing to do, or update the firmware"),
    ("not supported", "the device, driver or firmware has not this function: nothing to do, or update them"),
    ("No such file", "the kernel or driver has not this file: nothing to do, or update the driver"),
    ("dev/kmsg", "give the container the device /dev/kmsg and CAP_SYSLOG"),
    ("NVML", "see `nvidia-smi` and Xid messages in the kernel log for this GPU"),
    ("expected", "the value is none that this file should have: report it with `fabricmon capture`"),
)
"""Words of an error -> what to do; the first row that fits."""

ELSE = "see the agent's log; report it with `fabricmon capture`"


def remedy(error: str) -> str:
    return next((do for words, do in REMEDIES if words.lower() in error.lower()), ELSE)
