"""link_down: a link that was up carries nothing now, and nobody ordered it."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.catalogue.port import OPER_STATES, PHYS_STATES, PORT_STATES
from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_PORT, Alert, Recording, Translation, any_of, metric, span
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

WITNESSES = ("state", "carrier", "operstate")
"""Columns that tell whether a link is up."""
MOMENT = 1e-3  # seconds by which a reading must be newer to be another one
OVERDUE = 1.5  # periods without a reading after which the next one is not waited for [D]
LATEST = 600.0  # seconds after which a link that is down was surely read again, or its readings are overdue


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of link_down.

    hold         how long the link must be down (5 s: detection-methods 3.3)
    clear        how long it must be up again before this ends (10 s, one poll: design)
    configuring  how long InfiniBand may stay in INIT or ARMED with its physical link up: a subnet manager needs a
                 sweep to configure a port (30 s: design; OpenSM sweeps every 10 s)
    grace        no judgement for so long after a boot or a driver reload: ports are still training (120 s:
                 detection-methods 3.3)
    """

    hold: Duration = Duration(5)
    clear: Duration = Duration(10)
    configuring: Duration = Duration(30)
    grace: Duration = Duration(120)


def test(view: View, params: Params) -> Outcome:
    tracks, n = view.tracks, view.n
    state, since = tracks.link[:n], tracks.since[:n]
    fresh = np.logical_or.reduce([view.fresh(column) for column in WITNESSES])
    with np.errstate(invalid="ignore"):
        settling = view.now - view.table.begun[:n] < params.grace
        waiting = (state == link.INIT) & (view.now - since < params.configuring)
    down = (state == link.DOWN) | ((state == link.INIT) & ~waiting)
    known = view.present & fresh & (state != link.UNKNOWN) & tracks.ever_up[:n] & ~(down & settling) & ~waiting
    return Outcome(
        fire=down,
        clear=(state == link.UP) | (state == link.ORDERED),
        known=known,
        value=np.where(down, view.now - since, 0.0),
        since=since,
        confirmed=_confirmed(view, down, params),
    )


def _confirmed(view: View, down: NDArray[np.bool_], params: Params) -> NDArray[np.bool_]:
    """Links that a second reading found down, or whose second reading is overdue.

    One that is down at one look may be up a moment later; the time until the next look says nothing. What a sweep
    tells is told at once: it looks seldom, and its own look takes seconds.
    """
    confirmed = np.ones(view.n, np.bool_)
    if not params.hold:
        return confirmed
    since, swept = view.tracks.since[: view.n], view.tracks.facts.swept[: view.n]
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(down & ~swept & (view.now - since < LATEST))
        if len(rows):
            age, period = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
            for column in WITNESSES:
                age, period = np.fmin(age, view.age(column)[rows]), np.fmin(period, view.period(column)[rows])
            confirmed[rows] = (view.now - age > since[rows] + MOMENT) | (age > OVERDUE * period)
    return confirmed


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component = str(view.table.ids[row])
    state = int(view.tracks.link[row])
    for_s = view.now - float(view.tracks.since[row])
    limit = params.configuring if state == link.INIT else params.hold
    words = [f"link {link.NAMES[state]} for {for_s:.0f} s"]
    for column, names in (("state", PORT_STATES), ("phys_state", PHYS_STATES), ("operstate", OPER_STATES)):
        value = float(view.value(column)[row])
        if not math.isnan(value):
            words.append(f"{column} {value:.0f} ({names.get(int(value), '?')})")
    carrier = float(view.value("carrier")[row])
    if not math.isnan(carrier):
        words.append("carrier" if carrier else "no carrier")
    formula = f"not active for longer than {limit:g} s (detection-methods 3.3)"
    readings = [Evidence(component, ", ".join(words), formula, for_s, float(limit), state in (link.DOWN, link.INIT))]
    if state == link.INIT:
        sm = float(view.value("sm_lid")[row])
        told = "" if math.isnan(sm) else f"; sm_lid is {sm:.0f}" + (" (none assigned)" if sm == 0 else "")
        text = f"the physical link is up, but no subnet manager has brought the port to ACTIVE{told}"
        readings.append(Evidence(component, text))
    return tuple(readings)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    return {"waits_for": "subnet manager"} if int(view.tracks.link[row]) == link.INIT else {}


WAS_UP = "fabricmon:port:was_up"
"""Ports that were up since they are watched; one that vanishes is forgotten after an hour."""


def promql(params: Params) -> Translation:
    state, phys, carrier = metric("state"), metric("phys_state"), metric("carrier")
    infiniband = f'{ON_PORT} fabricmon_port_info{{link_layer="InfiniBand"}}'
    seen = any_of(
        *(f"0 * ({sign}) + 1" for sign in (f"{state} == 4", f"{carrier} == 1")),
        *(f"0 * ({metric(counter)} > 0) + 1" for counter in ("link_downed", "carrier_up_changes")),
        f"(last_over_time({WAS_UP}[1h]) and {ON_PORT} ({state} or {carrier}))",
    )
    then = f"offset {span(params.grace)}"
    judged = f"and {ON_PORT} {WAS_UP} and {ON_PORT} ({state} {then} or {carrier} {then})"
    trains = f"(({state} == 2 or {state} == 3) and {phys} != 5)"
    hears_none = f"(({state} == 1 or {trains}) unless {phys} == 3) and {infiniband}"
    dark = f"({carrier} == 0 or {state} == 1) unless {ON_PORT} {metric('admin_up')} == 0 unless {infiniband}"
    waits = f"({state} == 2 or {state} == 3) and {phys} == 5 and {infiniband}"
    return Translation(
        alerts=(
            Alert(f"({any_of(f'({hears_none})', f'({dark})')}) {judged}"),
            Alert(f"({waits}) {judged}", hold=max(params.configuring, params.hold), case="initialising"),
        ),
        recordings=(Recording(WAS_UP, seen),),
        differs=(
            "a boot shows by the two minutes in which the port was not there before, so a reboot or driver reload "
            "between two scrapes does not; interfaces that tell an operational state and no carrier are not judged"
        ),
    )


RULE = Rule(
    name="link_down",
    kind="link_down",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=5.0,
    clear=10.0,
    title="Link down",
    why=(
        "A link that was up is not active any more, longer than a retraining takes, and nobody disabled it. On "
        "InfiniBand the port's own state decides: DOWN and POLLING means that it hears no partner; INIT with the "
        "physical link up means that the cable is fine and the subnet manager has not configured the port. On RoCE "
        "and Ethernet the carrier decides. Ports that never were up, ports disabled by an operator and hosts that "
        "are just booting are not judged."
    ),
    action=(
        "Look at the far end first: if several links of one leaf are down, it is the switch. For a single link: is the "
        "peer port enabled, is the cable seated, what does the module say (`mlxlink -d DEVICE -m`, `ethtool -m IF`)? "
        "Reseat or swap cable, then module, then port. In INIT: check that a subnet manager runs and reaches this port "
        "(`sminfo`, `ibstat`); leave the cable alone."
    ),
    yields_to=("nic_fault",),
    promql=promql,
)
