"""link_degraded: a link came up slower than configured, or slower than its peers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql import ON_PORT, Alert, RecordingRule, Translation, any_of, metric
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration, Rate

_STEP = 5e8 / 8  # rates are compared in steps of half a Gb/s, the finest the trade has (2.5, 25.78 as 25, ...)
ALIKE = 0.9
"""Share of a make in the whole fleet from which its rate is the expected one of ports without peers (design choice)."""
_CODES = 4096  # distinct steps: up to 2 Tb/s


class LinkDegradedParams(RuleParams, frozen=True):
    """Limits of link_degraded (docs/methods.md#link-degraded).

    expected  rate by the port's label "role" ({compute: 400Gb/s}); without an entry the most common rate of its rail,
              else of its host, among ports of its make (one role, link layer and board), else of nine in ten of its
              make in the fleet; of a link between switches that of its tier
    least     members of a group that must be up before its most common rate is a reference
    hold      time for which the link must be slow
    clear     time for which it must be at its rate again
    """

    expected: dict[str, Rate] = {}
    least: int = 3
    hold: Duration = Duration(60)
    clear: Duration = Duration(10)


def rates(view: View) -> NDArray[np.float64]:
    """Negotiated rate in bytes per second of links that are up, NaN elsewhere."""
    return view.once("link_degraded.rates", lambda: _rates(view))


def _rates(view: View) -> NDArray[np.float64]:
    port, netdev = view.value("rate"), view.value("netdev_rate")
    rate = np.where(np.isnan(port), netdev, port)
    return np.where(view.tracks.link[: view.n] == link.UP, rate, np.nan)


class Steps(NamedTuple):
    """Rates of links that are up, in steps.

    number  per row the place of its rate in `rates`, -1 unknown
    rates   those that occur, ascending, in bytes per second
    """

    number: NDArray[np.int64]
    rates: NDArray[np.float64]


def steps_of(rate: NDArray[np.float64], known: NDArray[np.bool_]) -> Steps:
    """The steps of rates in bytes per second, of which some are known."""
    step = np.clip(np.rint(np.where(known, rate, 0.0) / _STEP), 0, _CODES - 1).astype(np.intp)
    used = np.flatnonzero(np.bincount(step[known], minlength=_CODES))
    number = np.full(_CODES, -1, np.int64)
    number[used] = np.arange(len(used))
    return Steps(np.where(known, number[step], -1), used * np.float64(_STEP))


def most_common(steps: Steps, group: NDArray[np.int64], least: int, share: float = 0.5) -> NDArray[np.float64]:
    """Per row the rate of more than a share of its group; NaN for too small or too mixed a group."""
    of, groups = len(steps.rates), int(group.max(initial=-1)) + 1
    if not of or not groups:
        return np.full(len(group), np.nan)
    keys = np.where((group >= 0) & (steps.number >= 0), group * of + steps.number, groups * of)
    counts = np.bincount(keys, minlength=groups * of + 1)[:-1].reshape(groups, of)
    total, best = counts.sum(axis=1), counts.argmax(axis=1)
    sure = (total >= least) & (counts.max(axis=1) > share * total)
    return np.append(np.where(sure, steps.rates[best], np.nan), np.nan)[group]  # group -1: the last, unknown


def _steps(view: View) -> Steps:
    rate = rates(view)
    return view.once("link_degraded.steps", lambda: steps_of(rate, view.present & np.isfinite(rate)))


def references(view: View, params: LinkDegradedParams) -> NDArray[np.float64]:
    """The expected rate of each row, NaN unknown."""
    return view.once(("link_degraded.references", id(params)), lambda: _references(view, params))


def _references(view: View, params: LinkDegradedParams) -> NDArray[np.float64]:
    facts, n, steps = view.tracks.facts, view.n, _steps(view)
    usable = steps.number >= 0
    role = facts.role[:n].astype(np.int64)
    # Peers are of one make: a storage or management port is no slow compute port, nor is an older generation's.
    make = facts.make[:n].astype(np.int64)
    rail = view.group("rail").astype(np.int64)
    reference = most_common(steps, np.where(rail >= 0, rail * facts.makes + make, -1), params.least)
    tier = view.group("tier").astype(np.int64)
    if (tier >= 0).any():  # links between switches, from a sweep of the fabric
        reference = np.where(tier >= 0, most_common(steps, tier, params.least), reference)
    if (np.isnan(reference) & usable).any():
        host = view.group("host").astype(np.int64)
        mates = np.where((host >= 0) & (make > 0), host * facts.makes + make, -1)
        reference = np.where(np.isnan(reference), most_common(steps, mates, params.least), reference)
    if (np.isnan(reference) & usable).any():
        alike = most_common(steps, np.where(make > 0, make, -1), 2 * params.least, ALIKE)
        reference = np.where(np.isnan(reference), alike, reference)
    for name, expected in params.expected.items():
        if name in facts.role_names:
            reference[role == facts.role_names[name]] = float(expected)
    return reference


def test(view: View, params: LinkDegradedParams) -> Outcome:
    rate = rates(view)
    reference = references(view, params)
    slow = rate < reference - _STEP / 2
    fresh = view.fresh("rate") | view.fresh("netdev_rate")
    compared = np.isfinite(reference) | _as_most_of_its_make(view, params)
    return Outcome(
        fire=slow,
        clear=~slow,
        known=view.present & fresh & np.isfinite(rate) & compared,
        value=np.divide(rate, reference, out=np.ones(view.n), where=~(reference <= 0)),  # 0: ports of 100 Mb/s
    )


def _as_most_of_its_make(view: View, params: LinkDegradedParams) -> NDArray[np.bool_]:
    """Links at the rate of most of their make in the fleet: one whose peers have left since is not slow for ever."""
    make = view.tracks.facts.make[: view.n].astype(np.int64)
    usual = most_common(_steps(view), np.where(make > 0, make, -1), params.least)
    return np.asarray(rates(view) >= usual - _STEP / 2)


def evidence(view: View, row: int, params: LinkDegradedParams) -> tuple[Evidence, ...]:
    rate = rates(view)
    reference = references(view, params)
    role = view.label(row, "role")
    source = "configured for its role" if role in params.expected else "on most of its peers"
    width = float(view.value("width")[row])
    lanes = f" over {width:.0f} lanes" if width > 0 else ""
    text = f"link runs at {_gb(rate[row])}{lanes}; {_gb(reference[row])} {source}"
    formula = "negotiated rate below the configured or most common one"
    return (reading(text, formula, float(rate[row]), float(reference[row]), measure="link_degraded.rate"),)


def _gb(rate: float) -> str:
    return f"{rate * 8 / 1e9:g} Gb/s"


RATE = "fabricmon:port:rate"
"""Negotiated rate of links that are up, with the labels by which ports are peers."""


def promql(params: LinkDegradedParams) -> Translation:
    plain = f"{metric('netdev_rate')} and {metric('carrier')} == 1"
    up = f"(({metric('rate')} unless {metric('carrier')} == 0) or ({plain}))"
    make = "role, link_layer, board"
    info = f'max by (job, instance, device, port, {make}) (fabricmon_port_info{{role!="idle"}})'
    peers = f"by (device, port, {make})"
    known = "|".join(sorted(params.expected))
    others = f'{RATE}{{role!~"{known}"}}' if known else RATE
    slow = f"{others} < on (device, port, {make}) group_left () quantile {peers} (0.5, {others})"
    enough = f"and on (device, port, {make}) count {peers} ({others}) >= {params.least}"
    below = [f'{RATE}{{role="{role}"}} < {float(rate):.0f}' for role, rate in sorted(params.expected.items())]
    return Translation(
        alerts=(Alert(any_of(f"({slow} {enough})", *below)),),
        recordings=(RecordingRule(RATE, f"{up} * {ON_PORT} group_left ({make}) {info}"),),
        differs=(
            "the rule evaluator knows no topology: peers are the ports of one device name, role, link layer and board "
            "on all nodes, and their median stands for the most common rate; links between switches are not compared"
        ),
    )


RULE = Rule(
    name="link_degraded",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=LinkDegradedParams,
    test=test,
    evidence=evidence,
    why=(
        "The link is up, but slower than it should be. Jobs that use it run at the speed of this one link."
    ),
    decision=(
        "The link is up, but negotiated a lower rate than configured, or than most ports of its make on its rail "
        "(without a rail: on the same host) have. Rates are compared as numbers: 200 Gb/s is the same as 4X HDR or 2X "
        "NDR, and a whole group of split ports at half rate is no fault. Only links that are up are evaluated: the "
        "rate of a down port is meaningless."
    ),
    action=(
        "Reseat the cable and let the link train again; a link that keeps coming up slow has a bad lane: swap cable "
        "or module. Check that both ends are set to the same speed and lanes (`mlxlink -d DEVICE`, `ethtool IF`) and "
        "that the switch port is not split."
    ),
    yields_to=("link_down", "nic_fault"),
    promql=promql,
)
