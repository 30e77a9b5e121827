"""config_drift: a port of a lossless fabric is set otherwise than the other ports of its rail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.catalogue.qos import COMPARED
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

FINGERPRINT = "qos_fingerprint"
LOSES = frozenset({"pfc_enabled", "pause_rx_enabled", "pause_tx_enabled", "app_fingerprint", "qos_mtu"})
"""Settings of which a wrong one loses or stops packets; a wrong one of the others costs throughput or fairness."""

WORDS = {
    "pfc_enabled": "priority flow control",
    "pause_rx_enabled": "obeying global pause",
    "pause_tx_enabled": "sending global pause",
    "app_fingerprint": "table of priorities (DSCP and others)",
    "dscp_trusted": "trust in DSCP",
    "ets_fingerprint": "ETS",
    "ecn_marks_answered": "answering of congestion marks",
    "ecn_rate_reduced": "slowing down on notifications",
    "qos_mtu": "MTU",
    "buffer_fingerprint": "receive buffers",
    "pfc_cable_delay": "cable delay of flow control",
    "dcbx_mode": "DCBX mode",
    "ets_willing": "taking settings from the switch",
}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of config_drift.

    least   ports of a rail whose settings must be known before they are a reference (3: design)
    hold    how long the settings must differ (5 min: design; settings are changed port by port)
    clear   how long they must agree (0)
    """

    least: int = 3
    hold: Duration = Duration(300)
    clear: Duration = Duration(0)


class Drift(NamedTuple):
    """Per row: `judged`, its rail has a reference and its own settings are known; `differs` in a setting known of both;
    `like`, a row that has the reference's settings, -1 where there is none."""

    judged: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    loses: NDArray[np.bool_]
    like: NDArray[np.intp]


def drift(view: View, params: Params) -> Drift:
    """The reference of a rail is what more than half of its ports have."""
    n = view.n
    none = Drift(np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.full(n, -1, np.intp))
    group, mark = view.group("rail"), view.value(FINGERPRINT)
    rows = np.flatnonzero(view.present & np.isfinite(mark) & (group >= 0) & view.fresh(FINGERPRINT))
    if not len(rows):
        return none
    groups = int(group.max()) + 1
    size = np.bincount(group[rows], minlength=groups)
    like = _majority(rows, group, mark, size, groups)
    like[size < params.least] = -1
    judged, differs, loses = none.judged, none.differs, none.loses
    known = rows[like[group[rows]] >= 0]
    judged[known] = True
    odd = known[mark[known] != mark[like[group[known]]]]
    for column in COMPARED if len(odd) else ():
        value = view.value(column)
        mine, theirs = value[odd], value[like[group[odd]]]
        other = np.isfinite(mine) & np.isfinite(theirs) & (mine != theirs)
        differs[odd] |= other
        if column in LOSES:
            loses[odd] |= other
    return Drift(judged, differs, loses, np.where(judged, like[np.maximum(group, 0)], -1))


def _majority(
    rows: NDArray[np.intp], group: NDArray[np.int32], mark: NDArray[np.float64], size: NDArray[np.intp], groups: int
) -> NDArray[np.intp]:
    """Per group a row whose value more than half of its rows have, -1 where none has. Two guesses first: sorting all
    rows costs more than all else here, and nearly every rail agrees."""
    like = np.full(groups, -1, np.intp)
    for guess in (rows, rows[::-1]):
        candidate = np.full(groups, -1, np.intp)
        candidate[group[guess]] = guess
        same = mark[rows] == mark[candidate[group[rows]]]
        votes = np.bincount(group[rows][same], minlength=groups)
        like = np.where((like < 0) & (2 * votes > size), candidate, like)
        if (like >= 0).sum() == np.count_nonzero(size):
            return like
    for number in np.flatnonzero((like < 0) & (size > 0)).tolist():
        members = rows[group[rows] == number]
        values, counts = np.unique(mark[members], return_counts=True)
        best = int(counts.argmax())
        if 2 * counts[best] > len(members):
            like[number] = members[np.flatnonzero(mark[members] == values[best])[0]]
    return like


def test(view: View, params: Params) -> Outcome:
    found = drift(view, params)
    severity = np.where(found.loses, Severity.WARNING.rank, Severity.INFO.rank).astype(np.int8)
    return Outcome(
        fire=found.differs,
        clear=~found.differs,
        known=found.judged,
        value=np.where(found.judged, found.differs.astype(np.float64), np.nan),
        severity=severity,
    )


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    found = drift(view, params)
    component = str(view.table.ids[row])
    like = int(found.like[row])
    if like < 0 or not found.differs[row]:
        return (Evidence(component, "set as the other ports of its rail", for_it=False),)
    group = view.group("rail")
    rail = view.group_name("rail", int(group[row]))
    peers = int(np.count_nonzero((group == group[row]) & found.judged & ~found.differs))
    readings = []
    for column in COMPARED:
        mine, theirs = float(view.value(column)[row]), float(view.value(column)[like])
        if np.isfinite(mine) and np.isfinite(theirs) and mine != theirs:
            text = f"{WORDS[column]}: {told(column, mine)} here, {told(column, theirs)} on most ports of rail {rail}"
            formula = f"more than half of the rail's ports agree, {peers} of them here (counters-roce.md 4)"
            readings.append(Evidence(component, text, formula, mine, theirs))
    return tuple(readings)


def info(view: View, row: int, params: Params) -> dict[str, str]:
    like = int(drift(view, params).like[row])
    if like < 0:
        return {}
    names = [
        WORDS[c] for c in COMPARED
        if np.isfinite(view.value(c)[[row, like]]).all() and view.value(c)[row] != view.value(c)[like]
    ]  # fmt: skip
    return {"differs": ", ".join(names)} if names else {}


def told(column: str, value: float) -> str:
    """A setting as a person calls it: priorities of a bitmap, yes and no, a number."""
    if column in ("pfc_enabled", "ecn_marks_answered", "ecn_rate_reduced"):
        priorities = [str(n) for n in range(8) if int(value) >> n & 1]
        return f"on priority {', '.join(priorities)}" if priorities else "off"
    if column in ("pause_rx_enabled", "pause_tx_enabled", "dscp_trusted", "ets_willing"):
        return "on" if value else "off"
    return f"#{int(value):013x}" if column.endswith("_fingerprint") else f"{value:g}"


def promql(params: Params) -> Translation:
    def differing(columns: list[str]) -> str:
        return any_of(*(
            f"{metric(c)} != on (device, port) group_left () quantile by (device, port) (0.5, {metric(c)})"
            for c in columns
        ))  # fmt: skip

    mark = metric(FINGERPRINT)
    enough = f"and on (device, port) count by (device, port) ({mark}) >= {params.least}"
    loses = differing([c for c in COMPARED if c in LOSES])
    costs = differing([c for c in COMPARED if c not in LOSES])
    return Translation(
        (
            Alert(f"({loses}) {enough}"),
            Alert(f"(({costs}) unless ({loses})) {enough}", severity=Severity.INFO),
        ),
        differs=(
            "the ruler knows no topology: a rail is the ports of one device name on all nodes, and the median stands "
            "for what more than half of them have"
        ),
    )


RULE = Rule(
    name="config_drift",
    kind="config_drift",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=Params,
    test=test,
    evidence=evidence,
    info=info,
    hold=300.0,
    clear=0.0,
    title="Port set otherwise than its rail",
    why=(
        "All ports of one rail talk to each other through the same switches and must agree on what is lossless. A port "
        "whose priority flow control, table of priorities, pause or MTU differs drops packets, or stops others, under "
        "load only; a difference in ETS, ECN or buffers costs throughput. More than half of the rail's ports decide "
        "what is right; settings that an adapter does not tell are not compared. Where flow control is enabled on no "
        "port of a rail at all, nothing differs and this says nothing."
    ),
    action=(
        "Compare with a port of the same rail: `dcb pfc show dev IF`, `dcb ets show dev IF`, `dcb app show dev IF`, "
        "`ethtool -a IF`, `ip link show IF` (with the vendor's tools: `mlnx_qos -i IF`). Put the site's settings on "
        "the port again and find out why they were lost: a reinstalled node, a driver reload, a DCBX exchange with the "
        "switch."
    ),
    promql=promql,
)
