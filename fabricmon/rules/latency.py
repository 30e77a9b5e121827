"""latency: the round trip of a flow is several times its own usual one and that of its like.

Method: docs/methods.md#latency.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from fabricmon.fleet.probes import LEARN
from fabricmon.fleet.row_state import Floats
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Translation
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

RECENT = 30.0
"""Seconds for which a round trip is current."""


class LatencyParams(RuleParams, frozen=True):
    """Limits of latency (docs/methods.md#latency).

    times   multiple of the flow's own usual round trip, and of that of all flows of its sort
    least   seconds above both, at least: shorter differences are of the host's own time stamps
    hold    three windows are the hold
    clear   how long it must be nearer to its usual round trip than to the limit
    """

    times: Annotated[float, Meta(gt=1)] = 3.0
    least: Annotated[float, Meta(ge=0)] = 5e-5
    clear: Duration = Duration(30)


def limits(view: View, params: LatencyParams) -> Floats:
    """Seconds per row, NaN where nothing usual is known."""
    probes, n = view.probes, view.n
    of_class = np.where(probes.apart[:n], probes.class_usual[True], probes.class_usual[False])
    own = np.where(probes.seen[:n] >= LEARN, probes.usual[:n], np.nan)
    usual = np.fmax(own, of_class)
    return np.asarray(np.maximum(params.times * usual, usual + params.least))


def test(view: View, params: LatencyParams) -> Outcome:
    probes, n = view.probes, view.n
    limit, recent = limits(view, params), probes.rtts[:, :n]
    with np.errstate(invalid="ignore"):
        above = np.asarray(recent > limit)
        below = np.asarray(recent[0] < (probes.usual[:n] + limit) / 2)
    return Outcome(
        fire=np.logical_and.reduce(above, axis=0),
        clear=below & ~above[0],
        known=view.present & np.isfinite(recent[0]) & np.isfinite(limit) & (view.now - probes.at[:n] <= RECENT),
        value=recent[0].copy(),
    )


def evidence(view: View, row: int, params: LatencyParams) -> tuple[Evidence, ...]:
    probes = view.probes
    limit, rtt = float(limits(view, params)[row]), float(probes.rtts[0, row])
    where = "between leaves" if probes.apart[row] else "on one leaf"
    usual, of_class = float(probes.usual[row]), probes.class_usual[bool(probes.apart[row])]
    text = (
        f"median round trip on the network {rtt * 1e6:.0f} us in three windows of 10 s; usual are {usual * 1e6:.0f} us "
        f"of this flow and {of_class * 1e6:.0f} us of flows {where}"
    )
    formula = f"{params.times:g} times the larger, and {params.least * 1e6:g} us more"
    found = [reading(text, formula, rtt, limit, measure="latency.rtt")]
    for column, whose in (("flow_own_delay", "this host"), ("flow_peer_delay", "the responder's host")):
        delay = float(view.value(column)[row])
        if not np.isnan(delay):
            found.append(reading(f"delay on {whose}, which is not part of it: {delay * 1e6:.0f} us (99 %)"))
    return tuple(found)


def promql(params: LatencyParams) -> Translation:
    return Translation(differs="agents export round trips by leaf, not by peer")


RULE = Rule(
    name="latency",
    table=Kind.FLOW,
    severity=Severity.INFO,
    scope=Scope.FLEET,
    params=LatencyParams,
    test=test,
    evidence=evidence,
    why=(
        "Packets of this connection take much longer than usual, because queues in the network are full or their path "
        "has changed. Jobs that use it wait."
    ),
    decision=(
        "The median round trip of the network alone, without the time on both hosts, is three times as long as usual "
        "for this flow and for flows of its sort, in three windows of 10 s. The network holds packets: queues that "
        "stay full, a detour over other switches, a port that is paused or runs slowly. A busy host does not lengthen "
        "it, as the kernel stamps each packet at the adapter's driver."
    ),
    action=(
        "Compare with congestion, link_degraded and the utilisation of the leaf and its uplinks. Several flows of one "
        "leaf: its uplinks or queues. One flow between two leaves: trace its path by its source port. Jobs that wait "
        "for one rank show as stragglers on the same hosts."
    ),
    promql=promql,
)
