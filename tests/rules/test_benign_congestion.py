"""A busy fabric without a fault: ECN marks of 12 %, notifications, short pauses, idle hosts whose PCIe links save
power.

`python -m tests.rules.test_benign_congestion HOSTS POLLS` plays it at another size, with eight ports a host.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.rules.bench_of_pressure import RATE, Pressed

IDLE_SHARE = 0.3  # of the hosts
MARKED = 0.12  # mean share of marked packets; of one port and window, Gamma distributed with shape 2
PAUSED = 0.01  # mean share of time in pause, Gamma distributed with shape 1


def benign(hosts: int, nics: int, polls: int, seed: int = 1) -> Pressed:
    """Jobs of random loads and hosts; each window every port draws its load, marks, notifications and pauses anew."""
    rng = np.random.default_rng(seed)
    ports = Pressed(hosts=hosts, nics=nics)
    idle = rng.random(hosts) < IDLE_SHARE
    load = rng.uniform(0.2, 0.75, hosts)
    for n in range(polls):
        for (host, nic), rates in ports.rates.items():
            ports.speed[host, nic] = 0.25 if idle[host] else 1.0
            share = 0.0 if idle[host] else float(np.clip(load[host] * rng.normal(1.0, 0.08), 0.05, 0.85))
            packets = share * RATE / 4096
            rates |= {
                "phy_rx": share * RATE, "phy_tx": share * RATE, "rdma_rx_packets": packets,
                "ecn_marked_rx": packets * min(1.0, rng.gamma(2.0, MARKED / 2)),
                "cnp_handled": share * rng.gamma(2.0, 1000.0),
                "pfc_rx_pause_prio3": share * min(0.2, rng.exponential(PAUSED)),
                "pfc_tx_pause_prio3": share * min(0.01, rng.exponential(PAUSED / 10)),
            }  # fmt: skip
        if n % 60 == 59:  # a job ends, another begins
            changed = rng.random(hosts) < 0.1
            idle[changed] = rng.random(int(changed.sum())) < IDLE_SHARE
            load[changed] = rng.uniform(0.2, 0.75, int(changed.sum()))
        ports.poll()
    return ports


def test_benign_congestion_and_idle_pcie_links_are_no_warning() -> None:
    ports = benign(hosts=24, nics=4, polls=240)
    assert [i for i in ports.told if i.severity.rank > 0] == []


if __name__ == "__main__":
    played = benign(hosts=int(sys.argv[1]), nics=8, polls=int(sys.argv[2]))
    found = [(i.kind, i.component, str(i.severity)) for i in played.told if i.severity.rank > 0]
    print(f"{int(sys.argv[1]) * 8} ports, {int(sys.argv[2])} windows of 10 s: {len(found)} warnings {found[:5]}")
