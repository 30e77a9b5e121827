"""nic_fault: an adapter has vanished from a node that goes on reporting, or says of itself that it is broken."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.device_errors import COLUMNS
from fabricmon.fleet.table import NOBODY
from fabricmon.fleet.view import FRESH_AT_LEAST, View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_NODE, ON_PORT, UP, Alert, Recording, Translation, any_of, increase, metric, span
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of nic_fault.

    missing  how long a device must be missing (20 s: a driver reload takes the devices away for about 15 s)
    reload   how long, when all devices of the node are missing: that is a driver being reloaded (120 s:
             detection-methods 3.3)
    grace    no judgement for so long after a boot: devices appear one by one (120 s: detection-methods 3.3)
    errors   how long after the last error that it cannot recover from a device counts as broken (5 min: design)
    hold     s; the time for which a device must be missing is the hold (0)
    clear    how long it must be back, or without such errors (0)
    """

    missing: Duration = Duration(20)
    reload: Duration = Duration(120)
    grace: Duration = Duration(120)
    errors: Duration = Duration(300)
    hold: Duration = Duration(0)
    clear: Duration = Duration(0)


def _missing(view: View) -> NDArray[np.bool_]:
    """Hardware that left the inventory of its node."""
    return view.tracks.facts.hardware[: view.n] & ~view.present & np.isfinite(view.table.gone[: view.n])


def test(view: View, params: Params) -> Outcome:
    n, gone = view.n, view.table.gone[: view.n]
    missing = _missing(view)
    hardware = view.tracks.facts.hardware[:n] & (view.node != NOBODY)
    with np.errstate(invalid="ignore"):
        fire = missing & (view.now - gone >= params.missing)
    since = np.where(missing, gone, np.nan)
    with np.errstate(invalid="ignore"):
        if missing.any():
            nodes = view.node[missing]
            size = np.bincount(view.node[hardware])
            all_gone = np.bincount(nodes, minlength=len(size)) == size
            fire[missing] &= ~(all_gone[nodes] & (size[nodes] > 1) & (view.now - gone[missing] < params.reload))
        broken = view.present & (view.now - view.tracks.devices.last[:n] <= params.errors)
        fire |= broken
        since[broken] = view.tracks.devices.since[:n][broken]
        heard = view.heard() <= FRESH_AT_LEAST
        booting = view.now - view.table.begun[:n] < params.grace
    return Outcome(
        fire=fire,
        clear=view.present & ~broken,
        known=hardware & heard & ((missing & ~booting) | view.present),
        value=np.where(missing, view.now - gone, np.where(broken, view.tracks.devices.count[:n], 0.0)),
        since=since,
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    n, role = view.n, int(view.tracks.facts.role[row])
    mates = np.flatnonzero(
        view.tracks.facts.hardware[:n] & (view.node == view.node[row]) & (view.tracks.facts.role[:n] == role)
    ).tolist()
    expected = {_device(view, mate) for mate in mates}
    found = {_device(view, mate) for mate in mates if view.present[mate]}
    component, device = str(view.table.ids[row]), _device(view, row)
    errors = view.tracks.devices
    if view.present[row] and view.now - errors.last[row] <= params.errors:
        text = (
            f"{device} told of {errors.count[row]:.0f} errors that it cannot recover from since "
            f"{view.now - errors.since[row]:.0f} s ago, the last {view.now - errors.last[row]:.0f} s ago"
        )
        formula = f"one in {params.errors:g} s (firmware or AER fatal: detection-methods 3.8)"
        return (Evidence(component, text, formula, float(errors.count[row]), 1.0),)
    if view.present[row]:
        return (Evidence(component, f"{device} is there again, {len(found)} of {len(expected)}", for_it=False),)
    gone_for = view.now - float(view.table.gone[row])
    text = f"{device} vanished {gone_for:.0f} s ago: expected {len(expected)}, found {len(found)}"
    formula = f"missing from the inventory of a reporting node for {params.missing:g} s (detection-methods 3.8)"
    return (Evidence(component, text, formula, float(len(found)), float(len(expected))),)


def _device(view: View, row: int) -> str:
    return view.label(row, "device") or view.label(row, "pci") or view.table.ids[row].name


SEEN = "fabricmon:port:seen"
"""Every adapter port there is, seldom: what vanished is looked for among those of the last day."""


def promql(params: Params) -> Translation:
    state = metric("state")
    running = f"{ON_NODE} {UP} == 1 and {ON_NODE} {UP} offset {span(params.grace)} == 1"
    missing = f"last_over_time({SEEN}[1d]) unless {ON_PORT} {state} and {running}"
    some_left = f"{ON_NODE} count by (job, instance) ({state})"
    return Translation(
        alerts=(
            Alert(f"{missing} and {some_left}", hold=params.missing),
            Alert(f"{missing} unless {some_left}", hold=max(params.missing, params.reload), case="all"),
            Alert(any_of(*(f"{increase(column, params.errors)} > 0" for column in COLUMNS)), case="errors"),
        ),
        recordings=(Recording(SEEN, f"0 * {state} + 1", every=300.0),),
        differs=(
            "an adapter must have been there for five minutes to be expected, and is expected for a day; one that is "
            "not expected any more ends the alert, so an adapter removed on purpose is told of for a day"
        ),
    )


RULE = Rule(
    name="nic_fault",
    kind="nic_fault",
    table=Kind.PORT,
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=0.0,
    title="Adapter failed",
    why=(
        "An adapter counts errors that it cannot recover from, or the kernel says that its firmware or its PCIe "
        "function failed. Or an adapter that this node had is not in its inventory any more, while the node goes on "
        "reporting: its counters merely end, so nothing else would tell. Not judged for two minutes after a boot; if "
        "all adapters are missing at once a driver is being reloaded, and that has two minutes, too. Adapters that "
        "were never seen are not expected."
    ),
    action=(
        "Read the kernel log around that time (`dmesg -T | grep -i -e mlx5 -e pcie -e aer`): a firmware fatal error or "
        "a lost PCIe link. Drain the node; a reset of the adapter or a cold boot may bring it back; if it falls off "
        "again, replace it. Removed on purpose: let the centre forget the node and learn it anew."
    ),
    promql=promql,
)
