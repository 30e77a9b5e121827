"""RDMA devices: ports, network interfaces and labels of their rows.

The kernel answers from memory, without the firmware (docs/methods.md#device-identity).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence

from fabricmon.collect.machine import files, storage
from fabricmon.collect.machine.files import names, text
from fabricmon.collect.machine.rows import filled
from fabricmon.host.protocol import Host, HostError

CLASS = "/sys/class/infiniband"
_GPU_DRIVERS = ("nvidia", "amdgpu")
_MOST_PORTS = 64  # of one device; adapters have one or two


def devices(host: Host) -> list[str]:
    """RDMA devices to read, sorted: all but virtual functions."""
    found = files.names_if_there(host, CLASS)
    return [name for name in found if not is_virtual_function(host, f"{CLASS}/{name}/device")]


def every_port(host: Host) -> Iterator[tuple[str, int]]:
    """Device and number of every port; unreadable ones are left out."""
    for device in known_devices(host):
        with contextlib.suppress(HostError):
            yield from ((device, number) for number in ports(host, device))


def known_devices(host: Host) -> list[str]:
    """As `devices`; empty where they cannot be listed."""
    try:
        return devices(host)
    except HostError:
        return []


def is_virtual_function(host: Host, function: str) -> bool:
    """Whether a PCI function is a virtual one: only these have the link `physfn`."""
    return "physfn" in names(host, function)


def pci_address(host: Host, device: str) -> str:
    """ "0000:17:00.0"; "" for a device that is on no PCI bus."""
    return files.pci_address(host, f"{CLASS}/{device}/device")


def ports(host: Host, device: str) -> list[int]:
    """Port numbers of a device. HostError where the device has gone."""
    directory = f"{CLASS}/{device}/ports"
    try:
        found = host.list(directory)
    except HostError as error:
        if error.errno != errno.ENOENT:
            raise
        host.list(f"{CLASS}/{device}")  # a device without ports has no rows; one that has gone is an error
        return []
    return sorted(int(n) for n in found if n.isascii() and n.isdigit())[:_MOST_PORTS]


def netlink_index(host: Host, device: str) -> int:
    """RDMA netlink's number of a device; -1 where the kernel has no RDMA netlink, or not this device."""
    try:
        known = host.rdma_devices()
    except HostError:
        return -1
    return next((each.index for each in known if each.name == device), -1)


def row_name(device: str, port: int) -> str:
    return f"{device}/{port}"


def netdev_of(host: Host, device: str, port: int) -> str:
    """The network interface of a port: that of its first GID, for InfiniBand the IPoIB one; "" where there is none."""
    named = text(host, f"{CLASS}/{device}/ports/{port}/gid_attrs/ndevs/0")
    if named:
        return named
    parent = text(host, f"{CLASS}/{device}/parent")  # soft RoCE and soft iWARP
    if parent:
        return parent
    candidates = names(host, f"{CLASS}/{device}/device/net")
    if len(candidates) > 1:  # two ports of one function, or children of an IPoIB interface ("ib0.8001")
        mine = [c for c in candidates if files.number(host, f"/sys/class/net/{c}/dev_port") == port - 1]
        candidates = sorted(mine, key=lambda name: (len(name), name))
    return candidates[0] if candidates else ""


def driver_of(host: Host, device: str) -> str:
    """The driver of the PCI function ("mlx5_core"), "software" for soft RoCE and its like; "" where unknown."""
    driver = files.last_of(host, f"{CLASS}/{device}/device/driver")
    return driver or ("software" if text(host, f"{CLASS}/{device}/parent") else "")


def labels(host: Host, device: str, port: int) -> dict[str, str]:
    """The labels of a port's row; unknown ones are left out."""
    base, at = f"{CLASS}/{device}", f"{CLASS}/{device}/ports/{port}"
    link_layer = text(host, f"{at}/link_layer")
    netdev = netdev_of(host, device, port)
    driver = driver_of(host, device)
    port_guid = text(host, f"{at}/gids/0")[20:]  # the second half of the first GID
    return filled({
        "device": device,
        "port": str(port),
        "netdev": netdev,
        "link_layer": link_layer,
        "node_guid": text(host, f"{base}/node_guid"),
        "port_guid": port_guid if link_layer == "InfiniBand" and set(port_guid) - set("0:") else "",
        "sys_image_guid": text(host, f"{base}/sys_image_guid"),
        "firmware": text(host, f"{base}/fw_ver"),
        "board": text(host, f"{base}/board_id"),
        "hca_type": text(host, f"{base}/hca_type"),
        "pci": pci_address(host, device),
        "driver": driver,
        "role": role_of(host, device, port, netdev, driver, link_layer),
    })  # fmt: skip


def role_of(host: Host, device: str, port: int, netdev: str, driver: str, link_layer: str) -> str:
    """The purpose of the port, "unknown" where the host has no cheap evidence (docs/methods.md#port-roles).

    management  has the default route, or is on the NUMA node of no GPU
    compute     an EFA device, or one that shares a PCI switch with a GPU; InfiniBand on the NUMA node of a GPU
    storage     used by a file system of this node; Ethernet on the NUMA node of a GPU
    """
    function = f"{CLASS}/{device}/device"
    if netdev and netdev in default_route_netdevs(host):
        return "management"
    gpus = known_gpu_functions(host)
    if driver == "efa" or beside_gpu(host, function, gpus):
        return "compute"
    if storage.hints(host).name(netdev, device, port):
        return "storage"
    numa = _numa(host, function)
    if not gpus or numa is None or driver == "software":
        return "unknown"
    if numa not in {_numa(host, gpu) for gpu in gpus}:
        return "management"
    return "compute" if link_layer == "InfiniBand" else "storage"


def _numa(host: Host, function: str) -> int | None:
    """The NUMA node of a PCI function; None where unknown, as in most virtual machines (-1 in the file)."""
    return files.number(host, f"{function}/numa_node")


def default_route_netdevs(host: Host) -> set[str]:
    """Interfaces of IPv4 default routes: lines of /proc/net/route with destination and mask 0."""
    try:
        lines = host.read("/proc/net/route", 262144).decode("ascii", "replace").splitlines()[1:]
    except HostError:
        return set()
    fields = (line.split() for line in lines)
    return {f[0] for f in fields if len(f) > 7 and f[1] == "00000000" and f[7] == "00000000"}


def gpu_functions(host: Host) -> list[str]:
    """Directories of the PCI functions bound to a GPU driver, sorted by address for each driver. HostError where they
    cannot be listed; a driver that is not loaded has none."""
    found = []
    for driver in _GPU_DRIVERS:
        directory = f"/sys/bus/pci/drivers/{driver}"
        found += [f"{directory}/{name}" for name in files.names_if_there(host, directory) if name.count(":") == 2]
    return found


def known_gpu_functions(host: Host) -> list[str]:
    """As `gpu_functions`; empty where they cannot be listed."""
    try:
        return gpu_functions(host)
    except HostError:
        return []


def beside_gpu(host: Host, function: str, gpus: Sequence[str]) -> bool:
    """Whether a GPU is below the same root port, so that the two share a PCI switch."""
    mine = _root_port(host, function)
    return bool(mine) and any(_root_port(host, gpu) == mine for gpu in gpus)


def _root_port(host: Host, function: str) -> str:
    """ "/sys/devices/pci0000:16/0000:16:01.0" of a function below a bridge; "" for one on the root complex."""
    try:
        parts = host.realpath(function).split("/")
    except HostError:
        return ""
    if len(parts) < 6 or not parts[3].startswith("pci"):
        return ""
    return "/".join(parts[:5])
