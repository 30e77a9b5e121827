"""Metric families computed at a scrape, and the page of a registry in the format that the scraper prefers.

prometheus-client holds the registries, writes both formats and negotiates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from prometheus_client import disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter


class Format(StrEnum):
    """What the page is written in; the value is its Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


END = {Format.TEXT: b"", Format.OPENMETRICS: b"# EOF\n"}
"""The last line of a page."""


class Family(Metric):
    """One metric: `name` as its samples carry it (a counter's ends in _total), `type` counter | gauge | untyped.

    A sample of NaN is left out: an unknown value has no sample. So is a label without a value.
    """

    def __init__(
        self, name: str, type: str, help: str, samples: Iterable[tuple[Mapping[str, str], float]], unit: str = ""
    ) -> None:
        family = name.removesuffix("_total") if type == "counter" else name
        super().__init__(family, help, type, unit if family.endswith(f"_{unit}") else "")
        self.samples = [Sample(name, _clean(labels), value) for labels, value in samples if value == value]

    def change(self, old: Sequence[float], new: Sequence[float]) -> bool:
        """Set other values for the same label sets, with as few new objects as possible. False where that does not do:
        some value was or is unknown."""
        if old == new:
            return True
        if len(self.samples) != len(new) or any(value != value for value in new):
            return False
        self.samples = [
            sample if sample.value == value else Sample(sample.name, sample.labels, value)
            for sample, value in zip(self.samples, new, strict=True)
        ]
        return True


def _clean(labels: Mapping[str, str]) -> dict[str, str]:
    """Without empty values; what is not Unicode (a lone surrogate) becomes `?`. The same object where nothing is."""
    if isinstance(labels, dict) and "" not in labels.values() and "".join(labels.values()).isascii():
        return labels
    return {
        name: value if value.isascii() else value.encode("utf-8", "replace").decode()
        for name, value in labels.items() if value
    }  # fmt: skip


class ComputedFamilies(Collector):
    """A collector whose families are computed at each scrape. Those without samples are left out."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return (family for family in self._families() if family.samples)


def negotiate(accept: str) -> Format:
    """The format that prometheus-client chooses by an Accept header; text where it cannot read the header."""
    try:
        _, content_type = choose_encoder(accept[:4096])
    except TypeError:  # a version that is not a number
        return Format.TEXT
    return Format.OPENMETRICS if content_type.startswith("application/openmetrics-text") else Format.TEXT


def page(registry: Collector, format: Format) -> bytes:
    """All families of a registry. An OpenMetrics page ends with `# EOF`."""
    # all names are valid without escaping, and prometheus-client is twice as fast without the check
    encode, _ = choose_encoder(f"{format.value}; escaping=allow-utf-8")
    return encode(registry)
