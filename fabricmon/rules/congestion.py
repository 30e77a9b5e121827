"""congestion: a port has data to send and cannot transmit, for longer than the bursts of a job explain."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.pressure import LONG, NOTICES, RECEIVE, SLOWEST_TICK, TRANSMIT
from fabricmon.fleet.slots import SLOT, WINDOW, Slots
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import host_ports_up
from fabricmon.rules.promql import Alert, Translation, any_of, metric, pause_share
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.rules.waiting import RAISING, others_wait, stands_out
from fabricmon.units import Duration

SECONDS = SLOT * WINDOW
AFTER = 900.0
"""Seconds after its last wait for which an idle port is still known, so that its congestion can end (design choice)."""


class CongestionParams(RuleParams, frozen=True):
    """Limits of congestion (docs/methods.md#congestion): shares of time with data and without transmission.

    high     above it in each of the last 3 windows of 30 s is congestion
    medium   above it in each window of the last 10 minutes is congestion, too
    calm     below it the port is no longer congested
    apart    an estimated share must be so many times the mean of the host's other ports of its make (of the fleet's
             where there are none), and of its own last hour
    tick     bytes of line time of one tick of an InfiniBand adapter's wait counter; 0: not known, then ticks are
             compared with other ports of the make (8 on switches since Quantum)
    lasting  mean of the last hour of work above which a single port is a warning, unless estimated (0.15: as medium)
    hold     the windows are persistent already
    clear    time for which it must be calm
    """

    high: Share = 0.25
    medium: Share = 0.15
    calm: Share = 0.10
    apart: Annotated[float, Meta(ge=1)] = 3.0
    tick: Annotated[float, Meta(ge=0)] = 0.0
    lasting: Share = 0.15
    clear: Duration = Duration(120)


def _scale(view: View, params: CongestionParams) -> NDArray[np.float32]:
    """`stalled` of a port that waits all the time."""
    scale = view.tracks.pressure.scale[: view.n]
    if not params.tick:
        return scale
    ticking = view.tracks.facts.infiniband[: view.n]
    return np.where(ticking, view.tracks.pressure.line[: view.n] / params.tick * SLOWEST_TICK, scale).astype(np.float32)


def _compared(view: View, params: CongestionParams) -> NDArray[np.bool_]:
    """Rows whose share is an estimate and is compared with other ports."""
    estimated = view.tracks.pressure.estimated[: view.n]
    return estimated & ~view.tracks.facts.infiniband[: view.n] if params.tick else estimated


def _lasts(
    stalled: Slots, rows: NDArray[np.intp], scale: NDArray[np.float32], params: CongestionParams
) -> NDArray[np.bool_]:
    """Rows that waited long enough: above `high` in the newest windows, or above `medium` in all."""
    found = np.asarray((stalled.windows(0, rows, RAISING) / scale > params.high).all(axis=0))
    rest = np.flatnonzero(~found)
    if len(rest):
        found[rest] = (stalled.windows(0, rows[rest], LONG // WINDOW) / scale[rest] > params.medium).all(axis=0)
    return found


def _marked(rows: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def test(view: View, params: CongestionParams) -> Outcome:
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    scale = _scale(view, params)
    share = pressure.stalled.recent[0, :n] / scale
    fire = np.zeros(n, np.bool_)
    severity = np.full(n, Severity.INFO.rank, np.int8)
    working = pressure.busy[:n] | ((share > 0) & (view.now - pressure.worked[:n] < AFTER))
    lately = view.now - pressure.pressed[:n] < AFTER
    pressed = (share > min(params.medium, params.high)) & working
    nearing = ~(share <= min(params.medium, params.high))  # also before the first window
    calm = share < params.calm
    if not params.hold:  # between two slots nothing changes, and what is open stays open
        pressed &= _marked(pressure.closed, n)
    rows = np.flatnonzero(pressed)
    compared = _compared(view, params)
    if len(rows) and compared.any():
        apart = ~compared[rows] | stands_out(view, rows, params.apart)
        nearing[rows[~apart]] = False  # what a port always waits, as its peers do, is no congestion that begins
        rows = rows[apart]
    # an estimate is compared with the port's own past: before it has one, nothing shows that something began
    nearing |= compared & ~pressure.usual.of(view.table.whole, RAISING * WINDOW)
    if len(rows):
        fire[rows] = _lasts(pressure.stalled, rows, scale[rows], params)
        rows = rows[fire[rows] & ~compared[rows] & pressure.usual.whole(rows)]
        severity[rows[pressure.usual.mean[rows] / scale[rows] > params.lasting]] = Severity.WARNING.rank
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=host_ports_up(view) & pressure.stalled.known(n, view.now) & (working | lately),
        value=share.astype(np.float64),
        severity=severity,
        nearing=nearing,
    )


def evidence(view: View, row: int, params: CongestionParams) -> tuple[Evidence, ...]:
    pressure = view.tracks.pressure
    rows, stalled = np.array([row]), pressure.stalled.windows(0, np.array([row]), 3)[:, 0]
    scale = float(np.fmax.reduce(stalled, initial=_scale(view, params)[row]))  # its own wait may be the longest
    windows = stalled / scale
    shares = ", ".join("unknown" if np.isnan(share) else f"{share:.0%}" for share in windows)
    ticks = bool(view.tracks.facts.infiniband[row])
    what = "could not transmit (no credits)" if ticks else "PFC-paused on its worst priority"
    formula = (
        f"3 windows of {SECONDS:.0f} s > {params.high:g}, or all of 10 min > {params.medium:g}; ends below "
        f"{params.calm:g} for {float(params.clear):g} s"
    )
    recent, usual = (float(share[row]) / scale for share in (pressure.stalled.recent[0], pressure.usual.mean))
    text = f"{what} for {shares} of the last windows of {SECONDS:.0f} s, newest first"
    measure = "congestion.estimate" if ticks or _compared(view, params)[row] else "congestion.stalled"
    found = [reading(text, formula, recent, params.high, recent > params.high, measure)]
    if _compared(view, params)[row] and not np.isnan(recent):
        how = (
            "relative to the longest wait of ports of its make in a day, as its tick length is unknown"
            if ticks
            else "from pause frames, each counted as the longest possible pause"
        )
        peers = float(others_wait(view, rows)[0]) / scale
        before = float(pressure.usual_before(rows, RAISING * WINDOW)[0]) / scale
        text = f"estimate {how}; its own mean before was {before:.0%}, the mean of its peers is {peers:.0%}"
        found.append(reading(text, f">= {params.apart:g} times both (design choice)"))
    elif not np.isnan(usual):
        text, lasts = f"mean of its last hour of work: {usual:.0%}", usual > params.lasting
        found.append(reading(text, "", usual, params.lasting, lasts, "congestion.usual"))
    receive, transmit = (float(pressure.traffic.recent[way, row]) for way in (RECEIVE, TRANSMIT))
    if not np.isnan(transmit):
        found.append(reading(f"Tx {transmit:.0%}, Rx {receive:.0%} of its line rate"))
    notices = float(pressure.arrivals.recent[NOTICES, row])
    if not np.isnan(notices):
        found.append(reading(f"{notices:.0f} CNPs received a second"))
    return tuple(found)


def info(view: View, row: int, params: CongestionParams) -> dict[str, str]:
    return {"measure": "estimated" if _compared(view, params)[row] else "measured"}


def promql(params: CongestionParams) -> Translation:
    ratios = [pause_share("rx")]
    if params.tick:
        ratios.append(f"rate({metric('xmit_wait_ticks')}[1m]) * {params.tick:g} / {metric('rate')}")
    return Translation(
        alerts=tuple(
            Alert(any_of(*(f"min_over_time(({ratio})[{span}:30s]) > {limit:g}" for ratio in ratios)))
            for limit, span in ((params.high, "1m"), (params.medium, "9m"))
        ),
        differs=(
            "the rule evaluator uses measured pause, and ticks only where their length is configured; the severity "
            "does not rise with time"
        ),
    )


RULE = Rule(
    name="congestion",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.NODE,
    params=CongestionParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "This port has data to send and cannot, because something beyond it does not accept the data. Its jobs slow "
        "down; the cause is usually another host or link, not this port."
    ),
    decision=(
        "The port has data and cannot transmit: no credits on InfiniBand, PFC pause on Ethernet. Above a quarter of "
        "the time in three windows of 30 s it is more than the bursts of a collective operation, which wait for a "
        "second and then not at all (bands of stall time: below 5 % none, to 15 % low, to 25 % medium). It is the "
        "victim: the cause is a receiver or a link beyond it. One port alone is information. Half of the active ports "
        "of a rail or leaf are one incident of the rail or leaf; ports behind a pausing or overrun receiver are listed "
        "with that receiver. An idle port is no evidence. ECN marks alone mean that congestion control works."
    ),
    action=(
        "Check for a receiver that pauses (slow_receiver, pfc_storm) or is overrun (incast) on the same rail first. "
        "Else compare the utilisation of the uplinks of its leaf: lost uplinks, or jobs that share them. One port "
        "that waits for an hour: check its route and the peers of its job."
    ),
    promql=promql,
    slow=True,
)
