"""The cells of a snapshot as Prometheus text. Names and label sets, the main cost of a scrape, are written once per
inventory, a line again only when its value changed since the last scrape, and a piece of the page only when one of its
lines did."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.registry import Collector

from fabricmon.agent.metrics.family_writer import FamilyWriter, number, written
from fabricmon.catalogue import CATALOGUE, RAW, metric_of
from fabricmon.catalogue.counter import Growth
from fabricmon.catalogue.series import IDENTIFYING
from fabricmon.fleet.freshness import age_limit
from fabricmon.model import Component, Inventory, Kind, Snapshot
from fabricmon.runtime.exposition import Family, Format

MAX_RAW = 4096
"""Series of counters that are not in the catalogue, on one page; further ones are only counted."""

MAX_INFO = 32
"""Labels of one info metric."""

PIECE = 64
"""Lines of one piece of the page, or those of its only family."""

NAMES = {Kind.GPU: "GPU", Kind.PCIE: "PCIe link", Kind.NVLINK: "NVLink"}
"""Kinds as their HELP line names them."""


_Row = tuple[tuple[str, str], ...]
"""Labels that name a row."""


@dataclass(slots=True)
class _Block:
    """One family while the page is laid out. `rank`: its place on the page."""

    name: str
    type: str
    help: str
    unit: str
    rank: int
    labels: list[Mapping[str, str]] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)

    def family(self, values: Iterable[float]) -> Family:
        """The family with a value for each cell."""
        return Family(self.name, self.type, self.help, zip(self.labels, values, strict=True), self.unit)


@dataclass(slots=True)
class _PagePiece:
    """Consecutive families of the page: their heads, first and last lines; their text in each format, while no line
    changes."""

    heads: list[tuple[dict[Format, str], int, int]] = field(default_factory=list)
    text: dict[Format, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Span:
    """The cells of one part, and what of them was last rendered."""

    first: int
    end: int
    period: float
    shown: bytes = b""


class MetricsPage:
    """Renders the snapshots of one inventory. Not for use from two threads."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.left_out = 0
        self._spans: list[_Span] = []
        self._tops: dict[int, tuple[float, str]] = {}  # cell -> value at which it saturates, column
        self._saturating: dict[_Row, list[int]] = {}
        self._blocks = self._layout()
        self._place = array("q", [-1]) * inventory.size  # cell -> line
        self._prefix: list[str] = []
        self._pieces: list[_PagePiece] = []
        self._piece_of: list[_PagePiece] = []  # of each line
        self._write_heads()
        self._lines = [""] * len(self._prefix)
        self._values = array("d", [math.nan]) * inventory.size
        self._info = tuple(_info(inventory))
        self._writer = FamilyWriter()
        self._described_text: dict[Format, list[bytes]] = {}

    def render(self, s: Snapshot, monotonic: float, format: Format) -> list[bytes]:
        """The page's text in pieces. `monotonic` is the node's clock now; `s` must have this page's inventory."""
        self._refresh(s, monotonic)
        if format not in self._described_text:
            self._described_text[format] = self._writer.pieces(self._described(), format)
        pieces = [piece.text.get(format) or self._text(piece, format) for piece in self._pieces]
        return pieces + self._described_text[format]

    def _text(self, piece: _PagePiece, format: Format) -> bytes:
        """The families of a piece that have values."""
        families = []
        for heads, first, end in piece.heads:
            if body := "".join(self._lines[first:end]):
                families.append(heads[format] + body)
        text = piece.text[format] = "".join(families).encode()
        return text

    def _write_heads(self) -> None:
        """Write what stands before the values, and divide the families into pieces."""
        begun = -PIECE - 1
        for block in self._blocks:
            first = len(self._prefix)
            heads, prefixes = written(block.family([0.0] * len(block.cells)))
            self._prefix.extend(prefixes)
            if len(self._prefix) - begun > PIECE:
                self._pieces.append(_PagePiece())
                begun = first
            piece = self._pieces[-1]
            for n, cell in enumerate(block.cells):
                self._place[cell] = first + n
                self._piece_of.append(piece)
            piece.heads.append((heads, first, len(self._prefix)))

    def families(self, s: Snapshot, monotonic: float) -> Iterable[Family]:
        """The same families, samples and values as `render`."""
        self._refresh(s, monotonic)
        for block in self._blocks:
            yield block.family(self._values[cell] for cell in block.cells)
        yield from self._described()

    def _described(self) -> Iterable[Family]:
        """What is known of components, and which counters are saturated."""
        yield from self._info
        yield from self._saturation()

    def _refresh(self, s: Snapshot, monotonic: float) -> None:
        """Write the lines of changed cells; cells of a stale part are unknown."""
        lines, place, prefix, values = self._lines, self._place, self._prefix, self._values
        for span, taken in zip(self._spans, s.taken, strict=True):
            stale = not monotonic - taken <= age_limit(span.period)
            new = _nothing(span.end - span.first) if stale else s.values[span.first : span.end]
            shown = new.tobytes()
            if shown == span.shown:
                continue
            self._described_text.clear()
            old_bits = struct.unpack(f"={len(span.shown) // 8}Q", span.shown) or (None,) * len(new)
            new_bits = struct.unpack(f"={len(new)}Q", shown)
            for cell, a, b, value in zip(range(span.first, span.end), old_bits, new_bits, new, strict=True):
                if a != b:
                    values[cell] = value
                    line = place[cell]
                    if line >= 0:
                        lines[line] = f"{prefix[line]}{number(value)}\n" if value == value else ""
                        self._piece_of[line].text.clear()
            span.shown = shown

    def _saturation(self) -> Iterable[Family]:
        """Saturated counters, whose values are lower bounds, and their number by port."""
        values = self._values
        at_top: list[tuple[dict[str, str], float]] = []
        counts: list[tuple[dict[str, str], float]] = []
        for row, cells in self._saturating.items():
            known = [cell for cell in cells if values[cell] == values[cell]]
            if not known:
                continue
            full = [cell for cell in known if values[cell] >= self._tops[cell][0]]
            counts.append((dict(row), float(len(full))))
            at_top.extend(({**dict(row), "counter": self._tops[cell][1]}, 1.0) for cell in full)
        yield Family("fabricmon_port_counters_saturated", "gauge",
                     "Number of the port's counters that are saturated", counts)
        yield Family("fabricmon_port_saturated", "gauge",
                     "1 for a saturated counter: its true value is at least the one shown", at_top)
        yield Family("fabricmon_raw_counters_left_out", "gauge",
                     f"Counters that are not in the catalogue, beyond the {MAX_RAW} shown",
                     [({}, float(self.left_out))])

    def _layout(self) -> list[_Block]:
        """Families in catalogue order, then those of unknown counters. One series per name: of two parts that hold
        the same column of the same row, the one read more often is shown."""
        order = {name: n for n, name in enumerate(CATALOGUE)}
        blocks: dict[str, _Block] = {}
        taken: set[tuple[str, _Row, _Row]] = set()
        base, raw, ranked = 0, 0, []
        for part in self.inventory.parts:
            self._spans.append(_Span(base, base + part.size, part.period))
            if part.kind is not Kind.FLOW:  # one a peer: by port and leaf they are the prober's own
                ranked.append((part.period, base, part))
            base += part.size
        for _, base, part in sorted(ranked, key=lambda r: r[:2]):
            named = [identifying(part.kind, component) for component in part.components]
            rows = [tuple(labels.items()) for labels in named]
            for c, column in enumerate(part.columns):
                counter = CATALOGUE.get(column)
                metric = metric_of(column if counter or column.startswith(RAW) else f"{RAW}{part.collector}/{column}")
                block = blocks.setdefault(
                    metric.name, _Block(metric.name, metric.type, metric.help, counter.unit if counter else "",
                                        order.get(column, len(order))))
                more = tuple(metric.labels)
                for r, row in enumerate(rows):
                    cell = base + r * len(part.columns) + c
                    series = (metric.name, row, more)
                    if series in taken:
                        continue
                    if counter is None:
                        if raw >= MAX_RAW:
                            self.left_out += 1
                            continue
                        raw += 1
                    taken.add(series)
                    block.cells.append(cell)
                    block.labels.append({**named[r], **dict(more)} if more else named[r])
                    if counter and counter.growth in (Growth.SATURATES, Growth.TICKS) and part.kind is Kind.PORT:
                        self._tops[cell] = (counter.top, column)
                        self._saturating.setdefault(row, []).append(cell)
        return sorted(blocks.values(), key=lambda b: b.rank)


class HardwareMetrics(Collector):
    """The node's newest snapshot for a scraper, fast by `pieces`, or like any other collector in a registry."""

    def __init__(self, snapshot: Callable[[], Snapshot], monotonic: Callable[[], float]) -> None:
        self._snapshot, self._monotonic = snapshot, monotonic
        self._laid_out: MetricsPage | None = None

    def _newest(self) -> tuple[MetricsPage, Snapshot]:
        snapshot = self._snapshot()
        if self._laid_out is None or self._laid_out.inventory is not snapshot.inventory:
            self._laid_out = MetricsPage(snapshot.inventory)
        return self._laid_out, snapshot

    def pieces(self, format: Format) -> list[bytes]:
        """The families' text without an end, in pieces."""
        laid_out, snapshot = self._newest()
        return laid_out.render(snapshot, self._monotonic(), format)

    def collect(self) -> Iterable[Family]:
        """Families that have samples, in the page's order."""
        laid_out, snapshot = self._newest()
        return (family for family in laid_out.families(snapshot, self._monotonic()) if family.samples)


def identifying(kind: Kind, component: Component) -> dict[str, str]:
    """The labels that name a component's series; its name where the collector gave none of them."""
    labels = {name: component.labels[name] for name in IDENTIFYING[kind] if component.labels.get(name)}
    if labels or not IDENTIFYING[kind]:
        return labels
    device, _, port = component.name.partition("/")
    return {"device": device, "port": port} if kind is Kind.PORT else {IDENTIFYING[kind][0]: component.name}


def _info(inventory: Inventory) -> Iterable[Family]:
    """One info metric per kind: the labels of a row from all its parts; the last part overrides."""
    rows: dict[Kind, dict[str, dict[str, str]]] = {}
    for part in inventory.parts:
        for component in part.components if part.kind is not Kind.FLOW else ():
            known = rows.setdefault(part.kind, {}).setdefault(component.name, identifying(part.kind, component))
            for name, value in component.labels.items():
                if value and name not in IDENTIFYING[part.kind] and (name in known or len(known) < MAX_INFO):
                    known[_label_name(name)] = value
    for kind, components in rows.items():
        if any(components.values()):
            yield Family(f"fabricmon_{kind}_info", "gauge",
                         f"Facts about a {NAMES.get(kind, kind)} as labels; the value is always 1",
                         [(labels, 1.0) for labels in components.values()])


def _label_name(name: str) -> str:
    """A valid label name: letters, digits, underscore, no digit first."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return f"_{clean}" if clean[:1].isdigit() or not clean else clean


def _nothing(size: int) -> array[float]:
    return array("d", [math.nan]) * size
