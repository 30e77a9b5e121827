"""The cells of a snapshot as Prometheus text, with everything but the values made once per inventory.

A page of 1,500 values has 1,500 names and label sets that never change; making them anew on every scrape is
what a scrape costs. Here a line is made again only when its value changed since the last scrape.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabricmon.catalogue import CATALOGUE, RAW, metric_of
from fabricmon.catalogue.counter import Growth
from fabricmon.catalogue.series import IDENTIFYING
from fabricmon.model import Component, Inventory, Kind, Snapshot
from fabricmon.runtime.exposition import Family, Format, head, label_set, number, render

MAX_RAW = 4096
"""Series of counters that the catalogue does not know, on one page; further ones are counted, not shown."""

MAX_INFO = 32
"""Labels of one info metric."""

STALE_PERIODS, STALE_LEAST = 3.0, 30.0
"""A value older than three periods of its part, and than 30 s, is unknown and left out (detection-methods 0.1)."""


@dataclass(slots=True)
class _Block:
    """One family while the page is laid out. `rank`: its place on the page."""

    name: str
    type: str
    help: str
    unit: str
    rank: int
    prefixes: list[str] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)

    def heads(self) -> dict[Format, str]:
        return {f: head(self.name, self.type, self.help, self.unit, f) for f in Format}


@dataclass(slots=True)
class _Span:
    """The cells of one part, and what of them was last rendered."""

    first: int
    end: int
    period: float
    shown: bytes = b""


class Page:
    """Renders the snapshots of one inventory. Not for use from two threads."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.left_out = 0
        self._spans: list[_Span] = []
        self._tops: dict[int, tuple[float, str, str]] = {}  # cell -> value at which it saturates, row, column
        self._saturating: dict[str, list[int]] = {}  # row's label set -> cells
        self._labels: dict[str, dict[str, str]] = {}
        blocks = self._blocks()
        self._lines: list[str] = []
        self._place = array("q", [-1]) * inventory.size  # cell -> line
        self._prefix: list[str] = []
        self._families: list[tuple[dict[Format, str], int, int]] = []
        for block in blocks:
            first = len(self._prefix)
            self._prefix.extend(block.prefixes)
            for n, cell in enumerate(block.cells):
                self._place[cell] = first + n
            self._families.append((block.heads(), first, len(self._prefix)))
        self._lines = [""] * len(self._prefix)
        self._values = array("d", [math.nan]) * inventory.size
        self._info = {f: "".join(render(_info(inventory), f)) for f in Format}
        self._saturated: dict[Format, str] = {}

    def render(self, s: Snapshot, monotonic: float, format: Format) -> list[str]:
        """The page's text in pieces. `monotonic` is the node's clock now; `s` must have this page's inventory."""
        if self._refresh(s, monotonic) or not self._saturated:
            families = tuple(self._saturation())
            self._saturated = {f: "".join(render(families, f)) for f in Format}
        pieces: list[str] = []
        for heads, first, end in self._families:
            body = "".join(self._lines[first:end])
            if body:
                pieces.append(heads[format])
                pieces.append(body)
        pieces += (self._info[format], self._saturated[format])
        return pieces

    def _refresh(self, s: Snapshot, monotonic: float) -> bool:
        """Make the lines of changed cells anew; cells of a part that is stale are unknown. False: none changed."""
        changed = False
        lines, place, prefix, values = self._lines, self._place, self._prefix, self._values
        for span, taken in zip(self._spans, s.taken, strict=True):
            stale = not monotonic - taken <= max(STALE_PERIODS * span.period, STALE_LEAST)
            new = _nothing(span.end - span.first) if stale else s.values[span.first : span.end]
            shown = new.tobytes()
            if shown == span.shown:
                continue
            changed = True
            old_bits = struct.unpack(f"={len(span.shown) // 8}Q", span.shown) or (None,) * len(new)
            new_bits = struct.unpack(f"={len(new)}Q", shown)
            for cell, a, b, value in zip(range(span.first, span.end), old_bits, new_bits, new, strict=True):
                if a != b:
                    values[cell] = value
                    line = place[cell]
                    if line >= 0:
                        lines[line] = f"{prefix[line]}{number(value)}\n" if value == value else ""
            span.shown = shown
        return changed

    def _saturation(self) -> Iterable[Family]:
        """Counters at their top say "at least": which, and how many of a port's readable ones."""
        at_top: list[tuple[dict[str, str], float]] = []
        counts: list[tuple[dict[str, str], float]] = []
        for row, cells in self._saturating.items():
            known = [cell for cell in cells if not math.isnan(self._values[cell])]
            if not known:
                continue
            full = [cell for cell in known if self._values[cell] >= self._tops[cell][0]]
            labels = self._labels[row]
            counts.append((labels, float(len(full))))
            at_top.extend(({**labels, "counter": self._tops[cell][2]}, 1.0) for cell in full)
        yield Family("fabricmon_port_counters_saturated", "gauge",
                     "How many of the port's counters stand at their top and count no further", counts)
        yield Family("fabricmon_port_saturated", "gauge",
                     "1 for a counter that stands at its top: its true value is at least what is shown", at_top)
        yield Family("fabricmon_raw_counters_left_out", "gauge",
                     f"Counters unknown to the catalogue beyond the {MAX_RAW} that the page shows",
                     [({}, float(self.left_out))])

    def _blocks(self) -> list[_Block]:
        """Families in catalogue order, then those of unknown counters. One series per name: of two parts that hold
        the same column of the same row, the one read more often is shown."""
        order = {name: n for n, name in enumerate(CATALOGUE)}
        blocks: dict[str, _Block] = {}
        taken: set[str] = set()
        base, raw, ranked = 0, 0, []
        for part in self.inventory.parts:
            self._spans.append(_Span(base, base + part.size, part.period))
            ranked.append((part.period, base, part))
            base += part.size
        for _, base, part in sorted(ranked, key=lambda r: r[:2]):
            named = [identifying(part.kind, component) for component in part.components]
            rows = [label_set(labels) for labels in named]
            for c, column in enumerate(part.columns):
                counter = CATALOGUE.get(column)
                metric = metric_of(column if counter or column.startswith(RAW) else f"{RAW}{part.collector}/{column}")
                block = blocks.setdefault(
                    metric.name, _Block(metric.name, metric.type, metric.help, counter.unit if counter else "",
                                        order.get(column, len(order))))
                more = dict(metric.labels)
                for r, row in enumerate(rows):
                    cell = base + r * len(part.columns) + c
                    series = metric.name + (label_set({**named[r], **more}) if more else row)
                    if series in taken:
                        continue
                    if counter is None:
                        if raw >= MAX_RAW:
                            self.left_out += 1
                            continue
                        raw += 1
                    taken.add(series)
                    block.cells.append(cell)
                    block.prefixes.append(f"{series} ")
                    if counter and counter.growth in (Growth.SATURATES, Growth.TICKS) and part.kind is Kind.PORT:
                        self._tops[cell] = (counter.top, row, column)
                        self._saturating.setdefault(row, []).append(cell)
                        self._labels[row] = named[r]
        return sorted(blocks.values(), key=lambda b: b.rank)


def identifying(kind: Kind, component: Component) -> dict[str, str]:
    """The labels that name a component's series; its name where the collector gave none of them."""
    labels = {name: component.labels[name] for name in IDENTIFYING[kind] if component.labels.get(name)}
    if labels or not IDENTIFYING[kind]:
        return labels
    device, _, port = component.name.partition("/")
    return {"device": device, "port": port} if kind is Kind.PORT else {IDENTIFYING[kind][0]: component.name}


def _info(inventory: Inventory) -> Iterable[Family]:
    """One info metric per kind: everything known about a row, collected from all parts that hold it; the last says."""
    rows: dict[Kind, dict[str, dict[str, str]]] = {}
    for part in inventory.parts:
        for component in part.components:
            known = rows.setdefault(part.kind, {}).setdefault(component.name, identifying(part.kind, component))
            for name, value in component.labels.items():
                if value and name not in IDENTIFYING[part.kind] and (name in known or len(known) < MAX_INFO):
                    known[_label_name(name)] = value
    for kind, components in rows.items():
        if any(components.values()):
            yield Family(f"fabricmon_{kind}_info", "gauge", f"What is known about a {kind}; the value is always 1",
                         [(labels, 1.0) for labels in components.values()])


def _label_name(name: str) -> str:
    """A valid label name: letters, digits, underscore, no digit first."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return f"_{clean}" if clean[:1].isdigit() or not clean else clean


def _nothing(size: int) -> array[float]:
    return array("d", [math.nan]) * size
