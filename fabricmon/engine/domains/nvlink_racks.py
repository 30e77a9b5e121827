"""Racks that no map states, by the NVLink domain that the GPUs of their hosts report. Pure.

What is assumed, and why: docs/methods.md#racks-of-an-nvlink-domain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping

from fabricmon.fleet.table import Table
from fabricmon.model import ComponentId


class NvlinkRacks:
    """Keeps what the rows of the GPU table show until these change."""

    def __init__(self) -> None:
        self._changes, self._places = -1, dict[str, tuple[str, str]]()

    def besides(self, gpus: Table, stated: Mapping[str, str]) -> dict[str, str]:
        """Host -> rack: as stated, and of hosts of NVLink domains of which no rack is."""
        if self._changes != gpus.changes:
            self._changes, self._places = gpus.changes, nvlink_places(zip(gpus.ids, gpus.labels, strict=True))
        return {**stated, **racks(self._places, stated)}


def nvlink_places(gpus: Iterable[tuple[ComponentId, Mapping[str, str]]]) -> dict[str, tuple[str, str]]:
    """Host -> NVLink cluster and serial number of its chassis ("" unknown), as its GPUs report them. A GPU that reports
    no cluster, as one that is not registered yet, shows nothing; a host whose GPUs contradict each other is in none."""
    clusters, chassis = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for component, labels in gpus:
        if component.node and (cluster := labels.get("cluster")):
            clusters[component.node].add(cluster)
            chassis[component.node].update(filter(None, (labels.get("chassis"),)))
    return {
        host: (next(iter(found)), next(iter(chassis[host]), ""))
        for host, found in clusters.items() if len(found) == 1 and len(chassis[host]) <= 1
    }  # fmt: skip


def racks(places: Mapping[str, tuple[str, str]], stated: Container[str]) -> dict[str, str]:
    """Host -> rack, of the hosts of domains of several hosts, none of which is `stated`. A domain of several chassis is
    several racks that are joined: there a host of an unknown chassis is in none."""
    hosts_of = defaultdict[str, list[str]](list)
    for host, (cluster, _) in places.items():
        hosts_of[cluster].append(host)
    found: dict[str, str] = {}
    for cluster, hosts in hosts_of.items():
        if len(hosts) < 2 or any(host in stated for host in hosts):
            continue
        name, several = f"NVLink domain {cluster}", len({places[host][1] for host in hosts} - {""}) > 1
        for host in hosts:
            chassis = places[host][1]
            if chassis or not several:
                found[host] = f"{name}, chassis {chassis}" if several else name
    return found
