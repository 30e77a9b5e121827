"""incast: many senders overrun one receiver, which receives at line rate."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.peer_groups import MINORITY
from fabricmon.fleet.pressure import FALLS, NOTICES, RECEIVE
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import Bools, Groups, Rows, host_ports_up, neighbourhood, others_count, others_mean
from fabricmon.rules.promql import ON_PORT, Alert, Translation, family, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.rules.waiting import lasting_waits
from fabricmon.units import Duration

USUAL = 0.75
"""Share of what a full port receives that it usually does at most where its peers receive nearly as much: a quarter
less, as in the comparison of a port with its own past (docs/methods.md#peer-comparison)."""
LEARNED = 12
"""Slots of 10 s at work before that, from which on its mean counts, as in the comparison of peers."""
UNUSUAL = 3.0
"""Times its usual wait, and that of the other ports of its host, that a sender waits then; as congestion."""

ELSEWHERE = ("storage", "management")
"""Roles of ports that many senders use by design."""


class IncastParams(RuleParams, frozen=True):
    """Limits of incast (docs/methods.md#incast).

    full     Rx utilisation of the receiver, ...
    marked   ... or share of its packets that are ECN-marked, while its Rx utilisation is at least ...
    loaded   ... this: a link that is overrun sends all the time that congestion control leaves it, so marks at less
             were made by bursts or elsewhere on the path
    apart    times the mean of its peers, in Rx, and in marks where it is not full: ports that receive alike are a job
             that uses the fabric well, or congestion of a rail
    senders  ports that are slowed down in the same window
    notices  CNPs a second from which a port counts as slowed down, if they are also twice its own mean of an hour
    waiting  share of time without transmission from which a port counts as slowed down, too
    pausing  share of time; a port that pauses its switch for longer is no victim of its senders
    hold     two windows of 30 s must show it
    clear    time for which it must be over; longer than congestion's, so that its senders recover before it
    """

    full: Share = 0.9
    marked: Share = 0.05
    loaded: Share = 0.75
    apart: Annotated[float, Meta(ge=1)] = 1.5
    senders: Annotated[int, Meta(ge=1)] = 4
    notices: Annotated[float, Meta(gt=0)] = 10.0
    waiting: Share = 0.05
    pausing: Share = 0.02
    hold: Duration = Duration(30)
    clear: Duration = Duration(180)


def slowed(view: View, params: IncastParams) -> NDArray[np.bool_]:
    """Ports that CNPs above their usual rate slow down."""
    pressure, n = view.tracks.pressure, view.n
    notices = pressure.arrivals.recent[NOTICES, :n]
    slow = (notices >= params.notices) & ~(notices < 2 * pressure.notified.mean[:n])
    return slow & pressure.arrivals.known(n, view.now) & view.present


def waiting(view: View, params: IncastParams) -> NDArray[np.bool_]:
    """Ports with data that cannot transmit."""
    pressure, n = view.tracks.pressure, view.n
    return (pressure.waits(n) >= params.waiting) & pressure.stalled.known(n, view.now) & view.present


def senders(view: View, rows: NDArray[np.intp], groups: Groups, params: IncastParams) -> NDArray[np.int64]:
    """Count of other ports that are slowed down: by CNPs, which only senders to a congested port receive; else those
    that wait."""
    count = others_count(slowed(view, params), groups, rows)
    return np.where(count >= params.senders, count, others_count(waiting(view, params), groups, rows))


def _candidates(view: View, params: IncastParams) -> NDArray[np.intp]:
    """Receivers of compute networks that are full or receive marks and do not pause their switch."""
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    rows = np.flatnonzero(
        pressure.busy[:n]
        & ((pressure.traffic.recent[RECEIVE, :n] >= params.full) | (pressure.arrivals.recent[0, :n] > 0))
        & ~(pressure.pausing.recent[0, :n] > params.pausing)
    )
    for role in ELSEWHERE:
        if role in tracks.facts.role_names:
            rows = rows[tracks.facts.role[rows] != tracks.facts.role_names[role]]
    return rows


def _rose_alone(view: View, rows: Rows, groups: Groups) -> Bools:
    """Those of some rows that usually received USUAL of it at most, before the last FALLS slots, as few of their
    neighbourhood did: of loaded peers no port can receive `apart` times as much."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    pressure, n = view.tracks.pressure, view.n
    received, receive = pressure.received, pressure.traffic.recent[RECEIVE]
    before = received.before(rows, pressure.traffic.history(RECEIVE, rows, FALLS))
    found = (before <= USUAL * receive[rows]) & received.of(rows, FALLS + LEARNED)
    at_work = pressure.busy[:n] & view.present
    more = at_work & (received.mean[:n] <= USUAL * receive[:n])
    some = np.maximum(1, MINORITY * (others_count(at_work, groups, rows) + 1))
    return np.asarray(found & (others_count(more, groups, rows) + 1 <= some))


def _with_new_senders(view: View, rows: Rows, groups: Groups, params: IncastParams) -> Rows:
    """Those of some rows that slow others down more than usual: by CNPs, or by waits that are new."""
    if not len(rows):
        return rows
    waits = np.flatnonzero(waiting(view, params) & np.isin(groups, groups[rows]))
    new = np.zeros(view.n, np.bool_)
    new[waits[lasting_waits(view, waits, UNUSUAL)]] = True
    count = np.maximum(others_count(slowed(view, params), groups, rows), others_count(new, groups, rows))
    return np.asarray(rows[count >= params.senders])


def test(view: View, params: IncastParams) -> Outcome:
    pressure, n = view.tracks.pressure, view.n
    receive = pressure.traffic.recent[RECEIVE, :n]
    fire = np.zeros(n, np.bool_)
    clear = ~(receive >= params.full)
    rows = _candidates(view, params)
    if len(rows):
        marked = pressure.marked(rows)
        full, signs = receive[rows] >= params.full, (marked > params.marked) & (receive[rows] >= params.loaded)
        clear[rows[signs]] = False
        keep = full | signs
        rows, full = rows[keep], full[keep]
    if len(rows):
        groups, _ = neighbourhood(view)
        peers = others_mean(receive, pressure.busy[:n], groups, rows)
        alone = ~(receive[rows] < params.apart * peers)
        if not full.all():
            share, busy = np.full(n, np.nan), np.flatnonzero(pressure.busy[:n])
            share[busy] = pressure.marked(busy)
            more = ~(share[rows] < params.apart * others_mean(share, pressure.busy[:n], groups, rows))
            alone &= full | more
        rose = rows[full & ~alone]
        fire[_with_new_senders(view, rose[_rose_alone(view, rose, groups)], groups, params)] = True
        rows = rows[alone]
        if len(rows):
            fire[rows] = senders(view, rows, groups, params) >= params.senders
    return Outcome(
        fire=fire,
        clear=clear & ~fire,
        known=host_ports_up(view) & np.isfinite(receive) & pressure.traffic.known(n, view.now),
        value=receive.astype(np.float64),
    )


def evidence(view: View, row: int, params: IncastParams) -> tuple[Evidence, ...]:
    pressure, n = view.tracks.pressure, view.n
    rows, (groups, where) = np.array([row]), neighbourhood(view)
    found: list[Evidence] = []
    receive = float(pressure.traffic.recent[RECEIVE, row])
    if not np.isnan(receive):
        peers = float(others_mean(pressure.traffic.recent[RECEIVE, :n], pressure.busy[:n], groups, rows)[0])
        text = f"Rx {receive:.0%} of its line rate" + ("" if np.isnan(peers) else f", its peers {peers:.0%}")
        formula = f">= {params.full:.0%} and {params.apart:g} times its peers"
        found.append(reading(text, formula, receive, params.full, receive >= params.full, "incast.receive"))
    marked = float(pressure.marked(rows)[0])
    if not np.isnan(marked):
        text = f"{marked:.1%} of the received packets are ECN-marked"
        formula = f"> {params.marked:.0%}"
        found.append(reading(text, formula, marked, params.marked, marked > params.marked, "incast.marked"))
    count = int(senders(view, rows, groups, params)[0])
    text = f"{count} senders of {where} are slowed down in the same window; the sender of each flow is not known"
    formula = f">= {params.senders} senders"
    found.append(reading(text, formula, count, params.senders, count >= params.senders, "incast.senders"))
    pausing = float(pressure.pausing.recent[0, row])
    if not np.isnan(pausing):
        text = f"PFC pause sent for {pausing:.0%} of the time"
        found.append(reading(text, "", pausing, params.pausing, pausing <= params.pausing, "incast.pausing"))
    return tuple(found) or (reading("Rx of this port is unknown", for_it=False),)


def info(view: View, row: int, params: IncastParams) -> dict[str, str]:
    groups, _ = neighbourhood(view)
    return {"senders": str(int(senders(view, np.array([row]), groups, params)[0]))}


def promql(params: IncastParams) -> Translation:
    receive = f"(rate({metric('rcv')}[1m]) or rate({metric('phy_rx')}[1m])) / {metric('rate')}"
    marked = f"rate({metric('ecn_marked_rx')}[1m]) / rate({metric('rdma_rx_packets')}[1m])"
    signs = f"({marked} > {params.marked:g} and {ON_PORT} {receive} >= {params.loaded:g})"
    pausing = f"rate({family('pfc_tx_pause_prio3')}[1m]) > {params.pausing:g}"
    slow = f"count(rate({metric('cnp_handled')}[1m]) >= {params.notices:g})"
    return Translation(
        alerts=(
            Alert(
                f"(({receive} >= {params.full:g} or {signs}) unless {ON_PORT} ({pausing})) "
                f"and on () ({slow} >= {params.senders})"
            ),
        ),
        differs=(
            "the rule evaluator does not compare a receiver with its peers, counts the slowed-down senders of the "
            "whole fleet by their CNPs only, and knows no roles of ports"
        ),
    )


RULE = Rule(
    name="incast",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=IncastParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "Many senders send to this port at the same time and its link is full, so they have to slow down. The hardware "
        "is healthy; the traffic of the job is the cause."
    ),
    decision=(
        "This port receives at line rate, or 5 % of its packets are ECN-marked, far more than its peers, or, at line "
        "rate, a third more than it usually does, which few of its peers do, while at "
        "least four senders are slowed down in the same window and the port itself does not pause its switch: its link "
        "is oversubscribed. The downlink of its leaf is full. Its hardware is healthy. Without counters per peer the "
        "senders are the ports of its neighbourhood that slow down at that time."
    ),
    action=(
        "Check the traffic of the job to this rank: a parameter server, a gather or a checkpoint to one node, a bad "
        "placement of ranks, or several jobs with one target. Spread it over more adapters, or limit the ranks that "
        "send at a time. Cables and adapters need no attention."
    ),
    yields_to=("pfc_storm", "slow_receiver"),
    promql=promql,
    slow=True,
)
