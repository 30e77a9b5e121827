"""flow_loss: packets from one port to one peer are lost on the way. See packet_loss; the limits are the same."""

from __future__ import annotations

from fabricmon.model import Kind, Severity
from fabricmon.rules.packet_loss import DIFFERS, SPAN, WHY, Params, evidence, info, lossy, test
from fabricmon.rules.promql import Alert, Translation, increase
from fabricmon.rules.rule import Rule, Scope


def promql(params: Params) -> Translation:
    condition = lossy(increase("flow_lost", SPAN), increase("flow_packets", SPAN), params)
    return Translation((Alert(condition),), differs=DIFFERS)


RULE = Rule(
    name="flow_loss",
    kind="flow_loss",
    table=Kind.FLOW,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=0.0,
    clear=20.0,
    title="Packet loss towards one peer",
    why=WHY,
    action=(
        "See which cables and switches the lossy flows have in common: the incident names them. Take that cable or "
        "switch out of the routing, then look at its error counters and reseat or replace it."
    ),
    promql=promql,
)
