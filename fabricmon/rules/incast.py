"""incast: many senders overrun one receiver, which itself takes all that the line carries."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.pressure import NOTICES, RECEIVE
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import Groups, neighbourhood, others_count, others_mean
from fabricmon.rules.promql import Alert, Translation, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Share = Annotated[float, Meta(gt=0, le=1)]

ELSEWHERE = ("storage", "management")
"""Roles of ports that many write to on purpose."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of incast.

    full     share of the line rate that the receiver takes (0.9: detection-methods 3.2)
    marked   share of its packets that came with a congestion mark; one of the two is enough (0.05: 3.2)
    apart    times the mean of its peers, in what is received or in what is marked: all that receive alike are a job
             that uses the fabric well, or congestion of a rail (1.5: design)
    senders  ports that are slowed down in the same window (4: detection-methods 3.2)
    notices  congestion notifications a second from which on a port counts as slowed down, if they are also twice its
             own mean of an hour (10: design)
    waiting  share of time in which a port must wait from which on it counts as slowed down, too (0.05: 3.1)
    pausing  share of time: who pauses its switch more than that is no victim of its senders (0.02: design)
    hold     s; two windows of 30 s must show it (30)
    clear    how long it must be over; longer than congestion's, so that its senders recover before it (3 min: design)
    """

    full: Share = 0.9
    marked: Share = 0.05
    apart: Annotated[float, Meta(ge=1)] = 1.5
    senders: Annotated[int, Meta(ge=1)] = 4
    notices: Annotated[float, Meta(gt=0)] = 10.0
    waiting: Share = 0.05
    pausing: Share = 0.02
    hold: Duration = Duration(30)
    clear: Duration = Duration(180)


def slowed(view: View, params: Params) -> NDArray[np.bool_]:
    """Ports that congestion notifications above their usual slow down."""
    pressure, n = view.tracks.pressure, view.n
    notices = pressure.arrivals.recent[NOTICES, :n]
    with np.errstate(invalid="ignore"):
        told = (notices >= params.notices) & ~(notices < 2 * pressure.notified[:n])
    return told & pressure.arrivals.known(n, view.now) & view.present


def waiting(view: View, params: Params) -> NDArray[np.bool_]:
    """Ports that have to wait with data to send."""
    pressure, n = view.tracks.pressure, view.n
    with np.errstate(invalid="ignore"):
        return (pressure.waits(n) >= params.waiting) & pressure.stalled.known(n, view.now) & view.present


def senders(view: View, rows: NDArray[np.intp], groups: Groups, params: Params) -> NDArray[np.int64]:
    """How many others are held back: by notifications, which only go to who sends to a congested place; else those that
    wait."""
    told = others_count(slowed(view, params), groups, rows)
    return np.where(told >= params.senders, told, others_count(waiting(view, params), groups, rows))


def _candidates(view: View, params: Params) -> NDArray[np.intp]:
    """Receivers that are full or get marks and pause nobody, of the networks of jobs."""
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(
            pressure.busy[:n]
            & ((pressure.traffic.recent[RECEIVE, :n] >= params.full) | (pressure.arrivals.recent[0, :n] > 0))
            & ~(pressure.pausing.recent[0, :n] > params.pausing)
        )
    for role in ELSEWHERE:
        if role in tracks.facts.role_names:
            rows = rows[tracks.facts.role[rows] != tracks.facts.role_names[role]]
    return rows


def test(view: View, params: Params) -> Outcome:
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    receive = pressure.traffic.recent[RECEIVE, :n]
    fire = np.zeros(n, np.bool_)
    clear = ~(receive >= params.full)
    rows = _candidates(view, params)
    if len(rows):
        marked = pressure.marked(rows)
        with np.errstate(invalid="ignore"):
            full, signs = receive[rows] >= params.full, marked > params.marked
        clear[rows[signs]] = False
        keep = full | signs
        rows, full, signs = rows[keep], full[keep], signs[keep]
    if len(rows):
        groups, _ = neighbourhood(view)
        alone = np.zeros(len(rows), np.bool_)
        with np.errstate(invalid="ignore"):
            if full.any():
                peers = others_mean(receive, pressure.busy[:n], groups, rows)
                alone |= full & ~(receive[rows] < params.apart * peers)
            if signs.any():
                share, busy = np.full(n, np.nan), np.flatnonzero(pressure.busy[:n])
                share[busy] = pressure.marked(busy)
                alone |= signs & ~(share[rows] < params.apart * others_mean(share, pressure.busy[:n], groups, rows))
        rows = rows[alone]
        if len(rows):
            fire[rows] = senders(view, rows, groups, params) >= params.senders
    known = view.present & (tracks.link[:n] == link.UP) & np.isfinite(receive) & pressure.traffic.known(n, view.now)
    return Outcome(
        fire=fire,
        clear=clear & ~fire,
        known=known & ~tracks.facts.swept[:n],
        value=receive.astype(np.float64),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, pressure, n = str(view.table.ids[row]), view.tracks.pressure, view.n
    rows, (groups, where) = np.array([row]), neighbourhood(view)
    found: list[Evidence] = []
    receive = float(pressure.traffic.recent[RECEIVE, row])
    if not np.isnan(receive):
        peers = float(others_mean(pressure.traffic.recent[RECEIVE, :n], pressure.busy[:n], groups, rows)[0])
        text = f"receives at {receive:.0%} of its line rate" + (
            "" if np.isnan(peers) else f", its peers at {peers:.0%}"
        )
        formula = f">= {params.full:.0%} and {params.apart:g} times its peers (detection-methods 3.2)"
        found.append(Evidence(component, text, formula, receive, params.full, receive >= params.full))
    marked = float(pressure.marked(rows)[0])
    if not np.isnan(marked):
        text = f"{marked:.1%} of the packets that it received came with a congestion mark"
        formula = f"> {params.marked:.0%} (detection-methods 3.2)"
        found.append(Evidence(component, text, formula, marked, params.marked, marked > params.marked))
    count = int(senders(view, rows, groups, params)[0])
    text = f"{count} senders of {where} are slowed down in the same window; who sends to whom is not known"
    formula = f">= {params.senders} senders (detection-methods 3.2)"
    found.append(Evidence(component, text, formula, count, params.senders, count >= params.senders))
    pausing = float(pressure.pausing.recent[0, row])
    if not np.isnan(pausing):
        text = f"pauses its switch for a share of {pausing:.2f} of the time"
        found.append(Evidence(component, text, value=pausing, limit=params.pausing, for_it=pausing <= params.pausing))
    return tuple(found) or (Evidence(component, "what this port receives is not known", for_it=False),)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    groups, _ = neighbourhood(view)
    return {"senders": str(int(senders(view, np.array([row]), groups, params)[0]))}


def promql(params: Params) -> Translation:
    receive = f"(rate({metric('rcv')}[1m]) or rate({metric('phy_rx')}[1m])) / {metric('rate')}"
    marked = f"rate({metric('ecn_marked_rx')}[1m]) / rate({metric('rdma_rx_packets')}[1m])"
    slow = f"count(rate({metric('cnp_handled')}[1m]) >= {params.notices:g})"
    return Translation(
        alerts=(
            Alert(
                f"({receive} >= {params.full:g} or {marked} > {params.marked:g}) and on () ({slow} >= {params.senders})"
            ),
        ),
        differs=(
            "the ruler does not compare a receiver with its peers, counts the senders that are slowed down in the "
            "whole fleet, and knows no roles of ports"
        ),
    )


RULE = Rule(
    name="incast",
    kind="incast",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=30.0,
    clear=180.0,
    title="Incast",
    why=(
        "This port receives all that its line carries, or a twentieth of its packets came with a congestion mark, far "
        "more than its peers, while at least four senders are slowed down in the same window and the port itself "
        "pauses nobody: more is sent to it at a time than its link can take. The down-link of its leaf is full. Its "
        "hardware is healthy. Without counts per peer the senders are those of its neighbourhood that slow down at "
        "that time."
    ),
    action=(
        "Look at what the job sends to this rank: a parameter server, a gather or a checkpoint to one node, a bad "
        "placement of ranks, or several jobs with one target. Spread it over more adapters, or limit how many ranks "
        "send at a time. No cable and no adapter needs attention."
    ),
    yields_to=("pfc_storm", "slow_receiver"),
    promql=promql,
)
