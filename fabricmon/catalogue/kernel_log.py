"""Messages of the kernel log, counted by concept: on the port or GPU they name, else on the node. Pure.

A count begins at 0 when the agent starts and is unknown where the log cannot be read. Where a driver or the kernel
leaves out repetitions it is a lower bound: the log is for causes, the device's own counters are for rates
(docs/methods.md#kernel-log). They stay on the node's /metrics; the server receives events, and the counts of broken
adapters, which a rule uses.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, YES_NO, Category, Counter, Growth
from fabricmon.catalogue.kernel_patterns import PATTERNS
from fabricmon.catalogue.xid import CLASSES
from fabricmon.model import Kind

_BOUND = "; a lower bound, repetitions are left out of the log"

CONCEPTS: dict[str, str] = {
    "link_downs": "Messages that a link went down",
    "firmware_faults": "Messages that the device's firmware failed or stopped answering",
    "command_errors": "Messages that the device refused a command",
    "module_errors": "Messages that the cable or module cannot be used",
    "module_changes": "Messages that a cable or module was plugged, unplugged or disabled",
    "temperature_warnings": "Messages that the device is too hot",
    "power_warnings": "Messages that the PCIe slot does not give the power the device needs",
    "queue_timeouts": "Messages that a queue of the device stood still",
    "recoveries": "Messages that the device tried to recover from an error",
    "pcie_correctable_errors": "Messages of corrected PCIe errors",
    "pcie_nonfatal_errors": "Messages of PCIe errors that were not corrected and not fatal",
    "pcie_fatal_errors": "Messages of fatal PCIe errors, contained ports and failed recoveries",
    "pcie_limits": "Messages that the PCIe link gives less than the device is capable of",
}
"""What is counted of ports, and on the node for devices that are neither port nor GPU. Column "log_<concept>"."""

_XID = {
    "bus": "Xid messages: the GPU has fallen off the bus",
    "nvlink": "Xid messages about NVLink",
    "memory": "Xid messages about memory",
    "firmware": "Xid messages about micro-controllers of the GPU",
    "pcie": "Xid messages about PCIe",
    "application": "Xid messages that an application caused",
    "recovery": "Xid messages that the action the GPU needs has changed",
    "other": "Xid messages about other things",
    "earlier": "Xid messages of this boot from before the agent started",
}
_OF_GPU = ("pcie_correctable_errors", "pcie_nonfatal_errors", "pcie_fatal_errors", "pcie_limits")
_OF_NODE = {
    "xid": "Xid messages of GPUs that have no row of their own here",
    "xid_earlier": "Xid messages of this boot from before the agent started, of GPUs that have no row of their own here",
    "peermem_errors": "Messages of nvidia-peermem about an invalid context: harmless by NVIDIA, fixed in driver 560",
    "sxid_fatal": "Fatal SXid messages of NVSwitches",
    "sxid_nonfatal": "SXid messages of NVSwitches that were not fatal",
    "sxid_correctable": "SXid messages of NVSwitches about corrected errors",
}

_RULED = ("firmware_faults", "pcie_fatal_errors")
"""Concepts of ports that a rule uses (nic_fault); these columns are sent."""

_SOURCES = {Kind.PORT: "kernel_log", Kind.GPU: "kernel_log_gpu", Kind.NODE: "kernel_log_node"}


def column(kind: Kind, concept: str) -> str:
    """The column that counts a concept on rows of a kind."""
    return f"log_{concept}" if kind is Kind.PORT else f"{kind}_log_{concept}"


def _count(kind: Kind, concept: str, help: str) -> Counter:
    rows = [p for p in PATTERNS if p.concept == concept]
    name, ruled = column(kind, concept), kind is Kind.PORT and concept in _RULED
    return Counter(
        name=name,
        kind=kind,
        unit="",
        bits=64,
        growth=Growth.WRAPS,
        category=Category.MANAGEMENT if concept in ("recoveries", "module_changes") else Category.ERROR,
        source=_SOURCES[kind],
        keys=tuple(p.name for p in rows) or (concept,),
        help=help + (_BOUND if any(p.limited for p in rows) else ""),
        wire=ruled,
        window=ruled,
        family=f"log_{concept}" if kind is not Kind.PORT else "",
    )


_XID_GROUPS = (*CLASSES, "consequence", "earlier")


def _xid(group: str) -> Counter:
    help = _XID.get(group, "Xid messages that follow from another one on the same GPU or its NVLink peers")
    return Counter(
        column(Kind.GPU, f"xid_{group}"), Kind.GPU, "", 64, Growth.WRAPS, Category.ERROR, _SOURCES[Kind.GPU],
        (f"xid {group}",), help + _BOUND, wire=False, family=f"log_xid_{group}",
    )  # fmt: skip


def _node(name: str, growth: Growth, help: str, bits: int = 0, states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(f"node_{name}", Kind.NODE, "", bits, growth, Category.MANAGEMENT, _SOURCES[Kind.NODE], (name,), help,
                   wire=False, family=name, states=states)  # fmt: skip


READABLE, LOST = "node_kernel_log_readable", "node_kernel_log_lost"

COUNTERS: tuple[Counter, ...] = (
    *(_count(Kind.PORT, concept, help) for concept, help in CONCEPTS.items()),
    *(_xid(group) for group in _XID_GROUPS),
    _count(Kind.GPU, "nvlink_training_failures", "Messages that an NVLink did not train"),
    _count(Kind.GPU, "init_failures", "Messages that the driver could not start the GPU"),
    *(_count(Kind.GPU, concept, CONCEPTS[concept]) for concept in _OF_GPU),
    *(_count(Kind.NODE, concept, f"{help}, of devices that are neither port nor GPU here")
      for concept, help in CONCEPTS.items()),
    _count(Kind.NODE, "nvlink_training_failures", "Messages that an NVLink did not train, of a GPU that is not named"),
    _count(Kind.NODE, "init_failures", "Messages that the driver could not start a GPU that has no row of its own here"),
    *(_count(Kind.NODE, concept, help) for concept, help in _OF_NODE.items()),
    _node("kernel_log_readable", Growth.STATE, "1 when the agent may read the kernel log, 0 when not", states=YES_NO),
    _node("kernel_log_lost", Growth.WRAPS, "Times messages were overwritten before they were read", 64),
)

COLUMNS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(c.name for c in COUNTERS if c.kind is kind and c.name not in (READABLE, LOST)) for kind in _SOURCES
}
"""The counting columns of each kind of row."""
