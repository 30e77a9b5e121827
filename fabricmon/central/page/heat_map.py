"""The page of the probes: a heat map of round trips between the leaves of a rail, and the worst pairs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.central.page.markup import address, e, more, named_link
from fabricmon.fleet.leaf_pairs import LeafPair, LeafPairs
from fabricmon.fleet.row_state import Floats
from fabricmon.forms.natural import natural

MAX_LEAVES = 48  # rows and columns of the map: those of the worst pairs
MAX_PAIRS = 32  # rows of the table
TIMES = (1.25, 1.5, 2.0, 4.0, 8.0)
"""Lower limits of the levels 1, 2, ...: a round trip over the median of the rail's pairs of its kind (within or between
leaves). For the eye only; what is slow is decided by the rule `latency`."""
CELL, LEFT, TOP = 15, 150, 22  # pixels


def probes_page(pairs: LeafPairs, rail: str) -> str:
    """The main part. `rail`: "" the first."""
    every = sorted({pairs.rails[at] for at in np.unique(pairs.rail).tolist()}, key=natural)
    title = '<h2 id="panel-title" tabindex="-1">Probes between leaves</h2>'
    if not every:
        return (
            f"{title}<p class='note'>No results of probes. They are off unless <code>central.probe.enabled</code> and "
            "the agents' <code>agent.probe.enabled</code> are set, and need a topology with leaves.</p>"
        )
    shown = rail if rail in every else every[0]
    rows = pairs.of_rail(shown)
    return "\n".join((title, _choose(every, shown), _counts(pairs, rows), _map(pairs, rows), _worst(pairs, rows)))


def _choose(rails: Sequence[str], shown: str) -> str:
    mark = {shown: ' aria-current="page"'}
    links = "".join(
        f'<a href="{address("probes", rail=rail)}"{mark.get(rail, "")}>{e(rail) or "none"}</a>' for rail in rails
    )
    return f'<p class="choose"><span>rail</span>{links}</p>'


def _counts(pairs: LeafPairs, rows: NDArray[np.intp]) -> str:
    flows, answered = int(pairs.flows[rows].sum()), int(pairs.answered[rows].sum())
    sent, lost = int(pairs.sent[rows].sum()), int(pairs.lost[rows].sum())
    return (
        f"<p>{len(rows):,} pairs of leaves, {flows:,} flows; {answered:,} have a round trip in the newest 10 s "
        f"({flows - answered:,} were void or not answered). Last minute: {lost:,} of {sent:,} probes lost.</p>"
    )


def _levels(pairs: LeafPairs, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Level of each pair's median round trip, -1 unknown."""
    rtt, within = pairs.rtt[rows], pairs.near[rows] == pairs.far[rows]
    times: Floats = np.full(len(rows), np.nan)
    for kind in (within, ~within):
        if np.isfinite(rtt[kind]).any():
            times[kind] = rtt[kind] / np.nanmedian(rtt[kind])
    return np.where(np.isnan(times), -1, np.searchsorted(TIMES, times, side="right"))


def _map(pairs: LeafPairs, rows: NDArray[np.intp]) -> str:
    ends = np.stack((pairs.near[rows], pairs.far[rows]), axis=1).reshape(-1).tolist()
    every = list(dict.fromkeys(ends))
    leaves = sorted(every[:MAX_LEAVES], key=lambda leaf: natural(pairs.leaves[leaf]))
    at = {leaf: number for number, leaf in enumerate(leaves)}
    drawn = np.isin(pairs.near[rows], leaves) & np.isin(pairs.far[rows], leaves)
    cells = [
        _cell(pairs.pair(row), level, at[int(pairs.near[row])], at[int(pairs.far[row])])
        for row, level in zip(rows[drawn].tolist(), _levels(pairs, rows)[drawn].tolist(), strict=True)
    ]
    names = [f'<text class="name" x="{LEFT - 24}" y="{_middle(n)}">{e(pairs.leaves[leaf])}</text>'
             f'<text x="{LEFT - 11}" y="{_middle(n)}">{n + 1}</text>' for n, leaf in enumerate(leaves)]  # fmt: skip
    numbers = [f'<text x="{LEFT + n * CELL + CELL / 2}" y="{TOP - 7}">{n + 1}</text>' for n in range(len(leaves))]
    size = len(leaves) * CELL
    words = "Median round trip from the leaf of a row to that of a column. A cross: probes were lost."
    return f"""<section><h3>Round trips</h3><p class="note">{words}</p>{_legend()}
<div class="wide" tabindex="0" role="region" aria-label="Heat map"><svg class="heat" role="img"
width="{LEFT + size + 4}" height="{TOP + size + 4}"
aria-label="Heat map of round trips; the worst pairs are in the table below">
{"".join(names)}{"".join(numbers)}{"".join(cells)}</svg></div>
{more(len(every), len(leaves))}</section>"""


def _middle(number: int) -> float:
    return TOP + number * CELL + 0.72 * CELL


def _cell(pair: LeafPair, level: int, row: int, column: int) -> str:
    x, y, side = LEFT + column * CELL, TOP + row * CELL, CELL - 2
    name = "unknown" if level < 0 else f"l{level}"
    lost = f'<path class="lost" d="M{x + 3} {y + 3}l{side - 6} {side - 6}m0 {6 - side}l{6 - side} {side - 6}"/>'
    return (
        f'<g><title>{e(_words(pair))}</title><rect class="{name}" x="{x}" y="{y}" width="{side}" height="{side}"/>'
        f"{lost if pair.lost else ''}</g>"
    )


def _words(pair: LeafPair) -> str:
    return f"{pair.near} to {pair.far}: {_us(pair.rtt)} µs, slowest flow {_us(pair.slowest)} µs, {_lost(pair)} lost"


def _us(seconds: float) -> str:
    return "unknown" if seconds != seconds else f"{1e6 * seconds:,.0f}"


def _lost(pair: LeafPair) -> str:
    return f"{pair.lost:,} of {pair.sent:,} probes"


def _legend() -> str:
    words = ["usual", *(f"{times:g} x" for times in TIMES)]
    parts = "".join(f'<span><i class="l{at}" aria-hidden="true"></i>{word}</span>' for at, word in enumerate(words))
    return f'<p class="legend">{parts}<span><i class="unknown" aria-hidden="true"></i>unknown</span></p>'


def _worst(pairs: LeafPairs, rows: NDArray[np.intp]) -> str:
    shown = [pairs.pair(at) for at in rows[:MAX_PAIRS].tolist()]
    lines = "".join(
        f"<tr><td>{named_link('leaf', pair.near)}</td><td>{named_link('leaf', pair.far)}</td>"
        f'<td class="n">{pair.lost:,} of {pair.sent:,}</td><td class="n">{_us(pair.rtt)}</td>'
        f'<td class="n">{_us(pair.slowest)}</td><td class="n">{pair.answered:,} of {pair.flows:,}</td></tr>'
        for pair in shown
    )
    columns = ("lost", "median, µs", "slowest, µs", "answered")
    heads = "".join(f'<th class="n" scope="col">{word}</th>' for word in columns)
    return f"""<section><h3>Worst pairs</h3>
<div class="wide" tabindex="0" role="region" aria-label="Worst pairs"><table>
<thead><tr><th scope="col">from</th><th scope="col">to</th>{heads}</tr></thead>
<tbody>{lines}</tbody></table></div>
{more(len(rows), len(shown))}</section>"""
