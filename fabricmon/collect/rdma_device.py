"""What an RDMA device is: its ports, netdevs and the labels of its rows.

Nothing here asks the firmware: what it opens the kernel answers from memory (counters-ib.md 5.1, node-inventory.md 2).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from fabricmon.collect import storage
from fabricmon.host.protocol import Host, HostError

CLASS = "/sys/class/infiniband"
_GPU_DRIVERS = ("nvidia", "amdgpu")
_MOST_PORTS = 64  # of one device; adapters have one or two


def devices(host: Host) -> list[str]:
    """RDMA devices to read, sorted: all that are no virtual function."""
    try:
        names = host.list(CLASS)
    except HostError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise
    return [name for name in names if not is_virtual_function(host, f"{CLASS}/{name}/device")]


def is_virtual_function(host: Host, function: str) -> bool:
    """A PCI function directory has the link `physfn` exactly where it is a virtual function."""
    try:
        return "physfn" in host.list(function)
    except HostError:
        return False


def pci_address(host: Host, device: str) -> str:
    """ "0000:17:00.0"; "" for a device that is on no PCI bus."""
    return _pci_of(host, f"{CLASS}/{device}/device")


def ports(host: Host, device: str) -> list[int]:
    """Port numbers of a device. HostError where the device has gone."""
    directory = f"{CLASS}/{device}/ports"
    try:
        names = host.list(directory)
    except HostError as error:
        if error.errno != errno.ENOENT:
            raise
        host.list(f"{CLASS}/{device}")  # a device without ports is one without rows; one that is gone is an error
        return []
    return sorted(int(n) for n in names if n.isascii() and n.isdigit())[:_MOST_PORTS]


def row_name(device: str, port: int) -> str:
    return f"{device}/{port}"


def text(host: Host, path: str) -> str:
    """The first line of a file; "" where there is none: labels are what is known, no more."""
    try:
        raw = host.read(path, 256)
    except HostError:
        return ""
    return raw.decode("utf-8", "replace").strip().split("\n", 1)[0].strip()


def netdev_of(host: Host, device: str, port: int) -> str:
    """The network interface of a port: that of its first GID, for InfiniBand the IPoIB one; "" where there is none."""
    named = text(host, f"{CLASS}/{device}/ports/{port}/gid_attrs/ndevs/0")
    if named:
        return named
    parent = text(host, f"{CLASS}/{device}/parent")  # soft RoCE and soft iWARP
    if parent:
        return parent
    try:
        candidates = host.list(f"{CLASS}/{device}/device/net")
    except HostError:
        return ""
    if len(candidates) > 1:  # two ports of one function, or children of an IPoIB interface ("ib0.8001")
        mine = [c for c in candidates if _dev_port(host, c) == port - 1]
        candidates = sorted(mine, key=lambda name: (len(name), name))
    return candidates[0] if candidates else ""


def _dev_port(host: Host, netdev: str) -> int:
    found = text(host, f"/sys/class/net/{netdev}/dev_port")
    return int(found) if found.isascii() and found.isdigit() else -1


def driver_of(host: Host, device: str) -> str:
    """The driver of the PCI function ("mlx5_core"), "software" for soft RoCE and its like; "" where unknown."""
    try:
        return host.realpath(f"{CLASS}/{device}/device/driver").rsplit("/", 1)[-1]
    except HostError:
        return "software" if text(host, f"{CLASS}/{device}/parent") else ""


def labels(host: Host, device: str, port: int) -> dict[str, str]:
    """The static facts of a port (model.Component). A fact that is not known is left out."""
    base, at = f"{CLASS}/{device}", f"{CLASS}/{device}/ports/{port}"
    link_layer = text(host, f"{at}/link_layer")
    netdev = netdev_of(host, device, port)
    driver = driver_of(host, device)
    pci = pci_address(host, device)
    found = {
        "device": device,
        "port": str(port),
        "netdev": netdev,
        "link_layer": link_layer,
        "node_guid": text(host, f"{base}/node_guid"),
        "port_guid": _port_guid(host, at) if link_layer == "InfiniBand" else "",
        "sys_image_guid": text(host, f"{base}/sys_image_guid"),
        "firmware": text(host, f"{base}/fw_ver"),
        "board": text(host, f"{base}/board_id"),
        "hca_type": text(host, f"{base}/hca_type"),
        "pci": pci,
        "driver": driver,
        "role": role_of(host, device, port, netdev, driver, link_layer),
    }
    return {name: value for name, value in found.items() if value}


def _port_guid(host: Host, at: str) -> str:
    """The second half of the port's first GID, as sysfs writes a GUID."""
    groups = text(host, f"{at}/gids/0").split(":")
    if len(groups) != 8 or set("".join(groups[4:])) <= {"0"}:
        return ""
    return ":".join(groups[4:])


def role_of(host: Host, device: str, port: int, netdev: str, driver: str, link_layer: str) -> str:
    """What the port is for, as far as the host tells cheaply; "unknown" otherwise (node-inventory.md 4).

    management  carries the default route, or hangs on a processor that has no GPU
    compute     an EFA device, or one that shares a PCI switch with a GPU; InfiniBand beside a GPU's processor
    storage     a file system on this node says that it uses the port; Ethernet beside a GPU's processor
    """
    function = f"{CLASS}/{device}/device"
    if netdev and netdev in default_route_netdevs(host):
        return "management"
    gpus = gpu_functions(host)
    if driver == "efa" or beside_gpu(host, function, gpus):
        return "compute"
    if storage.hints(host).name(netdev, device, port):
        return "storage"
    numa = _numa(host, function)
    if not gpus or numa < 0 or driver == "software":
        return "unknown"
    if numa not in {_numa(host, gpu) for gpu in gpus}:
        return "management"
    return "compute" if link_layer == "InfiniBand" else "storage"


def _numa(host: Host, function: str) -> int:
    """The processor a PCI function hangs on; -1 where that is not known, as in most virtual machines."""
    found = text(host, f"{function}/numa_node")
    return int(found) if found.isascii() and found.isdigit() else -1


def default_route_netdevs(host: Host) -> set[str]:
    """Interfaces of IPv4 default routes: lines of /proc/net/route with destination and mask 0."""
    try:
        lines = host.read("/proc/net/route", 262144).decode("ascii", "replace").splitlines()[1:]
    except HostError:
        return set()
    fields = (line.split() for line in lines)
    return {f[0] for f in fields if len(f) > 7 and f[1] == "00000000" and f[7] == "00000000"}


def gpu_functions(host: Host) -> list[str]:
    """Directories of the PCI functions that a GPU driver has, sorted by address for each driver."""
    found = []
    for driver in _GPU_DRIVERS:
        directory = f"/sys/bus/pci/drivers/{driver}"
        try:
            names = host.list(directory)
        except HostError:
            continue
        found += [f"{directory}/{name}" for name in names if name.count(":") == 2]
    return found


def beside_gpu(host: Host, function: str, gpus: Sequence[str]) -> bool:
    """Some GPU hangs below the same port of the root complex, so that a PCI switch joins the two."""
    mine = _root_port(host, function)
    return bool(mine) and any(_root_port(host, gpu) == mine for gpu in gpus)


def _root_port(host: Host, function: str) -> str:
    """ "/sys/devices/pci0000:16/0000:16:01.0" of a function below a bridge; "" where it hangs on the root complex."""
    try:
        parts = host.realpath(function).split("/")
    except HostError:
        return ""
    if len(parts) < 6 or not parts[3].startswith("pci"):
        return ""
    return "/".join(parts[:5])


def _pci_of(host: Host, function: str) -> str:
    try:
        last = host.realpath(function).rsplit("/", 1)[-1]
    except HostError:
        return ""
    return last if last.count(":") == 2 and "." in last else ""
