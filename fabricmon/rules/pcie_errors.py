"""pcie_errors: PCIe errors of a device or of the bridges above it: uncorrected ones, or many corrected ones."""

from __future__ import annotations

import math

import numpy as np

from fabricmon.fleet.device_errors import CORRECTED, SPELL, UNCORRECTED
from fabricmon.fleet.row_state import Floats
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, increase, metric, total
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading

MINUTE = 60.0


class PcieErrorsParams(RuleParams, frozen=True):
    """Limits of pcie_errors (docs/methods.md#pcie-errors).

    uncorrected  errors that were not corrected, since 5 minutes without one (any: the health checks of Meta's GCM)
    corrected    corrected errors a minute for each GT/s and lane of the link (0.06: DCGM's limit for replays), on
                 average since 5 minutes without one and over a minute at least
    hold         time above the limits (counts are no estimates)
    clear        time below half of them: the five minutes without an error are the hysteresis
    """

    uncorrected: float = 1.0
    corrected: float = 0.06


def _limit(view: View, params: PcieErrorsParams) -> Floats:
    """Corrected errors a minute that the link of each row may have, NaN where its speed or width is unknown."""
    return params.corrected * view.value("pcie_speed") / 1e9 * view.value("pcie_width")


def _rate(view: View) -> Floats:
    """Corrected errors a minute, of rows that counted one within SPELL; 0 of others."""
    errors, n = view.pcie.corrected, view.n
    lately = view.now - errors.last[:n] <= SPELL
    lasted = np.fmax(view.now - errors.since[:n], MINUTE)
    return np.where(lately, MINUTE * errors.count[:n] / lasted, 0.0)


def test(view: View, params: PcieErrorsParams) -> Outcome:
    errors, n = view.pcie.uncorrected, view.n
    count = np.where(view.now - errors.last[:n] <= SPELL, errors.count[:n], 0.0)
    load = np.fmax(count / params.uncorrected, _rate(view) / _limit(view, params))
    read = [np.isfinite(view.value(column)) & view.fresh(column) for column in (*UNCORRECTED, *CORRECTED)]
    return Outcome(
        fire=load >= 1.0,
        clear=load < 0.5,
        known=view.present & ~view.pcie.bridge[:n] & np.logical_or.reduce(read),  # what a bridge counts is its devices'
        value=load,
    )


def evidence(view: View, row: int, params: PcieErrorsParams) -> tuple[Evidence, ...]:
    who = view.label(row, "owner") or view.label(row, "class") or "device"
    found: list[Evidence] = []
    errors = view.pcie.uncorrected
    if view.now - errors.last[row] <= SPELL:
        text = (
            f"{who} or its bridges counted {errors.count[row]:.0f} PCIe errors that were not corrected since "
            f"{clock_time(float(errors.since[row]))}, the last at {clock_time(float(errors.last[row]))}"
        )
        formula = "AER nonfatal and fatal, of the device and the bridges above it"
        found.append(reading(text, formula, float(errors.count[row]), params.uncorrected,
                             errors.count[row] >= params.uncorrected, "pcie_errors.uncorrected"))  # fmt: skip
    rate, limit = float(_rate(view)[row]), float(_limit(view, params)[row])
    if rate > 0.0:
        allowed = "" if math.isnan(limit) else f"; a good link of its speed and width has less than {limit:.3g}"
        text = f"{who} and its bridges count {rate:.3g} corrected PCIe errors a minute{allowed}"
        formula = "limit of DCGM's health module for replays"
        found.append(reading(text, formula, rate, limit, rate >= limit, "pcie_errors.corrected"))
    found.sort(key=lambda e: not e.for_it)
    return tuple(found) or (reading(f"{who} counted no PCIe error in the last 5 min", for_it=False),)


def info(view: View, row: int, params: PcieErrorsParams) -> dict[str, str]:
    return {"pci": view.label(row, "device"), "device_class": view.label(row, "class")}


def promql(params: PcieErrorsParams) -> Translation:
    uncorrected = total(*(increase(column, SPELL) for column in UNCORRECTED))
    minutes = SPELL / MINUTE
    limit = f"{params.corrected * minutes:g} * {metric('pcie_speed')} / 1e9 * {metric('pcie_width')}"
    corrected = f"({total(*(increase(column, SPELL) for column in CORRECTED))} >= {limit})"
    return Translation(
        (Alert(any_of(f"round({uncorrected}) >= {params.uncorrected:g}", corrected)),),
        differs=(
            "counts are those of five minutes, not since five minutes without an error, and bridges have alerts of "
            "their own"
        ),
    )


RULE = Rule(
    name="pcie_errors",
    table=Kind.PCIE,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=PcieErrorsParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The PCIe link of this device has errors. Packets that are not corrected are lost, and the device or its "
        "driver may stop; corrected ones are sent again, so its jobs run slower."
    ),
    decision=(
        "This device or a bridge between it and the CPU counted an error that was not corrected (AER nonfatal or "
        "fatal) in the last five minutes, or more corrected errors a minute than NVIDIA's DCGM allows of replays: 0.06 "
        "for each GT/s and lane, 31 at 32 GT/s with 16 lanes. The kernel counts a burst as one error."
    ),
    action=(
        "See which end counts which errors (`fabricmon_pcie_aer_*` on the node's /metrics, `lspci -vvv`) and read the "
        "kernel log. Errors of the receiver (RxErr, BadTLP, BadDLLP) are of the link: reseat the card, riser or "
        "cable, then swap it. Time-outs of completions are of the device: update its firmware, then replace it."
    ),
    promql=promql,
)
