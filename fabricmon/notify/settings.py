"""The `notify` section of the configuration: what holds for every receiver."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.units import Duration


class NotifyConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Rate and batches of notifications.

    repeat   until a firing incident is sent again; 0s: never.
    batch    incidents in one notification at most.
    budget   messages to one receiver in any 5 minutes at most; 0: no limit. What is over comes in one digest.
    retry_min  first wait until a failed delivery is tried again; doubles, each wait with 50..100 % jitter; a receiver's
             own Retry-After counts where it is longer, up to an hour.
    retry_max  longest of these waits.
    backlog  undelivered notifications of one receiver; beyond it nothing new is queued, and the receiver gets the
             state of then when it comes back.
    """

    repeat: Duration = Duration(4 * 3600)
    batch: Annotated[int, Meta(ge=1, le=100)] = 20
    budget: Annotated[int, Meta(ge=0, le=1000)] = 6
    retry_min: Duration = Duration(1)
    retry_max: Duration = Duration(60)
    backlog: Annotated[int, Meta(ge=10, le=100_000)] = 10_000

    def __post_init__(self) -> None:
        if self.repeat and self.repeat < 60:
            raise ValueError("`repeat` must be 0s (never) or at least 1m")
        if not 0 < self.retry_min <= self.retry_max <= 3600:
            raise ValueError("`retry_min` must be above 0 and not above `retry_max`, and that at most 1h")
