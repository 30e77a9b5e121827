"""The demo's timeline: one flapping cable, one degrading link, one dead leaf, one benign reboot. Pure.

Times are written for people who watch it in real time and divided by `speed` for a quick run. A down of 3 s may then
be shorter than the second between two looks at a port's state: its link_downed counter still tells, as on hardware.
"""

from __future__ import annotations

import random

from fabricmon.sim import faults
from fabricmon.sim.fabric import Fabric

DEGRADE_AT, DEGRADE_RAMP = 15.0, 60.0
FLAP_AT, FLAP_DOWNS, FLAP_DOWN_FOR = 20.0, (0.0, 45.0, 80.0), 3.0
REBOOT_AT, REBOOT_LASTS = 60.0, 90.0
LEAF_AT, LEAF_LASTS = 130.0, 90.0
TAIL = 12.0
"""Real seconds after the last step in which what must not come would come: twice a link's hold."""
PATIENCE = 30.0
"""Real seconds more for what is still missing: error counting begins when a link has been up and settled for 30 s."""
NODES_LEAST = 8
"""Fewer hosts make leaves of two links, which no one could tell from two bad cables."""


def timeline(fabric: Fabric, seed: int, speed: float = 1.0, spare: int = 0) -> tuple[faults.Fault, ...]:
    """The four faults at places chosen by `seed`, no two of them on one host or leaf; `spare` hosts are left alone."""
    shape = fabric.shape
    if shape.nodes < NODES_LEAST or shape.units < 2 or shape.rails < 3:
        raise ValueError(f"the timeline needs {NODES_LEAST} nodes, two units and three rails, got {shape}")
    choose = random.Random(seed)
    flapping, degrading, rebooting = choose.sample(range(spare, shape.nodes), 3)
    flap_row = fabric.row(flapping, choose.randrange(shape.rails))
    degrade_row = fabric.row(degrading, choose.randrange(shape.rails))
    taken = {fabric.leaf_of(flap_row), fabric.leaf_of(degrade_row)}
    elsewhere = rebooting // shape.unit  # the reboot's links are not below the leaf that dies
    leaves = [leaf for leaf in range(shape.leaves) if leaf not in taken and leaf // shape.rails != elsewhere]
    leaf = choose.choice(leaves)
    downs = tuple(after / speed for after in FLAP_DOWNS)
    return (
        faults.degrading_link(fabric, degrade_row, DEGRADE_AT / speed, DEGRADE_RAMP / speed),
        faults.flapping_cable(fabric, flap_row, FLAP_AT / speed, downs, FLAP_DOWN_FOR / speed),
        faults.node_reboot(fabric, rebooting, REBOOT_AT / speed, REBOOT_LASTS / speed),
        faults.leaf_down(fabric, leaf, LEAF_AT / speed, LEAF_LASTS / speed),
    )
