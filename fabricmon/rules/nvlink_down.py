"""nvlink_down: a GPU has fewer active NVLinks than expected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import FREE
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_NODE, Alert, Translation, any_of, metric, there_before
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration


class NvlinkDownParams(RuleParams, frozen=True):
    """Limits of nvlink_down (docs/methods.md#nvlink-down).

    expected  active links of a GPU; 0: all of its links where they lead to NVSwitches, else as many as the best GPU of
              its host (18 on H100 and GB200; one inactive link is a fault)
    hold      time for which a link must be missing (as link_down)
    clear     time for which all must be active again
    grace     no evaluation for so long after a boot or a driver reload: the fabric manager trains the links then
    """

    expected: int = 0
    hold: Duration = Duration(5)
    clear: Duration = Duration(10)
    grace: Duration = Duration(120)


def expected(view: View, params: NvlinkDownParams) -> NDArray[np.float64]:
    """Expected active links of each GPU, NaN unknown."""
    count, active = view.value("gpu_nvlinks"), view.value("gpu_nvlinks_active")
    if params.expected:
        return np.where(count > 0, float(params.expected), np.nan)
    # on boards without NVSwitches some links may be unconnected
    switched = (view.value("gpu_nvlinks_to_switch") > 0) | (view.value("gpu_fabric_state") >= 1)
    if not (~switched & np.isfinite(active)).any():
        return np.where(switched, count, np.nan)
    most = np.full(int(view.node.max(initial=FREE)) + 1, np.nan)
    rows = np.flatnonzero(view.present & (view.node != FREE) & np.isfinite(active))
    np.fmax.at(most, view.node[rows], active[rows])
    peers = np.full(view.n, np.nan)
    mine = view.node != FREE
    peers[mine] = most[view.node[mine]]
    return np.where(switched, count, np.where(peers > 0, peers, np.nan))


def test(view: View, params: NvlinkDownParams) -> Outcome:
    active, wanted = view.value("gpu_nvlinks_active"), expected(view, params)
    missing = active < wanted
    settling = view.now - view.table.begun[: view.n] < params.grace
    read = np.isfinite(active) & np.isfinite(wanted) & view.fresh("gpu_nvlinks_active")
    return Outcome(
        fire=missing,
        clear=~missing,
        known=view.present & read & ~(missing & settling),
        value=wanted - active,
    )


def evidence(view: View, row: int, params: NvlinkDownParams) -> tuple[Evidence, ...]:
    active, wanted = float(view.value("gpu_nvlinks_active")[row]), float(expected(view, params)[row])
    mask = view.value("gpu_nvlinks_inactive_mask")[row]
    links = [str(n) for n in range(64) if np.isfinite(mask) and int(mask) >> n & 1]
    which = f"; inactive: {', '.join(links)}" if links else ""
    text = f"{active:.0f} of {wanted:.0f} NVLinks active{which}"
    formula = f"fewer active links than expected for {params.hold:g} s"
    return (reading(text, formula, active, wanted, active < wanted, "nvlink_down.active"),)


def promql(params: NvlinkDownParams) -> Translation:
    active, count = metric("gpu_nvlinks_active"), metric("gpu_nvlinks")
    switched = f"({metric('gpu_nvlinks_to_switch')} > 0 or {metric('gpu_fabric_state')} >= 1)"
    most = f"max by (job, instance) ({active} unless {switched})"
    below = any_of(
        f"({active} < {count} and {switched})", f"(({active} unless {switched}) < {ON_NODE} group_left () {most})"
    )
    if params.expected:
        below = f"({active} < {params.expected} and {count} > 0)"
    return Translation((Alert(f"({below}) and {there_before('gpu_nvlinks_active', params.grace)}"),))


RULE = Rule(
    name="nvlink_down",
    table=Kind.GPU,
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    params=NvlinkDownParams,
    test=test,
    evidence=evidence,
    why=(
        "NVLinks of this GPU are down. Jobs on this node run at the speed of the GPU with the fewest links, or do not "
        "start."
    ),
    decision=(
        "A GPU has fewer active NVLinks than it has links to NVSwitches, or than the best GPU of its host where the "
        "links lead from GPU to GPU. On boards with NVSwitches one inactive link is a fault by the vendor's own "
        "limits. Not evaluated for two minutes after a boot, while the fabric manager trains the links."
    ),
    action=(
        "Read the kernel log for Xid errors of this GPU around that time (`dmesg -T | grep -e Xid -e NVLink`) and the "
        "fabric manager's log. A GPU reset (`nvidia-smi -r -i N`) or a reboot trains the links anew; if the same link "
        "stays inactive, drain the node and have the GPU, its baseboard or the NVLink cable checked."
    ),
    promql=promql,
)
