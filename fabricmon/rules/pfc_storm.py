"""pfc_storm: a port pauses its switch nearly all the time, and others cannot send because of it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.congestion import paused
from fabricmon.rules.neighbours import neighbourhood, others_count
from fabricmon.rules.promql import Alert, Translation, increase
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Share = Annotated[float, Meta(gt=0, le=1)]

EVENT = 30.0
"""Seconds for which the adapter's own count of a storm is as good as a measured one [D]: three polls."""


NAMED = 20
"""Victims that the evidence names (detection-methods 4.5)."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of pfc_storm.

    pausing  share of a window of 10 s in which the port pauses its switch (0.80: detection-methods 3.2)
    calm     below it in the mean of 30 s the storm is over (0.10: the limit of a slow receiver, detection-methods 3.2)
    waiting  share of time from which on another port counts as held up (0.10: where congestion ends, 3.1)
    victims  ports held up that make a storm of it (3: detection-methods 3.2)
    hold     the window is persistent already (0 s)
    clear    how long it must be calm; longer than congestion's, so that its victims recover before it (3 min: design)
    """

    pausing: Share = 0.80
    calm: Share = 0.10
    waiting: Share = 0.10
    victims: Annotated[int, Meta(ge=1)] = 3
    hold: Duration = Duration(0)
    clear: Duration = Duration(180)


def _waiting(view: View, params: Params) -> NDArray[np.bool_]:
    """Ports that wait and do not pause anybody themselves."""
    pressure, n = view.tracks.pressure, view.n
    with np.errstate(invalid="ignore"):
        waits = (pressure.stalled.latest[0, :n] >= params.waiting * pressure.scale[:n]) & view.present
        return waits & ~(pressure.pausing.latest[0, :n] >= params.calm) & pressure.stalled.known(n, view.now)


def test(view: View, params: Params) -> Outcome:
    tracks, n = view.tracks, view.n
    pressure = tracks.pressure
    latest = pressure.pausing.latest[0, :n]
    fire = np.zeros(n, np.bool_)
    with np.errstate(invalid="ignore"):
        told = view.now - pressure.storm[:n] <= EVENT
        rows = np.flatnonzero(((latest >= params.pausing) & pressure.pausing.known(n, view.now)) | told)
        calm = ~(pressure.pausing.recent[0, :n] >= params.calm) & ~told
    if len(rows):
        groups, _ = neighbourhood(view)
        fire[rows] = others_count(_waiting(view, params), groups, rows) >= params.victims
    up = tracks.link[:n] == link.UP
    known = (np.isfinite(latest) & pressure.pausing.known(n, view.now)) | told
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=view.present & up & known & ~tracks.facts.swept[:n],
        value=latest.astype(np.float64),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, pressure = str(view.table.ids[row]), view.tracks.pressure
    found: list[Evidence] = []
    latest = float(pressure.pausing.latest[0, row])
    if not np.isnan(latest):
        text = f"paused its switch for a share of {latest:.2f} of the last window of 10 s"
        formula = f">= {params.pausing:g} and {params.victims} other ports that wait (detection-methods 3.2)"
        found.append(Evidence(component, text, formula, latest, params.pausing, latest >= params.pausing))
    since = view.now - float(pressure.storm[row])
    if since <= EVENT:
        found.append(Evidence(component, f"its adapter counted a pause storm {since:.0f} s ago"))
    groups, where = neighbourhood(view)
    victims = np.flatnonzero(_waiting(view, params) & (groups == groups[row]) & (groups >= 0))
    victims = victims[victims != row]
    share = pressure.stalled.latest[0, victims] / pressure.scale[victims]
    worst = np.argsort(-share, kind="stable")[:NAMED]
    names = ", ".join(f"{view.table.ids[victims[at]]} {share[at]:.2f}" for at in worst)
    more = f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
    text = f"victims: {len(victims)} other ports of {where} wait for it"
    text += f" (share of the last window): {names}{more}" if len(victims) else ""
    formula = f">= {params.victims} ports that wait for {params.waiting:.0%} of the time (detection-methods 3.2)"
    enough = len(victims) >= params.victims
    found.append(Evidence(component, text, formula, len(victims), params.victims, enough))
    return tuple(found)


def promql(params: Params) -> Translation:
    pausing = f"max without (priority) (rate({paused('pfc_tx_pause')}[1m]))"
    waiting = f"max without (priority) (rate({paused('pfc_rx_pause')}[1m]))"
    storms = " or ".join(f"{increase(column, 60)} > 0" for column in ("pfc_storm_warning", "pfc_storm_error"))
    return Translation(
        alerts=(
            Alert(
                f"({pausing} >= {params.pausing:g} or {storms})"
                f" and on () (count({waiting} >= {params.waiting:g}) >= {params.victims})"
            ),
        ),
        differs="the ruler looks at a minute instead of 10 s, and counts the ports that wait in the whole fleet",
    )


RULE = Rule(
    name="pfc_storm",
    kind="pfc_storm",
    table=Kind.PORT,
    severity=Severity.CRITICAL,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=180.0,
    title="Pause storm",
    why=(
        "The port tells its switch to stop for 80 % of the time or more, or its adapter counts a storm by itself, "
        "while at least three other ports have to wait: pause that goes on without end travels from switch to switch "
        "and can stop a whole rail. Its host or adapter is the cause, the ports that wait are its victims. Switches' "
        "own watchdogs act after 0.2 to 0.4 s where they are enabled; mlx5 stops pausing by itself after 8 s."
    ),
    action=(
        "Take the host out of its jobs now, and shut its port if the others do not recover at once. Then look at the "
        "adapter: PCIe link (pcie_degraded), firmware, a hanging driver or GPU. Enable the PFC watchdog of the "
        "switches and the storm prevention of the adapters."
    ),
    promql=promql,
)
