"""gpu_fabric: the driver reports the NVLink fabric of a GPU as unhealthy, or the GPU as in need of a recovery."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.gpu import CONFIGURATIONS, FABRIC_STATES
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, metric, there_before
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

_W, _C = Severity.WARNING, Severity.CRITICAL
REGISTERED = 3.0
"""Value of gpu_fabric_state from which gpu_fabric_status holds."""


class Verdict(NamedTuple):
    """Values of a column that the driver reports for a fault.

    bad         value -> its severity and what it means; of other values from `least` on: the last of them
    registered  holds of a registered GPU only
    """

    column: str
    bad: dict[int, tuple[Severity, str]]
    least: float = math.inf
    registered: bool = False


VERDICTS: tuple[Verdict, ...] = (
    Verdict("gpu_fabric_state", {
        1: (_W, "registration with the NVLink fabric not started"), 2: (_W, "registration still in progress"),
    }),
    Verdict("gpu_fabric_status", {-1: (_C, "registration with the NVLink fabric failed, NVML error {value:.0f}")}, 1.0,
            True),
    Verdict("gpu_fabric_health_verdict", {2: (_C, "fabric unhealthy"), 3: (_W, "fabric has limited capacity")}),
    Verdict("gpu_fabric_degraded_bandwidth", {1: (_W, "NVLink bandwidth degraded")}),
    Verdict("gpu_fabric_route_unhealthy", {1: (_C, "routes unhealthy")}),
    Verdict("gpu_fabric_route_recovery", {1: (_W, "routes being recovered")}),
    Verdict("gpu_fabric_access_timeout_recovery", {1: (_W, "recovering from an access timeout")}),
    Verdict("gpu_fabric_incorrect_configuration", {
        number: (_C, f"incorrect configuration: {words}") for number, words in CONFIGURATIONS.items() if number >= 2
    }),
    Verdict("gpu_recovery_action", {
        1: (_C, "GPU needs a reset"), 2: (_C, "node needs a reboot"), 3: (_W, "peer-to-peer traffic must be drained"),
        4: (_C, "GPU must be drained and reset"), 5: (_W, "IMEX domain must be recovered"),
    }),
)  # fmt: skip
"""docs/methods.md#gpu-fabric"""


class GpuFabricParams(RuleParams, frozen=True):
    """Limits of gpu_fabric (docs/methods.md#gpu-fabric).

    ignore  columns that are not evaluated
    hold    time for which the driver must report it
    clear   time for which it must report none
    grace   no evaluation for so long after a boot or a driver reload: GPUs register with the fabric then
    """

    ignore: tuple[str, ...] = ()
    hold: Duration = Duration(20)
    clear: Duration = Duration(20)
    grace: Duration = Duration(300)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.ignore) - {verdict.column for verdict in VERDICTS}):
            raise ValueError(f"`ignore`: {unknown[0]!r} is none of {', '.join(v.column for v in VERDICTS)}")


def _severity(view: View, verdict: Verdict) -> NDArray[np.int8]:
    """Rank of the severity of one verdict per row, -1 where it is not reported."""
    value = view.value(verdict.column)
    found = np.full(view.n, -1, np.int8)
    if math.isfinite(verdict.least):
        found[value >= verdict.least] = verdict.bad[-1][0].rank
    for number, (severity, _) in verdict.bad.items():
        if number >= 0:
            found[value == number] = severity.rank
    if verdict.registered:
        found[view.value("gpu_fabric_state") != REGISTERED] = -1
    return found


def test(view: View, params: GpuFabricParams) -> Outcome:
    worst, read = np.full(view.n, -1, np.int8), np.zeros(view.n, np.bool_)
    count = np.zeros(view.n)
    for verdict in VERDICTS:
        if verdict.column in params.ignore or verdict.column not in view.table.columns:
            continue
        rank = _severity(view, verdict)
        worst, count = np.maximum(worst, rank), count + (rank >= 0)
        read |= np.isfinite(view.value(verdict.column)) & view.fresh(verdict.column)
    settling = view.now - view.table.begun[: view.n] < params.grace
    bad = worst >= 0
    known, off = view.present & read & ~(bad & settling), _off_the_bus(view)
    worst[off], count[off] = Severity.CRITICAL.rank, count[off] + 1.0
    return Outcome(
        fire=bad | off, clear=~(bad | off), known=known | off, value=count,
        severity=np.maximum(worst, np.int8(0)), since=np.where(off, view.lost, np.nan),
    )  # fmt: skip


def _off_the_bus(view: View) -> NDArray[np.bool_]:
    """GPUs that fell off the bus and were not read since. Where all else of them is unknown that is known, also once
    their node lists them no more."""
    return np.isfinite(view.lost) & view.reporting()


def domain(view: View, row: int) -> str:
    """The NVLink domain as cluster and clique, "" where the GPU is in none."""
    cluster, clique = view.label(row, "cluster"), view.label(row, "clique")
    return f"{cluster}.{clique}" if cluster else ""


def evidence(view: View, row: int, params: GpuFabricParams) -> tuple[Evidence, ...]:
    found = []
    if _off_the_bus(view)[row]:
        at = clock_time(float(view.lost[row]))
        text = f"the GPU fell off the bus at {at} (Xid of its driver), and has not been read since"
        found.append((-Severity.CRITICAL.rank, reading(text, "Xid 79 as the driver reports it")))
    named = domain(view, row)
    where = f" (NVLink domain {named})" if named else ""
    for verdict in VERDICTS:
        value = float(view.value(verdict.column)[row])
        if verdict.column in params.ignore or _severity(view, verdict)[row] < 0:
            continue
        severity, words = verdict.bad.get(int(value)) or verdict.bad[-1]
        text = f"{words.format(value=value)}{where}"
        found.append((-severity.rank, reading(text, f"{verdict.column} as the driver reports it", value)))
    if found:
        return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))
    state = float(view.value("gpu_fabric_state")[row])
    words = f": registration {FABRIC_STATES.get(int(state), '?')}" if math.isfinite(state) else ""
    return (reading(f"the driver reports no fault{words}{where}", for_it=False),)


def info(view: View, row: int, params: GpuFabricParams) -> dict[str, str]:
    return {"nvlink_domain": named} if (named := domain(view, row)) else {}


def _condition(verdict: Verdict, severity: Severity) -> list[str]:
    name = metric(verdict.column)
    found = [f"{name} == {number}" for number, (of, _) in verdict.bad.items() if number >= 0 and of is severity]
    if math.isfinite(verdict.least) and verdict.bad[-1][0] is severity:
        found.append(f"{name} >= {verdict.least:g}")
    if verdict.registered:
        found = [f"({condition} and {metric('gpu_fabric_state')} == {REGISTERED:g})" for condition in found]
    return found


def promql(params: GpuFabricParams) -> Translation:
    verdicts = [verdict for verdict in VERDICTS if verdict.column not in params.ignore]
    critical, warning = ([c for v in verdicts for c in _condition(v, severity)] for severity in (_C, _W))
    before = any_of(*(there_before(column, params.grace) for column in ("gpu_fabric_state", "gpu_recovery_action")))
    return Translation(
        tuple(
            Alert(f"({any_of(*conditions)}) and ({before})", severity=severity)
            for severity, conditions in ((_C, critical), (_W, warning)) if conditions
        ),
        differs="a GPU with verdicts of both severities has two alerts; none for one that fell off the bus by its Xid",
    )  # fmt: skip


RULE = Rule(
    name="gpu_fabric",
    table=Kind.GPU,
    severity=Severity.CRITICAL,
    scope=Scope.NODE,
    params=GpuFabricParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The NVIDIA driver reports that this GPU fell off the bus or needs a reset, or a fault of its NVLink fabric. "
        "Jobs that use it fail to start, hang or run slower."
    ),
    decision=(
        "The NVIDIA driver itself reports a fault of the NVLink fabric of this GPU, or that the GPU needs a recovery: "
        "unhealthy or limited fabric health, degraded bandwidth, unhealthy routes, an access timeout, an incorrect "
        "configuration, a failed registration, or a recovery action. Or it reports by Xid 79 that the GPU fell off the "
        "bus, and the GPU is not read from then on. Jobs that use NVLink across GPUs fail to start, hang or run "
        "slower. Registration is not evaluated for five minutes after a boot."
    ),
    action=(
        "Compare the fabric section of `nvidia-smi -q -i N` with another GPU of the domain, and read the log of the "
        "fabric manager (NVLink 5: of the NMX controller and `nvidia-imex`). Follow the recovery action that the "
        "driver names: reset the GPU, or drain and reboot the node. An incorrect configuration names its cause: "
        "chassis serial number, partition, number of NVLinks or firmware."
    ),
    yields_to=("nvlink_down",),
    promql=promql,
)
