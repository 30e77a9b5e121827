"""path_lost: one flow of probes is lost entirely, while its peer is reached by others.

Method: docs/methods.md#path-lost.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.rule import Outcome, Rule, Scope, reading
from fabricmon.rules.unreachable import RECENT, UnreachableParams, promql

LOST_TURNS = 3
"""Turns in each of which all is lost; answers of before a silence of the peer come for 24 s."""


def test(view: View, params: UnreachableParams) -> Outcome:
    probes, n = view.probes, view.n
    sent, lost = probes.sent[:LOST_TURNS, :n], probes.lost[:LOST_TURNS, :n]
    total = lost.sum(axis=0)
    return Outcome(
        fire=(total >= params.probes) & ((sent > 0) & (lost >= sent)).all(axis=0) & probes.reached[:n],
        clear=np.asarray((sent > lost).any(axis=0)),
        known=view.present & view.reporting() & (view.now - probes.at[:n] <= RECENT),
        value=total.astype(np.float64),
    )


def evidence(view: View, row: int, params: UnreachableParams) -> tuple[Evidence, ...]:
    probes = view.probes
    lost = float(probes.lost[:LOST_TURNS, row].sum())
    peer, source = view.label(row, "peer"), view.label(row, "source_port")
    back = probes.back[row]
    text = f"none of {lost:.0f} probes from UDP port {source} to {peer} answered in 30 s; other flows reach {peer}"
    found = [reading(text, f"at least {params.probes:g} probes", lost, params.probes, measure="unreachable.probes")]
    if not np.isnan(back):
        word = "is lost as well: the pair fails both ways" if back == 0 else f"is answered ({back:.0%})"
        found.append(reading(f"the flow from {peer} back to this port {word}", for_it=back == 0))
    return tuple(found)


RULE = Rule(
    name="path_lost",
    table=Kind.FLOW,
    kind="unreachable",
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=UnreachableParams,
    test=test,
    evidence=evidence,
    title="One path loses everything",
    why=(
        "One path between two adapters loses every packet, while other paths between them work. Jobs that use that "
        "path stall or fail."
    ),
    decision=(
        "All probes of one flow are lost while other flows reach the same peer. Switches choose a path by the UDP "
        "ports of a packet, so one of several equal paths drops what it gets: a black hole, by a wrong route or a "
        "faulty part of a switch. Connections that hash onto it fail or stall, others do not notice."
    ),
    action=(
        "Trace the path with the same addresses and the source port of the flow (the evidence names it), and compare "
        "the routes and counters of the switches on it. If other flows through one leaf or cable fail too, there is an "
        "incident of that part. Take the path out of the routing until it is repaired."
    ),
    yields_to=("flow_loss", "unreachable"),
    promql=promql,
)
