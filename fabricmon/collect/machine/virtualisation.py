"""Whether this is a virtual machine that may have been given a part of a GPU board (docs/methods.md#machine-types)."""

from __future__ import annotations

from fabricmon.collect.machine import pci
from fabricmon.collect.machine.files import names
from fabricmon.host.protocol import Host, HostError

_CPUS = "/proc/cpuinfo"
_FIRST_CPU = 8192  # bytes that hold the first processor's flags
_FUNCTIONS = "/sys/bus/pci/devices"


def shares_boards(host: Host) -> bool:
    """A virtual machine without NVSwitches of its own: its host gives it some or all GPUs of a board.

    False where it cannot be known: files of another machine, Arm processors.
    """
    try:
        flags = host.read(_CPUS, _FIRST_CPU).split(b"\n\n", 1)[0].split()
        if b"hypervisor" not in flags:
            return False
        return all(pci.kind_of(host, f"{_FUNCTIONS}/{name}") != "nvswitch" for name in names(host, _FUNCTIONS))
    except HostError:
        return False
