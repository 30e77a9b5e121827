"""The `notify` section of the configuration: what holds for every receiver."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.units import Duration


class NotifyConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """How often and in what portions receivers are told.

    repeat   until a receiver is told again of an incident that still fires; 0s: never.
    batch    incidents in one notification at most.
    retry_min, retry_max  until a failed delivery is tried again: doubles from min to max, each with 50..100 % jitter;
             a receiver's own Retry-After counts where it is longer, up to an hour.
    backlog  undelivered notifications of one receiver; beyond it nothing new is queued for it, and it is told what is
             true then when it comes back.
    """

    repeat: Duration = Duration(4 * 3600)
    batch: Annotated[int, Meta(ge=1, le=100)] = 20
    retry_min: Duration = Duration(1)
    retry_max: Duration = Duration(60)
    backlog: Annotated[int, Meta(ge=10, le=100_000)] = 10_000

    def __post_init__(self) -> None:
        if self.repeat and self.repeat < 60:
            raise ValueError("`repeat` must be 0s (never) or at least 1m")
        if not 0 < self.retry_min <= self.retry_max <= 3600:
            raise ValueError("`retry_min` must be above 0 and not above `retry_max`, and that at most 1h")
