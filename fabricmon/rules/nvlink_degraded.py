"""nvlink_degraded: NVLinks of a GPU have errors above the vendor's health limits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import SHORTEST, Alert, Translation, any_of, increase, metric, there_before
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration


class NvlinkDegradedParams(RuleParams, frozen=True):
    """Limits of nvlink_degraded (docs/methods.md#nvlink-degraded).

    Counts are those of one interval between two reads, over all links of the GPU.

    crc            CRC errors a second (100: DCGM's health module)
    replays        replays in an interval (1: DCGM's health module)
    recoveries     retrainings in an interval (1: DCGM's health module)
    critical       critical errors of NVLink 5 in an interval (1: DCGM's health module)
    effective_ber  post-FEC BER, NVLink 5 (1e-12: DCGM's health module)
    hold           time above the limits (counters are no estimates)
    clear          time for which all must be below half their limits
    grace          no evaluation for so long after a boot or a driver reload: training makes errors
    """

    crc: float = 100.0
    replays: float = 1.0
    recoveries: float = 1.0
    critical: float = 1.0
    effective_ber: float = 1e-12
    clear: Duration = Duration(60)
    grace: Duration = Duration(120)


_FORMULA = "limit of DCGM's health module"
_COUNTS = (
    ("gpu_nvlink_replay_errors", "replays", "replays"),
    ("gpu_nvlink_recoveries", "recoveries", "retrainings"),
    ("gpu_nvlink_critical_errors", "critical", "critical errors"),
)


def _load(view: View, params: NvlinkDegradedParams) -> NDArray[np.float64]:
    """The greatest reading as a multiple of its limit, NaN unknown."""
    crc = view.delta("gpu_nvlink_crc_errors") / view.dt("gpu_nvlink_crc_errors") / params.crc
    load = np.fmax(crc, view.value("gpu_nvlink_effective_ber") / params.effective_ber)
    for column, limit, _ in _COUNTS:
        load = np.fmax(load, view.delta(column) / getattr(params, limit))
    return load


def test(view: View, params: NvlinkDegradedParams) -> Outcome:
    with np.errstate(invalid="ignore", divide="ignore"):
        load = _load(view, params)
        settling = view.now - view.table.begun[: view.n] < params.grace
    # every GPU with NVLinks reports its links; its counters depend on its generation
    read = np.isfinite(load) & view.fresh("gpu_nvlinks")
    return Outcome(
        fire=load >= 1.0,
        clear=load < 0.5,
        known=view.present & read & ~settling,
        value=load,
    )


def evidence(view: View, row: int, params: NvlinkDegradedParams) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    dt = float(view.dt("gpu_nvlinks")[row])
    rate = float(view.delta("gpu_nvlink_crc_errors")[row]) / dt if dt > 0 else math.nan
    worst = float(view.value("gpu_nvlink_worst")[row])
    most = "" if math.isnan(worst) else f"; link {worst:.0f} has most errors so far"
    if not math.isnan(rate):
        text = f"{rate:.3g} CRC errors a second on its NVLinks{most}"
        found.append(reading(text, _FORMULA, rate, params.crc, rate >= params.crc, "nvlink_degraded.crc"))
    for column, limit, words in _COUNTS:
        count, allowed = float(view.delta(column)[row]), float(getattr(params, limit))
        if not math.isnan(count):
            text = f"{count:.0f} {words} on its NVLinks in {dt:.0f} s{most}"
            found.append(reading(text, _FORMULA, count, allowed, count >= allowed, "nvlink_degraded.count"))
    ratio = float(view.value("gpu_nvlink_effective_ber")[row])
    if not math.isnan(ratio):
        text = f"worst post-FEC BER {ratio:.2g}"
        found.append(
            reading(text, _FORMULA, ratio, params.effective_ber, ratio >= params.effective_ber, "nvlink_degraded.ber")
        )
    found.sort(key=lambda e: not e.for_it)
    return tuple(found) or (reading("no readable counter of its NVLinks", for_it=False),)


def promql(params: NvlinkDegradedParams) -> Translation:
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
    table=Kind.GPU,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=NvlinkDegradedParams,
    test=test,
    evidence=evidence,
    why=(
        "NVLinks of this GPU have errors and send data again. Jobs on this GPU run slower, and a link that trains "
        "again stalls every GPU that uses it."
    ),
    decision=(
        "NVLinks of this GPU have errors above the limits of the vendor's own health check: 100 CRC errors a second "
        "or one replay or retraining in an interval on NVLink 4 and older, one critical error or a post-FEC BER above "
        "1e-12 on NVLink 5. Errors of the first two minutes after a boot come from training and do not count."
    ),
    action=(
        "Find the link with the errors (`nvidia-smi nvlink -e -i N`, or fabricmon_nvlink_* on the node's /metrics) and "
        "check its far end. Search the kernel log for Xid 74 and 144 to 150. Errors that stay on one "
        "link after a GPU reset are its hardware: drain the node and open a case with the vendor."
    ),
    yields_to=("nvlink_down",),
    promql=promql,
)
