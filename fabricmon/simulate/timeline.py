"""The demo's timeline: one flapping cable, one degrading link, one dead leaf, one benign reboot.

Times are for real time and divided by `speed` for a quick run. A down of 3 s may then be shorter than the second
between two polls of a port's state: its link_downed counter still counts it, as on hardware.
"""

from __future__ import annotations

import random

from fabricmon.sim.faults import hosts as host_faults
from fabricmon.sim.faults import links as link_faults
from fabricmon.sim.faults import switches as switch_faults
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault

DEGRADE_AT, DEGRADE_RAMP = 15.0, 60.0
FLAP_AT, FLAP_DOWNS, FLAP_DOWN_FOR = 5.0, (0.0, 15.0, 30.0), 3.0
REBOOT_AT, REBOOT_LASTS = 60.0, 90.0
LEAF_AT, LEAF_LASTS = 130.0, 90.0
TAIL = 12.0
"""Real seconds after the last step in which unexpected incidents would be opened: twice a link's hold."""
PATIENCE = 90.0
"""Further real seconds for missing incidents: error counting begins when a link has been up for 30 s, and bit errors
wait a minute for others of one cause."""
NODES_LEAST, LEAVES_LEAST, PORTS_LEAST = 8, 6, 3
"""With fewer hosts a leaf has two links, and its failure resembles two bad cables."""


def timeline(layout: Layout, seed: int, speed: float = 1.0, spare: int = 0) -> tuple[InjectedFault, ...]:
    """The four faults at places chosen by `seed`, on different hosts and leaves, none on the first `spare` hosts.

    ValueError for a fabric that is too small.
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
        link_faults.degrading_link(layout, layout.port_name(degrade), DEGRADE_AT / speed, DEGRADE_RAMP / speed),
        link_faults.link_flap(layout, layout.port_name(flap), FLAP_AT / speed, downs, FLAP_DOWN_FOR / speed),
        host_faults.node_reboot(layout, layout.hosts[rebooting], REBOOT_AT / speed, REBOOT_LASTS / speed),
        switch_faults.leaf_down(layout, leaf, LEAF_AT / speed, LEAF_LASTS / speed),
    )
