"""slow_receiver: a port keeps its switch from sending, because its host does not take what arrives."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.pressure import RECEIVE
from fabricmon.fleet.slots import SLOT, WINDOW
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.congestion import paused
from fabricmon.rules.neighbours import neighbourhood, others_mean
from fabricmon.rules.promql import Alert, Translation, increase
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Share = Annotated[float, Meta(gt=0, le=1)]


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of slow_receiver.

    pausing  share of time in which the port pauses its switch, in 2 of 3 windows (0.10: detection-methods 3.2)
    calm     below it in the mean of 30 s the port no longer counts as slow (0.05: half of the limit, design)
    missed   per second, in 2 of 3 windows of 30 s: packets that found no receive buffer posted, or were answered "not
             ready" (10: design; a few occur whenever a job starts)
    full     share of the line rate from which on pausing is overload and not slowness (0.9: detection-methods 3.2)
    above    times the mean of its peers: who receives more than that pauses because of the load (1.1: design)
    hold     the windows are persistent already (0 s)
    clear    how long it must be calm; longer than congestion's, so that its victims recover before it (3 min: design)
    """

    pausing: Share = 0.10
    calm: Share = 0.05
    missed: Annotated[float, Meta(gt=0)] = 10.0
    full: Share = 0.9
    above: Annotated[float, Meta(ge=1)] = 1.1
    hold: Duration = Duration(0)
    clear: Duration = Duration(180)


def _peers(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean share of the line rate that the other active ports of the neighbourhood receive at."""
    pressure, n = view.tracks.pressure, view.n
    groups, _ = neighbourhood(view)
    return others_mean(pressure.traffic.recent[RECEIVE, :n], pressure.busy[:n], groups, rows)


def test(view: View, params: Params) -> Outcome:
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    pausing, missing = pressure.pausing.recent[0, :n], pressure.missed.recent[0, :n]
    fire = np.zeros(n, np.bool_)
    with np.errstate(invalid="ignore"):
        # two of three windows above the limit make the mean at least two thirds of it
        rows = np.flatnonzero((pausing >= params.pausing * 2 / 3) | (missing >= params.missed * 2 / 3))
        calm = ~(pausing >= params.calm) & ~(missing >= params.missed / 2)
    if len(rows):
        with np.errstate(invalid="ignore"):
            slots = (pressure.pausing.history(0, rows, WINDOW) >= params.pausing).sum(axis=0)
            missed = (pressure.missed.windows(0, rows, WINDOW) >= params.missed).sum(axis=0)
            receives = pressure.traffic.recent[RECEIVE, rows]
            loaded = (receives > params.full) | (receives > params.above * _peers(view, rows))
        fire[rows] = ((slots >= 2) & ~loaded) | (missed >= 2)
    told = (np.isfinite(pausing) & pressure.pausing.known(n, view.now)) | (
        np.isfinite(missing) & pressure.missed.known(n, view.now)
    )
    up = tracks.link[:n] == link.UP
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=view.present & up & told & ~tracks.facts.swept[:n],
        value=pausing.astype(np.float64),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, pressure = str(view.table.ids[row]), view.tracks.pressure
    found: list[Evidence] = []
    slots = pressure.pausing.history(0, np.array([row]), WINDOW)[:, 0]
    if not np.isnan(slots).all():
        shares = ", ".join("unknown" if np.isnan(share) else f"{share:.2f}" for share in slots)
        most = float(np.nanmax(slots))
        text = f"paused its switch for a share of {shares} of the last windows of {SLOT:.0f} s, newest first"
        formula = f">= {params.pausing:g} in 2 of {WINDOW} windows (detection-methods 3.2)"
        found.append(Evidence(component, text, formula, most, params.pausing, most >= params.pausing))
    receives, peers = float(pressure.traffic.recent[RECEIVE, row]), float(_peers(view, np.array([row]))[0])
    if not np.isnan(receives):
        others = "" if np.isnan(peers) else f", its peers at {peers:.0%}"
        text = f"receives at {receives:.0%} of its line rate{others}"
        formula = f"slow only if below {params.full:.0%} and not above {params.above:g} times its peers (3.2)"
        found.append(Evidence(component, text, formula, receives, params.full, receives <= params.full))
    missing = float(pressure.missed.recent[0, row])
    if not np.isnan(missing):
        text = f"{missing:.0f} packets a second found no receive buffer"
        formula = f">= {params.missed:g} a second in 2 of {WINDOW} windows of 30 s (detection-methods 3.2)"
        found.append(Evidence(component, text, formula, missing, params.missed, missing >= params.missed))
    return tuple(found) or (Evidence(component, "this port does not count the pauses that it sends", for_it=False),)


def promql(params: Params) -> Translation:
    share = f"max without (priority) (rate({paused('pfc_tx_pause')}[1m]))"
    return Translation(
        alerts=(
            Alert(f"{share} >= {params.pausing:g}"),
            Alert(f"{increase('out_of_buffer', 60)} >= {params.missed * 60:g}", hold=30.0),
        ),
        differs="the ruler does not compare what the port receives with its line rate and its peers",
    )


RULE = Rule(
    name="slow_receiver",
    kind="slow_receiver",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=180.0,
    title="Slow receiver",
    why=(
        "The port tells its switch to stop for a tenth of the time or more, although it receives no more than its "
        "peers, or its queues have no receive buffer when packets arrive: its host does not take what comes. On a "
        "lossless fabric everybody who sends to it waits, and then those who share their switches. A narrow or slow "
        "PCIe link is the usual reason; a process that is stopped, memory on the wrong socket and a stalled GPU are "
        "others. On InfiniBand a node cannot see the credits that it withholds: only missing receive buffers tell."
    ),
    action=(
        "Look at the adapter's PCIe link first (pcie_degraded, `lspci -vvv`, "
        "`fabricmon_port_pcie_stalled_write_ratio`), then at the process on its GPU, NUMA placement, IOMMU and ACS "
        "settings. Drain the host if others wait for it."
    ),
    yields_to=("pfc_storm",),
    promql=promql,
)
