"""The technologies of fabric components, and what decides whether one was checked (docs/methods.md#checked-components).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.catalogue.unique import by_name
from fabricmon.forms.readable import count
from fabricmon.model import Checked


class Technology(NamedTuple):
    """A sort of component that rules evaluate.

    one      what one is called; more of them end in "s"
    sources  Counter.source of the error counters of which one at least must be read; empty: none has to
    """

    name: str
    one: str
    sources: frozenset[str] = frozenset()


_RDMA = frozenset({"counters", "hw_counters", "ethtool", "ethtool netlink"})

TECHNOLOGIES: Mapping[str, Technology] = by_name((
    # the counters of an IPoIB interface are none of its port's
    Technology("infiniband", "InfiniBand port", frozenset({"counters", "hw_counters"})),
    Technology("roce", "RoCE port", _RDMA),
    Technology("efa", "EFA port", _RDMA),
    Technology("rdma", "RDMA port", _RDMA),
    Technology("ethernet", "Ethernet port", _RDMA | {"netdev"}),
    Technology("nvlink", "GPU", frozenset({"sum of links"})),
    Technology("pcie", "PCIe link"),
), "TECHNOLOGIES (fabricmon/catalogue/technology.py)")  # fmt: skip
"""In the order in which they are named."""

NUMBER: Mapping[str, int] = {name: at for at, name in enumerate(TECHNOLOGIES)}
NONE = -1

PARAVIRTUAL = frozenset({"virtio_net", "vmxnet3", "hv_netvsc", "xen-netfront", "xen_netfront", "ena", "gve", "netvsc"})
"""Drivers of interfaces that a hypervisor gives a machine: they are no ends of a physical link."""


def of_port(labels: Mapping[str, str]) -> int:
    """The number of a PORT row's technology; NONE for a row that is not checked as a link of this node's fabric.

    These are ports that a sweep sees elsewhere, ports of an idle plane, and interfaces without an RDMA device that are
    virtual or carry the node's default route.
    """
    if "swept" in labels or labels.get("role") == "idle":
        return NONE
    if "device" in labels:
        if labels.get("driver") == "efa":
            return NUMBER["efa"]
        return NUMBER[{"InfiniBand": "infiniband", "Ethernet": "roce"}.get(labels.get("link_layer", ""), "rdma")]
    physical = labels.get("pci") and labels.get("driver") not in PARAVIRTUAL
    return NUMBER["ethernet"] if physical and labels.get("role") != "management" else NONE


def link_layer(labels: Mapping[str, str]) -> str:
    """What words about a PORT row must fit: "infiniband", "ethernet" (RoCE, too), "efa"; "" another one, or unknown."""
    if labels.get("driver") == "efa":
        return "efa"
    if "device" not in labels and "link_layer" not in labels:
        return "ethernet"  # a network interface without an RDMA device
    return {"InfiniBand": "infiniband", "Ethernet": "ethernet"}.get(labels.get("link_layer", ""), "")


def of_pcie(labels: Mapping[str, str]) -> int:
    """The same of a PCIE row: links of GPUs, NVSwitches and accelerators, of adapters with RDMA or without the driver
    that would give it, and of functions of which not even the class can be read."""
    of_fabric = labels.get("class") in ("gpu", "nvswitch", "accelerator", "unreadable") or "rdma" in labels
    of_fabric = of_fabric or unbound(labels)
    return NUMBER["pcie"] if of_fabric else NONE


def unbound(labels: Mapping[str, str]) -> bool:
    """Whether the device of a PCIE row is one that no driver serves: what it does cannot be known."""
    return labels.get("driver") == "none"


def words(counts: Iterable[Checked], checked: bool = True) -> str:
    """ "8 InfiniBand ports, 8 GPUs with 144 NVLinks, 16 PCIe links": what was checked, or what was not; "" for none."""
    found = []
    for each in counts:
        number = each.checked if checked else each.unknown
        links = f" with {count(each.links, 'NVLink')}" if checked and each.technology == "nvlink" and each.links else ""
        if number:
            found.append(count(number, TECHNOLOGIES[each.technology].one) + links)
    return ", ".join(found)


def gap(unchecked: Mapping[str, int], nodes: int, nothing: int) -> str:
    """What of a fleet is unknown although its nodes report; "" for nothing.

    unchecked  technology -> components that were not checked, on `nodes` nodes
    nothing   nodes without fabric hardware that are not expected to be so
    """
    found = []
    if nodes:
        which = words((Checked(name, 0, n) for name, n in unchecked.items() if name in TECHNOLOGIES), checked=False)
        found.append(f"not checked: {which} on {count(nodes, 'node')}")
    if nothing:
        found.append(f"nothing to check on {count(nothing, 'node')}")
    return "; ".join(found)
