"""The fabrics of the Ethernet stories: which hosts, adapters, leaves and jobs there are before anything happens.

An RDMA port is a port of the host's RDMA device, one an adapter. A leg is a physical port with a cable of its own:
two to an RDMA port where it is a bond, else one. Hosts, ports and legs are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

PERIODS: dict[str, float] = {
    "state": 2.5, "ethernet": 5, "traffic": 5, "errors": 5, "roce": 5, "phy": 10, "optics": 60, "pcie": 10,
    "qos": 120, "inventory": 5, "bond": 5, "neighbours": 60,
}  # fmt: skip
"""Seconds between two reads of a collector, by the name that layout.py gives it."""


@dataclass(frozen=True)
class Cluster:
    """A fabric of hosts, leaves and spines.

    hosts      number of them
    ports      RDMA ports of a host
    drivers    of each host: mlx5, bnxt, irdma or efa; fewer than there are hosts repeat
    rates      Gb/s of a leg, of each host; fewer repeat
    leaf_of    (host, leg) -> name of its leaf
    spines     number of them, each reached from every leaf
    bonded     an RDMA port has two legs
    lldp       agents report the switch port that each leg is connected to
    job_sizes  hosts of each training job, taken from the first host on; the others stay idle
    seed       of everything random
    host_name  format of a host's name from its number, counted from 1
    made_for   Gb/s that all adapters are made for; 0: as fast as their link
    storage    RDMA ports that carry storage traffic in place of a job's
    periods    as PERIODS
    """

    hosts: int
    ports: int
    drivers: tuple[str, ...]
    rates: tuple[float, ...]
    leaf_of: Callable[[int, int], str]
    spines: int
    job_sizes: tuple[int, ...]
    seed: int
    bonded: bool = False
    lldp: bool = True
    host_name: str = "gpu-{:03d}"
    made_for: int = 0
    storage: frozenset[int] = frozenset()
    periods: dict[str, float] = field(default_factory=lambda: PERIODS)

    @property
    def legs_of_port(self) -> int:
        return 2 if self.bonded else 1

    @property
    def legs(self) -> int:
        """Legs of a host."""
        return self.ports * self.legs_of_port

    def driver(self, host: int) -> str:
        return self.drivers[host % len(self.drivers)]

    def rate(self, host: int) -> float:
        """Bytes per second of a leg of this host."""
        return self.rates[host % len(self.rates)] * 1e9 / 8

    def node(self, host: int) -> str:
        return self.host_name.format(host + 1)

    def rdma_devices(self, host: int) -> list[str]:
        """Names of the host's RDMA devices, one a port."""
        driver = self.driver(host)
        if driver == "efa":
            return [f"rdmap{16 + 3 * port}s27" for port in range(self.ports)]
        stem = {"bnxt": "bnxt_re", "irdma": "irdma", "mlx5": "mlx5_bond_" if self.bonded else "mlx5_"}[driver]
        return [f"{stem}{port}" for port in range(self.ports)]

    def netdevs(self) -> list[str]:
        """Names of a host's network interfaces, one a leg."""
        if self.bonded:
            return [f"ens{1 + leg // 2}f{leg % 2}np{leg % 2}" for leg in range(self.legs)]
        return [f"ens{leg + 10}np0" for leg in range(self.legs)]

    def leg_names(self, host: int) -> list[str]:
        """What a cable plan calls the host's legs."""
        return self.netdevs() if self.bonded else self.rdma_devices(host)


def _shares(hosts: int) -> tuple[int, ...]:
    """Three jobs on seven of eight hosts."""
    return (hosts // 2, hosts // 4, hosts // 8)


def _rack_leaf(hosts_of_rack: int) -> Callable[[int, int], str]:
    """One leaf a rack."""
    return lambda host, _leg: f"tor-{host // hosts_of_rack + 1:02d}"


def rail_optimised(seed: int, hosts: int = 64, jobs: tuple[int, ...] = ()) -> Cluster:
    """Hosts of eight 400 Gb/s mlx5 ports: in each unit of 32 hosts, one leaf a rail."""
    return Cluster(
        hosts, 8, ("mlx5",), (400,), lambda host, leg: f"su{host // 32}-leaf{leg + 1}", spines=4,
        job_sizes=jobs or _shares(hosts), seed=seed,
    )  # fmt: skip


def clos(
    seed: int,
    hosts: int = 96,
    jobs: tuple[int, ...] = (),
    lldp: bool = True,
    qos_period: float = PERIODS["qos"],
) -> Cluster:
    """Hosts of four 400 Gb/s Broadcom ports, 16 hosts to a leaf; `qos_period` in seconds."""
    return Cluster(
        hosts, 4, ("bnxt",), (400,), _rack_leaf(16), spines=6, job_sizes=jobs or _shares(hosts), seed=seed, lldp=lldp,
        periods=PERIODS | {"qos": qos_period},
    )  # fmt: skip


def dual_tor(seed: int) -> Cluster:
    """64 hosts of four bonds of two 200 Gb/s mlx5 ports, one leg to leaf a and one to leaf b."""
    return Cluster(
        64, 4, ("mlx5",), (200,), lambda host, leg: f"pod{host // 32}-nic{leg // 2}-tor{'ab'[leg % 2]}", spines=4,
        job_sizes=_shares(64), seed=seed, bonded=True,
    )  # fmt: skip


def elastic_fabric(seed: int) -> Cluster:
    """32 hosts of 32 EFA devices of 100 Gb/s: nothing is known of the switches."""
    return Cluster(
        32, 32, ("efa",), (100,), lambda _host, _leg: "aws", spines=1, job_sizes=(16, 12), seed=seed, lldp=False,
        host_name="ip-10-1-{:d}-7",
    )  # fmt: skip


def intel(seed: int) -> Cluster:
    """64 hosts of two 100 Gb/s Intel ports, 16 hosts to a leaf."""
    return Cluster(64, 2, ("irdma",), (100,), _rack_leaf(16), spines=4, job_sizes=_shares(64), seed=seed)


def leaf_pair(seed: int) -> Cluster:
    """32 hosts of four 200 Gb/s ports on two leaves in turn, and nothing names the leaves."""
    return Cluster(
        32, 4, ("mlx5",), (200,), lambda _host, leg: f"leaf-{leg % 2 + 1}", spines=2, job_sizes=_shares(32), seed=seed,
        lldp=False,
    )  # fmt: skip


def two_vendors(seed: int) -> Cluster:
    """96 hosts: mlx5 and Broadcom in halves, a third of each at 200 Gb/s, the others at 400 Gb/s."""
    return Cluster(
        96, 4, ("mlx5",) * 48 + ("bnxt",) * 48, (400,) * 32 + (200,) * 16, _rack_leaf(16), spines=6,
        job_sizes=(24, 24, 24), seed=seed,
    )  # fmt: skip


def slow_rack(seed: int) -> Cluster:
    """96 hosts with 400 Gb/s adapters: the leaf of the last 16 has 200 Gb/s ports."""
    return Cluster(
        96, 4, ("mlx5",), (400,) * 80 + (200,) * 16, _rack_leaf(16), spines=6, job_sizes=(40, 32, 16), seed=seed,
        made_for=400,
    )  # fmt: skip


def with_storage(seed: int) -> Cluster:
    """64 hosts: four rails of 400 Gb/s, and a fifth port to the storage leaf of each rack of 16."""

    def leaf_of(host: int, leg: int) -> str:
        return f"su{host // 32}-leaf{leg + 1}" if leg < 4 else f"stor-{host // 16 + 1}"

    return Cluster(
        64, 5, ("mlx5",), (400,), leaf_of, spines=4, job_sizes=_shares(64), seed=seed, storage=frozenset({4})
    )
