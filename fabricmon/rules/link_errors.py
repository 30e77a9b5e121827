"""link_errors: a link damages what it carries, more than its kind may. Exact bounds over the bits that passed."""

from __future__ import annotations

from typing import Annotated, Protocol

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from fabricmon.fleet import ber, link
from fabricmon.fleet.errors import HARD, HARD_POLLS, SOURCES
from fabricmon.fleet.view import View
from fabricmon.fleet.window import BITS, CAPPED, ERRORS, Window
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.promql_errors import translation
from fabricmon.rules.rule import Outcome, Rule, Scope
from fabricmon.units import Duration

Ratio = Annotated[float, Meta(gt=0, lt=1)]

_SET_BITS = np.array([bin(i).count("1") for i in range(2**HARD_POLLS)], np.int8)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of link_errors. Targets are bit error ratios after error correction, per lane speed.

    target_100g  lanes of 100 Gb/s and more (NDR, XDR; 1e-15: NVIDIA's "normal" symbol ratio, link-health 1.1)
    target_50g   lanes of 50 Gb/s (HDR; 1e-14: a tenth of the field table's error limit, link-health 1.2)
    target_25g   lanes of 25 Gb/s (EDR; 1e-14: the same)
    target_slow  slower or unknown lanes (1e-13: a tenth of the 1e-12 of the InfiniBand baseline, link-health 1.3)
    warning      times the target; the lower bound above it is a warning (10: detection-methods 3.4)
    critical     times the target; the lower bound above it is critical (1000: detection-methods 3.4)
    onset        nats; level of the onset test (20.6: one false alarm a day among 100,000 ports, detection-methods 2.3)
    hard_polls   so many of the last 5 polls with a hard error are critical (3: detection-methods 3.4)
    hold         s; bounds and onset test are persistent already (0)
    clear        how long the link must be clean by its bounds before this ends (60 s: design)
    """

    target_100g: Ratio = 1e-15
    target_50g: Ratio = 1e-14
    target_25g: Ratio = 1e-14
    target_slow: Ratio = 1e-13
    warning: Annotated[float, Meta(ge=1)] = 10.0
    critical: Annotated[float, Meta(ge=1)] = 1000.0
    onset: Annotated[float, Meta(gt=0)] = 20.6
    hard_polls: Annotated[int, Meta(ge=1, le=HARD_POLLS)] = 3
    hold: Duration = Duration(0)
    clear: Duration = Duration(60)


class Targets(Protocol):
    """Parameters that name target ratios by the speed of a lane."""

    @property
    def target_100g(self) -> float: ...
    @property
    def target_50g(self) -> float: ...
    @property
    def target_25g(self) -> float: ...
    @property
    def target_slow(self) -> float: ...


def targets(view: View, rows: NDArray[np.intp] | slice, params: Targets) -> NDArray[np.float64]:
    """Target ratio per row, by the speed of one lane; a link of unknown width is taken to have four."""
    width = view.value("width")[rows]
    with np.errstate(invalid="ignore"):
        lane = view.tracks.errors.rate[: view.n][rows] / np.where(width > 0, width, 4.0)
        return np.select(
            [lane >= 90e9, lane >= 45e9, lane >= 20e9],
            [params.target_100g, params.target_50g, params.target_25g],
            params.target_slow,
        )


def _low(window: Window, quantity: int, rows: NDArray[np.intp], n: int) -> NDArray[np.float64]:
    return np.nan_to_num(ber.lower(window.sum(quantity, n)[rows], window.sum(BITS, n)[rows]))


def test(view: View, params: Params) -> Outcome:
    errors, n = view.tracks.errors, view.n
    short, long = errors.short, errors.long
    short_errors, bits = short.sum(ERRORS, n), short.sum(BITS, n)
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
        # the long window finds low ratios; it does not hold against a link what ended before the short one began
        old = np.where(clean[rows], 0.0, 1.0)
        # with the errors of each poll capped, one burst cannot carry the bound
        steady = np.maximum(_low(short, CAPPED, rows, n), old * _low(long, CAPPED, rows, n)) > alarm
        low = np.maximum(_low(short, ERRORS, rows, n), old * _low(long, ERRORS, rows, n))
        sudden = (errors.onset[rows] >= params.onset) & (low > alarm)
        broken = hard[rows] >= params.hard_polls
        fire[rows] = steady | sudden | broken
        worst = broken | ((steady | sudden) & (low > params.critical * target[rows]))
        severity[rows[worst]] = Severity.CRITICAL.rank
        value[rows] = low
    calm = clean & (errors.onset[:n] < params.onset / 2) & (hard == 0)
    fresh = np.zeros(n, np.bool_)
    for group in SOURCES:
        fresh |= view.fresh(group[0])
    up = view.tracks.link[:n] == link.UP
    blind = errors.blind[:n]
    return Outcome(
        fire=fire,
        clear=calm & ~fire,
        known=view.present & fresh & up & (fire | (~blind & (bits > 0))),
        value=value,
        severity=severity,
    )


def claim(view: View, row: int, params: Params) -> ber.Claim:
    """What may be said of this link's health by the bits of the long window; "not enough bits yet" is an answer."""
    errors = view.tracks.errors
    target = float(targets(view, np.array([row]), params)[0])
    return ber.claim(errors.long.at(ERRORS, row), errors.long.at(BITS, row), target, params.warning * target)


def evidence(view: View, row: int, params: Params) -> tuple[Evidence, ...]:
    component, errors = str(view.table.ids[row]), view.tracks.errors
    target = float(targets(view, np.array([row]), params)[0])
    alarm = params.warning * target
    readings = []
    for name, window in (("short", errors.short), ("long", errors.long)):
        seen = ber.claim(window.at(ERRORS, row), window.at(BITS, row), target, alarm)
        text = f"{name} window: {seen.errors:.0f} errors in {seen.bits:.3g} bits"
        if seen.bits > 0:
            text += f", bit error ratio {seen.low:.2g} to {seen.high:.2g}"
        if seen.word == "not enough bits yet":
            text += f"; not enough bits yet to call it healthy ({seen.needed:.3g} needed)"
        formula = (
            f"lower bound chi2inv(1e-8, 2k)/2n > {params.warning:g} x target {target:g} is a warning, "
            f"> {params.critical:g} x critical (detection-methods 2.1, 3.4)"
        )
        readings.append(Evidence(component, text, formula, seen.low, alarm, seen.low > alarm))
    onset = float(errors.onset[row])
    text = f"onset statistic {onset:.1f} nats, background {errors.background[row]:.3g} errors a poll"
    formula = "S <- max(0, S + x ln(l1/l0) - (l1 - l0)), x at most 3 a poll (detection-methods 2.3)"
    readings.append(Evidence(component, text, formula, onset, params.onset, onset >= params.onset))
    polls = int(_SET_BITS[errors.hard[row]])
    if polls:
        text = f"hard errors ({' or '.join(HARD)} rose) in {polls} of the last {HARD_POLLS} polls"
        formula = f"{params.hard_polls} of {HARD_POLLS} polls (detection-methods 3.4)"
        readings.append(Evidence(component, text, formula, polls, params.hard_polls, polls >= params.hard_polls))
    if errors.blind[row]:
        text = "an error counter of this port is full and cannot rise: the true ratio may be higher"
        readings.append(Evidence(component, text))
    return tuple(readings)


RULE = Rule(
    name="link_errors",
    kind="link_errors",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=test,
    evidence=evidence,
    hold=0.0,
    clear=60.0,
    title="Link errors",
    why=(
        "The link damages data that error correction does not repair. With k errors among n bits (line rate times the "
        "time the link was up) the true ratio is, with a certainty of 1 - 1e-8, above the bound that is compared: "
        "above 10 times the target of this speed is a warning, above 1000 times it, or hard errors (link recoveries, "
        "link integrity) in 3 of 5 polls, is critical. One burst counts as three errors, so it cannot alarm alone. "
        "Errors of the half minute after a link came up are left out. A counter that is full cannot rise and says "
        "nothing; too few bits are said to be too few. A port sees errors of its receive direction only: the damage "
        "may be done by the far end's transmitter."
    ),
    action=(
        "Compare with the far end's counters to learn the direction. Look at the module's receive power and "
        "temperature (`mlxlink -d DEVICE -m -c`, `ethtool -m IF`). Clean the connectors, reseat, then swap module, "
        "cable, port, in that order. Critical: drain the node's jobs from this link now."
    ),
    yields_to=("link_flapping", "link_down", "nic_fault"),
    promql=translation,
)
