"""Metric families as prometheus-client writes them, in a fraction of its time.

What stands before a sample's value is prometheus-client's own text, kept from scrape to scrape; only values are written
here, whole numbers as such: 1250000000 where prometheus-client has 1.25e+09, which takes it ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from fabricmon.runtime.exposition import END, ComputedFamilies, Format, page


class FamilyWriter:
    """Keeps the text of each family before its values as long as its label sets stay, and all of it as long as its
    samples do."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[list[dict[str, str]], dict[Format, str], list[str]]] = {}
        self._lines: dict[str, tuple[list[Sample], list[str], dict[Format, bytes]]] = {}

    def pieces(self, families: Iterable[Metric], format: Format) -> list[bytes]:
        """The text of each family that has samples, without the end of a page; the same object while it is the same."""
        pieces: list[bytes] = []
        for family in families:
            if not family.samples:
                continue
            kept = self._lines.get(family.name)
            if kept is None or (kept[0] is not family.samples and kept[0] != family.samples):
                kept = self._lines[family.name] = (family.samples, self._written(family, kept), {})
            piece = kept[2].get(format)
            if piece is None:
                piece = kept[2][format] = f"{self._shapes[family.name][1][format]}{''.join(kept[1])}".encode()
            pieces.append(piece)
        return pieces

    def _written(self, family: Metric, kept: tuple[list[Sample], list[str], dict[Format, bytes]] | None) -> list[str]:
        """The lines of a family; those of samples that are the same objects are taken from before."""
        labels = [sample.labels for sample in family.samples]
        shape = self._shapes.get(family.name)
        if shape is None or shape[0] != labels:
            shape, kept = (labels, *written(family)), None
            self._shapes[family.name] = shape
        known = {id(sample): line for sample, line in zip(kept[0], kept[1], strict=True)} if kept else {}
        return [
            known.get(id(sample)) or f"{start}{number(float(sample.value))}\n"
            for start, sample in zip(shape[2], family.samples, strict=True)
        ]


def written(family: Metric) -> tuple[dict[Format, str], list[str]]:
    """The lines before a family's samples, by format, and each sample's line up to its value, which is the same in
    both formats."""
    heads, prefixes = {}, []
    for format in Format:
        lines = page(ComputedFamilies(lambda: [family]), format).removesuffix(END[format]).decode().split("\n")[:-1]
        prefixes = [line[: line.rindex(" ") + 1] for line in lines if not line.startswith("#")]
        heads[format] = "".join(f"{line}\n" for line in lines[: len(lines) - len(prefixes)])
    return heads, prefixes


def number(value: float) -> str:
    """Shortest text that reads back as the same float64; whole numbers without an exponent up to 2**63."""
    if value.is_integer() and -(2.0**63) < value < 2.0**64:
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
