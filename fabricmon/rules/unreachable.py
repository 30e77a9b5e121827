"""unreachable: a port whose agent is up answers no probe of any other.

Method: docs/methods.md#unreachable.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from fabricmon.fleet.probes import COUNTED
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Translation
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

RECENT = 60.0
"""Seconds after the last probe towards a port from which nothing is known of it."""
UP = 5.0
"""Seconds without a frame for which an agent is up: it sends one a second (docs/methods.md#unreachable)."""


class UnreachableParams(RuleParams, frozen=True):
    """Limits of unreachable and path_lost (docs/methods.md#unreachable).

    probes  towards it in 20 s, at least, none of which was answered
    flows   that they came from, at least; of path_lost it is the one flow
    hold    the windows are persistent already
    clear   how long it must be reached again
    """

    probes: Annotated[float, Meta(ge=3)] = 10.0
    flows: Annotated[float, Meta(ge=1)] = 2.0
    clear: Duration = Duration(20)


def test(view: View, params: UnreachableParams) -> Outcome:
    reach, n = view.tracks.reach, view.n
    asked, answered = reach.asked[:n], reach.answered[:n]
    # a node from which no frame comes answers nothing either: that is agent_silent
    up = view.frame_age() <= UP
    return Outcome(
        fire=up & (asked >= params.probes) & (reach.flows[:n] >= params.flows) & (answered == 0),
        clear=(answered > 0) | ~up,
        known=view.present & (view.now - reach.at[:n] <= RECENT) & reach.settled(view.value(COUNTED), view.now),
        value=asked.astype(np.float64),
    )


def evidence(view: View, row: int, params: UnreachableParams) -> tuple[Evidence, ...]:
    reach = view.tracks.reach
    asked, flows = float(reach.asked[row]), float(reach.flows[row])
    sent, returned = float(reach.sent[row]), float(reach.returned[row])
    text = f"none of {asked:.0f} probes of {flows:.0f} flows towards it answered in 20 s; its agent is up"
    formula = f"at least {params.probes:g} probes of {params.flows:g} flows"
    found = [reading(text, formula, asked, params.probes, measure="unreachable.probes")]
    if sent and returned:
        found.append(reading(
            f"{returned:.0f} of its own {sent:.0f} probes were answered: the network carries its packets, "
            "its responder does not answer or packets towards it are lost"
        ))  # fmt: skip
    elif sent:
        found.append(reading(f"none of its own {sent:.0f} probes was answered either: the adapter reaches nothing"))
    else:
        found.append(reading("it sent no probes of its own in this time"))
    return tuple(found)


def promql(params: UnreachableParams) -> Translation:
    return Translation(differs="agents export probes by leaf, not by peer")


RULE = Rule(
    name="unreachable",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=UnreachableParams,
    test=test,
    evidence=evidence,
    why=(
        "Probes to this port get no answer, although its node runs and reports. Jobs that send to it stall or fail."
    ),
    decision=(
        "Several adapters probe this port and none gets an answer, while the agent of its node reports as usual. Ten "
        "probes that are lost by chance alone need a loss of more than half of all packets. Where its own probes are "
        "answered, packets towards it are lost, or its responder is stopped or blocked by a firewall; where they are "
        "not, the adapter reaches nothing although its link is up."
    ),
    action=(
        "Check the path by hand with `ping` from one of its peers, from the address of the adapter. Check that UDP "
        "port 9795 is open on the node (`agent.probe.port`), that the adapter's address and routes are those of its "
        "rail, and that source-based routes exist where a node has several adapters in one subnet."
    ),
    promql=promql,
)
