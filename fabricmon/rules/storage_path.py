"""storage_path: a storage port is congested for longer than a checkpoint takes. Apart from collective traffic."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.pressure import MARKS, PACKETS, RECEIVE, TRANSMIT
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_PORT, SHORTEST, Alert, Translation, any_of, increase, metric, pause_share, span
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.units import Duration

Floats = NDArray[np.float64]

ROLE = "storage"


class StoragePathParams(RuleParams, frozen=True):
    """Limits of storage_path (docs/methods.md#storage-path), as shares of the last half minute.

    stalled   of time in which the port had data and could not transmit (the medium band of congestion)
    pausing   of time in which it sent PFC pause (slow receiver)
    marked    of ECN-marked packets received while the Rx utilisation is at least ...
    loaded    ... this: marks at less load mean that congestion control works, as in incast
    doubt     multiple of `stalled` where that share is only estimated: an adapter's tick is not published
    hold      time for which it must last: checkpoints of minutes at line rate are normal
    clear     time for which it must be free again
    """

    stalled: Share = 0.15
    pausing: Share = 0.10
    marked: Share = 0.05
    loaded: Share = 0.75
    doubt: Annotated[float, Meta(ge=1)] = 2.0
    hold: Duration = Duration(600)
    clear: Duration = Duration(120)


def shares(view: View, rows: NDArray[np.intp], params: StoragePathParams) -> tuple[Floats, Floats, Floats]:
    """Per row: share stalled, pausing and marked, each over its limit; NaN unknown."""
    pressure = view.tracks.pressure
    limit = np.where(pressure.estimated[rows], params.doubt * params.stalled, params.stalled)
    arrived = pressure.arrivals.recent
    with np.errstate(invalid="ignore", divide="ignore"):
        marked = np.where(arrived[PACKETS, rows] > 0, arrived[MARKS, rows] / arrived[PACKETS, rows], np.nan)
    return (
        np.asarray(pressure.stalled.recent[0, rows] / limit, np.float64),
        np.asarray(pressure.pausing.recent[0, rows] / params.pausing, np.float64),
        np.asarray(marked / params.marked, np.float64),
    )


def held(view: View, rows: NDArray[np.intp], params: StoragePathParams) -> tuple[Floats, Floats, Floats]:
    """`shares`; marks at less than `loaded` hold nothing back."""
    stalled, pausing, marked = shares(view, rows, params)
    idle = view.tracks.pressure.traffic.recent[RECEIVE, rows] < params.loaded
    return stalled, pausing, np.where(idle, np.minimum(marked, 0.0), marked)


def test(view: View, params: StoragePathParams) -> Outcome:
    n, facts, pressure = view.n, view.tracks.facts, view.tracks.pressure
    fire, known, value = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n)
    if ROLE in facts.role_names:
        rows = np.flatnonzero((facts.role[:n] == facts.role_names[ROLE]) & view.present & ~facts.swept[:n])
        worst = np.fmax.reduce(held(view, rows, params)) if len(rows) else np.zeros(0)
        fresh = pressure.traffic.known(n, view.now)[rows] & (view.tracks.link[rows] == link.UP)
        known[rows] = fresh & np.isfinite(worst)
        fire[rows] = worst > 1.0
        value[rows] = np.nan_to_num(worst)
    return Outcome(fire=fire, clear=~fire & (value < 0.7), known=known, value=value)


def evidence(view: View, row: int, params: StoragePathParams) -> tuple[Evidence, ...]:
    pressure, at = view.tracks.pressure, np.array([row])
    found = []
    measures = (
        ("of the time it could not transmit (no credits, PFC-paused)", params.stalled, "stalled"),
        ("of the time it sent PFC pause", params.pausing, "pausing"),
        ("of the received packets are ECN-marked", params.marked, "marked"),
    )
    every = zip(measures, shares(view, at, params), held(view, at, params), strict=True)
    for (words, limit, name), over, holds in every:
        if np.isfinite(over[0]):
            formula = f"mean of half a minute, for {float(params.hold):g} s"
            text, share = f"{over[0] * limit:.0%} {words}", float(over[0] * limit)
            found.append(reading(text, formula, share, limit, bool(holds[0] > 1.0), f"storage_path.{name}"))
    receive, transmit = (float(pressure.traffic.recent[way, row]) for way in (RECEIVE, TRANSMIT))
    if np.isfinite(transmit):
        found.append(reading(f"Tx {transmit:.0%}, Rx {receive:.0%} of its line rate"))
    return tuple(found) or (reading("no reading of pause, wait or marks"),)


def promql(params: StoragePathParams) -> Translation:
    marked = f"{increase('ecn_marked_rx', SHORTEST)} / {increase('rdma_rx_packets', SHORTEST)}"
    receive = f"(rate({metric('rcv')}[1m]) or rate({metric('phy_rx')}[1m])) / {metric('rate')}"
    held_back = any_of(
        f"{pause_share('rx', span(SHORTEST))} >= {params.stalled:g}",
        f"{pause_share('tx', span(SHORTEST))} >= {params.pausing:g}",
        f"({marked} >= {params.marked:g} and {ON_PORT} {receive} >= {params.loaded:g})",
    )
    return Translation(
        (Alert(f'({held_back}) and {ON_PORT} fabricmon_port_info{{role="{ROLE}"}}'),),
        differs="the tick length of the wait counter is unknown, so InfiniBand ports are not evaluated",
    )


RULE = Rule(
    name="storage_path",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=StoragePathParams,
    test=test,
    evidence=evidence,
    why=(
        "A storage port has been congested for longer than a checkpoint takes. Jobs wait when they load data or save "
        "checkpoints."
    ),
    decision=(
        "A port of the role storage cannot transmit, sends PFC pause or receives ECN-marked packets on a loaded link "
        "without a break for ten minutes. Marks at less load mean that congestion control works. A checkpoint that "
        "fills the storage network for a minute or two is normal. Storage ports are evaluated by this rule and not by "
        "those of collective traffic, and they are no evidence about a compute rail."
    ),
    action=(
        "Check the storage servers first: load, failed disks, lost links. Compare the affected hosts: all of them "
        "means servers or the storage network, one of them means that host's adapter or PCIe path. Spread checkpoints "
        "of several jobs over time where they coincide."
    ),
    yields_to=("link_down", "link_flapping", "link_errors", "link_degraded", "nic_fault"),
    promql=promql,
    slow=True,
)
