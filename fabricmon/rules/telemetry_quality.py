"""telemetry_quality: unreliable telemetry of a port: saturated, frozen, unreadable, reset."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.fleet import freshness, link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.tracks import TRAFFIC
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import host_ports_up, others_mean
from fabricmon.rules.promql import Alert, Translation
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, Share, reading
from fabricmon.units import Duration

FULL, LOST, LATE, FROZEN, RESET = 1, 2, 4, 8, 16
UNUSED = 1 << 20
"""Bytes below which a port has never been used (design choice; management datagrams make some)."""
WORDS = {FULL: "saturated", LOST: "unreadable", LATE: "not refreshed", FROZEN: "frozen", RESET: "reset"}


class TelemetryQualityParams(RuleParams, frozen=True):
    """Limits of telemetry_quality (docs/methods.md#telemetry-quality).

    ignore  counters that may saturate (xmit_wait_ticks does within a second of congestion on a fast link)
    frozen  time without a change of any traffic counter after which a port is frozen, if ...
    moving  ... at least this share of the other ports of its role on its host changed, of ...
    peers   ... at least so many
    load    mean share of the line rate on those others from which a frozen port is a warning: the job of the host uses
            its ports alike
    shown   time for which a counter reset is reported
    hold    time for which a problem must last
    clear   time for which it must be over
    """

    ignore: tuple[str, ...] = ("xmit_wait_ticks",)
    frozen: Duration = Duration(600)
    moving: float = 0.75
    peers: int = 3
    load: Share = 0.5
    shown: Duration = Duration(300)
    hold: Duration = Duration(30)


def problems(view: View, params: TelemetryQualityParams) -> NDArray[np.uint8]:
    """Problems of each row, as bits."""
    table, n = view.table, view.n
    found = np.zeros(n, np.uint8)
    counted = {column: at for column in table.columns if (at := table.counted(column)) is not None}
    full = table.marks_of([at for column, at in counted.items() if column not in params.ignore])
    marks = full | table.marks_of([at for column, at in counted.items() if column in params.ignore])
    found[(full & np.uint8(Mark.FULL)) != 0] |= np.uint8(FULL)
    # a sweep reaches no adapter behind a link that is down: link_down reports that
    out_of_reach = view.tracks.facts.swept[:n] & (view.tracks.link[:n] != link.UP)
    found[((marks & np.uint8(Mark.LOST)) != 0) & ~out_of_reach] |= np.uint8(LOST)
    found[view.now - table.reset[:n] < params.shown] |= np.uint8(RESET)
    reporting = view.reporting()
    for times in table.by_supply.values():
        found[reporting & (view.age_of(times) > view.age_limit_of(times))] |= np.uint8(LATE)
    found[_frozen(view, params)] |= np.uint8(FROZEN)
    return found


def _under_load(view: View, rows: NDArray[np.intp], params: TelemetryQualityParams) -> NDArray[np.bool_]:
    """Which of these ports have other ports of their role on their host that carry much traffic."""
    tracks, n = view.tracks, view.n
    used = np.fmax(*tracks.pressure.traffic.recent[:2, :n]).astype(np.float64)
    group = (view.node.astype(np.int64) * len(tracks.facts.role_names) + tracks.facts.role[:n]).astype(np.int64)
    group[~host_ports_up(view)] = -1
    others = others_mean(used, tracks.pressure.busy[:n], group, rows, params.peers)
    return np.asarray(others >= params.load)


def _frozen(view: View, params: TelemetryQualityParams) -> NDArray[np.bool_]:
    """Ports whose counters stand still while those of the host's other ports move: frozen, or left idle.

    A port without traffic since its reset belongs to a plane that is not in use.
    """
    tracks, n = view.tracks, view.n
    countable = np.zeros(n, np.bool_)
    carried = np.zeros(n)
    for column in TRAFFIC:
        if view.table.counted(column) is not None:
            countable |= np.isfinite(view.value(column))
            carried = np.fmax(carried, view.value(column))
    # a link between switches may be idle while other ports carry traffic
    watched = host_ports_up(view) & countable
    moving = watched & (view.now - tracks.moved[:n] < freshness.LEAST * 2)
    used = (carried > UNUSED) | np.isfinite(tracks.moved[:n])
    still = watched & used & ~(view.now - tracks.moved[:n] < params.frozen)
    still &= view.now - np.fmax(tracks.first[:n], tracks.since[:n]) >= params.frozen
    if not still.any():
        return still
    roles = len(tracks.facts.role_names)
    group = np.where(watched, view.node.astype(np.int64) * roles + tracks.facts.role[:n], 0)
    size = np.bincount(group[watched])
    active = np.bincount(group[moving], minlength=len(size))
    others = size[group] - 1
    return still & (others >= params.peers) & (active[group] >= params.moving * others)


def test(view: View, params: TelemetryQualityParams) -> Outcome:
    found = problems(view, params)
    severity = np.full(view.n, Severity.INFO.rank, np.int8)
    frozen = np.flatnonzero(found & np.uint8(FROZEN))
    if len(frozen):
        severity[frozen[_under_load(view, frozen, params)]] = Severity.WARNING.rank
    return Outcome(
        fire=found != 0,
        clear=found == 0,
        known=view.present & view.reporting(),
        value=found.astype(np.float64),
        severity=severity,
    )


def evidence(view: View, row: int, params: TelemetryQualityParams) -> tuple[Evidence, ...]:
    found = int(problems(view, params)[row])
    readings: list[Evidence] = []
    if found & LOST and (remote := view.label(row, "remote")):
        readings.append(reading(f"does not answer the sweep, or only in part; its far end is {remote}"))
    for column in view.table.columns:
        mark = int(view.marks(column)[row])
        value = float(view.value(column)[row])
        if mark & Mark.FULL and column not in params.ignore:
            text = f"{column} is saturated at {value:.0f}: a lower bound that cannot rise"
            bits = CATALOGUE[column].bits
            formula = f"{bits}-bit counter that stops at all ones (docs/methods.md#saturated-counters)"
            top = CATALOGUE[column].top
            readings.append(reading(text, formula, value, top, measure="telemetry_quality.top"))
        if mark & Mark.LOST:
            readings.append(reading(f"{column} is no longer readable"))
    if found & RESET:
        at = clock_time(float(view.table.reset[row]))
        readings.append(reading(f"counters were reset at {at}; differences start there"))
    if found & FROZEN:
        text = f"no traffic counter moved for {params.frozen:g} s while those of the host's other ports do"
        if _under_load(view, np.array([row]), params)[0]:
            text += f", at {params.load:.0%} of their line rate or more: the port is not used, or has stopped counting"
        readings.append(reading(text, "frozen is not zero (docs/methods.md#freshness)"))
    if found & LATE:
        readings.append(reading("some readings are stale although the agent reports"))
    return tuple(readings) or (reading("readings are complete and fresh", for_it=False),)


def info(view: View, row: int, params: TelemetryQualityParams) -> dict[str, str]:
    found = int(problems(view, params)[row])
    return {"problem": ", ".join(word for bit, word in WORDS.items() if found & bit)}


_SATURATING = tuple(
    c.name
    for c in CATALOGUE.values()
    if c.kind is Kind.PORT and c.growth in (Growth.SATURATES, Growth.TICKS) and c.window
)


def promql(params: TelemetryQualityParams) -> Translation:
    counters = "|".join(name for name in _SATURATING if name not in params.ignore)
    return Translation(
        (Alert(f'max without (counter) (fabricmon_port_saturated{{counter=~"{counters}"}}) == 1'),),
        differs=(
            "only saturated counters; unreadable or stale ones show per collector (fabricmon_collector_success), and "
            "frozen or reset ones need the history of all ports of a node"
        ),
    )


RULE = Rule(
    name="telemetry_quality",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.NODE,
    params=TelemetryQualityParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "Some readings of this port are missing, wrong or out of date. Jobs are not affected, but faults of this port "
        "may not be detected."
    ),
    decision=(
        "Some telemetry of this port is unreliable. Saturated: InfiniBand error counters stop at all ones (4, 8 or 16 "
        "bits) and cannot count another error. Unreadable: a counter that was readable returns an error. Not "
        "refreshed: the agent reports, but some readings are stale. Frozen: the traffic counters stand still while "
        "those of the host's other ports move (a port that was used and is left idle looks the same); a "
        "warning if these carry half of what they can. Reset: counters started from 0; differences over that moment "
        "are not formed."
    ),
    action=(
        "Saturated: note the values, then clear the port's counters (`perfquery -R LID PORT`), so that new errors "
        "show. Unreadable or not refreshed: check the agent's log and self-metrics for the source it names. Frozen: "
        "compare with the switch port's counters; firmware that has stopped counting needs a reset of the adapter."
    ),
    promql=promql,
    slow=True,
)
