"""telemetry_quality: what is seen of a port cannot be relied upon: full, frozen, unreadable, reset."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.fleet import link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.tracks import TRAFFIC
from fabricmon.fleet.view import FRESH_AT_LEAST, FRESH_PERIODS, View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

FULL, LOST, LATE, FROZEN, RESET = 1, 2, 4, 8, 16
UNUSED = 1 << 20
"""Bytes: a port whose traffic counters are below has never been used (design; management datagrams make some)."""
WORDS = {FULL: "saturated", LOST: "unreadable", LATE: "not refreshed", FROZEN: "frozen", RESET: "reset"}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of telemetry_quality.

    ignore  counters not reported when full (xmit_wait_ticks: it fills within a second of congestion on a fast link,
            counters-ib 3.3, so that every busy port would be reported)
    frozen  a port is frozen when none of its traffic counters moved for so long (10 min: design) ...
    moving  ... while at least this share of the other ports of its role on its host did (0.75: design) ...
    peers   ... and there are at least so many of them (3: design)
    shown   how long a counter reset is shown (5 min: design)
    hold    how long it must be so (30 s, three polls: design)
    clear   how long it must be well (0)
    """

    ignore: tuple[str, ...] = ("xmit_wait_ticks",)
    frozen: Duration = Duration(600)
    moving: float = 0.75
    peers: int = 3
    shown: Duration = Duration(300)
    hold: Duration = Duration(30)
    clear: Duration = Duration(0)


def problems(view: View, params: Params) -> NDArray[np.uint8]:
    """Per row the problems there are, as bits."""
    table, n = view.table, view.n
    found = np.zeros(n, np.uint8)
    marks = np.zeros(n, np.uint8)
    full = np.zeros(n, np.uint8)
    for column in table.columns:
        if table.counted(column) is not None:
            mark = view.marks(column)
            marks |= mark
            if column not in params.ignore:
                full |= mark
    found[(full & np.uint8(Mark.FULL)) != 0] |= np.uint8(FULL)
    # a sweep reaches no adapter behind a link that is down, and that is said elsewhere
    out_of_reach = view.tracks.facts.swept[:n] & (view.tracks.link[:n] != link.UP)
    found[((marks & np.uint8(Mark.LOST)) != 0) & ~out_of_reach] |= np.uint8(LOST)
    with np.errstate(invalid="ignore"):
        found[view.now - table.reset[:n] < params.shown] |= np.uint8(RESET)
        heard = view.heard() <= FRESH_AT_LEAST
        for lane in table.lanes.values():
            limit = np.fmax(FRESH_PERIODS * lane.period(table.clocks, table.part_of, n), FRESH_AT_LEAST)
            old = view.now - lane.received(table.clocks, table.part_of, n) > limit
            found[heard & old] |= np.uint8(LATE)
    found[_frozen(view, params)] |= np.uint8(FROZEN)
    return found


def _frozen(view: View, params: Params) -> NDArray[np.bool_]:
    """Ports that stand still while their mates on the host move: frozen counters, or a port left idle.

    A port that has carried nothing since it was reset belongs to a plane that is not in use.
    """
    tracks, n = view.tracks, view.n
    countable = np.zeros(n, np.bool_)
    carried = np.zeros(n)
    for column in TRAFFIC:
        if view.table.counted(column) is not None:
            countable |= np.isfinite(view.value(column))
            carried = np.fmax(carried, view.value(column))
    # a link between switches may well be idle while others carry traffic
    watched = view.present & countable & (tracks.link[:n] == link.UP) & ~tracks.facts.swept[:n]
    with np.errstate(invalid="ignore"):
        moving = watched & (view.now - tracks.moved[:n] < FRESH_AT_LEAST * 2)
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


def test(view: View, params: Params) -> Outcome:
    found = problems(view, params)
    with np.errstate(invalid="ignore"):
        heard = view.heard() <= FRESH_AT_LEAST
    return Outcome(
        fire=found != 0,
        clear=found == 0,
        known=view.present & heard,
        value=found.astype(np.float64),
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, found = str(view.table.ids[row]), int(problems(view, params)[row])
    readings: list[Evidence] = []
    if found & LOST and (remote := view.label(row, "remote")):
        readings.append(Evidence(component, f"does not answer the sweep, or not all of it; its far end is {remote}"))
    for column in view.table.columns:
        mark = int(view.marks(column)[row])
        value = float(view.value(column)[row])
        if mark & Mark.FULL and column not in params.ignore:
            text = f"{column} stands at its top, {value:.0f}: it says at least, and cannot rise any more"
            formula = f"{CATALOGUE[column].bits}-bit counter that stops at all ones (counters-ib 3.1)"
            readings.append(Evidence(component, text, formula, value, CATALOGUE[column].top))
        if mark & Mark.LOST:
            readings.append(Evidence(component, f"{column} was known and cannot be read any more"))
    if found & RESET:
        ago = view.now - float(view.table.reset[row])
        readings.append(Evidence(component, f"counters began anew {ago:.0f} s ago; differences start from there"))
    if found & FROZEN:
        text = f"no traffic counter moved for {params.frozen:g} s while its mates' on the host do"
        readings.append(Evidence(component, text, "frozen is not zero (detection-methods 0.1)"))
    if found & LATE:
        readings.append(Evidence(component, "a part of its readings is not refreshed although the agent reports"))
    return tuple(readings) or (Evidence(component, "readings are whole and fresh", for_it=False),)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    found = int(problems(view, params)[row])
    return {"problem": ", ".join(word for bit, word in WORDS.items() if found & bit)}


_SATURATING = tuple(
    c.name
    for c in CATALOGUE.values()
    if c.kind is Kind.PORT and c.growth in (Growth.SATURATES, Growth.TICKS) and c.window
)


def promql(params: Params) -> Translation:
    counters = "|".join(name for name in _SATURATING if name not in params.ignore)
    return Translation(
        (Alert(f'max without (counter) (fabricmon_port_saturated{{counter=~"{counters}"}}) == 1'),),
        differs=(
            "only full counters; what is unreadable or late shows per collector (fabricmon_collector_success), and "
            "frozen or reset counters need the history of all ports of a node"
        ),
    )


RULE = Rule(
    name="telemetry_quality",
    kind="telemetry_quality",
    table=Kind.PORT,
    severity=Severity.INFO,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=30.0,
    clear=0.0,
    title="Readings cannot be relied upon",
    why=(
        "Something that is read of this port does not say what it seems to. Saturated: InfiniBand error counters stop "
        "at all ones (4, 8 or 16 bits) and can never show another error. Unreadable: a counter that was there gives an "
        "error now. Not refreshed: the agent reports, but this part of its readings stands. Frozen: the traffic "
        "counters stand still while those of the host's other ports move (a port that was used and is left idle looks "
        "the same). "
        "Reset: counters began anew; differences over that moment are not formed."
    ),
    action=(
        "Saturated: note the values, then clear the port's counters (`perfquery -R LID PORT`), so that new errors "
        "show. Unreadable or not refreshed: look at the agent's log and self-metrics for the source it names. Frozen: "
        "compare with the switch port's counters; firmware that has stopped counting needs a reset of the adapter."
    ),
    promql=promql,
)
