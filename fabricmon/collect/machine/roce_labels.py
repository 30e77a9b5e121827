"""RDMA protocol and RoCE version of a port.

The GID table has an entry for each address and type. "IB/RoCE v1" beside "RoCE v2" is usual; a port with only the
former cannot send over routers, and its packets have no DSCP: congestion control does not work as configured.
"""

from __future__ import annotations

import errno

from fabricmon.collect.machine.files import text
from fabricmon.collect.machine.rdma_device import CLASS
from fabricmon.host.protocol import Host, HostError

_MOST_GIDS = 64  # entries read of up to 1024; the first are those of the interface
_DEFAULT_MODE = "/sys/kernel/config/rdma_cm/{device}/ports/{port}/default_roce_mode"
_PROTOCOLS = {"iw": "iwarp", "roce": "roce", "ib": "infiniband"}


def labels(host: Host, device: str, port: int) -> dict[str, str]:
    """`rdma_protocol` ("roce", "iwarp", "infiniband") and, for RoCE, `roce_version` ("v1", "v2"), where known.

    "v1" where the port has no entry of version 2, or the connection manager is set to version 1.
    """
    protocol = _protocol(host, device)
    if not protocol:
        return {}
    found = {"rdma_protocol": protocol}
    if protocol == "roce" and (version := _version(host, device, port)):
        found["roce_version"] = version
    return found


def _protocol(host: Host, device: str) -> str:
    try:
        known = {d.name: d.protocol for d in host.rdma_devices()}
    except HostError:
        known = {}
    if known.get(device) in _PROTOCOLS:
        return _PROTOCOLS[known[device]]
    if text(host, f"{CLASS}/{device}/node_type").endswith("RNIC"):  # "4: RNIC"
        return "iwarp"
    return ""


def _version(host: Host, device: str, port: int) -> str:
    chosen = text(host, _DEFAULT_MODE.format(device=device, port=port))
    if chosen:
        return "v2" if "v2" in chosen else "v1"
    types = f"{CLASS}/{device}/ports/{port}/gid_attrs/types"
    try:
        entries = sorted((e for e in host.list(types) if e.isdecimal()), key=int)[:_MOST_GIDS]
    except HostError:
        return ""
    found = set()
    for entry in entries:
        try:
            found.add(host.read(f"{types}/{entry}", 64).decode("ascii", "replace").strip())
        except HostError as error:
            if error.errno != errno.EINVAL:  # EINVAL: an empty entry
                return ""
    if "RoCE v2" in found:
        return "v2"
    return "v1" if found else ""
