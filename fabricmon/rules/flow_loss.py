"""flow_loss: packets from one port to one peer are lost on the way. The limits are those of packet_loss.

Method: docs/methods.md#flow-loss.
"""

from __future__ import annotations

from fabricmon.model import Kind, Severity
from fabricmon.rules.packet_loss import DIFFERS, SPAN, WHY, PacketLossParams, evidence, info, lossy, test
from fabricmon.rules.promql import Alert, Translation, increase
from fabricmon.rules.rule import Rule, Scope


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
    action=(
        "The incident names the cables and switches that the lossy flows have in common. Take that cable or switch out "
        "of the routing, then check its error counters and reseat or replace it."
    ),
    promql=promql,
)
