"""Faults of switches and of the cables between them. One function each. Pure."""

from __future__ import annotations

from fabricmon.sim.layout import Layout
from fabricmon.sim.script import Expected, Fault, Step


def leaf_down(layout: Layout, leaf: str, start: float = 0.0, lasts: float | None = None) -> Fault:
    """A leaf ("su0/rail2", or its switch's name) loses power: all its links are down. `lasts` None: for good."""
    switch = layout.switch(leaf)
    rows, name = layout.leaf_rows(switch), layout.leaf_name(switch)
    steps = [Step(start, f"leaf {name}: loses power, {len(rows)} links", lambda w: w.hold_down(rows))]
    if lasts is not None:
        steps.append(Step(start + lasts, f"leaf {name}: power is back", lambda w: w.let_up(rows)))
    return Fault("dead leaf", tuple(steps), (Expected("fault_domain", f"leaf({name})"),))
