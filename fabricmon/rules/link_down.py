"""link_down: a link that was up, or is expected to be, is down, and not administratively."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.port import OPER_STATES, PHYS_STATES, PORT_STATES
from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_PORT, Alert, RecordingRule, Translation, any_of, metric, span
from fabricmon.rules.rule import Outcome, Rule, RuleParams, RuleText, Scope, Share, reading
from fabricmon.units import Duration

WITNESSES = ("state", "carrier", "operstate")
"""Columns with the state of a link."""
MOMENT = 1e-3  # seconds by which a reading must be newer to be another one
OVERDUE = 1.5  # periods without a reading after which none is awaited (design choice)
LATEST = 600.0  # seconds after which a link was read again, or its readings are overdue


class LinkDownParams(RuleParams, frozen=True):
    """Limits of link_down (docs/methods.md#link-down).

    hold         time for which the link must be down
    clear        time for which it must be up again
    configuring  time for which InfiniBand may stay in INIT or ARMED with its physical link up: a subnet manager needs a
                 sweep to configure a port (OpenSM sweeps every 10 s)
    grace        no evaluation for so long after a boot or a driver reload: ports are still training
    never        time for which a port that never was up must be seen down before it counts
    peers        least number of other ports that decide whether such a port is expected to be up, and ...
    share        ... least share of them that are up
    """

    hold: Duration = Duration(5)
    clear: Duration = Duration(10)
    configuring: Duration = Duration(30)
    grace: Duration = Duration(120)
    never: Duration = Duration(120)
    peers: int = 3
    share: Share = 0.75


class Expected(IntEnum):
    """Why a port that never was up is expected to be."""

    NOT = 0
    PHYSICAL = 1
    SISTERS = 2
    PLAN = 3
    PEERS = 4


_WHY = {
    Expected.PHYSICAL: "it never was up, and its physical link is",
    Expected.SISTERS: "it never was up, and most ports of its sort on this host are",
    Expected.PLAN: "it never was up, and the topology has a cable here",
    Expected.PEERS: "it never was up, and the same port of most hosts of this type is",
}


def expected(view: View, params: LinkDownParams) -> NDArray[np.int8]:
    """Why each port that never was up is expected to be, as Expected."""
    tracks, n = view.tracks, view.n
    facts, state = tracks.facts, tracks.link[:n]
    found = np.zeros(n, np.int8)
    rows = np.flatnonzero(
        view.present & ~tracks.ever_up[:n] & ~facts.swept[:n] & ((state == link.INIT) | (state == link.DOWN))
    )
    if not len(rows):
        return found
    like = view.present & (facts.make[:n] > 0) & ~facts.swept[:n]
    # ports of one number are alike: the second port of all adapters may be unused
    host = (view.node.astype(np.int64) * facts.makes + facts.make[:n]) * _NUMBERS + facts.number[:n]
    host[~like] = -1
    place = np.where(like, facts.place[:n].astype(np.int64), -1)
    for why, is_so in (
        (Expected.PEERS, _most_up(view, place, rows, params)),
        (Expected.PLAN, view.group("leaf")[rows] >= 0),
        (Expected.SISTERS, _most_up(view, host, rows, params)),
        (Expected.PHYSICAL, state[rows] == link.INIT),
    ):
        found[rows[is_so]] = why.value
    return found


_NUMBERS = 1000  # more than any number of a port


def _most_up(
    view: View, group: NDArray[np.int64], rows: NDArray[np.intp], params: LinkDownParams
) -> NDArray[np.bool_]:
    """Whether enough other ports of each row's group are up. Group -1: none."""
    kinds, dense = np.unique(group, return_inverse=True)
    named = group >= 0
    size = np.bincount(dense[named], minlength=len(kinds))
    up = np.bincount(dense[named & (view.tracks.link[: view.n] == link.UP)], minlength=len(kinds))
    others = size[dense[rows]] - 1
    return (group[rows] >= 0) & (others >= params.peers) & (up[dense[rows]] >= params.share * others)


def test(view: View, params: LinkDownParams) -> Outcome:
    tracks, n = view.tracks, view.n
    state, since = tracks.link[:n], tracks.since[:n]
    fresh = np.logical_or.reduce([view.fresh(column) for column in WITNESSES])
    settling = view.now - view.table.begun[:n] < params.grace
    wanted = tracks.ever_up[:n] | ((expected(view, params) > 0) & (view.now - since >= params.never))
    waiting = _configuring(view, params)
    down = (state == link.DOWN) | ((state == link.INIT) & ~waiting)
    read = view.present & fresh & (state != link.UNKNOWN) & wanted & ~(down & settling)
    return Outcome(
        fire=down,
        clear=(state == link.UP) | (state == link.ORDERED),
        known=read & ~waiting,
        value=np.where(down, view.now - since, 0.0),
        since=since,
        confirmed=_confirmed(view, down, params),
        # while a subnet manager configures all ports anew, a leaf of which some are down has many whose cables work
        working=read & waiting,
    )


def _configuring(view: View, params: LinkDownParams) -> NDArray[np.bool_]:
    """Links that a subnet manager may still be configuring. A link that was read once before its agent fell silent, or
    by a sweep that is not repeated, may be active since: the newest reading counts, not the clock."""
    tracks, n = view.tracks, view.n
    waiting = np.zeros(n, np.bool_)
    rows = np.flatnonzero(tracks.link[:n] == link.INIT)
    if len(rows):
        age = np.nan_to_num(_age(view, rows))
        waiting[rows] = view.now - age - tracks.since[rows] < params.configuring - MOMENT
    return waiting


def _age(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Seconds since the state of some links was read, NaN never."""
    age = np.full(len(rows), np.nan)
    for column in WITNESSES:
        age = np.fmin(age, view.age(column)[rows])
    return age


def _confirmed(view: View, down: NDArray[np.bool_], params: LinkDownParams) -> NDArray[np.bool_]:
    """Links that a second reading found down, or whose second reading is overdue.

    A link that is down at one reading may be up a moment later. Ports of a sweep need no second reading: sweeps are
    rare and take seconds.
    """
    confirmed = np.ones(view.n, np.bool_)
    if not params.hold:
        return confirmed
    since, swept = view.tracks.since[: view.n], view.tracks.facts.swept[: view.n]
    rows = np.flatnonzero(down & ~swept & (view.now - since < LATEST))
    if len(rows):
        age, period = _age(view, rows), np.full(len(rows), np.nan)
        for column in WITNESSES:
            period = np.fmin(period, view.period(column)[rows])
        confirmed[rows] = (view.now - age > since[rows] + MOMENT) | (age > OVERDUE * period)
    return confirmed


def evidence(view: View, row: int, params: LinkDownParams) -> tuple[Evidence, ...]:
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
    why = Expected(int(expected(view, params)[row]))
    formula = f"not active for longer than {max(limit, params.never) if why else limit:g} s"
    down = state in (link.DOWN, link.INIT)
    readings = [reading(", ".join(words), formula, for_s, float(limit), down, "link_down.time")]
    if state == link.INIT:
        sm = float(view.value("sm_lid")[row])
        lid = "" if math.isnan(sm) else f"; sm_lid is {sm:.0f}" + (" (none assigned)" if sm == 0 else "")
        text = f"the physical link is up, but no subnet manager has brought the port to ACTIVE{lid}"
        readings.append(reading(text))
        if (waiting := _waiting(view)) > 1:
            readings.append(reading(f"{waiting} ports wait for the subnet manager: suspect it, not the cables"))
    if why:
        readings.append(reading(_WHY[why]))
    bond, legs, up = other_legs(view, row)
    if bond:
        others = ", ".join(view.table.ids[leg].name for leg in legs)
        text = f"leg of {bond}: {up} of its {len(legs)} other legs up ({others})"
        readings.insert(1, reading(text + ("; traffic goes on with less bandwidth" if up else "")))
    return tuple(readings)


def other_legs(view: View, row: int) -> tuple[str, list[int], int]:
    """The bond of a port, its other legs, and how many of them are up; "" for a port that is in no bond."""
    bond = view.label(row, "bond")
    if not bond:
        return "", [], 0
    mates = np.flatnonzero(view.present & (view.node == view.node[row])).tolist()
    legs = [mate for mate in mates if mate != row and view.label(mate, "bond") == bond]
    return bond, legs, sum(int(view.tracks.link[leg]) == link.UP for leg in legs)


def _waiting(view: View) -> int:
    """Ports that a subnet manager has not configured."""
    return int(np.count_nonzero(view.present & (view.tracks.link[: view.n] == link.INIT)))


def info(view: View, row: int, params: LinkDownParams) -> dict[str, str]:
    bond, legs, up = other_legs(view, row)
    if bond:
        return {"bond": bond, "legs_up": f"{up} of {len(legs) + 1}"}
    if int(view.tracks.link[row]) != link.INIT:
        return {}
    return {"waits_for": "subnet manager"} | ({"suspect": "subnet manager"} if _waiting(view) > 1 else {})


BY_HAND = (
    "Check the far end first: if several links of one leaf are down, it is the switch. For a single link: is the peer "
    "port enabled, is the cable seated, what does the module report ({tools})? Reseat or swap cable, then module, then "
    "port."
)
TOOLS = "`mlxlink -d DEVICE -m`, `ethtool -m IF`"

INFINIBAND = RuleText(
    "The link is down, or the subnet manager has not configured it (state INIT). Jobs that use it stall or fail.",
    BY_HAND.format(tools=TOOLS) + " In INIT: check that a subnet manager runs and reaches this port (`sminfo`, "
    "`ibstat`); leave the cable alone.",
)
ETHERNET = RuleText(
    "The link is down: the port has no carrier. Jobs that use it stall or fail; over a bond with other legs up they "
    "slow down.",
    BY_HAND.format(tools=f"`ethtool IF`, {TOOLS}"),
)
EFA = RuleText(
    "The EFA device reports its link down. Jobs that use it stall or fail.",
    "Its cable and switch are the provider's: check status and scheduled events of the instance (`aws ec2 "
    "describe-instance-status`) and the kernel log for the driver `efa`. Drain the instance; stop and start it, or "
    "replace it, if the device stays down.",
)

WAS_UP = "fabricmon:port:was_up"
"""Ports that were up at least once; one that vanishes is forgotten after an hour."""


def promql(params: LinkDownParams) -> Translation:
    state, phys, carrier = metric("state"), metric("phys_state"), metric("carrier")
    infiniband = f'{ON_PORT} fabricmon_port_info{{link_layer="InfiniBand"}}'
    seen = any_of(
        *(f"0 * ({sign}) + 1" for sign in (f"{state} == 4", f"{carrier} == 1")),
        *(f"0 * ({metric(counter)} > 0) + 1" for counter in ("link_downed", "carrier_up_changes")),
        f"(last_over_time({WAS_UP}[1h]) and {ON_PORT} ({state} or {carrier}))",
    )
    then = f"offset {span(params.grace)}"
    trained = f"and {ON_PORT} {WAS_UP} and {ON_PORT} ({state} {then} or {carrier} {then})"
    trains = f"(({state} == 2 or {state} == 3) and {phys} != 5)"
    polling = f"(({state} == 1 or {trains}) unless {phys} == 3) and {infiniband}"
    dark = f"({carrier} == 0 or {state} == 1) unless {ON_PORT} {metric('admin_up')} == 0 unless {infiniband}"
    waits = f"({state} == 2 or {state} == 3) and {phys} == 5 and {infiniband}"
    return Translation(
        alerts=(
            Alert(f"({any_of(f'({polling})', f'({dark})')}) {trained}"),
            Alert(f"({waits}) {trained}", hold=max(params.configuring, params.hold), case="initialising"),
            Alert(f"({waits}) unless {ON_PORT} {WAS_UP}", hold=max(params.configuring, params.never), case="never_up"),
        ),
        recordings=(RecordingRule(WAS_UP, seen),),
        differs=(
            "a boot shows by the two minutes in which the port was not there before, so a reboot or driver reload "
            "between two scrapes does not; of ports that never were up only those with a physical link are evaluated; "
            "interfaces with an operational state and without a carrier are not evaluated"
        ),
    )


RULE = Rule(
    name="link_down",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=LinkDownParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The link is down, or on InfiniBand the subnet manager has not configured it (state INIT). Jobs that use it "
        "stall or fail."
    ),
    decision=(
        "A link that was up, or is expected to be, is not active for longer than a retraining takes, and is not "
        "disabled. On InfiniBand the "
        "port's own state decides: DOWN and POLLING is loss of signal; INIT with the physical link up means that the "
        "cable is fine and the subnet manager has not configured the port. On RoCE and Ethernet the carrier decides. "
        "A port that never was up counts after two minutes if its physical link is up, if most ports of its sort on "
        "the host or the same port of most hosts of the type are up, or if the topology has a cable there. Other such "
        "ports, ports disabled by an operator and hosts that are just booting are not evaluated."
    ),
    action=(
        BY_HAND.format(tools=TOOLS) + " InfiniBand in INIT: check that a subnet manager runs and reaches this port "
        "(`sminfo`, `ibstat`); leave the cable alone."
    ),
    by_layer={"infiniband": INFINIBAND, "ethernet": ETHERNET, "efa": EFA},
    yields_to=("nic_fault",),
    promql=promql,
)
