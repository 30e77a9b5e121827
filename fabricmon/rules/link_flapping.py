"""link_flapping: a link goes down repeatedly; quickly (damping penalty) or slowly (episodes in a day)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fabricmon.fleet.downs import DEPTH
from fabricmon.fleet.view import View
from fabricmon.forms.times import clock_times
from fabricmon.model import Evidence, Kind, Severity
from fabricmon.rules.module_flaps import Down, downs_of_modules
from fabricmon.rules.promql import Alert, RecordingRule, Translation, any_of, metric, span
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope, reading
from fabricmon.units import Duration

PER_DOWN = 1000.0
"""Penalty of one down (RFC 2439; docs/methods.md#flap-damping)."""


TIMES = 8
"""Downs whose times the evidence has, the newest."""


class LinkFlappingParams(RuleParams, frozen=True):
    """Limits of link_flapping (docs/methods.md#link-flapping); the damping figures are the defaults of routers.

    half_life  of the penalty (900 s)
    raise_at   penalty above which a link is flapping: the third down within minutes, not the second (2000)
    clear_at   penalty below which it is calm again (750)
    ceiling    greatest penalty: calm within at most four half-lives (12000)
    episodes   separate episodes within `window` that are slow flapping (3); at most as many as are remembered
    window     of slow flapping (24 h)
    apart      downs closer than this are one episode (60 s)
    hold       the penalty decays slowly already
    clear      the same
    """

    half_life: Duration = Duration(900)
    raise_at: Annotated[float, Meta(gt=0)] = 2000.0
    clear_at: Annotated[float, Meta(gt=0)] = 750.0
    ceiling: Annotated[float, Meta(gt=0)] = 12000.0
    episodes: Annotated[int, Meta(ge=2, le=DEPTH)] = 3
    window: Duration = Duration(86_400)
    apart: Duration = Duration(60)

    def __post_init__(self) -> None:
        if not self.clear_at < self.raise_at < self.ceiling:
            raise ValueError("clear_at must be below raise_at, and raise_at below ceiling")
        if not self.half_life > 0:
            raise ValueError("half_life must be longer than 0s")


class Score(NamedTuple):
    """Penalty and episodes of each row at `now`.

    penalty   decayed sum
    episodes  separate episodes in the window since the last time the penalty was above its raise level
    began     time of the first down of the present series
    """

    penalty: NDArray[np.float64]
    episodes: NDArray[np.int64]
    began: NDArray[np.float64]


def score(view: View, rows: NDArray[np.intp], params: LinkFlappingParams) -> Score:
    """Penalty and episodes of these rows. Episodes of a quick flap do not count as slow ones."""
    size = len(rows)
    penalty, before = np.zeros(size), np.full(size, -np.inf)
    episodes = np.zeros(size, np.int64)
    began, first_episode = np.full(size, np.nan), np.full(size, np.nan)
    for at, count in view.tracks.downs.oldest_first(rows):
        some = (count > 0) & (view.now - at <= params.window)
        if not some.any():
            continue
        left = penalty * np.exp2(-(at - before) / params.half_life)
        left = np.where(np.isfinite(before), left, 0.0)
        began = np.where(some & (left < params.clear_at), at, began)
        penalty = np.where(some, np.minimum(left + PER_DOWN * count, params.ceiling), penalty)
        quick = some & (penalty > params.raise_at)
        separate = some & (at - before > params.apart)
        first_episode = np.where(separate & (episodes == 0), at, first_episode)
        episodes = np.where(quick, 0, episodes + separate)
        before = np.where(some, at, before)
    penalty = np.where(np.isfinite(before), penalty * np.exp2(-(view.now - before) / params.half_life), 0.0)
    began = np.where((episodes >= params.episodes) & (penalty <= params.raise_at), first_episode, began)
    return Score(penalty, episodes, began)


def of_module(downs: Sequence[Down], now: float, params: LinkFlappingParams) -> tuple[float, float]:
    """Penalty of some downs, oldest first, as of one link, and when their present series began."""
    penalty, before, began = 0.0, -math.inf, math.nan
    for down in downs:
        left = penalty * 2.0 ** (-(down.at - before) / params.half_life) if penalty else 0.0
        began = down.at if left < params.clear_at else began
        penalty, before = min(left + PER_DOWN * down.number, params.ceiling), down.at
    return (penalty * 2.0 ** (-(now - before) / params.half_life) if penalty else 0.0), began


def _flapping_modules(
    view: View, rows: NDArray[np.intp], alone: NDArray[np.float64], params: LinkFlappingParams
) -> Iterator[tuple[list[Down], float, float]]:
    """Downs, penalty and beginning of the modules that are not calm and of which no port flaps by itself.

    rows   ports that fell in the window
    alone  penalty of each by itself
    """
    least = params.raise_at / PER_DOWN
    for downs in downs_of_modules(view, rows, alone, least, params.clear_at, params.window):
        ports = {down.row: [one for one in downs if one.row == down.row] for down in downs}
        if all(of_module(mine, mine[-1].at, params)[0] <= params.raise_at for mine in ports.values()):
            penalty, began = of_module(downs, view.now, params)
            if penalty >= params.clear_at:
                yield downs, penalty, began


def _with_modules(
    view: View, rows: NDArray[np.intp], found: Score, params: LinkFlappingParams
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Penalty and beginning of each row, of the ports of a flapping module those of the module where that is more."""
    penalty, began = found.penalty.copy(), found.began.copy()
    for downs, whole, since in _flapping_modules(view, rows, found.penalty, params):
        mine = np.isin(rows, [down.row for down in downs])
        began[mine] = np.where(penalty[mine] < whole, since, began[mine])
        penalty[mine] = np.maximum(penalty[mine], whole)
    return penalty, began


def test(view: View, params: LinkFlappingParams) -> Outcome:
    tracks, n = view.tracks, view.n
    penalty, since = np.zeros(n), np.full(n, np.nan)
    slow = np.zeros(n, np.bool_)
    rows = np.flatnonzero(view.now - tracks.downs.last[:n] <= params.window)
    if len(rows):
        found = score(view, rows, params)
        penalty[rows], since[rows] = _with_modules(view, rows, found, params)
        slow[rows] = found.episodes >= params.episodes
    fire = (penalty > params.raise_at) | slow
    fresh = view.fresh("link_downed") | view.fresh("carrier_down_changes") | view.fresh("state")
    return Outcome(
        fire=fire,
        clear=(penalty < params.clear_at) & ~slow,
        known=view.present & fresh,
        value=penalty,
        since=since,
    )


def evidence(view: View, row: int, params: LinkFlappingParams) -> tuple[Evidence, ...]:
    found = score(view, np.array([row]), params)
    alone = found.penalty[0] > params.raise_at or found.episodes[0] >= params.episodes
    if not alone and (module := _reading_of_module(view, row, params)) is not None:
        return (module,)
    downs = [(at, count) for at, count in view.tracks.downs.of_row(row) if view.now - at <= params.window]
    recent = [(at, count) for at, count in downs if at >= found.began[0]] or downs
    total = sum(count for _, count in recent)
    times = clock_times([at for at, count in recent for _ in range(min(count, TIMES))][-TIMES:])
    penalty, episodes = float(found.penalty[0]), int(found.episodes[0])
    slow = episodes >= params.episodes
    readings = [_weighted(f"{total} downs ({times})", penalty, slow, params)]
    if slow:
        hours = params.window / 3600
        text = f"{episodes} separate episodes in {hours:g} h"
        formula = f"downs within {params.apart:g} s are one episode; {params.episodes} in {hours:g} h"
        readings.insert(0, reading(text, formula, episodes, params.episodes, measure="link_flapping.episodes"))
    excused = int(view.tracks.downs.excused[row])
    if excused:
        text = f"{excused} downs not counted: administrative, in maintenance, or soon after a boot or driver reload"
        readings.append(reading(text, for_it=False))
    return tuple(readings)


def _reading_of_module(view: View, row: int, params: LinkFlappingParams) -> Evidence | None:
    """The downs of the module of a port, where that flaps or is not calm yet; None where it is."""
    rows = np.flatnonzero(view.now - view.tracks.downs.last[: view.n] <= params.window)
    for downs, penalty, began in _flapping_modules(view, rows, score(view, rows, params).penalty, params):
        if any(down.row == row for down in downs):
            recent = [down for down in downs if down.at >= began]
            ports = len({down.row for down in recent})
            times = clock_times([down.at for down in recent][-TIMES:])
            text = f"{len(recent)} downs of the {ports} ports of its module ({times})"
            return _weighted(text, penalty, False, params)
    return None


def _weighted(downs: str, penalty: float, slow: bool, params: LinkFlappingParams) -> Evidence:
    """Downs beside the limit that counts now: above the one that raises, then until below the one that clears they are
    why the link flaps still."""
    limit = params.raise_at if penalty > params.raise_at or penalty < params.clear_at else params.clear_at
    return reading(
        f"{downs}, weighted by age {penalty / PER_DOWN:.1f}",
        _formula(params),
        penalty / PER_DOWN,
        limit / PER_DOWN,
        penalty >= params.clear_at or slow,
        "link_flapping.penalty",
    )


def _formula(params: LinkFlappingParams) -> str:
    return (
        f"weight = P / {PER_DOWN:.0f}; P = {PER_DOWN:.0f} a down, half-life {params.half_life:g} s; "
        f"raise > {params.raise_at:g}, clear < {params.clear_at:g}"
    )


def info(view: View, row: int, params: LinkFlappingParams) -> dict[str, str]:
    found = score(view, np.array([row]), params)
    return {"slow": "true"} if found.episodes[0] >= params.episodes and found.penalty[0] <= params.raise_at else {}


PENALTY = "fabricmon:port:flap_penalty"
EPISODE = "fabricmon:port:down_episode"
"""The counter's value before an episode of downs that is not part of a quick flap, for as long as it is young."""

_WINDOWS = (1 / 3, 2 / 3, 4 / 3, 2.0)
"""Half-lives; ends of the windows in which the penalty decays by steps."""


def promql(params: LinkFlappingParams) -> Translation:
    def downs(seconds: float, before: float = 0.0) -> str:
        offset = f" offset {span(before)}" if before else ""
        counted = (f"increase({metric(c)}[{span(seconds)}]{offset})" for c in ("link_downed", "carrier_down_changes"))
        return f"round({any_of(*counted)})"

    # downs of each window weigh what the youngest of them do; as sums over windows that all end now
    starts = (0.0, *_WINDOWS[:-1])
    weights = [PER_DOWN * 2.0**-start for start in starts] + [0.0]
    terms = [f"{weights[n] - weights[n + 1]:.6g} * {downs(params.half_life * end)}" for n, end in enumerate(_WINDOWS)]
    apart = max(params.apart, 60.0)
    before = any_of(*(f"{metric(c)} offset {span(apart)}" for c in ("link_downed", "carrier_down_changes")))
    episode = (
        f"({before}) and {downs(apart)} > 0 unless {downs(apart, apart)} > 0 unless {PENALTY} > {params.raise_at:g}"
    )
    return Translation(
        alerts=(
            Alert(
                f"{PENALTY} > {params.raise_at:g}",
                keep=params.half_life * math.log2(params.raise_at / params.clear_at),
            ),
            Alert(f"changes({EPISODE}[{span(params.window)}]) + 1 >= {params.episodes}", case="slow"),
        ),
        recordings=(RecordingRule(PENALTY, " + ".join(terms)), RecordingRule(EPISODE, episode)),
        differs=(
            "the penalty decays in four steps, not smoothly, so it is up to a quarter too high; administrative downs "
            "and those soon after a boot count; a quick flap leaves two episodes of slow flapping; after the end "
            "it keeps firing for the decay of a penalty from its raise to its clear level; ports of one module are "
            "counted apart"
        ),
    )


RULE = Rule(
    name="link_flapping",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=LinkFlappingParams,
    test=test,
    evidence=evidence,
    info=info,
    why=(
        "The link goes down and up again and again. Each time all its traffic stops for seconds, and jobs stall or "
        "fail."
    ),
    decision=(
        "Every down adds 1000 to a penalty that halves in 15 minutes; above 2000 the link is "
        "flapping, below 750 it is calm again (the damping routers use, RFC 2439). Messages show the penalty in "
        "thousands, as downs weighted by age. So two downs of a reboot do not raise it, the third within minutes does, "
        "and it clears about half an hour after the last. Slow flapping is three separate episodes in 24 hours. "
        "Administrative downs and downs in maintenance or within two minutes of a boot do not count. Where several "
        "counters count the same down, the greatest counts, not the sum. Downs of both ports of a module also have one "
        "penalty."
    ),
    action=(
        "Take the link out of service before the next job starts. Then clean and reseat both ends, swap the "
        "cable or the module, then the port; note which end changed. Slow flapping with nothing in the error counters: "
        "compare the times with temperature, power events and work in that row of racks."
    ),
    yields_to=("nic_fault",),
    promql=promql,
)
