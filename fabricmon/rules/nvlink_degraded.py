"""nvlink_degraded: NVLinks of a GPU make errors, judged by the vendor's health limits."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import SHORTEST, Alert, Translation, any_of, increase, metric, there_before
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of nvlink_degraded. Counts are those of one interval between two reads, over all links of the GPU.

    crc            checksum errors a second (100: DCGM's health module)
    replays        repeated transmissions in an interval (1: DCGM's health module)
    recoveries     retrainings in an interval (1: DCGM's health module)
    critical       errors of NVLink 5 in an interval of which one is a failure (1: DCGM's health module)
    effective_ber  bit error ratio after error correction, NVLink 5 (1e-12: DCGM's health module)
    hold           how long the limits must be passed (0: counters are no estimates)
    clear          how long all must be below half their limits (60 s, six polls: design)
    grace          no judgement for so long after a boot or a driver reload: training makes errors (120 s:
                   detection-methods 3.3)
    """

    crc: float = 100.0
    replays: float = 1.0
    recoveries: float = 1.0
    critical: float = 1.0
    effective_ber: float = 1e-12
    hold: Duration = Duration(0)
    clear: Duration = Duration(60)
    grace: Duration = Duration(120)


_COUNTS = (
    ("gpu_nvlink_replay_errors", "replays", "repeated transmissions"),
    ("gpu_nvlink_recoveries", "recoveries", "retrainings"),
    ("gpu_nvlink_critical_errors", "critical", "critical errors"),
)


def _load(view: View, params: Params) -> NDArray[np.float64]:
    """The greatest reading as a multiple of its limit; NaN where nothing is known."""
    crc = view.delta("gpu_nvlink_crc_errors") / view.dt("gpu_nvlink_crc_errors") / params.crc
    load = np.fmax(crc, view.value("gpu_nvlink_effective_ber") / params.effective_ber)
    for column, limit, _ in _COUNTS:
        load = np.fmax(load, view.delta(column) / getattr(params, limit))
    return load


def test(view: View, params: Params) -> Outcome:
    with np.errstate(invalid="ignore", divide="ignore"):
        load = _load(view, params)
        settling = view.now - view.table.begun[: view.n] < params.grace
    # every GPU with NVLinks tells its links; which counters it has depends on its generation
    told = np.isfinite(load) & view.fresh("gpu_nvlinks")
    return Outcome(
        fire=load >= 1.0,
        clear=load < 0.5,
        known=view.present & told & ~settling,
        value=load,
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component = str(view.table.ids[row])
    found: list[Evidence] = []
    dt = float(view.dt("gpu_nvlinks")[row])
    rate = float(view.delta("gpu_nvlink_crc_errors")[row]) / dt if dt > 0 else math.nan
    worst = float(view.value("gpu_nvlink_worst")[row])
    most = "" if math.isnan(worst) else f"; link {worst:.0f} has most errors of all so far"
    if not math.isnan(rate):
        text = f"{rate:.3g} checksum errors a second on its NVLinks{most}"
        found.append(Evidence(component, text, "DCGM health limit", rate, params.crc, rate >= params.crc))
    for column, limit, words in _COUNTS:
        count, allowed = float(view.delta(column)[row]), float(getattr(params, limit))
        if not math.isnan(count):
            text = f"{count:.0f} {words} on its NVLinks in {dt:.0f} s{most}"
            found.append(Evidence(component, text, "DCGM health limit", count, allowed, count >= allowed))
    ratio = float(view.value("gpu_nvlink_effective_ber")[row])
    if not math.isnan(ratio):
        text = f"worst bit error ratio after correction {ratio:.2g}"
        found.append(
            Evidence(component, text, "DCGM health limit", ratio, params.effective_ber, ratio >= params.effective_ber)
        )
    found.sort(key=lambda e: not e.for_it)
    return tuple(found) or (Evidence(component, "no counter of its NVLinks can be read", for_it=False),)


def promql(params: Params) -> Translation:
    conditions = [f"{increase('gpu_nvlink_crc_errors', SHORTEST)} >= {params.crc * SHORTEST:g}"]
    conditions += [f"round({increase(c, SHORTEST)}) >= {getattr(params, limit):g}" for c, limit, _ in _COUNTS]
    conditions.append(f"{metric('gpu_nvlink_effective_ber')} >= {params.effective_ber:g}")
    return Translation(
        (Alert(f"({any_of(*conditions)}) and {there_before('gpu_nvlinks', params.grace)}"),),
        differs=(
            "counts are those of a minute, not of one interval between two reads, and it ends below the limits, not "
            "below half of them"
        ),
    )


RULE = Rule(
    name="nvlink_degraded",
    kind="nvlink_degraded",
    table=Kind.GPU,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=60.0,
    title="NVLink errors",
    why=(
        "NVLinks of this GPU make errors beyond the limits of the vendor's own health check: 100 checksum errors a "
        "second or one repeated transmission or retraining in an interval on NVLink 4 and older, one critical error or "
        "a bit error ratio above 1e-12 after correction on NVLink 5. Corrected errors cost bandwidth; a link that "
        "retrains stalls every GPU that talks over it. Errors of the first two minutes after a boot come from training "
        "and are not judged."
    ),
    action=(
        "See which link has the errors (`nvidia-smi nvlink -e -i N`, or fabricmon_nvlink_* on the node's /metrics) and "
        "whether its far end shows them too. Look for Xid 74 and 144 to 150 in the kernel log. Errors that stay on one "
        "link after a GPU reset are its hardware: drain the node and open a case with the vendor."
    ),
    yields_to=("nvlink_down",),
    promql=promql,
)
