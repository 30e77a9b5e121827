"""pcie_degraded: the PCIe link of a device, or of a bridge above it, is below the capability of both ends."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fabricmon.fleet.pressure import BUSY
from fabricmon.fleet.tracks import AdapterWork
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import Bools, Rows
from fabricmon.rules.promql import ON_NODE, ON_PORT, Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

FEW = 0.01
"""Share of the hosts of one kind of adapter, idle alike, that may be below full speed where that is no saving of power:
hosts that save it by a setting of theirs are so few with a probability of 2 %, where any share of them is as likely
(docs/methods.md#pcie-degraded)."""
COMPARED = 256
"""Adapters at full speed that are looked at for that (design choice): enough for two that are slow."""


class PcieDegradedParams(RuleParams, frozen=True):
    """Limits of pcie_degraded (docs/methods.md#pcie-degraded).

    width  least share of its possible lanes, of the worst link on the path
    speed  least share of its possible speed, of adapters that carry traffic, or that are idle as others are which do
           not lower theirs: devices lower it to save power
    idle   time without traffic after which the speed of an adapter is unknown; before, it is neither low nor full
    hold   time for which a link must be below (three polls: a link that retrains is below for moments, and a device
           that stops working lowers its speed at once)
    clear  time for which it must be full again
    """

    width: float = 1.0
    speed: float = 1.0
    idle: Duration = Duration(60)
    hold: Duration = Duration(30)
    clear: Duration = Duration(10)


class Slow(NamedTuple):
    """Rows with all their lanes below their speed: of adapters that carry traffic, that are idle, and those of the idle
    ones beside which others are at full speed, or which are alone on their hosts and few among such."""

    busy: Rows
    idle: Rows
    alone: Rows


def _slow(view: View, params: PcieDegradedParams) -> Slow:
    narrow = view.value("pcie_path_width") < params.width
    rows = np.flatnonzero((view.value("pcie_path_speed") < params.speed) & ~narrow)
    if not len(rows):
        return Slow(rows, rows, rows)
    work = view.adapter_work(rows)
    idle = _idle(work, view.now, params)
    up = rows[idle & work.up]
    alone = np.concatenate([_others_are_full(view, up, params), _few_of_the_fleet(view, up, params)])
    return Slow(rows[work.now], rows[idle], alone)


def test(view: View, params: PcieDegradedParams) -> Outcome:
    width, speed = view.value("pcie_path_width"), view.value("pcie_path_speed")
    narrow, slow = width < params.width, _slow(view, params)
    below, unknown = narrow.copy(), np.zeros(view.n, np.bool_)
    below[slow.busy] = below[slow.alone] = True
    unknown[slow.idle] = True
    read = np.isfinite(width) | np.isfinite(speed)
    return Outcome(
        fire=below,
        clear=~narrow & ~(speed < params.speed),
        # the speed of an idle device shows nothing where no other is at full speed
        known=view.present & read & view.fresh("pcie_path_width") & (below | ~unknown),
        value=np.fmin(width, speed),
    )


def _idle(work: AdapterWork, now: float, params: PcieDegradedParams) -> Bools:
    return ~work.now & ~(now - work.last <= params.idle)


def _others_are_full(view: View, rows: Rows, params: PcieDegradedParams) -> Rows:
    """Those of some idle adapters below their speed whose host has at least as many of their kind at full speed that
    are idle, too: it does not lower the speed of adapters to save power."""
    if not len(rows):
        return rows
    here = np.isin(view.node, np.unique(view.node[rows])) & view.present
    full = np.flatnonzero(here & (view.value("pcie_path_speed") >= params.speed))
    if not len(full):
        return full
    work = view.adapter_work(full)
    full = full[work.up & _idle(work, view.now, params)]
    every = np.concatenate([rows, full])
    kind = np.column_stack([view.node, view.value("pcie_max_speed"), view.value("pcie_max_width")])[every]
    _, group = np.unique(kind, axis=0, return_inverse=True)
    slow, quick = np.bincount(group[: len(rows)]), np.bincount(group[len(rows) :], minlength=int(group.max()) + 1)
    mine = group[: len(rows)]
    return rows[quick[mine] >= slow[mine]]


def _few_of_the_fleet(view: View, rows: Rows, params: PcieDegradedParams) -> Rows:
    """Those of some idle adapters below their speed that are the only ones of their kind on their hosts, and FEW of all
    such hosts whose adapter is idle: only they would save power."""
    if not len(rows):
        return rows
    kind = np.column_stack([view.value("pcie_max_speed"), view.value("pcie_max_width"), view.value("pcie_path_speed")])
    found: list[Rows] = []
    for speed, width in np.unique(kind[rows, :2], axis=0).tolist():
        alike = np.flatnonzero((kind[:, 0] == speed) & (kind[:, 1] == width) & view.present & (view.node >= 0))
        only = alike[np.bincount(view.node[alike])[view.node[alike]] == 1]
        slow, full = np.intersect1d(rows, only), only[kind[only, 2] >= params.speed]
        if not len(slow) or len(full) * FEW < len(slow) * (1 - FEW):
            continue
        some = full[:: -(-len(full) // COMPARED)]
        work = view.adapter_work(some)
        if np.sum(work.up & _idle(work, view.now, params)) * FEW >= len(slow) * (1 - FEW):
            found.append(slow)
    return np.concatenate(found) if found else np.zeros(0, np.intp)


def evidence(view: View, row: int, params: PcieDegradedParams) -> tuple[Evidence, ...]:
    formula = "PCIe link below the capability of both ends"
    who = view.label(row, "owner") or view.label(row, "class") or "device"
    found: list[Evidence] = []
    for what, unit, scale, limit in (("width", "lanes", 1.0, params.width), ("speed", "GT/s", 1e9, params.speed)):
        share = float(view.value(f"pcie_path_{what}")[row])
        if math.isnan(share):
            continue
        now, most = (float(view.value(f"pcie_{prefix}{what}")[row]) / scale for prefix in ("", "max_"))
        own = f"{who} runs at {now:g} of {most:g} {unit}" if not math.isnan(now) else f"{who}: {what} unknown"
        worst = f"; the worst link on its path to the CPU has {share:.0%} of its possible {what}" if share < 1 else ""
        found.append(reading(own + worst, formula, share, limit, share < limit, f"pcie_degraded.{what}"))
    found.sort(key=lambda e: not e.for_it)
    if row in _slow(view, params).alone:
        where = "on its host are idle, too, or on most hosts, and at full speed"
        found.append(reading(f"it is idle; others of its kind {where}"))
    return tuple(found) or (reading(f"{who}: PCIe link unknown", for_it=False),)


def info(view: View, row: int, params: PcieDegradedParams) -> dict[str, str]:
    return {"pci": view.label(row, "device"), "device_class": view.label(row, "class")}


def promql(params: PcieDegradedParams) -> Translation:
    width = f"{metric('pcie_path_width')} < {params.width:g}"
    ways = (f"rate({metric(column)}[1m]) / {ON_PORT} {metric('rate')} >= {BUSY:g}" for column in ("rcv", "xmit"))
    works = f"count by (job, instance) ({any_of(*ways)}) > 0"
    speed = f"({metric('pcie_path_speed')} < {params.speed:g} and {ON_NODE} {works})"
    return Translation(
        (Alert(any_of(width, speed)),),
        differs=(
            "the speed of a link counts while any adapter of its node carries traffic, not only its own, and never "
            "while all are idle"
        ),
    )


RULE = Rule(
    name="pcie_degraded",
    table=Kind.PCIE,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=PcieDegradedParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The PCIe link of this device has fewer lanes or a lower speed than it should have. The device cannot reach "
        "its full bandwidth, so its jobs run slower."
    ),
    decision=(
        "The PCIe link of this device, or of a bridge between it and the CPU, has fewer lanes or a lower speed than "
        "both its ends support. A card with more lanes than its slot is no fault: both ends are compared. The speed "
        "counts while the adapter carries traffic, or while as many of its kind on its host are idle, too, and at full "
        "speed, or, where it is the only one there, nearly all of the fleet: devices lower it to save power. Of GPUs "
        "it does not count."
    ),
    action=(
        "Check the errors of both ends of the link (`fabricmon_pcie_aer_*` on the node's /metrics, `lspci -vvv` for "
        "LnkSta and DevSta). Drain the node and power-cycle it, so that the link trains anew; if it comes back narrow, "
        "reseat the card or its riser, then swap it. Update the firmware of PCIe switches with known faults of this "
        "kind."
    ),
    promql=promql,
)
