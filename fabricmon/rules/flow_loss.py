"""flow_loss: packets from one port to one peer are lost on the way. The limits are those of packet_loss.

Method: docs/methods.md#flow-loss.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.row_state import Floats, Numbers
from fabricmon.fleet.view import View
from fabricmon.forms.readable import share_text
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules import packet_loss
from fabricmon.rules.packet_loss import DECISION, DIFFERS, SPAN, WHY, PacketLossParams, grade, lossy
from fabricmon.rules.promql import Alert, Translation, increase
from fabricmon.rules.rule import Outcome, Rule, Scope, reading

RECENT = 60.0
"""Seconds without a probe after which what probes showed is unknown."""


def test(view: View, params: PacketLossParams) -> Outcome:
    """By windows of each flow; of probes, which are few a flow, by all flows of a part together."""
    found, probes, n = packet_loss.test(view, params), view.probes, view.n
    rows = np.flatnonzero(np.isfinite(view.value("flow_late")))
    bad, clean = probes.bad[:n][rows], probes.clean[:n][rows]
    found.fire[rows], found.clear[rows] = bad, clean
    found.known[rows] = (bad | clean) & (view.now - probes.at[:n][rows] <= RECENT) & view.present[rows]
    found.value[rows] = np.where(bad, _shares(view, rows), 0.0)
    return found


def _shares(view: View, rows: Numbers) -> Floats:
    lost, sent = view.probes.lost[:, rows].sum(axis=0), view.probes.sent[:, rows].sum(axis=0)
    return np.asarray(lost / np.maximum(sent, 1.0), np.float64)


def info(view: View, row: int, params: PacketLossParams) -> dict[str, str]:
    if not np.isfinite(view.value("flow_late")[row]):
        return packet_loss.info(view, row, params)
    return {"grade": grade(float(_shares(view, np.array([row]))[0]), params)}


def evidence(view: View, row: int, params: PacketLossParams) -> tuple[Evidence, ...]:
    if not np.isfinite(view.value("flow_late")[row]):
        return packet_loss.evidence(view, row, params)
    lost, sent = float(view.probes.lost[:, row].sum()), float(view.probes.sent[:, row].sum())
    share = float(_shares(view, np.array([row]))[0])
    formula = "probes without an answer over probes sent, of all flows of a part (docs/methods.md#pooled-losses)"
    text = f"{share_text(share)} of probes lost: {lost:,.0f} of {sent:,.0f} in the last minute"
    return (reading(text, formula, share, measure="flow_loss.share"),)


def promql(params: PacketLossParams) -> Translation:
    condition = lossy(increase("flow_lost", SPAN), increase("flow_packets", SPAN), params)
    return Translation((Alert(condition),), differs=DIFFERS)


RULE = Rule(
    name="flow_loss",
    table=Kind.FLOW,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=PacketLossParams,
    test=test,
    evidence=evidence,
    info=info,
    why=WHY,
    decision=DECISION,
    action=(
        "Take the cable or switch that the lossy flows have in common out of the routing. The incident names it. Then "
        "check its error counters and reseat or replace it."
    ),
    promql=promql,
)
