"""Faults of switches and of the cables between them. One function each. Pure.

A switch is given by its name ("plane5-spine-003"), a leaf also as incidents name it ("su0/rail2"). Loss on a path shows
at its senders only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.flows import Gray
from fabricmon.sim.layout import Layout
from fabricmon.sim.paths import mix
from fabricmon.sim.script import ExpectedIncident, InjectedFault, Step, lasting
from fabricmon.sim.world import World


def leaf_down(layout: Layout, leaf: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """A leaf loses power: all its links are down. `lasts` None: for good."""
    switch = layout.switch(leaf)
    rows, name = layout.leaf_rows(switch), layout.leaf_name(switch)
    return lasting(
        "dead leaf", start, lasts,
        (f"leaf {name}: loses power, {len(rows)} links", lambda w: _fall(w, switch, rows)),
        (f"leaf {name}: power is back", lambda w: _rise(w, switch, rows)),
        ExpectedIncident("fault_domain", f"leaf({name})"),
    )  # fmt: skip


def leaf_reboot(
    layout: Layout, leaf: str, start: float = 0.0, lasts: float = 140.0, again: float = 0.4, after: float = 10.0,
    again_for: float = 4.0,
) -> InjectedFault:
    """A leaf reboots: all links go down, come back, and a share `again` of them goes down once more, shortly."""
    switch = layout.switch(leaf)
    rows, name = layout.leaf_rows(switch), layout.leaf_name(switch)
    order = np.random.default_rng(mix(switch, len(rows))).permutation(rows)
    some = np.sort(order[: round(again * len(rows))])
    steps = [
        Step(start, f"leaf {name}: reboots", lambda w: _fall(w, switch, rows)),
        Step(start + lasts, f"leaf {name}: is back", lambda w: _rise(w, switch, rows)),
    ]
    if len(some):
        text = f"leaf {name}: {len(some)} links drop again"
        steps.append(Step(start + lasts + after, text, lambda w: w.hold_down(some)))
        steps.append(Step(start + lasts + after + again_for, "", lambda w: w.let_up(some)))
    return InjectedFault("leaf reboot", tuple(steps), (ExpectedIncident("fault_domain", f"leaf({name})"),))


def switch_gray(
    layout: Layout, switch: str, start: float = 0.0, ratio: float = 0.01, pairs: float = 1.0,
    lasts: float | None = None,
) -> InjectedFault:
    """A switch of any tier loses `ratio` of the packets that pass `pairs` of its pairs of ports; nothing else shows."""
    at = layout.switch(switch)
    name = layout.leaf_name(at)
    level = layout.graph.switches[layout.switches[at]].level
    kind = ("leaf", "spine", "core")[max(0, min(level, 2))]
    cause = f"gray {name} {start:g}"
    text = f"{kind} {name}: loses {ratio:.2%} of packets on {pairs:.0%} of its port pairs"
    return lasting(
        f"gray {kind}", start, lasts, (text, lambda w: w.lose(cause, grays=(Gray(at, ratio, pairs),))),
        (f"{kind} {name}: packet loss ends", lambda w: w.stop_losing(cause)),
        ExpectedIncident("fault_domain", f"{kind}({name})"),
    )  # fmt: skip


def plane_gray(
    layout: Layout, plane: str, start: float = 0.0, ratio: float = 0.01, lasts: float | None = None
) -> InjectedFault:
    """All spines of a plane lose packets (a bad configuration pushed to them, one bad firmware)."""
    mine = [at for at, id in enumerate(layout.switches) if layout.graph.switches[id].labels.get("plane") == plane]
    if not mine:
        raise ValueError(f"no switch is of plane {plane!r}")
    cause = f"gray plane {plane} {start:g}"
    grays = tuple(Gray(at, ratio) for at in mine)
    text = f"plane {plane}: its {len(mine)} spines lose {ratio:.2%} of packets"
    return lasting(
        "gray plane", start, lasts, (text, lambda w: w.lose(cause, grays=grays)),
        (f"plane {plane}: packet loss ends", lambda w: w.stop_losing(cause)),
        ExpectedIncident("fault_domain", f"plane({plane})"),
    )  # fmt: skip


def switch_down(layout: Layout, switch: str, start: float = 0.0, lasts: float | None = None) -> InjectedFault:
    """A spine or core fails: packets in flight are lost, then routes go around it."""
    at = layout.switch(switch)
    name = layout.graph.name(layout.switches[at])
    back = f"{name}: is back", lambda w: w.mend(switches=(at,))
    return lasting("dead switch", start, lasts, (f"{name}: fails", lambda w: w.fail(switches=(at,))), back)


def uplink_gray(
    layout: Layout, switch: str, other: str, start: float = 0.0, ratio: float = 0.01, parallel: int = 0,
    lasts: float | None = None,
) -> InjectedFault:
    """One cable between two switches loses packets; `parallel`: which of them, where there are several."""
    at, names = uplink(layout, switch, other, parallel)
    cause = f"gray cable {at} {start:g}"
    text = f"cable {names}: loses {ratio:.2%} of packets"
    return lasting(
        "gray cable", start, lasts, (text, lambda w: w.lose(cause, cables={at: ratio})),
        (f"cable {names}: packet loss ends", lambda w: w.stop_losing(cause)),
        ExpectedIncident("packet_loss", f"link({names})"),
    )  # fmt: skip


def uplink_down(
    layout: Layout, switch: str, other: str, start: float = 0.0, parallel: int = 0, lasts: float | None = None
) -> InjectedFault:
    """One cable between two switches is pulled; routes go around it."""
    at, names = uplink(layout, switch, other, parallel)
    back = f"cable {names}: up again", lambda w: w.mend(cables=(at,))
    return lasting("dead cable", start, lasts, (f"cable {names}: down", lambda w: w.fail(cables=(at,))), back)


def uplink(layout: Layout, switch: str, other: str, parallel: int = 0) -> tuple[int, str]:
    """Number of a cable between two switches, and its title. ValueError where there is none."""
    pair = {layout.switches[layout.switch(switch)], layout.switches[layout.switch(other)]}
    found = [at for at, cable in enumerate(layout.graph.cables) if {cable.a.node, cable.b.node} == pair]
    if not 0 <= parallel < len(found):
        raise ValueError(f"{len(found)} cables join {switch} and {other}, none of them is number {parallel}")
    return found[parallel], layout.graph.title(layout.graph.cables[found[parallel]])


def rail_congestion(
    layout: Layout, leaf: str, start: float = 0.0, lasts: float = 1200.0, ratio: float = 0.35, share: float = 0.7,
) -> InjectedFault:
    """Two jobs share a leaf's uplinks: a share of its active ports waits for `ratio` of the time."""
    switch = layout.switch(leaf)
    rows, name = layout.leaf_rows(switch), layout.leaf_name(switch)
    cause = f"congestion {name} {start:g}"

    def crowd(world: World) -> None:
        active = rows[world.traffic.active()[rows]]
        random = np.random.default_rng(mix(world.seed, switch))
        some = random.permutation(active)[: round(share * len(active))]
        world.stall.put(cause, some, np.clip(random.normal(ratio, 0.03, len(some)), 0.0, 1.0))

    switch_labels = layout.graph.switches[layout.switches[switch]].labels
    rail = f"{switch_labels['unit']}/{switch_labels['rail']}" if {"unit", "rail"} <= switch_labels.keys() else ""
    return lasting(
        "rail congestion", start, lasts,
        (f"leaf {name}: uplinks are congested, {share:.0%} of its active ports wait {ratio:.0%}", crowd),
        (f"leaf {name}: uplinks are free again", lambda w: w.stall.take(cause)),
        ExpectedIncident("fault_domain", f"rail({rail})" if rail else f"leaf({name})"),
    )  # fmt: skip


def _fall(world: World, switch: int, rows: NDArray[np.int32]) -> None:
    world.hold_down(rows)
    world.fail(switches=(switch,), at_once=True)


def _rise(world: World, switch: int, rows: NDArray[np.int32]) -> None:
    world.mend(switches=(switch,))
    world.let_up(rows)
