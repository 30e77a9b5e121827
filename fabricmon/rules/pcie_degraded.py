"""pcie_degraded: a device, or a bridge above it, runs its PCIe link below what both ends can do."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of pcie_degraded.

    width  share of its possible lanes that the worst link on the way must have (1: detection-methods 3.8, width below
           capability at any time)
    speed  share of its possible speed; not judged for GPUs, which lower it to save power (1: detection-methods 3.8)
    hold   how long a link must be below (20 s, two polls: a link that retrains is below for moments)
    clear  how long it must be full again (10 s, one poll: design)
    """

    width: float = 1.0
    speed: float = 1.0
    hold: Duration = Duration(20)
    clear: Duration = Duration(10)


def test(view: View, params: Params) -> Outcome:
    width, speed = view.value("pcie_path_width"), view.value("pcie_path_speed")
    with np.errstate(invalid="ignore"):
        below = (width < params.width) | (speed < params.speed)
    told = np.isfinite(width) | np.isfinite(speed)
    return Outcome(
        fire=below,
        clear=~below,
        known=view.present & told & view.fresh("pcie_path_width"),
        value=np.fmin(width, speed),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, formula = str(view.table.ids[row]), "PCIe link below what both its ends can do (detection-methods 3.8)"
    who = view.label(row, "owner") or view.label(row, "class") or "device"
    found: list[Evidence] = []
    for what, unit, scale, limit in (("width", "lanes", 1.0, params.width), ("speed", "GT/s", 1e9, params.speed)):
        share = float(view.value(f"pcie_path_{what}")[row])
        if math.isnan(share):
            continue
        now, most = (float(view.value(f"pcie_{prefix}{what}")[row]) / scale for prefix in ("", "max_"))
        own = f"{who} runs at {now:g} of {most:g} {unit}" if not math.isnan(now) else f"{who}: {what} unknown"
        worst = f"; the worst link on its way to the CPU has {share:.0%} of its possible {what}" if share < 1 else ""
        found.append(Evidence(component, own + worst, formula, share, limit, share < limit))
    found.sort(key=lambda e: not e.for_it)
    return tuple(found) or (Evidence(component, f"{who}: its PCIe link cannot be compared", for_it=False),)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"pci": view.label(row, "device"), "device_class": view.label(row, "class")}


def promql(params: Params) -> Translation:
    width = f"{metric('pcie_path_width')} < {params.width:g}"
    return Translation((Alert(any_of(width, f"{metric('pcie_path_speed')} < {params.speed:g}")),))


RULE = Rule(
    name="pcie_degraded",
    kind="pcie_degraded",
    table=Kind.PCIE,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=20.0,
    clear=10.0,
    title="PCIe link below its capability",
    why=(
        "The PCIe link of this device, or of a bridge between it and the CPU, has fewer lanes or a lower speed than "
        "both its ends can do. Libraries for collective operations plan with the possible speed of network adapters, "
        "so a narrow one is invisible to them and slows every ring it is part of. A card with more lanes than its slot "
        "is no fault: both ends are compared. The speed of GPUs is not judged, since they lower it to save power."
    ),
    action=(
        "Look at the errors of both ends of the link (`fabricmon_pcie_aer_*` on the node's /metrics, `lspci -vvv` for "
        "LnkSta and DevSta). Drain the node and power-cycle it, so that the link trains anew; if it comes back narrow, "
        "reseat the card or its riser, then swap it. Update the firmware of PCIe switches that are known for this."
    ),
    promql=promql,
)
