"""pfc_storm: a port sends PFC pause nearly all the time, and other ports cannot transmit."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.view import View
from fabricmon.forms.readable import share_text
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import host_ports_up, neighbourhood, others_count
from fabricmon.rules.promql import Alert, Translation, increase, pause_share
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.units import Duration

EVENT = 30.0
"""Seconds for which a storm that the adapter counted lasts (design choice): three polls."""

NAMED = 20
"""Victims that the evidence names (design choice)."""


class PfcStormParams(RuleParams, frozen=True):
    """Limits of pfc_storm (docs/methods.md#pfc-storm).

    pausing  share of a window of 10 s in which the port sends PFC pause
    calm     mean of 30 s below which the storm is over (the limit of a slow receiver)
    waiting  share of time from which another port counts as a victim (where congestion ends)
    victims  least number of victims
    hold     the window is persistent already
    clear    time for which it must be calm; longer than congestion's, so that its victims recover before it
    """

    pausing: Share = 0.80
    calm: Share = 0.10
    waiting: Share = 0.10
    victims: Annotated[int, Meta(ge=1)] = 3
    clear: Duration = Duration(180)


def _waiting(view: View, params: PfcStormParams) -> NDArray[np.bool_]:
    """Ports that wait and do not send pause themselves."""
    pressure, n = view.tracks.pressure, view.n
    waits = (pressure.stalled.latest[0, :n] >= params.waiting * pressure.scale[:n]) & view.present
    return waits & ~(pressure.pausing.latest[0, :n] >= params.calm) & pressure.stalled.known(n, view.now)


def test(view: View, params: PfcStormParams) -> Outcome:
    pressure, n = view.tracks.pressure, view.n
    latest = pressure.pausing.latest[0, :n]
    fire = np.zeros(n, np.bool_)
    counted = view.now - pressure.storm[:n] <= EVENT
    rows = np.flatnonzero(((latest >= params.pausing) & pressure.pausing.known(n, view.now)) | counted)
    calm = ~(pressure.pausing.recent[0, :n] >= params.calm) & ~counted
    if len(rows):
        groups, _ = neighbourhood(view)
        fire[rows] = others_count(_waiting(view, params), groups, rows) >= params.victims
    known = (np.isfinite(latest) & pressure.pausing.known(n, view.now)) | counted
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=host_ports_up(view) & known,
        value=latest.astype(np.float64),
    )


def evidence(view: View, row: int, params: PfcStormParams) -> tuple[Evidence, ...]:
    pressure = view.tracks.pressure
    found: list[Evidence] = []
    latest = float(pressure.pausing.latest[0, row])
    if not np.isnan(latest):
        text = f"PFC pause sent for {latest:.0%} of the last 10 s"
        formula = f">= {params.pausing:g} and {params.victims} victims"
        found.append(reading(text, formula, latest, params.pausing, latest >= params.pausing, "pfc_storm.pausing"))
    storm = float(pressure.storm[row])
    if view.now - storm <= EVENT:
        found.append(reading(f"the adapter counted a PFC storm at {clock_time(storm)}"))
    groups, where = neighbourhood(view)
    victims = np.flatnonzero(_waiting(view, params) & (groups == groups[row]) & (groups >= 0))
    victims = victims[victims != row]
    share = np.minimum(pressure.stalled.latest[0, victims] / pressure.scale[victims], 1.0)
    worst = np.argsort(-share, kind="stable")[:NAMED]
    names = ", ".join(f"{view.table.ids[victims[at]]} {share_text(share[at])}" for at in worst)
    more = f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
    text = f"victims: {len(victims)} other ports of {where} cannot transmit"
    text += f" (share of the last window): {names}{more}" if len(victims) else ""
    formula = f">= {params.victims} ports that wait for {params.waiting:.0%} of the time"
    enough = len(victims) >= params.victims
    found.append(reading(text, formula, len(victims), params.victims, enough, "pfc_storm.victims"))
    return tuple(found)


def promql(params: PfcStormParams) -> Translation:
    storms = " or ".join(f"{increase(column, 60)} > 0" for column in ("pfc_storm_warning", "pfc_storm_error"))
    return Translation(
        alerts=(
            Alert(
                f"({pause_share('tx')} >= {params.pausing:g} or {storms})"
                f" and on () (count({pause_share('rx')} >= {params.waiting:g}) >= {params.victims})"
            ),
        ),
        differs="the rule evaluator uses a minute instead of 10 s, and counts the victims of the whole fleet",
    )


RULE = Rule(
    name="pfc_storm",
    table=Kind.PORT,
    severity=Severity.CRITICAL,
    scope=Scope.FLEET,
    params=PfcStormParams,
    test=test,
    evidence=evidence,
    why=(
        "This port makes its switch stop sending nearly all the time (PFC pause), and other ports have to wait. "
        "Jobs on the whole rail can stop."
    ),
    decision=(
        "The port sends PFC pause for 80 % of the time or more, or its adapter counts a storm, while at least three "
        "other ports cannot transmit: endless pause spreads from switch to switch and can stop a whole rail. Its host "
        "or adapter is the cause, the ports that wait are its victims. Watchdogs of switches act after 0.2 to 0.4 s "
        "where they are enabled; mlx5 stops pausing after 8 s."
    ),
    action=(
        "Drain the host now, and shut its port if the victims do not recover at once. Then check the adapter: PCIe "
        "link (pcie_degraded), firmware, a hanging driver or GPU. Enable the PFC watchdog of the switches and the "
        "storm prevention of the adapters."
    ),
    promql=promql,
    slow=True,
)
