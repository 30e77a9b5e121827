"""A drawing of what is around a node, a leaf, a switch or a cable: tiers of boxes, a line per cable. SVG. Pure.

A box links to the page of what it shows. A line has the state of its cable, its width the load; a line between two
switches stands for all cables between them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricmon.central.page.markup import e

MAX_BOXES = 64  # of one tier; the rest is one number
MAX_LINES = 600
WIDTH = 640  # pixels; a tier with more boxes goes on in another row
STEP, BOX, HIGH, GAP = 4, 24, 22, 62  # pixels: between boxes, least width of a box, its height, between tiers
LETTER = 6.4  # pixels of a letter
WORD = 16  # letters of a box


@dataclass(frozen=True, slots=True)
class Box:
    """`state` is one of WORDS; `where` an address as attribute value."""

    id: str
    label: str
    where: str
    state: str


@dataclass(frozen=True, slots=True)
class Line:
    """From a box of one tier to one of the next. load: 0..1, NaN unknown."""

    low: str
    high: str
    state: str
    load: float
    title: str


def drawing(tiers: Sequence[tuple[str, Sequence[Box]]], lines: Sequence[Line], label: str) -> str:
    """The drawing; the lowest tier first. "" for a single tier."""
    tiers = [(name, boxes) for name, boxes in tiers if boxes]
    if len(tiers) < 2:
        return ""
    placed: dict[str, tuple[float, float, float]] = {}
    texts: list[str] = []
    y = 0.0
    for name, boxes in reversed(tiers):
        top = y + 14
        y = _tier(boxes, top, texts, placed)
        # no line crosses the name: that of the lowest tier is below it
        at = y + 13 if boxes is tiers[0][1] else top - 3
        texts.append(f'<text class="tier" x="2" y="{at:.0f}">{e(_named(name, boxes))}</text>')
        y += GAP
    height = y - GAP + 18
    drawn = "".join(_line(line, placed) for line in lines[:MAX_LINES] if {line.low, line.high} <= placed.keys())
    return (
        f'<svg class="around" role="group" aria-label="{e(label)}" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}">{drawn}{"".join(texts)}</svg>'
    )


def _shared(labels: Sequence[str]) -> str:
    """What all labels begin with, up to a number: "host-" of host-001 and host-012."""
    low, high = min(labels), max(labels)
    same = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    return re.sub(r"[0-9]*$", "", low[:same]) if len(labels) > 1 else ""


def _named(name: str, boxes: Sequence[Box]) -> str:
    """ "nodes host-000 to host-031": the boxes leave out what their names have in common."""
    more = f", {len(boxes) - MAX_BOXES:,} more" if len(boxes) > MAX_BOXES else ""
    return f"{name}{f' {boxes[0].label} to {boxes[-1].label}' if len(boxes) > 1 else ''}{more}"


def _tier(
    boxes: Sequence[Box], y: float, texts: list[str], placed: dict[str, tuple[float, float, float]]
) -> float:
    """Place and draw a tier from `y` downwards; its lower edge."""
    shown, prefix = boxes[:MAX_BOXES], _shared([box.label for box in boxes])
    words = [box.label.removeprefix(prefix) for box in shown]
    words = [word if len(word) <= WORD else "…" + word[1 - WORD :] for word in words]
    size = max(BOX, max(map(len, words)) * LETTER + 8)
    columns = max(1, int(WIDTH // (size + STEP)))
    for start in range(0, len(shown), columns):
        row = shown[start : start + columns]
        x = (WIDTH - len(row) * (size + STEP)) / 2
        for box, word in zip(row, words[start : start + columns], strict=True):
            placed[box.id] = (x + size / 2, y, y + HIGH)
            texts.append(
                f'<a href="{box.where}" class="box {box.state}"><title>{e(box.label)}: {WORDS[box.state]}</title>'
                f'<rect x="{x:.1f}" y="{y:.0f}" width="{size:.1f}" height="{HIGH}" rx="4"/>'
                f'<text x="{x + size / 2:.1f}" y="{y + 15:.0f}">{e(word)}</text></a>'
            )
            x += size + STEP
        y += HIGH + STEP
    return y - STEP


WORDS = {
    "ok": "OK", "critical": "critical or down", "warning": "warning", "unknown": "unknown", "none": "not monitored",
}  # fmt: skip
"""States of boxes."""


def _line(line: Line, placed: Mapping[str, tuple[float, float, float]]) -> str:
    low, high = placed[line.low], placed[line.high]
    wide = 1.0 if math.isnan(line.load) else 1.0 + 4.0 * min(1.0, max(0.0, line.load))
    return (
        f'<line class="{line.state}" x1="{low[0]:.1f}" y1="{low[1]}" x2="{high[0]:.1f}" y2="{high[2]}" '
        f'stroke-width="{wide:.1f}"><title>{e(line.title)}</title></line>'
    )
