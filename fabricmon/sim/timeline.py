"""The demo's timeline: one flapping cable, one degrading link, one dead leaf, one benign reboot. Pure.

Times are written for people who watch it in real time and divided by `speed` for a quick run. A down of 3 s may then
be shorter than the second between two looks at a port's state: its link_downed counter still tells, as on hardware.
"""

from __future__ import annotations

import random

from fabricmon.sim import faults_hosts, faults_links, faults_switches
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import Fault

DEGRADE_AT, DEGRADE_RAMP = 15.0, 60.0
FLAP_AT, FLAP_DOWNS, FLAP_DOWN_FOR = 20.0, (0.0, 45.0, 80.0), 3.0
REBOOT_AT, REBOOT_LASTS = 60.0, 90.0
LEAF_AT, LEAF_LASTS = 130.0, 90.0
TAIL = 12.0
"""Real seconds after the last step in which what must not come would come: twice a link's hold."""
PATIENCE = 30.0
"""Real seconds more for what is still missing: error counting begins when a link has been up and settled for 30 s."""
NODES_LEAST, LEAVES_LEAST, PORTS_LEAST = 8, 6, 3
"""Fewer hosts make leaves of two links, which no one could tell from two bad cables."""


def timeline(layout: Layout, seed: int, speed: float = 1.0, spare: int = 0) -> tuple[Fault, ...]:
    """The four faults at places chosen by `seed`, no two of them on one host or leaf; `spare` hosts are left alone.

    ValueError for a fabric too small to tell them apart.
    """
    hosts = len(layout.hosts)
    compute = [[int(row) for row in layout.host_rows(host) if not layout.storage[row]] for host in range(hosts)]
    if hosts < NODES_LEAST or len(layout.leaves) < LEAVES_LEAST or len(compute[0]) < PORTS_LEAST:
        raise ValueError(
            f"the timeline needs {NODES_LEAST} nodes of {PORTS_LEAST} ports on {LEAVES_LEAST} leaves, "
            f"got {hosts} of {len(compute[0])} on {len(layout.leaves)}"
        )
    choose = random.Random(seed)
    flapping, degrading, rebooting = choose.sample(range(spare, hosts), 3)
    flap, degrade = choose.choice(compute[flapping]), choose.choice(compute[degrading])
    # the reboot's links are not below the leaf that dies
    taken = {int(layout.leaf[flap]), int(layout.leaf[degrade]), *(int(layout.leaf[row]) for row in compute[rebooting])}
    leaf = layout.leaf_name(choose.choice([leaf for leaf in layout.leaves if leaf not in taken]))
    downs = tuple(after / speed for after in FLAP_DOWNS)
    return (
        faults_links.degrading_link(layout, layout.port_name(degrade), DEGRADE_AT / speed, DEGRADE_RAMP / speed),
        faults_links.link_flap(layout, layout.port_name(flap), FLAP_AT / speed, downs, FLAP_DOWN_FOR / speed),
        faults_hosts.node_reboot(layout, layout.hosts[rebooting], REBOOT_AT / speed, REBOOT_LASTS / speed),
        faults_switches.leaf_down(layout, leaf, LEAF_AT / speed, LEAF_LASTS / speed),
    )
