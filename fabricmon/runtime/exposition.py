"""The two text formats that Prometheus reads, and which of them a scraper asked for. Pure functions.

Text 0.0.4 and OpenMetrics 1.0.0 differ in little: OpenMetrics names a counter's family without `_total`, has a
UNIT line, calls an unknown type `unknown` and ends with `# EOF`. Sample lines are the same in both.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple


class Format(StrEnum):
    """What the page is written in; the value is its Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Family(NamedTuple):
    """One metric: `name` as its samples carry it (a counter's ends in _total), `type` counter | gauge | untyped.

    A sample of NaN is left out: what is unknown is not there.
    """

    name: str
    type: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]
    unit: str = ""


def render(families: Iterable[Family], format: Format) -> list[str]:
    """The lines (each with its line break) of families that have samples. OpenMetrics: without the closing EOF."""
    lines: list[str] = []
    for family in families:
        name = family.name
        samples = [f"{name}{label_set(labels)} {number(v)}\n" for labels, v in family.samples if v == v]
        if samples:
            lines.append(head(family.name, family.type, family.help, family.unit, format))
            lines.extend(samples)
    return lines


def head(name: str, type: str, help: str, unit: str, format: Format) -> str:
    """The comment lines before a family's samples."""
    if format is Format.TEXT:
        text = help.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {name} {text}\n# TYPE {name} {type}\n"
    family = name.removesuffix("_total") if type == "counter" else name
    text = help.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    lines = f"# TYPE {family} {'unknown' if type == 'untyped' else type}\n"
    if unit and family.endswith(f"_{unit}"):
        lines += f"# UNIT {family} {unit}\n"
    return f"{lines}# HELP {family} {text}\n"


EOF = "# EOF\n"
"""The last line of an OpenMetrics page."""


def label_set(labels: Mapping[str, str]) -> str:
    """`{device="mlx5_0",port="1"}`; "" for none. An empty value is the same as no label and left out."""
    return _label_set(tuple(labels.items()))


@functools.lru_cache(maxsize=4096)
def _label_set(labels: tuple[tuple[str, str], ...]) -> str:
    inner = ",".join(f'{name}="{escape(value)}"' for name, value in labels if value)
    return f"{{{inner}}}" if inner else ""


def escape(value: str) -> str:
    """A label's value; what is not Unicode (a lone surrogate) becomes `?`."""
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> str:
    """Shortest text that reads back as the same float64; whole numbers without an exponent up to 2**63."""
    if value.is_integer() and -(2.0**63) < value < 2.0**64:
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def negotiate(accept: str) -> Format:
    """The format an Accept header prefers. Text 0.0.4 where it says nothing we speak: better a page than none.

    Of equal wishes OpenMetrics wins: it is what Prometheus asks for first.
    """
    best, wish = Format.TEXT, 0.0
    for item in accept[:4096].split(","):
        media, *parameters = (part.strip().lower() for part in item.split(";"))
        given = dict(p.split("=", 1) for p in parameters if "=" in p)
        try:
            q = float(given.get("q", "1"))
        except ValueError:
            continue
        if media == "application/openmetrics-text" and given.get("version", "1.0.0") in ("1.0.0", "0.0.1"):
            if q > 0 and q >= wish:
                best, wish = Format.OPENMETRICS, q
        elif media in ("text/plain", "text/*", "*/*") and given.get("version", "0.0.4") == "0.0.4" and q > wish:
            best, wish = Format.TEXT, q
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header allows gzip."""
    for item in accept_encoding[:4096].split(","):
        coding, *parameters = (part.strip().lower() for part in item.split(";"))
        if coding in ("gzip", "*"):
            return not any(p.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for p in parameters)
    return False


def gzip(page: bytes) -> bytes:
    """A gzip member at the fastest level: a scrape page is mostly names, which even that level shrinks tenfold."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(page) + packer.flush()
