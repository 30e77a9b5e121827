"""congestion: a port has data to send and must wait, for longer than the bursts of a job explain."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.fleet import link
from fabricmon.fleet.pressure import LONG, NOTICES, PRESSED, RECEIVE, SLOWEST_TICK, TRANSMIT
from fabricmon.fleet.slots import SLOT, WINDOW, Slots
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import others_mean
from fabricmon.rules.promql import Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Share = Annotated[float, Meta(gt=0, le=1)]

SECONDS = SLOT * WINDOW
RAISING = 3
"""Windows that must show it (detection-methods 3.1)."""
AFTER = 900.0
"""Seconds after its last pressure for which an idle port is still known, so that its congestion can end [D]."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of congestion, as shares of time in which the port had to wait.

    high     above it in each of the last 3 windows of 30 s is congestion (0.25: detection-methods 3.1)
    medium   above it in each window of the last 10 minutes is, too (0.15: detection-methods 3.1)
    calm     below it the port is no longer congested (0.10: detection-methods 3.1)
    apart    times the mean of its host's other ports of its make (of the fleet's where there are none), and of its own
             last hour, that a share must be that is only estimated (3: design)
    tick     bytes of line time that a tick of an InfiniBand adapter's wait counter stands for; 0: not known, then ticks
             are compared with those of other ports of the make (0: link-health 6; 8 on switches since Quantum)
    lasting  mean of the last hour of work from which on a single port is a warning, where it is no estimate (0.15: as
             medium)
    hold     the windows are persistent already (0 s)
    clear    how long it must be calm (2 min: detection-methods 3.1)
    """

    high: Share = 0.25
    medium: Share = 0.15
    calm: Share = 0.10
    apart: Annotated[float, Meta(ge=1)] = 3.0
    tick: Annotated[float, Meta(ge=0)] = 0.0
    lasting: Share = 0.15
    hold: Duration = Duration(0)
    clear: Duration = Duration(120)


def _scale(view: View, params: Params) -> NDArray[np.float32]:
    """What `stalled` is where a port waits all the time."""
    scale = view.tracks.pressure.scale[: view.n]
    if not params.tick:
        return scale
    ticking = view.tracks.facts.infiniband[: view.n]
    return np.where(ticking, view.tracks.pressure.line[: view.n] / params.tick * SLOWEST_TICK, scale).astype(np.float32)


def _compared(view: View, params: Params) -> NDArray[np.bool_]:
    """Rows whose share is an estimate and must stand out from those of others."""
    estimated = view.tracks.pressure.estimated[: view.n]
    return estimated & ~view.tracks.facts.infiniband[: view.n] if params.tick else estimated


def _peers(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean of what the other working ports of the same make waited: those of the same host, which carry the same job on
    other rails; those of the fleet where the host has no two others."""
    tracks, n = view.tracks, view.n
    recent, busy, make = tracks.pressure.stalled.recent[0, :n], tracks.pressure.busy[:n], tracks.facts.make[:n]
    here = np.where(view.node >= 0, view.node * tracks.facts.makes + make, -1)
    peers = others_mean(recent, busy, here, rows, least=2)
    return np.where(np.isnan(peers), others_mean(recent, busy, make, rows), peers)


def _stands_out(view: View, rows: NDArray[np.intp], params: Params) -> NDArray[np.bool_]:
    pressure = view.tracks.pressure
    recent = pressure.stalled.recent[0, rows]
    with np.errstate(invalid="ignore"):
        found = np.asarray((recent >= PRESSED) & (recent >= params.apart * _peers(view, rows)))
        at = np.flatnonzero(found)
        found[at] = ~(recent[at] < params.apart * pressure.usual_before(rows[at], RAISING * WINDOW))
    return found


def _lasts(stalled: Slots, rows: NDArray[np.intp], scale: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
    """Rows that waited for long enough: much in the newest windows, or something in all that are kept."""
    with np.errstate(invalid="ignore"):
        found = np.asarray((stalled.windows(0, rows, RAISING) / scale > params.high).all(axis=0))
        rest = np.flatnonzero(~found)
        if len(rest):
            found[rest] = (stalled.windows(0, rows[rest], LONG // WINDOW) / scale[rest] > params.medium).all(axis=0)
    return found


def _marked(rows: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def test(view: View, params: Params) -> Outcome:
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    scale = _scale(view, params)
    share = pressure.stalled.recent[0, :n] / scale
    fire = np.zeros(n, np.bool_)
    severity = np.full(n, Severity.INFO.rank, np.int8)
    with np.errstate(invalid="ignore"):
        working = pressure.busy[:n] | ((share > 0) & (view.now - pressure.worked[:n] < AFTER))
        lately = view.now - pressure.pressed[:n] < AFTER
        pressed = (share > min(params.medium, params.high)) & working
        calm = share < params.calm
    if not params.hold:  # between two slots nothing changes, and what is open stays open
        pressed &= _marked(pressure.closed, n)
    rows = np.flatnonzero(pressed)
    compared = _compared(view, params)
    if len(rows) and compared.any():
        rows = rows[~compared[rows] | _stands_out(view, rows, params)]
    if len(rows):
        fire[rows] = _lasts(pressure.stalled, rows, scale[rows], params)
        rows = rows[fire[rows] & ~compared[rows] & pressure.worked_an_hour(rows)]
        severity[rows[pressure.usual[rows] / scale[rows] > params.lasting]] = Severity.WARNING.rank
    up = tracks.link[:n] == link.UP
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=view.present & up & pressure.stalled.known(n, view.now) & (working | lately) & ~tracks.facts.swept[:n],
        value=share.astype(np.float64),
        severity=severity,
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, pressure = str(view.table.ids[row]), view.tracks.pressure
    rows, scale = np.array([row]), float(_scale(view, params)[row])
    windows = pressure.stalled.windows(0, rows, 3)[:, 0] / scale
    shares = ", ".join("unknown" if np.isnan(share) else f"{share:.2f}" for share in windows)
    ticks = bool(view.tracks.facts.infiniband[row])
    what = "had data and could not send" if ticks else "was paused on its worst priority"
    formula = (
        f"3 windows of {SECONDS:.0f} s > {params.high:g}, or all of 10 min > {params.medium:g}; ends below "
        f"{params.calm:g} for {float(params.clear):g} s (detection-methods 3.1)"
    )
    recent, usual = (float(share[row]) / scale for share in (pressure.stalled.recent[0], pressure.usual))
    text = f"{what} for a share of {shares} of the last windows of {SECONDS:.0f} s, newest first"
    found = [Evidence(component, text, formula, recent, params.high, recent > params.high)]
    if _compared(view, params)[row] and not np.isnan(recent):
        how = (
            "of the most that ports of its make waited in a day: how long its tick is is not known"
            if ticks
            else "of pause frames, each taken as the longest pause that it can have meant"
        )
        peers = float(_peers(view, rows)[0]) / scale
        before = float(pressure.usual_before(rows, RAISING * WINDOW)[0]) / scale
        text = f"an estimate, {how}; its own mean before was {before:.2f}, that of its peers is {peers:.2f}"
        found.append(Evidence(component, text, f"counts from {params.apart:g} times both on (design)"))
    elif not np.isnan(usual):
        text, lasts = f"mean of its last hour of work: {usual:.2f}", usual > params.lasting
        found.append(Evidence(component, text, value=usual, limit=params.lasting, for_it=lasts))
    receive, transmit = (float(pressure.traffic.recent[way, row]) for way in (RECEIVE, TRANSMIT))
    if not np.isnan(transmit):
        found.append(Evidence(component, f"sends at {transmit:.0%} and receives at {receive:.0%} of its line rate"))
    notices = float(pressure.arrivals.recent[NOTICES, row])
    if not np.isnan(notices):
        found.append(Evidence(component, f"{notices:.0f} congestion notifications a second slow it down"))
    return tuple(found)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"measure": "estimated" if _compared(view, params)[row] else "measured"}


def paused(column: str) -> str:
    """Metric of a family of columns per priority, all priorities."""
    return CATALOGUE[f"{column}_prio0"].metric


def promql(params: Params) -> Translation:
    ratios = [f"max without (priority) (rate({paused('pfc_rx_pause')}[1m]))"]
    if params.tick:
        ratios.append(f"rate({metric('xmit_wait_ticks')}[1m]) * {params.tick:g} / {metric('rate')}")
    return Translation(
        alerts=tuple(
            Alert(any_of(*(f"min_over_time(({ratio})[{span}:30s]) > {limit:g}" for ratio in ratios)))
            for limit, span in ((params.high, "1m"), (params.medium, "9m"))
        ),
        differs=(
            "the ruler knows pause that is measured, and ticks only where their length is configured; it does not "
            "raise the severity of what lasts"
        ),
    )


RULE = Rule(
    name="congestion",
    kind="congestion",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=0.0,
    clear=120.0,
    title="Congestion",
    why=(
        "The port has data to send and must wait: no credits on InfiniBand, priority pause on Ethernet. Above a "
        "quarter of the time in three windows of 30 s it is more than the bursts of a collective operation, which wait"
        " for a second and then not at all (bands of stall time: below 5 % none, to 15 % low, to 25 % medium). It is "
        "the victim: the cause is a receiver or a link beyond it. One port alone is a note. Half of the active ports "
        "of a rail or leaf are one verdict on that; ports that a pausing or overrun receiver holds up are listed with "
        "it. An idle port tells nothing. Congestion marks alone mean that congestion control works."
    ),
    action=(
        "Look for a receiver that pauses (slow_receiver, pfc_storm) or is overrun (incast) on the same rail first. "
        "Else compare the utilisation of the up-links of its leaf: lost up-links, or jobs that share them. One port "
        "that waits for an hour: look at its route and at the peers that its job talks to."
    ),
    promql=promql,
)
