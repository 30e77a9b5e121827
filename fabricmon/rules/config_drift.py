"""config_drift: the configuration of a port of a lossless fabric differs from its rail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.qos import COMPARED
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import Alert, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

FINGERPRINT = "qos_fingerprint"
LOSES = frozenset({"pfc_enabled", "pause_rx_enabled", "pause_tx_enabled", "app_fingerprint", "qos_mtu"})
"""Settings of which a wrong one loses or stops packets; a wrong one of the others costs throughput or fairness."""

WORDS = {
    "pfc_enabled": "priority flow control",
    "pause_rx_enabled": "global pause Rx",
    "pause_tx_enabled": "global pause Tx",
    "app_fingerprint": "priority table (DSCP and others)",
    "dscp_trusted": "DSCP trust",
    "ets_fingerprint": "ETS",
    "ecn_marks_answered": "ECN notification point (CNPs sent)",
    "ecn_rate_reduced": "ECN reaction point (rate reduced on CNPs)",
    "qos_mtu": "MTU",
    "buffer_fingerprint": "receive buffers",
    "pfc_cable_delay": "PFC cable delay",
    "dcbx_mode": "DCBX mode",
    "ets_willing": "ETS willing (settings from the switch)",
}


class ConfigDriftParams(RuleParams, frozen=True):
    """Limits of config_drift (docs/methods.md#config-drift).

    least   known ports of a rail from which they are a reference
    hold    time for which the settings must differ (settings are changed port by port)
    clear   time for which they must agree
    """

    least: int = 3
    hold: Duration = Duration(300)


class Drift(NamedTuple):
    """Per row.

    known    its rail has a reference and its own settings are known
    differs  in a setting known of both
    loses    in a setting of LOSES
    like     a row that has the reference's settings, -1 none
    """

    known: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    loses: NDArray[np.bool_]
    like: NDArray[np.intp]


def drift(view: View, params: ConfigDriftParams) -> Drift:
    """Drift of all rows. The reference of a rail is the setting of more than half of its ports."""
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
    compared, differs, loses = none.known, none.differs, none.loses
    known = rows[like[group[rows]] >= 0]
    compared[known] = True
    odd = known[mark[known] != mark[like[group[known]]]]
    for column in COMPARED if len(odd) else ():
        value = view.value(column)
        mine, theirs = value[odd], value[like[group[odd]]]
        other = np.isfinite(mine) & np.isfinite(theirs) & (mine != theirs)
        differs[odd] |= other
        if column in LOSES:
            loses[odd] |= other
    return Drift(compared, differs, loses, np.where(compared, like[np.maximum(group, 0)], -1))


def _majority(
    rows: NDArray[np.intp], group: NDArray[np.int32], mark: NDArray[np.float64], size: NDArray[np.intp], groups: int
) -> NDArray[np.intp]:
    """Per group a row whose value more than half of its rows have, -1 none. Two guesses first: sorting all rows costs
    more than the rest, and nearly every rail agrees."""
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


def test(view: View, params: ConfigDriftParams) -> Outcome:
    found = drift(view, params)
    severity = np.where(found.loses, Severity.WARNING.rank, Severity.INFO.rank).astype(np.int8)
    return Outcome(
        fire=found.differs,
        clear=~found.differs,
        known=found.known,
        value=np.where(found.known, found.differs.astype(np.float64), np.nan),
        severity=severity,
    )


def evidence(view: View, row: int, params: ConfigDriftParams) -> tuple[Evidence, ...]:
    found = drift(view, params)
    like = int(found.like[row])
    if like < 0 or not found.differs[row]:
        return (reading("same configuration as the other ports of its rail", for_it=False),)
    group = view.group("rail")
    rail = view.group_name("rail", int(group[row]))
    peers = int(np.count_nonzero((group == group[row]) & found.known & ~found.differs))
    formula = f"more than half of the rail's ports agree, {peers} of them here"
    readings = []
    for column, mine, theirs in _differing(view, row, like):
        here, there = setting_text(column, mine), setting_text(column, theirs)
        text = f"{WORDS[column]}: {here} here, {there} on most ports of rail {rail}"
        readings.append(reading(text, formula, mine, theirs))
    return tuple(readings)


def _differing(view: View, row: int, like: int) -> list[tuple[str, float, float]]:
    """Settings known of both rows in which they differ: column, value here, value there."""
    pairs = [(column, *view.value(column)[[row, like]].tolist()) for column in COMPARED]
    return [pair for pair in pairs if np.isfinite(pair[1:]).all() and pair[1] != pair[2]]


def info(view: View, row: int, params: ConfigDriftParams) -> dict[str, str]:
    like = int(drift(view, params).like[row])
    names = [WORDS[column] for column, _, _ in _differing(view, row, like)] if like >= 0 else []
    return {"differs": ", ".join(names)} if names else {}


def setting_text(column: str, value: float) -> str:
    """A setting as text: priorities of a bitmap, on or off, a number."""
    if column in ("pfc_enabled", "ecn_marks_answered", "ecn_rate_reduced"):
        priorities = [str(n) for n in range(8) if int(value) >> n & 1]
        return f"on priority {', '.join(priorities)}" if priorities else "off"
    if column in ("pause_rx_enabled", "pause_tx_enabled", "dscp_trusted", "ets_willing"):
        return "on" if value else "off"
    return f"#{int(value):013x}" if column.endswith("_fingerprint") else f"{value:g}"


def promql(params: ConfigDriftParams) -> Translation:
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
            "the rule evaluator knows no topology: a rail is the ports of one device name on all nodes, and the median "
            "stands for the setting of more than half of them"
        ),
    )


RULE = Rule(
    name="config_drift",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.FLEET,
    params=ConfigDriftParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The settings of this port (flow control, priorities, MTU or ECN) differ from those of the other ports of its "
        "rail. Under load it drops packets or makes other ports wait."
    ),
    decision=(
        "All ports of one rail use the same switches and must agree on the lossless classes. A port whose priority "
        "flow control, priority table, pause or MTU differs drops packets, or pauses other ports, under load only; a "
        "difference in ETS, ECN or buffers costs throughput. The settings of more than half of the rail's ports are "
        "the reference; settings that an adapter does not report are not compared. A rail without flow control on any "
        "port shows no difference."
    ),
    action=(
        "Compare with a port of the same rail: `dcb pfc show dev IF`, `dcb ets show dev IF`, `dcb app show dev IF`, "
        "`ethtool -a IF`, `ip link show IF` (with the vendor's tools: `mlnx_qos -i IF`). Restore the site's settings "
        "and find the reason for the loss: a reinstalled node, a driver reload, a DCBX exchange with the switch."
    ),
    promql=promql,
    slow=True,
)
