"""link_errors: the bit error ratio of a link is above its limit. Exact bounds over the bits that passed."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet import ber, link
from fabricmon.fleet.errors import HARD, HARD_POLLS
from fabricmon.fleet.view import View
from fabricmon.fleet.window import CAPPED, ERRORS, FASTEST, Window
from fabricmon.forms.quantities import quantity
from fabricmon.forms.times import span
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.bit_error_limits import BitErrorParams, read_lately, targets
from fabricmon.rules.optic_degrading import of_a_bad_link
from fabricmon.rules.promql import Translation
from fabricmon.rules.promql_errors import translation
from fabricmon.rules.rule import Outcome, Rule, Scope, reading
from fabricmon.units import Duration

FILLED = 2.0**15
"""Errors of one reading that took a counter to its top, from which they count although whether they go on is unknown:
half of 16 bits, in a reading in which the link stayed up (docs/methods.md#link-errors)."""
_SET_BITS = np.array([bin(i).count("1") for i in range(2**HARD_POLLS)], np.int8)


class LinkErrorsParams(BitErrorParams, frozen=True):
    """Limits of link_errors (docs/methods.md#link-errors).

    onset        nats; level of the onset test (one false alarm a day among 100,000 ports)
    hard_polls   so many of the last 5 polls with a hard error are critical
    hold         bounds and onset test are persistent already
    clear        time for which the link must be clean by its bounds
    """

    onset: Annotated[float, Meta(gt=0)] = 20.6
    hard_polls: Annotated[int, Meta(ge=1, le=HARD_POLLS)] = 3
    clear: Duration = Duration(60)


def _low(window: Window, quantity: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.nan_to_num(ber.lower(window.some(quantity, rows), window.bits(rows)[1]))


def test(view: View, params: LinkErrorsParams) -> Outcome:
    errors, n = view.tracks.errors, view.n
    short, long = errors.short, errors.long
    short_errors, (bits, _) = short.sum(ERRORS, n), short.bits(slice(0, n))
    hard = _SET_BITS[errors.hard[:n]]
    rows = np.flatnonzero((short_errors > 0) | (long.sum(ERRORS, n) > 0) | (errors.onset[:n] > 0) | (hard > 0))
    fire, value = np.zeros(n, np.bool_), np.zeros(n)
    severity = np.full(n, Severity.WARNING.rank, np.int8)
    target = targets(view, slice(0, n), params)
    most = np.full(n, float(ber.upper_count(np.zeros(1))[0]))
    most[rows] = ber.upper_count(short_errors[rows])
    clean = bits * params.warning * target >= most  # the upper bound of the short window is below the limit
    if len(rows):
        alarm = params.warning * target[rows]
        # the long window finds low ratios; errors that ended before the short one began do not count
        old = np.where(clean[rows], 0.0, 1.0)
        # with the errors of each poll capped, one burst cannot carry the bound
        steady = np.maximum(_low(short, CAPPED, rows), old * _low(long, CAPPED, rows)) > alarm
        low = np.maximum(_low(short, ERRORS, rows), old * _low(long, ERRORS, rows))
        sudden = (errors.onset[rows] >= params.onset) & (low > alarm)
        filled = (errors.filled[rows] >= FILLED) & (low > alarm)
        broken = hard[rows] >= params.hard_polls
        fire[rows] = steady | sudden | broken | filled
        worst = broken | ((steady | sudden) & (low > params.critical * target[rows]))
        severity[rows[worst]] = Severity.CRITICAL.rank
        value[rows] = low
    calm = clean & (errors.onset[:n] < params.onset / 2) & (hard == 0)
    up = view.tracks.link[:n] == link.UP
    # at an unknown line rate only that is known which holds for the slowest port
    blind, rated = errors.blind[:n], errors.rate[:n] > 0
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=view.present & read_lately(view) & up & (fire | (~blind & (clean | (rated & (bits > 0))))),
        value=value,
        severity=severity,
    )


def claim(view: View, row: int, params: LinkErrorsParams) -> ber.Claim:
    """The health of this link by the bits of the long window, possibly "not enough bits yet"."""
    errors = view.tracks.errors
    target = float(targets(view, np.array([row]), params)[0])
    return ber.claim(errors.long.at(ERRORS, row), errors.long.bits_at(row), target, params.warning * target)


def evidence(view: View, row: int, params: LinkErrorsParams) -> tuple[Evidence, ...]:
    errors = view.tracks.errors
    target = float(targets(view, np.array([row]), params)[0])
    alarm = params.warning * target
    readings = []
    for name, window in (("short", errors.short), ("long", errors.long)):
        seen = ber.claim(window.at(ERRORS, row), window.bits_at(row), target, alarm)
        if name == "long" and seen.bits == errors.short.bits_at(row)[0]:
            continue
        text = _counted(seen, float(errors.rate[row]))
        formula = (
            f"{name} window: lower bound chi2inv(1e-8, 2k)/2n > {params.warning:g} x target {target:g} is a warning, "
            f"> {params.critical:g} x critical"
        )
        readings.append(reading(text, formula, seen.low, alarm, seen.low > alarm, "link_errors.ber"))
    onset = float(errors.onset[row])
    rises = onset >= params.onset
    usual = f"{errors.background[row]:.2g} errors per reading that are usual here"
    text = f"errors {'began to rise clearly' if rises else 'do not clearly rise'} above the {usual}"
    formula = (
        f"S = {onset:.1f} nats, limit {params.onset:.4g}; S <- max(0, S + x ln(l1/l0) - (l1 - l0)), x at most 3 a poll "
        "(docs/methods.md#cusum)"
    )
    filled = float(errors.filled[row])
    if rises or filled < FILLED:
        readings.append(reading(text, formula, for_it=rises))
    polls = int(_SET_BITS[errors.hard[row]])
    if polls:
        text = f"hard errors ({' or '.join(HARD)} rose) in {polls} of the last {HARD_POLLS} polls"
        formula = f"{params.hard_polls} of {HARD_POLLS} polls"
        hard = polls >= params.hard_polls
        readings.append(reading(text, formula, polls, params.hard_polls, hard, "link_errors.hard"))
    if filled >= FILLED:
        text = f"{filled:,.0f} errors in one reading took a counter to its top: whether they go on it cannot show"
        readings.append(reading(text, f"{FILLED:g} or more"))
    elif errors.blind[row]:
        text = "an error counter of this port is saturated: the true ratio may be higher"
        readings.append(reading(text))
    return (*readings, *of_a_bad_link(view, row))


def _counted(seen: ber.Claim, rate: float) -> str:
    text = f"{seen.errors:,.0f} errors in {_traffic(seen.bits, rate)}"
    if seen.most > seen.bits:
        fastest = quantity(FASTEST / 8, "bytes_per_second")
        text += f" at least, {seen.most:.2g} at most (line rate unknown: {fastest} at most)"
    if seen.bits > 0:
        text += f", bit error ratio {seen.low:.2g} to {seen.high:.2g}"
    if seen.word == "not enough bits yet":
        text += f"; too few to decide ({_traffic(seen.needed, rate)} needed)"
    return text


def _traffic(bits: float, rate: float) -> str:
    """ "16 min at 400 Gb/s (3.8e+14 bits)"."""
    counted = f"{bits:.2g} bits"
    return f"{span(bits / rate)} at {quantity(rate / 8, 'bytes_per_second')} ({counted})" if rate > 0 else counted


def promql(params: LinkErrorsParams) -> Translation:
    return translation(params, params.onset, params.hard_polls)


RULE = Rule(
    name="link_errors",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=LinkErrorsParams,
    test=test,
    evidence=evidence,
    why=(
        "Data arrives damaged on this link, more than error correction can repair. Packets are lost and sent again, so "
        "jobs slow down or fail."
    ),
    decision=(
        "Errors that error correction (FEC) did not repair are compared with the bits that the link carried: line "
        "rate times the time the link was up. The compared ratio is a lower bound, which a link at the limit exceeds "
        "by chance with a probability of 1e-8. Above 10 times the target of this speed is a warning; above 1000 times "
        "it, or hard errors (link recoveries, link integrity) in 3 of 5 polls, is critical. One burst counts as three "
        "errors, so it cannot alarm alone, unless it fills half of a counter up to its top, as no later reading could "
        "show that it goes on: a warning. Errors of the first 30 s after a link came up are left out. Else a saturated "
        "counter and too few bits are no evidence. A port counts errors of its receive direction only: the fault may "
        "be the far end's transmitter."
    ),
    action=(
        "Compare with the far end's counters to find the direction. Check the module's Rx power and "
        "temperature (`mlxlink -d DEVICE -m -c`, `ethtool -m IF`). Clean the connectors, reseat, then swap module, "
        "cable, port, in that order. Critical: drain the node's jobs from this link now."
    ),
    yields_to=("link_flapping", "link_down", "nic_fault"),
    promql=promql,
    slow=True,
)
