"""telemetry_quality: unreliable telemetry of a port: saturated, frozen, unreadable, reset."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.fleet import freshness, link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.losses import SLOWEST
from fabricmon.fleet.movement import TRAFFIC
from fabricmon.fleet.view import View
from fabricmon.forms.quantities import quantity
from fabricmon.forms.times import clock_time
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.neighbours import Bools, Floats, Rows, host_ports_up, neighbourhood
from fabricmon.rules.promql import Alert, Translation
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

Groups = NDArray[np.int64]
FULL, LOST, LATE, FROZEN, RESET = 1, 2, 4, 8, 16
ALONE = 32
"""Besides FROZEN: the port carried what the others of its host carry still."""
CONNECTED = 64
"""Besides FROZEN: queue pairs delivered packets over the port while none was counted."""
IN_JOB = 128
"""Besides FROZEN: the port carried what the same port of other hosts of its job carries still."""
UNUSED = 1 << 20
"""Bytes below which a port has never been used (design choice; management datagrams make some)."""
WORDS = {FULL: "saturated", LOST: "unreadable", LATE: "not refreshed", FROZEN: "frozen", RESET: "reset"}


class TelemetryQualityParams(RuleParams, frozen=True):
    """Limits of telemetry_quality (docs/methods.md#telemetry-quality).

    ignore  counters that may saturate (xmit_wait_ticks does within a second of congestion on a fast link)
    frozen  time without a change of any traffic counter after which a port is frozen, if ...
    moving  ... at least this share of the other ports of its role on its host changed, of ...
    peers   ... at least so many
    alone   the same time for a port that carried what the others of its role on its host carry now, all of them within
            a factor of `alike`: one job used them alike, and uses the others still; for one that carried what the same
            port of `peers` other hosts of its job carries still, where its host works on; and for one over which queue
            pairs deliver packets. A warning
    alike   factor within which ports of one job carry alike
    shown   time for which a counter reset is reported
    hold    time for which a problem must last
    clear   time for which it must be over
    """

    ignore: tuple[str, ...] = ("xmit_wait_ticks",)
    frozen: Duration = Duration(600)
    moving: float = 0.75
    peers: int = 3
    alone: Duration = Duration(120)
    alike: Annotated[float, Meta(gt=1, le=10)] = 2.0
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
    still = _frozen(view, params)
    found[still.long] |= np.uint8(FROZEN)
    found[still.alone] |= np.uint8(FROZEN | ALONE)
    found[still.in_job] |= np.uint8(FROZEN | IN_JOB)
    found[still.connected] |= np.uint8(FROZEN | CONNECTED)
    return found


class Still(NamedTuple):
    """Rows whose counters stand still while those of the host's other ports move, or while it is used.

    long       for `frozen`, or for `alone` and so
    alone      of a port that carried what the others carry still, and of no other host's at that moment: they work on
    in_job     of a port that carried what the same port of other hosts of its job carries still, and of no other
               host's at that moment
    connected  of a port over which queue pairs deliver packets
    """

    long: Bools
    alone: Bools
    in_job: Bools
    connected: Bools


def _frozen(view: View, params: TelemetryQualityParams) -> Still:
    """A port without traffic since its reset belongs to a plane that is not in use."""
    tracks, n = view.tracks, view.n
    countable = np.zeros(n, np.bool_)
    carried, read, reads = np.zeros(n), np.zeros(n, np.bool_), np.zeros(n)
    for column in TRAFFIC:
        if view.table.counted(column) is not None:
            read |= view.fresh(column)
            reads = np.fmax(reads, view.age_limit(column))
            countable |= np.isfinite(view.value(column))
            carried = np.fmax(carried, view.value(column))
    # a link between switches may be idle while other ports carry traffic
    watched = host_ports_up(view) & countable
    age = view.now - tracks.movement.moved[:n]
    moving = watched & (age < freshness.LEAST * 2)
    used = (carried > UNUSED) | np.isfinite(age)
    known = view.now - np.fmax(tracks.first[:n], tracks.since[:n])
    stopped = watched & used & ~(age < freshness.LEAST * 2)
    waited = stopped & ~(age < params.alone) & (known >= params.alone)
    if not waited.any():
        return Still(*(np.zeros(n, np.bool_) for _ in Still._fields))
    delivered = tracks.delivered(view.table)
    # counters that are not read any more, or seldom, do not stand still
    connected = waited & (view.now - delivered <= SLOWEST) & read & ~(age < reads)
    # the whole window is of the time in which nothing was counted
    connected &= delivered - np.where(np.isfinite(age), view.now - age, view.now - known) >= SLOWEST
    roles = len(tracks.facts.role_names)
    of_host = np.where(watched, view.node.astype(np.int64) * roles + tracks.facts.role[:n], -1)
    left, alone = _left_behind(view, stopped, of_host, moving, params, params.peers)
    works_on, _ = _left_behind(view, stopped, of_host, moving, params, 1)
    _, alike = _left_behind(view, works_on, np.where(watched, _jobs(view), -1), moving, params, params.peers)
    alone, in_job = alone & waited, alike & waited
    alone[_with_others(view, left, np.flatnonzero(alone))] = False
    in_job[_with_others(view, left | alike, np.flatnonzero(in_job))] = False
    long = left & ~(age < params.frozen) & (known >= params.frozen)
    in_job &= ~alone & ~connected
    return Still(alone | in_job | connected | long, alone & ~connected, in_job, connected)


def _jobs(view: View) -> Groups:
    """Number of each row's job, and name and make of it on its host; -1 where no job is known."""
    job, place = view.group("job").astype(np.int64), view.tracks.facts.place[: view.n]
    return np.where(job >= 0, job * (int(place.max(initial=0)) + 1) + place, -1)


def _left_behind(
    view: View, stopped: Bools, group: Groups, moving: Bools, params: TelemetryQualityParams, least: int
) -> tuple[Bools, Bools]:
    """Rows that stopped while most of the others of their group move, of which there are `least`, and those of them
    that carried what these do."""
    rows = np.flatnonzero(stopped & (group >= 0))
    keys, of = np.unique(group[rows], return_inverse=True)
    every = np.flatnonzero(np.isin(group, keys))
    mine, move = np.searchsorted(keys, group[every]), moving[every]
    others = np.bincount(mine, minlength=len(keys)) - 1
    active = np.bincount(mine[move], minlength=len(keys))
    left = ((others >= least) & (active >= params.moving * others))[of]
    pace = view.tracks.movement.pace(view.n)
    alike = left & _carried_alike(pace[rows], of, pace[every[move]], mine[move], len(keys), params.alike)
    found = np.zeros((2, view.n), np.bool_)
    found[0, rows], found[1, rows] = left, alike
    return found[0], found[1]


def _with_others(view: View, stopped: Bools, rows: Rows) -> Rows:
    """Those of `rows` that stopped within a minute of a port of another host of their plane: one whose link went down,
    whose host fell silent, or one of `stopped`. What stopped then is the work, not the counters of two adapters."""
    tracks, n = view.tracks, view.n
    groups, _ = neighbourhood(view)
    down = view.present & (tracks.link[:n] != link.UP) & ~tracks.facts.swept[:n]
    when = np.where(down, tracks.since[:n], tracks.movement.moved[:n])
    every = np.flatnonzero((stopped | down | (view.present & ~view.reporting())) & np.isfinite(when))
    node, near = view.node.astype(np.int64), 2.0 * freshness.LEAST
    found = np.zeros(len(rows), np.bool_)
    for group in np.unique(groups[rows]):
        others = every[groups[every] == group]
        others = others[np.argsort(when[others], kind="stable")]
        here = np.flatnonzero(groups[rows] == group)
        at = when[rows[here]]
        first, end = np.searchsorted(when[others], at - near), np.searchsorted(when[others], at + near, "right")
        # its own node is among them: another one is, too, where the node changes from one to the next
        changes = np.cumsum(np.diff(node[others], prepend=node[others[:1]]) != 0)
        found[here] = changes[end - 1] > changes[first]
    return rows[found]


def _carried_alike(pace: Floats, group: Groups, moving: Floats, of: Groups, groups: int, alike: float) -> Bools:
    """Whether each pace is within a factor of `alike` of what every port carries that moves in its group; `of`: the
    groups of these."""
    least, most = np.full(groups, np.inf), np.zeros(groups)
    np.minimum.at(least, of, moving)
    np.maximum.at(most, of, moving)
    return np.asarray((pace > 0) & (least[group] * alike >= pace) & (most[group] <= alike * pace))


def test(view: View, params: TelemetryQualityParams) -> Outcome:
    found = problems(view, params)
    severity = np.full(view.n, Severity.INFO.rank, np.int8)
    severity[(found & np.uint8(ALONE | IN_JOB | CONNECTED)) != 0] = Severity.WARNING.rank
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
        readings.append(_stands_still(view, row, found))
    if found & LATE:
        readings.append(reading("some readings are stale although the agent reports"))
    return tuple(readings) or (reading("readings are complete and fresh", for_it=False),)


def _stands_still(view: View, row: int, found: int) -> Evidence:
    movement = view.tracks.movement
    at = float(movement.moved[row])
    since = "while it was watched" if np.isnan(at) else f"since {clock_time(at)}"
    text = f"no traffic counter moved {since}, while those of the host's other ports do"
    if found & CONNECTED:
        last = clock_time(float(view.tracks.delivered(view.table)[row]))
        text = f"no traffic counter moved {since}, while connections delivered packets over the port until {last}"
        text += ": it has stopped counting"
    elif found & (ALONE | IN_JOB):
        pace = float(movement.pace(view.n)[row])
        carried = quantity(pace, "bytes_per_second")
        if not found & ALONE:
            text = f"no traffic counter moved {since}, while those of the same port on other hosts of its job do"
        text += f": it carried {carried}, as they do still; the port is not used, or has stopped counting"
    return reading(text, "frozen is not zero (docs/methods.md#freshness)")


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
        "warning if it carried what these carry still, as the ports of one job do, or what the same port of other "
        "hosts of its job carries still, or if queue pairs deliver packets over it all the while. Reset: counters "
        "started from 0; differences over that moment are not formed."
    ),
    action=(
        "Frozen: compare with the counters of the switch port: where they move, the firmware of the adapter has "
        "stopped counting and needs a reset, else the port carries nothing. Saturated: note the values, then clear "
        "the port's counters (`perfquery -R LID PORT`), so that new errors show. Unreadable or not refreshed: check "
        "the agent's log and self-metrics for the source it names."
    ),
    promql=promql,
    slow=True,
)
