"""credits_withheld: a port receives far less than usual while it sends on, and ports near it wait for credits."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from fabricmon.fleet.peer_groups import MINORITY
from fabricmon.fleet.pressure import PRESSED, RECEIVE, TRANSMIT
from fabricmon.fleet.row_state import Singles
from fabricmon.fleet.slots import WINDOW
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.congestion import AFTER
from fabricmon.rules.incast import ELSEWHERE
from fabricmon.rules.neighbours import Bools, Rows, host_ports_up, neighbourhood, others_count
from fabricmon.rules.promql import not_expressible
from fabricmon.rules.rule import Outcome, Ratio, Rule, RuleParams, RuleText, Scope, reading
from fabricmon.rules.waiting import RAISING, begun, fell_most, lasting_waits
from fabricmon.units import Duration

NEAR = ("rail", "leaf")
"""Domains of ports that back-pressure of one receiver reaches first."""
CHANCE, RARE = math.log(0.01), math.log(0.001)
"""Probabilities below which ports anywhere in its network began to wait with a port that receives less than `less`, or
than `part`, not by chance (docs/methods.md#waits-that-begin)."""
SMALLEST = 1e-6
"""Probability below which the model itself may be wrong: beginnings are only nearly Poisson."""
LEARNED = 12
"""Slots of 10 s at work from which on the means of a port count, as in the comparison of peers."""


class CreditsWithheldParams(RuleParams, frozen=True):
    """Limits of credits_withheld (docs/methods.md#credits-withheld).

    less     share of its usual Rx, and of its usual ratio of Rx to Tx, below which a port receives too little: half,
             which one of two senders leaves, less what a mean of 90 s of the pulses of a job may be off
    part     the same where ports of its network began to wait at that moment, which the end of a sender does not
             explain: a quarter less, as for a port that is compared with its own past
    calm     share of its usual ratio from which it receives again
    waiting  other ports of its rail or leaf that wait
    apart    times their usual wait, and the wait of the other ports of their hosts; as congestion
    hold     the waits last three windows of 30 s
    clear    time for which it must be calm; as slow_receiver
    """

    less: Ratio = 0.45
    part: Ratio = 0.75
    calm: Ratio = 0.8
    waiting: Annotated[int, Meta(ge=1)] = 2
    apart: Annotated[float, Meta(ge=1)] = 3.0
    clear: Duration = Duration(180)


def _referenced(view: View) -> Bools:
    """Rows whose traffic and waits were read lately and of which it is known what is usual."""
    pressure, n, now = view.tracks.pressure, view.n, view.now
    return pressure.received.of(slice(n), LEARNED) & pressure.traffic.known(n, now) & pressure.stalled.known(n, now)


def _of_usual(view: View) -> tuple[Singles, Singles]:
    """Rx of the last window, and its ratio to Tx, as shares of what they usually are; NaN unknown or idle."""
    pressure, n = view.tracks.pressure, view.n
    receive, transmit = pressure.traffic.recent[RECEIVE, :n], pressure.traffic.recent[TRANSMIT, :n]
    usual: Singles = np.where(_referenced(view) & pressure.busy[:n], pressure.received.mean[:n], np.float32(np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        of_rx: Singles = receive / usual
        of_ratio: Singles = of_rx / (transmit / pressure.sent.mean[:n])
    return of_rx, np.where(np.isfinite(of_ratio), of_ratio, np.float32(np.nan))


def _lasts(view: View, rows: Rows, less: float) -> Rows:
    """Those of `rows` that received too little over all windows in which the others must have waited."""
    pressure = view.tracks.pressure
    receive, transmit = (pressure.traffic.history(way, rows, RAISING * WINDOW) for way in (RECEIVE, TRANSMIT))
    with np.errstate(divide="ignore", invalid="ignore"):
        of_rx = receive.mean(axis=0) / pressure.received.mean[rows]
        of_ratio = of_rx / (transmit.mean(axis=0) / pressure.sent.mean[rows])
    return np.asarray(rows[(of_rx < less) & (of_ratio < less)])


def _compute(view: View) -> Bools:
    """Ports of hosts whose role is no other than compute; those of storage change between reads and writes."""
    facts, n = view.tracks.facts, view.n
    elsewhere = [facts.role_names[role] for role in ELSEWHERE if role in facts.role_names]
    return host_ports_up(view) & ~np.isin(facts.role[:n], elsewhere)


def _alone(view: View, fell: Bools, at_work: Bools) -> Rows:
    """Ports that fell alone: not with most ports of their host, nor with many of their rail, which is other work."""
    rail, rows = view.group("rail"), np.flatnonzero(fell)
    others, too = others_count(at_work, view.node, rows), others_count(fell, view.node, rows)
    rows = rows[(others == 0) | (2 * (too + 1) <= others + 1)]
    many = np.maximum(1, MINORITY * (others_count(at_work, rail, rows) + 1))
    return np.asarray(rows[others_count(fell, rail, rows) + 1 <= many])


def _waiting(view: View, rows: Rows, params: CreditsWithheldParams) -> tuple[Rows, Rows]:
    """Those of `rows` that do not wait themselves, and how many other ports of their rail or leaf do."""
    groups = [view.group(domain) for domain in NEAR]
    near = np.zeros(view.n, np.bool_)
    for group in groups:
        mine = group[rows]
        near |= np.isin(group, mine[mine >= 0])
    near &= host_ports_up(view) & (view.tracks.pressure.stalled.recent[0, : view.n] >= PRESSED)
    beside = np.flatnonzero(near)
    shows = np.zeros(view.n, np.bool_)
    shows[beside[lasting_waits(view, beside, params.apart)]] = True
    rows = rows[~shows[rows]]
    return rows, np.max([others_count(shows, group, rows) for group in groups], axis=0)


def _candidates(view: View, fell: Bools, at_work: Bools, less: float) -> Rows:
    """Those that fell alone, and for as long as others must have waited; pause that is counted decides by itself."""
    if not fell.any():
        return np.zeros(0, np.intp)
    rows = _alone(view, fell, at_work)
    return _lasts(view, rows[np.isnan(view.tracks.pressure.pausing.recent[0, rows])], less)


def _with_its_senders(view: View, rows: Rows, fell: Rows, of_rx: Singles, chance: float, apart: float) -> Rows:
    """Those of `rows` with which ports of their network began to wait, and that fell most at that moment."""
    if not len(rows):
        return rows
    rows = rows[begun(view, rows, apart).chance < chance]
    return np.asarray(rows[fell_most(view, rows, fell, of_rx)]) if len(rows) else rows


def test(view: View, params: CreditsWithheldParams) -> Outcome:
    pressure, n = view.tracks.pressure, view.n
    of_rx, of_ratio = _of_usual(view)
    fire, at_work = np.zeros(n, np.bool_), np.isfinite(of_ratio) & _compute(view)
    some = at_work & (of_rx < params.part) & (of_ratio < params.part)
    much = some & (of_rx < params.less) & (of_ratio < params.less)
    if len(rows := _candidates(view, much, at_work, params.less)):
        near, waiting = _waiting(view, rows, params)
        fire[near[waiting >= params.waiting]] = True
        fire[_with_its_senders(view, rows, np.flatnonzero(some), of_rx, CHANCE, params.apart)] = True
    rows = _candidates(view, some, at_work, params.part)
    fire[_with_its_senders(view, rows, np.flatnonzero(some), of_rx, RARE, params.apart)] = True
    return Outcome(
        fire=fire,
        clear=~fire & ~(of_ratio < params.calm),
        known=_referenced(view) & host_ports_up(view) & (view.now - pressure.worked[:n] < AFTER),
        value=of_ratio.astype(np.float64),
    )


def evidence(view: View, row: int, params: CreditsWithheldParams) -> tuple[Evidence, ...]:
    pressure, rows = view.tracks.pressure, np.array([row])
    of_ratio = float(_of_usual(view)[1][row])
    if np.isnan(of_ratio):
        return (reading("not compared: idle, or its usual traffic is not known yet", for_it=False),)
    receive, transmit = (float(pressure.traffic.recent[way, row]) for way in (RECEIVE, TRANSMIT))
    usual = float(pressure.received.mean[row]), float(pressure.sent.mean[row])
    text = (
        f"Rx {receive:.1%} of its line rate, mean of its last hour of work {usual[0]:.1%}; Tx {transmit:.1%}, "
        f"mean {usual[1]:.1%}"
    )
    formula = f"Rx, and Rx / Tx, < {params.less:.2g} of usual"
    found = [reading(text, formula, of_ratio, params.less, of_ratio < params.less, "credits_withheld.receives")]
    count = int(np.sum(_waiting(view, rows, params)[1]))
    text = (
        f"{count} other ports of its rail or leaf {_wait(view, row)} more than usual, and it does not; the sender of "
        "each flow is not known"
    )
    formula = f">= {params.waiting} ports that wait {params.apart:g} times as long as usual and as their hosts' others"
    found.append(
        reading(text, formula, count, params.waiting, count >= params.waiting, "credits_withheld.waiting")
    )
    found += _beginnings(view, rows, params)
    return tuple(found)


def _wait(view: View, row: int) -> str:
    """What its senders do: credits are of InfiniBand."""
    return "wait for credits" if view.tracks.facts.infiniband[row] else "wait (PFC pause)"


def _beginnings(view: View, rows: Rows, params: CreditsWithheldParams) -> list[Evidence]:
    """What ports of its network show that began to wait with it, if any."""
    with_it = begun(view, rows, params.apart)
    together, apart, chance = int(with_it.together[0]), int(with_it.apart[0]), float(np.exp(with_it.chance[0]))
    if not together:
        return []
    where = neighbourhood(view)[1]
    few = f"{chance:.1g}" if chance >= SMALLEST else f"below {SMALLEST:g}"
    text = (
        f"{together} ports of {where} began to {_wait(view, int(rows[0]))} in the seconds in which it began to receive "
        f"less, {apart} at other times; probability of that by chance {few}"
    )
    return [reading(text, "docs/methods.md#waits-that-begin", for_it=chance < math.exp(CHANCE))]


ACTION = (
    "Check the adapter's PCIe link first (`lspci -vvv`), then the process on its GPU, NUMA placement, IOMMU and ACS "
    "settings. Drain the host if other ports wait for it."
)

RULE = Rule(
    name="credits_withheld",
    kind="slow_receiver",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=CreditsWithheldParams,
    test=test,
    evidence=evidence,
    why=(
        "This port receives far less than usual and ports of its rail or leaf wait for credits: its host takes data "
        "too slowly. The jobs of its senders slow down too."
    ),
    by_layer={"ethernet": RuleText(
        "This port receives far less than usual and ports of its rail or leaf are PFC-paused: its host takes data too "
        "slowly. The jobs of its senders slow down too.",
        ACTION,
    )},
    decision=(
        "Rx of the port fell below 45 % of its mean of the last hour of work, also in relation to its Tx, and at "
        "least two other ports of its rail or leaf wait for credits, or are PFC-paused, three times as long as usual "
        "and as the other ports of their hosts, while this port does not. Or it fell below 75 %, most of all at that "
        "moment, and so many ports of its network began to wait in the same seconds that it is no chance. A port that "
        "falls with most ports of its host, or with a tenth of its rail, has other work and is no receiver that is "
        "slow. A synchronous job that slows down as a whole hides the receiver: then only its senders show "
        "congestion."
    ),
    action=ACTION,
    yields_to=("pfc_storm", "slow_receiver", "incast"),
    promql=not_expressible(
        "the port is compared with its own hour, and ports near it with theirs and with the other ports of their "
        "hosts; a rule evaluator knows neither leaf nor rail"
    ),
    slow=True,
)
