"""The `central.record` section of the configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.units import Duration


class RecordConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Recording of the server's inputs and decisions.

    directory  where segments are written; "" records nothing
    total      bytes of all segments there; beyond it the oldest are removed
    segment    bytes after which a new segment begins
    every      time after which a new segment begins; a reader can begin at each segment
    """

    directory: str = ""
    total: Annotated[int, Meta(ge=1 << 20)] = 20 << 30
    segment: Annotated[int, Meta(ge=1 << 16)] = 256 << 20
    every: Duration = Duration(3600)

    def __post_init__(self) -> None:
        if self.total < 2 * self.segment:
            raise ValueError("`total` must be at least twice `segment`")
        if self.every < 10:
            raise ValueError("`every` must be at least 10s")
