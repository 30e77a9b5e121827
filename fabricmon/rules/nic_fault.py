"""nic_fault: an adapter vanished from a node that still reports, or counts errors that it cannot recover from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.device_errors import FATAL
from fabricmon.fleet.table import FREE
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import (
    ON_NODE,
    ON_PORT,
    UP,
    Alert,
    RecordingRule,
    Translation,
    any_of,
    increase,
    metric,
    span,
)
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration


class NicFaultParams(RuleParams, frozen=True):
    """Limits of nic_fault (docs/methods.md#nic-fault).

    missing  time for which a device must be missing (20 s: a driver reload removes the devices for about 15 s)
    reload   the same when all devices of the node are missing, two or more: a driver reload
    grace    no evaluation for so long after a boot: devices appear one by one
    errors   time after the last unrecoverable error for which a device counts as broken, longer while it carries
             nothing
    hold     the time for which a device must be missing is the hold
    clear    time for which it must be back, or without such errors
    """

    missing: Duration = Duration(20)
    reload: Duration = Duration(120)
    grace: Duration = Duration(120)
    errors: Duration = Duration(300)


def _missing(view: View) -> NDArray[np.bool_]:
    """Rows of hardware that left the inventory of its node."""
    return view.tracks.facts.hardware[: view.n] & ~view.present & np.isfinite(view.table.gone[: view.n])


def _adapters(view: View, hardware: NDArray[np.bool_], nodes: int) -> NDArray[np.int64]:
    """Adapters of each node, whatever ports each has."""
    rows, nic = np.flatnonzero(hardware), view.group("nic")
    device = np.where(nic[rows] >= 0, nic[rows], -1 - rows)
    _, first = np.unique(device, return_index=True)
    return np.bincount(view.node[rows[first]], minlength=nodes)


LATE = 60.0
"""Seconds of traffic before an error that may be read after it: two of the slowest default periods of its counters."""


def _broken(view: View, params: NicFaultParams) -> NDArray[np.bool_]:
    """Adapters with an unrecoverable error in the last `errors` seconds, or since whose last one nothing shows that
    they work: what carried traffic before has carried none since, and no boot or driver reload came."""
    last, moved = view.tracks.devices.last[: view.n], view.tracks.movement.moved[: view.n]
    hangs = (moved <= last + LATE) & ~(view.table.begun[: view.n] > last)
    return view.present & ((view.now - last <= params.errors) | hangs)


def test(view: View, params: NicFaultParams) -> Outcome:
    n, gone = view.n, view.table.gone[: view.n]
    missing = _missing(view)
    hardware = view.tracks.facts.hardware[:n] & (view.node != FREE)
    fire = missing & (view.now - gone >= params.missing)
    since = np.where(missing, gone, np.nan)
    if missing.any():
        nodes = view.node[missing]
        size = np.bincount(view.node[hardware])
        all_gone = np.bincount(nodes, minlength=len(size)) == size
        several = _adapters(view, hardware, len(size)) > 1
        fire[missing] &= ~(all_gone[nodes] & several[nodes] & (view.now - gone[missing] < params.reload))
    broken = _broken(view, params)
    fire |= broken
    since[broken] = view.tracks.devices.since[:n][broken]
    booting = view.now - view.table.begun[:n] < params.grace
    return Outcome(
        fire=fire,
        clear=view.present & ~broken,
        known=hardware & view.reporting() & ((missing & ~booting) | view.present),
        value=np.where(missing, view.now - gone, np.where(broken, view.tracks.devices.count[:n], 0.0)),
        since=since,
    )


def evidence(view: View, row: int, params: NicFaultParams) -> tuple[Evidence, ...]:
    n, role = view.n, int(view.tracks.facts.role[row])
    mates = np.flatnonzero(
        view.tracks.facts.hardware[:n] & (view.node == view.node[row]) & (view.tracks.facts.role[:n] == role)
    ).tolist()
    expected = {_device(view, mate) for mate in mates}
    found = {_device(view, mate) for mate in mates if view.present[mate]}
    device = _device(view, row)
    errors = view.tracks.devices
    if _broken(view, params)[row]:
        text = (
            f"{device} counted {errors.count[row]:.0f} unrecoverable errors since "
            f"{clock_time(float(errors.since[row]))}, the last at {clock_time(float(errors.last[row]))}"
        )
        if not view.now - errors.last[row] <= params.errors:
            text += "; it has carried no traffic since"
        formula = f"one in {params.errors:g} s (firmware or AER fatal), or no traffic since the last"
        return (reading(text, formula, float(errors.count[row]), 1.0, measure="nic_fault.errors"),)
    if view.present[row]:
        return (reading(f"{device} is present again, {len(found)} of {len(expected)}", for_it=False),)
    at = clock_time(float(view.table.gone[row]))
    text = f"{device} vanished at {at}: expected {len(expected)}, found {len(found)}"
    formula = f"missing from the inventory of a reporting node for {params.missing:g} s"
    return (reading(text, formula, float(len(found)), float(len(expected)), measure="nic_fault.adapters"),)


def _device(view: View, row: int) -> str:
    return view.label(row, "device") or view.label(row, "pci") or view.table.ids[row].name


SEEN = "fabricmon:port:seen"
"""Every adapter port, recorded seldom: vanished ports are those of the last day that are gone."""


def promql(params: NicFaultParams) -> Translation:
    state = metric("state")
    running = f"{ON_NODE} {UP} == 1 and {ON_NODE} {UP} offset {span(params.grace)} == 1"
    missing = f"last_over_time({SEEN}[1d]) unless {ON_PORT} {state} and {running}"
    some_left = f"{ON_NODE} count by (job, instance) ({state})"
    return Translation(
        alerts=(
            Alert(f"{missing} and {some_left}", hold=params.missing),
            Alert(f"{missing} unless {some_left}", hold=max(params.missing, params.reload), case="all"),
            Alert(any_of(*(f"{increase(column, params.errors)} > 0" for column in FATAL)), case="errors"),
        ),
        recordings=(RecordingRule(SEEN, f"0 * {state} + 1", every=300.0),),
        differs=(
            "an adapter must have been present for five minutes to be expected, and is expected for a day; then the "
            "alert ends, so an adapter removed on purpose is reported for a day; one that carries nothing since its "
            "last unrecoverable error ends after the same time as one that works"
        ),
    )


RULE = Rule(
    name="nic_fault",
    table=Kind.PORT,
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    params=NicFaultParams,
    test=test,
    evidence=evidence,
    why=(
        "The network adapter has failed or has disappeared from the node. Jobs that use it hang or fail."
    ),
    decision=(
        "An adapter counts unrecoverable errors, or the kernel log reports that its firmware or its PCIe function "
        "failed. One that carries no traffic afterwards stays broken until it does, or until a boot or driver reload. "
        "Or an adapter of this node left its inventory while the node still reports: its counters merely end, so no "
        "other rule detects it. Not evaluated for two minutes after a boot; if all adapters, two or more, are "
        "missing at once a driver is being reloaded, which may take two minutes, too. Adapters that were never seen "
        "are not expected."
    ),
    action=(
        "Read the kernel log around that time (`dmesg -T | grep -i -e mlx5 -e pcie -e aer`): a firmware fatal error or "
        "a lost PCIe link. Drain the node; a reset of the adapter or a cold boot may bring it back; if it falls off "
        "again, replace it. Removed on purpose: name the device in collect.inventory.removed and reload the agent."
    ),
    promql=promql,
)
