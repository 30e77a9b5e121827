"""slow_receiver: a port sends PFC pause or drops packets because its host does not drain it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.pressure import RECEIVE
from fabricmon.fleet.slots import SLOT, WINDOW
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import host_ports_up, neighbourhood, others_mean
from fabricmon.rules.promql import Alert, Translation, increase, pause_share
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.units import Duration


class SlowReceiverParams(RuleParams, frozen=True):
    """Limits of slow_receiver (docs/methods.md#slow-receiver).

    pausing  share of time in which the port sends PFC pause, in 2 of 3 windows
    calm     mean of 30 s below which the port no longer counts as slow (half of the limit)
    missed   per second, in 2 of 3 windows of 30 s: packets without a posted receive buffer, or answered with RNR NAK (a
             few occur whenever a job starts)
    full     Rx utilisation from which pause is overload and not slowness
    above    multiple of the Rx of its peers from which pause is overload
    hold     the windows are persistent already
    clear    time for which it must be calm; longer than congestion's, so that its victims recover before it
    """

    pausing: Share = 0.10
    calm: Share = 0.05
    missed: Annotated[float, Meta(gt=0)] = 10.0
    full: Share = 0.9
    above: Annotated[float, Meta(ge=1)] = 1.1
    clear: Duration = Duration(180)


def _peers(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean Rx utilisation of the other active ports of the neighbourhood."""
    pressure, n = view.tracks.pressure, view.n
    groups, _ = neighbourhood(view)
    return others_mean(pressure.traffic.recent[RECEIVE, :n], pressure.busy[:n], groups, rows)


def test(view: View, params: SlowReceiverParams) -> Outcome:
    pressure, n = view.tracks.pressure, view.n
    pausing, missing = pressure.pausing.recent[0, :n], pressure.missed.recent[0, :n]
    fire = np.zeros(n, np.bool_)
    # two of three windows above the limit make the mean at least two thirds of it
    rows = np.flatnonzero((pausing >= params.pausing * 2 / 3) | (missing >= params.missed * 2 / 3))
    calm = ~(pausing >= params.calm) & ~(missing >= params.missed / 2)
    if len(rows):
        slots = (pressure.pausing.history(0, rows, WINDOW) >= params.pausing).sum(axis=0)
        missed = (pressure.missed.windows(0, rows, WINDOW) >= params.missed).sum(axis=0)
        receives = pressure.traffic.recent[RECEIVE, rows]
        loaded = (receives > params.full) | (receives > params.above * _peers(view, rows))
        fire[rows] = ((slots >= 2) & ~loaded) | (missed >= 2)
    counted = (np.isfinite(pausing) & pressure.pausing.known(n, view.now)) | (
        np.isfinite(missing) & pressure.missed.known(n, view.now)
    )
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=host_ports_up(view) & counted,
        value=pausing.astype(np.float64),
    )


def evidence(view: View, row: int, params: SlowReceiverParams) -> tuple[Evidence, ...]:
    pressure = view.tracks.pressure
    found: list[Evidence] = []
    slots = pressure.pausing.history(0, np.array([row]), WINDOW)[:, 0]
    if not np.isnan(slots).all():
        shares = ", ".join("unknown" if np.isnan(share) else f"{share:.0%}" for share in slots)
        most = float(np.nanmax(slots))
        text = f"PFC pause sent for {shares} of the last windows of {SLOT:.0f} s, newest first"
        formula = f">= {params.pausing:g} in 2 of {WINDOW} windows"
        found.append(reading(text, formula, most, params.pausing, most >= params.pausing, "slow_receiver.pausing"))
    receives, peers = float(pressure.traffic.recent[RECEIVE, row]), float(_peers(view, np.array([row]))[0])
    if not np.isnan(receives):
        others = "" if np.isnan(peers) else f", its peers {peers:.0%}"
        text = f"Rx {receives:.0%} of its line rate{others}"
        formula = (
            f"slow only if below {params.full:.0%} and not above {params.above:g} times its peers "
            "(docs/methods.md#slow-receiver)"
        )
        found.append(reading(text, formula, receives, params.full, receives <= params.full, "slow_receiver.receives"))
    missing = float(pressure.missed.recent[0, row])
    if not np.isnan(missing):
        text = f"{missing:.0f} packets a second without a receive buffer"
        formula = f">= {params.missed:g} a second in 2 of {WINDOW} windows of 30 s"
        found.append(reading(text, formula, missing, params.missed, missing >= params.missed, "slow_receiver.missed"))
    return tuple(found) or (reading("no counter of PFC pause sent", for_it=False),)


def promql(params: SlowReceiverParams) -> Translation:
    return Translation(
        alerts=(
            Alert(f"{pause_share('tx')} >= {params.pausing:g}"),
            Alert(f"{increase('out_of_buffer', 60)} >= {params.missed * 60:g}", hold=30.0),
        ),
        differs="the rule evaluator does not compare the port's Rx with its line rate and its peers",
    )


RULE = Rule(
    name="slow_receiver",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=SlowReceiverParams,
    test=test,
    evidence=evidence,
    why=(
        "The host takes its data from the network too slowly, so this port makes its senders wait. The jobs of these "
        "senders slow down too."
    ),
    decision=(
        "The port sends PFC pause for a tenth of the time or more, although it receives no more than its peers, or its "
        "queues have no receive buffer when packets arrive: its host does not drain it. On a lossless fabric its "
        "senders are back-pressured, and then all ports behind the same switches. A narrow or slow PCIe link is the "
        "usual reason; a stopped process, memory on the wrong socket and a stalled GPU are others. On InfiniBand a "
        "node cannot count the credits that it withholds: only missing receive buffers are evidence here, and on the "
        "server credits_withheld."
    ),
    action=(
        "Check the adapter's PCIe link first (pcie_degraded, `lspci -vvv`, "
        "`fabricmon_port_pcie_stalled_write_ratio`), then the process on its GPU, NUMA placement, IOMMU and ACS "
        "settings. Drain the host if other ports wait for it."
    ),
    yields_to=("pfc_storm",),
    promql=promql,
    slow=True,
)
