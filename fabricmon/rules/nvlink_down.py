"""nvlink_down: a GPU has fewer active NVLinks than it should."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.table import NOBODY
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_NODE, Alert, Translation, any_of, metric, there_before
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of nvlink_down.

    expected  active links a GPU should have; 0: all it has where they lead to NVSwitches, else as many as the GPU of
              its host that has most (18 on H100 and GB200: counters-nvlink-pcie 1; one inactive link is a fault)
    hold      how long a link must be missing (5 s: as link_down, detection-methods 3.3)
    clear     how long all must be there again (10 s, one poll: design)
    grace     no judgement for so long after a boot or a driver reload: the fabric manager trains the links then
              (120 s: detection-methods 3.3)
    """

    expected: int = 0
    hold: Duration = Duration(5)
    clear: Duration = Duration(10)
    grace: Duration = Duration(120)


def expected(view: View, params: Params) -> NDArray[np.float64]:
    """How many links each GPU should have active; NaN where nothing tells."""
    count, active = view.value("gpu_nvlinks"), view.value("gpu_nvlinks_active")
    if params.expected:
        return np.where(count > 0, float(params.expected), np.nan)
    # a GPU of an NVLink fabric has each of its links wired to a switch; on other boards some may be left open
    switched = (view.value("gpu_nvlinks_to_switch") > 0) | (view.value("gpu_fabric_state") >= 1)
    if not (~switched & np.isfinite(active)).any():
        return np.where(switched, count, np.nan)
    most = np.full(int(view.node.max(initial=NOBODY)) + 1, np.nan)
    told = np.flatnonzero(view.present & (view.node != NOBODY) & np.isfinite(active))
    np.fmax.at(most, view.node[told], active[told])
    peers = np.full(view.n, np.nan)
    mine = view.node != NOBODY
    peers[mine] = most[view.node[mine]]
    return np.where(switched, count, np.where(peers > 0, peers, np.nan))


def test(view: View, params: Params) -> Outcome:
    active, wanted = view.value("gpu_nvlinks_active"), expected(view, params)
    with np.errstate(invalid="ignore"):
        missing = active < wanted
        settling = view.now - view.table.begun[: view.n] < params.grace
    told = np.isfinite(active) & np.isfinite(wanted) & view.fresh("gpu_nvlinks_active")
    return Outcome(
        fire=missing,
        clear=~missing,
        known=view.present & told & ~(missing & settling),
        value=wanted - active,
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    active, wanted = float(view.value("gpu_nvlinks_active")[row]), float(expected(view, params)[row])
    mask = view.value("gpu_nvlinks_inactive_mask")[row]
    links = [str(n) for n in range(64) if np.isfinite(mask) and int(mask) >> n & 1]
    which = f"; inactive: {', '.join(links)}" if links else ""
    text = f"{active:.0f} of {wanted:.0f} NVLinks active{which}"
    formula = f"fewer active links than expected for {params.hold:g} s (detection-methods 3.7)"
    return (Evidence(str(view.table.ids[row]), text, formula, active, wanted, for_it=active < wanted),)


def promql(params: Params) -> Translation:
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
    kind="nvlink_down",
    table=Kind.GPU,
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    hold=5.0,
    clear=10.0,
    title="NVLink down",
    why=(
        "A GPU has fewer active NVLinks than it has links to NVSwitches, or than the best GPU of its host where the "
        "links lead from GPU to GPU. Collective operations within the node run at the pace of the GPU with the fewest "
        "links, and on boards with NVSwitches one inactive link is a fault by the vendor's own limits. Not judged for "
        "two minutes after a boot, while the fabric manager trains the links."
    ),
    action=(
        "Read the kernel log for Xid errors of this GPU around that time (`dmesg -T | grep -e Xid -e NVLink`) and the "
        "fabric manager's log. A GPU reset (`nvidia-smi -r -i N`) or a reboot trains the links anew; if the same link "
        "stays inactive, drain the node and have the GPU, its baseboard or the NVLink cable checked."
    ),
    promql=promql,
)
